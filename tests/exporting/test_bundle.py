"""A bundle, run by MONAI without segpl, gives the masks that the run itself gives."""

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
from segpl.exporting.bundle import export_bundle
from segpl.exporting.standalone import list_scans
from segpl.exporting.torchscript import to_torchscript
from segpl.exporting.trained import prediction_module, read_trained
from segpl.inference.predictor import load

ABSENT = """
import sys
absent = (
    "segpl jaxtyping pydantic lightning safetensors scipy pandas matplotlib SimpleITK h5py torchio "
    "rich yaml PIL"
).split()

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
"""
"""Hides all that segpl depends on, except for what a bundle needs."""


@pytest.fixture
def python(tmp_path):
    """Calls Python in a process that has neither segpl nor what only segpl needs."""
    (tmp_path / "absent").mkdir()
    (tmp_path / "absent/sitecustomize.py").write_text(ABSENT)
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "absent"), "OMP_NUM_THREADS": "1"}

    def call(*arguments, folder=tmp_path):
        command = [sys.executable, *map(str, arguments)]
        return subprocess.run(
            command, capture_output=True, text=True, env=environment, cwd=folder, check=False
        )

    assert "No module named 'segpl'" in call("-c", "import segpl").stderr
    return call


def save_reoriented(file, target, axes):
    """Save the same scan with its axes stored in another order."""
    image = nibabel.load(file)
    stored = orientations.io_orientation(image.affine)
    transform = orientations.ornt_transform(stored, orientations.axcodes2ornt(axes))
    nibabel.save(image.as_reoriented(transform), target)


def assert_same(image, own):
    """Voxel for voxel, but for a few so close to one half that the order of a sum decides."""
    expected, p = own
    differs = np.asarray(image.dataobj) != expected
    assert differs.sum() <= 3
    if differs.any():
        assert (p[:, differs] - 0.5).abs().amin(0).max().item() < 1e-5


def channel_files(folder, name, count=4):
    return [folder / f"{name}_{channel:04}.nii.gz" for channel in range(count)]


def test_masks_of_a_2d_run_are_the_same_voxel_for_voxel(
    make_run, own_mask, python, tumours, tmp_path
):
    """For a scan in four files, in one file, with its axes in another order, and of one slice."""
    task = read_dataset(tumours).task
    directory = make_run("segpl-vi", (32, 32), task, data=str(tumours), orientation="RAS")
    bundle = export_bundle(directory, tmp_path / "bundle")
    scans = tmp_path / "scans"
    scans.mkdir()
    files = channel_files(tumours / "imagesTs", "tumour_004")
    plain_files = channel_files(scans, "plain")
    reoriented_files = channel_files(scans, "reoriented")
    for file, plain, reoriented in zip(files, plain_files, reoriented_files, strict=True):
        save_reoriented(file, plain, "RAS")
        save_reoriented(file, reoriented, "PIR")
    channels = [np.asarray(nibabel.load(file).dataobj) for file in files]
    affine = nibabel.load(files[0]).affine
    stacked = nibabel.Nifti1Image(np.stack(channels, axis=-1), affine)
    nibabel.save(stacked, scans / "stacked.nii.gz")
    nibabel.save(nibabel.load(scans / "stacked.nii.gz").slicer[..., 6:7, :], scans / "slice.nii")
    own = own_mask(directory, *files)
    assert len(np.unique(own[0])) > 2

    command = ("-m", "monai.bundle", "run", "--config_file", "configs/inference.json")
    folders = ("--dataset_dir", scans, "--output_dir", tmp_path / "masks")
    result = python(*command, *folders, folder=bundle)

    assert result.returncode == 0, result.stderr
    masks = {file.name: nibabel.load(file) for file in (tmp_path / "masks").iterdir()}
    assert set(masks) == {"plain.nii.gz", "slice.nii.gz", "stacked.nii.gz", "reoriented.nii.gz"}
    assert masks["plain.nii.gz"].get_data_dtype() == np.uint8
    for name in ("plain.nii.gz", "stacked.nii.gz"):
        assert_same(masks[name], own)
        assert np.array_equal(masks[name].affine, affine)
    assert_same(masks["slice.nii.gz"], own_mask(directory, scans / "slice.nii"))
    assert nibabel.aff2axcodes(masks["reoriented.nii.gz"].affine) == ("P", "I", "R")
    assert_same(nibabel.as_closest_canonical(masks["reoriented.nii.gz"]), own)


def test_a_bundle_crops_scans_around_their_centre_as_the_run_does(
    make_run, python, tumours, tmp_path
):
    task = read_dataset(tumours).task
    directory = make_run("segpl", (32, 32), task, data=str(tumours), centre_crop=[24, 20])
    bundle = export_bundle(directory, tmp_path / "bundle")
    scans = tmp_path / "scans"
    scans.mkdir()
    files = channel_files(tumours / "imagesTs", "tumour_004")
    channels = [np.asarray(nibabel.load(file).dataobj) for file in files]
    stacked = np.stack(channels, axis=-1)
    nibabel.save(nibabel.Nifti1Image(stacked, nibabel.load(files[0]).affine), scans / "a.nii.gz")
    own = load(directory).predict(scans / "a.nii.gz")

    command = ("-m", "monai.bundle", "run", "--config_file", "configs/inference.json")
    folders = ("--dataset_dir", scans, "--output_dir", tmp_path / "masks")
    result = python(*command, *folders, folder=bundle)

    assert result.returncode == 0, result.stderr
    mask = nibabel.load(tmp_path / "masks/a.nii.gz")
    assert own.mask.any()
    assert_same(mask, (own.mask, torch.from_numpy(own.probability)))


def test_masks_of_a_resampled_3d_ct_are_the_same_voxel_for_voxel(
    make_run, own_mask, python, vessels, tmp_path
):
    """Also for a scan smaller than a window; called from outside the bundle's folder."""
    settings = {"data": str(vessels), "spacing": (1.5, 1.3, 1.1), "window": (-900, 100)}
    method = {"name": "deep-ensemble", "members": 2}
    directory = make_run(method, (16, 16, 8), read_dataset(vessels).task, **settings)
    bundle = export_bundle(directory, tmp_path / "bundle")
    scans = tmp_path / "scans"
    scans.mkdir()
    image = nibabel.load(vessels / "imagesTs/vessels_004_0000.nii.gz")
    nibabel.save(image, scans / "whole.nii.gz")
    nibabel.save(image.slicer[20:32, 20:42, :5], scans / "small_0000.nii.gz")

    command = ("-m", "monai.bundle", "run", "--config_file", bundle / "configs/inference.json")
    folders = ("--dataset_dir", scans, "--output_dir", tmp_path / "masks")
    result = python(*command, "--bundle_root", bundle, *folders)

    assert result.returncode == 0, result.stderr
    for scan, name in (("whole.nii.gz", "whole.nii.gz"), ("small_0000.nii.gz", "small.nii.gz")):
        own = own_mask(directory, scans / scan)
        mask = nibabel.load(tmp_path / "masks" / name)
        assert 0.02 < own[0].mean() < 0.98
        assert_same(mask, own)
        assert np.allclose(mask.affine, nibabel.load(scans / scan).affine)


@pytest.fixture
def bundle(make_run, tmp_path):
    return export_bundle(make_run("segpl", (16, 16)), tmp_path / "new/bundle")


def test_the_bundle_has_the_files_that_monai_requires(bundle):
    files = {str(file.relative_to(bundle)) for file in bundle.rglob("*") if file.is_file()}
    required = {
        "configs/metadata.json",
        "models/model.pt",
        "models/model.ts",
        "docs/README.md",
        "LICENSE",
    }
    assert required <= files


def test_the_metadata_has_the_keys_that_monai_requires(bundle):
    metadata = json.loads((bundle / "configs/metadata.json").read_text(encoding="utf-8"))
    versions = ("version", "monai_version", "pytorch_version", "numpy_version")
    texts = ("schema", *versions, "task", "description", "authors", "copyright")
    for key in texts:
        assert isinstance(metadata[key], str)
    assert isinstance(metadata["required_packages_version"], dict)
    prediction = metadata["network_data_format"]["outputs"]["pred"]
    assert prediction["channel_def"] == {"0": "whole", "1": "core"}


def test_monai_accepts_the_network_that_the_metadata_describe(bundle):
    configs = {
        "meta_file": bundle / "configs/metadata.json",
        "config_file": bundle / "configs/inference.json",
    }
    monai.bundle.verify_net_in_out("network_def", **configs, bundle_root=str(bundle))


def test_the_weights_fit_the_program(bundle):
    program = torch.jit.load(bundle / "models/model.ts")
    weights = torch.load(bundle / "models/model.pt")
    assert program.load_state_dict(weights)


def test_the_readme_names_regions_channels_and_values(bundle):
    readme = (bundle / "docs/README.md").read_text(encoding="utf-8")
    assert "whole, core in T1, FLAIR: a 2D network" in readme
    assert "1 whole, 2 core" in readme


@pytest.mark.parametrize("prior", ["normal", "confident", "categorical", "beta"])
def test_a_program_keeps_learnt_thresholds_and_is_bound_to_no_device(prior, make_run):
    """It names no device, and its constants are single numbers, which torch moves to any device."""
    method = {"name": "segpl-vi", "objective": "dice", "prior": {"name": prior}}
    trained = read_trained(make_run(method, (12, 12, 10)))
    program = to_torchscript(trained)
    image = torch.randn(5, 2, 12, 12, 10)
    expected = prediction_module(trained)(image)
    torch.testing.assert_close(program(image), expected, atol=1e-5, rtol=0)

    saved = io.BytesIO()
    torch.jit.save(program, saved)
    archive = zipfile.ZipFile(saved)
    for name in archive.namelist():
        content = archive.read(name)
        if name.endswith(".py"):
            assert b"torch.device(" not in content
        if "/constants/" in name:
            assert len(content) <= 8


def test_numbered_files_are_channels_of_one_scan(tmp_path):
    numbered = ("b_0001.nii.gz", "b_0000.nii.gz", "c_2019.nii.gz")
    for name in (*numbered, "a.nii", "notes.txt", "._a.nii", "a.nii.part"):
        (tmp_path / name).touch()
    scans = []
    for scan in list_scans(str(tmp_path), channels=2):
        scans.append([file.rpartition("/")[2] for file in scan["image"]])
    assert scans == [["a.nii"], ["b_0000.nii.gz", "b_0001.nii.gz"], ["c_2019.nii.gz"]]


def test_a_folder_without_scans_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no NIfTI file"):
        list_scans(str(tmp_path / "nowhere"), channels=2)
