"""Generates two pages from the code: the commands, and the methods with their settings."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from inspect import Parameter as SignatureParameter
from inspect import cleandoc, signature
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from typer.models import ArgumentInfo

from segpl.cli.app import app
from segpl.reporting.table import Table
from segpl.study.catalogue import EVERY_RUN, catalogue, description, settings_table


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages to those that are written by hand."""
    files.append(File.generated(config, "commands.md", content=commands_page()))
    files.append(File.generated(config, "settings.md", content=settings_page()))
    return files


def commands_page() -> str:
    """A section for each command, in the order and with the text of `segpl --help`."""
    lines = [
        "# Commands",
        "",
        "This page is generated from the program: `segpl COMMAND --help` prints the same.",
        "",
        "Exit codes: 0 if all went well, 2 if the input is wrong (the message names the file and",
        "the remedy), 129, 130 or 143 if a signal ended the command, 1 for anything else.",
    ]
    for command in app.registered_commands:
        function = command.callback
        if function is None:
            continue
        parameters = list(_parameters(function))
        lines += ["", f"## segpl {function.__name__}", "", cleandoc(function.__doc__ or ""), ""]
        lines += ["```text", _usage(function.__name__, parameters), "```", ""]
        rows = ([f"`{each.usage}`", each.default, each.help] for each in parameters)
        lines += _table(["parameter", "default", "meaning"], rows)
    return "\n".join(lines)


class Parameter(NamedTuple):
    """An argument or option of a command."""

    usage: str
    """As it is written on the command line, such as `--steps N`."""
    default: str
    help: str
    is_argument: bool
    is_required: bool


def _parameters(function: Callable[..., Any]) -> Iterator[Parameter]:
    """The arguments and options of a command, read from its annotations."""
    types = get_type_hints(function, include_extras=True)
    for name, parameter in signature(function).parameters.items():
        kind, info = get_args(types[name])
        is_required = parameter.default is SignatureParameter.empty
        is_argument = isinstance(info, ArgumentInfo)
        value = info.metavar or _placeholder(name, kind)
        usage = value if is_argument else f"{_option_name(name, info)} {value}".strip()
        if is_argument and not is_required:
            usage = f"[{usage}]"
        default = _default(parameter.default, is_required, info)
        yield Parameter(usage, default, info.help or "", is_argument, is_required)


def _option_name(name: str, info: Any) -> str:
    names = [declared for declared in info.param_decls or () if declared.startswith("--")]
    return names[0] if names else f"--{name.replace('_', '-')}"


def _placeholder(name: str, kind: Any) -> str:
    """What stands for a value without a metavar: the choices, a number, or nothing for a flag."""
    if get_origin(kind) is Literal:
        return "|".join(get_args(kind))
    if kind is bool:
        return ""
    return "N" if kind in (int, float) else name.upper()


def _default(value: Any, is_required: bool, info: Any) -> str:
    if is_required:
        return "required"
    if isinstance(info.show_default, str):
        return info.show_default
    if value is None or value is False or value == []:
        return ""
    return f"`{value}`"


def _usage(name: str, parameters: Sequence[Parameter]) -> str:
    arguments = [each.usage for each in parameters if each.is_argument]
    options = [each.usage for each in parameters if not each.is_argument and each.is_required]
    return " ".join(["segpl", name, *arguments, *options, "[OPTIONS]"])


def settings_page() -> str:
    """The methods, priors and shifts, then the settings of every training and of each method."""
    lines = [
        "# Methods and settings",
        "",
        "This page is generated from the program: `segpl methods`, `segpl methods NAME` and",
        "`segpl methods run` print the same. Change a setting with `--set SETTING=VALUE` or",
        "in a YAML file (`--config FILE`).",
    ]
    with_settings: list[str] = []
    for table in catalogue():
        title = table.title.split(":")[0]
        rows = _rows(table)
        lines += ["", f"## {title}", ""]
        lines += _table(["name", "what it does"], ([f"`{name}`", text] for name, text in rows))
        if title != "Shifts":
            with_settings += [name for name, _ in rows]
    lines += ["", "## Settings of every training", "", *_settings(EVERY_RUN)]
    for name in with_settings:
        about = description(name).removeprefix(f"{name}: ")
        lines += ["", f"## Settings of {name}", "", about, "", *_settings(name)]
    return "\n".join(lines)


def _settings(name: str) -> list[str]:
    rows = []
    for setting, default, meaning in _rows(settings_table(name)):
        rows.append([f"`{setting}`", f"`{default}`" if default else "", meaning])
    return _table(["setting", "default", "meaning"], rows)


def _rows(table: Table) -> list[list[str]]:
    return [[str(cell) for cell in row] for group in table.groups for row in group]


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [_line(header), "|" + "---|" * len(header)]
    return lines + [_line(row) for row in rows]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _cell(text: str) -> str:
    """The text on one line. A bar ends a cell, unless it is in code or escaped."""
    text = " ".join(text.split())
    return text if text.startswith("`") else text.replace("|", "\\|")
