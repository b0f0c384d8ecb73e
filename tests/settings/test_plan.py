"""What the plan derives from made-up folders, and why."""

import json
from dataclasses import dataclass, replace
from types import SimpleNamespace

import nibabel
import numpy as np
import pytest
import torch

from segpl.data.cases import Region
from segpl.data.layouts import read_dataset
from segpl.data.preparation import resample, resample_label
from segpl.data.splits import TrainingCases
from segpl.foundation.errors import UserError
from segpl.foundation.files import write_nifti, write_text
from segpl.methods.supervised import Supervised
from segpl.settings.plan import free_memory, plan
from segpl.settings.planning import plan_run


def folder(path, shapes, spacings, channel="MR", value=0.0):
    for number, (shape, spacing) in enumerate(zip(shapes, spacings, strict=True)):
        draw = np.random.default_rng(number)
        voxels = (draw.normal(value, 100, shape)).astype(np.float32)
        affine = np.diag([*spacing, 1.0])
        write_nifti(path / f"imagesTr/c{number}_0000.nii.gz", voxels, affine)
        write_nifti(
            path / f"labelsTr/c{number}.nii.gz", (voxels > value + 150).astype(np.uint8), affine
        )
    labels = {"background": 0, "thing": 1}
    description = {"channel_names": {"0": channel}, "labels": labels, "file_ending": ".nii.gz"}
    write_text(path / "dataset.json", json.dumps(description))
    return read_dataset(path)


def ball(path, shape, spacing, diameter, count=3):
    """Volumes with a ball of `diameter` mm in the middle, the same in every case."""
    data = folder(path, [shape] * count, [spacing] * count)
    squares = [
        ((np.arange(n) - (n - 1) / 2) * step) ** 2 for n, step in zip(shape, spacing, strict=True)
    ]
    distance = np.sqrt(squares[0][:, None, None] + squares[1][:, None] + squares[2])
    for case in data.training:
        write_nifti(
            case.label, (distance <= diameter / 2).astype(np.uint8), np.diag([*spacing, 1.0])
        )
    return data


def visible(labelled, validation=()):
    """What training sees of a data set with these labels."""
    return TrainingCases(tuple(labelled), (), tuple(validation))


@pytest.mark.parametrize(
    ("shape", "spacing", "patch"),
    [
        ((96, 90, 24), (1, 1, 6), [96, 96]),  # thick slices: 2D, steps of 16
        ((300, 300, 5), (1, 1, 5), [128, 144]),  # at most 128 x 128 and a little more
        ((35, 50, 35), (1, 1, 1), [32, 48, 32]),  # 3D, steps of 8
        (
            (200, 200, 100),
            (1, 1, 1),
            [64, 64, 64],
        ),  # 3D, at most 96 x 80 x 32 voxels and a little more
        ((10, 10, 8), (1, 1, 1), [16, 16, 8]),  # filled up
        ((64, 64, 1), (1, 1, 1), [64, 64]),  # one slice: 2D
        ((128, 128, 3), (1, 1, 1), [128, 128, 3]),  # thin volumes
    ],
)
def test_specks_stay_on_their_grid_and_patches_fit_the_budget(tmp_path, shape, spacing, patch):
    data = folder(tmp_path, [shape] * 3, [spacing] * 3)
    planned = plan(data, visible(data.training))
    assert planned["patch"].value == patch
    assert planned["channels"].value == (16 if len(patch) == 2 else 8)
    assert planned["spacing"].value is None


def test_a_large_object_is_planned_on_a_grid_where_the_patch_sees_most_of_the_image(tmp_path):
    data = ball(tmp_path, (200, 160, 90), (1, 1, 1), 80)
    planned = plan(data, visible(data.training))
    step = round((0.8**3 * 200 * 160 * 90 / (96 * 80 * 32)) ** (1 / 3), 2)
    assert planned["spacing"].value == [step] * 3
    start = f"{step} voxels: a patch then covers 80 % of the median volume; thing keeps IoU 0.99"
    assert planned["spacing"].why.startswith(start)
    assert planned["patch"].value == [96, 72, 40]
    assert "it covers 87 x 82 x 82 % of the median volume" in planned["patch"].why


def test_a_small_object_is_not_blurred_for_distant_surroundings(tmp_path):
    data = ball(tmp_path, (200, 160, 120), (1, 1, 1), 24)
    planned = plan(data, visible(data.training))
    assert planned["spacing"].value == [1.15] * 3, "72 mm in 62.6 voxels"
    assert "or 3 times the object" in planned["spacing"].why
    assert planned["patch"].value == [64, 64, 64]


def test_slices_are_coarsened_in_their_plane_alone(tmp_path):
    data = ball(tmp_path, (320, 320, 6), (1, 1, 8), 160)
    planned = plan(data, visible(data.training))
    assert planned["spacing"].value == [2, 2]
    assert planned["spacing"].why.startswith(
        "2 mm: a patch then covers 80 % of the median slice; thing keeps IoU 1.00"
    )
    assert planned["patch"].value == [128, 144]


def test_the_coarsest_grid_that_labels_survive_is_taken_where_the_view_asks_for_more(tmp_path):
    data = folder(tmp_path, [(640, 640, 1)] * 3, [(1, 1, 1)] * 3)
    x, y = np.meshgrid(np.arange(640), np.arange(640), indexing="ij")
    for width, worth in ((5, True), (1.5, False)):
        stripes = (x + 0.4 * y) % (
            4 * width
        ) < width  # oblique, so that no grid suits them by chance
        for case in data.training:
            write_nifti(case.label, stripes[..., None].astype(np.uint8), np.eye(4))
        spacing = plan(data, visible(data.training))["spacing"]
        assert "thing would keep IoU 0." in spacing.why
        if worth:
            assert 1.5 < spacing.value[0] < 4
            assert "where a patch would cover 80 % of the median slice" in spacing.why
        else:
            assert spacing.value is None


def test_without_a_label_the_grid_stays(tmp_path):
    data = ball(tmp_path, (200, 160, 90), (1, 1, 1), 80)
    planned = plan(data, visible([]))
    assert planned["spacing"].value is None
    assert "no label tells" in planned["spacing"].why
    assert planned["single_component"].value == []


def test_labels_of_unlabelled_and_test_cases_are_never_read(tmp_path):
    from segpl.data.splits import training_cases

    data = ball(tmp_path, (40, 40, 20), (1, 1, 1), 12, count=9)
    cases = training_cases(data, labelled=2, seed=1)
    seen = {case.name for case in cases.labelled + cases.validation}
    before = plan_run(tmp_path, {"method": "supervised", "labelled": 2, "seed": 1})
    hidden = [case.label for case in data.training if case.name not in seen]
    assert len(hidden) >= 4
    for label in hidden:
        label.write_bytes(b"no image")
    assert plan_run(tmp_path, {"method": "supervised", "labelled": 2, "seed": 1}) == before
    with pytest.raises(UserError, match="cannot be read"):
        plan(data, visible(data.training))


def test_no_more_than_twenty_labels_are_read(tmp_path, monkeypatch):
    data = ball(tmp_path, (20, 20, 10), (1, 1, 1), 8)
    names = []
    monkeypatch.setattr(
        "segpl.settings.plan.read_label", lambda case, margin: names.append(case.name)
    )
    cases = [replace(data.training[0], name=str(number)) for number in range(58)]
    plan(data, visible(cases))
    assert names == [str(3 * number) for number in range(20)]


def test_a_given_patch_or_spacing_is_kept_and_the_other_planned_to_fit(tmp_path):
    ball(tmp_path, (200, 160, 90), (1, 1, 1), 80)
    patch = plan_run(tmp_path, {"method": "supervised", "patch": [48, 40, 16]})
    assert patch.spacing == pytest.approx([3.63] * 3, abs=0.01), (
        "an eighth of the voxels, twice the step"
    )
    assert patch.strides is not None
    assert {"patch", "spacing"} & patch.why.keys() == {"spacing"}
    spacing = plan_run(tmp_path, {"method": "supervised", "spacing": [4, 4, 4]})
    assert spacing.spacing == (4, 4, 4)
    assert spacing.patch == (48, 40, 24), "the whole of 50 x 40 x 22 voxels, in steps of 8"
    assert {"patch", "spacing"} & spacing.why.keys() == {"patch"}
    own = plan_run(tmp_path, {"method": "supervised", "spacing": None})
    assert own.spacing is None
    assert own.patch == (64, 64, 64)


def test_a_run_that_is_planned_again_from_its_own_file_keeps_its_reasons(tmp_path):
    ball(tmp_path, (64, 64, 40), (1, 1, 1), 30)
    run = plan_run(tmp_path, {"method": "supervised"})
    assert plan_run(tmp_path, run.mapping()) == run


def test_wrong_settings_are_refused_before_anything_is_planned(tmp_path):
    ball(tmp_path, (40, 40, 20), (1, 1, 1), 12)
    for settings, message in (
        ({"labelled": "few"}, "labelled is 'few'"),
        ({"patch": [40]}, "patch is .40., but it takes 2 or 3"),
        ({"mirror": [3]}, "mirror is .3., but the axes"),
    ):
        with pytest.raises(UserError, match=message):
            plan_run(tmp_path, {"method": "supervised", **settings})


def test_spacings_that_differ_are_brought_to_their_median(tmp_path):
    data = folder(tmp_path, [(40, 40, 20)] * 3, [(1, 1, 1), (1, 1, 2), (1, 1, 2)])
    planned = plan(data, visible(data.training))
    assert planned["spacing"].value == [1, 1, 2]
    assert planned["spacing"].why.startswith("the median, because spacings differ")


def test_depth_and_strides_are_written_down_and_can_be_changed(tmp_path):
    folder(tmp_path, [(64, 64, 32)] * 2, [(1, 1, 1)] * 2)
    run = plan_run(tmp_path, {"method": "supervised"})
    assert run.patch == (64, 64, 32)
    assert run.strides == ((1, 1, 1), (2, 2, 2), (2, 2, 2), (2, 2, 2), (2, 2, 1))
    task = read_dataset(tmp_path).task
    assert len(run.build(task).widths) == len(run.strides)
    flatter = plan_run(
        tmp_path, {"method": "supervised", "strides": [[1, 1, 1], [2, 2, 1], [2, 2, 1]]}
    )
    assert len(flatter.build(task).widths) == 3
    small = plan_run(tmp_path, {"method": "supervised", "patch": [16, 16, 8]})
    assert small.strides == ((1, 1, 1), (2, 2, 2), (2, 2, 1))
    with pytest.raises(UserError, match="strides must"):
        plan_run(tmp_path, {"method": "supervised", "strides": [[1, 1, 1], [3, 3, 3], [7, 7, 7]]})


def test_scarce_memory_halves_the_batch_until_it_fits(tmp_path, monkeypatch):
    data = folder(tmp_path, [(64, 64, 24)] * 2, [(1, 1, 1)] * 2)
    for memory, batch in ((10**12, 4), (2 * 10**9, 4), (10**9, 2), (5 * 10**8, 1), (1, 1)):
        monkeypatch.setattr("segpl.settings.plan.free_memory", lambda memory=memory: memory)
        planned = plan(data, visible(data.training))["batch"]
        assert planned.value == batch
        assert ("memory is scarce" in planned.why) == (batch < 4)


@pytest.mark.parametrize(
    ("shape", "batch"), [((64, 64, 24), 4), ((64, 64, 40), 2), ((300, 300, 1), 4)]
)
def test_large_volumes_come_in_smaller_batches(tmp_path, monkeypatch, shape, batch):
    monkeypatch.setattr("segpl.settings.plan.free_memory", lambda: 10**12)
    data = folder(tmp_path, [shape] * 2, [(1, 1, 1)] * 2)
    assert plan(data, visible(data.training))["batch"].value == batch


def regions(*values, names=("a", "b", "c")):
    return tuple(Region(name, value, value[0]) for name, value in zip(names, values, strict=False))


@pytest.mark.parametrize(
    ("oriented", "found", "axes", "reason"),
    [
        (False, regions((1,)), [0, 1], "no orientation"),
        (True, regions((1,)), [], "say how they are oriented"),
        (False, regions((1, 2, 3), (2, 3), (3,)), [0, 1], "no orientation"),
        (False, regions((1,), (2,)), [], "2 regions may be told apart"),
        (False, regions((1, 2), (2,), (3,)), [], "3 regions may be told apart"),
        (False, regions((1,), names=("Left lung",)), [], "Left lung would be the other one"),
    ],
)
def test_only_what_has_no_sides_is_mirrored(tmp_path, oriented, found, axes, reason):
    data = ball(tmp_path, (20, 20, 10), (2 if oriented else 1, 1, 1), 8)
    mirror = plan(replace(data, task=replace(data.task, regions=found)), visible(data.training))[
        "mirror"
    ]
    assert mirror.value == axes
    assert reason in mirror.why


def test_a_single_component_needs_three_subjects(tmp_path):
    data = ball(tmp_path, (40, 40, 20), (1, 1, 1), 12)
    planned = plan(data, visible(data.training))["single_component"]
    assert planned == ([0], "one component in all of the labelled volumes: thing in 3 of 3")
    fewer = plan(data, visible(data.training[:2]))["single_component"]
    assert fewer == ([], "2 labelled subjects are too few to tell: 3 needed")
    frames = [replace(case, subject="anna") for case in data.training]
    assert plan(data, visible(frames))["single_component"].value == []


def test_regions_in_regions_are_listed(tmp_path):
    data = ball(tmp_path, (20, 20, 10), (1, 1, 1), 8)
    task = replace(data.task, regions=regions((1, 2, 3), (2, 3), (3,)))
    nested = plan(replace(data, task=task), visible(data.training))["nested"]
    assert nested == ([[1, 0], [2, 0], [2, 1]], "by their label values: b in a, c in a, c in b")


@dataclass(frozen=True)
class Knowing(Supervised):
    """A method that is told about components, and about nesting."""

    single_component: tuple[int, ...] = ()
    nested: tuple[tuple[int, int], ...] = ()

    @classmethod
    def name(cls):
        return "knowing"


@pytest.mark.parametrize("method", ["knowing", {"name": "knowing", "objective": "dice"}])
def test_methods_that_ask_are_told_what_the_labels_show(tmp_path, method):
    ball(tmp_path, (40, 40, 20), (1, 1, 1), 12, count=6)
    run = plan_run(tmp_path, {"method": method})
    assert run.method.single_component == (0,)
    assert "thing in" in run.why["method.single_component"]
    assert run.why["method.nested"] == "no region is part of another"
    assert plan_run(tmp_path, run.mapping()) == run
    own = plan_run(tmp_path, {"method": {"name": "knowing", "single_component": []}})
    assert own.method.single_component == ()
    assert "method.single_component" not in own.why
    assert not [
        key for key in plan_run(tmp_path, {"method": "supervised"}).why if key.startswith("method.")
    ]


def test_memory_that_the_system_lends_to_files_is_free(monkeypatch):
    memory = SimpleNamespace(total=900, available=700, free=5)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("psutil.virtual_memory", lambda: memory)
    assert free_memory() == 700


def test_ct_is_clipped_and_mr_is_not(tmp_path):
    ct = plan(
        folder(tmp_path / "ct", [(32, 32, 32)] * 2, [(1, 1, 1)] * 2, "CT", -500.0), visible([])
    )
    low, high = ct["window"].value
    assert low == pytest.approx(-500 - 2.58 * 100, abs=30)
    assert high == pytest.approx(-500 + 2.58 * 100, abs=30)
    assert (
        plan(folder(tmp_path / "mr", [(32, 32, 32)] * 2, [(1, 1, 1)] * 2), visible([]))[
            "window"
        ].value
        is None
    )


def test_only_the_ct_channel_is_clipped(tmp_path):
    draw = np.random.default_rng(0)
    for number, value in enumerate((2.0, -500.0)):
        write_nifti(
            tmp_path / f"imagesTr/c_{number:04}.nii.gz",
            draw.normal(value, 1 if not number else 100, (32, 32, 32)),
            np.eye(4),
        )
    channels = {
        "channel_names": {"0": "PET", "1": "CT"},
        "labels": {"background": 0, "a": 1},
        "file_ending": ".nii.gz",
    }
    write_text(tmp_path / "dataset.json", json.dumps(channels))
    low, high = plan(read_dataset(tmp_path), visible([]))["window"].value
    assert low < -600 < -400 < high < 0


def test_thin_structures_survive_resampling():
    y = torch.zeros(1, 40, 40, 40, dtype=torch.bool)
    y[0, ::4] = True  # sheets of one voxel
    for factor in (1.3, 0.9, 0.7):
        share = (
            resample_label(y, tuple(round(40 * factor) for _ in range(3))).float().mean()
            / y.float().mean()
        )
        assert share == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize(("step", "rate"), [(1, 0.005), (5, 0.003)], ids=["volumes", "planes"])
def test_planes_learn_more_slowly_than_volumes(tmp_path, step, rate):
    folder(tmp_path, [(40, 40, 20)] * 3, [(1, 1, step)] * 3)
    run = plan_run(tmp_path, {"method": "supervised"})
    assert (run.learning_rate, run.ratio) == (rate, 1)
    assert plan_run(tmp_path, {"method": "supervised", "learning_rate": 0.1}).learning_rate == 0.1


def test_a_run_says_why_and_forgets_the_reason_for_what_was_overruled(tmp_path):
    folder(tmp_path, [(40, 40, 20)] * 3, [(1, 1, 1)] * 3)
    run = plan_run(tmp_path, {"method": "supervised"})
    assert run.why.keys() >= {"patch", "channels", "spacing", "window", "ratio", "learning_rate"}
    assert "patch" not in plan_run(tmp_path, {"method": "supervised", "patch": [16, 16, 16]}).why


def test_a_resampled_run_scores_in_the_images_own_geometry(tmp_path):
    from segpl.evaluation import evaluate
    from segpl.training.loop import train

    shapes = [(40, 40, 20), (40, 40, 10), (40, 40, 10), (40, 40, 20)]
    folder(tmp_path / "data", shapes, [(1, 1, 1), (1, 1, 2), (1, 1, 2), (1, 1, 1)])
    small = {"steps": 2, "channels": 4, "patch": [16, 16, 8]}
    run = plan_run(tmp_path / "data", {"method": "supervised", **small})
    assert run.spacing is not None
    evaluate(train(run, tmp_path / "run"))
    for mask in (tmp_path / "run/masks").glob("*.nii.gz"):
        image = nibabel.load(tmp_path / "data/labelsTr" / mask.name)
        assert nibabel.load(mask).shape == image.shape
        assert np.allclose(nibabel.load(mask).affine, image.affine)


def test_axes_that_shrink_are_averaged_though_another_grows():
    """A thin sheet keeps a third of its brightness wherever it lies; sampled, it would be whole or gone."""
    for place in range(12, 24):
        x = torch.zeros(1, 36, 36, 20)
        x[:, place] = 1
        for depth in (20, 21):
            sheet = resample(x, (12, 12, depth))
            assert sheet.sum((1,)).mean().item() == pytest.approx(1 / 3, abs=1e-5)
            assert sheet.max().item() == pytest.approx(1 / 3, abs=1e-5)


def test_validation_takes_a_tenth_of_the_time_at_most(tmp_path):
    """By hand: 300 slices of 4 windows are 1200 forward passes, as much as 50 steps of 8 images forth and back."""
    data = folder(tmp_path, [(200, 200, 100)] * 4, [(1, 1, 6)] * 4)
    given = {"patch": (128, 128), "spacing": None}
    none = plan(data, visible(data.training[:1]), given)["validate_every"]
    some = plan(data, visible(data.training[:1], data.training[1:]), given)["validate_every"]
    assert none.value == 100
    assert some.value == 500
    assert some.why == "validation then takes about 10 % of the time of training"


def test_a_gpu_makes_more_steps(tmp_path, monkeypatch):
    data = folder(tmp_path, [(32, 32, 4)] * 2, [(1, 1, 6)] * 2)
    on_a_processor = plan(data, visible(data.training))["steps"].value
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("segpl.settings.plan.free_memory", lambda: 10**10)
    assert plan(data, visible(data.training))["steps"].value > on_a_processor >= 1500


def test_boxes_are_exchanged_among_labelled_images_of_organs(tmp_path):
    organs = ball(tmp_path / "organs", (40, 40, 20), (1, 1, 1), 16)
    planned = plan(organs, visible(organs.training))
    assert planned["single_component"].value == [0]
    assert planned["exchange"].value == 1
    specks = folder(tmp_path / "specks", [(32, 32, 8)] * 3, [(1, 1, 1)] * 3)
    planned = plan(specks, visible(specks.training))
    assert planned["exchange"].value == 0
    assert planned["exchange"].why.startswith("not every region is known to be in one piece")
