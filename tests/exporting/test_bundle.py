"""A bundle, run by MONAI where segpl is not installed, gives the masks that the run itself gives."""

import io
import json
import os
import subprocess
import sys
import zipfile

import monai.bundle
import nibabel
import numpy as np
import pytest
import torch
from nibabel import orientations

from segpl.data.layouts import read_dataset
from segpl.exporting.alone import cases
from segpl.exporting.bundle import export_bundle
from segpl.exporting.program import prediction, read_trained, script

ABSENT = """
import sys
absent = "segpl jaxtyping pydantic lightning safetensors scipy pandas matplotlib SimpleITK h5py torchio rich yaml PIL"

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent.split():
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
"""
"""All that segpl depends on, except for what a bundle needs."""


@pytest.fixture
def python(tmp_path):
    """Calls Python in a process that knows neither segpl nor what only segpl needs."""
    (tmp_path / "absent").mkdir()
    (tmp_path / "absent/sitecustomize.py").write_text(ABSENT)
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "absent"), "OMP_NUM_THREADS": "1"}

    def call(*words, folder=tmp_path):
        command = [sys.executable, *map(str, words)]
        return subprocess.run(
            command, capture_output=True, text=True, env=environment, cwd=folder, check=False
        )

    assert "No module named 'segpl'" in call("-c", "import segpl").stderr
    return call


def turned(file, target, axes):
    """Save the same scan with its axes stored in another way."""
    image = nibabel.load(file)
    turn = orientations.ornt_transform(
        orientations.io_orientation(image.affine), orientations.axcodes2ornt(axes)
    )
    nibabel.save(image.as_reoriented(turn), target)


def assert_same(found, own):
    """Voxel for voxel, but for the few that lie so close to one half that the order of a sum decides."""
    expected, p = own
    apart = np.asarray(found.dataobj) != expected
    assert apart.sum() <= 3
    assert (p[:, apart] - 0.5).abs().amin(0).max().item() < 1e-5 if apart.any() else True


def channels(folder, name, count=4):
    return [folder / f"{name}_{place:04}.nii.gz" for place in range(count)]


def test_masks_of_a_2d_run_are_the_same_voxel_for_voxel(drawn, own_mask, python, tumours, tmp_path):
    """Of a scan in four files, of the same in one, of one whose axes are stored otherwise, and of a single slice."""
    directory = drawn(
        "segpl-vi", (32, 32), read_dataset(tumours).task, data=str(tumours), orientation="RAS"
    )
    bundle, scans = export_bundle(directory, tmp_path / "bundle"), tmp_path / "scans"
    scans.mkdir()
    files = channels(tumours / "imagesTs", "tumour_004")
    for file, copy, other in zip(
        files, channels(scans, "plain"), channels(scans, "turned"), strict=True
    ):
        turned(file, copy, "RAS")
        turned(file, other, "PIR")
    stack = np.stack([np.asarray(nibabel.load(file).dataobj) for file in files], axis=-1)
    nibabel.save(
        nibabel.Nifti1Image(stack, nibabel.load(files[0]).affine), scans / "stacked.nii.gz"
    )
    nibabel.save(nibabel.load(scans / "stacked.nii.gz").slicer[..., 6:7, :], scans / "slice.nii")
    own = own_mask(directory, *files)
    assert len(np.unique(own[0])) > 2

    words = ("-m", "monai.bundle", "run", "--config_file", "configs/inference.json")
    result = python(
        *words, "--dataset_dir", scans, "--output_dir", tmp_path / "masks", folder=bundle
    )
    assert result.returncode == 0, result.stderr
    masks = {file.name: nibabel.load(file) for file in (tmp_path / "masks").iterdir()}
    assert set(masks) == {"plain.nii.gz", "slice.nii.gz", "stacked.nii.gz", "turned.nii.gz"}
    assert masks["plain.nii.gz"].get_data_dtype() == np.uint8
    for name in ("plain.nii.gz", "stacked.nii.gz"):
        assert_same(masks[name], own)
        assert np.array_equal(masks[name].affine, nibabel.load(files[0]).affine)
    assert_same(masks["slice.nii.gz"], own_mask(directory, scans / "slice.nii"))
    assert nibabel.aff2axcodes(masks["turned.nii.gz"].affine) == ("P", "I", "R")
    assert_same(nibabel.as_closest_canonical(masks["turned.nii.gz"]), own)


def test_masks_of_a_resampled_3d_ct_are_the_same_voxel_for_voxel(
    drawn, own_mask, python, vessels, tmp_path
):
    """And of one that is smaller than a window; from another folder than the bundle's."""
    settings = {"data": str(vessels), "spacing": (1.5, 1.3, 1.1), "window": (-900, 100)}
    directory = drawn(
        {"name": "deep-ensemble", "members": 2}, (16, 16, 8), read_dataset(vessels).task, **settings
    )
    bundle, scans = export_bundle(directory, tmp_path / "bundle"), tmp_path / "scans"
    scans.mkdir()
    image = nibabel.load(vessels / "imagesTs/vessels_004_0000.nii.gz")
    nibabel.save(image, scans / "whole.nii.gz")
    nibabel.save(image.slicer[20:32, 20:42, :5], scans / "small_0000.nii.gz")

    words = (
        "-m",
        "monai.bundle",
        "run",
        "--config_file",
        bundle / "configs/inference.json",
        "--bundle_root",
        bundle,
    )
    result = python(*words, "--dataset_dir", scans, "--output_dir", tmp_path / "masks")
    assert result.returncode == 0, result.stderr
    for scan, name in (("whole.nii.gz", "whole.nii.gz"), ("small_0000.nii.gz", "small.nii.gz")):
        own, found = own_mask(directory, scans / scan), nibabel.load(tmp_path / "masks" / name)
        assert 0.02 < own[0].mean() < 0.98
        assert_same(found, own)
        assert np.allclose(found.affine, nibabel.load(scans / scan).affine)


def test_the_bundle_is_as_monai_specifies(drawn, tmp_path):
    bundle = export_bundle(drawn("segpl", (16, 16)), tmp_path / "new/bundle")
    files = {str(file.relative_to(bundle)) for file in bundle.rglob("*") if file.is_file()}
    required = {
        "configs/metadata.json",
        "models/model.pt",
        "models/model.ts",
        "docs/README.md",
        "LICENSE",
    }
    assert required <= files
    notes = json.loads((bundle / "configs/metadata.json").read_text(encoding="utf-8"))
    texts = "schema version monai_version pytorch_version numpy_version task description authors copyright"
    assert all(isinstance(notes[key], str) for key in texts.split())
    assert isinstance(notes["required_packages_version"], dict)
    assert notes["network_data_format"]["outputs"]["pred"]["channel_def"] == {
        "0": "whole",
        "1": "core",
    }
    configs = {
        "meta_file": bundle / "configs/metadata.json",
        "config_file": bundle / "configs/inference.json",
    }
    monai.bundle.verify_net_in_out("network_def", **configs, bundle_root=str(bundle))
    program, weights = (
        torch.jit.load(bundle / "models/model.ts"),
        torch.load(bundle / "models/model.pt"),
    )
    assert program.load_state_dict(weights)
    readme = (bundle / "docs/README.md").read_text(encoding="utf-8")
    assert "whole, core in T1, FLAIR: a 2D network" in readme
    assert "1 whole, 2 core" in readme


@pytest.mark.parametrize("prior", ["normal", "confident", "categorical", "beta"])
def test_a_program_keeps_learnt_thresholds_and_is_bound_to_no_device(prior, drawn):
    """It names no device, and all its constants are single numbers, which torch takes to any device."""
    trained = read_trained(drawn({"name": "segpl-vi", "prior": {"name": prior}}, (12, 12, 10)))
    program, content = script(trained), io.BytesIO()
    image = torch.randn(5, 2, 12, 12, 10)
    torch.testing.assert_close(program(image), prediction(trained)(image), atol=1e-5, rtol=0)
    torch.jit.save(program, content)
    parts = {
        name: zipfile.ZipFile(content).read(name) for name in zipfile.ZipFile(content).namelist()
    }
    assert not any(b"torch.device(" in code for name, code in parts.items() if name.endswith(".py"))
    assert all(len(part) <= 8 for name, part in parts.items() if "/constants/" in name)


def test_files_that_are_numbered_are_channels(tmp_path):
    for name in (
        "b_0001.nii.gz",
        "b_0000.nii.gz",
        "a.nii",
        "c_2019.nii.gz",
        "notes.txt",
        "._a.nii",
        "a.nii.part",
    ):
        (tmp_path / name).touch()
    found = [
        [file.rpartition("/")[2] for file in case["image"]]
        for case in cases(str(tmp_path), channels=2)
    ]
    assert found == [["a.nii"], ["b_0000.nii.gz", "b_0001.nii.gz"], ["c_2019.nii.gz"]]
    with pytest.raises(FileNotFoundError, match="holds no NIfTI file"):
        cases(str(tmp_path / "nowhere"), channels=2)
