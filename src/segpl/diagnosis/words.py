"""A diagnosis as people read it, and as scripts do."""

from typing import Any

from rich.console import Console
from rich.table import Table

from segpl.diagnosis import Diagnosis, Finding
from segpl.methods import DEFAULT


def print_diagnosis(diagnosis: Diagnosis) -> None:
    """What was found, then what is wrong, then what a training would be like."""
    out = Console(soft_wrap=True, highlight=False)
    table = Table(show_header=False, box=None)
    for name, value in facts(diagnosis).items():
        table.add_row(name, str(value))
    out.print(table)
    for problem in diagnosis.problems:
        out.print(f"- {problem}", markup=False)
    count = len(diagnosis.problems)
    out.print(
        "no problem found" if not count else f"{count} problem{'s' if count > 1 else ''} found"
    )
    for key, (value, why) in diagnosis.plan.items():
        out.print(f"segpl train would use {key}: {value} ({why})", markup=False)
    if diagnosis.plan:
        out.print(
            f"one step of {DEFAULT} takes about {diagnosis.seconds_per_step:.2g} s on this machine; prepared images "
            f"take {diagnosis.gigabytes:.2g} GB on disk"
        )


def facts(diagnosis: Diagnosis) -> dict[str, Any]:
    """The numbers, by name."""
    data, findings = diagnosis.dataset, diagnosis.findings
    if data is None:
        return {"folder": diagnosis.folder}
    labelled = sum(bool(case.label) for case in data.training)
    rows: dict[str, Any] = {
        "layout": data.layout,
        "training": f"{len(data.training)} cases: {labelled} labelled, {len(data.training) - labelled} unlabelled",
        "test": f"{len(data.test)} cases: {sum(bool(case.label) for case in data.test)} labelled",
        "subjects": len({case.subject for case in data.training + data.test}),
    }
    if not findings:
        return rows
    rows["shape"] = _span([finding.shape for finding in findings])
    rows["spacing"] = _span([finding.spacing for finding in findings]) + " mm"
    rows["orientation"] = ", ".join(sorted({finding.orientation for finding in findings}))
    for place, channel in enumerate(data.task.channels):
        lows, highs = zip(*(finding.ranges[place] for finding in findings), strict=True)
        rows[f"channel {channel}"] = f"values {min(lows):g} to {max(highs):g}"
    rows["label values"] = ", ".join(
        f"{value:g}" for value in sorted({v for f in findings for v in f.values})
    )
    for region in data.task.regions:
        rows[f"region {region.name}"] = _share(findings, region.name)
    return rows


def as_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """The same for scripts."""
    plan = {key: {"value": value, "why": why} for key, (value, why) in diagnosis.plan.items()}
    return {
        "folder": str(diagnosis.folder),
        "facts": {name: str(value) for name, value in facts(diagnosis).items()},
        "problems": diagnosis.problems,
        "plan": plan,
        "seconds_per_step": diagnosis.seconds_per_step,
        "gigabytes": diagnosis.gigabytes,
    }


def _span(tuples: list[tuple[float, ...]]) -> str:
    """34 to 38 x 50 x 35: the range along each axis."""
    axes = [(min(axis), max(axis)) for axis in zip(*tuples, strict=True)]
    return " x ".join(
        f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}" for low, high in axes
    )


def _share(findings: list[Finding], region: str) -> str:
    shares = [100 * finding.shares[region] for finding in findings if region in finding.shares]
    if not shares:
        return "no label"
    absent = sum(share == 0 for share in shares)
    return f"{min(shares):.2g} to {max(shares):.2g} % of a volume" + (
        f"; absent from {absent} labels" if absent else ""
    )
