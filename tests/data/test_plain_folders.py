"""Plain folders of images and labels, through the layout and through the command line."""

import sys

import numpy as np
import pytest
import yaml
from PIL import Image

from segpl.cli import main
from segpl.data.cases import Region
from segpl.data.layouts import read_dataset
from segpl.data.layouts.ambiguity import AmbiguousFolderError
from segpl.data.layouts.plain.subjects import guess_subjects
from segpl.foundation.errors import UserError
from segpl.foundation.files import write_nifti

AFFINE = np.diag([-0.8, -0.8, 1.2, 1])


def write(file, values=(0, 1)):
    """Write a small image with these values, as a picture or as NIfTI."""
    file.parent.mkdir(parents=True, exist_ok=True)
    volume = np.resize(np.asarray(values), (5, 5, 3)).astype(np.int16)
    if file.suffix == ".npy":
        np.save(file, volume)
    elif file.suffix in (".png", ".tif"):
        Image.fromarray(volume[..., 0].astype(np.uint8)).save(file)
    else:
        write_nifti(file, volume, AFFINE)


def write_all(folder, *names, values=(0, 1)):
    for name in names:
        write(folder / name, values)
    return folder


def describe(folder, text):
    (folder / "segpl.yaml").write_text(text)


def files_by_case(cases):
    """The names of the images and of the label of each case."""
    files = {}
    for case in cases:
        images = [file.name for file in case.images]
        files[case.name] = (images, case.label.name if case.label else None)
    return files


@pytest.mark.parametrize(
    ("images", "labels"),
    [
        (["images/a.nii.gz", "images/b.nii.gz"], ["labels/a.nii.gz"]),
        (["image/a.nii.gz", "image/b.nii.gz"], ["mask/a_mask.nii.gz"]),
        (["images/a.nii.gz", "images/b.nii.gz"], ["segmentations/a-seg.nii.gz"]),
        (["imgs/a_image.png", "imgs/b_image.png"], ["masks/a_label.png"]),
        (["images/a.png", "images/b.png"], ["labels/a-label.tif"]),
        (["scans/A.npy", "scans/B.npy"], ["gt/a.npy"]),
        (["images/img0001.nii.gz", "images/img0002.nii.gz"], ["labels/label0001.nii.gz"]),
        (["images/volume-0.nii.gz", "images/volume-1.nii.gz"], ["labels/segmentation-0.nii.gz"]),
        (["images/a_0000.nii.gz", "images/b_0000.nii.gz"], ["labels/a.nii.gz"]),
        (["images/s_0000.png", "images/s_0001.png"], ["labels/s_0000.png"]),
        (["images/s_0001.png", "images/s_0002.png"], ["labels/s_0001_seg.png"]),
        (["a.nii.gz", "b.nii.gz"], ["a_seg.nii.gz"]),
        (["a.nii.gz", "b.nii.gz"], ["labels/a.nii.gz"]),
        (["anna/scan.nii.gz", "ben/scan.nii.gz"], ["anna/label.nii.gz"]),
        (["anna/anna.nii.gz", "ben/ben.nii.gz"], ["anna/tumour_seg.nii.gz"]),
        (["train/images/a.nii.gz", "unlabelled/images/b.nii.gz"], ["train/labels/a.nii.gz"]),
    ],
)
def test_labels_are_matched_by_name(images, labels, tmp_path):
    write_all(tmp_path, *images, *labels)
    dataset = read_dataset(tmp_path)
    assert dataset.layout == "plain folders"
    first, second = dataset.training
    assert first.images == (tmp_path / images[0],)
    assert first.label == tmp_path / labels[0]
    assert second.images == (tmp_path / images[1],)
    assert second.label is None
    assert first.subject != second.subject


def test_regions_are_named_after_the_label_values(tmp_path):
    write_all(tmp_path, "images/a.nii.gz")
    write_all(tmp_path, "labels/a.nii.gz", values=(0, 1, 4))
    dataset = read_dataset(tmp_path)
    assert dataset.task.regions == (Region("label 1", (1,), 1), Region("label 4", (4,), 4))


def test_a_test_folder_is_the_test_part(tmp_path):
    write_all(tmp_path, "images/a.nii.gz", "labels/a.nii.gz")
    write_all(tmp_path, "test/images/b.nii.gz", "test/images/c.nii.gz", "test/labels/b.nii.gz")
    dataset = read_dataset(tmp_path)
    assert files_by_case(dataset.training) == {"a": (["a.nii.gz"], "a.nii.gz")}
    test = {"b": (["b.nii.gz"], "b.nii.gz"), "c": (["c.nii.gz"], None)}
    assert files_by_case(dataset.test) == test


def test_channels_are_recognised_by_suffix(tmp_path):
    for case in ("a", "b"):
        write_all(tmp_path, f"images/{case}_t2.nii.gz", f"images/{case}_FLAIR.nii.gz")
    write_all(tmp_path, "labels/a.nii.gz")
    dataset = read_dataset(tmp_path)
    assert dataset.task.channels == ("flair", "t2")
    assert files_by_case(dataset.training) == {
        "a": (["a_FLAIR.nii.gz", "a_t2.nii.gz"], "a.nii.gz"),
        "b": (["b_FLAIR.nii.gz", "b_t2.nii.gz"], None),
    }


def test_channels_of_a_patients_folder(tmp_path):
    for patient in ("anna", "ben"):
        write_all(tmp_path, f"{patient}/t1.nii.gz", f"{patient}/ct.nii.gz")
    write_all(tmp_path, "anna/seg.nii.gz")
    dataset = read_dataset(tmp_path)
    assert dataset.task.channels == ("ct", "t1")
    assert files_by_case(dataset.training) == {
        "anna": (["ct.nii.gz", "t1.nii.gz"], "seg.nii.gz"),
        "ben": (["ct.nii.gz", "t1.nii.gz"], None),
    }


def test_channels_that_brats_has_too_do_not_make_it_brats(tmp_path):
    for patient in ("anna", "ben"):
        write_all(tmp_path, f"{patient}/{patient}_t1.nii.gz", f"{patient}/{patient}_flair.nii.gz")
    write_all(tmp_path, "anna/anna_seg.nii.gz")
    dataset = read_dataset(tmp_path)
    assert dataset.layout == "plain folders"
    assert dataset.task.channels == ("flair", "t1")


def test_scans_of_one_patients_folder_are_of_one_subject(tmp_path):
    for frame in ("p1_frame01", "p1_frame12"):
        write_all(tmp_path, f"p1/{frame}.nii.gz", f"p1/{frame}_gt.nii.gz")
    dataset = read_dataset(tmp_path)
    assert [case.name for case in dataset.training] == ["p1_frame01", "p1_frame12"]
    assert {case.subject for case in dataset.training} == {"p1"}
    assert all(case.label for case in dataset.training)


def test_mha_folders_are_not_taken_for_carve(tmp_path):
    write_all(tmp_path, "images/a.nii.gz", "labels/a.nii.gz")
    import SimpleITK

    for name in ("images/a", "labels/a"):
        image = SimpleITK.ReadImage(str(tmp_path / f"{name}.nii.gz"))
        SimpleITK.WriteImage(image, str(tmp_path / f"{name}.mha"))
        (tmp_path / f"{name}.nii.gz").unlink()
    dataset = read_dataset(tmp_path)
    assert dataset.layout == "plain folders"
    assert dataset.task.channels == ("image",)


@pytest.mark.parametrize(
    ("cases", "subjects"),
    [
        (["patient01_scan1", "patient01_scan2", "patient02_scan1"], ["patient01"] * 2),
        (
            ["patient_01_slice_003", "patient_01_slice_004", "patient_02_slice_1"],
            ["patient_01"] * 2,
        ),
        (["p01_1", "p01_2", "p02_1"], ["p01"] * 2),
        (["p01_20200101", "p01_20210101", "p02_20200101"], ["p01"] * 2),
        (["anna_1", "anna_2", "ben_1"], ["anna"] * 2),
        (["sub-01_ses-1_T1w", "sub-01_ses-2_T1w", "sub-02_ses-1_T1w"], ["sub-01"] * 2),
        (["Image_01L", "Image_01R", "Image_02L"], ["Image_01"] * 2),
        (["liver_1", "liver_2", "liver_3"], ["liver_1", "liver_2"]),
        (["train_1", "train_2", "test_1"], ["train_1", "train_2"]),
        (["anna", "ben", "carl"], ["anna", "ben"]),
    ],
)
def test_scans_of_one_patient_have_one_subject(cases, subjects):
    guessed = guess_subjects(cases, [""] * len(cases))
    assert guessed[:2] == subjects
    assert guessed[2] not in guessed[:2]


def test_a_patient_in_training_and_test_is_refused(tmp_path, monkeypatch, capsys):
    write_all(tmp_path, "images/p01_scan1.nii.gz", "labels/p01_scan1.nii.gz")
    write_all(tmp_path, "test/images/p01_scan2.nii.gz", "test/labels/p01_scan2.nii.gz")
    assert exit_code(monkeypatch, f"doctor {tmp_path}") == 2
    assert "has subject p01 in training and in test" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "subjects"),
    [
        ("subjects: file", ["p01_scan1", "p01_scan2", "q_7"]),
        ("subjects: '([a-z]).*'", ["p", "p", "q"]),
        ("subjects: {p01_scan1: x, p01_scan2: y, q_7: y}", ["x", "y", "y"]),
    ],
)
def test_segpl_yaml_says_who_the_subjects_are(text, subjects, tmp_path):
    for case in ("p01_scan1", "p01_scan2", "q_7"):
        write_all(tmp_path, f"images/{case}.nii.gz", f"labels/{case}.nii.gz")
    describe(tmp_path, text)
    assert [case.subject for case in read_dataset(tmp_path).training] == subjects


def test_segpl_yaml_names_regions_and_channels(tmp_path):
    write_all(tmp_path, "images/a_0000.nii.gz", "images/a_0001.nii.gz")
    write_all(tmp_path, "labels/a.nii.gz", values=(0, 1, 2))
    describe(tmp_path, "regions: {core: 2, tumour: [1, 2]}\nchannels: {PET: '0001', CT: 0000}\n")
    task = read_dataset(tmp_path).task
    assert task.channels == ("PET", "CT")
    assert task.regions == (Region("tumour", (1, 2), 1), Region("core", (2,), 2))
    images = read_dataset(tmp_path).training[0].images
    assert [file.name for file in images] == ["a_0001.nii.gz", "a_0000.nii.gz"]


def test_a_single_channel_can_be_named_ct(tmp_path):
    write_all(tmp_path, "images/a.nii.gz", "labels/a.nii.gz")
    describe(tmp_path, "channels: {CT: ''}")
    assert read_dataset(tmp_path).task.channels == ("CT",)


def two_labels(folder):
    write_all(folder, "anna/scan.nii.gz", "anna/first_seg.nii.gz", "anna/second_seg.nii.gz")


def two_suffixes(folder):
    write_all(folder, "images/a.nii.gz", "labels/a_seg.nii.gz", "labels/a_mask.nii.gz")


def two_formats(folder):
    write_all(folder, "images/a.npy", "labels/a.nii.gz", "labels/a.npy")


def two_label_folders(folder):
    write_all(folder, "images/a.nii.gz", "labels/a.nii.gz", "masks/a.nii.gz")


def two_image_folders(folder):
    write_all(folder, "images/a.nii.gz", "scans/a.nii.gz", "labels/a.nii.gz")


def channel_of_some(folder):
    write_all(folder, "images/a_t1.nii.gz", "images/a_t2.nii.gz", "images/b_t1.nii.gz")
    write_all(folder, "labels/a.nii.gz")


def other_channel_of_some(folder):
    write_all(folder, "images/a_t1.nii.gz", "images/b_t2.nii.gz", "labels/a.nii.gz")


def a_label_per_channel(folder):
    write_all(folder, "images/a_ct.nii.gz", "images/a_mr.nii.gz")
    write_all(folder, "labels/a_ct.nii.gz", "labels/a_mr.nii.gz")


def two_unknown_channels(folder):
    write_all(folder, "anna/first.nii.gz", "anna/second.nii.gz", "anna/seg.nii.gz")


def two_scans_or_channels(folder):
    write_all(folder, "anna/anna.nii.gz", "anna/anna_wash.nii.gz", "anna/anna_seg.nii.gz")


@pytest.mark.parametrize(
    ("write_ambiguous", "line"),
    [
        (two_labels, 'label_suffix: "first_seg"'),
        (two_suffixes, 'label_suffix: "_mask"'),
        (two_formats, 'skip: ["labels/a.npy"]'),
        (two_label_folders, "label_folder: labels"),
        (two_image_folders, "image_folder: images"),
        (channel_of_some, "channels: [t1]"),
        (other_channel_of_some, "channels: []"),
        (a_label_per_channel, "channels: []"),
        (two_unknown_channels, "channels: [first, second]"),
        (two_scans_or_channels, 'skip: ["anna/anna_wash.nii.gz"]'),
    ],
)
def test_an_ambiguous_folder_is_refused_until_a_line_settles_it(
    write_ambiguous, line, tmp_path, monkeypatch, capsys
):
    write_ambiguous(tmp_path)
    with pytest.raises(AmbiguousFolderError) as error:
        read_dataset(tmp_path)
    assert f"`{line}`" in str(error.value)
    assert exit_code(monkeypatch, f"doctor {tmp_path}") == 2
    output = capsys.readouterr().out
    assert all(column in output for column in ("case", "subject", "images", "label"))
    assert line in output
    assert exit_code(monkeypatch, f"train {tmp_path} --out {tmp_path / 'run'}") == 2
    assert line in capsys.readouterr().err
    describe(tmp_path, line)
    assert read_dataset(tmp_path).training[0].label is not None


def test_an_unlabelled_follow_up_scan_beside_a_labelled_one_is_clear(tmp_path):
    write_all(tmp_path, "anna/v1.nii.gz", "anna/v1_seg.nii.gz", "anna/v2.nii.gz")
    assert files_by_case(read_dataset(tmp_path).training) == {
        "anna_v1": (["v1.nii.gz"], "v1_seg.nii.gz"),
        "anna_v2": (["v2.nii.gz"], None),
    }


MISTAKES = [
    ("label_folder: nowhere", "label_folder is nowhere, but"),
    ("labels: masks", "segpl.yaml: unknown setting 'labels'"),
    ("regions: {tumour: 0}", "region tumour has no value, or the value 0"),
    ("regions: [", "segpl.yaml is not valid YAML"),
    ("- 1", "segpl.yaml must hold entries"),
    ("subjects: '(.'", "which is no regular expression"),
    ("subjects: '.*'", "which has 0 groups"),
    ("subjects: '(b)'", "subjects gives no subject for case a"),
    ("channels: [t1]", "a.nii.gz ends with none of the channels that segpl.yaml names (t1)"),
    ("skip: ['images/*']", "holds no image"),
]


@pytest.mark.parametrize(("text", "sentence"), MISTAKES)
def test_a_mistake_in_segpl_yaml_gets_one_sentence(text, sentence, tmp_path):
    write_all(tmp_path, "images/a.nii.gz", "labels/a.nii.gz")
    describe(tmp_path, text)
    with pytest.raises(UserError) as error:
        read_dataset(tmp_path)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_a_label_without_an_image_is_refused(tmp_path):
    write_all(tmp_path, "images/a.nii.gz", "labels/a.nii.gz", "labels/b.nii.gz")
    with pytest.raises(UserError, match=r"labels/b.nii.gz has no image that belongs to it"):
        read_dataset(tmp_path)


def test_doctor_shows_the_layouts_when_none_fits(tmp_path, monkeypatch, capsys):
    (tmp_path / "notes.txt").write_text("nothing to see")
    assert exit_code(monkeypatch, f"doctor {tmp_path}") == 2
    output = capsys.readouterr().out
    assert "imagesTr/   anna_0000.nii.gz" in output
    assert "labels/   anna.nii.gz" in output
    assert "list.csv" in output


def exit_code(monkeypatch, command):
    """Run `segpl` with the arguments of `command` and return its exit code."""
    monkeypatch.setattr(sys, "argv", ["segpl", *command.split()])
    try:
        main()
    except SystemExit as stop:
        return stop.code
    return 0


def volume_and_label(seed):
    random = np.random.default_rng(seed)
    label = np.zeros((32, 32, 8), np.uint8)
    label[8:20, 10:22, 1:7] = 1
    label[12:16, 13:18, 2:6] = 2
    image = 100 * label + random.normal(300, 20, label.shape)
    return image.astype(np.int16), label


def write_two_folders(folder):
    """Volumes of 5 patients, the first with two scans; the last is unlabelled."""
    for number, name in enumerate(["p1_scan1", "p1_scan2", "p2", "p3", "p4", "p5"]):
        image, label = volume_and_label(number)
        write_nifti(folder / "images" / f"{name}.nii.gz", image, AFFINE)
        if name != "p5":
            write_nifti(folder / "masks" / f"{name}_mask.nii.gz", label, AFFINE)
    return folder


def write_patient_folders(folder):
    """A folder per patient with two channels; the last is unlabelled."""
    for number in range(5):
        image, label = volume_and_label(number)
        patient = folder / f"patient{number}"
        write_nifti(patient / "t1.nii.gz", image, AFFINE)
        write_nifti(patient / "flair.nii.gz", 500 - image, AFFINE)
        if number != 4:
            write_nifti(patient / "seg.nii.gz", label, AFFINE)
    return folder


def write_pictures(folder):
    """PNG images with a test part; the labels have the values 0 and 255."""
    for part, numbers in (("", range(3)), ("test", range(3, 5))):
        for number in numbers:
            image, label = volume_and_label(number)
            for kind, values in (("images", image // 4), ("labels", 255 * (label > 0))):
                file = folder / part / kind / f"photo_{number}.png"
                file.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(values[..., 3].astype(np.uint8)).save(file)
    image, _ = volume_and_label(9)
    Image.fromarray((image[..., 3] // 4).astype(np.uint8)).save(folder / "images" / "photo_9.png")
    return folder


@pytest.mark.parametrize(
    ("write_data", "found", "regions"),
    [
        (write_two_folders, "5 (guessed from file names", ["label 1", "label 2"]),
        (write_patient_folders, "5 (each folder is a patient)", ["label 1", "label 2"]),
        (write_pictures, "unknown: the images do not store it", ["foreground"]),
    ],
)
def test_doctor_train_and_evaluate(write_data, found, regions, tmp_path, monkeypatch, capsys):
    data = write_data(tmp_path / "data")
    run = tmp_path / "run"
    assert exit_code(monkeypatch, f"doctor {data}") == 0
    output = " ".join(capsys.readouterr().out.split())
    assert "plain folders" in output
    assert "1 unlabelled" in output
    assert found in output
    train = f"train {data} --method segpl --out {run} --steps 10 --set channels=4"
    assert exit_code(monkeypatch, train) == 0
    assert exit_code(monkeypatch, f"evaluate {run}") == 0
    is_picture = regions == ["foreground"]
    assert ("do not store their spacing" in capsys.readouterr().err) == is_picture
    task = yaml.safe_load((run / "task.yaml").read_text())
    assert [region["name"] for region in task["regions"]] == regions
    scores = (run / "scores.csv").read_text()
    assert all(region in scores for region in regions)
