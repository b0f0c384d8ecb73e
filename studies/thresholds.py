"""Draws prior, posterior and exact bound of the threshold over training, for docs/paper.md.

segpl study studies/thresholds.yaml --out OUT
python studies/thresholds.py --take OUT      copy the numbers of that study, and draw them
python studies/thresholds.py                 draw the numbers that are kept
"""

import argparse
from pathlib import Path

import matplotlib as mpl
import pandas as pd

from segpl.foundation.files import write_text
from segpl.reporting.material import gather
from segpl.reporting.page.style import MATPLOTLIB_SETTINGS
from segpl.reporting.page.training_curves import draw_threshold_inference, threshold_inference
from segpl.rundir import read_plain

HERE = Path(__file__).parent
STUDY = HERE / "thresholds.yaml"
KEPT = HERE / "results" / "thresholds.csv"
FIGURE = HERE.parent / "docs" / "thresholds.svg"


def main() -> None:
    """Copy the numbers of a finished study if one is given, and draw the figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--take", type=Path, metavar="OUT")
    out = parser.parse_args().take
    if out is not None:
        numbers = in_order_of_the_study(threshold_inference(gather([out])))
        write_text(KEPT, numbers.to_csv(index=False, float_format="%.5f"))
    draw(FIGURE)


def in_order_of_the_study(numbers: pd.DataFrame) -> pd.DataFrame:
    """The rows by method, in the order of the study file."""
    parts = []
    for method in read_plain(STUDY)["methods"]:
        label = method["label"] if isinstance(method, dict) else method
        parts.append(numbers[numbers["method"] == label])
    return pd.concat(parts)


def draw(file: Path) -> None:
    """Draw the kept numbers as `segpl report` does."""
    numbers = pd.read_csv(KEPT)
    methods = numbers["method"].unique()
    numbers = numbers.assign(method=pd.Categorical(numbers["method"], methods))
    with mpl.rc_context(MATPLOTLIB_SETTINGS | {"svg.hashsalt": "thresholds"}):
        draw_threshold_inference(numbers).savefig(file, metadata={"Date": None})


if __name__ == "__main__":
    main()
