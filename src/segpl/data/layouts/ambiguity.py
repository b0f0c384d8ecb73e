"""What a layout found in a folder that can be read in more than one way."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from segpl.foundation.errors import UserError


@dataclass(frozen=True)
class CandidateCase:
    """A case as it would be read. Where `labels` has two files, one of them must be chosen."""

    name: str
    subject: str
    images: tuple[Path, ...]
    labels: tuple[Path, ...]
    split: str = "training"
    """training or test."""


@dataclass(frozen=True)
class Question:
    """What is ambiguous, and the line of `segpl.yaml` that would settle it."""

    ambiguity: str
    """A sentence without its full stop."""
    line: str
    """A line of YAML, with one of the possible answers."""


class AmbiguousFolderError(UserError):
    """The folder can be read in more than one way. `cases` shows what would be read."""

    def __init__(self, file: Path, questions: Sequence[Question], cases: Sequence[CandidateCase]):
        first = questions[0]
        super().__init__(
            f"{first.ambiguity}: choose by a line in {file}, such as `{first.line}`; "
            f"`segpl doctor {file.parent}` shows what would be read."
        )
        self.file = file
        self.questions = tuple(questions)
        self.cases = tuple(cases)
