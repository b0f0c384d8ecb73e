"""A diagnosis as text for the terminal, and as JSON for scripts."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from segpl.data.cases import Case, Dataset
from segpl.diagnosis import Diagnosis
from segpl.diagnosis.findings import Finding
from segpl.diagnosis.folders import candidates_as_json, print_candidates, print_layouts
from segpl.methods import DEFAULT


def print_diagnosis(diagnosis: Diagnosis) -> None:
    """Print the facts, then the problems, then what a training would be like."""
    console = Console(soft_wrap=True, highlight=False, markup=False)
    table = Table(show_header=False, box=None)
    for name, value in facts(diagnosis).items():
        table.add_row(name, escape(str(value)))
    console.print(table)
    if diagnosis.ambiguity:
        print_candidates(console, diagnosis.ambiguity.cases)
    if diagnosis.is_layout_unknown:
        print_layouts(console)
    for problem in diagnosis.problems:
        console.print(f"- {problem}", markup=False)
    console.print(_problem_count(len(diagnosis.problems)))
    for key, (value, reason) in diagnosis.plan.items():
        console.print(f"segpl train would use {key}: {value} ({reason})", markup=False)
    if diagnosis.plan:
        seconds = f"{diagnosis.seconds_per_step:.2g} s"
        gigabytes = f"{diagnosis.gigabytes:.2g} GB"
        console.print(
            f"one step of {DEFAULT} takes about {seconds} on this machine; "
            f"prepared images take {gigabytes} on disk"
        )


def _problem_count(count: int) -> str:
    if count == 0:
        return "no problem found"
    if count == 1:
        return "1 problem found"
    return f"{count} problems found"


def as_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """The same for scripts."""
    plan = {}
    for key, (value, reason) in diagnosis.plan.items():
        plan[key] = {"value": value, "why": reason}
    return {
        "folder": str(diagnosis.folder),
        "facts": {name: str(value) for name, value in facts(diagnosis).items()},
        "problems": diagnosis.problems,
        "would_read": candidates_as_json(diagnosis.ambiguity),
        "plan": plan,
        "seconds_per_step": diagnosis.seconds_per_step,
        "gigabytes": diagnosis.gigabytes,
    }


def facts(diagnosis: Diagnosis) -> dict[str, Any]:
    """What is in the folder, by name: cases, then the properties of the scans."""
    dataset = diagnosis.dataset
    if dataset is None:
        return {"folder": diagnosis.folder}
    rows = _case_counts(dataset)
    if diagnosis.findings:
        rows |= _scan_facts(diagnosis.findings, dataset)
    return rows


def _case_counts(dataset: Dataset) -> dict[str, Any]:
    training = len(dataset.training)
    labelled = _labelled_count(dataset.training)
    unlabelled = training - labelled
    test = len(dataset.test)
    labelled_test = _labelled_count(dataset.test)
    subjects = {case.subject for case in dataset.training + dataset.test}
    subject_count = str(len(subjects))
    if dataset.subject_rule:
        subject_count += f" ({dataset.subject_rule})"
    return {
        "layout": dataset.layout,
        "training": f"{training} cases: {labelled} labelled, {unlabelled} unlabelled",
        "test": f"{test} cases: {labelled_test} labelled",
        "subjects": subject_count,
    }


def _labelled_count(cases: Sequence[Case]) -> int:
    return sum(case.label is not None for case in cases)


def _scan_facts(findings: Sequence[Finding], dataset: Dataset) -> dict[str, Any]:
    orientations = {finding.orientation or "unknown" for finding in findings}
    rows: dict[str, Any] = {
        "shape": _range_per_axis([finding.shape for finding in findings]),
        "spacing": _spacing(findings),
        "orientation": ", ".join(sorted(orientations)),
    }
    for index, channel in enumerate(dataset.task.channels):
        rows[f"channel {channel}"] = _channel_values(findings, index)
    rows["label values"] = _label_values(findings)
    for region in dataset.task.regions:
        rows[f"region {region.name}"] = _share_of_region(findings, region.name)
    shares = [finding.ignored for finding in findings if finding.ignored > 0]
    if shares:
        value = dataset.task.ignored_value
        rows["ignored"] = (
            f"label value {value} in {len(shares)} labels, up to {100 * max(shares):.2g} "
            "% of a volume: no loss and no score counts these voxels"
        )
    return rows


def _spacing(findings: Sequence[Finding]) -> str:
    """The range along each axis in mm, over the images whose spacing is known."""
    known = [finding.spacing for finding in findings if finding.spacing]
    unknown = len(findings) - len(known)
    if not known:
        return "unknown: the images do not store it, so distances are in pixels"
    text = _range_per_axis(known) + " mm"
    if unknown > 0:
        text += f"; unknown for {unknown} images, which count as 1 mm"
    return text


def _channel_values(findings: Sequence[Finding], index: int) -> str:
    ranges = [finding.ranges[index] for finding in findings]
    lowest = min(low for low, _ in ranges)
    highest = max(high for _, high in ranges)
    return f"values {lowest:g} to {highest:g}"


def _label_values(findings: Sequence[Finding]) -> str:
    values: set[float] = set()
    for finding in findings:
        values.update(finding.values)
    return ", ".join(f"{value:g}" for value in sorted(values))


def _range_per_axis(sizes: Sequence[tuple[float, ...]]) -> str:
    """The range along each axis, as in "34 to 38 x 50 x 35"."""
    ranges = []
    for axis in range(len(sizes[0])):
        along_axis = [size[axis] for size in sizes]
        ranges.append(_range(min(along_axis), max(along_axis)))
    return " x ".join(ranges)


def _range(low: float, high: float) -> str:
    if low == high:
        return f"{low:.4g}"
    return f"{low:.4g} to {high:.4g}"


def _share_of_region(findings: Sequence[Finding], region: str) -> str:
    """The range of a region's share of a volume, over all labels."""
    percentages = []
    for finding in findings:
        if region in finding.shares:
            percentages.append(100 * finding.shares[region])
    if not percentages:
        return "no label"
    low = min(percentages)
    high = max(percentages)
    text = f"{low:.2g} to {high:.2g} % of a volume"
    absent = percentages.count(0)
    if absent > 0:
        text += f"; absent from {absent} labels"
    return text
