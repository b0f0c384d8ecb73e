"""What `segpl predict` is asked for."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

MaskFormat = Literal["nifti", "same", "dicom-seg", "seg-nrrd"]


@dataclass(frozen=True)
class Request:
    """How to predict scans, and what to write of each."""

    out: Path
    """The folder of the masks. Maps go to folders inside it."""
    samples: int = 1
    """Thresholds, ensemble members or both that a mask is the mean of."""
    temperature: float = 1.0
    """Above 1 probabilities and samples are less confident, below 1 more."""
    probabilities: bool = False
    """Whether probabilities are written without samples too."""
    format: MaskFormat = "nifti"
    """The format of the masks: NIfTI, that of the scan if segpl can write it, DICOM-SEG, or
    3D Slicer's."""
    members: int = 1
    """Runs that predict together."""

    def map_names(self) -> list[str]:
        """Which maps are written beside the mask."""
        if self.samples * self.members > 1:
            return ["probability", "uncertainty", "variance"]
        return ["probability"] if self.probabilities else []
