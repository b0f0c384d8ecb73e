"""The only path from a trained run and a scan to probabilities and a mask in the scan's geometry.

Validation during training, `evaluate`, `predict`, `rank` and `export` all go through
`predict_slabs`, and all but validation through `Predictor.maps` and `to_scan_grid`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from segpl.data.cases import Case, Task
from segpl.data.formats import stores_geometry
from segpl.data.frames import Frame
from segpl.data.inputs import find_cases
from segpl.data.memory import from_memory
from segpl.data.preparation import Prepared, prepare
from segpl.data.scans import Scan, read_scan
from segpl.em.tensors import Images, Probabilities, Samples
from segpl.em.types import Predicted
from segpl.foundation.device import choose_device
from segpl.foundation.errors import UserError
from segpl.inference.levels import empty_levels, resample_levels, to_levels
from segpl.inference.maps import ScanMaps
from segpl.inference.model import load_model
from segpl.inference.pictures import choose_slices
from segpl.inference.result import Prediction, prediction_of
from segpl.inference.temperature import apply_temperature
from segpl.inference.windows import Window, predict_slabs, slabs
from segpl.rundir import run_directories
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
    """Sampled thresholds, ensemble members or both that a mask is the mean of."""
    temperatures: tuple[float, ...] = (1.0,)
    """One set of probabilities for each: above 1 they are less confident, below 1 more."""
    members: int = 1
    """Runs that predict together, with so many samples each; the predictor knows the number."""

    @property
    def has_variance(self) -> bool:
        """Whether the variance between the samples and members is among the maps."""
        return self.samples * self.members > 1


class Member(NamedTuple):
    """A trained model, and the run that it comes from."""

    run: Run
    model: nn.Module

    def predict(self, x: Images, samples: int) -> Predicted:
        """What the run's method predicts."""
        return self.run.method.predict(self.model, x, samples)


@dataclass(frozen=True, eq=False, repr=False)
class Predictor:
    """A trained network with the preparation of its scans, or an ensemble of several.

    The probability of an ensemble is the mean of its members, which share task, preparation and
    patch: those of `run`.

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
    others: tuple[Member, ...] = ()
    """The further members of an ensemble."""

    def __repr__(self) -> str:
        runs = f", {len(self.members)} runs together" if self.others else ""
        channels = ", ".join(self.task.channels)
        regions = ", ".join(region.name for region in self.task.regions)
        return (
            f"<Predictor {self.run.method.name()}{runs}: from {channels} to {regions}, "
            f"on {self.device}>"
        )

    @property
    def members(self) -> tuple[Member, ...]:
        """All models that predict, with their runs."""
        return (Member(self.run, self.model), *self.others)

    @property
    def networks(self) -> nn.ModuleList:
        """The models of all members."""
        return nn.ModuleList([member.model for member in self.members])

    def predict(
        self,
        image: "str | Path | np.ndarray | SpatialImage | SimpleITK.Image",
        *,
        spacing: Sequence[float] | None = None,
        samples: int = 1,
        temperature: float = 1.0,
    ) -> Prediction:
        """The prediction for one scan, in the scan's own geometry.

        The image is a file, a DICOM folder or a folder with the files of one case's channels; an
        array of [X, Y, Z] or [C, X, Y, Z] in the orientation of the training images, for which
        `spacing` in mm is required; or an image of nibabel or SimpleITK. The mask is where the mean
        of the `samples` exceeds 1/2, and two or more have a variance. A temperature above 1 makes
        the probabilities and every sample less confident, below 1 more.
        """
        scan = self._read_scan(image, spacing)
        return self._predict_scan(scan, MapOptions(samples, (temperature,)))

    def predict_case(self, case: Case) -> Prediction:
        """The prediction for a case, in its scan's own geometry. The label is not read."""
        return self._predict_scan(read_scan(case.unlabelled()), MapOptions())

    def _predict_scan(self, scan: Scan, options: MapOptions) -> Prediction:
        prepared = self.prepare(scan)
        x = prepared.x
        frame = prepared.frame
        del prepared
        maps = self.maps(x, options)
        slices = choose_slices(x, maps.mask_levels, frame)
        del x  # takes as much memory as all maps together
        return prediction_of(to_scan_grid(maps, frame), self.task.regions, frame, slices)

    def prepare(self, scan: Scan) -> Prepared:
        """Prepare a scan as the training images were; an error if it cannot fit the network."""
        self._check_spacing(scan)
        prepared = prepare(scan, self.task, self.run.preparation)
        axes = len(self.run.patch)
        if 1 in prepared.frame.reoriented_shape[:axes]:
            problem = "is a slice seen from the side"
            if axes == 3:
                problem = "is a 2D image, but the run was trained on volumes"
            file = scan.images[0].file
            raise UserError(f"{file} {problem}: give scans like those that it was trained on.")
        return prepared

    def _check_spacing(self, scan: Scan) -> None:
        """Refuse a file of unknown spacing if the network needs scans of a certain one.

        Training images of unknown spacing have no orientation either.
        """
        file = scan.images[0].file
        needs_spacing = self.run.spacing is not None and self.run.orientation is not None
        is_file = not scan.is_oriented and file.suffix != ""
        if needs_spacing and is_file and not stores_geometry(file):
            raise UserError(
                f"{file} stores no spacing, but the run was trained on scans that do: "
                "convert it to NIfTI or NRRD with its spacing."
            )

    def maps(
        self,
        x: Float[Tensor, "C X Y Z"],
        options: MapOptions,
        show_progress: ShowProgress[Any] = iter,
    ) -> ScanMaps:
        """The maps on the network's grid. The variance is that of the first temperature.

        `show_progress` wraps the list of slabs. Memory is that of the levels and of one slab: see
        `predict_slabs`.
        """
        options = replace(options, members=len(self.members))
        shape = x.shape[1:]
        temperatures = len(options.temperatures)
        separate_masks = not self._cuts_at_half
        sets = temperatures + separate_masks + options.has_variance
        levels = empty_levels(sets * len(self.task.regions), shape)
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
                tempered = self._temper(slab, options)
                for index, values in enumerate(tempered):  # one map at a time to save memory
                    levels[index, ..., start:end] = to_levels(values)
                start = end
        return ScanMaps(levels, temperatures, separate_masks, options.has_variance)

    @property
    def _cuts_at_half(self) -> bool:
        """Whether the masks of all members are cut where the probability exceeds 1/2."""
        return all(member.run.method.cuts_at_half() for member in self.members)

    def _window(self, options: MapOptions) -> Window:
        """The function from windows to maps, in the order of `ScanMaps`."""

        def window_maps(x: Images) -> Float[Tensor, "B M *space"]:
            member_maps = []
            for member in self.members:  # one after the other: all samples would take much memory
                predicted = member.predict(x, options.samples)
                member_maps.append(self._member_maps(predicted, options))
            return _mean_over_members(member_maps, regions=len(self.task.regions))

        return window_maps

    def _member_maps(
        self, predicted: Predicted, options: MapOptions
    ) -> Float[Tensor, "B M *space"]:
        """The maps of one member, in the order of `ScanMaps`.

        Maps for the masks are never tempered, so no temperature moves a mask cut at thresholds.
        """
        p, samples = predicted
        maps = [p]
        if self._tempers_by_window(options):
            averaged = samples if self._cuts_at_half else p[None]
            maps = [apply_temperature(averaged, t).mean(0) for t in options.temperatures]
        if not self._cuts_at_half:
            maps.append(samples.mean(0))
        if options.has_variance:
            tempered = apply_temperature(samples, options.temperatures[0])
            maps.append(4 * _variance(tempered))
        return torch.cat(maps, dim=1)

    def _tempers_by_window(self, options: MapOptions) -> bool:
        """Whether probabilities are the mean of several predictions, each of which is tempered.

        Otherwise p itself is tempered, after its windows are blended.
        """
        has_samples = options.samples > 1 and self._cuts_at_half
        return has_samples or options.members > 1

    def _temper(
        self,
        slab: Float[Tensor, "M X Y z"],
        options: MapOptions,
    ) -> Iterator[Float[Tensor, "X Y z"]]:
        """Yield the maps of a finished slab, with p at each temperature."""
        if self._tempers_by_window(options):
            yield from slab
            return
        regions = len(self.task.regions)
        for temperature in options.temperatures:
            for p in slab[:regions]:
                yield apply_temperature(p, temperature)
        yield from slab[regions:]

    def _read_scan(self, image: Any, spacing: Sequence[float] | None) -> Scan:
        """The scan in a file, in a folder or in memory."""
        if not isinstance(image, str | Path):
            return from_memory(image, spacing)
        cases = find_cases([Path(image)], self.task)
        if len(cases) > 1:
            raise UserError(f"{image} holds {len(cases)} scans: give one.")
        return read_scan(cases[0].unlabelled())


def _variance(samples: Samples) -> Probabilities:
    """The variance between samples."""
    deviation = samples - samples.mean(0)
    return deviation.square().mean(0)  # torch.var takes 25 times as long


def _mean_over_members(
    member_maps: Sequence[Float[Tensor, "B M *space"]],
    regions: int,
) -> Float[Tensor, "B M *space"]:
    """The maps of all members together, from those of each member.

    Their variance is the mean variance within a member plus the variance between the members'
    probabilities.
    """
    if len(member_maps) == 1:
        return member_maps[0]
    stacked = torch.stack(list(member_maps))
    mean = stacked.mean(0)
    deviation = stacked[:, :, :regions] - mean[:, :regions]
    mean[:, -regions:] += 4 * deviation.square().mean(0)
    return mean


def to_scan_grid(maps: ScanMaps, frame: Frame) -> ScanMaps:
    """Maps on the network's grid, resampled and reoriented to the grid of the stored scan."""
    resampled = resample_levels(maps.levels, frame.reoriented_shape)
    return replace(maps, levels=frame.restored(resampled))


def load(directory: str | Path, device: str = "auto") -> Predictor:
    """The predictor of a run directory made by `segpl train`, or of all runs in a folder together.

    `device` is a name that torch knows, such as "cpu"; "auto" takes the GPU if there is one.
    """
    directory = Path(directory)
    torch_device = choose_device(device)
    directories = run_directories(directory) or [directory]
    members = [_load_member(path, torch_device) for path in directories]
    _check_members(directories, members)
    first, *others = members
    task = read_task(directories[0])
    return Predictor(first.run, task, first.model, torch_device, tuple(others))


def _load_member(directory: Path, device: torch.device) -> Member:
    run = read_run(directory)
    model = load_model(directory, run)
    return Member(run, model.to(device).requires_grad_(False))


def _check_members(directories: Sequence[Path], members: Sequence[Member]) -> None:
    """Refuse runs whose probabilities cannot be averaged voxel by voxel."""
    first = members[0].run
    task = read_task(directories[0])
    for directory, (run, _) in zip(directories[1:], members[1:], strict=True):
        difference = None
        if read_task(directory) != task:
            difference = "channels or regions"
        elif run.preparation != first.preparation:
            difference = "spacing, window or orientation"
        elif run.patch != first.patch:
            difference = "patch"
        if difference:
            raise UserError(
                f"{directory} cannot predict together with {directories[0]} (its {difference} "
                "differ): give one run, or a folder of runs that were planned alike."
            )
