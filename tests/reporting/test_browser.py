"""The report in a real browser, without a network."""

import shutil
from collections.abc import Iterator

import pytest
from made_up_runs import STRANGE, data_folder, run_folder

from segpl.reporting.page import write_report

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")

WIDTHS = (390, 1440)
"""Pixels of a phone and of a desktop."""
HOSTILE_METHOD = "<img src=x onerror=alert(1)>"
METHOD_PANEL = 1
"""The first panel of the viewer shows the image, the others the methods."""
SATURATED_COLOURS = """() => {
    const canvas = document.querySelectorAll('#viewer-panels canvas')[1];
    const context = canvas.getContext('2d');
    const rgba = context.getImageData(0, 0, canvas.width, canvas.height).data;
    const colours = new Set();
    for (let start = 0; start < rgba.length; start += 4) {
        const [red, green, blue] = rgba.slice(start, start + 3);
        const strongest = Math.max(red, green, blue);
        if (strongest - Math.min(red, green, blue) <= 60) continue;
        if (strongest === red) colours.add('red');
        else if (strongest === green) colours.add('green');
        else colours.add('blue');
    }
    return [...colours].sort();
}"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    data = data_folder(folder / "data")
    for number, method in enumerate(("supervised", HOSTILE_METHOD, "segpl")):
        run_folder(folder / "runs" / f"run {number}", data, method, shifts=(("ood", 0.1),))
    return write_report([folder / "runs"], folder / "report.html")


@pytest.fixture(scope="module")
def browser() -> Iterator:
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(params=WIDTHS)
def page(request, browser, file) -> Iterator:
    """The page from disk with the network off; it records its messages and requests."""
    context = browser.new_context(viewport={"width": request.param, "height": 900}, offline=True)
    page = context.new_page()
    page.messages = []
    page.requests = []
    page.on("console", lambda message: page.messages.append(message.text))
    page.on("pageerror", lambda error: page.messages.append(str(error)))
    page.on("dialog", lambda dialog: page.messages.append(dialog.message))
    page.on("request", lambda request: page.requests.append(request.url))
    page.goto(file.as_uri())
    page.wait_for_selector("#viewer-panels canvas")
    yield page
    context.close()


def panel_picture(page):
    """What the panel of the first method shows, as a data URL."""
    script = "panel => document.querySelectorAll('#viewer-panels canvas')[panel].toDataURL()"
    return page.evaluate(script, METHOD_PANEL)


def wait_for_another_picture(page, picture):
    script = "old => document.querySelectorAll('#viewer-panels canvas')[1].toDataURL() !== old"
    page.wait_for_function(script, arg=picture)


def texts(page, selector):
    script = "selector => [...document.querySelectorAll(selector)].map(node => node.textContent)"
    return page.evaluate(script, selector)


def position(page):
    return page.text_content("#viewer-position")


def press(page, key):
    page.focus("#viewer")
    page.keyboard.press(key)


def test_the_page_runs_without_messages(page):
    assert not page.messages


def test_the_page_requests_nothing_but_itself(page):
    assert [url for url in page.requests if not url.startswith("data:")] == [page.url]


def test_all_images_are_decoded(page):
    assert page.evaluate(
        "[...document.images].every(image => image.complete && image.naturalWidth > 0)"
    )


def test_the_page_fits_the_width_of_the_screen(page):
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_script_in_the_name_of_a_case_is_not_executed(page):
    assert page.title() == "Report: runs"  # the script would change the title


def test_the_viewer_starts_at_the_slice_with_the_most_foreground(page):
    assert position(page) == "slice 3 of 5"


def test_arrow_keys_change_the_slice(page):
    before = panel_picture(page)
    press(page, "ArrowRight")
    assert position(page) == "slice 4 of 5"
    assert panel_picture(page) != before
    press(page, "ArrowLeft")
    assert position(page) == "slice 3 of 5"
    assert panel_picture(page) == before


def test_the_slider_takes_arrow_keys_once(page):
    page.focus("#viewer-slice")
    page.keyboard.press("ArrowLeft")
    assert position(page) == "slice 2 of 5"


def test_slices_end_at_the_first(page):
    page.fill("#viewer-slice", "0")
    assert position(page) == "slice 1 of 5"
    press(page, "ArrowLeft")
    assert position(page) == "slice 1 of 5"


def test_all_cases_can_be_chosen_by_name(page):
    assert set(texts(page, "#viewer-case option")) == set(STRANGE)


def test_arrow_keys_change_the_case(page):
    before = panel_picture(page)
    press(page, "ArrowDown")
    wait_for_another_picture(page, before)
    assert page.input_value("#viewer-case") == "1"


def test_every_panel_is_named_after_its_method(page):
    captions = texts(page, "#viewer-panels figcaption")
    assert captions == ["image", "supervised", HOSTILE_METHOD, "segpl"]


@pytest.mark.parametrize(
    ("layer", "key"), [("truth", "t"), ("masks", "m"), ("errors", "e"), ("uncertainty", "u")]
)
def test_each_layer_can_be_switched_by_box_and_by_key(page, layer, key):
    before = panel_picture(page)
    page.click(f"#show-{layer}")
    assert panel_picture(page) != before
    press(page, key)
    assert panel_picture(page) == before


def test_errors_have_the_colours_of_the_paper(page):
    page.uncheck("#show-truth")
    page.uncheck("#show-masks")
    page.check("#show-errors")
    assert page.evaluate(SATURATED_COLOURS) == ["blue", "green", "red"]
