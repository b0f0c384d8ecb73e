"""A trained model that predicts test cases, shifted or not, and measures what it predicted."""

import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from segpl.data.cases import Case, Task
from segpl.data.formats.image import spacing
from segpl.data.frames import Frame
from segpl.data.preparation import Preparation, Truth, Volume, load, load_truth, unprepared
from segpl.evaluation.ledger import Tables
from segpl.evaluation.measuring import (
    certainty_scores,
    confidence_curves,
    image_scores,
    long,
    mask_scores,
    reliability_rows,
)
from segpl.evaluation.saving import save_mask, save_probabilities, save_slice
from segpl.evaluation.shifts import Clean, Shift
from segpl.foundation.files import file_name
from segpl.foundation.progress import track
from segpl.inference.temperature import fit_temperature, tempered
from segpl.inference.windows import predict_volume
from segpl.metrics.calibration import mistakes, reliability
from segpl.settings.run import Run


@dataclass(frozen=True, eq=False)
class Judge:
    """A trained model, and how it is asked."""

    run: Run
    task: Task
    model: nn.Module
    device: torch.device
    samples: int
    """Sampled thresholds or members that a prediction is the mean of."""
    tolerance: float
    """Millimetres that a surface may be off for the surface Dice."""
    masks: Path
    probabilities: Path
    """Folders for what was found in the clean images."""
    pictures: Path
    """Folder for what a case looks like under each shift."""
    pictured: str
    """The case that is kept as a picture."""
    rates: list[float] = field(default_factory=list)
    """Voxels per second of each clean prediction."""
    clean: dict[str, Float[Tensor, "S K X Y Z"]] = field(default_factory=dict)
    """What was found in the case at hand as it is: a sweep's level 0 needs no second look."""
    read: Callable[[Case, Task, Preparation], tuple[Volume, Truth]] = field(
        default_factory=lambda: lru_cache(maxsize=1)(_read)
    )
    """All shifts of a case come one after the other, so its files are read once; by another judge, anew."""

    def measure(self, case: Case, shift: Shift, temperature: float | None) -> Tables:
        """All numbers of a case under a shift; with a temperature, those of the calibrated probabilities too."""
        p, truth = self._predicted(case, shift)
        mean, regions = p.mean(0), [region.name for region in self.task.regions]
        found, binned, made = mean > 0.5, reliability(mean, truth.y), mistakes(mean, truth.y)
        measured = mask_scores(found, truth.y, spacing(truth.affine), self.tolerance)
        measured |= certainty_scores(mean, truth.y, binned, made)
        curves = [confidence_curves(binned, made, regions)]
        if temperature:
            calibrated = tempered(p, temperature).mean(0)
            binned = reliability(calibrated, truth.y)
            after = certainty_scores(calibrated, truth.y, binned, mistakes(calibrated, truth.y))
            measured |= {f"{name}_tempered": value for name, value in after.items()}
            curves.append(reliability_rows(binned, "reliability_tempered", regions))
        scores = _of(case, long(measured, regions), shift)
        if not isinstance(shift, Clean):
            return Tables(scores, pd.DataFrame(), pd.DataFrame())
        save_mask(self.masks / f"{file_name(case.name)}.nii.gz", found, self.task.regions, truth.affine)
        save_probabilities(self.probabilities / f"{file_name(case.name)}.nii.gz", mean, truth.affine)
        images = image_scores(found, truth.y, self.run.patch, regions)
        return Tables(scores, _of(case, images, shift), _of(case, pd.concat(curves), shift))

    def temperature(self, cases: Sequence[Case]) -> dict[str, float]:
        """The temperature that these cases ask for: validation cases, never those of the test."""

        def predictions() -> Iterator[tuple[Float[Tensor, "K X Y Z"], Bool[Tensor, "K X Y Z"]]]:
            for case in track(cases, "Fitting the temperature"):
                p, truth = self._predicted(case, Clean(0.0))
                yield p.mean(0), truth.y

        return fit_temperature(predictions())

    def _predicted(self, case: Case, shift: Shift) -> tuple[Float[Tensor, "S K X Y Z"], Truth]:
        """The probabilities of the shifted case in the geometry of its label, and the label."""
        volume, truth = self.read(case, self.task, self.run.preparation)
        if shift.level or case.name not in self.clean:
            x = self._shifted(volume, shift)
            if case.name == self.pictured:
                save_slice(self.pictures / f"{shift.name}={shift.level:g}.png", x, volume.x, truth.y)
            started = time.perf_counter()
            p = predict_volume(self._predict, x, self.run.patch).cpu()
            frame = Frame(truth.y.shape[1:], truth.affine, self.run.orientation)
            if shift.level:
                return unprepared(p, frame), truth
            self.rates.append(volume.x[0].numel() / (time.perf_counter() - started))
            self.clean.clear()
            self.clean[case.name] = unprepared(p, frame)
        return self.clean[case.name], truth

    def _shifted(self, volume: Volume, shift: Shift) -> Float[Tensor, "C X Y Z"]:
        """What the network is shown. An attack works window by window, so that its memory stays bounded."""
        assert volume.y is not None, "test cases are labelled"
        x, y = volume.x.to(self.device), volume.y.to(self.device)
        seed = zlib.crc32(volume.case.name.encode())

        def attacked(both: Tensor) -> Tensor:
            return shift(both[:, : len(x)], both[:, len(x) :], self._predict, seed)[None]

        if shift.level and shift.by_window:
            (x,) = predict_volume(attacked, torch.cat([x, y.to(x)]), self.run.patch, overlap=0)
        elif shift.level:
            (x,) = shift(x[None], y[None].to(x), self._predict, seed)
        return x

    def _predict(self, x: Float[Tensor, "B C *space"]) -> Float[Tensor, "S B K *space"]:
        return self.run.method.predict(self.model, x, self.samples)


def _read(case: Case, task: Task, preparation: Preparation) -> tuple[Volume, Truth]:
    return load(case, task, preparation), load_truth(case, task)


def _of(case: Case, table: pd.DataFrame, shift: Shift) -> pd.DataFrame:
    """The table with columns that say whose numbers these are."""
    whose = {"subject": case.subject, "case": case.name, "region": table["region"]}
    rest = table.drop(columns="region")
    return pd.concat([pd.DataFrame({**whose, "shift": shift.name, "level": shift.level}), rest], axis=1)
