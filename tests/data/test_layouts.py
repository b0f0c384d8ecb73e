"""Folders as people have them become cases: miniatures of every layout, mistakes in them, and the real data if here."""

import json
import os
from pathlib import Path

import nibabel
import numpy as np
import pytest
import SimpleITK
from PIL import Image

from segpl.data.cases import Region, Task
from segpl.data.layouts import LAYOUTS, read_dataset
from segpl.data.layouts.contents import _values
from segpl.foundation.errors import UserError

REPOSITORY = Path(__file__).parents[2]
REAL = Path(os.environ.get("SEGPL_DATA", REPOSITORY.parent / "shared" / "data"))


def write(file, values=(0, 1), channels=1):
    """A tiny image of any format that holds these values."""
    file.parent.mkdir(parents=True, exist_ok=True)
    volume = np.resize(np.asarray(values), (5, 5, 3)).astype(np.int16)
    if file.suffix in (".mhd", ".mha"):
        SimpleITK.WriteImage(SimpleITK.GetImageFromArray(volume), str(file))
    elif file.suffix == ".npy":
        np.save(file, volume)
    elif file.suffix in (".tif", ".gif", ".png"):
        plane = volume[..., 0].astype(np.uint8)
        Image.fromarray(plane if channels == 1 else np.stack([plane] * channels, -1)).save(file)
    else:
        volume = volume if channels == 1 else np.stack([volume] * channels, -1)
        nibabel.save(nibabel.Nifti1Image(volume, np.eye(4)), file)


def write_all(folder, *names, values=(0, 1), channels=1):
    for name in names:
        write(folder / name, values, channels)


def names(cases):
    return [case.name for case in cases]


def labelled(cases):
    return [case.name for case in cases if case.label]


def describe(folder, **description):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dataset.json").write_text(json.dumps(description))


@pytest.fixture
def nnunet(tmp_path):
    subjects = {"a": "anna", "b": "anna"}
    labels = {"background": 0, "left": 1, "right": 2}
    channels = {"0": "T1", "1": "T2"}
    describe(
        tmp_path, channel_names=channels, labels=labels, file_ending=".nii.gz", subjects=subjects
    )
    write_all(
        tmp_path,
        *(
            f"images{case}_000{channel}.nii.gz"
            for case in ("Tr/a", "Tr/b", "Un/c")
            for channel in "01"
        ),
    )
    write_all(tmp_path, "imagesTs/d_0000.nii.gz", "imagesTs/d_0001.nii.gz", "labelsTr/a.nii.gz")
    (tmp_path / "imagesTr" / "._a_0000.nii.gz").write_bytes(b"left by macOS")
    return tmp_path


@pytest.fixture
def decathlon(tmp_path):
    modality = {"0": "FLAIR", "1": "T1w"}
    labels = {"0": "background", "1": "Anterior", "2": "Posterior"}
    training = [
        {"image": f"./imagesTr/{name}.nii.gz", "label": f"./labelsTr/{name}.nii.gz"}
        for name in "ab"
    ]
    describe(
        tmp_path, modality=modality, labels=labels, training=training, test=["./imagesTs/d.nii.gz"]
    )
    write_all(
        tmp_path, *(f"images{case}.nii.gz" for case in ("Tr/a", "Tr/b", "Tr/c", "Ts/d")), channels=2
    )
    write_all(tmp_path, "labelsTr/a.nii.gz", "labelsTr/b.nii.gz", values=(0, 1, 2))
    (tmp_path / "imagesTr" / "._a.nii.gz").write_bytes(b"left by macOS")
    return tmp_path


@pytest.fixture
def paper(tmp_path):
    write_all(
        tmp_path,
        "labelled/imgs/1img.npy",
        "labelled/imgs/2.npy",
        "unlabelled/imgs/3.npy",
        "test/imgs/4.npy",
    )
    write_all(tmp_path, "validation/imgs/5.npy", "validation/lbls/5.npy", "labelled/lbls/1lbl.npy")
    write_all(tmp_path, "labelled/lbls/2.npy", "test/lbls/4.npy", values=(0, 3))
    return tmp_path


MANIFEST = """subject,case,flair,t2,label,split
anna,a1,scans/a1_flair.nii.gz,scans/a1_t2.nii.gz,labels/a1.nii.gz,train
anna,a2,scans/a2_flair.nii.gz,scans/a2_t2.nii.gz,,training

bert,b1,scans/b1_flair.nii.gz,scans/b1_t2.nii.gz,labels/b1.nii.gz,test
"""


@pytest.fixture
def manifest(tmp_path):
    write_all(
        tmp_path,
        *(f"scans/{case}_{kind}.nii.gz" for case in ("a1", "a2", "b1") for kind in ("flair", "t2")),
    )
    write_all(tmp_path, "labels/a1.nii.gz", "labels/b1.nii.gz")
    (tmp_path / "list.csv").write_text(MANIFEST)
    return tmp_path


KINDS = ("t2", "t1ce", "t1", "flair", "seg")


@pytest.fixture
def brats(tmp_path):
    for case in ("HGG/Brats18_TCIA01_1_1", "HGG/Brats18_2013_2_1", "LGG/Brats18_TCIA09_3_1"):
        name = case.split("/")[1]
        write_all(
            tmp_path, *(f"{case}/{name}_{kind}.nii.gz" for kind in KINDS), values=(0, 1, 2, 4)
        )
    (tmp_path / "LGG/Brats18_TCIA09_3_1/Brats18_TCIA09_3_1_seg.nii.gz").unlink()
    (tmp_path / "survival_data.csv").write_text(
        "Brats18ID,Age,Survival\nBrats18_TCIA01_1_1,60,300\n"
    )
    return tmp_path


@pytest.fixture
def drive(tmp_path):
    write_all(
        tmp_path, "training/images/21_training.tif", "training/images/22_training.tif", channels=3
    )
    write_all(tmp_path, "test/images/01_test.tif", "test/images/02_test.tif", channels=3)
    manuals = (
        "training/1st_manual/21_manual1.gif",
        "training/1st_manual/22_manual1.gif",
        "test/1st_manual/01_manual1.gif",
    )
    write_all(
        tmp_path,
        *manuals,
        "test/2nd_manual/01_manual2.gif",
        "test/mask/01_test_mask.gif",
        values=(0, 255),
    )
    return tmp_path


SERIES = "1.2.840.113704.1.111.1396.11324"


@pytest.fixture
def carve(tmp_path):
    write_all(
        tmp_path,
        f"images/{SERIES}1.7.mhd",
        f"images/{SERIES}2.7.mhd",
        "images/third.mhd",
        values=(-1000, 40),
    )
    write_all(tmp_path, f"annotations/{SERIES}1_fullAnnotations.mhd", values=(0, 1, 2, -999))
    write_all(tmp_path, "annotations/third_vessel.mha", values=(0, 1))
    return tmp_path


ALL = ["nnunet", "decathlon", "paper", "manifest", "brats", "drive", "carve"]


@pytest.mark.parametrize("name", ALL)
def test_every_layout_is_recognised_by_itself_alone(name, request):
    folder = request.getfixturevalue(name)
    recognised = [layout for layout in LAYOUTS if layout.recognises(folder)]
    assert recognised[0].__name__.endswith(f".{name}")
    assert len(recognised) == (
        2 if name == "decathlon" else 1
    )  # nnU-Net's takes any dataset.json that is left
    dataset = read_dataset(folder)
    assert dataset.layout == recognised[0].NAME
    assert dataset.folder == folder
    assert dataset.slices == (name == "brats")
    assert all(file.is_file() for case in dataset.training + dataset.test for file in case.images)


def test_nnunet(nnunet):
    dataset = read_dataset(nnunet)
    assert dataset.task == Task(("T1", "T2"), (Region("left", (1,), 1), Region("right", (2,), 2)))
    assert names(dataset.training) == ["a", "b", "c"]
    assert labelled(dataset.training) == ["a"]
    assert [case.subject for case in dataset.training] == ["anna", "anna", "c"]
    assert [file.name for file in dataset.test[0].images] == ["d_0000.nii.gz", "d_0001.nii.gz"]


def test_decathlon_with_4d_files(decathlon):
    dataset = read_dataset(decathlon)
    assert dataset.task == Task(
        ("FLAIR", "T1w"), (Region("Anterior", (1,), 1), Region("Posterior", (2,), 2))
    )
    assert names(dataset.training) == ["a", "b", "c"]
    assert labelled(dataset.training) == ["a", "b"]
    assert [case.images for case in dataset.test] == [(decathlon / "imagesTs/d.nii.gz",)]
    assert dataset.test[0].label is None


def test_decathlon_description_with_channel_numbers_is_nnunet_v1(tmp_path):
    training = [{"image": "./imagesTr/a.nii.gz", "label": "./labelsTr/a.nii.gz"}]
    describe(
        tmp_path,
        modality={"0": "CT", "1": "PET"},
        labels={"0": "background", "1": "lesion"},
        training=training,
    )
    write_all(tmp_path, "imagesTr/a_0000.nii.gz", "imagesTr/a_0001.nii.gz", "labelsTr/a.nii.gz")
    case = read_dataset(tmp_path).training[0]
    assert [file.name for file in case.images] == ["a_0000.nii.gz", "a_0001.nii.gz"]
    assert case.label == tmp_path / "labelsTr/a.nii.gz"


def test_paper(paper):
    dataset = read_dataset(paper)
    assert names(dataset.training) == ["1", "2", "5", "3"]
    assert labelled(dataset.training) == ["1", "2", "5"]
    assert labelled(dataset.test) == ["4"]
    assert dataset.task == Task(
        ("image",), (Region("label 1", (1,), 1), Region("label 3", (3,), 3))
    )


def test_channels_are_named_by_their_numbers_in_whatever_order(nnunet):
    expected = read_dataset(nnunet).task.channels
    description = json.loads((nnunet / "dataset.json").read_text())
    assert len(description["channel_names"]) > 1
    description["channel_names"] = dict(reversed(description["channel_names"].items()))
    (nnunet / "dataset.json").write_text(json.dumps(description))
    assert read_dataset(nnunet).task.channels == expected


def test_manifest_with_a_column_per_channel(manifest):
    dataset = read_dataset(manifest)
    assert dataset.task == Task(("flair", "t2"), (Region("foreground", (1,), 1),))
    assert names(dataset.training) == ["a1", "a2"]
    assert labelled(dataset.training) == ["a1"]
    assert {case.subject for case in dataset.training} == {"anna"}
    assert labelled(dataset.test) == ["b1"]
    assert dataset.test[0].images == (
        manifest / "scans/b1_flair.nii.gz",
        manifest / "scans/b1_t2.nii.gz",
    )
    assert read_dataset(manifest / "list.csv").training == dataset.training


def test_tables_of_ours_among_the_scans_are_no_manifests(manifest):
    expected = read_dataset(manifest)
    (manifest / "cases.csv").write_text("case,region,volume_ml\na1,foreground,3.2\n")
    (manifest / "rank.csv").write_text(
        "rank,case,score,reason,file\n1,a2,0.5,new,scans/a2_t2.nii.gz\n"
    )
    assert read_dataset(manifest) == expected


def test_manifest_with_one_image_of_several_channels(tmp_path):
    write_all(tmp_path, "a.png", channels=3)
    write_all(tmp_path, "a_label.png", values=(0, 255))
    (tmp_path / "cases.csv").write_text(
        "\ufeffCase;Image;Label;Age\na;a.png;a_label.png;61\n", encoding="utf-8"
    )
    dataset = read_dataset(tmp_path)
    assert dataset.task == Task(
        ("channel 1", "channel 2", "channel 3"), (Region("foreground", (255,), 255),)
    )
    assert dataset.training[0].subject == "a"


def test_manifest_may_name_a_data_set_inside_a_file(tmp_path):
    import h5py

    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["image"], file["label"] = np.zeros((4, 4, 3), np.float32), np.ones((4, 4, 3), np.uint8)
    (tmp_path / "cases.csv").write_text("case,image,label\na,a.h5,a.h5#label\n")
    dataset = read_dataset(tmp_path)
    assert dataset.training[0].label == tmp_path / "a.h5#label"
    assert dataset.task.regions == (Region("foreground", (1,), 1),)


def test_brats(brats):
    dataset = read_dataset(brats)
    assert dataset.task.channels == ("flair", "t1", "t1ce", "t2")
    assert [(region.values, region.paint) for region in dataset.task.regions] == [
        ((1, 2, 4), 2),
        ((1, 4), 1),
        ((4,), 4),
    ]
    assert names(dataset.training) == [
        "Brats18_2013_2_1",
        "Brats18_TCIA01_1_1",
        "Brats18_TCIA09_3_1",
    ]
    assert labelled(dataset.training) == names(dataset.training)[:2]
    endings = [
        file.name.removeprefix(dataset.training[0].name) for file in dataset.training[0].images
    ]
    assert endings == ["_flair.nii.gz", "_t1.nii.gz", "_t1ce.nii.gz", "_t2.nii.gz"]
    assert names(read_dataset(brats / "HGG").training) == names(dataset.training)[:2]


def test_drive(drive):
    dataset = read_dataset(drive)
    assert dataset.task == Task(("red", "green", "blue"), (Region("vessel", (255,), 255),))
    assert names(dataset.training) == labelled(dataset.training) == ["21", "22"]
    assert names(dataset.test) == ["01", "02"]
    assert labelled(dataset.test) == ["01"]
    assert _values(dataset.training[0].label, 0) == {0, 255}


def test_carve(carve):
    dataset = read_dataset(carve)
    assert dataset.task == Task(("CT",), (Region("vessel", (-999, 1, 2), 1),))
    assert names(dataset.training) == [f"{SERIES}1", f"{SERIES}2.7", "third"]
    assert labelled(dataset.training) == [f"{SERIES}1", "third"]


def test_carve_in_one_folder(tmp_path):
    write_all(
        tmp_path,
        f"{SERIES}1.7.mhd",
        f"{SERIES}1_fullAnnotations.mhd",
        f"{SERIES}1_other.mhd",
        f"{SERIES}2.7.mhd",
    )
    dataset = read_dataset(tmp_path)
    assert names(dataset.training) == [f"{SERIES}1", f"{SERIES}2.7"]
    assert labelled(dataset.training) == [f"{SERIES}1"]


def test_regions_follow_a_label_that_changes(paper):
    assert len(read_dataset(paper).task.regions) == 2
    write(paper / "labelled/lbls/1lbl.npy", values=(0, 1, 2))
    os.utime(paper / "labelled/lbls/1lbl.npy", ns=(1, 1))
    assert [region.values for region in read_dataset(paper).task.regions] == [(1,), (2,), (3,)]


def test_of_very_many_labels_only_some_are_opened(paper, monkeypatch):
    monkeypatch.setattr("segpl.data.layouts.contents.MOST_VOXELS", 75 * 2)
    assert [region.values for region in read_dataset(paper).task.regions] == [
        (1,)
    ]  # of the first and the third


def unknown(folder):
    for file in sorted(folder.rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()
    write(folder / "scans" / "a.nii.gz")


def replace_in_manifest(old, new):
    def mistake(folder):
        (folder / "list.csv").write_text(MANIFEST.replace(old, new))

    return mistake


def add(*names, values=(0, 1)):
    return lambda folder: write_all(folder, *names, values=values)


def remove(name):
    return lambda folder: (folder / name).unlink()


def change(folder, **changes):
    description = json.loads((folder / "dataset.json").read_text())
    (folder / "dataset.json").write_text(json.dumps(description | changes))


MISTAKES = [
    (
        "paper",
        unknown,
        "has no dataset.json and fits no other layout either: arrange it as one of Decathlon (dataset",
    ),
    (
        "nnunet",
        add("imagesTs/a_0000.nii.gz", "imagesTs/a_0001.nii.gz"),
        "are both case a: rename or remove one",
    ),
    ("nnunet", add("labelsTr/z.nii.gz"), "labelsTr/z.nii.gz has no image in"),
    ("decathlon", add("labelsTr/z.nii.gz"), "labelsTr/z.nii.gz has no image that belongs to it"),
    ("decathlon", add("imagesTr/a.mha"), "imagesTr/a.nii.gz both belong to case a"),
    (
        "decathlon",
        remove("imagesTr/b.nii.gz"),
        "imagesTr/b.nii.gz is missing: dataset.json lists it",
    ),
    (
        "decathlon",
        remove("labelsTr/b.nii.gz"),
        "labelsTr/b.nii.gz is missing: dataset.json lists it",
    ),
    ("decathlon", lambda folder: change(folder, labels={"background": 0}), "dataset.json: labels"),
    (
        "decathlon",
        lambda folder: change(folder, labels={"0": "background"}),
        "at least one modality and one label",
    ),
    ("paper", add("labelled/lbls/9.npy"), "labelled/lbls/9.npy has no image that belongs to it"),
    ("paper", add("labelled/lbls/1.npy"), "labelled/lbls/1lbl.npy both belong to case 1"),
    ("paper", add("test/imgs/3.npy"), "test/imgs/3.npy are both case 3: rename or remove one"),
    (
        "paper",
        add("labelled/lbls/2.npy", values=range(3000)),
        "2.npy has 75 different values, so it is no label map",
    ),
    ("manifest", remove("scans/b1_t2.nii.gz"), "list.csv line 5: "),
    (
        "manifest",
        remove("labels/a1.nii.gz"),
        "labels/a1.nii.gz is missing: add the file or correct its path",
    ),
    (
        "manifest",
        replace_in_manifest("anna,a2", "anna,a1"),
        "list.csv line 3: case a1 is on an earlier line too",
    ),
    (
        "manifest",
        replace_in_manifest("training", "validation"),
        "list.csv line 3: split is 'validation': write train",
    ),
    (
        "manifest",
        replace_in_manifest("scans/a2_t2.nii.gz", ""),
        "line 3 names no file in the column t2: fill it in",
    ),
    ("manifest", replace_in_manifest("anna,a2,", "anna,,"), "line 3 names no case"),
    ("manifest", replace_in_manifest(",train", ""), "line 2 has 5 cells, but there are 6 columns"),
    ("manifest", replace_in_manifest(",case,", ",image,"), "needs the column case, and image"),
    (
        "manifest",
        replace_in_manifest("flair,t2", "t2,t2"),
        "columns without a name or with the same name",
    ),
    ("manifest", replace_in_manifest(MANIFEST, "case,image,label\n"), "list.csv holds no image"),
    (
        "manifest",
        lambda folder: (folder / "more.csv").write_text(MANIFEST),
        "more.csv are both manifests",
    ),
    (
        "brats",
        remove("HGG/Brats18_2013_2_1/Brats18_2013_2_1_t1.nii.gz"),
        "Brats18_2013_2_1_t1.nii.gz is missing",
    ),
    (
        "brats",
        add("HGG/Brats18_2013_2_1/Brats18_2013_2_1_t1.nii"),
        "is there as Brats18_2013_2_1_t1.nii too",
    ),
    (
        "brats",
        add(*(f"LGG/Brats18_2013_2_1/Brats18_2013_2_1_{k}.nii" for k in KINDS)),
        "both case Brats18_2013_2_1",
    ),
    (
        "drive",
        add("training/1st_manual/30_manual1.gif"),
        "30_manual1.gif has no image that belongs to it",
    ),
    ("drive", add("training/images/21_again.tif"), "21_training.tif both belong to case 21"),
    ("carve", add("annotations/third_label.mhd"), "third_vessel.mha both belong to case third"),
    ("carve", add("annotations/fourth.mhd"), "fourth.mhd has no image that belongs to it"),
]


@pytest.mark.parametrize(
    ("name", "mistake", "sentence"), MISTAKES, ids=[mistake[2][:60] for mistake in MISTAKES]
)
def test_a_mistake_gets_one_sentence(name, mistake, sentence, request):
    folder = request.getfixturevalue(name)
    mistake(folder)
    with pytest.raises(UserError) as error:
        read_dataset(folder)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_without_any_label_the_regions_are_unknown(tmp_path):
    write(tmp_path / "labelled/imgs/1.npy")
    with pytest.raises(UserError, match="has no label, so its regions are unknown"):
        read_dataset(tmp_path)


def test_all_layouts_are_named_when_none_fits(tmp_path):
    with pytest.raises(UserError) as error:
        read_dataset(tmp_path)
    assert all(f"{layout.NAME} ({layout.DESCRIPTION})" in str(error.value) for layout in LAYOUTS)


def test_a_table_that_is_no_manifest_is_no_folder(tmp_path):
    (tmp_path / "ages.csv").write_text("name,age\n")
    with pytest.raises(UserError, match=r"ages.csv is not a folder"):
        read_dataset(tmp_path / "ages.csv")


@pytest.mark.skipif(
    not REAL.is_dir(), reason=f"the real data is not at {REAL}; set SEGPL_DATA to where it is"
)
@pytest.mark.parametrize(
    ("name", "layout", "training", "test", "subjects", "regions"),
    [
        ("brats", "BRATS", 9, 0, 9, [(1, 2, 4), (1, 4), (4,)]),
        ("hippocampus", "Decathlon", 260, 0, 260, [(1,), (2,)]),
        ("vessels", "manifest", 9, 0, 7, [(1,)]),
        ("drive", "DRIVE", 20, 20, 40, [(255,)]),
    ],
)
def test_real_data(name, layout, training, test, subjects, regions):
    dataset = read_dataset(REAL / name)
    cases = dataset.training + dataset.test
    assert dataset.layout == layout
    assert (len(dataset.training), len(dataset.test)) == (training, test)
    assert len({case.subject for case in cases}) == subjects
    assert all(case.label for case in cases)
    assert [region.values for region in dataset.task.regions] == regions
    values = _values(cases[0].label, 0) - {0}
    assert values
    assert values <= {value for region in dataset.task.regions for value in region.values}
