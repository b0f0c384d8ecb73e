"""`segpl.view`: the widget for notebooks."""

import nibabel
import numpy as np
import pytest
from conftest import SHAPE, landmark
from drawn_runs import save_initial_weights

import segpl
from segpl.data.layouts import read_dataset
from segpl.foundation.errors import UserError
from segpl.settings.planning import plan_run

pytest.importorskip("ipyniivue", reason="the extra view is not installed")


def save_run(data, directory):
    """A run on the data that was never trained."""
    directory.mkdir(parents=True)
    run = plan_run(data, {"method": "supervised", "patch": [16, 16], "channels": 4})
    return save_initial_weights(run, read_dataset(data).task, directory)


def voxels(volume):
    return np.asarray(nibabel.Nifti1Image.from_bytes(volume.data).dataobj)


def test_a_run_is_shown_with_the_mask_and_the_uncertainty_of_each_region(data, tmp_path):
    directory = save_run(data, tmp_path / "run")
    widget = segpl.view(directory, "ben")
    names = [volume.name for volume in widget.volumes]
    assert names == [
        "ben.nii.gz",
        "organ.nii",
        "uncertainty of organ.nii",
        "lesion.nii",
        "uncertainty of lesion.nii",
    ]
    mask = segpl.load(directory).predict(data / "imagesTr/ben_0000.nii.gz")
    organ = widget.volumes[1]
    assert np.array_equal(voxels(organ) > organ.cal_min, mask.probability[0] > 0.5)


def test_what_segpl_run_has_predicted_is_not_predicted_again(data, tmp_path):
    answer = tmp_path / "answer"
    run = save_run(data, answer / "supervised/supervised-seed0")
    segpl.predict(run.parent, data, answer / "masks", probabilities=True)
    (answer / "answer.json").write_text('{"runs": "supervised"}')
    widget = segpl.view(answer, "ben")
    assert len(widget.volumes) == 5
    assert not (run.parent / "viewed").exists()


def test_data_are_shown_with_their_label(data):
    widget = segpl.view(data, "anna")
    assert [volume.name for volume in widget.volumes] == ["anna.nii.gz", "label.nii"]
    assert voxels(widget.volumes[1]).shape == SHAPE
    assert np.array_equal(voxels(widget.volumes[1]) > 0, landmark())


def test_an_unknown_scan_is_refused_with_some_that_exist(data):
    with pytest.raises(UserError, match="no scan zoe: name one, such as ben"):
        segpl.view(data, "zoe")
