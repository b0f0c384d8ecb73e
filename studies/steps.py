"""What a training step of each method costs in the studies of docs/protocol.md, timed by turns in one process.

python studies/steps.py      write studies/results/steps.csv; `make results` then puts it on the page
"""

from pathlib import Path

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
"""Two labelled and two unlabelled patches a step; the first numbers are channels, regions and width."""
REPEATS = 9


def main() -> None:
    """Time them on one thread, as the studies' runs are."""
    torch.set_num_threads(1)
    rows = [
        row for study in STUDIES for row in measure_steps(study, METHODS, REPEATS, compiled=False)
    ]
    columns = ["configuration", "method", "seconds", "spread", "ratio_to_supervised"]
    write_text(FILE, pd.DataFrame(rows)[columns].to_csv(index=False, float_format="%.3f"))


if __name__ == "__main__":
    main()
