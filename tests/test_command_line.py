"""The command line as a user meets it: quick help, one sentence for every mistake, scores on disk."""

import gzip
import json
import shutil
import time

import nibabel
import numpy as np
import pandas as pd
import pytest

QUICK = ("--labelled", 1, "--steps", 2, "--set", "channels=4", "--set", "patch=[32, 32]", "--set", "validate_every=2")


@pytest.mark.parametrize(("words", "seconds"), [(["--help"], 0.5), (["train", "--help"], 1.0)])
def test_help_is_quick(segpl, words, seconds):
    times = []
    for _ in range(3):  # the best of three: another process may hold the machine
        started = time.monotonic()
        result = segpl(*words)
        times.append(time.monotonic() - started)
        assert result.returncode == 0
    assert min(times) < seconds


def test_help_imports_nothing_heavy(segpl):
    code = "import sys; sys.argv = ['segpl', 'train', '--help']\nfrom segpl.__main__ import main\ntry: main()\n"
    code += "except SystemExit: print(sorted({'torch', 'monai', 'lightning', 'pandas', 'numpy'} & set(sys.modules)))"
    import subprocess
    import sys

    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]"


def test_torchvision_is_absent():
    """Beside this torch it breaks torchmetrics, and so Lightning."""
    from importlib.util import find_spec

    assert find_spec("torchvision") is None


def test_train_and_evaluate(segpl, tumours, tmp_path):
    run = tmp_path / "run"
    trained = segpl("train", tumours, "--method", "segpl-vi", "--out", run, *QUICK, "--set", "method.alpha=0.3")
    assert trained.returncode == 0, trained.stderr
    assert "alpha: 0.3" in (run / "run.yaml").read_text()
    scored = segpl("evaluate", run, "--shift", "ood=0.5", "--shift", "fgsm=0.1")
    assert scored.returncode == 0, scored.stderr
    assert "Foreground IoU" in scored.stdout
    scores = pd.read_csv(run / "scores.csv")
    columns = "run method seed labelled subject case region shift level metric value"
    assert list(scores.columns) == columns.split()
    assert len(scores) == 2 * 3 * 3 * 2  # cases, regions, shifts, metrics
    mask, image = (nibabel.load(f) for f in (run / "masks/tumour_004.nii.gz", tumours / "labelsTs/tumour_004.nii.gz"))
    assert mask.shape == image.shape
    assert np.allclose(mask.affine, image.affine)
    assert set(np.unique(mask.dataobj)) <= {0, 1, 2, 3}


@pytest.fixture
def folder(tumours, tmp_path):
    return shutil.copytree(tumours, tmp_path / "data")


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
    description = json.loads((folder / "dataset.json").read_text())
    description["labels"] = {"background": 0, "whole tumour": [1, 2]}
    description.pop("regions_class_order")
    (folder / "dataset.json").write_text(json.dumps(description))


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
    file.write_bytes(gzip.compress(gzip.decompress(file.read_bytes())[:5000]))


def poison_an_image(folder):
    file = folder / "imagesTr/tumour_000_0000.nii.gz"
    image = nibabel.load(file)
    values = np.asarray(image.dataobj).astype(np.float32)
    values[0, 0, 0] = np.nan
    nibabel.save(nibabel.Nifti1Image(values, image.affine), file)


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
    nibabel.save(nibabel.Nifti1Image(np.asarray(image.dataobj), np.diag([-3, 2, 1, 1])), file)


def stack_an_image(folder):
    file = folder / "imagesUn/tumour_002_0000.nii.gz"
    image = nibabel.load(file)
    values = np.asarray(image.dataobj)
    nibabel.save(nibabel.Nifti1Image(np.stack([values, values], -1), image.affine), file)


def add_a_channel(folder):
    shutil.copy(folder / "imagesTr/tumour_000_0003.nii.gz", folder / "imagesTr/tumour_000_0004.nii.gz")


def forget_a_number(folder):
    shutil.copy(folder / "imagesTr/tumour_000_0003.nii.gz", folder / "imagesTr/case.nii.gz")


def list_the_labels(folder):
    description = json.loads((folder / "dataset.json").read_text())
    (folder / "dataset.json").write_text(json.dumps(description | {"labels": ["tumour"]}))


def no_unlabelled_images(folder):
    shutil.rmtree(folder / "imagesUn")


MISTAKES = [
    (remove_folder, [], "data is not a folder"),
    (remove_description, [], "data has no dataset.json"),
    (break_description, [], "dataset.json is not valid JSON"),
    (incomplete_description, [], "dataset.json: channel_names is missing"),
    (forget_a_label, [], "label values 3 that dataset.json does not name"),
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
    (break_nothing, ["--method", "magic"], "no method 'magic': choose one of cct, cps"),
    (break_nothing, ["--labelled", 9], "--labelled 9 cannot be had"),
    (break_nothing, ["--set", "stpes=3"], "unknown setting 'stpes'"),
    (break_nothing, ["--set", "method.alhpa=3"], "segpl: unknown setting 'alhpa'"),
    (break_nothing, ["--set", "method.alpha=-1"], "segpl: alpha is -1"),
    (break_nothing, ["--set", "method.threshold=1.5"], "segpl: threshold is 1.5"),
    (break_nothing, ["--steps", 0], "steps is 0"),
    (break_nothing, ["--steps", "many"], "invalid int value"),
    (break_nothing, ["--set", "patch"], "not of the form key=value"),
    (break_nothing, ["--set", "patch=[32, 32"], "is not valid YAML"),
    (break_nothing, ["--set", "patch=[32]"], "patch is [32], but it takes 2 or 3 numbers"),
    (break_nothing, ["--set", "patch=[4, 4]"], "patch is [4, 4]"),
    (break_nothing, ["--set", "steps.x=1"], "steps is {'x': 1}"),
    (break_nothing, ["--set", "method=3"], "there is no method 3"),
    (break_nothing, ["--set", "learning_rate=.inf"], "learning_rate is inf"),
    (break_nothing, ["--set", "method.prior=normal"], "unknown setting 'prior'"),
    (break_nothing, ["--method", "segpl-vi", "--set", "method.prior.mean=0.4"], "a prior needs a name"),
    (break_nothing, ["--method", "segpl-vi", "--set", "method.prior={name: normal, mean: 2}"], "mean is 2"),
    (break_nothing, ["--set", "steps=7", "--set", "steps.x=1"], "steps has no settings of its own"),
    (break_nothing, ["--config", "nowhere.yaml"], "nowhere.yaml is not a file"),
    (move_a_label, [], "labelsTr/tumour_000.nii.gz lies elsewhere than"),
    (stack_an_image, [], "imagesUn/tumour_002_0000.nii.gz has 4 dimensions"),
    (add_a_channel, [], "tumour_000_0004.nii.gz is one channel too many"),
    (forget_a_number, [], "case.nii.gz has no channel number: name it case_0000.nii.gz"),
    (list_the_labels, [], "dataset.json: labels is"),
    (no_unlabelled_images, ["--labelled", 1], "leaves no unlabelled scan for segpl"),
]


@pytest.mark.parametrize(("mistake", "words", "sentence"), MISTAKES, ids=lambda value: getattr(value, "__name__", None))
def test_a_mistake_gets_one_sentence(mistake, words, sentence, folder, tmp_path, monkeypatch, capsys):
    mistake(folder)
    before = {file: file.stat().st_mtime_ns for file in folder.rglob("*")}
    monkeypatch.setattr("sys.argv", ["segpl", "train", str(folder), "--out", str(tmp_path / "run"), *map(str, words)])
    from segpl.__main__ import main

    with pytest.raises(SystemExit) as exit_:
        main()
    assert exit_.value.code == 2
    message = capsys.readouterr().err
    assert sentence in message
    assert "Traceback" not in message
    assert {file: file.stat().st_mtime_ns for file in folder.rglob("*")} == before
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["evaluate", "nowhere"], "nowhere is not a run directory"),
        (["phantom", "tumour", "--out", "full"], "full is not empty"),
        (["phantom", "tumour", "--out", "new", "--subjects", "2"], "at least 3 subjects"),
        (["phantom", "liver", "--out", "new"], "invalid choice: 'liver'"),
        ([], "COMMAND"),
    ],
)
def test_other_commands_too(words, sentence, tmp_path, monkeypatch, capsys):
    from segpl.__main__ import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    monkeypatch.setattr("sys.argv", ["segpl", *words])
    with pytest.raises(SystemExit) as exit_:
        main()
    assert exit_.value.code == 2
    assert sentence in capsys.readouterr().err


def test_what_should_not_happen_leaves_a_log_and_no_traceback(monkeypatch, capsys, tumours, tmp_path):
    import segpl.training
    from segpl.__main__ import main

    monkeypatch.setattr(segpl.training, "train", lambda *_, **__: 1 / 0)
    monkeypatch.setattr("sys.argv", ["segpl", "train", str(tumours), "--out", str(tmp_path / "run")])
    with pytest.raises(SystemExit) as exit_:
        main()
    assert exit_.value.code == 1
    message = capsys.readouterr().err
    assert "this should not have happened" in message
    assert "Traceback" not in message
