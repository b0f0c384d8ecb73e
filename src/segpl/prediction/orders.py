"""What is to be written of each scan, and where."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from segpl.data.cache import parts_of
from segpl.data.cases import Case
from segpl.data.formats.image import split
from segpl.data.saving import NIFTI, same_format
from segpl.foundation.errors import UserError
from segpl.foundation.files import draft, file_name
from segpl.inference.result import Prediction
from segpl.prediction.dicom import save_dicom_seg
from segpl.rundir import WEIGHTS_FILE

SETTINGS_FILE = "prediction.json"


@dataclass(frozen=True)
class Order:
    """A folder of masks; with samples, or where they are asked for, folders of maps inside it."""

    out: Path
    samples: int = 1
    """Thresholds, members or both that a prediction is the mean of."""
    temperature: float = 1.0
    """Above 1 every sample is less confident, below 1 more."""
    probabilities: bool = False
    """Whether probabilities are written without samples too."""
    format: Literal["nifti", "same", "dicom-seg"] = "nifti"
    """What masks are written as: NIfTI, the format of the scan where that can be written, or DICOM Segmentation."""

    def begin(self, directory: Path, cases: Iterable[Case]) -> None:
        """Note whose predictions the folder holds; refuse one that holds another's, or the scans themselves."""
        weights = hashlib.sha256((directory / WEIGHTS_FILE).read_bytes()).hexdigest()[:16]
        settings = {"weights": weights, "samples": self.samples, "temperature": self.temperature}
        file = self.out / SETTINGS_FILE
        noted: dict[str, Any] = (
            json.loads(file.read_text(encoding="utf-8")) if file.is_file() else settings
        )
        if {key: noted.get(key) for key in settings} != settings:
            raise UserError(
                f"{self.out} holds predictions of another run, or other samples: choose another --out."
            )
        scans = dict(noted.get("scans", {}))
        for case in cases:
            if any(
                image.resolve() in map(Path.resolve, self._masks(case)) for image in case.images
            ):
                raise UserError(
                    f"{case.images[0]} would be overwritten by its mask: choose another --out."
                )
            scans[case.name] = self._scan(case, scans.get(case.name))
        with draft(file) as place:
            place.write_text(
                json.dumps({**settings, "scans": scans}, indent=2) + "\n", encoding="utf-8"
            )

    def _scan(self, case: Case, before: Any) -> dict[str, Any]:
        """What a mask is of. A scan that has changed loses its old mask; another scan's mask is never taken for its."""
        files = [
            part for image in case.images if split(image)[0].exists() for part in parts_of(image)[0]
        ]
        scan = {
            "images": [str(image.resolve()) for image in case.images],
            "content": [[file.stat().st_size, file.stat().st_mtime_ns] for file in files],
        }
        there = [mask for mask in self._masks(case) if mask.exists()]
        if there and (
            before is None
            or (before["content"] != scan["content"] and before["images"] != scan["images"])
        ):
            raise UserError(
                f"{there[0]} exists and is not the mask of {case.images[0]}: choose another --out."
            )
        if before and before["content"] != scan["content"]:
            for mask in there:
                mask.unlink()
        return scan

    def is_done(self, case: Case) -> bool:
        """Whether all that is wanted of a case is there."""
        maps = (file.exists() for file in self._maps(case).values())
        return any(file.exists() for file in self._masks(case)) and all(maps)

    def write_maps(self, case: Case, found: Prediction) -> None:
        """Go before the mask, so that a mask is never without them."""
        save = {
            "probability": found.save_probability,
            "uncertainty": found.save_uncertainty,
            "variance": found.save_variance,
        }
        for kind, file in self._maps(case).items():
            save[kind](file)

    def write_mask(self, case: Case, found: Prediction) -> None:
        """Comes last: it says that the case is done."""
        if self.format == "dicom-seg":
            return save_dicom_seg(self._masks(case)[0], case.images[0], found)
        ending, save = (
            same_format(case.images[0], found.mask.shape[2]) if self.format == "same" else NIFTI
        )
        return save(self.out / f"{file_name(case.name)}{ending}", found.mask, found.frame)

    def _maps(self, case: Case) -> dict[str, Path]:
        kinds = ["probability"] if self.probabilities or self.samples > 1 else []
        kinds += ["uncertainty", "variance"] if self.samples > 1 else []
        return {kind: self.out / kind / f"{file_name(case.name)}.nii.gz" for kind in kinds}

    def _masks(self, case: Case) -> list[Path]:
        """Where the mask may be: how many slices a picture has shows only when it is read."""
        if self.format == "dicom-seg":
            return [self.out / f"{file_name(case.name)}.dcm"]
        formats = (
            {same_format(case.images[0], slices) for slices in (1, 2)}
            if self.format == "same"
            else {NIFTI}
        )
        return [self.out / f"{file_name(case.name)}{ending}" for ending, _ in formats]
