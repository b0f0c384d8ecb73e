"""What is in a data folder, what is wrong with it, and what a training on it would be like."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from segpl.data.cases import Case, Dataset
from segpl.data.layouts import UnknownLayoutError, read_dataset
from segpl.data.layouts.ambiguity import AmbiguousFolderError
from segpl.data.scans import complaints, read_scan
from segpl.diagnosis.findings import Finding, describe_scan
from segpl.diagnosis.problems import problems_between_cases, problems_of_case
from segpl.foundation.errors import UserError
from segpl.foundation.html import html_paragraphs, html_table
from segpl.foundation.progress import track
from segpl.methods import DEFAULT
from segpl.settings.planning import plan_run
from segpl.settings.run import Run
from segpl.training.timing import seconds_per_step


@dataclass(repr=False)
class Diagnosis:
    """All findings and problems of a data folder."""

    folder: Path
    dataset: Dataset | None = None
    """None if the folder cannot be read as a data set."""
    findings: list[Finding] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """One sentence each, with the file and the remedy. Empty if all is well."""
    unusable: dict[str, str] = field(default_factory=dict)
    """The first problem of each case that cannot be used, by the name of the case."""
    ambiguity: AmbiguousFolderError | None = None
    """What can be read in more than one way, and what would be read."""
    is_layout_unknown: bool = False
    """Whether no layout recognises the folder."""
    plan: dict[str, tuple[Any, str]] = field(default_factory=dict)
    """The settings that a training would use, each with its reason; empty if there are problems."""
    seconds_per_step: float = 0.0
    """Of a training on this machine."""
    gigabytes: float = 0.0
    """Disk space of the prepared training images."""

    def __repr__(self) -> str:
        cases = len(self.dataset.training + self.dataset.test) if self.dataset else 0
        return f"<Diagnosis {self.folder}: {cases} cases, {len(self.problems)} problems>"

    def _repr_html_(self) -> str:
        """Facts, problems and plan, for a notebook."""
        from segpl.diagnosis.summary import facts  # which needs this class

        parts = [html_table(["", str(self.folder)], facts(self).items())]
        parts.append(html_paragraphs(self.problems or ["No problem found."]))
        if self.plan:
            rows = [(key, value, reason) for key, (value, reason) in self.plan.items()]
            parts.append(html_table(["setting", "value", "why"], rows))
        return "".join(parts)


def examine(folder: Path) -> Diagnosis:
    """Read all scans of a data folder. Without problems, a training is planned and timed too."""
    diagnosis = check(folder)
    if diagnosis.dataset and not diagnosis.problems:
        _estimate_training(diagnosis, diagnosis.dataset)
    return diagnosis


def check(folder: Path) -> Diagnosis:
    """Read all scans of a data folder and find its problems, without planning a training."""
    diagnosis = Diagnosis(folder)
    dataset = _read(diagnosis)
    if dataset is None:
        return diagnosis
    diagnosis.dataset = dataset
    for case, split in track(cases_with_split(dataset), "Reading scans"):
        _examine_case(case, split, dataset, diagnosis)
    diagnosis.problems += problems_between_cases(diagnosis.findings, dataset)
    return diagnosis


def _read(diagnosis: Diagnosis) -> Dataset | None:
    """The data set of the folder; None, and the reason in the diagnosis, if there is none."""
    try:
        return read_dataset(diagnosis.folder)
    except AmbiguousFolderError as error:
        diagnosis.ambiguity = error
        for question in error.questions:
            diagnosis.problems.append(
                f"{question.ambiguity}: choose by a line in {error.file}, "
                f"such as `{question.line}`."
            )
    except UnknownLayoutError:
        diagnosis.is_layout_unknown = True
        diagnosis.problems.append(
            f"{diagnosis.folder} has no dataset.json and no other layout that segpl knows: "
            "arrange it as one of the known layouts."
        )
    except UserError as error:
        diagnosis.problems.append(str(error))
    return None


def cases_with_split(dataset: Dataset) -> list[tuple[Case, str]]:
    """All cases, each with training or test."""
    training = [(case, "training") for case in dataset.training]
    test = [(case, "test") for case in dataset.test]
    return training + test


def _examine_case(
    case: Case,
    split: str,
    dataset: Dataset,
    diagnosis: Diagnosis,
) -> None:
    """Add the problems of a case, and its finding if it can be read and fits the task."""
    try:
        scan = read_scan(case)
    except UserError as error:
        diagnosis.problems.append(str(error))
        diagnosis.unusable[case.name] = str(error)
        return
    scan_complaints = list(complaints(scan, dataset.task))
    if scan_complaints:
        diagnosis.problems += scan_complaints
        diagnosis.unusable[case.name] = scan_complaints[0]
        return
    finding = describe_scan(scan, split, dataset.task)
    diagnosis.findings.append(finding)
    diagnosis.problems += problems_of_case(finding, dataset.task.channels)


def _estimate_training(diagnosis: Diagnosis, dataset: Dataset) -> None:
    """Add the plan of a training, and time one step of it on this machine."""
    task = dataset.task
    run = plan_run(diagnosis.folder, {"method": DEFAULT}, dataset=dataset)
    for key, reason in run.why.items():
        diagnosis.plan[key] = (_setting(run, key), reason)
    diagnosis.seconds_per_step = seconds_per_step(run, task)
    voxels = 0
    for finding in diagnosis.findings:
        if finding.split == "training":
            voxels += int(np.prod(finding.shape))
    bytes_per_voxel = 4 * len(task.channels) + len(task.regions)
    diagnosis.gigabytes = voxels * bytes_per_voxel / 1e9


def _setting(run: Run, key: str) -> Any:
    """A setting by its name, such as patch or method.alpha."""
    value: Any = run.mapping()
    for name in key.split("."):
        value = value[name]
    return value
