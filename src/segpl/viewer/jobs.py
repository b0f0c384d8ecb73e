"""What the server and the process that predicts tell each other."""

from typing import NamedTuple

from segpl.data.cases import Case


class Job(NamedTuple):
    """A scan to predict."""

    number: int
    case: Case


class Report(NamedTuple):
    """How far a scan is: from 0 to 1, which means that its files are there; or what is wrong."""

    number: int
    progress: float
    error: str = ""
