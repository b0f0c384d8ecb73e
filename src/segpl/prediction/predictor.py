"""A trained run that predicts any scan."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from jaxtyping import Float, UInt16
from torch import Tensor, nn

from segpl.data.cases import Task
from segpl.foundation.device import choose_device
from segpl.foundation.errors import UserError
from segpl.inference.model import load_model
from segpl.inference.temperature import tempered
from segpl.inference.windows import predict_slabs, slabs
from segpl.prediction.inputs import find_cases
from segpl.prediction.levels import packed
from segpl.prediction.result import Prediction, finish
from segpl.prediction.scans import Prepared, from_files, from_memory, prepare
from segpl.settings.run import Run, read_run, read_task

if TYPE_CHECKING:
    import SimpleITK
    from nibabel.spatialimages import SpatialImage

T = TypeVar("T")
Watch = Callable[[Sequence[T]], Iterable[T]]


@dataclass(frozen=True, eq=False)
class Predictor:
    """A trained network with all that its scans must go through.

    >>> import numpy as np
    >>> from segpl.prediction import load
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
    orientation: str | None
    """The way the axes of the training images point, as in RAS: scans are turned before the network sees them."""

    def predict(
        self,
        image: "str | Path | np.ndarray | SpatialImage | SimpleITK.Image",
        *,
        spacing: Sequence[float] | None = None,
        samples: int = 1,
        temperature: float = 1.0,
    ) -> Prediction:
        """The mask of one scan, the mean over as many samples, in the scan's own geometry.

        The image is a file, a DICOM folder or a folder with the files of one case's channels; an array of [X, Y, Z] or
        [C, X, Y, Z] that lies as the training images do, with its `spacing` in mm; or an image of nibabel or SimpleITK.
        Above 1 the temperature makes every sample less confident, below 1 more.
        """
        x, shape, frame = self.prepare(image, spacing)
        found = self.levels(x, samples, temperature)
        del x  # as large as all that was made of it
        return finish(found, shape, frame, self.task.regions)

    def prepare(self, image: Any, spacing: Sequence[float] | None = None) -> Prepared:
        """Read the scan and do to it what was done to the training images."""
        if not isinstance(image, str | Path):
            return prepare(*from_memory(image, spacing, self.orientation), self.task, self.run)
        cases = find_cases([Path(image)], self.task)
        if len(cases) > 1:
            raise UserError(f"{image} holds {len(cases)} scans: give one.")
        return prepare(*from_files(cases[0], self.orientation), self.task, self.run)

    def levels(
        self, x: Float[Tensor, "C X Y Z"], samples: int, temperature: float, watch: Watch[Any] = iter
    ) -> UInt16[np.ndarray, "M X Y Z"]:
        """Probabilities on the network's grid as 16-bit levels and, of several samples, four times their variance."""

        def window(piece: Float[Tensor, "B C *space"]) -> Float[Tensor, "B M *space"]:
            p = self.run.method.predict(self.model, piece, samples)
            if samples == 1:
                return p[0]
            p = tempered(p, temperature)
            mean = p.mean(0)
            return torch.cat([mean, 4 * (p - mean).square().mean(0)], dim=1)  # var() takes 25 times as long

        maps = len(self.task.regions) * (1 if samples == 1 else 2)
        found = np.empty((maps, *x.shape[:0:-1]), dtype=np.uint16).transpose(0, 3, 2, 1)
        rows, done = slabs(x.shape[1:], self.run.patch), 0
        with torch.inference_mode():
            finished = predict_slabs(window, x, self.run.patch, rows, device=self.device)
            for _, slab in zip(watch(rows), finished, strict=True):
                part = slice(done, done := done + slab.shape[3])
                for place, p in enumerate(slab):  # a single sample is tempered once it is blended: its mask stays
                    found[place, ..., part] = packed(tempered(p, temperature) if samples == 1 else p)
        return found


def load(directory: str | Path, device: str = "auto") -> Predictor:
    """The predictor of a run directory made by `segpl train`, on the GPU if there is one, or where `device` says."""
    directory = Path(directory)
    run, task = read_run(directory), read_task(directory)
    chosen = choose_device(device)
    model = load_model(directory, run).to(chosen).requires_grad_(False)
    return Predictor(run, task, model, chosen, run.orientation)
