"""The patient that a case belongs to, from file names.

Splits are by subject, so two scans of one patient must get the same subject. Where names leave it
open, cases are rather joined than separated: a joined subject wastes some labels, a separated one
lets a test case be learnt from.

- The folder of a patient is the subject, and so is `sub-01` in a name.
- Endings that tell scans of one patient apart are dropped: `_scan1`, `_visit2`, `_slice_012`,
  `_left`, and the side in `01L`.
- Of other names, a number at the end is dropped where names differ in what precedes it and this is
  more than a word such as `train`: `p01_1` and `p01_2` are of subject `p01`, but `train_1` and
  `test_1`, or `liver_1` and `liver_2` alone, are four subjects.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from segpl.data.layouts.plain.description import EACH_FILE, FILE
from segpl.foundation.errors import UserError

REPEAT_WORDS = (
    "scans?",
    "sessions?",
    "ses",
    "visits?",
    "time",
    "timepoint",
    "tp",
    "day",
    "week",
    "month",
    "year",
    "baseline",
    "bl",
    "follow[_-]?up",
    "fu",
    "pre",
    "post",
    "frame",
    "slice",
    "series",
    "run",
    "rep",
    "part",
    "crop",
    "patch",
    "left",
    "right",
)
"""Words that distinguish scans of one patient, perhaps with a number after them."""
GENERIC_WORDS = (
    "train",
    "training",
    "test",
    "testing",
    "val",
    "validation",
    "labelled",
    "labeled",
    "unlabelled",
    "unlabeled",
    "case",
    "patient",
    "subject",
    "image",
    "img",
    "scan",
    "volume",
    "vol",
)
"""Words before a number that do not identify a patient."""

_BIDS_SUBJECT = re.compile(r"(?:^|[_-])(sub-[A-Za-z0-9]+)")
_REPEAT_END = re.compile(
    rf"(?<=.)[_\-. ](?:{'|'.join(REPEAT_WORDS)})[_\-. ]?\d*$",
    re.IGNORECASE,
)
_SIDE = re.compile(r"(?<=\d)[a-zA-Z]$")
_NUMBER = re.compile(r"(?<=.)[_\-. ]\d+$")


def guess_subjects(cases: Sequence[str], patients: Sequence[str]) -> list[str]:
    """The subject of each case. `patients` are the folders of the patients, empty where none."""
    names = []
    for case in cases:
        names.append(_without_repeat(case))
    prefixes = []
    for case, name in zip(cases, names, strict=True):
        prefixes.append(_before_number(name) if name == case else name)
    varies = len(set(prefixes)) > 1
    shared = Counter(prefixes)
    subjects = []
    for patient, name, prefix in zip(patients, names, prefixes, strict=True):
        is_repeat = varies and shared[prefix] > 1 and not _is_generic(prefix)
        subjects.append(patient or (prefix if is_repeat else name))
    return subjects


def _without_repeat(case: str) -> str:
    """The name without the endings that tell scans of one patient apart."""
    bids = _BIDS_SUBJECT.search(case)
    if bids is not None:
        return bids[1]
    name = case
    while _REPEAT_END.search(name):
        name = _REPEAT_END.sub("", name)
    return _SIDE.sub("", name)


def _before_number(name: str) -> str:
    return _NUMBER.sub("", name)


def _is_generic(prefix: str) -> bool:
    """Whether the part before a number says nothing about the patient."""
    words = re.split(r"[_\-. ]", prefix.lower())
    return all(word in GENERIC_WORDS for word in words)


def described_subjects(
    cases: Sequence[str],
    rule: str | Mapping[str, str],
    file: Path,
) -> list[str]:
    """The subject of each case as `subjects` in `segpl.yaml` says; an error if it says nothing."""
    if rule == EACH_FILE:
        return list(cases)
    subjects = []
    for case in cases:
        if isinstance(rule, str):
            match = re.fullmatch(rule, case)
            subject = match[1] if match else None
        else:
            subject = rule.get(case)
        if not subject:
            raise UserError(
                f"{file}: subjects gives no subject for case {case}: correct it, or write `file` "
                "if each case is a patient of its own."
            )
        subjects.append(subject)
    return subjects


def explain(cases: Sequence[str], subjects: Sequence[str], patients: Sequence[str]) -> str:
    """One sentence on how subjects were guessed, with an example and how to change it."""
    if all(patients):
        return "each folder is a patient"
    first_of_subject: dict[str, str] = {}
    for case, subject in zip(cases, subjects, strict=True):
        first = first_of_subject.setdefault(subject, case)
        if first != case:
            return (
                f"guessed from file names: {first} and {case} are both of subject {subject}; "
                f"if each file is a patient of its own, write `subjects: {EACH_FILE}` into {FILE}"
            )
    return (
        "each file is taken for a patient of its own; if a patient has several, write the rule "
        f"into {FILE}, such as `subjects: '([^_]+)_.*'`"
    )
