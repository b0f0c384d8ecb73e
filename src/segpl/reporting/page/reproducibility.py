"""Data, splits, settings, versions and commands: everything needed to make the runs again."""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from segpl.reporting.material import Material
from segpl.reporting.run_folder import RunFolder
from segpl.reporting.study_text import SELECTION
from segpl.reporting.table import MISSING, Table, text_column
from segpl.rundir import PROVENANCE_FILE, RUN_FILE, SPLIT_FILE

CHOICE_OF_WEIGHTS = (
    f"{SELECTION} Test subjects took no part in training or in the choice of weights. If the data "
    "have no separate folder of test scans, the patch size, the spacing and the window of CT "
    "values were planned from all scans."
)
SPLIT_PARTS = ("labelled", "unlabelled", "validation")

FlatSettings = Mapping[str, str]
"""Settings by their full name, such as method.alpha; values as YAML."""


@dataclass(frozen=True)
class Reproducibility:
    """The contents of the last section."""

    facts: Mapping[str, str]
    """Data, code, versions, machine and so on, by name."""
    shared_settings: str
    """The settings that all runs share, as YAML."""
    tables: Sequence[Table]
    commands: Sequence[str]


def describe_reproducibility(material: Material) -> Reproducibility:
    """Everything that determines the numbers of the report."""
    settings = {}
    for run in material.runs:
        settings[run.name] = dict(flatten_settings(run.settings))
    differing = differing_settings(list(settings.values()))
    first_run = material.runs[0]
    return Reproducibility(
        facts=_facts(material),
        shared_settings=_shared_settings(settings[first_run.name], differing),
        tables=[_differences_table(settings, differing), _split_table(material)],
        commands=_commands(material),
    )


def _facts(material: Material) -> dict[str, str]:
    """Facts about the runs by name; a fact that no run recorded is left out."""
    runs = material.runs
    entries = _last_provenance(runs)
    facts = {
        "data folder": _distinct(run.settings.get("data", "") for run in runs),
        "data fingerprint": _distinct(_fingerprint(entry) for entry in entries),
        "code hash": _distinct(_code_hash(entry) for entry in entries),
        "versions": _distinct(_versions(entry) for entry in entries),
        "machine": _distinct(_machine(entry) for entry in entries),
        "seeds": _distinct(run.seed for run in runs),
        "started": _start_times(entries),
        "choice of weights": CHOICE_OF_WEIGHTS,
    }
    return {name: text for name, text in facts.items() if text}


def _last_provenance(runs: Sequence[RunFolder]) -> list[Mapping[str, Any]]:
    """The last entry in the provenance of each run; runs without provenance are left out."""
    last_entries = []
    for run in runs:
        entries = run.read(PROVENANCE_FILE)
        if entries:
            last_entries.append(entries[-1])
    return last_entries


def _distinct(values: Iterable[Any]) -> str:
    """Every value once, in order; empty values are left out."""
    texts = [str(value) for value in values if value != ""]
    return "; ".join(dict.fromkeys(texts))


def _fingerprint(entry: Mapping[str, Any]) -> str:
    return entry.get("data", {}).get("fingerprint", "")


def _code_hash(entry: Mapping[str, Any]) -> str:
    return entry.get("code", "not recorded by these runs")


def _versions(entry: Mapping[str, Any]) -> str:
    versions = [f"Python {entry.get('python', '?')}"]
    for package, version in entry.get("packages", {}).items():
        versions.append(f"{package} {version}")
    return ", ".join(versions)


def _machine(entry: Mapping[str, Any]) -> str:
    machine = entry.get("machine", {})
    system = machine.get("system", "?")
    processors = machine.get("processors", "?")
    return f"{system}, {processors} processors"


def _start_times(entries: Sequence[Mapping[str, Any]]) -> str:
    """From the first to the last start of a training."""
    if not entries:
        return ""
    times = [entry.get("started", "") for entry in entries]
    return f"{min(times)} to {max(times)}"


def flatten_settings(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the full name and the value, as YAML, of every setting.

    The names of nested settings are joined with dots. The data folder and the reasons for settings
    are left out.
    """
    for key, value in settings.items():
        has_settings = isinstance(value, dict) and bool(value)
        if has_settings and key != "why":
            yield from flatten_settings(value, f"{prefix}{key}.")
        elif key not in ("why", "data"):
            yield f"{prefix}{key}", _as_yaml(value)


def _as_yaml(value: Any) -> str:
    """A value as YAML on one line."""
    text = yaml.safe_dump(value, default_flow_style=True, width=10_000).strip()
    # YAML ends a document that is a single scalar with "...".
    return text.removesuffix("...").strip()


def differing_settings(runs: Sequence[FlatSettings]) -> list[str]:
    """The names of the settings in which the runs differ."""
    names: dict[str, None] = {}
    for settings in runs:
        names.update(dict.fromkeys(settings))
    differing = []
    for name in names:
        values = {settings.get(name, "") for settings in runs}
        if len(values) > 1:
            differing.append(name)
    return differing


def _shared_settings(settings: FlatSettings, differing: Sequence[str]) -> str:
    """The settings of one run in which the others do not differ, as YAML."""
    shared = {}
    for name, value in settings.items():
        if name not in differing:
            shared[name] = yaml.safe_load(value)
    return yaml.safe_dump(shared, sort_keys=False, allow_unicode=True, default_flow_style=None)


def _differences_table(settings: Mapping[str, FlatSettings], names: Sequence[str]) -> Table:
    rows = []
    for run, run_settings in settings.items():
        values = [run_settings.get(name, MISSING) for name in names]
        rows.append([run, *values])
    columns = [text_column(title) for title in ("run", *names)]
    return Table("Settings that differ between runs", columns, [rows])


def _split_table(material: Material) -> Table:
    """The cases for training and validation, and the test subjects; equal splits share a row."""
    runs_by_split: dict[tuple[str, ...], list[str]] = {}
    for run in material.runs:
        split = run.read(SPLIT_FILE)
        if split:
            cases = [_joined(split.get(part, [])) for part in SPLIT_PARTS]
            subjects = _joined(_test_subjects(material, run))
            runs_by_split.setdefault((*cases, subjects), []).append(run.name)
    rows = []
    for cells, runs in runs_by_split.items():
        rows.append([_joined(runs), *cells])
    case_titles = [f"{part} cases" for part in SPLIT_PARTS]
    titles = ["runs", *case_titles, "test subjects"]
    columns = [text_column(title, wraps=True) for title in titles]
    title = "Cases for training, validation and test"
    return Table(title, columns, [rows], ["Splits are by subject."])


def _joined(names: Sequence[str]) -> str:
    return ", ".join(names) or MISSING


def _test_subjects(material: Material, run: RunFolder) -> list[str]:
    scores = material.clean
    run_scores = scores[scores["run"] == run.name]
    return list(run_scores["subject"].unique())


def _commands(material: Material) -> list[str]:
    """The commands that made the runs, those that make the first run again, and this report's."""
    entries = _last_provenance(material.runs)
    trainings = dict.fromkeys(shlex.join(entry["command"]) for entry in entries)
    report = ["segpl", "report", *map(str, material.folders)]
    if material.chosen_baseline is not None:
        report += ["--baseline", material.chosen_baseline]
    return [*trainings, *_commands_to_repeat(material.runs[0]), shlex.join(report)]


def _commands_to_repeat(run: RunFolder) -> list[str]:
    data = str(run.settings.get("data", "DATA"))
    settings = str(run.folder / RUN_FILE)
    copy = f"{run.name}-again"
    return [
        "# To repeat a run from its settings:",
        shlex.join(["segpl", "train", data, "--config", settings, "--out", copy]),
        shlex.join(["segpl", "evaluate", copy]),
    ]
