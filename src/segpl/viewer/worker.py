"""The process that predicts scans, beside the server: torch and its memory stay out of that."""

import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import Queue
from pathlib import Path
from typing import Any

import numpy as np

from segpl.data.cases import Case
from segpl.data.formats import read_grid
from segpl.foundation.errors import UserError
from segpl.foundation.progress import silenced
from segpl.inference.predictor import Predictor, load
from segpl.prediction import predict_cases
from segpl.prediction.files import TABLE_FILE
from segpl.prediction.output_folder import OutputFolder
from segpl.prediction.request import Request
from segpl.prediction.table import CaseTable
from segpl.viewer.jobs import Job, Report
from segpl.viewer.percent import write_percent_maps
from segpl.viewer.sources import Source


@dataclass(frozen=True, eq=False)
class Work:
    """A loaded model, and the folders that it writes to."""

    source: Source
    cache: Path
    predictor: Predictor
    report: Callable[[Report], None]

    def predict(self, job: Job) -> None:
        """Predict a scan, unless that was done before, and write what the page needs."""
        folder = self._folder(job.case)
        request = self._request(folder)
        if folder == self.source.predictions:
            assert self.source.runs, "only a run predicts"

            def show_progress(slabs: Sequence[Any], _title: str) -> Iterator[Any]:
                for index, slab in enumerate(slabs):
                    self.report(Report(job.number, index / len(slabs)))
                    yield slab

            predict_cases(self.source.runs, self.predictor, [job.case], request, show_progress)
        probability = OutputFolder(request).map_file(job.case, "probability")
        voxels = self._mask_voxels(folder, job.case)
        write_percent_maps(self.cache, job.number, probability, voxels)

    def _request(self, folder: Path) -> Request:
        return Request(folder, probabilities=True, members=len(self.predictor.members))

    def _folder(self, case: Case) -> Path:
        """Where the prediction of a scan is or will be."""
        earlier = self.source.earlier_predictions
        if earlier is not None and OutputFolder(self._request(earlier)).is_done(case):
            return earlier
        assert self.source.predictions, "a run has a folder for predictions"
        return self.source.predictions

    def _mask_voxels(self, folder: Path, case: Case) -> list[int]:
        """The size of the model's mask of each region."""
        rows = CaseTable(folder / TABLE_FILE).rows
        ml_per_voxel = float(np.prod(read_grid(case.images[0]).spacing)) / 1000
        voxels = []
        for region in self.predictor.task.regions:
            volume_ml = float(rows[case.name, region.name]["volume_ml"])
            voxels.append(round(volume_ml / ml_per_voxel))
        return voxels


def work(source: Source, cache: Path, jobs: "Queue[Job | None]", reports: "Queue[Report]") -> None:
    """Predict scans until None arrives. An error ends the scan, not the process."""
    assert source.runs, "only a run predicts"
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the server, which ends this process
    predictor = None
    with silenced():
        while (job := jobs.get()) is not None:
            try:
                if predictor is None:
                    predictor = load(source.runs)
                Work(source, cache, predictor, reports.put).predict(job)
            except UserError as error:
                reports.put(Report(job.number, 0.0, str(error)))
            except Exception as error:  # the page must not wait for a process that has ended
                reports.put(Report(job.number, 0.0, f"this should not have happened: {error!r}"))
            else:
                reports.put(Report(job.number, 1.0))
