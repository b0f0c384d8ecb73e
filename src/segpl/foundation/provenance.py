"""Where a result came from: the command, the data, the versions, the machine, and the program itself."""

import hashlib
import json
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from segpl.foundation.command import current_command
from segpl.foundation.files import write_text


def write_provenance(file: Path, data: Path, equivalent: Sequence[str]) -> None:
    """Where a run came from: versions, machine, command, time, data; one more entry each time it goes on.

    For a run that a program made, `equivalent` is the command that makes it again.
    """
    before = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else []
    packages = ("segpl", "torch", "lightning", "monai", "numpy", "nibabel")
    contents = {
        "command": current_command() or list(equivalent),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "code": code_hash(),
        "packages": {name: version(name) for name in packages},
        "machine": {"system": platform.platform(), "processors": os.cpu_count()},
        "data": {"folder": str(data), "fingerprint": _fingerprint(data)},
    }
    write_text(file, json.dumps([*before, contents], indent=2) + "\n")


def _fingerprint(folder: Path) -> str:
    """A hash of the names and sizes of all files: cheap, and it changes when a file is added, removed or resized."""
    folder = folder if folder.is_dir() else folder.parent  # a manifest may be named itself
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    lines = (f"{file.relative_to(folder).as_posix()} {file.stat().st_size}\n" for file in files)
    return "sha256:" + hashlib.sha256("".join(lines).encode()).hexdigest()


def code_hash() -> str:
    """A hash of this program, to tell apart what one version number may stand for while it is worked on."""
    folder = Path(str(files("segpl")))
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*.py")):
        digest.update(file.relative_to(folder).as_posix().encode() + b"\0" + file.read_bytes())
    return f"sha256:{digest.hexdigest()}"
