"""The commands that are killed, on tiny phantoms, and what must be the same afterwards."""

import json
import pickle
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import nibabel
import numpy as np

from segpl.cli.exits import run_command
from segpl.data.cache import Cache
from segpl.data.layouts import read_dataset
from segpl.data.phantoms import write_phantoms
from segpl.data.preparation import Preparation
from segpl.study import local
from segpl.study.single_run import train_and_score

SETTINGS = {
    "channels": 2,
    "patch": [16, 16],
    "batch": 2,
    "ratio": 1,
    "labelled": 1,
    "steps": 6,
    "validation": 1,
    "validate_every": 3,
    "compile": False,
}
STUDY = """
title: Torture
data: {data}
settings: {settings}
methods:
- supervised
- mean-teacher
"""
NOT_COMPARED = (
    "*.lock",
    "*/provenance.json",  # an entry for each time the training was resumed
    "*/cost*.json",  # times
    "*/prediction*.json",  # times
    "*/estimates.json",
    "*/output.log",
    "*/tensorboard/*",
    "*/checkpoints/*",  # the weights that they lead to are compared
    "*/cost.*",
    "*/paper.*",
)
DEBUGGING = (".debug_pkl", "/serialization_id")
"""Endings of members of TorchScript archives; the second is a hash of all others."""
TIMES = {"seconds"}
"""Entries of JSON files that are not compared."""


class Scenario(NamedTuple):
    """A command, and the files that it needs beside it."""

    name: str
    prepare: Callable[[Path], None]
    """Copy what the command needs into a folder."""
    run: Callable[[Path], int]
    """Run the command in the folder; returns its exit code."""
    resume: Callable[[Path], int]
    """Continue after a kill."""


def write_data(folder: Path) -> Path:
    """Six tiny phantoms."""
    write_phantoms("tumour", folder, subjects=6)
    for file in folder.glob("*/*.nii.gz"):
        image = nibabel.load(file)
        middle = image.slicer[32:64, 32:64, 14:17]
        voxels = np.asarray(middle.dataobj)
        nibabel.save(nibabel.Nifti1Image(voxels, middle.affine), file)
    return folder


def training(data: Path, run: Path, seed: int = 0, method: str = "mean-teacher") -> list[str]:
    """The words of a training command; its cache is beside the run."""
    words = ["train", str(data), "--out", str(run), "--method", method, "--seed", str(seed)]
    words += ["--cache", str(run.with_name("cache"))]
    for name, value in SETTINGS.items():
        words += ["--set", f"{name}={json.dumps(value)}"]
    return words


def all_scenarios(data: Path, trained: Path, study_file: Path) -> list[Scenario]:
    """Every scenario. `trained` is a run directory, and `study_file` is written."""
    settings = json.dumps({key: SETTINGS[key] for key in SETTINGS if key != "labelled"})
    study_file.write_text(STUDY.format(data=data, settings=settings), encoding="utf-8")
    return [
        _train(data),
        Scenario("cache", _nothing, _fill_cache(data), _fill_cache(data)),
        _evaluate(trained),
        _predict(data, trained),
        _export(trained, "bundle"),
        _export(trained, "nnunet"),
        _study(study_file),
    ]


def _train(data: Path) -> Scenario:
    def begin(root: Path) -> int:
        return run_command(training(data, root / "run"))

    def resume(root: Path) -> int:
        return run_command([*training(data, root / "run"), "--resume"])

    return Scenario("train", _nothing, begin, resume)


def _fill_cache(data: Path) -> Callable[[Path], int]:
    def fill(root: Path) -> int:
        dataset = read_dataset(data)
        cases = [*dataset.training, *dataset.test]
        volumes = Cache(root / "cache").volumes(cases, dataset.task, Preparation())
        return 0 if len(volumes) == len(cases) else 1

    return fill


def _evaluate(trained: Path) -> Scenario:
    def prepare(root: Path) -> None:
        shutil.copytree(trained, root / "run")

    def evaluate(root: Path) -> int:
        return run_command(["evaluate", str(root / "run"), "--shift", "ood=0.1"])

    return Scenario("evaluate", prepare, evaluate, evaluate)


def _predict(data: Path, trained: Path) -> Scenario:
    def predict(root: Path) -> int:
        scans = str(data / "imagesTs")
        out = str(root / "masks")
        return run_command(["predict", str(trained), scans, "--out", out, "--probabilities"])

    return Scenario("predict", _nothing, predict, predict)


def _export(trained: Path, file_format: str) -> Scenario:
    def export(root: Path) -> int:
        out = root / file_format
        return run_command(["export", str(trained), "--format", file_format, "--out", str(out)])

    def resume(root: Path) -> int:
        """An export that is there is complete; the command would refuse to replace it."""
        return 0 if (root / file_format).exists() else export(root)

    return Scenario(f"export {file_format}", _nothing, export, resume)


def _study(file: Path) -> Scenario:
    def study(root: Path) -> int:
        local.start_worker = _work_here
        return run_command(["study", str(file), "--out", str(root / "study")])

    return Scenario("study", _nothing, study, study)


class _Ended:
    """In place of a process that has ended."""

    returncode = 0

    def poll(self) -> int:
        return 0


def _work_here(directory: Path, threads: int) -> Any:
    """Train and score a run in this process, so that one kill ends the study and its worker."""
    train_and_score(directory)
    return _Ended()


def _nothing(root: Path) -> None:
    """No file is needed."""


def snapshot(root: Path) -> dict[str, bytes]:
    """Everything in a folder that must be the same after a kill."""
    contents = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_file() and not any(Path("x", name).match(skip) for skip in NOT_COMPARED):
            contents[name] = _comparable(path)
    return contents


def _comparable(file: Path) -> bytes:
    """The content of a file without recorded times.

    A TorchScript archive is compared without its debugging information, which has the lines of the
    code that called the export: those of this torture.
    """
    content = file.read_bytes()
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            names = [name for name in archive.namelist() if not name.endswith(DEBUGGING)]
            return pickle.dumps([(name, archive.read(name)) for name in names])
    if file.suffix == ".json":
        values = json.loads(content)
        if isinstance(values, dict):
            values = {key: value for key, value in values.items() if key not in TIMES}
        return json.dumps(values, sort_keys=True).encode()
    return content
