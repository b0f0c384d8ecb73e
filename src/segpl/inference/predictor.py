"""The only path from a trained run and a scan to probabilities and a mask in the scan's own geometry.

Validation during training, `evaluate`, `predict`, `rank` and `export` all go through
`predict_slabs`, and all but validation through `Predictor.maps` and `restored`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from jaxtyping import Float, UInt16
from torch import Tensor, nn

from segpl.data.cases import Case, Task
from segpl.data.frames import Frame
from segpl.data.inputs import find_cases
from segpl.data.memory import from_memory
from segpl.data.preparation import Prepared, Scan, prepare, read
from segpl.foundation.device import choose_device
from segpl.foundation.errors import UserError
from segpl.inference.levels import packed, resampled
from segpl.inference.model import load_model
from segpl.inference.result import Prediction, prediction_of
from segpl.inference.temperature import tempered
from segpl.inference.windows import Window, predict_slabs, slabs
from segpl.settings.run import Run, read_run, read_task

if TYPE_CHECKING:
    import SimpleITK
    from nibabel.spatialimages import SpatialImage

T = TypeVar("T")
Watch = Callable[[Sequence[T]], Iterable[T]]


@dataclass(frozen=True)
class Wanted:
    """Which maps to make of a scan."""

    samples: int = 1
    """Thresholds, members or both that a probability is the mean of."""
    temperatures: tuple[float, ...] = (1.0,)
    """One set of probabilities for each: above 1 every sample is less confident, below 1 more."""

    @property
    def has_variance(self) -> bool:
        """Whether the variance between the samples is among the maps."""
        return self.samples > 1

    def maps(self, regions: int) -> int:
        """How many maps there are: those of each temperature, then the variances."""
        return regions * (len(self.temperatures) + self.has_variance)


@dataclass(frozen=True, eq=False)
class Predictor:
    """A trained network with all that its scans must go through.

    >>> import numpy as np
    >>> from segpl.inference.predictor import load
    >>> predictor = load(run_directory)
    >>> found = predictor.predict(np.zeros((4, 40, 40, 6)), spacing=(1, 1, 3))
    >>> found.mask.shape, found.probability.shape
    ((40, 40, 6), (3, 40, 40, 6))
    >>> list(found.volumes_ml)
    ['whole tumour', 'tumour core', 'enhancing core']
    >>> found.save(folder / "mask.nii.gz")
    """

    run: Run
    task: Task
    model: nn.Module
    device: torch.device

    def predict(
        self,
        image: "str | Path | np.ndarray | SpatialImage | SimpleITK.Image",
        *,
        spacing: Sequence[float] | None = None,
        samples: int = 1,
        temperature: float = 1.0,
    ) -> Prediction:
        """The mask of one scan, the mean over as many samples, in the scan's own geometry.

        The image is a file, a DICOM folder or a folder with the files of one case's channels; an
        array of [X, Y, Z] or [C, X, Y, Z] in the orientation of the training images, with its
        `spacing` in mm; or an image of nibabel or SimpleITK. A temperature above 1 makes every
        sample less confident, below 1 more.
        """
        scan = self._scan(image, spacing)
        return self._predicted(scan, Wanted(samples, (temperature,)))

    def predict_case(self, case: Case) -> Prediction:
        """The mask of the scan of a case, in the scan's own geometry. Its label is not read."""
        return self._predicted(read(case.unlabelled()), Wanted())

    def _predicted(self, scan: Scan, wanted: Wanted) -> Prediction:
        x, _, frame = self.prepare(scan)
        maps = self.maps(x, wanted)
        del x  # as large as all that is made of it
        return prediction_of(restored(maps, frame), self.task.regions, frame)

    def prepare(self, scan: Scan) -> Prepared:
        """Do to a scan what was done to the training images."""
        prepared = prepare(scan, self.task, self.run.preparation)
        if 1 in prepared.frame.reoriented_shape[: len(self.run.patch)]:
            wrong = "seen from the side"
            if len(self.run.patch) == 3:
                wrong = "a 2D image, but the run was trained on volumes"
            file = scan.images[0].file
            raise UserError(f"{file} is {wrong}: give scans like those that it was trained on.")
        return prepared

    def maps(
        self, x: Float[Tensor, "C X Y Z"], wanted: Wanted, watch: Watch[Any] = iter
    ) -> UInt16[np.ndarray, "M X Y Z"]:
        """Probabilities on the network's grid as 16-bit levels, one set for each temperature.

        Of several samples, four times their variance follows. `watch` may show progress over the
        slabs. Memory is that of the levels and of one slab: see `predict_slabs`.
        """
        count = wanted.maps(len(self.task.regions))
        levels = np.empty((count, *x.shape[:0:-1]), dtype=np.uint16).transpose(0, 3, 2, 1)
        rows = slabs(x.shape[1:], self.run.patch)
        start = 0
        with torch.inference_mode():
            finished = predict_slabs(
                self._window(wanted), x, self.run.patch, rows, device=self.device
            )
            for _, slab in zip(watch(rows), finished, strict=True):
                end = start + slab.shape[3]
                self._pack(slab, wanted, levels[..., start:end])
                start = end
        return levels

    def _window(self, wanted: Wanted) -> Window:
        """What a window is asked for. A single sample is tempered later, once it is blended."""

        def maps_of(piece: Float[Tensor, "B C *space"]) -> Float[Tensor, "B M *space"]:
            p = self.run.method.predict(self.model, piece, wanted.samples)
            if wanted.samples == 1:
                return p[0]
            means = [tempered(p, temperature).mean(0) for temperature in wanted.temperatures]
            first = tempered(p, wanted.temperatures[0])
            variance = (first - means[0]).square().mean(0)  # var() takes 25 times as long
            return torch.cat([*means, 4 * variance], dim=1)

        return maps_of

    def _pack(
        self, slab: Float[Tensor, "M X Y z"], wanted: Wanted, levels: UInt16[np.ndarray, "N X Y z"]
    ) -> None:
        """Put a finished slab into its place, map by map so that little memory is needed."""
        if wanted.samples > 1:
            for index, p in enumerate(slab):
                levels[index] = packed(p)
            return
        for index, temperature in enumerate(wanted.temperatures):
            for region, p in enumerate(slab):
                levels[index * len(slab) + region] = packed(tempered(p, temperature))

    def _scan(self, image: Any, spacing: Sequence[float] | None) -> Scan:
        """The scan that a file, a folder or an object in memory stands for."""
        if not isinstance(image, str | Path):
            return from_memory(image, spacing)
        cases = find_cases([Path(image)], self.task)
        if len(cases) > 1:
            raise UserError(f"{image} holds {len(cases)} scans: give one.")
        return read(cases[0].unlabelled())


def restored(maps: UInt16[np.ndarray, "M x y z"], frame: Frame) -> UInt16[np.ndarray, "M X Y Z"]:
    """Maps on the network's grid, back on the grid that the scan was stored on."""
    return frame.restored(resampled(maps, frame.reoriented_shape))


def load(directory: str | Path, device: str = "auto") -> Predictor:
    """The predictor of a run directory made by `segpl train`.

    On the GPU if there is one, or where `device` says.
    """
    directory = Path(directory)
    run = read_run(directory)
    chosen = choose_device(device)
    model = load_model(directory, run).to(chosen).requires_grad_(False)
    return Predictor(run, read_task(directory), model, chosen)
