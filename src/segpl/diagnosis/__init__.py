"""What is in a data folder and what is wrong with it, in plain words."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import nibabel
import numpy as np

from segpl.data.cases import Case, Dataset
from segpl.data.formats.image import spacing
from segpl.data.layouts import read_dataset
from segpl.data.preparation import Scan, channels_of, complaints, masks, read
from segpl.foundation.errors import UserError
from segpl.foundation.progress import track
from segpl.methods import DEFAULT
from segpl.settings.planning import plan_run
from segpl.settings.run import Run
from segpl.training.pace import seconds_per_step


class Finding(NamedTuple):
    """What one readable case looks like."""

    case: Case
    part: str
    """training or test."""
    shape: tuple[int, ...]
    spacing: tuple[float, ...]
    orientation: str
    ranges: list[tuple[float, float]]
    """The smallest and the largest value of each channel."""
    values: list[float]
    """The values of the label."""
    shares: dict[str, float]
    """The foreground's share of the voxels, region by region, where there is a label."""
    digest: str
    """Of the voxels, not of the file: a copy under another name or compression is a copy."""


@dataclass
class Diagnosis:
    """All that was found. No problem is no problem."""

    folder: Path
    dataset: Dataset | None = None
    findings: list[Finding] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """One sentence each, with the file and the remedy."""
    plan: dict[str, tuple[Any, str]] = field(default_factory=dict)
    """What a training would choose, and why."""
    seconds_per_step: float = 0.0
    """Of a training on this machine, as `training.pace` measures it."""
    gigabytes: float = 0.0
    """What the prepared training images take on disk."""


def examine(folder: Path) -> Diagnosis:
    """Read everything once."""
    diagnosis = Diagnosis(folder)
    try:
        diagnosis.dataset = dataset = read_dataset(folder)
    except UserError as error:
        diagnosis.problems.append(str(error))
        return diagnosis
    parts = [(case, "training") for case in dataset.training] + [
        (case, "test") for case in dataset.test
    ]
    for case, part in track(parts, "Reading scans"):
        try:
            scan = read(case)
        except UserError as error:
            diagnosis.problems.append(str(error))
            continue
        wrong = list(complaints(scan, dataset.task))
        diagnosis.problems += wrong
        if not wrong:
            finding = _finding(scan, part, dataset)
            diagnosis.findings.append(finding)
            diagnosis.problems += _weaknesses(finding, dataset)
    diagnosis.problems += [
        *_copies(diagnosis.findings),
        *_turned(diagnosis.findings),
        *_in_both_parts(dataset),
    ]
    if not any(case.label for case in dataset.training):
        diagnosis.problems.append(
            f"{folder} has no labelled training case: label at least one scan."
        )
    if not diagnosis.problems:
        _estimate(diagnosis, dataset)
    return diagnosis


def _finding(scan: Scan, part: str, dataset: Dataset) -> Finding:
    channels = channels_of(scan.images)
    content = hashlib.sha256()
    for channel in channels:
        content.update(np.ascontiguousarray(channel, dtype=np.float32).tobytes())
    shares = {}
    if scan.label:
        found = masks(scan.label, dataset.task.regions).flatten(1).float().mean(1).tolist()
        shares = dict(zip([region.name for region in dataset.task.regions], found, strict=True))
    return Finding(
        case=scan.case,
        part=part,
        shape=tuple(channels[0].shape),
        spacing=spacing(scan.images[0].affine),
        orientation="".join(nibabel.aff2axcodes(scan.images[0].affine)),
        ranges=[(float(channel.min()), float(channel.max())) for channel in channels],
        values=np.unique(scan.label.values).tolist() if scan.label else [],
        shares=shares,
        digest=content.hexdigest(),
    )


def _weaknesses(finding: Finding, dataset: Dataset) -> Iterator[str]:
    """What is wrong with a case by itself, though it can be read."""
    for name, (low, high) in zip(dataset.task.channels, finding.ranges, strict=True):
        if low == high:
            yield f"{finding.case.images[0]}: channel {name} is {low:g} everywhere: export the image again."
    if finding.case.label and not any(finding.shares.values()):
        yield f"{finding.case.label} is empty: draw the label, or remove the file so that the scan is unlabelled."


def _copies(findings: list[Finding]) -> Iterator[str]:
    """The very same image twice, which in training and in test is a leak."""
    seen: dict[str, Finding] = {}
    for finding in findings:
        other = seen.setdefault(finding.digest, finding)
        if other is not finding:
            where = (
                "in training and in test"
                if other.part != finding.part
                else f"twice in {finding.part}"
            )
            yield f"{finding.case.images[0]} is the same image as {other.case.images[0]}, {where}: remove one of them."


def common_orientation(findings: Sequence[Finding]) -> str:
    """Where the axes of most images point."""
    seen = [finding.orientation for finding in findings]
    return max(sorted(set(seen)), key=seen.count, default="")


def _turned(findings: list[Finding]) -> Iterator[str]:
    """Images whose axes point elsewhere than those of most."""
    common = common_orientation(findings)
    for finding in findings:
        if finding.orientation != common:
            yield (
                f"{finding.case.images[0]} is oriented {finding.orientation} and most are {common}: "
                "reorient it, or let --fix do it."
            )


def _in_both_parts(dataset: Dataset) -> Iterator[str]:
    for subject in sorted(
        {case.subject for case in dataset.training} & {case.subject for case in dataset.test}
    ):
        yield f"{dataset.folder} has subject {subject} in training and in test: remove it from one."


def _estimate(diagnosis: Diagnosis, dataset: Dataset) -> None:
    """What a run would be like here: the plan, and one step of it timed on this machine."""
    run, task = plan_run(diagnosis.folder, {"method": DEFAULT}, dataset=dataset), dataset.task
    diagnosis.plan = {key: (_setting(run, key), why) for key, why in run.why.items()}
    diagnosis.seconds_per_step = seconds_per_step(run, task)
    voxels = sum(
        int(np.prod(finding.shape)) for finding in diagnosis.findings if finding.part == "training"
    )
    diagnosis.gigabytes = voxels * (4 * len(task.channels) + len(task.regions)) / 1e9


def _setting(run: Run, key: str) -> Any:
    """A setting by its name, such as patch or method.alpha."""
    value: Any = run.mapping()
    for name in key.split("."):
        value = value[name]
    return value
