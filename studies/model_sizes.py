"""Counts parameters and operations of the methods in the paper's Table 1, for docs/paper.md.

python studies/model_sizes.py          write studies/results/model_sizes.csv again
"""

from pathlib import Path

import pandas as pd
import torch

from segpl.benchmark.steps import CARVE
from segpl.foundation.files import write_text
from segpl.methods.base import Method
from segpl.training.cost import count_parameters, flops

KEPT = Path(__file__).parent / "results" / "model_sizes.csv"
METHODS = ("supervised", "fixmatch", "cct", "cps", "segpl", "segpl-vi")


def main() -> None:
    """Write a row for each method, in the order of the paper."""
    rows = [count(name) for name in METHODS]
    write_text(KEPT, pd.DataFrame(rows).to_csv(index=False))


def count(name: str) -> dict[str, str | int]:
    """Trained parameters, and operations per image, of a method with the paper's 3D network."""
    method = Method.choose(name)
    model = method.build(CARVE.network)
    batch = CARVE.batch_for(method, torch.device("cpu"))
    return {"method": name, "parameters": count_parameters(model), **flops(method, model, batch)}


if __name__ == "__main__":
    main()
