"""`segpl rank` as a whole: which scans come first, what is written, and what is refused."""

import csv
import shutil

import matplotlib.image
import nibabel
import numpy as np
import pytest
import torch
from untrained import untrained

from segpl import ranking
from segpl.data.cases import Region, Task
from segpl.foundation.errors import UserError
from segpl.inference.predictor import Predictor
from segpl.networks.unet import UNet
from segpl.ranking import rank

COLUMNS = [
    "rank",
    "case",
    "score",
    "uncertainty",
    "novelty",
    "disagreement",
    "slice",
    "reason",
    "file",
]


def read_rows(file):
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def channel_files(folder, name):
    return sorted(folder.glob(f"*/{name}_*.nii.gz"))


def copy_scan(files, folder, name):
    folder.mkdir(exist_ok=True)
    for channel, file in enumerate(files):
        shutil.copy(file, folder / f"{name}_{channel:04}.nii.gz")


@pytest.fixture(scope="module")
def rank_file(run_directory, tumours, tmp_path_factory):
    """The ranking of ten copies of one scan, two others, and the labelled scan itself."""
    labelled = ranking.labelled_cases(run_directory, ranking.load(run_directory))
    folder = tmp_path_factory.mktemp("scans")
    for copy in range(10):
        copy_scan(channel_files(tumours, "tumour_002"), folder, f"copy{copy}")
    for name in ("tumour_003", "tumour_004"):
        copy_scan(channel_files(tumours, name), folder, name)
    copy_scan(labelled[0].images, folder, "known")
    return rank(run_directory, [folder], folder / "order/rank.csv")


def test_of_ten_copies_one_comes_first(rank_file):
    rows = read_rows(rank_file)
    assert {row["case"] for row in rows[:3]} == {"tumour_003", "tumour_004", "copy0"}
    for row in rows[3:]:
        if row["case"].startswith("copy"):
            assert "similar to copy0" in row["reason"]


def test_a_labelled_scan_is_not_novel_and_comes_late(rank_file):
    rows = {row["case"]: row for row in read_rows(rank_file)}
    known = rows.pop("known")
    assert float(known["novelty"]) == 0
    assert float(known["score"]) == 0
    assert "similar to a labelled scan" in known["reason"]
    assert int(known["rank"]) > 3
    for row in rows.values():
        assert float(row["novelty"]) > 0


def test_the_table_has_a_row_with_a_reason_for_every_scan(rank_file):
    rows = read_rows(rank_file)
    assert list(rows[0]) == COLUMNS
    assert [int(row["rank"]) for row in rows] == list(range(1, 14))
    for row in rows:
        assert row["file"].endswith(f"{row['case']}_0000.nii.gz")
        assert row["reason"]
        assert 0 <= int(row["slice"]) < 12
        assert 0 <= float(row["disagreement"]) <= 1


def test_the_picture_beside_the_table_has_ten_rows(rank_file):
    assert sorted(file.name for file in rank_file.parent.iterdir()) == ["rank.csv", "rank.png"]
    assert matplotlib.image.imread(rank_file.with_suffix(".png")).shape[0] > 1000


def test_the_runs_own_unlabelled_scans_are_ranked_the_same_each_time(
    run_directory, tmp_path, capsys
):
    first = rank(run_directory, [])
    second = rank(run_directory, [], tmp_path / "again.csv")
    assert first == run_directory / "rank.csv"
    assert first.read_bytes() == second.read_bytes()
    assert first.with_suffix(".png").read_bytes() == second.with_suffix(".png").read_bytes()
    assert {"tumour_002", "tumour_003"} <= {row["case"] for row in read_rows(first)}
    assert "tumour_002" in capsys.readouterr().out


def test_a_scan_that_fails_does_not_stop_the_others(run_directory, tumours, tmp_path):
    folder = tmp_path / "scans"
    out = tmp_path / "rank.csv"
    for name in ("tumour_003", "tumour_004"):
        copy_scan(channel_files(tumours, name), folder, name)
    copy_scan(channel_files(tumours, "tumour_003")[:3], folder, "a_broken")
    message = r"1 of 3 scans cannot be ranked, .*\n.*a_broken_0000.* has 3 "
    with pytest.raises(UserError, match=message):
        rank(run_directory, [folder], out, count=1)
    first, last = read_rows(out)
    assert first["rank"] == "1"
    assert last["case"] == "a_broken"
    assert last["rank"] == last["score"] == ""
    assert "has 3 channels" in last["reason"]


@pytest.fixture
def no_prediction(monkeypatch):
    """The test fails if a scan is predicted."""
    monkeypatch.setattr(ranking, "assess", lambda *_: pytest.fail("a scan was predicted"))


@pytest.mark.usefixtures("no_prediction")
def test_a_folder_without_scans_is_refused(run_directory, tmp_path):
    with pytest.raises(UserError, match="holds no image"):
        rank(run_directory, [tmp_path])


@pytest.mark.usefixtures("no_prediction")
@pytest.mark.parametrize("name", ["", "rank.png"])
def test_an_output_that_is_no_csv_file_is_refused(name, run_directory, tumours, tmp_path):
    scans = channel_files(tumours, "tumour_003")
    with pytest.raises(UserError, match="must be the name of a CSV file"):
        rank(run_directory, scans, tmp_path / name)


@pytest.mark.usefixtures("no_prediction")
def test_a_scan_is_never_overwritten(run_directory, tumours):
    scans = channel_files(tumours, "tumour_003")
    with pytest.raises(UserError, match="is a scan and would be overwritten"):
        rank(run_directory, scans, scans[0])


@pytest.mark.usefixtures("no_prediction")
def test_a_run_without_its_split_has_no_scans_of_its_own(run_directory, tmp_path):
    without_split = shutil.copytree(
        run_directory, tmp_path / "bare", ignore=shutil.ignore_patterns("split.json")
    )
    with pytest.raises(UserError, match="has no unlabelled scan"):
        rank(without_split, [])


class Bright(UNet):
    """Finds what is bright, but also runs the layers of a U-Net."""

    def forward(self, x):
        return 8 * (x[:, :1] - 1) + 0 * super().forward(x)


@pytest.fixture
def bright(monkeypatch):
    """`rank` uses a network that finds what is bright, whatever the run directory."""
    run = untrained(orientation="RAS")
    task = Task(("MR",), (Region("lesion", (1,), 1),))
    predictor = Predictor(run, task, Bright(1, 1, 4, (32, 32)).eval(), torch.device("cpu"))
    monkeypatch.setattr(ranking, "load", lambda _: predictor)


def ball(sharpness, centre):
    """A bright ball with a sharp or a blurred border, in noise."""
    x, y, z = np.meshgrid(np.arange(32), np.arange(32), np.arange(8), indexing="ij")
    radius = np.sqrt((x - centre) ** 2 + (y - 14) ** 2 + (2 * (z - 5)) ** 2)
    noise = np.random.default_rng(0).normal(0, 1, x.shape)
    return 100 / (1 + np.exp(sharpness * (radius - 7))) + noise


@pytest.mark.usefixtures("bright")
def test_by_uncertainty_the_blurred_scan_comes_first_with_its_worst_slice(tmp_path):
    scans = {"a_sharp": ball(9, 14), "b_blurred": ball(0.3, 16), "c_sharp": ball(9, 18)}
    affine = np.diag([1.0, 1.0, 2.0, 1.0])
    for name, voxels in scans.items():
        nibabel.save(nibabel.Nifti1Image(voxels, affine), tmp_path / f"{name}.nii.gz")
    file = rank(tmp_path / "run", [tmp_path], tmp_path / "rank.csv", order="uncertain")
    first, second, third = read_rows(file)
    assert first["case"] == "b_blurred"
    assert first["score"] == first["uncertainty"]
    assert float(first["uncertainty"]) > 2 * float(second["uncertainty"])
    assert "uncertain" in first["reason"]
    assert abs(int(first["slice"]) - 5) <= 2
    for row in (first, second, third):
        assert row["novelty"] == "", "there is no labelled scan"
