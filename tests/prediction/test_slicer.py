"""Masks for 3D Slicer, read back by an independent library."""

import nrrd
import numpy as np
import pytest
import SimpleITK
from PIL import Image

from segpl.inference.predictor import load
from segpl.prediction import predict_files
from segpl.prediction.request import Request
from segpl.prediction.slicer import save_segmentation
from segpl.reporting.prediction_sheet import read_predictions, write_prediction_sheet


@pytest.fixture(scope="module")
def prediction(shifted, canonical):
    return shifted.predict(canonical)


def test_a_segmentation_has_names_colours_and_the_geometry_of_the_scan(prediction, tmp_path):
    save_segmentation(tmp_path / "a.seg.nrrd", prediction)
    voxels, header = nrrd.read(str(tmp_path / "a.seg.nrrd"))
    np.testing.assert_array_equal(voxels, prediction.mask)
    assert voxels.any()
    assert header["Segment0_Name"] == "lesion"
    assert header["Segment0_LabelValue"] == "5"
    assert header["Segment0_Color"].split()[0] == "0.839216"
    assert header["Segment0_Extent"] == "0 39 0 43 0 23"
    image = SimpleITK.ReadImage(str(tmp_path / "a.seg.nrrd"))
    index = (3, 7, 2)
    ras = prediction.affine @ [*index, 1]
    lps = np.array([-ras[0], -ras[1], ras[2]])
    np.testing.assert_allclose(image.TransformIndexToPhysicalPoint(index), lps, atol=1e-4)


def test_nested_regions_keep_all_their_voxels(run_directory, tmp_path):
    """In a label map the core covers a part of the whole tumour; in layers it does not."""
    image = np.random.default_rng(0).normal(size=(4, 40, 40, 6)).astype(np.float32)
    prediction = load(run_directory).predict(image, spacing=(1, 1, 3))
    save_segmentation(tmp_path / "a.seg.nrrd", prediction)
    layers, header = nrrd.read(str(tmp_path / "a.seg.nrrd"))
    assert layers.shape == (3, 40, 40, 6)
    assert header["kinds"] == ["list", "domain", "domain", "domain"]
    assert [header[f"Segment{index}_Layer"] for index in range(3)] == ["0", "1", "2"]
    for layer, levels in zip(layers, prediction.mask_levels, strict=True):
        np.testing.assert_array_equal(layer > 0, levels > 32767)


def test_predict_writes_segmentations_colours_and_pictures(run_directory, tumours, tmp_path):
    out = tmp_path / "out"
    request = Request(out, format="seg-nrrd")
    predict_files(run_directory, [tumours / "imagesTs"], request)
    (first, _) = sorted(out.glob("*.seg.nrrd"))
    assert "1 whole_tumour 214 39 40 255" in (out / "colours.ctbl").read_text()
    before = first.stat().st_mtime_ns
    predict_files(run_directory, [tumours / "imagesTs"], request)
    assert first.stat().st_mtime_ns == before, "a finished scan is not predicted again"
    name = first.name.removesuffix(".seg.nrrd")
    picture = np.asarray(Image.open(out / "pictures" / f"{name}.png"))
    is_red = (picture == (214, 39, 40)).all(2)
    assert is_red.any(), "the outline of the whole tumour"
    assert is_red.mean() < 0.2, "an outline and not a filled mask"


def test_the_sheet_shows_the_scans_to_check_first(run_directory, tumours, tmp_path):
    out = tmp_path / "out"
    table = predict_files(run_directory, [tumours / "imagesTs"], Request(out))
    text = table.read_text()
    last = text.strip().splitlines()[-1].split(",")[0]
    lines = text.strip().splitlines()
    changed = []
    for line in lines:
        cells = line.split(",")
        if cells[0] != "case":
            cells[-1] = "expected Dice below 0.8" if cells[0] == last else ""
        changed.append(",".join(cells))
    table.write_text("\n".join(changed) + "\n")
    scans = read_predictions(out)
    assert scans[0].name == last
    assert scans[0].reasons == ["expected Dice below 0.8"]
    page = write_prediction_sheet(out).read_text()
    assert page.index(f"<h2>{last}</h2>") < page.index(f"<h2>{scans[1].name}</h2>")
    assert f"pictures/{last}.png" in page
