"""Voxels that are not labelled: from the label file to the batch."""

import json

import nibabel
import numpy as np
import pytest
import torch
from test_batches import make_volume

from segpl.data.batches import Steps, join_steps, keep_crops, keep_slices
from segpl.data.cache import Cache
from segpl.data.cases import Case, Region, Task
from segpl.data.layouts import read_dataset
from segpl.data.preparation import Preparation, load, load_truth
from segpl.em.types import Batch
from segpl.foundation.errors import UserError

TASK = Task(("image",), (Region("a", (1,), 1),))


def save(file, voxels):
    file.parent.mkdir(parents=True, exist_ok=True)
    nibabel.save(nibabel.Nifti1Image(voxels, np.eye(4)), file)
    return file


@pytest.fixture
def case(tmp_path):
    """A scan of 12 x 12 x 4 whose first three columns are not labelled."""
    rng = np.random.default_rng(0)
    image = save(tmp_path / "image.nii.gz", rng.normal(size=(12, 12, 4)).astype(np.float32))
    label = np.zeros((12, 12, 4), np.uint8)
    label[5:8, 5:8] = 1
    label[:3] = 255
    return Case("a", "a", (image,), save(tmp_path / "label.nii.gz", label))


def test_the_value_255_is_ignored_and_is_no_region(case):
    volume = load(case, TASK, Preparation())
    assert volume.ignored[0, :3].all()
    assert not volume.ignored[0, 3:].any()
    assert volume.y.sum() == 3 * 3 * 4
    assert torch.equal(load_truth(case, TASK).ignored, volume.ignored)


def test_ignored_voxels_are_resampled_with_the_label(case):
    volume = load(case, TASK, Preparation(spacing=(0.5, 0.5, 1.0)))
    assert volume.ignored.shape == (1, 24, 24, 4)
    assert volume.ignored[0, :6].all()
    assert not volume.ignored[0, 6:].any()


def test_a_label_without_them_ignores_nothing(case, tmp_path):
    label = save(tmp_path / "full.nii.gz", np.ones((12, 12, 4), np.uint8))
    labelled = Case("a", "a", case.images, label)
    assert load(labelled, TASK, Preparation()).ignored is None


def test_a_region_with_the_value_255_is_not_ignored(case):
    task = Task(("image",), (Region("a", (1,), 1), Region("b", (255,), 255)))
    volume = load(case, task, Preparation())
    assert volume.ignored is None
    assert volume.y[1, :3].all()


def test_the_data_set_can_name_another_value(case):
    task = Task(("image",), (Region("b", (255,), 255),), ignore=1)
    volume = load(case, task, Preparation())
    assert volume.ignored.sum() == 3 * 3 * 4


def test_ignored_voxels_survive_the_cache(case, tmp_path):
    cache = Cache(tmp_path / "cache")
    for _ in range(2):
        (volume,) = cache.volumes([case], TASK, Preparation())
        assert torch.equal(volume.ignored, load(case, TASK, Preparation()).ignored)


def test_a_scan_that_is_used_without_its_label_ignores_nothing(case, tmp_path):
    (volume,) = Cache(tmp_path / "cache").volumes([case.unlabelled()], TASK, Preparation())
    assert volume.ignored is None


def with_ignored(volume):
    """The same voxels are ignored as belong to the first region, so both can be compared."""
    return volume._replace(ignored=volume.y[:1])


def steps_of(volumes, patch=(16, 16)):
    return Steps(volumes, [], seed=0, patch=patch, batch=4, ratio=1, foreground=1.0)


@pytest.mark.parametrize("patch", [(16, 16), (48, 48, 8)], ids=["inside", "padded"])
def test_ignored_voxels_are_cropped_with_the_label(patch):
    batch = steps_of([with_ignored(make_volume(0)), with_ignored(make_volume(1))], patch)[0]
    assert batch.y_l[:, :1].any()
    assert torch.equal(batch.ignored_l, batch.y_l[:, :1])
    assert torch.equal(batch.ignored_p, batch.y_p[:, :1])


def test_a_volume_without_ignored_voxels_beside_others_counts_in_full():
    steps = steps_of([with_ignored(make_volume(0)), make_volume(1)])
    batch = steps[0]
    assert batch.ignored_l.any()
    assert not batch.ignored_l.flatten(1).any(1).all()


def test_without_ignored_voxels_a_batch_has_no_weights():
    batch = steps_of([make_volume(0)])[0]
    assert batch.ignored_l is None
    assert batch.counted_l is None


def test_the_mean_weight_of_a_voxel_is_1():
    batch = steps_of([with_ignored(make_volume(0))])[0]
    assert batch.counted_l.mean().item() == pytest.approx(1)
    assert (batch.counted_l[batch.ignored_l > 0] == 0).all()


def test_joined_batches_keep_their_ignored_voxels():
    joined = join_steps(steps_of([with_ignored(make_volume(0))]), 2)[0]
    first, second = joined.parts(2)
    assert torch.equal(joined.ignored_l, torch.cat([first.ignored_l, second.ignored_l]))
    assert Batch.join([steps_of([make_volume(0)])[0]] * 2).ignored_l is None


def test_slices_and_crops_keep_their_ignored_voxels():
    volume = with_ignored(make_volume(0))
    (sliced,) = keep_slices([volume], 1, seed=0)
    assert torch.equal(sliced.ignored, sliced.y[:1])
    (cropped,) = keep_crops([volume], 1, (16, 16, 3), seed=0)
    assert cropped.ignored.any()
    assert torch.equal(cropped.ignored, cropped.y[:1])


def write_plain(folder, label):
    save(folder / "images/a.nii.gz", np.zeros(label.shape, np.float32))
    save(folder / "labels/a.nii.gz", label)


LABEL = np.array([0, 1, 2, 255], np.uint8).reshape(2, 2, 1)


def test_a_plain_folder_ignores_255_beside_other_values(tmp_path):
    write_plain(tmp_path, LABEL)
    task = read_dataset(tmp_path).task
    assert [region.values for region in task.regions] == [(1,), (2,)]
    assert task.ignored_value == 255


def test_a_plain_mask_of_0_and_255_is_a_region(tmp_path):
    write_plain(tmp_path, np.where(LABEL == 255, 255, 0).astype(np.uint8))
    task = read_dataset(tmp_path).task
    assert [region.values for region in task.regions] == [(255,)]
    assert task.ignored_value is None


def test_segpl_yaml_names_the_value_to_ignore(tmp_path):
    write_plain(tmp_path, np.where(LABEL == 255, 3, LABEL).astype(np.uint8))
    (tmp_path / "segpl.yaml").write_text("ignore: 3\n")
    task = read_dataset(tmp_path).task
    assert [region.values for region in task.regions] == [(1,), (2,)]
    assert task.ignored_value == 3


def test_segpl_yaml_can_make_a_region_of_255(tmp_path):
    write_plain(tmp_path, LABEL)
    (tmp_path / "segpl.yaml").write_text("regions: {a: 1, b: 2, rim: 255}\n")
    assert read_dataset(tmp_path).task.ignored_value is None


def test_the_ignore_label_of_nnunet_is_ignored(tmp_path):
    save(tmp_path / "imagesTr/a_0000.nii.gz", np.zeros((2, 2, 1), np.float32))
    save(tmp_path / "labelsTr/a.nii.gz", np.where(LABEL == 255, 3, LABEL).astype(np.uint8))
    description = {
        "channel_names": {"0": "MR"},
        "labels": {"background": 0, "a": 1, "b": 2, "ignore": 3},
        "file_ending": ".nii.gz",
    }
    (tmp_path / "dataset.json").write_text(json.dumps(description))
    dataset = read_dataset(tmp_path)
    assert [region.name for region in dataset.task.regions] == ["a", "b"]
    assert load(dataset.training[0], dataset.task, Preparation()).ignored.sum() == 1


def test_a_value_cannot_be_ignored_and_belong_to_a_region(tmp_path):
    write_plain(tmp_path, LABEL)
    (tmp_path / "segpl.yaml").write_text("regions: {a: 1, b: 2}\nignore: 2\n")
    with pytest.raises(UserError, match="2 is to be ignored and belongs to region b"):
        read_dataset(tmp_path)
