"""Every layout gives its cases, and a mistake in a folder gives one clear sentence.

The folders are miniatures. Tests with real data run where it is present.
"""

import json
import os
import shutil
from pathlib import Path

import h5py
import nibabel
import numpy as np
import pytest
import SimpleITK
from PIL import Image

from segpl.data.cases import Region, Task
from segpl.data.layouts import LAYOUTS, read_dataset
from segpl.data.layouts.task_from_files import _values
from segpl.foundation.errors import UserError

REPOSITORY = Path(__file__).parents[2]
REAL_DATA = Path(os.environ.get("SEGPL_DATA", REPOSITORY.parent / "shared" / "data"))


def write(file, values=(0, 1), channels=1):
    """Write a tiny image with these values, in the format of the ending."""
    file.parent.mkdir(parents=True, exist_ok=True)
    volume = np.resize(np.asarray(values), (5, 5, 3)).astype(np.int16)
    if file.suffix in (".mhd", ".mha"):
        SimpleITK.WriteImage(SimpleITK.GetImageFromArray(volume), str(file))
    elif file.suffix == ".npy":
        np.save(file, volume)
    elif file.suffix in (".tif", ".gif", ".png"):
        plane = volume[..., 0].astype(np.uint8)
        Image.fromarray(with_channels(plane, channels)).save(file)
    else:
        nibabel.save(nibabel.Nifti1Image(with_channels(volume, channels), np.eye(4)), file)


def with_channels(values, channels):
    if channels == 1:
        return values
    return np.stack([values] * channels, axis=-1)


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
    describe(
        tmp_path,
        channel_names={"0": "T1", "1": "T2"},
        labels={"background": 0, "left": 1, "right": 2},
        file_ending=".nii.gz",
        subjects={"a": "anna", "b": "anna"},
    )
    for case in ("imagesTr/a", "imagesTr/b", "imagesUn/c", "imagesTs/d"):
        write_all(tmp_path, f"{case}_0000.nii.gz", f"{case}_0001.nii.gz")
    write_all(tmp_path, "labelsTr/a.nii.gz")
    (tmp_path / "imagesTr" / "._a_0000.nii.gz").write_bytes(b"left by macOS")
    return tmp_path


@pytest.fixture
def decathlon(tmp_path):
    describe(
        tmp_path,
        modality={"0": "FLAIR", "1": "T1w"},
        labels={"0": "background", "1": "Anterior", "2": "Posterior"},
        training=[
            {"image": "./imagesTr/a.nii.gz", "label": "./labelsTr/a.nii.gz"},
            {"image": "./imagesTr/b.nii.gz", "label": "./labelsTr/b.nii.gz"},
        ],
        test=["./imagesTs/d.nii.gz"],
    )
    for case in ("imagesTr/a", "imagesTr/b", "imagesTr/c", "imagesTs/d"):
        write_all(tmp_path, f"{case}.nii.gz", channels=2)
    write_all(tmp_path, "labelsTr/a.nii.gz", "labelsTr/b.nii.gz", values=(0, 1, 2))
    (tmp_path / "imagesTr" / "._a.nii.gz").write_bytes(b"left by macOS")
    return tmp_path


@pytest.fixture
def paper(tmp_path):
    write_all(tmp_path, "labelled/imgs/1img.npy", "labelled/imgs/2.npy")
    write_all(tmp_path, "validation/imgs/5.npy", "unlabelled/imgs/3.npy", "test/imgs/4.npy")
    write_all(tmp_path, "labelled/lbls/1lbl.npy", "validation/lbls/5.npy", values=(0, 1))
    write_all(tmp_path, "labelled/lbls/2.npy", "test/lbls/4.npy", values=(0, 3))
    return tmp_path


MANIFEST = """subject,case,flair,t2,label,split
anna,a1,scans/a1_flair.nii.gz,scans/a1_t2.nii.gz,labels/a1.nii.gz,train
anna,a2,scans/a2_flair.nii.gz,scans/a2_t2.nii.gz,,training

bert,b1,scans/b1_flair.nii.gz,scans/b1_t2.nii.gz,labels/b1.nii.gz,test
"""


@pytest.fixture
def manifest(tmp_path):
    for case in ("a1", "a2", "b1"):
        write_all(tmp_path, f"scans/{case}_flair.nii.gz", f"scans/{case}_t2.nii.gz")
    write_all(tmp_path, "labels/a1.nii.gz", "labels/b1.nii.gz")
    (tmp_path / "list.csv").write_text(MANIFEST)
    return tmp_path


def brats_case(folder, ending=".nii.gz"):
    """The files of a case folder in the layout of BRATS."""
    name = folder.rpartition("/")[2]
    suffixes = ("t2", "t1ce", "t1", "flair", "seg")
    return [f"{folder}/{name}_{suffix}{ending}" for suffix in suffixes]


@pytest.fixture
def brats(tmp_path):
    for case in ("HGG/Brats18_TCIA01_1_1", "HGG/Brats18_2013_2_1", "LGG/Brats18_TCIA09_3_1"):
        write_all(tmp_path, *brats_case(case), values=(0, 1, 2, 4))
    (tmp_path / "LGG/Brats18_TCIA09_3_1/Brats18_TCIA09_3_1_seg.nii.gz").unlink()
    survival = "Brats18ID,Age,Survival\nBrats18_TCIA01_1_1,60,300\n"
    (tmp_path / "survival_data.csv").write_text(survival)
    return tmp_path


@pytest.fixture
def drive(tmp_path):
    photographs = [
        "training/images/21_training.tif",
        "training/images/22_training.tif",
        "test/images/01_test.tif",
        "test/images/02_test.tif",
    ]
    annotations = [
        "training/1st_manual/21_manual1.gif",
        "training/1st_manual/22_manual1.gif",
        "test/1st_manual/01_manual1.gif",
    ]
    unused = ["test/2nd_manual/01_manual2.gif", "test/mask/01_test_mask.gif"]
    write_all(tmp_path, *photographs, channels=3)
    write_all(tmp_path, *annotations, *unused, values=(0, 255))
    return tmp_path


SERIES = "1.2.840.113704.1.111.1396.11324"


@pytest.fixture
def carve(tmp_path):
    scans = [f"images/{SERIES}1.7.mhd", f"images/{SERIES}2.7.mhd", "images/third.mhd"]
    write_all(tmp_path, *scans, values=(-1000, 40))
    write_all(tmp_path, f"annotations/{SERIES}1_fullAnnotations.mhd", values=(0, 1, 2, -999))
    write_all(tmp_path, "annotations/third_vessel.mha", values=(0, 1))
    return tmp_path


ALL = ["nnunet", "decathlon", "paper", "manifest", "brats", "drive", "carve"]


@pytest.mark.parametrize("name", ALL)
def test_the_first_layout_that_recognises_a_folder_is_its_own(name, request):
    folder = request.getfixturevalue(name)
    recognised = [layout for layout in LAYOUTS if layout.recognises(folder)]
    assert recognised[0].__name__.endswith(f".{name}")
    dataset = read_dataset(folder)
    assert dataset.layout == recognised[0].NAME
    assert dataset.folder == folder


@pytest.mark.parametrize("name", ALL)
def test_no_two_layouts_recognise_the_same_folder(name, request):
    folder = request.getfixturevalue(name)
    # Plain folders are guessed last: what the others describe may look like one.
    recognised = [layout for layout in LAYOUTS[:-1] if layout.recognises(folder)]
    # The nnU-Net layout recognises any dataset.json; the Decathlon layout is tried before it.
    assert len(recognised) == (2 if name == "decathlon" else 1)


@pytest.mark.parametrize("name", ALL)
def test_all_images_of_a_dataset_exist(name, request):
    dataset = read_dataset(request.getfixturevalue(name))
    for case in dataset.training + dataset.test:
        assert all(file.is_file() for file in case.images)


@pytest.mark.parametrize("name", ALL)
def test_only_brats_is_a_task_of_slices(name, request):
    dataset = read_dataset(request.getfixturevalue(name))
    assert dataset.use_slices == (name == "brats")


def test_nnunet_cases_regions_and_subjects(nnunet):
    dataset = read_dataset(nnunet)
    assert dataset.task == Task(("T1", "T2"), (Region("left", (1,), 1), Region("right", (2,), 2)))
    assert names(dataset.training) == ["a", "b", "c"]
    assert labelled(dataset.training) == ["a"]
    assert [case.subject for case in dataset.training] == ["anna", "anna", "c"]
    assert [file.name for file in dataset.test[0].images] == ["d_0000.nii.gz", "d_0001.nii.gz"]


def test_decathlon_with_4d_files(decathlon):
    dataset = read_dataset(decathlon)
    regions = (Region("Anterior", (1,), 1), Region("Posterior", (2,), 2))
    assert dataset.task == Task(("FLAIR", "T1w"), regions)
    assert names(dataset.training) == ["a", "b", "c"]
    assert labelled(dataset.training) == ["a", "b"]
    assert [case.images for case in dataset.test] == [(decathlon / "imagesTs/d.nii.gz",)]
    assert dataset.test[0].label is None


def test_decathlon_description_with_channel_numbers_is_nnunet_v1(tmp_path):
    describe(
        tmp_path,
        modality={"0": "CT", "1": "PET"},
        labels={"0": "background", "1": "lesion"},
        training=[{"image": "./imagesTr/a.nii.gz", "label": "./labelsTr/a.nii.gz"}],
    )
    write_all(tmp_path, "imagesTr/a_0000.nii.gz", "imagesTr/a_0001.nii.gz", "labelsTr/a.nii.gz")
    case = read_dataset(tmp_path).training[0]
    assert [file.name for file in case.images] == ["a_0000.nii.gz", "a_0001.nii.gz"]
    assert case.label == tmp_path / "labelsTr/a.nii.gz"


def test_paper_cases_and_regions(paper):
    dataset = read_dataset(paper)
    assert names(dataset.training) == ["1", "2", "5", "3"]
    assert labelled(dataset.training) == ["1", "2", "5"]
    assert labelled(dataset.test) == ["4"]
    regions = (Region("label 1", (1,), 1), Region("label 3", (3,), 3))
    assert dataset.task == Task(("image",), regions)


def test_channels_are_in_the_order_of_their_numbers(nnunet):
    change(nnunet, channel_names={"1": "T2", "0": "T1"})
    assert read_dataset(nnunet).task.channels == ("T1", "T2")


def test_manifest_with_a_column_per_channel(manifest):
    dataset = read_dataset(manifest)
    assert dataset.task == Task(("flair", "t2"), (Region("foreground", (1,), 1),))
    assert names(dataset.training) == ["a1", "a2"]
    assert labelled(dataset.training) == ["a1"]
    assert {case.subject for case in dataset.training} == {"anna"}
    assert labelled(dataset.test) == ["b1"]
    scans = manifest / "scans"
    assert dataset.test[0].images == (scans / "b1_flair.nii.gz", scans / "b1_t2.nii.gz")


def test_a_manifest_can_be_given_instead_of_its_folder(manifest):
    by_file = read_dataset(manifest / "list.csv")
    assert by_file.training == read_dataset(manifest).training


def test_tables_that_segpl_writes_are_not_taken_for_manifests(manifest):
    expected = read_dataset(manifest)
    volumes = "case,region,volume_ml\na1,foreground,3.2\n"
    ranking = "rank,case,score,reason,file\n1,a2,0.5,new,scans/a2_t2.nii.gz\n"
    (manifest / "cases.csv").write_text(volumes)
    (manifest / "rank.csv").write_text(ranking)
    assert read_dataset(manifest) == expected


def test_manifest_with_one_image_of_several_channels(tmp_path):
    write_all(tmp_path, "a.png", channels=3)
    write_all(tmp_path, "a_label.png", values=(0, 255))
    spreadsheet = "\ufeffCase;Image;Label;Age\na;a.png;a_label.png;61\n"
    (tmp_path / "cases.csv").write_text(spreadsheet, encoding="utf-8")
    dataset = read_dataset(tmp_path)
    channels = ("channel 1", "channel 2", "channel 3")
    assert dataset.task == Task(channels, (Region("foreground", (255,), 255),))
    assert dataset.training[0].subject == "a"


def test_manifest_may_name_an_array_inside_a_file(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["image"] = np.zeros((4, 4, 3), np.float32)
        file["label"] = np.ones((4, 4, 3), np.uint8)
    (tmp_path / "cases.csv").write_text("case,image,label\na,a.h5,a.h5#label\n")
    dataset = read_dataset(tmp_path)
    assert dataset.training[0].label == tmp_path / "a.h5#label"
    assert dataset.task.regions == (Region("foreground", (1,), 1),)


def test_brats_regions_are_the_papers_label_fusion(brats):
    regions = read_dataset(brats).task.regions
    assert [region.values for region in regions] == [(1, 2, 4), (1, 4), (4,)]
    assert [region.paint for region in regions] == [2, 1, 4]


def test_brats_channels_are_in_the_order_of_the_task(brats):
    dataset = read_dataset(brats)
    assert dataset.task.channels == ("flair", "t1", "t1ce", "t2")
    case = dataset.training[0]
    suffixes = [file.name.removeprefix(case.name) for file in case.images]
    assert suffixes == ["_flair.nii.gz", "_t1.nii.gz", "_t1ce.nii.gz", "_t2.nii.gz"]


def test_brats_cases_of_both_grades_are_training_cases(brats):
    training = read_dataset(brats).training
    high_grade = ["Brats18_2013_2_1", "Brats18_TCIA01_1_1"]
    assert names(training) == [*high_grade, "Brats18_TCIA09_3_1"]
    assert labelled(training) == high_grade


def test_brats_can_be_read_from_one_grade(brats):
    high_grade = ["Brats18_2013_2_1", "Brats18_TCIA01_1_1"]
    assert names(read_dataset(brats / "HGG").training) == high_grade


def test_brats_gives_the_grade_by_the_folder_around_a_case(brats):
    grades = {case.name: case.grade for case in read_dataset(brats).training}
    assert grades == {
        "Brats18_2013_2_1": "HGG",
        "Brats18_TCIA01_1_1": "HGG",
        "Brats18_TCIA09_3_1": "LGG",
    }
    assert {case.grade for case in read_dataset(brats / "HGG").training} == {"HGG"}


def test_brats_gives_the_grade_by_the_table_of_names(tmp_path):
    for number in (1, 2, 3):
        write_all(tmp_path, *brats_case(f"BraTS20_Training_00{number}"), values=(0, 1, 2, 4))
    table = "Grade,BraTS_2019_subject_ID,BraTS_2020_subject_ID\n"
    table += "HGG,BraTS19_a,BraTS20_Training_001\nLGG,NA,BraTS20_Training_002\n"
    (tmp_path / "name_mapping.csv").write_text(table)
    dataset = read_dataset(tmp_path)
    assert [case.grade for case in dataset.training] == ["HGG", "LGG", None]


def test_drive_takes_the_first_observers_annotations(drive):
    dataset = read_dataset(drive)
    assert dataset.task == Task(("red", "green", "blue"), (Region("vessel", (255,), 255),))
    assert names(dataset.training) == ["21", "22"]
    assert labelled(dataset.training) == ["21", "22"]
    assert names(dataset.test) == ["01", "02"]
    assert labelled(dataset.test) == ["01"]
    assert _values(dataset.training[0].label, 0) == {0, 255}


def test_carve_takes_every_annotated_value_as_vessel(carve):
    dataset = read_dataset(carve)
    assert dataset.task == Task(("CT",), (Region("vessel", (-999, 1, 2), 1),))
    assert names(dataset.training) == [f"{SERIES}1", f"{SERIES}2.7", "third"]
    assert labelled(dataset.training) == [f"{SERIES}1", "third"]


def test_carve_in_one_folder(tmp_path):
    write_all(tmp_path, f"{SERIES}1.7.mhd", f"{SERIES}2.7.mhd")
    write_all(tmp_path, f"{SERIES}1_fullAnnotations.mhd", f"{SERIES}1_other.mhd")
    dataset = read_dataset(tmp_path)
    assert names(dataset.training) == [f"{SERIES}1", f"{SERIES}2.7"]
    assert labelled(dataset.training) == [f"{SERIES}1"]


def test_regions_follow_a_label_that_changes(paper):
    assert len(read_dataset(paper).task.regions) == 2
    write(paper / "labelled/lbls/1lbl.npy", values=(0, 1, 2))
    os.utime(paper / "labelled/lbls/1lbl.npy", ns=(1, 1))
    assert [region.values for region in read_dataset(paper).task.regions] == [(1,), (2,), (3,)]


def test_of_a_great_number_of_labels_only_every_nth_is_read(paper, monkeypatch):
    voxels_per_label = 5 * 5 * 3
    monkeypatch.setattr("segpl.data.layouts.task_from_files.MOST_VOXELS", 2 * voxels_per_label)
    # Of four labels, the first and the third are read; the other two have the value 3.
    assert [region.values for region in read_dataset(paper).task.regions] == [(1,)]


def change(folder, **changes):
    file = folder / "dataset.json"
    description = json.loads(file.read_text())
    file.write_text(json.dumps(description | changes))


def replace_by_unknown_layout(folder):
    shutil.rmtree(folder)
    write(folder / "scans" / "a.nii.gz")


def edit_manifest(old, new):
    def mistake(folder):
        (folder / "list.csv").write_text(MANIFEST.replace(old, new))

    return mistake


def edit_description(**changes):
    def mistake(folder):
        change(folder, **changes)

    return mistake


def add(*names, values=(0, 1)):
    def mistake(folder):
        write_all(folder, *names, values=values)

    return mistake


def add_second_manifest(folder):
    (folder / "more.csv").write_text(MANIFEST)


def remove(name):
    def mistake(folder):
        (folder / name).unlink()

    return mistake


MISTAKES = [
    (
        "paper",
        replace_by_unknown_layout,
        "has no dataset.json and no other layout that segpl knows: arrange it as one of Decathlon",
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
    ("decathlon", edit_description(labels={"background": 0}), "dataset.json: labels"),
    (
        "decathlon",
        edit_description(labels={"0": "background"}),
        "at least one modality and one label",
    ),
    ("paper", add("labelled/lbls/9.npy"), "labelled/lbls/9.npy has no image that belongs to it"),
    ("paper", add("labelled/lbls/1.npy"), "labelled/lbls/1lbl.npy both belong to case 1"),
    ("paper", add("test/imgs/3.npy"), "test/imgs/3.npy are both case 3: rename or remove one"),
    (
        "paper",
        add("labelled/lbls/2.npy", values=range(3000)),
        "2.npy has 75 different values, so it is not a label map",
    ),
    ("manifest", remove("scans/b1_t2.nii.gz"), "list.csv line 5: "),
    (
        "manifest",
        remove("labels/a1.nii.gz"),
        "labels/a1.nii.gz is missing: add the file or correct its path",
    ),
    (
        "manifest",
        edit_manifest("anna,a2", "anna,a1"),
        "list.csv line 3: case a1 is on an earlier line too",
    ),
    (
        "manifest",
        edit_manifest("training", "validation"),
        "list.csv line 3: split is 'validation': write train",
    ),
    (
        "manifest",
        edit_manifest("scans/a2_t2.nii.gz", ""),
        "line 3 names no file in the column t2: fill it in",
    ),
    ("manifest", edit_manifest("anna,a2,", "anna,,"), "line 3 names no case"),
    ("manifest", edit_manifest(",train", ""), "line 2 has 5 cells, but there are 6 columns"),
    ("manifest", edit_manifest(",case,", ",image,"), "needs the column case, and image"),
    (
        "manifest",
        edit_manifest("flair,t2", "t2,t2"),
        "columns without a name or with the same name",
    ),
    ("manifest", edit_manifest(MANIFEST, "case,image,label\n"), "list.csv holds no image"),
    ("manifest", add_second_manifest, "more.csv are both manifests"),
    (
        "brats",
        remove("HGG/Brats18_2013_2_1/Brats18_2013_2_1_t1.nii.gz"),
        "Brats18_2013_2_1_t1.nii.gz is missing",
    ),
    (
        "brats",
        add("HGG/Brats18_2013_2_1/Brats18_2013_2_1_t1.nii"),
        "also exists as Brats18_2013_2_1_t1.nii",
    ),
    (
        "brats",
        add(*brats_case("LGG/Brats18_2013_2_1", ending=".nii")),
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
    ("name", "mistake", "sentence"), MISTAKES, ids=[sentence[:60] for _, _, sentence in MISTAKES]
)
def test_a_mistake_gets_one_sentence(name, mistake, sentence, request):
    folder = request.getfixturevalue(name)
    mistake(folder)
    with pytest.raises(UserError) as error:
        read_dataset(folder)
    message = str(error.value)
    assert sentence in message
    assert "\n" not in message


def test_without_any_label_the_regions_are_unknown(tmp_path):
    write(tmp_path / "labelled/imgs/1.npy")
    with pytest.raises(UserError, match="has no label, so its regions are unknown"):
        read_dataset(tmp_path)


def test_all_layouts_are_named_when_none_fits(tmp_path):
    with pytest.raises(UserError) as error:
        read_dataset(tmp_path)
    message = str(error.value)
    assert all(f"{layout.NAME} ({layout.DESCRIPTION})" in message for layout in LAYOUTS)


def test_a_table_that_is_not_a_manifest_is_refused(tmp_path):
    (tmp_path / "ages.csv").write_text("name,age\n")
    with pytest.raises(UserError, match=r"ages.csv is not a folder"):
        read_dataset(tmp_path / "ages.csv")


@pytest.mark.skipif(
    not REAL_DATA.is_dir(), reason=f"{REAL_DATA} does not exist: set SEGPL_DATA to the real data"
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
def test_real_data_is_read_in_its_own_layout(name, layout, training, test, subjects, regions):
    dataset = read_dataset(REAL_DATA / name)
    cases = dataset.training + dataset.test
    assert dataset.layout == layout
    assert len(dataset.training) == training
    assert len(dataset.test) == test
    assert len({case.subject for case in cases}) == subjects
    assert all(case.label for case in cases)
    assert [region.values for region in dataset.task.regions] == regions
    known_values = set().union(*regions)
    values = _values(cases[0].label, 0) - {0}
    assert values
    assert values <= known_values
