"""`segpl rank` as a whole: what comes first, what is written, and what goes wrong."""

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


def rows(file):
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def channels(folder, name):
    return sorted(folder.glob(f"*/{name}_*.nii.gz"))


def copied(files, folder, name):
    folder.mkdir(exist_ok=True)
    for number, file in enumerate(files):
        shutil.copy(file, folder / f"{name}_{number:04}.nii.gz")


@pytest.fixture(scope="module")
def order(run_directory, tumours, tmp_path_factory):
    """Ten copies of one scan, two others, and the labelled scan itself."""
    labelled = ranking.labelled_cases(run_directory, ranking.load(run_directory))
    folder = tmp_path_factory.mktemp("many")
    for copy in range(10):
        copied(channels(tumours, "tumour_002"), folder, f"copy{copy}")
    for name in ("tumour_003", "tumour_004"):
        copied(channels(tumours, name), folder, name)
    copied(labelled[0].images, folder, "known")
    return rank(run_directory, [folder], folder / "order/rank.csv")


def test_ten_copies_of_one_scan_are_asked_for_once(order):
    names = [row["case"] for row in rows(order)]
    assert {"tumour_003", "tumour_004", "copy0"} == set(names[:3])
    assert all(
        "like copy0" in row["reason"]
        for row in rows(order)
        if row["case"].startswith("copy") and row["rank"] > "3"
    )


def test_a_labelled_scan_is_nothing_new_and_comes_last(order):
    known = next(row for row in rows(order) if row["case"] == "known")
    assert float(known["novelty"]) == float(known["score"]) == 0
    assert "like a labelled scan" in known["reason"]
    assert all(
        float(row["novelty"]) > 0
        for row in rows(order)
        if row is not known and row["case"] != "known"
    )
    assert int(known["rank"]) > 3


def test_the_table_says_what_and_why(order):
    found = rows(order)
    assert list(found[0]) == COLUMNS
    assert [row["rank"] for row in found] == [str(place) for place in range(1, 14)]
    assert all(
        row["file"].endswith(f"{row['case']}_0000.nii.gz") and row["reason"] for row in found
    )
    assert all(
        0 <= int(row["slice"]) < 12 and 0 <= float(row["disagreement"]) <= 1 for row in found
    )
    assert matplotlib.image.imread(order.with_suffix(".png")).shape[0] > 1000, "ten rows"
    assert sorted(file.name for file in order.parent.iterdir()) == ["rank.csv", "rank.png"]


def test_the_runs_own_unlabelled_scans_are_ranked_the_same_each_time(
    run_directory, tmp_path, capsys
):
    first, second = rank(run_directory, []), rank(run_directory, [], tmp_path / "again.csv")
    assert first == run_directory / "rank.csv"
    assert first.read_bytes() == second.read_bytes()
    assert first.with_suffix(".png").read_bytes() == second.with_suffix(".png").read_bytes()
    assert {"tumour_002", "tumour_003"} <= {row["case"] for row in rows(first)}
    assert "tumour_002" in capsys.readouterr().out


def test_a_scan_that_cannot_be_read_keeps_no_other_from_its_place(run_directory, tumours, tmp_path):
    folder, out = tmp_path / "scans", tmp_path / "rank.csv"
    for name in ("tumour_003", "tumour_004"):
        copied(channels(tumours, name), folder, name)
    copied(channels(tumours, "tumour_003")[:3], folder, "a_broken")
    with pytest.raises(
        UserError, match=r"1 of 3 scans cannot be ranked, .*\n.*a_broken_0000.* has 3 "
    ):
        rank(run_directory, [folder], out, count=1)
    first, last = rows(out)
    assert (first["rank"], last["rank"], last["case"], last["score"]) == ("1", "", "a_broken", "")
    assert "has 3 channels" in last["reason"]


def test_what_cannot_be_done_is_said_at_once(run_directory, tumours, tmp_path, monkeypatch):
    monkeypatch.setattr(ranking, "look", lambda *_: pytest.fail("the scans were looked at"))
    (tmp_path / "empty").mkdir()
    scans = channels(tumours, "tumour_003")
    with pytest.raises(UserError, match="holds no image"):
        rank(run_directory, [tmp_path / "empty"])
    with pytest.raises(UserError, match="must be the name of a CSV file"):
        rank(run_directory, scans, tmp_path)
    with pytest.raises(UserError, match="must be the name of a CSV file"):
        rank(run_directory, scans, tmp_path / "rank.png")
    with pytest.raises(UserError, match="is a scan and would be written over"):
        rank(run_directory, scans, scans[0])
    bare = shutil.copytree(
        run_directory, tmp_path / "bare", ignore=shutil.ignore_patterns("split.json")
    )
    with pytest.raises(UserError, match="knows of no unlabelled scan"):
        rank(bare, [])


class Bright(UNet):
    """Finds what is bright, but does what a U-Net does."""

    def forward(self, x):
        return 8 * (x[:, :1] - 1) + 0 * super().forward(x)


@pytest.fixture
def bright(monkeypatch):
    """A run that is nowhere, whose network finds what is bright."""
    run = untrained(orientation="RAS")
    task = Task(("MR",), (Region("lesion", (1,), 1),))
    predictor = Predictor(run, task, Bright(1, 1, 4, (32, 32)).eval(), torch.device("cpu"))
    monkeypatch.setattr(ranking, "load", lambda _: predictor)


def ball(sharpness, middle):
    """A bright ball with a sharp or a blurred border, in noise."""
    x, y, z = np.meshgrid(*map(np.arange, (32, 32, 8)), indexing="ij")
    radius = np.sqrt((x - middle) ** 2 + (y - 14) ** 2 + (2 * (z - 5)) ** 2)
    noise = np.random.default_rng(0).normal(0, 1, x.shape)
    return 100 / (1 + np.exp(sharpness * (radius - 7))) + noise


def test_the_uncertain_scan_comes_first_by_uncertainty_and_its_worst_slice_is_shown(
    bright, tmp_path
):
    scans = {"a_sharp": ball(9, 14), "b_blurred": ball(0.3, 16), "c_sharp": ball(9, 18)}
    for name, voxels in scans.items():
        nibabel.save(
            nibabel.Nifti1Image(voxels, np.diag([1.0, 1.0, 2.0, 1.0])), tmp_path / f"{name}.nii.gz"
        )
    found = rows(rank(tmp_path / "run", [tmp_path], tmp_path / "rank.csv", order="uncertain"))
    assert found[0]["case"] == "b_blurred"
    assert (
        float(found[0]["score"])
        == float(found[0]["uncertainty"])
        > 2 * float(found[1]["uncertainty"])
    )
    assert "uncertain" in found[0]["reason"]
    assert {row["novelty"] for row in found} == {""}, (
        "where no labelled scan is known, nothing is known to be new"
    )
    assert abs(int(found[0]["slice"]) - 5) <= 2
