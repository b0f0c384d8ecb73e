"""How it was made: data, splits, settings, versions and commands, so that somebody else can do it again."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from segpl.reporting.material import Material, RunFolder
from segpl.reporting.study_text import SELECTION
from segpl.reporting.table import MISSING, Table, text_column
from segpl.rundir import PROVENANCE_FILE, RUN_FILE, SPLIT_FILE

CHOICE_OF_WEIGHTS = (
    f"{SELECTION} Test subjects were never seen in training, nor in the choice of weights; where they have no folder "
    "of their own, the patch, the spacing and the window of CT values were planned from all scans."
)


@dataclass(frozen=True)
class Origin:
    """What the last section says."""

    facts: Mapping[str, str]
    """Data, code, versions and machine."""
    shared: str
    """Settings that all runs have, as YAML."""
    tables: list[Table]
    commands: list[str]


def origin(material: Material) -> Origin:
    """Everything that determines these numbers."""
    entries = [(run, entry[-1]) for run in material.runs if (entry := run.read(PROVENANCE_FILE))]
    facts = {
        "data folder": _all(run.settings.get("data", "") for run in material.runs),
        "data fingerprint": _all(
            entry.get("data", {}).get("fingerprint", "") for _, entry in entries
        ),
        "hash of the code": _all(
            entry.get("code", "not recorded by these runs") for _, entry in entries
        ),
        "versions": _all(_versions(entry) for _, entry in entries),
        "machine": _all(_machine(entry) for _, entry in entries),
        "seeds": _all(run.seed for run in material.runs),
        "started": f"{min(stamps)} to {max(stamps)}"
        if (stamps := [e.get("started", "") for _, e in entries])
        else "",
        "choice of weights": CHOICE_OF_WEIGHTS,
    }
    flat = {run.name: dict(_flat(run.settings)) for run in material.runs}
    keys = list(dict.fromkeys(key for settings in flat.values() for key in settings))
    differing = [
        key for key in keys if len({settings.get(key, "") for settings in flat.values()}) > 1
    ]
    shared = {
        key: yaml.safe_load(next(iter(flat.values()))[key]) for key in keys if key not in differing
    }
    tables = [_differences(flat, differing), _splits(material)]
    text = yaml.safe_dump(shared, sort_keys=False, allow_unicode=True, default_flow_style=None)
    return Origin(
        {key: said for key, said in facts.items() if said}, text, tables, list(_commands(material))
    )


def _all(values: Iterator[Any] | Any) -> str:
    """Each value once."""
    return "; ".join(dict.fromkeys(str(value) for value in values if value != ""))


def _versions(entry: Mapping[str, Any]) -> str:
    packages = ", ".join(f"{name} {version}" for name, version in entry.get("packages", {}).items())
    return f"Python {entry.get('python', '?')}, {packages}"


def _machine(entry: Mapping[str, Any]) -> str:
    machine = entry.get("machine", {})
    return f"{machine.get('system', '?')}, {machine.get('processors', '?')} processors"


def _flat(settings: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """Settings and their values as YAML, nested ones with a point between their names; reasons are left out."""
    for key, value in settings.items():
        if isinstance(value, dict) and value and key != "why":
            yield from _flat(value, f"{before}{key}.")
        elif key not in ("why", "data"):
            shown = yaml.safe_dump(value, default_flow_style=True, width=10_000).strip()
            yield before + str(key), shown.removesuffix("...").strip()


def _differences(flat: Mapping[str, Mapping[str, str]], keys: list[str]) -> Table:
    rows = []
    for name, settings in flat.items():
        rows.append([name, *(settings.get(key, MISSING) for key in keys)])
    columns = [text_column(key) for key in ("run", *keys)]
    return Table("Settings in which the runs differ", columns, [rows])


SPLIT_PARTS = ("labelled", "unlabelled", "validation")


def _splits(material: Material) -> Table:
    """Who learnt, who chose the weights and who tested; runs of one seed and budget share a row."""
    tested = material.clean.groupby("run")["subject"].unique()
    runs_of: dict[tuple[str, ...], list[str]] = {}
    for run in material.runs:
        split = run.read(SPLIT_FILE)
        if split:
            cases = [", ".join(split.get(part, [])) or MISSING for part in SPLIT_PARTS]
            subjects = ", ".join(tested[run.name]) if run.name in tested else MISSING
            runs_of.setdefault((*cases, subjects), []).append(run.name)
    rows = [[", ".join(names), *cases] for cases, names in runs_of.items()]
    titles = ("runs", *(f"{part} cases" for part in SPLIT_PARTS), "test subjects")
    columns = [text_column(title, wraps=True) for title in titles]
    return Table(
        "Who learnt, who validated, who tested", columns, [rows], ["Splits are by subject."]
    )


def _commands(material: Material) -> Iterator[str]:
    """What was called, then what makes each run again from its settings."""
    entries = [entry for run in material.runs if (entry := run.read(PROVENANCE_FILE))]
    yield from dict.fromkeys(shlex.join(entry[-1]["command"]) for entry in entries)
    for run in material.runs[:1]:
        yield from _again(run)
    yield shlex.join(["segpl", "report", *map(str, material.folders)])


def _again(run: RunFolder) -> Iterator[str]:
    data, settings = str(run.settings.get("data", "DATA")), str(run.folder / RUN_FILE)
    yield "# any run again, from its settings alone:"
    yield shlex.join(["segpl", "train", data, "--config", settings, "--out", f"{run.name}-again"])
    yield shlex.join(["segpl", "evaluate", f"{run.name}-again"])
