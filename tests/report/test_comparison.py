"""Runs side by side on the terminal: the verdict, the tests, the sizes, and how sure each method is."""

import json

import numpy as np
import pandas as pd
import pytest

from segpl.errors import UserError
from segpl.report.comparison import certainty, print_comparison, scored_runs

LEVELS = {"iou": 0.5, "brier": 0.1, "ece": 0.02, "nll": 0.3, "aurc": 0.01}


def write_run(folder, method, seed, bonus, samples=1):
    """A scored run of six subjects with two slices each."""
    draw = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    origin = {"run": folder.name, "method": method, "seed": seed, "labelled": 2}
    rows, images = [], []
    for subject in range(6):
        case = origin | {"subject": f"s{subject}", "case": f"s{subject}", "region": "r", "shift": "clean", "level": 0.0}
        for metric, level in LEVELS.items():
            value = level + 0.05 * subject + (bonus + 0.002 * draw.normal() if metric == "iou" else 0)
            rows.append(case | {"metric": metric, "value": value})
        images += [
            case | {"metric": "iou", "value": 0.4 + bonus, "image": place, "foreground": share}
            for place, share in enumerate((0.0005, 0.03))
        ]
    suffix = f"-{samples}-samples" if samples > 1 else ""
    pd.DataFrame(rows).to_csv(folder / f"scores{suffix}.csv", index=False)
    pd.DataFrame(images).to_csv(folder / f"images{suffix}.csv", index=False)
    (folder / "cost.json").write_text(json.dumps({"seconds_of_training": 12.0}))
    cost = {"samples": samples, "voxels_per_second": 1e6 / samples}
    (folder / f"prediction_cost{suffix}.json").write_text(json.dumps(cost))


@pytest.fixture
def runs(tmp_path):
    for seed in (0, 1, 2):
        write_run(tmp_path / f"supervised-{seed}", "supervised", seed, 0.0)
        write_run(tmp_path / f"segpl-{seed}", "segpl", seed, 0.1)
    return tmp_path


def test_the_verdict_comes_first_and_its_grounds_follow(runs, capsys):
    print_comparison([runs], "supervised")
    printed = capsys.readouterr().out
    assert printed.startswith("The unlabelled scans help: segpl is")
    assert "6 test subjects, 3 seeds" in printed
    assert "+10.0" in printed
    assert "below 0.1" in printed
    assert "2-4" in printed
    assert "Brier" in printed


def test_runs_may_be_named_one_by_one_or_by_their_folder(runs):
    assert scored_runs([runs]) == sorted(path for path in runs.iterdir())
    one = runs / "segpl-0"
    assert scored_runs([one, runs])[0] == one
    assert len(scored_runs([one, runs])) == 6


def test_certainty_has_a_row_for_each_number_of_samples(runs):
    write_run(runs / "segpl-0", "segpl", 0, 0.1, samples=5)
    table = certainty([runs / "segpl-0"]).set_index("samples")
    assert table.loc[1, "brier"] == pytest.approx(0.1 + 0.05 * 2.5)
    assert table.loc[5, "voxels_per_second"] == pytest.approx(2e5)
    assert set(table["seconds_of_training"]) == {12.0}


def test_scores_on_other_data_are_not_mixed_in_and_a_missing_cost_stops_nothing(runs, capsys):
    (runs / "segpl-0/prediction_cost-elsewhere.json").write_text(json.dumps({"samples": 1, "voxels_per_second": 1}))
    (runs / "segpl-1/cost.json").unlink()
    for seed in (0, 1, 2):
        (runs / f"supervised-{seed}/cost.json").unlink()
    assert len(certainty([runs / "segpl-0"])) == 1
    print_comparison([runs], "supervised")
    assert "–" in capsys.readouterr().out


def test_a_folder_without_scores(tmp_path):
    with pytest.raises(UserError, match=r"holds no scores.csv: make it with segpl evaluate"):
        scored_runs([tmp_path])
