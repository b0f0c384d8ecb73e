"""A small good sample of every file that segpl reads, and the command that reads it."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import h5py
import nibabel
import numpy as np
import SimpleITK
from PIL import Image as Pictures
from series import write_series

from segpl import api

SHAPE = (24, 20, 6)
Words = list[str]


@dataclass(frozen=True)
class Sample:
    """Files to damage, one at a time, in a folder that is copied for each mutant."""

    folder: Path
    files: tuple[str, ...]
    """Relative to the folder."""
    words: Callable[[Path], Words]
    """The command that reads the files, in a copy of the folder."""


def scan_values() -> np.ndarray:
    """A bright ball on a ramp with noise: it compresses, but not to nothing."""
    x, y, z = np.indices(SHAPE)
    ball = (x - 12) ** 2 + (y - 10) ** 2 + 4 * (z - 3) ** 2 < 40
    noise = np.random.default_rng(0).integers(0, 20, SHAPE)
    return (x + y + noise + 200 * ball).astype(np.int16)


def write_data(folder: Path) -> Path:
    """A data folder in the nnU-Net layout: two labelled, two unlabelled and two test cases."""
    values = scan_values()
    label = (values > 150).astype(np.uint8)
    affine = np.diag([1.0, 1.0, 2.0, 1.0])
    for number, subset in enumerate(["Tr", "Tr", "Un", "Un", "Ts", "Ts"]):
        images = folder / f"images{subset}"
        labels = folder / f"labels{subset}"
        images.mkdir(parents=True, exist_ok=True)
        image = nibabel.Nifti1Image(values + 3 * number, affine)
        nibabel.save(image, images / f"case{number}_0000.nii.gz")
        if subset != "Un":
            labels.mkdir(exist_ok=True)
            nibabel.save(nibabel.Nifti1Image(label, affine), labels / f"case{number}.nii.gz")
    description = {
        "channel_names": {"0": "MR"},
        "labels": {"background": 0, "ball": 1},
        "numTraining": 2,
        "file_ending": ".nii.gz",
        "subjects": {"case0": "anna"},
    }
    (folder / "dataset.json").write_text(json.dumps(description, indent=2))
    return folder


def write_manifest(folder: Path, data: Path) -> Path:
    """The same cases as a CSV file."""
    shutil.copytree(data, folder)
    (folder / "dataset.json").unlink()
    (folder / "cases.csv").write_text(
        "subject,case,image,label,split\n"
        "anna,a,imagesTr/case0_0000.nii.gz,labelsTr/case0.nii.gz,train\n"
        "ben,b,imagesTr/case1_0000.nii.gz,labelsTr/case1.nii.gz,\n"
        "carl,c,imagesTs/case4_0000.nii.gz,labelsTs/case4.nii.gz,test\n"
    )
    return folder


def write_run(folder: Path, data: Path) -> Path:
    """A run that was trained for two steps and evaluated."""
    settings = {"patch": [16, 16], "channels": 2, "compile": False, "validate_every": 2}
    api.train(data, folder, method="segpl-vi", steps=2, settings=settings)
    api.evaluate(folder)
    (folder / "temperature.json").write_text(json.dumps({"temperature": 1.2}))
    return folder


def write_images(folder: Path) -> list[str]:
    """The scan in every format; returns the names of the files."""
    folder.mkdir(parents=True, exist_ok=True)
    values = scan_values()
    affine = np.diag([1.0, 1.0, 2.0, 1.0])
    nibabel.save(nibabel.Nifti1Image(values, affine), folder / "a.nii.gz")
    nibabel.save(nibabel.Nifti1Image(values, affine), folder / "b.nii")
    image = SimpleITK.GetImageFromArray(values.T)
    for name, compressed in [
        ("c.mha", True),
        ("d.mha", False),
        ("e.nrrd", True),
        ("f.nrrd", False),
        ("g.mhd", False),
        ("h.nhdr", True),
    ]:
        SimpleITK.WriteImage(image, folder / name, useCompression=compressed)
    np.save(folder / "i.npy", values)
    np.savez_compressed(folder / "j.npz", image=values)
    with h5py.File(folder / "k.h5", "w") as content:
        content.create_dataset("image", data=values, compression="gzip")
        content["image"].attrs["spacing"] = [1.0, 1.0, 2.0]
    picture = Pictures.fromarray(values[:, :, 3].T.astype(np.uint8))
    for name in ("l.png", "m.tif", "n.gif", "o.jpg", "p.bmp"):
        picture.save(folder / name)
    write_series(folder / "series", image)
    names = [path.name for path in folder.iterdir() if path.is_file()]
    without_voxels = [name for name in names if not name.endswith((".raw", ".raw.gz"))]
    return [*sorted(without_voxels), "series/003.dcm"]


def all_samples(folder: Path) -> list[Sample]:
    """Every file that segpl reads."""
    data = write_data(folder / "data")
    run = write_run(folder / "run", data)
    samples = [
        Sample(data, ("dataset.json",), lambda copy: ["doctor", str(copy)]),
        Sample(data, ("labelsTr/case0.nii.gz",), lambda copy: ["doctor", str(copy)]),
    ]
    manifest = write_manifest(folder / "manifest", data)
    samples.append(Sample(manifest, ("cases.csv",), lambda copy: ["doctor", str(copy)]))
    images = folder / "images"
    for name in write_images(images):
        samples.append(Sample(images, (name,), _predict_scan(run, name)))
    scan = str(images / "a.nii.gz")

    def predict(copy: Path) -> Words:
        return ["predict", str(copy), scan, "--out", str(copy / "out"), "--temperature", "fit"]

    for name in ("run.yaml", "task.yaml", "model.safetensors", "facts.json", "temperature.json"):
        samples.append(Sample(run, (name,), predict))
    recorded = ("split.json", "evaluation/key.json")
    compared = ("scores.csv", "run.yaml", "facts.json", "cost.json", "log.csv")
    reported = ("provenance.json", "images.csv", "curves.csv", "prediction_cost.json")
    samples.append(Sample(run, recorded, lambda copy: ["evaluate", str(copy)]))
    samples.append(Sample(run, compared, lambda copy: ["compare", str(copy)]))
    samples.append(Sample(run, reported, lambda copy: ["report", str(copy)]))
    samples.append(Sample(run, ("run.yaml",), _train_from(data)))
    return samples


def _predict_scan(run: Path, name: str) -> Callable[[Path], Words]:
    def words(copy: Path) -> Words:
        scan = copy / name
        if scan.suffix == ".dcm":
            scan = scan.parent
        return ["predict", str(run), str(scan), "--out", str(copy / "out")]

    return words


def _train_from(data: Path) -> Callable[[Path], Words]:
    """Refuse settings before the first step: the folder of the run is not empty."""

    def words(copy: Path) -> Words:
        config = str(copy / "run.yaml")
        return ["train", str(data), "--config", config, "--out", str(copy)]

    return words
