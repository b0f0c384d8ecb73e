"""The answer of `segpl run`: the verdict, and where everything is."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from segpl.foundation.errors import UserError
from segpl.foundation.html import html_link, html_table
from segpl.methods import BASELINE
from segpl.reporting.grammar import plural
from segpl.reporting.material import Material, gather
from segpl.reporting.statistics import per_subject
from segpl.reporting.verdict import Verdict, verdicts

RANKED_SHOWN = 3
"""Scans of the ranking that the summary names."""


@dataclass(frozen=True)
class Outcome:
    """The two sides on the test subjects."""

    dice: dict[str, float]
    """Mean Dice by method, over subjects and seeds; empty without a test."""
    verdict: Verdict | None
    problem: str = ""
    """Why there is no verdict."""

    def better(self, method: str) -> str:
        """The method whose runs predict: the baseline only if it was measured to be better."""
        if self.verdict is not None and self.verdict.comparison.effect < 0:
            return BASELINE
        return method


def compare_runs(folders: Sequence[Path]) -> Outcome:
    """Compare the scored runs in the folders of the methods."""
    material = gather(folders)
    scores = per_subject(material.clean, "dice")
    means = scores.groupby("method", sort=False)["value"].mean()
    dice = {str(method): float(value) for method, value in means.items()}
    try:
        return Outcome(dice, _verdict(material))
    except UserError as error:  # such as: no region that both methods found or that is there
        return Outcome(dice, None, str(error))


def read_ranking(file: Path) -> list[str]:
    """The names of the ranked scans, the most useful first; scans that failed are left out."""
    if not file.is_file():
        return []
    rows = pd.read_csv(file, dtype=str, keep_default_na=False)
    return list(rows["case"][rows["rank"] != ""])


def _verdict(material: Material) -> Verdict:
    (answer,) = verdicts(
        material.scores,
        BASELINE,
        labels_only=material.labels_only,
        unknown_use=material.unknown_use,
    )
    return answer


@dataclass(frozen=True, repr=False)
class Answer:
    """What `segpl run` found and made."""

    outcome: Outcome
    runs: Path
    """The folder of the runs that predict together: give it to `segpl predict`."""
    members: int
    """How many they are."""
    scans: int
    """Unlabelled scans that were predicted."""
    masks: Path
    """Folder of their masks, maps of uncertainty and `cases.csv`."""
    ranking: Sequence[str]
    """The scans to label next, the most useful first."""
    ranking_file: Path
    report: Path

    @property
    def verdict(self) -> str:
        """Whether the unlabelled scans helped, in one sentence."""
        if self.outcome.verdict is not None:
            return self.outcome.verdict.sentence
        return f"No verdict is possible: {self.outcome.problem}"

    def __repr__(self) -> str:
        return f"<Answer: {self.verdict}>"

    def _repr_html_(self) -> str:
        """The summary and the masks, for a notebook."""
        rows = [line.split(maxsplit=1) for line in self.lines()]
        return html_table(["", ""], rows) + html_link(self.report, "report")

    def record(self) -> dict[str, Any]:
        """The answer as plain data for JSON."""
        return {
            "verdict": self.verdict,
            "dice": self.outcome.dice,
            "runs": str(self.runs),
            "masks": str(self.masks),
            "label_next": list(self.ranking),
            "report": str(self.report),
        }

    def lines(self) -> list[str]:
        """The summary for the terminal."""
        lines = [f"Verdict     {self.verdict}"]
        if self.outcome.dice:
            scores = [f"{method} {100 * dice:.1f} %" for method, dice in self.outcome.dice.items()]
            lines.append(f"Dice        {', '.join(scores)} (mean over test subjects and seeds)")
        together = ", which predict together" if self.members > 1 else ""
        lines.append(f"Model       {self.runs} ({plural(self.members, 'run')}{together})")
        if self.scans:
            lines.append(f"Masks       {self.masks} ({plural(self.scans, 'unlabelled scan')})")
        if self.ranking:
            first = ", ".join(self.ranking[:RANKED_SHOWN])
            lines.append(f"Label next  {first}; all in {self.ranking_file}")
        lines.append(f"Report      {self.report}")
        return lines
