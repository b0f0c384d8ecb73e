"""NiiVue, which draws the scans in the browser. Its JavaScript is put here when segpl is built."""

from pathlib import Path

from segpl.foundation.errors import UserError

NIIVUE = Path(__file__).parent / "static" / "vendor" / "niivue.js"


def require_niivue() -> None:
    """An error with the remedy, if segpl was installed without NiiVue."""
    if not NIIVUE.is_file():
        raise UserError(
            f"{NIIVUE} is missing, which draws the scans: run make niivue in segpl's folder, "
            "which needs npm and the network."
        )
