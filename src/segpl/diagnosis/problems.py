"""Problems of cases that can be read, each as one sentence with the file and the remedy."""

from collections.abc import Iterator, Sequence

from segpl.data.cases import Dataset
from segpl.diagnosis.findings import Finding, common_orientation


def problems_of_case(finding: Finding, channels: Sequence[str]) -> Iterator[str]:
    """Constant channels, and a label without foreground."""
    case = finding.case
    for channel, (low, high) in zip(channels, finding.ranges, strict=True):
        if low == high:
            yield (
                f"{case.images[0]}: channel {channel} is {low:g} everywhere: "
                "export the image again."
            )
    if case.label and not any(finding.shares.values()):
        yield (
            f"{case.label} is empty: draw the label, or remove the file "
            "so that the scan is unlabelled."
        )


def problems_between_cases(findings: Sequence[Finding], dataset: Dataset) -> Iterator[str]:
    """Problems that no case has by itself."""
    yield from _copies(findings)
    yield from _other_orientations(findings)
    yield from _subjects_in_both_splits(dataset)
    if not any(case.label for case in dataset.training):
        yield f"{dataset.folder} has no labelled training case: label at least one scan."


def _copies(findings: Sequence[Finding]) -> Iterator[str]:
    """Images that exist twice. In training and in test, a copy is a leak."""
    first_with_digest: dict[str, Finding] = {}
    for finding in findings:
        first = first_with_digest.setdefault(finding.digest, finding)
        if first is finding:
            continue
        where = f"twice in {finding.split}"
        if first.split != finding.split:
            where = "in training and in test"
        yield (
            f"{finding.case.images[0]} is the same image as {first.case.images[0]}, {where}: "
            "remove one of them."
        )


def _other_orientations(findings: Sequence[Finding]) -> Iterator[str]:
    common = common_orientation(findings)
    for finding in findings:
        if finding.orientation and finding.orientation != common:
            image = finding.case.images[0]
            yield (
                f"{image} is oriented {finding.orientation} and most are {common}: "
                "reorient it, or let --fix do it."
            )


def _subjects_in_both_splits(dataset: Dataset) -> Iterator[str]:
    training = {case.subject for case in dataset.training}
    test = {case.subject for case in dataset.test}
    for subject in sorted(training & test):
        yield f"{dataset.folder} has subject {subject} in training and in test: remove it from one."
