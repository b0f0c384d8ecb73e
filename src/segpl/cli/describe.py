"""Help texts read off the source: a field's docstring is its help. Nothing is imported, so `--help` stays quick."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).parent.parent
NOT_METHODS = {"__init__", "base"}


class Setting(NamedTuple):
    """One field of a dataclass."""

    name: str
    default: str
    text: str


class Description(NamedTuple):
    """A dataclass as a user sees it."""

    text: str
    settings: list[Setting]


NOTHING = Description("", [])


def methods() -> dict[str, Description]:
    """Every method by name: one file each, the dataclass in it is the method."""
    files = sorted(
        file for file in (PACKAGE / "methods").glob("*.py") if file.stem not in NOT_METHODS
    )
    return {file.stem.replace("_", "-"): _dataclasses(file)[-1][1] for file in files}


def priors() -> dict[str, Description]:
    """Every prior by name."""
    found = _dataclasses(PACKAGE / "em/thresholds.py")
    return {
        name.lower(): description
        for name, description in found
        if name not in ("Prior", "Gaussian")
    }


def shifts() -> dict[str, str]:
    """Every shift by name."""
    found: dict[str, str] = {}
    for file in ("shifts.py", "artefacts.py"):
        for node in ast.parse((PACKAGE / "evaluation" / file).read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                names = [
                    part.value
                    for part in node.body
                    if isinstance(part, ast.Assign) and ast.unparse(part.targets[0]) == "name"
                ]
                found |= {str(ast.literal_eval(name)): _first_line(node) for name in names}
    return {name: text for name, text in found.items() if name != "clean"}


def shared_settings() -> list[Setting]:
    """The settings that methods have in common."""
    found = _dataclasses(PACKAGE / "methods/base.py")
    return list(
        {
            setting.name: setting for _, description in found for setting in description.settings
        }.values()
    )


def run_settings() -> list[Setting]:
    """The settings of a run, without the reasons that it keeps for them."""
    found = dict(_dataclasses(PACKAGE / "settings/run.py"))["Run"].settings
    planned = _planned()
    shown = [
        setting._replace(default="from the data") if setting.name in planned else setting
        for setting in found
    ]
    return [setting for setting in shown if setting.name != "why"]


def _planned() -> set[str]:
    """The settings that the data suggest: the keys of what `plan` returns."""
    module = ast.parse((PACKAGE / "settings/plan.py").read_text(encoding="utf-8"))
    (plan,) = [
        node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == "plan"
    ]
    given = [node.value for node in ast.walk(plan) if isinstance(node, ast.Return)]
    return {
        str(ast.literal_eval(key))
        for each in given
        if isinstance(each, ast.Dict)
        for key in each.keys
        if key
    }


def _dataclasses(file: Path) -> list[tuple[str, Description]]:
    """The dataclasses of a file, each with the settings of those above it in the same file."""
    module = ast.parse(file.read_text(encoding="utf-8"))
    found: dict[str, Description] = {}
    for node in module.body:
        if isinstance(node, ast.ClassDef) and node.decorator_list:
            above = [
                setting
                for base in node.bases
                for setting in found.get(ast.unparse(base), NOTHING).settings
            ]
            found[node.name] = Description(_first_line(node), [*above, *_settings(node)])
    return list(found.items())


def _first_line(node: ast.ClassDef) -> str:
    return (ast.get_docstring(node) or "").partition("\n")[0]


def _settings(node: ast.ClassDef) -> Iterator[Setting]:
    for field, text in zip(node.body, node.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
        ):
            default = ast.unparse(field.value) if field.value else "from the data"
            if match := re.match(
                r"field\(default_factory=(?:lambda: \w+\.choose\()?'?([\w-]+)", default
            ):
                default = match[1].lower()
            yield Setting(
                ast.unparse(field.target), default, " ".join(str(text.value.value).split())
            )
