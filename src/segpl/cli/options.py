"""What commands accept: kinds of values, and the parts of their help that are read off the source."""

import argparse
from typing import Any, Literal

from segpl.cli import describe


def assignment(text: str) -> tuple[str, Any]:
    """`key=value`, the value read as YAML."""
    import yaml

    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form key=value")
    try:
        return key, yaml.safe_load(value)
    except yaml.YAMLError:
        raise argparse.ArgumentTypeError(f"the value of {text!r} is not valid YAML") from None


def natural(text: str) -> int:
    """A whole number of 0 or more."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 0 or more")
    return int(text)


def positive(text: str) -> int:
    """A whole number of 1 or more."""
    if natural(text) == 0:
        raise argparse.ArgumentTypeError("give a whole number of 1 or more")
    return int(text)


def length(text: str) -> float:
    """A number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def temperature(text: str) -> float | Literal["fit"]:
    """A number above 0, or the word fit."""
    return "fit" if text == "fit" else length(text)


def settings_help() -> str:
    """What --method and --set accept, from the docstrings of the fields."""

    def lines(title: str, settings: list[describe.Setting], prefix: str = "") -> list[str]:
        rows = [
            f"  {prefix + setting.name:<24} {setting.text} [{setting.default}]"
            for setting in settings
        ]
        return [title, *rows, ""] if rows else []

    text = [
        "methods:",
        *(f"  {name:<24} {method.text}" for name, method in describe.methods().items()),
        "",
    ]
    own = [setting for setting in describe.run_settings() if setting.name not in ("data", "method")]
    text += lines("settings (--set key=value, or a line of the --config file):", own)
    text += lines(
        "settings that methods share (one that lacks a setting says so):",
        describe.shared_settings(),
        "method.",
    )
    for name, method in describe.methods().items():
        text += lines(f"settings of {name}:", method.settings, "method.")
    for name, prior in describe.priors().items():
        text += [f"prior {name} (--set method.prior.name={name}): {prior.text}"]
        text += lines("", prior.settings, "method.prior.")[1:]
    return "\n".join(text)


def shifts_help() -> str:
    """What --shift accepts."""
    forms = "shifts (NAME=0.1 a level, NAME=0:0.1:6 six levels, NAME its usual five, all every one of these):"
    return "\n".join([forms, *(f"  {name:<12} {text}" for name, text in describe.shifts().items())])
