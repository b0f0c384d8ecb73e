"""Where a result came from: command, data, package versions, machine and segpl's own code."""

import hashlib
import json
import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from segpl.foundation.command import current_command
from segpl.foundation.files import write_text

PACKAGES = ("segpl", "torch", "lightning", "monai", "numpy", "nibabel")


def write_provenance(
    file: Path,
    data: Path,
    equivalent: Sequence[str],
    further: Mapping[str, Any] | None = None,
) -> None:
    """Append an entry to the provenance file of a run; a resumed run has several entries.

    `equivalent` is the command that repeats the run; it is recorded when a Python program and not
    the command line made the run. `further` values are recorded in the entry too.
    """
    entries = []
    if file.is_file():
        entries = json.loads(file.read_text(encoding="utf-8"))
    command = current_command() or list(equivalent)
    entries.append(_entry(command, data) | dict(further or {}))
    write_text(file, json.dumps(entries, indent=2) + "\n")


def _entry(command: list[str], data: Path) -> dict[str, Any]:
    return {
        "command": command,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "code": code_hash(),
        "packages": {name: version(name) for name in PACKAGES},
        "machine": {"system": platform.platform(), "processors": os.cpu_count()},
        "data": {"folder": str(data), "fingerprint": _fingerprint(data)},
    }


def _fingerprint(data: Path) -> str:
    """A hash of the names and sizes of all files of a data set.

    It is fast, and changes when a file is added, removed or resized.
    """
    folder = data if data.is_dir() else data.parent  # the data may be given as a manifest file
    lines = []
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            name = file.relative_to(folder).as_posix()
            size = file.stat().st_size
            lines.append(f"{name} {size}\n")
    digest = hashlib.sha256("".join(lines).encode(errors="surrogateescape"))
    return f"sha256:{digest.hexdigest()}"


def code_hash() -> str:
    """A hash of segpl's source code: it distinguishes states of the code with the same version."""
    folder = Path(str(files("segpl")))
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*.py")):
        name = file.relative_to(folder).as_posix()
        digest.update(name.encode() + b"\0" + file.read_bytes())
    return f"sha256:{digest.hexdigest()}"
