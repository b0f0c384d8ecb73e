"""Measures what a training step of each method costs in the studies of docs/protocol.md.

python studies/steps.py      write studies/results/steps.csv; then run `make results`

All methods are timed in turn in one process.
"""

from pathlib import Path
from typing import Any

import pandas as pd
import torch

from segpl.benchmark.steps import Configuration, measure_steps
from segpl.foundation.files import write_text

FILE = Path(__file__).parent / "results" / "steps.csv"
METHODS = [
    "supervised",
    "segpl",
    "segpl-vi",
    "segpl-elbo",
    "segpl-em",
    "fixmatch",
    "mean-teacher",
    "cps",
]
STUDIES = (
    Configuration("Hippocampus", 1, 2, 8, (32, 48, 32), 2, 2),
    Configuration("Brain tumours", 4, 3, 16, (144, 144), 2, 2),
    Configuration("Brain vessels", 1, 1, 8, (64, 64, 8), 2, 2),
    Configuration("Retinal vessels", 3, 1, 16, (96, 96), 2, 2),
)
"""Input channels, regions, first network channels, patch, labelled and unlabelled patches."""
REPEATS = 9
COLUMNS = ["configuration", "method", "seconds", "spread", "ratio_to_supervised"]


def main() -> None:
    """Time all methods on one thread, like the runs of the studies."""
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    for study in STUDIES:
        rows.extend(measure_steps(study, METHODS, REPEATS, compiled=False))
    table = pd.DataFrame(rows)[COLUMNS]
    write_text(FILE, table.to_csv(index=False, float_format="%.3f"))


if __name__ == "__main__":
    main()
