"""A trained model that predicts test cases, shifted or not, and measures its predictions."""

import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from segpl.data.cases import Case
from segpl.data.formats.image import spacing
from segpl.data.preparation import Prepared, Truth, truth_of
from segpl.data.scans import read_scan
from segpl.evaluation.case_scores import (
    Masks,
    Probabilities,
    RegionScores,
    certainty_scores,
    counted_voxels,
    image_scores,
    mask_scores,
    reliability_rows,
    risk_coverage_rows,
    score_rows,
)
from segpl.evaluation.measurements import Tables
from segpl.evaluation.saving import (
    save_mask,
    save_probabilities,
    save_slice,
    save_slice_levels,
)
from segpl.evaluation.shifts import Clean, Shift
from segpl.foundation.files import file_name
from segpl.foundation.progress import track
from segpl.inference.levels import HALF, to_probabilities
from segpl.inference.maps import ScanMaps
from segpl.inference.predictor import MapOptions, Predictor, to_scan_grid
from segpl.inference.temperature import fit_temperature
from segpl.inference.windows import predict_volume
from segpl.metrics.calibration import mistakes, reliability
from segpl.rundir import LEVELS_FILE


@dataclass(frozen=True)
class OutputPaths:
    """Where the masks and pictures of an evaluation go."""

    masks: Path
    """Folder for the masks of the clean images."""
    probabilities: Path
    """Folder for the probabilities of the clean images."""
    measured: Path
    """Folder with a folder for each case: exact probabilities of a slice, and pictures."""
    pictured_case: str
    """The name of the case with pictures under each shift."""


@dataclass
class LoadedCase:
    """A case read from disk, and the maps of its clean image once they are predicted."""

    name: str
    prepared: Prepared
    truth: Truth
    clean_maps: ScanMaps | None = None
    """On the grid of the label."""


@dataclass(eq=False)
class Evaluator:
    """A trained model with the settings of an evaluation."""

    predictor: Predictor
    samples: int
    """Sampled thresholds or members that a mask is the mean of."""
    tolerance: float
    """Millimetres that a surface may be off for the surface Dice."""
    outputs: OutputPaths
    voxel_rates: list[float] = field(default_factory=list)
    """Voxels per second of each clean prediction."""
    loaded: LoadedCase | None = None
    """The last case. All shifts of a case are measured in a row, so its files are read once."""

    def measure(self, case: Case, shift: Shift, temperature: float | None) -> Tables:
        """All numbers of a case under a shift; with a temperature, calibrated ones too.

        Certainty scores judge the probabilities alone: the label that they imply is p > 1/2, even
        if a learnt threshold cuts the mask elsewhere.
        """
        temperatures = (1.0, temperature) if temperature else (1.0,)
        maps, truth = self._predict_maps(case, shift, temperatures)
        regions = [region.name for region in self.predictor.task.regions]
        p = to_probabilities(maps.probability())
        found_masks = torch.from_numpy(maps.mask_levels > HALF)
        scores = mask_scores(
            found_masks, truth.y, spacing(truth.affine), self.tolerance, truth.ignored
        )
        true_regions = counted_voxels(truth.y, truth.ignored)
        certainty, certainty_curves = _certainty(
            counted_voxels(p, truth.ignored), true_regions, regions
        )
        scores |= certainty
        curves = [certainty_curves]
        if temperature:
            calibrated = to_probabilities(maps.probability(temperature=1))
            certainty, reliability_curve = _calibrated_certainty(
                counted_voxels(calibrated, truth.ignored), true_regions, regions
            )
            scores |= certainty
            curves.append(reliability_curve)
        score_table = _add_case_columns(score_rows(scores, regions), case, shift)
        if not isinstance(shift, Clean):
            return Tables(score_table, pd.DataFrame(), pd.DataFrame())
        self._save(case, found_masks, p, truth)
        images = image_scores(
            found_masks, truth.y, self.predictor.run.patch, regions, truth.ignored
        )
        return Tables(
            scores=score_table,
            images=_add_case_columns(images, case, shift),
            curves=_add_case_columns(pd.concat(curves), case, shift),
        )

    def fit_temperature(self, cases: Sequence[Case]) -> dict[str, float]:
        """Fit the temperature to validation cases; never give it test cases."""

        def predictions() -> Iterator[tuple[Probabilities, Masks]]:
            for case in track(cases, "Fitting the temperature"):
                maps, truth = self._predict_maps(case, Clean(0.0), (1.0,))
                p = to_probabilities(maps.probability())
                yield counted_voxels(p, truth.ignored), counted_voxels(truth.y, truth.ignored)

        return fit_temperature(predictions())

    def _save(
        self,
        case: Case,
        found_masks: Masks,
        p: Probabilities,
        truth: Truth,
    ) -> None:
        """Write the mask and the probabilities for figures and viewers."""
        name = f"{file_name(case.name)}.nii.gz"
        regions = self.predictor.task.regions
        save_mask(self.outputs.masks / name, found_masks, regions, truth.affine)
        save_probabilities(self.outputs.probabilities / name, p, truth.affine)
        levels_file = self.outputs.measured / file_name(case.name) / LEVELS_FILE
        save_slice_levels(levels_file, p, truth.y)

    def _predict_maps(
        self,
        case: Case,
        shift: Shift,
        temperatures: tuple[float, ...],
    ) -> tuple[ScanMaps, Truth]:
        """The maps of the shifted case in the geometry of its label, and the label."""
        loaded = self._load(case)
        is_clean = shift.level == 0
        if is_clean and loaded.clean_maps is not None:
            return loaded.clean_maps, loaded.truth
        x = self._shifted(case, loaded.prepared, shift)
        if case.name == self.outputs.pictured_case:
            folder = self.outputs.measured / file_name(case.name)
            file = folder / f"{shift.name}={shift.level:g}.png"
            save_slice(file, x, loaded.prepared.x, loaded.truth.y)
        started = time.perf_counter()
        maps_on_network_grid = self.predictor.maps(x, MapOptions(self.samples, temperatures))
        seconds = time.perf_counter() - started
        maps = to_scan_grid(maps_on_network_grid, loaded.prepared.frame)
        if is_clean:
            self.voxel_rates.append(x[0].numel() / seconds)
            loaded.clean_maps = maps
        return maps, loaded.truth

    def _load(self, case: Case) -> LoadedCase:
        """Read the files of a case, unless it is the one that was read last."""
        if self.loaded is None or self.loaded.name != case.name:
            scan = read_scan(case)
            assert scan.label, "test cases are labelled"
            truth = truth_of(scan.label, self.predictor.task)
            self.loaded = LoadedCase(case.name, self.predictor.prepare(scan), truth)
        return self.loaded

    def _shifted(self, case: Case, prepared: Prepared, shift: Shift) -> Float[Tensor, "C X Y Z"]:
        """The image that the network is given."""
        if shift.level == 0:
            return prepared.x
        assert prepared.y is not None, "test cases are labelled"
        x = prepared.x.to(self.predictor.device)
        y = prepared.y.to(x)
        seed = zlib.crc32(case.name.encode())
        if not shift.by_window:
            (changed,) = shift(x[None], y[None], self._predict, seed)
            return changed.cpu()
        channels = len(x)

        def attack(x_and_y: Float[Tensor, "B D *space"]) -> Float[Tensor, "B C *space"]:
            windows = x_and_y[:, :channels]
            labels = x_and_y[:, channels:]
            return shift(windows, labels, self._predict, seed)

        # Attacks need gradients. Window by window, their memory is bounded.
        patch = self.predictor.run.patch
        return predict_volume(attack, torch.cat([x, y]), patch, overlap=0)

    def _predict(self, x: Float[Tensor, "B C *space"]) -> Float[Tensor, "S B K *space"]:
        """What an attack works against: the samples that masks are made of."""
        predicted = self.predictor.run.method.predict(self.predictor.model, x, self.samples)
        return predicted.samples


def _certainty(
    p: Probabilities,
    truth: Masks,
    regions: Sequence[str],
) -> tuple[RegionScores, pd.DataFrame]:
    """The certainty scores, and the curves of reliability and of risk against coverage."""
    bins = reliability(p, truth)
    made = mistakes(p, truth)
    scores = certainty_scores(p, truth, bins, made)
    curves = [reliability_rows(bins, "reliability", regions), risk_coverage_rows(made, regions)]
    return scores, pd.concat(curves, ignore_index=True)


def _calibrated_certainty(
    p: Probabilities,
    truth: Masks,
    regions: Sequence[str],
) -> tuple[RegionScores, pd.DataFrame]:
    """The certainty scores after temperature scaling, and the curve of reliability."""
    bins = reliability(p, truth)
    scores = certainty_scores(p, truth, bins, mistakes(p, truth))
    renamed = {f"{name}_tempered": values for name, values in scores.items()}
    return renamed, reliability_rows(bins, "reliability_tempered", regions)


def _add_case_columns(table: pd.DataFrame, case: Case, shift: Shift) -> pd.DataFrame:
    """The table with columns for the subject, the case and the shift."""
    columns = {
        "subject": case.subject,
        "case": case.name,
        "region": table["region"],
        "shift": shift.name,
        "level": shift.level,
    }
    return pd.concat([pd.DataFrame(columns), table.drop(columns="region")], axis=1)
