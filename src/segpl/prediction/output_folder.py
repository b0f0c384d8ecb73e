"""The folder that predictions are written to, and its record of runs and scans."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from segpl.data.cases import Case
from segpl.data.digests import image_files
from segpl.data.formats import read_image
from segpl.data.formats.image import split_array_name
from segpl.data.saving import NIFTI, same_format
from segpl.foundation.errors import UserError
from segpl.foundation.files import file_name
from segpl.foundation.plain_files import read_json_object
from segpl.inference.pictures import Picture, save_picture
from segpl.inference.result import Prediction
from segpl.prediction.dicom import is_complete_seg, save_dicom_seg
from segpl.prediction.request import Request
from segpl.prediction.slicer import save_segmentation
from segpl.rundir import WEIGHTS_FILE, run_directories, write_json

SEGMENTATION = ".seg.nrrd"
"""The ending by which 3D Slicer knows a segmentation."""
PICTURES_FOLDER = "pictures"
"""Folder of the overview pictures, which have the names of the masks."""
RECORD_FILE = "prediction.json"
"""Which run, settings and scans the masks of the folder belong to."""


@dataclass(frozen=True)
class OutputFolder:
    """The masks of many scans, and folders of maps where they are requested."""

    request: Request

    def begin(self, directory: Path, cases: Iterable[Case]) -> None:
        """Record that the folder holds predictions of these scans by the run in `directory`.

        Or by the runs in it, if they predict together.

        A folder that holds predictions with other settings, the masks of other scans or the scans
        themselves is an error.
        """
        settings = self._settings(directory)
        record = self._read_record(settings)
        scans = dict(record.get("scans", {}))
        for case in cases:
            self._check_mask_is_not_scan(case)
            scan = _scan_record(case)
            self._check_existing_mask(case, scan, scans.get(case.name))
            scans[case.name] = scan
        write_json(self.request.out / RECORD_FILE, {**settings, "scans": scans})

    def _settings(self, directory: Path) -> dict[str, Any]:
        """What all predictions of the folder share."""
        digest = hashlib.sha256()
        for run in run_directories(directory):
            digest.update((run / WEIGHTS_FILE).read_bytes())
        return {
            "weights": digest.hexdigest()[:16],
            "samples": self.request.samples,
            "temperature": self.request.temperature,
        }

    def _read_record(self, settings: dict[str, Any]) -> dict[str, Any]:
        """The record of a folder in use, or the settings alone; other settings are an error."""
        file = self.request.out / RECORD_FILE
        if not file.is_file():
            return settings
        record = read_json_object(file, "choose another --out")
        for key, value in settings.items():
            if record.get(key) != value:
                raise UserError(
                    f"{self.request.out} holds predictions of another run, or with other samples "
                    "or another temperature: choose another --out."
                )
        _check_scan_records(file, record.get("scans"))
        return record

    def _check_mask_is_not_scan(self, case: Case) -> None:
        masks = [mask.resolve() for mask in self._possible_masks(case)]
        for image in case.images:
            if image.resolve() in masks:
                raise UserError(
                    f"{case.images[0]} would be overwritten by its mask: choose another --out."
                )

    def _check_existing_mask(
        self,
        case: Case,
        scan: dict[str, Any],
        before: dict[str, Any] | None,
    ) -> None:
        """Refuse a mask that belongs to another scan; remove the mask of a scan that has changed.

        `scan` and `before` describe the scan of this name now and at the last prediction.
        """
        masks = [mask for mask in self._possible_masks(case) if mask.exists()]
        if masks and not _is_same_scan(scan, before):
            raise UserError(
                f"{masks[0]} exists and is not the mask of {case.images[0]}: choose another --out."
            )
        if before and before["content"] != scan["content"]:
            for mask in masks:
                mask.unlink()

    def is_done(self, case: Case) -> bool:
        """Whether the mask and all requested maps of a case exist and can be read to their end."""
        has_mask = any(_is_complete(file) for file in self._possible_masks(case))
        maps = self._map_files(case).values()
        return has_mask and all(_is_complete(file) for file in maps)

    def write_maps(self, case: Case, prediction: Prediction) -> None:
        """Write the requested maps. Call it before `write_mask`."""
        writers = {
            "probability": prediction.save_probability,
            "uncertainty": prediction.save_uncertainty,
            "variance": prediction.save_variance,
        }
        for name, file in self._map_files(case).items():
            writers[name](file)

    def write_picture(self, case: Case, picture: Picture) -> None:
        """Write the overview picture."""
        save_picture(self.request.out / PICTURES_FOLDER / f"{file_name(case.name)}.png", picture)

    def write_mask(self, case: Case, prediction: Prediction) -> None:
        """Write the mask. It comes last, because a mask means that the case is done."""
        scan = case.images[0]
        if self.request.format == "dicom-seg":
            save_dicom_seg(self._mask_file(case, ".dcm"), scan, prediction)
            return
        if self.request.format == "seg-nrrd":
            save_segmentation(self._mask_file(case, SEGMENTATION), prediction)
            return
        ending, save = NIFTI
        if self.request.format == "same":
            ending, save = same_format(scan, prediction.mask.shape[2])
        save(self._mask_file(case, ending), prediction.mask, prediction.frame)

    def _map_files(self, case: Case) -> dict[str, Path]:
        """The file of each requested map, by the name of the map."""
        return {name: self.map_file(case, name) for name in self.request.map_names()}

    def map_file(self, case: Case, name: str) -> Path:
        """Where a map is, such as `probability`, if it was requested."""
        return self.request.out / name / f"{file_name(case.name)}.nii.gz"

    def _possible_masks(self, case: Case) -> list[Path]:
        """Where the mask may be.

        The format of a picture's mask depends on its number of slices, which is not known before it
        is read.
        """
        endings = {NIFTI[0]}
        if self.request.format == "dicom-seg":
            endings = {".dcm"}
        elif self.request.format == "seg-nrrd":
            endings = {SEGMENTATION}
        elif self.request.format == "same":
            of_picture, _ = same_format(case.images[0], slices=1)
            of_volume, _ = same_format(case.images[0], slices=2)
            endings = {of_picture, of_volume}
        return [self._mask_file(case, ending) for ending in sorted(endings)]

    def _mask_file(self, case: Case, ending: str) -> Path:
        return self.request.out / f"{file_name(case.name)}{ending}"


def _is_complete(file: Path) -> bool:
    """Whether a mask or map can be read; a file that has lost a part cannot."""
    if not file.is_file():
        return False
    if file.suffix == ".dcm":
        return is_complete_seg(file)
    try:
        read_image(file)
    except UserError:
        return False
    return True


def _check_scan_records(file: Path, scans: Any) -> None:
    """Raise an error unless every scan has a record of its files."""
    if isinstance(scans, dict) and all(_is_scan_record(scan) for scan in scans.values()):
        return
    raise UserError(f"{file} does not say which scans the masks belong to: choose another --out.")


def _is_scan_record(scan: Any) -> bool:
    return isinstance(scan, dict) and {"images", "content"} <= scan.keys()


def _scan_record(case: Case) -> dict[str, Any]:
    """Where the files of a scan are, and the size and time of change of each."""
    content = []
    for image in case.images:
        path, _ = split_array_name(image)
        if path.exists():
            files, _ = image_files(image)
            content += [_stamp(file) for file in files]
    return {
        "images": [str(image.resolve()) for image in case.images],
        "content": content,
    }


def _stamp(file: Path) -> list[int]:
    status = file.stat()
    return [status.st_size, status.st_mtime_ns]


def _is_same_scan(scan: dict[str, Any], before: dict[str, Any] | None) -> bool:
    """Whether two records describe one scan, which may have been moved or changed, but not both."""
    if before is None:
        return False
    is_unchanged = before["content"] == scan["content"]
    is_in_place = before["images"] == scan["images"]
    return is_unchanged or is_in_place
