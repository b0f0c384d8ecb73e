"""What the plan derives from synthetic folders, and the reasons that it gives."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from synthetic_folders import (
    visible,
    write_balls,
    write_description,
    write_noise,
)

from segpl.data.cases import Region
from segpl.data.layouts import read_dataset
from segpl.foundation.errors import UserError
from segpl.foundation.files import write_nifti
from segpl.settings.plan import plan
from segpl.settings.schedule import free_memory


def plan_with_all_labels(dataset):
    return plan(dataset, visible(dataset.training))


@pytest.mark.parametrize(
    ("shape", "spacing", "patch"),
    [
        pytest.param((96, 90, 24), (1, 1, 6), [96, 96], id="thick slices: 2D, steps of 16"),
        pytest.param((300, 300, 5), (1, 1, 5), [128, 144], id="large slices: about 128 x 128"),
        pytest.param((35, 50, 35), (1, 1, 1), [32, 48, 32], id="3D, steps of 8"),
        pytest.param(
            (100, 100, 80), (1, 1, 1), [64, 64, 64], id="large volumes: about 96 x 80 x 32 voxels"
        ),
        pytest.param((10, 10, 8), (1, 1, 1), [16, 16, 8], id="tiny: padded"),
        pytest.param((64, 64, 1), (1, 1, 1), [64, 64], id="one slice: 2D"),
        pytest.param((128, 128, 3), (1, 1, 1), [128, 128, 3], id="thin volumes"),
    ],
)
def test_specks_stay_on_their_grid_and_patches_fit_the_budget(tmp_path, shape, spacing, patch):
    dataset = write_noise(tmp_path, [shape] * 3, [spacing] * 3)
    planned = plan_with_all_labels(dataset)
    assert planned["patch"].value == patch
    assert planned["channels"].value == (16 if len(patch) == 2 else 8)
    assert planned["spacing"].value is None


def test_a_large_object_is_planned_on_a_grid_where_the_patch_sees_most_of_the_image(tmp_path):
    dataset = write_balls(tmp_path, (200, 160, 90), (1, 1, 1), diameter=80)
    planned = plan_with_all_labels(dataset)
    voxels_in_view = 0.8**3 * 200 * 160 * 90
    step = round((voxels_in_view / (96 * 80 * 32)) ** (1 / 3), 2)
    assert planned["spacing"].value == [step] * 3
    reason = f"{step} voxels: a patch then covers 80 % of the median volume; thing keeps IoU 0.99"
    assert planned["spacing"].why.startswith(reason)
    assert planned["patch"].value == [96, 72, 40]
    assert "it covers 87 x 82 x 82 % of the median volume" in planned["patch"].why


def test_a_small_object_is_not_blurred_for_distant_surroundings(tmp_path):
    dataset = write_balls(tmp_path, (200, 160, 120), (1, 1, 1), diameter=24)
    planned = plan_with_all_labels(dataset)
    assert planned["spacing"].value == [1.15] * 3, "72 mm in 62.6 voxels"
    assert "or 3 times the object" in planned["spacing"].why
    assert planned["patch"].value == [64, 64, 64]


def test_slices_are_coarsened_in_their_plane_alone(tmp_path):
    dataset = write_balls(tmp_path, (320, 320, 6), (1, 1, 8), diameter=160)
    planned = plan_with_all_labels(dataset)
    assert planned["spacing"].value == [2, 2]
    reason = "2 mm: a patch then covers 80 % of the median slice; thing keeps IoU 1.00"
    assert planned["spacing"].why.startswith(reason)
    assert planned["patch"].value == [128, 144]


def write_stripes(folder, width):
    """Labels of oblique stripes, so that no grid suits them by chance."""
    dataset = write_noise(folder, [(640, 640, 1)] * 3, [(1, 1, 1)] * 3)
    x, y = np.meshgrid(np.arange(640), np.arange(640), indexing="ij")
    stripes = (x + 0.4 * y) % (4 * width) < width
    for case in dataset.training:
        write_nifti(case.label, stripes[..., None].astype(np.uint8), np.eye(4))
    return dataset


def test_of_the_grids_that_labels_survive_the_coarsest_is_taken(tmp_path):
    spacing = plan_with_all_labels(write_stripes(tmp_path, width=5))["spacing"]
    assert 1.5 < spacing.value[0] < 4
    assert "thing would keep IoU 0." in spacing.why
    assert "where a patch would cover 80 % of the median slice" in spacing.why


def test_labels_that_survive_no_coarser_grid_keep_their_own(tmp_path):
    spacing = plan_with_all_labels(write_stripes(tmp_path, width=1.5))["spacing"]
    assert spacing.value is None
    assert "thing would keep IoU 0." in spacing.why


def test_without_a_label_the_grid_stays(tmp_path):
    dataset = write_balls(tmp_path, (200, 160, 90), (1, 1, 1), diameter=80)
    planned = plan(dataset, visible([]))
    assert planned["spacing"].value is None
    assert "no label tells" in planned["spacing"].why
    assert planned["single_component"].value == []


def test_spacings_that_differ_are_brought_to_their_median(tmp_path):
    dataset = write_noise(tmp_path, [(40, 40, 20)] * 3, [(1, 1, 1), (1, 1, 2), (1, 1, 2)])
    planned = plan_with_all_labels(dataset)
    assert planned["spacing"].value == [1, 1, 2]
    assert planned["spacing"].why.startswith("the median, because spacings differ")


def test_a_label_that_cannot_be_read_is_an_error(tmp_path):
    dataset = write_balls(tmp_path, (20, 20, 10), (1, 1, 1), diameter=8)
    dataset.training[0].label.write_bytes(b"no image")
    with pytest.raises(UserError, match="cannot be read"):
        plan_with_all_labels(dataset)


def test_no_more_than_twenty_labels_are_read(tmp_path, monkeypatch):
    dataset = write_balls(tmp_path, (20, 20, 10), (1, 1, 1), diameter=8)
    names = []
    monkeypatch.setattr(
        "segpl.settings.plan.read_label", lambda case, margin: names.append(case.name)
    )
    cases = [replace(dataset.training[0], name=str(number)) for number in range(58)]
    plan(dataset, visible(cases))
    assert names == [str(3 * number) for number in range(20)]


@pytest.mark.parametrize(
    ("memory", "batch"),
    [(10**12, 4), (2 * 10**9, 4), (10**9, 2), (5 * 10**8, 1), (1, 1)],
)
def test_scarce_memory_halves_the_batch_until_it_fits(tmp_path, monkeypatch, memory, batch):
    monkeypatch.setattr("segpl.settings.schedule.free_memory", lambda: memory)
    dataset = write_noise(tmp_path, [(64, 64, 24)] * 2, [(1, 1, 1)] * 2)
    planned = plan_with_all_labels(dataset)["batch"]
    assert planned.value == batch
    assert ("memory is scarce" in planned.why) == (batch < 4)


@pytest.mark.parametrize(
    ("shape", "batch"), [((64, 64, 24), 4), ((64, 64, 40), 2), ((300, 300, 1), 4)]
)
def test_large_volumes_come_in_smaller_batches(tmp_path, monkeypatch, shape, batch):
    monkeypatch.setattr("segpl.settings.schedule.free_memory", lambda: 10**12)
    dataset = write_noise(tmp_path, [shape] * 2, [(1, 1, 1)] * 2)
    assert plan_with_all_labels(dataset)["batch"].value == batch


def test_memory_that_the_system_lends_to_files_is_free(monkeypatch):
    memory = SimpleNamespace(total=900, available=700, free=5)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("psutil.virtual_memory", lambda: memory)
    assert free_memory() == 700


def test_a_gpu_makes_more_steps(tmp_path, monkeypatch):
    dataset = write_noise(tmp_path, [(32, 32, 4)] * 2, [(1, 1, 6)] * 2)
    on_cpu = plan_with_all_labels(dataset)["steps"].value
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("segpl.settings.schedule.free_memory", lambda: 10**10)
    on_gpu = plan_with_all_labels(dataset)["steps"].value
    assert on_gpu > on_cpu >= 1500


def test_validation_takes_about_a_tenth_of_the_time(tmp_path):
    """By hand: 300 slices of 4 windows are 1200 forward passes.

    A step of 8 images costs 24, because a backward pass costs as much as two forward passes.
    Validation costs as much as 50 steps, so it takes place every 500 steps.
    """
    dataset = write_balls(tmp_path, (200, 200, 100), (1, 1, 6), diameter=20, count=4)
    cases = visible(dataset.training[:1], validation=dataset.training[1:])
    every = plan(dataset, cases, {"patch": (128, 128), "spacing": None})["validate_every"]
    assert every.value == 500
    assert every.why == "validation then takes about 10 % of the training time"


def test_without_validation_subjects_checkpoints_are_saved_every_100_steps(tmp_path):
    dataset = write_noise(tmp_path, [(32, 32, 4)] * 2, [(1, 1, 6)] * 2)
    assert plan_with_all_labels(dataset)["validate_every"].value == 100


def make_regions(*values, names=("a", "b", "c")):
    regions = []
    for name, region_values in zip(names, values, strict=False):
        regions.append(Region(name, region_values, region_values[0]))
    return tuple(regions)


@pytest.mark.parametrize(
    ("oriented", "regions", "axes", "reason"),
    [
        (False, make_regions((1,)), [0, 1], "no orientation"),
        (True, make_regions((1,)), [], "state their orientation"),
        (False, make_regions((1, 2, 3), (2, 3), (3,)), [0, 1], "no orientation"),
        (False, make_regions((1,), (2,)), [], "distinguish the 2 regions"),
        (False, make_regions((1, 2), (2,), (3,)), [], "distinguish the 3 regions"),
        (False, make_regions((1,), names=("Left lung",)), [], "Left lung would be the other one"),
    ],
)
def test_only_images_without_sides_are_mirrored(tmp_path, oriented, regions, axes, reason):
    spacing = (2, 1, 1) if oriented else (1, 1, 1)
    dataset = write_balls(tmp_path, (20, 20, 10), spacing, diameter=8)
    dataset = replace(dataset, task=replace(dataset.task, regions=regions))
    mirror = plan_with_all_labels(dataset)["mirror"]
    assert mirror.value == axes
    assert reason in mirror.why


def test_a_single_component_needs_three_subjects(tmp_path):
    dataset = write_balls(tmp_path, (40, 40, 20), (1, 1, 1), diameter=12)
    planned = plan_with_all_labels(dataset)["single_component"]
    assert planned == ([0], "one component in all of the labelled volumes: thing in 3 of 3")
    of_two_subjects = plan(dataset, visible(dataset.training[:2]))["single_component"]
    assert of_two_subjects == ([], "2 labelled subjects are too few to tell: 3 needed")


def test_three_scans_of_one_subject_are_not_three_subjects(tmp_path):
    dataset = write_balls(tmp_path, (40, 40, 20), (1, 1, 1), diameter=12)
    scans = [replace(case, subject="anna") for case in dataset.training]
    assert plan(dataset, visible(scans))["single_component"].value == []


def test_the_size_is_matched_where_labels_agree_on_it(tmp_path):
    dataset = write_balls(tmp_path, (40, 40, 20), (1, 1, 1), diameter=12)
    planned = plan_with_all_labels(dataset)["match_size"]
    assert planned.value is True
    assert "thing 0 %" in planned.why


def test_two_subjects_do_not_tell_the_size(tmp_path):
    dataset = write_balls(tmp_path, (40, 40, 20), (1, 1, 1), diameter=12)
    planned = plan(dataset, visible(dataset.training[:2]))["match_size"]
    assert planned == (False, "2 labelled subjects are too few to tell: 3 needed")


def test_nested_regions_are_listed(tmp_path):
    dataset = write_balls(tmp_path, (20, 20, 10), (1, 1, 1), diameter=8)
    regions = make_regions((1, 2, 3), (2, 3), (3,))
    dataset = replace(dataset, task=replace(dataset.task, regions=regions))
    nested = plan_with_all_labels(dataset)["nested"]
    assert nested == ([[1, 0], [2, 0], [2, 1]], "by their label values: b in a, c in a, c in b")


def test_labelled_images_of_organs_exchange_boxes(tmp_path):
    organs = write_balls(tmp_path, (40, 40, 20), (1, 1, 1), diameter=16)
    assert plan_with_all_labels(organs)["exchange"].value == 1


def test_labelled_images_of_specks_exchange_nothing(tmp_path):
    specks = write_noise(tmp_path, [(32, 32, 8)] * 3, [(1, 1, 1)] * 3)
    exchange = plan_with_all_labels(specks)["exchange"]
    assert exchange.value == 0
    assert exchange.why.startswith("not every region is known to be in one piece")


def test_ct_is_clipped_to_the_middle_99_percent(tmp_path):
    ct = write_noise(tmp_path, [(32, 32, 32)] * 2, [(1, 1, 1)] * 2, "CT", mean=-500.0)
    low, high = plan(ct, visible([]))["window"].value
    assert low == pytest.approx(-500 - 2.58 * 100, abs=30)
    assert high == pytest.approx(-500 + 2.58 * 100, abs=30)


def test_mr_is_not_clipped(tmp_path):
    mr = write_noise(tmp_path, [(32, 32, 32)] * 2, [(1, 1, 1)] * 2, "MR")
    assert plan(mr, visible([]))["window"].value is None


def test_the_window_is_that_of_the_ct_channel(tmp_path):
    rng = np.random.default_rng(0)
    pet = rng.normal(2, 1, (32, 32, 32))
    ct = rng.normal(-500, 100, (32, 32, 32))
    write_nifti(tmp_path / "imagesTr/c_0000.nii.gz", pet, np.eye(4))
    write_nifti(tmp_path / "imagesTr/c_0001.nii.gz", ct, np.eye(4))
    write_description(tmp_path, ["PET", "CT"], {"background": 0, "a": 1})
    low, high = plan(read_dataset(tmp_path), visible([]))["window"].value
    assert low < -600
    assert -400 < high < 0
