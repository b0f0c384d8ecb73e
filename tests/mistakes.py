"""Functions that each make one mistake in a good folder of tumour phantoms, and wrong options."""

import gzip
import json
import shutil

import nibabel
import numpy as np


def read_description(folder):
    return json.loads((folder / "dataset.json").read_text())


def write_description(folder, description):
    (folder / "dataset.json").write_text(json.dumps(description))


def save_voxels(file, voxels, affine):
    nibabel.save(nibabel.Nifti1Image(voxels, affine), file)


def break_nothing(folder):
    pass


def remove_folder(folder):
    shutil.rmtree(folder)


def remove_description(folder):
    (folder / "dataset.json").unlink()


def break_description(folder):
    (folder / "dataset.json").write_text('{"labels": ')


def incomplete_description(folder):
    (folder / "dataset.json").write_text('{"labels": {"background": 0}}')


def forget_a_label(folder):
    description = read_description(folder)
    description["labels"] = {"background": 0, "whole tumour": [1, 2]}
    description.pop("regions_class_order")
    write_description(folder, description)


def call_a_channel_ct(folder):
    description = read_description(folder)
    description["channel_names"]["0"] = "CT"
    write_description(folder, description)


def number_channels_from_one(folder):
    description = read_description(folder)
    names = description["channel_names"]
    description["channel_names"] = {str(int(key) + 1): name for key, name in names.items()}
    write_description(folder, description)


def crop_a_label(folder):
    file = folder / "labelsTr/tumour_000.nii.gz"
    nibabel.save(nibabel.load(file).slicer[:50], file)


def crop_a_channel(folder):
    file = folder / "imagesTr/tumour_000_0002.nii.gz"
    nibabel.save(nibabel.load(file).slicer[:50], file)


def garble_an_image(folder):
    (folder / "imagesTr/tumour_001_0001.nii.gz").write_bytes(b"this is no image")


def truncate_an_image(folder):
    file = folder / "imagesTr/tumour_001_0001.nii.gz"
    file.write_bytes(file.read_bytes()[:2000])


def truncate_voxels(folder):
    file = folder / "imagesTr/tumour_001_0000.nii.gz"
    content = gzip.decompress(file.read_bytes())
    file.write_bytes(gzip.compress(content[:5000]))


def poison_an_image(folder):
    file = folder / "imagesTr/tumour_000_0000.nii.gz"
    image = nibabel.load(file)
    values = np.asarray(image.dataobj).astype(np.float32)
    values[0, 0, 0] = np.nan
    save_voxels(file, values, image.affine)


def remove_a_channel(folder):
    (folder / "imagesTr/tumour_000_0003.nii.gz").unlink()


def remove_all_labels(folder):
    shutil.rmtree(folder / "labelsTr")


def remove_all_images(folder):
    shutil.rmtree(folder / "imagesTr")
    shutil.rmtree(folder / "imagesUn")
    shutil.rmtree(folder / "labelsTr")


def orphan_a_label(folder):
    shutil.copy(folder / "labelsTr/tumour_000.nii.gz", folder / "labelsTr/nobody.nii.gz")


def move_a_label(folder):
    file = folder / "labelsTr/tumour_000.nii.gz"
    image = nibabel.load(file)
    other_affine = np.diag([-3, 2, 1, 1])
    save_voxels(file, np.asarray(image.dataobj), other_affine)


def stack_an_image(folder):
    file = folder / "imagesUn/tumour_002_0000.nii.gz"
    image = nibabel.load(file)
    values = np.asarray(image.dataobj)
    save_voxels(file, np.stack([values, values], -1), image.affine)


def add_a_channel(folder):
    source = folder / "imagesTr/tumour_000_0003.nii.gz"
    shutil.copy(source, folder / "imagesTr/tumour_000_0004.nii.gz")


def forget_a_number(folder):
    shutil.copy(folder / "imagesTr/tumour_000_0003.nii.gz", folder / "imagesTr/case.nii.gz")


def list_the_labels(folder):
    description = read_description(folder)
    write_description(folder, description | {"labels": ["tumour"]})


def no_unlabelled_images(folder):
    shutil.rmtree(folder / "imagesUn")


MISTAKES = [
    (break_nothing, ["--set", "window=[0, 100]"], "has no channel called CT, CTA or HU"),
    (
        number_channels_from_one,
        [],
        "the channels are numbered 1, 2, 3, 4: number them 0, 1 and so on",
    ),
    (
        break_nothing,
        ["--set", "orientation=ras"],
        "orientation is ras, but it takes a letter of LR, one of PA",
    ),
    (break_nothing, ["--set", "orientation=RAA"], "orientation is RAA, but it takes a letter"),
    (
        call_a_channel_ct,
        ["--set", "window=[300, -100]"],
        "window is [300.0, -100.0], but it takes the lower value first",
    ),
    (break_nothing, ["--set", "spacing=[1]"], "spacing is [1.0], but it takes 2 or 3 numbers"),
    (
        break_nothing,
        ["--method", "deep-ensemble", "--set", "method.objective=dice"],
        "no objective of its own: use --set method.base.objective=dice",
    ),
    (remove_folder, [], "data is not a folder"),
    (remove_description, [], "data has no dataset.json"),
    (break_description, [], "dataset.json is not valid JSON"),
    (incomplete_description, [], "dataset.json: channel_names is missing"),
    (forget_a_label, [], "label values 3 that the data set does not name"),
    (crop_a_label, [], "labelsTr/tumour_000.nii.gz has shape 50 x 64 x 12 but"),
    (crop_a_channel, [], "tumour_000_0002.nii.gz has shape 50 x 64 x 12 but"),
    (garble_an_image, [], "imagesTr/tumour_001_0001.nii.gz cannot be read"),
    (truncate_an_image, [], "imagesTr/tumour_001_0001.nii.gz cannot be read"),
    (truncate_voxels, [], "imagesTr/tumour_001_0000.nii.gz cannot be read"),
    (poison_an_image, [], "tumour_000_0000.nii.gz holds NaN"),
    (remove_a_channel, [], "tumour_000_0003.nii.gz is missing"),
    (remove_all_labels, [], "has no labelled training case"),
    (remove_all_images, [], "has no training image"),
    (orphan_a_label, [], "nobody.nii.gz has no image"),
    (break_nothing, ["--method", "magic"], "no method 'magic': choose one of bcp, cct, cps"),
    (break_nothing, ["--labelled", 9], "--labelled 9 is not possible: use --labelled 1 to 2"),
    (break_nothing, ["--set", "validation=2"], "so 2 for validation leave none to learn from"),
    (break_nothing, ["--set", "validation=-1"], "validation is -1"),
    (break_nothing, ["--set", "stpes=3"], "unknown setting 'stpes'"),
    (break_nothing, ["--set", "method.alhpa=3"], "segpl-em: unknown setting 'alhpa'"),
    (break_nothing, ["--set", "method.alpha=-1"], "segpl-em: alpha is -1"),
    (
        break_nothing,
        ["--method", "segpl", "--set", "method.threshold=1.5"],
        "segpl: threshold is 1.5",
    ),
    (break_nothing, ["--steps", 0], "should be greater than or equal to 1"),
    (break_nothing, ["--steps", "many"], "should be a valid integer"),
    (break_nothing, ["--set", "patch"], "not of the form KEY=VALUE"),
    (break_nothing, ["--set", "patch=[32, 32"], "is not valid YAML"),
    (break_nothing, ["--set", "patch=[32]"], "patch is [32], but it takes 2 or 3 numbers"),
    (break_nothing, ["--set", "patch=[4, 4]"], "patch is [4, 4]"),
    (break_nothing, ["--set", "steps.x=1"], "steps is {'x': 1}"),
    (break_nothing, ["--set", "method=3"], "there is no method 3"),
    (break_nothing, ["--set", "learning_rate=.inf"], "learning_rate is inf"),
    (
        break_nothing,
        ["--method", "segpl", "--set", "method.prior=normal"],
        "unknown setting 'prior'",
    ),
    (
        break_nothing,
        ["--method", "segpl-vi", "--set", "method.prior.mean=0.4"],
        "a prior needs a name",
    ),
    (
        break_nothing,
        ["--method", "segpl-vi", "--set", "method.prior={name: normal, mean: 2}"],
        "mean is 2",
    ),
    (break_nothing, ["--set", "steps=7", "--set", "steps.x=1"], "steps has no settings of its own"),
    (break_nothing, ["--config", "nowhere.yaml"], "nowhere.yaml is not a file"),
    (move_a_label, [], "labelsTr/tumour_000.nii.gz has another position"),
    (stack_an_image, [], "imagesUn/tumour_002_0000.nii.gz has 5 channels, but the task has 4"),
    (add_a_channel, [], "tumour_000_0004.nii.gz is one channel too many"),
    (forget_a_number, [], "case.nii.gz has no channel number: name it case_0000.nii.gz"),
    (list_the_labels, [], "dataset.json: labels is"),
    (no_unlabelled_images, ["--labelled", 2], "leaves no unlabelled scan for segpl"),
]


def empty_a_label(folder):
    file = folder / "labelsTr/tumour_000.nii.gz"
    image = nibabel.load(file)
    save_voxels(file, np.zeros(image.shape, np.uint8), image.affine)


def flatten_an_image(folder):
    file = folder / "imagesUn/tumour_003_0001.nii.gz"
    image = nibabel.load(file)
    save_voxels(file, np.full(image.shape, 7, np.int16), image.affine)


def reorient_a_case(folder):
    orientation = nibabel.orientations.axcodes2ornt(("L", "P", "S"))
    for file in [*folder.glob("imagesTr/tumour_001_*"), *folder.glob("labelsTr/tumour_001*")]:
        image = nibabel.load(file)
        nibabel.save(image.as_reoriented(orientation), file)


def leak_an_image(folder):
    for channel in range(4):
        image = nibabel.load(folder / f"imagesTs/tumour_004_{channel:04}.nii.gz")
        copy = folder / f"imagesUn/new_{channel:04}.nii.gz"
        save_voxels(copy, np.asarray(image.dataobj), image.affine)


def copy_an_image(folder):
    for channel in range(4):
        source = folder / f"imagesUn/tumour_002_{channel:04}.nii.gz"
        shutil.copy(source, folder / f"imagesUn/again_{channel:04}.nii.gz")


def share_a_subject(folder):
    description = read_description(folder)
    description["subjects"] = {"tumour_000": "anna", "tumour_004": "anna"}
    write_description(folder, description)


WEAKNESSES = [
    (empty_a_label, "labelsTr/tumour_000.nii.gz is empty"),
    (flatten_an_image, "tumour_003_0000.nii.gz: channel t1 is 7 everywhere"),
    (reorient_a_case, "tumour_001_0000.nii.gz is oriented LPS and most are RAS"),
    (leak_an_image, "tumour_004_0000.nii.gz is the same image as"),
    (copy_an_image, "twice in training: remove one of them"),
    (share_a_subject, "has subject anna in training and in test"),
]
"""What training accepts without a message, and the doctor reports."""
