"""The only path from a trained run and a scan to probabilities and a mask in the scan's geometry.

Validation during training, `evaluate`, `predict`, `rank` and `export` all go through
`predict_slabs`, and all but validation through `Predictor.maps` and `to_scan_grid`.
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
from segpl.data.preparation import Prepared, prepare
from segpl.data.scans import Scan, read_scan
from segpl.em.tensors import Images
from segpl.foundation.device import choose_device
from segpl.foundation.errors import UserError
from segpl.inference.levels import LevelMaps, empty_levels, resample_levels, to_levels
from segpl.inference.model import load_model
from segpl.inference.result import Prediction, prediction_of
from segpl.inference.temperature import apply_temperature
from segpl.inference.windows import Window, predict_slabs, slabs
from segpl.settings.run import Run, read_run, read_task

if TYPE_CHECKING:
    import SimpleITK
    from nibabel.spatialimages import SpatialImage

T = TypeVar("T")
ShowProgress = Callable[[Sequence[T]], Iterable[T]]
"""Passes items through, and may show how many are done."""


@dataclass(frozen=True)
class MapOptions:
    """Which maps to make of a scan."""

    samples: int = 1
    """Sampled thresholds, ensemble members or both that a probability is the mean of."""
    temperatures: tuple[float, ...] = (1.0,)
    """One set of probabilities for each: above 1 every sample is less confident, below 1 more."""

    @property
    def has_variance(self) -> bool:
        """Whether the variance between the samples is among the maps."""
        return self.samples > 1

    def count(self, regions: int) -> int:
        """How many maps there are: those of each temperature, then the variances."""
        return regions * (len(self.temperatures) + self.has_variance)


@dataclass(frozen=True, eq=False)
class Predictor:
    """A trained network with the preparation of its scans.

    >>> import numpy as np
    >>> from segpl.inference.predictor import load
    >>> predictor = load(run_directory)
    >>> prediction = predictor.predict(np.zeros((4, 40, 40, 6)), spacing=(1, 1, 3))
    >>> prediction.mask.shape, prediction.probability.shape
    ((40, 40, 6), (3, 40, 40, 6))
    >>> list(prediction.volumes_ml)
    ['whole tumour', 'tumour core', 'enhancing core']
    >>> prediction.save(folder / "mask.nii.gz")
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
        """The prediction for one scan, the mean over the samples, in the scan's own geometry.

        The image is a file, a DICOM folder or a folder with the files of one case's channels; an
        array of [X, Y, Z] or [C, X, Y, Z] in the orientation of the training images, with its
        `spacing` in mm; or an image of nibabel or SimpleITK. A temperature above 1 makes every
        sample less confident, below 1 more.
        """
        scan = self._read_scan(image, spacing)
        return self._predict_scan(scan, MapOptions(samples, (temperature,)))

    def predict_case(self, case: Case) -> Prediction:
        """The prediction for a case, in its scan's own geometry. The label is not read."""
        return self._predict_scan(read_scan(case.unlabelled()), MapOptions())

    def _predict_scan(self, scan: Scan, options: MapOptions) -> Prediction:
        x, _, frame = self.prepare(scan)
        maps = self.maps(x, options)
        del x  # takes as much memory as all maps together
        return prediction_of(to_scan_grid(maps, frame), self.task.regions, frame)

    def prepare(self, scan: Scan) -> Prepared:
        """Prepare a scan as the training images were; an error if it cannot fit the network."""
        prepared = prepare(scan, self.task, self.run.preparation)
        axes = len(self.run.patch)
        if 1 in prepared.frame.reoriented_shape[:axes]:
            problem = "is a slice seen from the side"
            if axes == 3:
                problem = "is a 2D image, but the run was trained on volumes"
            file = scan.images[0].file
            raise UserError(f"{file} {problem}: give scans like those that it was trained on.")
        return prepared

    def maps(
        self,
        x: Float[Tensor, "C X Y Z"],
        options: MapOptions,
        show_progress: ShowProgress[Any] = iter,
    ) -> LevelMaps:
        """Probabilities on the network's grid as 16-bit levels, one set for each temperature.

        With several samples, four times their variance follows. `show_progress` wraps the list of
        slabs. Memory is that of the levels and of one slab: see `predict_slabs`.
        """
        shape = x.shape[1:]
        levels = empty_levels(options.count(len(self.task.regions)), shape)
        rows = slabs(shape, self.run.patch)
        start = 0
        with torch.inference_mode():
            finished_slabs = predict_slabs(
                self._window(options), x, self.run.patch, rows, device=self.device
            )
            for _, slab in zip(show_progress(rows), finished_slabs, strict=True):
                if not slab.isfinite().all():  # they would become an empty mask
                    raise UserError(
                        "the network's output is not a number: the weights of the run are "
                        "damaged, or the scan has extreme values."
                    )
                end = start + slab.shape[3]
                _store_levels(slab, options, levels[..., start:end])
                start = end
        return levels

    def _window(self, options: MapOptions) -> Window:
        """The function from windows to maps.

        A single sample stays untempered here: `_store_levels` applies the temperature after the
        windows are blended.
        """

        def window_maps(x: Images) -> Float[Tensor, "B M *space"]:
            p = self.run.method.predict(self.model, x, options.samples)
            if options.samples == 1:
                return p[0]
            means = []
            for temperature in options.temperatures:
                means.append(apply_temperature(p, temperature).mean(0))
            deviation = apply_temperature(p, options.temperatures[0]) - means[0]
            variance = deviation.square().mean(0)  # torch.var takes 25 times as long
            return torch.cat([*means, 4 * variance], dim=1)

        return window_maps

    def _read_scan(self, image: Any, spacing: Sequence[float] | None) -> Scan:
        """The scan in a file, in a folder or in memory."""
        if not isinstance(image, str | Path):
            return from_memory(image, spacing)
        cases = find_cases([Path(image)], self.task)
        if len(cases) > 1:
            raise UserError(f"{image} holds {len(cases)} scans: give one.")
        return read_scan(cases[0].unlabelled())


def _store_levels(
    slab: Float[Tensor, "M X Y z"],
    options: MapOptions,
    levels: UInt16[np.ndarray, "N X Y z"],
) -> None:
    """Convert a finished slab into `levels`, one map at a time to save memory."""
    if options.samples > 1:
        for index, values in enumerate(slab):
            levels[index] = to_levels(values)
        return
    index = 0
    for temperature in options.temperatures:
        for p in slab:
            levels[index] = to_levels(apply_temperature(p, temperature))
            index += 1


def to_scan_grid(
    maps: UInt16[np.ndarray, "M x y z"],
    frame: Frame,
) -> UInt16[np.ndarray, "M X Y Z"]:
    """Maps on the network's grid, resampled and reoriented to the grid of the stored scan."""
    return frame.restored(resample_levels(maps, frame.reoriented_shape))


def load(directory: str | Path, device: str = "auto") -> Predictor:
    """The predictor of a run directory made by `segpl train`.

    `device` is a name that torch knows, such as "cpu"; "auto" takes the GPU if there is one.
    """
    directory = Path(directory)
    run = read_run(directory)
    torch_device = choose_device(device)
    model = load_model(directory, run).to(torch_device).requires_grad_(False)
    return Predictor(run, read_task(directory), model, torch_device)
