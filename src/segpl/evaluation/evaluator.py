"""A trained model that predicts test cases, shifted or not, and measures what it predicted."""

import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, UInt16
from torch import Tensor

from segpl.data.cases import Case
from segpl.data.formats.image import spacing
from segpl.data.preparation import Prepared, Truth, masks, read
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
from segpl.inference.levels import unpacked
from segpl.inference.predictor import Predictor, Wanted, restored
from segpl.inference.temperature import fit_temperature
from segpl.inference.windows import predict_volume
from segpl.metrics.calibration import mistakes, reliability


@dataclass(frozen=True)
class Places:
    """Where the masks and pictures of an evaluation go."""

    masks: Path
    probabilities: Path
    """Folders for what was found in the clean images."""
    pictures: Path
    """Folder for what one case looks like under each shift."""
    pictured: str
    """That case."""


class Current(dict[str, tuple[Prepared, Truth]]):
    """The case at hand, prepared, with its label. All shifts of a case come one after the other."""

    def load(self, case: Case, predictor: Predictor) -> tuple[Prepared, Truth]:
        """Read the files of a case, unless it is the one that was read last."""
        if case.name not in self:
            scan = read(case)
            assert scan.label, "test cases are labelled"
            truth = Truth(masks(scan.label, predictor.task.regions), scan.label.affine)
            self.clear()
            self[case.name] = predictor.prepare(scan), truth
        return self[case.name]


@dataclass(frozen=True, eq=False)
class Evaluator:
    """A trained model, how it is asked, and where the masks go."""

    predictor: Predictor
    samples: int
    """Sampled thresholds or members that a prediction is the mean of."""
    tolerance: float
    """Millimetres that a surface may be off for the surface Dice."""
    places: Places
    rates: list[float] = field(default_factory=list)
    """Voxels per second of each clean prediction."""
    current: Current = field(default_factory=Current)
    clean: dict[str, UInt16[np.ndarray, "M X Y Z"]] = field(default_factory=dict)
    """The maps of the case at hand as it is: level 0 of a sweep is not predicted again."""

    def measure(self, case: Case, shift: Shift, temperature: float | None) -> Tables:
        """All numbers of a case under a shift; with a temperature, calibrated ones too."""
        temperatures = (1.0, temperature) if temperature else (1.0,)
        p, truth = self._predicted(case, shift, temperatures)
        regions = [region.name for region in self.predictor.task.regions]
        plain = p[: len(regions)]
        found = plain > 0.5
        binned = reliability(plain, truth.y)
        made = mistakes(plain, truth.y)
        measured = mask_scores(found, truth.y, spacing(truth.affine), self.tolerance)
        measured |= certainty_scores(plain, truth.y, binned, made)
        curves = [confidence_curves(binned, made, regions)]
        if temperature:
            calibrated = p[len(regions) : 2 * len(regions)]
            binned = reliability(calibrated, truth.y)
            after = certainty_scores(calibrated, truth.y, binned, mistakes(calibrated, truth.y))
            measured |= {f"{name}_tempered": value for name, value in after.items()}
            curves.append(reliability_rows(binned, "reliability_tempered", regions))
        scores = _of(case, long(measured, regions), shift)
        if not isinstance(shift, Clean):
            return Tables(scores, pd.DataFrame(), pd.DataFrame())
        self._save(case, found, plain, truth)
        images = image_scores(found, truth.y, self.predictor.run.patch, regions)
        return Tables(scores, _of(case, images, shift), _of(case, pd.concat(curves), shift))

    def temperature(self, cases: Sequence[Case]) -> dict[str, float]:
        """The temperature that these cases ask for: validation cases, never those of the test."""

        def predictions() -> Iterator[tuple[Float[Tensor, "K X Y Z"], Bool[Tensor, "K X Y Z"]]]:
            for case in track(cases, "Fitting the temperature"):
                p, truth = self._predicted(case, Clean(0.0), (1.0,))
                yield p[: len(truth.y)], truth.y

        return fit_temperature(predictions())

    def _save(
        self,
        case: Case,
        found: Bool[Tensor, "K X Y Z"],
        p: Float[Tensor, "K X Y Z"],
        truth: Truth,
    ) -> None:
        """Keep the mask and the probabilities for figures and viewers."""
        name = f"{file_name(case.name)}.nii.gz"
        save_mask(self.places.masks / name, found, self.predictor.task.regions, truth.affine)
        save_probabilities(self.places.probabilities / name, p, truth.affine)

    def _predicted(
        self, case: Case, shift: Shift, temperatures: tuple[float, ...]
    ) -> tuple[Float[Tensor, "M X Y Z"], Truth]:
        """Probabilities of the shifted case in the geometry of its label, and the label.

        One set of probabilities for each temperature; the variance of several samples follows.
        """
        prepared, truth = self.current.load(case, self.predictor)
        if not shift.level and case.name in self.clean:
            return unpacked(self.clean[case.name]), truth
        x = self._shifted(case, prepared, shift)
        if case.name == self.places.pictured:
            file = self.places.pictures / f"{shift.name}={shift.level:g}.png"
            save_slice(file, x, prepared.x, truth.y)
        started = time.perf_counter()
        on_network_grid = self.predictor.maps(x, Wanted(self.samples, temperatures))
        if not shift.level:
            self.rates.append(x[0].numel() / (time.perf_counter() - started))
        maps = restored(on_network_grid, prepared.frame)
        if not shift.level:
            self.clean.clear()
            self.clean[case.name] = maps
        return unpacked(maps), truth

    def _shifted(self, case: Case, prepared: Prepared, shift: Shift) -> Float[Tensor, "C X Y Z"]:
        """What the network is shown. Attacks work window by window, so that memory is bounded."""
        if not shift.level:
            return prepared.x
        assert prepared.y is not None, "test cases are labelled"
        device = self.predictor.device
        x = prepared.x.to(device)
        y = prepared.y.to(x)
        seed = zlib.crc32(case.name.encode())
        if not shift.by_window:
            (changed,) = shift(x[None], y[None], self._predict, seed)
            return changed.cpu()

        def attacked(both: Float[Tensor, "B D *space"]) -> Float[Tensor, "B C *space"]:
            return shift(both[:, : len(x)], both[:, len(x) :], self._predict, seed)

        return predict_volume(attacked, torch.cat([x, y]), self.predictor.run.patch, overlap=0)

    def _predict(self, x: Float[Tensor, "B C *space"]) -> Float[Tensor, "S B K *space"]:
        return self.predictor.run.method.predict(self.predictor.model, x, self.samples)


def _of(case: Case, table: pd.DataFrame, shift: Shift) -> pd.DataFrame:
    """The table with columns that say whose numbers these are."""
    whose = {"subject": case.subject, "case": case.name, "region": table["region"]}
    rest = table.drop(columns="region")
    described = pd.DataFrame({**whose, "shift": shift.name, "level": shift.level})
    return pd.concat([described, rest], axis=1)
