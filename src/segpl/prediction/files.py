"""The scans of one command. Finished scans are skipped, and a scan that fails stops no other."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch

from segpl.data.cases import Case
from segpl.data.frames import Frame
from segpl.data.inputs import find_cases
from segpl.data.likeness import Likeness, TrainingStatistics, read_statistics, scan_statistics
from segpl.data.preparation import Prepared
from segpl.data.scans import read_scan
from segpl.foundation.errors import UserError
from segpl.foundation.files import remove_drafts
from segpl.foundation.locks import exclusive_use
from segpl.foundation.progress import console, track
from segpl.inference.maps import ScanMaps
from segpl.inference.pictures import Slice, choose_slices, draw_overview
from segpl.inference.predictor import MapOptions, Predictor, load, to_scan_grid
from segpl.inference.result import prediction_of
from segpl.prediction.output_folder import OutputFolder
from segpl.prediction.pipeline import run_pipeline
from segpl.prediction.request import Request
from segpl.prediction.slicer import write_colour_table
from segpl.prediction.table import CaseTable
from segpl.rundir import run_directories

T = TypeVar("T")

TitledProgress = Callable[[Sequence[Any], str], Iterable[Any]]
"""Passes items through, and may show how many are done, under a title."""

TABLE_FILE = "cases.csv"


class NetworkMaps(NamedTuple):
    """The network's maps of a scan on the network's grid, and the grid of the scan."""

    maps: ScanMaps
    frame: Frame
    likeness: Likeness | None
    """How far the scan is from the training scans; None if that is not known."""
    slices: list[Slice]
    """Those of the overview picture."""


@dataclass(frozen=True, eq=False)
class ScanSteps:
    """What happens to each scan: it is read, predicted and written."""

    predictor: Predictor
    output: OutputFolder
    table: CaseTable
    cases: Sequence[Case]
    """All scans that are predicted, for the numbers in the progress bar."""
    training_statistics: Sequence[TrainingStatistics] = ()
    """Those of the runs that have recorded them."""
    show_progress: TitledProgress = track

    def read(self, case: Case) -> Prepared:
        """Read the files of a scan, and prepare it for the network."""
        with _explain_out_of_memory(case):
            return self.predictor.prepare(read_scan(case.unlabelled()))

    def predict(self, case: Case, prepared: Prepared) -> NetworkMaps:
        """Predict all windows, with a progress bar."""
        number = self.cases.index(case) + 1
        title = f"{case.name} ({number} of {len(self.cases)})"

        def show_progress(slabs: Sequence[T]) -> Iterable[T]:
            return self.show_progress(slabs, title)

        request = self.output.request
        options = MapOptions(request.samples, (request.temperature,))
        with _explain_out_of_memory(case):
            maps = self.predictor.maps(prepared.x, options, show_progress)
        slices = choose_slices(prepared.x, maps.mask_levels, prepared.frame)
        return NetworkMaps(maps, prepared.frame, self._likeness(prepared), slices)

    def _likeness(self, prepared: Prepared) -> Likeness | None:
        """How far a scan is from the training scans of the run that knows most like it."""
        statistics = scan_statistics(prepared.x, self.predictor.task.channels)
        likenesses = []
        for training_statistics in self.training_statistics:
            likeness = training_statistics.likeness(statistics)
            if likeness is not None:
                likenesses.append(likeness)
        return min(likenesses, default=None)

    def write(self, case: Case, network_maps: NetworkMaps) -> None:
        """Write the maps, the numbers and the mask in the geometry of the scan."""
        frame = network_maps.frame
        with _explain_out_of_memory(case):
            maps = to_scan_grid(network_maps.maps, frame)
            prediction = prediction_of(maps, self.predictor.task.regions, frame)
            self.output.write_maps(case, prediction)
            picture = draw_overview(network_maps.slices, self.predictor.task.regions)
            self.output.write_picture(case, picture)
            self.table.add(case.name, prediction.numbers, network_maps.likeness)
            self.output.write_mask(case, prediction)


@contextmanager
def _explain_out_of_memory(case: Case) -> Iterator[None]:
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError):
        raise UserError(
            f"{case.images[0]} is too large for the memory of this machine: crop it."
        ) from None


def predict_files(
    directory: Path,
    inputs: Sequence[Path],
    request: Request,
) -> Path:
    """Predict all scans in `inputs` by a run, or by all runs of a folder, and return `cases.csv`.

    The table is beside the masks.
    """
    predictor = load(directory)
    return predict_cases(directory, predictor, find_cases(inputs, predictor.task), request)


def predict_cases(
    directory: Path,
    predictor: Predictor,
    cases: Sequence[Case],
    request: Request,
    show_progress: TitledProgress = track,
) -> Path:
    """Predict these scans with the predictor of `directory`, and return `cases.csv`.

    `show_progress` wraps the slabs of each scan.

    Memory. With V voxels of a scan as stored (b bytes each), v on the network's grid and s in a
    slab (4 million, or one row of windows), C channels, K regions and M maps (K probabilities,
    K more with samples and K more with thresholds other than 1/2), the most that is held at once,
    beside the network and its probabilities of four windows, is

        reading    (b C + 17) V + 4 C v
        network    (4 C + 2 M) v + 4 (M + C + 12) s
        writing    2 M (v + V) + 2 (K + 1) V + 70 s

    bytes, whatever the number of samples. Of several scans, one is read, one is in the network and
    one is written at the same time.
    """
    request = replace(request, members=len(predictor.members))
    with exclusive_use(request.out):
        remove_drafts(request.out, depth=1)
        return _predict_cases(directory, predictor, cases, request, show_progress)


def _predict_cases(
    directory: Path,
    predictor: Predictor,
    cases: Sequence[Case],
    request: Request,
    show_progress: TitledProgress,
) -> Path:
    output = OutputFolder(request)
    output.begin(directory, cases)
    write_colour_table(request.out, predictor.task.regions)
    waiting = [case for case in cases if not output.is_done(case)]
    done = len(cases) - len(waiting)
    if done > 0:
        console.print(f"{done} of {len(cases)} scans were predicted before: {request.out}")
    table = CaseTable(request.out / TABLE_FILE)
    training_statistics = _training_statistics(directory)
    steps = ScanSteps(predictor, output, table, waiting, training_statistics, show_progress)
    errors = []
    for _, error in run_pipeline(waiting, steps.read, steps.predict, steps.write):
        if error is not None:
            errors.append(str(error))
    if errors:
        raise _failure(errors, len(waiting), request.out)
    return table.file


def _training_statistics(directory: Path) -> list[TrainingStatistics]:
    """What the runs have recorded of their training scans."""
    recorded = [read_statistics(run) for run in run_directories(directory)]
    return [statistics for statistics in recorded if statistics is not None]


def _failure(errors: Sequence[str], scans: int, out: Path) -> UserError:
    """One error that lists the errors of several scans; that of a single scan as it is."""
    if scans == 1:
        return UserError(errors[0])
    summary = f"{len(errors)} of {scans} scans failed, the others are in {out}:"
    if len(errors) == scans:
        summary = f"all {scans} scans failed:"
    return UserError("\n  ".join([summary, *errors]))
