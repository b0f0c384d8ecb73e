"""The scans of one command: what is there already is left, and a scan that fails stops no other."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import UInt16

from segpl.data.cases import Case
from segpl.data.frames import Frame
from segpl.data.inputs import find_cases
from segpl.data.preparation import Prepared, read
from segpl.foundation.errors import UserError
from segpl.foundation.progress import console, track
from segpl.inference.predictor import Predictor, Wanted, load, restored
from segpl.inference.result import prediction_of
from segpl.prediction.flight import fly
from segpl.prediction.orders import Order
from segpl.prediction.table import Table

TABLE_FILE = "cases.csv"


class Found(NamedTuple):
    """What a network found, on its own grid, and where that belongs."""

    maps: UInt16[np.ndarray, "M X Y Z"]
    frame: Frame


@dataclass(frozen=True, eq=False)
class Steps:
    """What happens to each scan."""

    predictor: Predictor
    order: Order
    table: Table
    cases: Sequence[Case]

    def read(self, case: Case) -> Prepared:
        """From files to what the network takes."""
        with _fits(case):
            return self.predictor.prepare(read(case.unlabelled()))

    def predict(self, case: Case, scan: Prepared) -> Found:
        """All windows, with a bar."""
        title = f"{case.name} ({self.cases.index(case) + 1} of {len(self.cases)})"
        with _fits(case):
            wanted = Wanted(self.order.samples, (self.order.temperature,))
            maps = self.predictor.maps(scan.x, wanted, lambda rows: track(rows, title))
        return Found(maps, scan.frame)

    def write(self, case: Case, found: Found) -> None:
        """Back into the geometry of the scan, and onto the disk."""
        with _fits(case):
            maps = restored(found.maps, found.frame)
            prediction = prediction_of(maps, self.predictor.task.regions, found.frame)
            self.order.write_maps(case, prediction)
            self.table.add(case.name, prediction.numbers)
            self.order.write_mask(case, prediction)


@contextmanager
def _fits(case: Case) -> Iterator[None]:
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError):
        raise UserError(
            f"{case.images[0]} is too large for the memory of this machine: crop it."
        ) from None


def predict_files(directory: Path, inputs: Sequence[Path], order: Order) -> Path:
    """Predict all scans in `inputs` and return `cases.csv`, which lies beside the masks.

    Memory. With V voxels of a scan as stored (b bytes each), v on the network's grid and s in a slab (4 million, or one
    row of windows), C channels, K regions and M maps (K, or 2 K with samples), the most that is held at once, beside
    the network and its probabilities of four windows, is

        reading    (b C + 17) V + 4 C v
        network    (4 C + 2 M) v + 4 (M + C + 12) s
        writing    2 M (v + V) + 2 (K + 1) V + 70 s

    bytes, whatever the number of samples. Of several scans, one is read, one is in the network and one is written.
    """
    predictor = load(directory)
    cases = find_cases(inputs, predictor.task)
    order.begin(directory, cases)
    waiting = [case for case in cases if not order.is_done(case)]
    if len(waiting) < len(cases):
        console.print(
            f"{len(cases) - len(waiting)} of {len(cases)} scans were predicted before: {order.out}"
        )
    table = Table(order.out / TABLE_FILE)
    steps = Steps(predictor, order, table, waiting)
    outcomes = [outcome for _, outcome in fly(waiting, steps.read, steps.predict, steps.write)]
    complaints = [str(outcome) for outcome in outcomes if outcome]
    if complaints:
        failed = f"{len(complaints)} of {len(waiting)} scans failed, the others are in {order.out}:"
        if len(complaints) == len(waiting):
            failed = f"all {len(waiting)} scans failed:"
        raise UserError("\n  ".join([failed, *complaints]) if len(waiting) > 1 else complaints[0])
    return table.file
