"""Draws how the label of a case becomes nested binary regions, as in the paper's appendix.

    python studies/label_fusion.py DATA OUT.png [--case NAME]

DATA is any data folder; `segpl phantom tumour --out DATA` makes one. The default is its first
labelled case.
"""

import argparse
from pathlib import Path

from segpl.data.layouts import read_dataset
from segpl.reporting.label_fusion import draw_label_fusion


def main() -> None:
    """Write the figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--case", metavar="NAME")
    options = parser.parse_args()
    dataset = read_dataset(options.data)
    labelled = {case.name: case for case in (*dataset.training, *dataset.test) if case.label}
    name = options.case or next(iter(labelled), None)
    if name not in labelled:
        raise SystemExit(f"{options.data} has no labelled case {name or ''}: choose another one.")
    draw_label_fusion(labelled[name], dataset.task.regions).savefig(options.out, dpi=110)


if __name__ == "__main__":
    main()
