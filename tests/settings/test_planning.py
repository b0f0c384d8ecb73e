"""Runs that are planned from a folder and from the user's settings."""

from dataclasses import dataclass

import nibabel
import numpy as np
import pytest
from synthetic_folders import write_balls, write_noise

from segpl.data.layouts import read_dataset
from segpl.data.splits import training_cases
from segpl.evaluation import evaluate
from segpl.foundation.errors import UserError
from segpl.methods.supervised import Supervised
from segpl.settings.planning import plan_run
from segpl.training.loop import train


def plan_supervised(folder, **settings):
    return plan_run(folder, {"method": "supervised", **settings})


def test_labels_of_unlabelled_and_test_cases_are_never_read(tmp_path):
    dataset = write_balls(tmp_path, (40, 40, 20), (1, 1, 1), diameter=12, count=9)
    before = plan_supervised(tmp_path, labelled=2, seed=1)
    cases = training_cases(dataset, labelled=2, seed=1)
    visible_names = {case.name for case in cases.labelled + cases.validation}
    hidden = [case.label for case in dataset.training if case.name not in visible_names]
    assert len(hidden) >= 4
    for label in hidden:
        label.write_bytes(b"no image")
    assert plan_supervised(tmp_path, labelled=2, seed=1) == before


def test_with_labelled_crops_the_plan_reads_no_label_that_is_learnt_from(tmp_path):
    dataset = write_balls(tmp_path, (40, 40, 20), (1, 1, 1), diameter=12, count=9)
    settings = {"labelled": 2, "validation": 1, "crops": 3, "patch": [16, 16, 8]}
    before = plan_supervised(tmp_path, **settings)
    for case in training_cases(dataset, labelled=2, seed=0, validation=1).labelled:
        case.label.write_bytes(b"no image")
    assert plan_supervised(tmp_path, **settings) == before


def planned_among_patch_and_spacing(run):
    """Which of the two have a planned value, and so a reason."""
    return {"patch", "spacing"} & run.why.keys()


def test_a_spacing_is_planned_to_fit_a_given_patch(tmp_path):
    write_balls(tmp_path, (200, 160, 90), (1, 1, 1), diameter=80)
    run = plan_supervised(tmp_path, patch=[48, 40, 16])
    assert run.patch == (48, 40, 16)
    an_eighth_of_the_voxels_needs_twice_the_step = 3.63
    assert run.spacing == pytest.approx(
        [an_eighth_of_the_voxels_needs_twice_the_step] * 3, abs=0.01
    )
    assert run.strides is not None
    assert planned_among_patch_and_spacing(run) == {"spacing"}


def test_a_patch_is_planned_to_fit_a_given_spacing(tmp_path):
    write_balls(tmp_path, (200, 160, 90), (1, 1, 1), diameter=80)
    run = plan_supervised(tmp_path, spacing=[4, 4, 4])
    assert run.spacing == (4, 4, 4)
    assert run.patch == (48, 40, 24), "the whole of 50 x 40 x 22 voxels, in steps of 8"
    assert planned_among_patch_and_spacing(run) == {"patch"}


@pytest.mark.parametrize(("method", "batch"), [("supervised", 4), ("deep-ensemble", 2)])
def test_a_method_with_several_batches_per_step_gets_smaller_ones(
    tmp_path, monkeypatch, method, batch
):
    """Five members need five times the memory."""
    write_noise(tmp_path, [(64, 64, 24)] * 4, [(1, 1, 1)] * 4)
    monkeypatch.setattr("segpl.settings.schedule.free_memory", lambda: 4 * 10**9)
    run = plan_run(tmp_path, {"method": method})
    assert run.batch == batch
    assert ("memory is scarce" in run.why["batch"]) == (batch < 4)


def test_a_spacing_of_none_keeps_the_images_grid(tmp_path):
    write_balls(tmp_path, (200, 160, 90), (1, 1, 1), diameter=80)
    run = plan_supervised(tmp_path, spacing=None)
    assert run.spacing is None
    assert run.patch == (64, 64, 64)


def test_a_run_that_is_planned_again_from_its_own_file_keeps_its_reasons(tmp_path):
    write_balls(tmp_path, (64, 64, 40), (1, 1, 1), diameter=30)
    run = plan_supervised(tmp_path)
    assert plan_run(tmp_path, run.mapping()) == run


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"labelled": "few"}, "labelled is 'few'"),
        ({"patch": [40]}, "patch is .40., but it takes 2 or 3"),
        ({"mirror": [3]}, "mirror is .3., but the axes"),
        ({"strides": [[1, 1, 1], [3, 3, 3], [7, 7, 7]]}, "strides must"),
    ],
)
def test_wrong_settings_are_refused(tmp_path, settings, message):
    write_balls(tmp_path, (40, 40, 20), (1, 1, 1), diameter=12)
    with pytest.raises(UserError, match=message):
        plan_supervised(tmp_path, **settings)


def test_strides_follow_from_the_planned_patch(tmp_path):
    write_noise(tmp_path, [(64, 64, 32)] * 2, [(1, 1, 1)] * 2)
    run = plan_supervised(tmp_path)
    assert run.patch == (64, 64, 32)
    assert run.strides == ((1, 1, 1), (2, 2, 2), (2, 2, 2), (2, 2, 2), (2, 2, 1))
    network = run.build(read_dataset(tmp_path).task)
    assert len(network.widths) == len(run.strides)


def test_strides_follow_from_a_given_patch(tmp_path):
    write_noise(tmp_path, [(64, 64, 32)] * 2, [(1, 1, 1)] * 2)
    run = plan_supervised(tmp_path, patch=[16, 16, 8])
    assert run.strides == ((1, 1, 1), (2, 2, 2), (2, 2, 1))


def test_given_strides_determine_the_depth_of_the_network(tmp_path):
    write_noise(tmp_path, [(64, 64, 32)] * 2, [(1, 1, 1)] * 2)
    run = plan_supervised(tmp_path, strides=[[1, 1, 1], [2, 2, 1], [2, 2, 1]])
    network = run.build(read_dataset(tmp_path).task)
    assert len(network.widths) == 3


@pytest.mark.parametrize(("step", "rate"), [(1, 0.005), (5, 0.003)], ids=["volumes", "slices"])
def test_slices_are_trained_at_a_lower_learning_rate_than_volumes(tmp_path, step, rate):
    write_noise(tmp_path, [(40, 40, 20)] * 3, [(1, 1, step)] * 3)
    run = plan_supervised(tmp_path)
    assert run.learning_rate == rate
    assert run.ratio == 1


def test_a_given_learning_rate_is_kept(tmp_path):
    write_noise(tmp_path, [(40, 40, 20)] * 3, [(1, 1, 1)] * 3)
    assert plan_supervised(tmp_path, learning_rate=0.1).learning_rate == 0.1


def test_a_run_has_reasons_for_what_was_planned(tmp_path):
    write_noise(tmp_path, [(40, 40, 20)] * 3, [(1, 1, 1)] * 3)
    reasons = plan_supervised(tmp_path).why
    assert reasons.keys() >= {"patch", "channels", "spacing", "window", "ratio", "learning_rate"}


def test_a_run_has_no_reason_for_what_the_user_chose(tmp_path):
    write_noise(tmp_path, [(40, 40, 20)] * 3, [(1, 1, 1)] * 3)
    assert "patch" not in plan_supervised(tmp_path, patch=[16, 16, 16]).why


@dataclass(frozen=True)
class Knowing(Supervised):
    """A method with settings for components and nesting."""

    single_component: tuple[int, ...] = ()
    nested: tuple[tuple[int, int], ...] = ()

    @classmethod
    def name(cls):
        return "knowing"


@pytest.fixture
def balls(tmp_path):
    """A folder whose only region is one component in all cases."""
    write_balls(tmp_path, (40, 40, 20), (1, 1, 1), diameter=12, count=6)
    return tmp_path


@pytest.mark.parametrize("method", ["knowing", {"name": "knowing", "objective": "dice"}])
def test_the_plan_sets_components_and_nesting_of_methods_that_have_them(balls, method):
    run = plan_run(balls, {"method": method})
    assert run.method.single_component == (0,)
    assert "thing in" in run.why["method.single_component"]
    assert run.why["method.nested"] == "no region is part of another"
    assert plan_run(balls, run.mapping()) == run


def test_a_given_setting_of_a_method_is_kept(balls):
    run = plan_run(balls, {"method": {"name": "knowing", "single_component": []}})
    assert run.method.single_component == ()
    assert "method.single_component" not in run.why


def test_methods_without_these_settings_have_no_reasons_for_them(balls):
    reasons = plan_supervised(balls).why
    assert not [key for key in reasons if key.startswith("method.")]


def test_a_resampled_run_scores_on_the_images_own_grid(tmp_path):
    shapes = [(40, 40, 20), (40, 40, 10), (40, 40, 10), (40, 40, 20)]
    write_noise(tmp_path / "data", shapes, [(1, 1, 1), (1, 1, 2), (1, 1, 2), (1, 1, 1)])
    run = plan_supervised(tmp_path / "data", steps=2, channels=4, patch=[16, 16, 8])
    assert run.spacing is not None
    evaluate(train(run, tmp_path / "run"))
    for file in (tmp_path / "run/masks").glob("*.nii.gz"):
        mask = nibabel.load(file)
        label = nibabel.load(tmp_path / "data/labelsTr" / file.name)
        assert mask.shape == label.shape
        assert np.allclose(mask.affine, label.affine)
