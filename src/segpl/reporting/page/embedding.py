"""Images, SVG plots and JSON as text that can stand inside the page."""

import base64
import io
import json
import re
from typing import Any

from markupsafe import Markup
from PIL import Image


def data_url(content: bytes, image_format: str) -> str:
    """The contents of an image file as an address that needs no file."""
    encoded = base64.b64encode(content).decode()
    return f"data:image/{image_format};base64,{encoded}"


def image_url(image: Image.Image, image_format: str, **options: Any) -> str:
    """An image, saved with Pillow's `options`, as an address that needs no file."""
    stream = io.BytesIO()
    image.save(stream, image_format, **options)
    return data_url(stream.getvalue(), image_format)


def inline_svg(svg: bytes, name: str, description: str) -> Markup:
    """An SVG file as an element of the page, with a description for screen readers.

    Every identifier starts with `name`, because the page holds several SVG elements.
    """
    text = svg.decode()
    element = text[text.index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>", "", element, flags=re.DOTALL)

    def with_own_identifiers(tag: re.Match[str]) -> str:
        return re.sub(r'(\sid="|href="#|url\(#)', rf"\g<1>{name}-", tag[0])

    element = re.sub(r"<[^>]*>", with_own_identifiers, element)
    attributes = Markup('<svg role="img" aria-label="{}" class="plot"').format(description)
    # matplotlib has escaped all text in the file.
    return Markup(re.sub(r"<svg", str(attributes), element, count=1))


def script_json(value: Any) -> Markup:
    """JSON for a script element. Nothing in `value` can end the element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)
