"""The page in a real browser: look, move the threshold, draw, save, and train on the result."""

import io
import json
import shutil

import nibabel
import numpy as np
import pytest
from conftest import client_of, landmark, read_label, segpl_view, write_data
from drawn_runs import save_initial_weights
from PIL import Image
from scipy.ndimage import binary_dilation, binary_erosion

from segpl.data.layouts import read_dataset
from segpl.settings.planning import plan_run
from segpl.viewer.niivue import NIIVUE

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine"),
    pytest.mark.skipif(not NIIVUE.is_file(), reason="NiiVue is not there: make niivue"),
]

WITHOUT_GPU = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
PATIENCE = 300_000
"""Milliseconds: the machine may be busy, and the first prediction waits for torch."""
SUPERIOR_AXIS = 1
"""The axis of the file along which axial slices are stacked, in the tests' oblique geometry."""
CLICK_SCAN = "number => document.querySelector(`[data-number='${number}']`).click()"
"""The list may be folded up, so the mouse does not reach it."""
SETTINGS = {"method": "supervised", "patch": [16, 16], "channels": 4, "steps": 2}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("viewed") / "data")


@pytest.fixture(scope="module")
def address(data):
    directory = data.with_name("run")
    directory.mkdir()
    run = plan_run(data, SETTINGS)
    save_initial_weights(run, read_dataset(data).task, directory)
    with segpl_view(directory) as address:
        yield address


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=WITHOUT_GPU)
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser, address):
    """A function that opens a scan in a window of some width, and waits until it is shown."""
    pages = []

    def open_scan(name, width=1440):
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.set_default_timeout(PATIENCE)
        page.messages = []
        page.on("console", lambda message: page.messages.append(message.text))
        page.on("pageerror", lambda error: page.messages.append(str(error)))
        page.goto(address)
        page.wait_for_selector("#list button", state="attached")
        number = client_of(address).number(name)
        page.evaluate(CLICK_SCAN, number)
        page.wait_for_selector(f"body[data-ready='{number}']")
        pages.append(page)
        return page

    yield open_scan
    for page in pages:
        page.close()


def picture(page):
    """What the canvas shows, as an array of rows, columns and colours."""
    content = page.locator("#canvas").screenshot()
    rgb = np.asarray(Image.open(io.BytesIO(content)).convert("RGB")).astype(int)
    rgb[[0, 1, 2, -3, -2, -1]] = 0  # a frame shows that the canvas has the focus
    rgb[:, [0, 1, 2, -3, -2, -1]] = 0
    return rgb


def coloured_pixels(page):
    """Pixels that are not grey: those of the mask."""
    rgb = picture(page)
    return int((rgb.max(axis=2) - rgb.min(axis=2) > 60).sum())


def voxels_of(page, region):
    return int(page.get_attribute(f"#volume-{region}", "data-voxels"))


def set_range(page, selector, value):
    page.locator(selector).fill(str(value))


def maps_of(address, name):
    """The probabilities that the page has, in per cent, in the order of the file."""
    client = client_of(address)
    maps = []
    for region in (0, 1):
        _, _, content = client.request("GET", f"scans/{client.number(name)}/region/{region}")
        maps.append(np.asarray(nibabel.Nifti1Image.from_bytes(content).dataobj))
    return maps


def label_at(maps, thresholds):
    """The label that the thresholds make: organ 1, lesion 3."""
    label = np.where(maps[0] > thresholds[0], 1, 0)
    return np.where(maps[1] > thresholds[1], 3, label)


def starting_thresholds(address, name):
    client = client_of(address)
    prediction = client.get_json(f"api/scans/{client.number(name)}/prediction")
    return [curve["start"] for curve in prediction["curves"]]


@pytest.mark.parametrize("width", [390, 1440])
def test_the_page_shows_a_scan_without_any_complaint_of_the_browser(open_page, width):
    page = open_page("ben", width)
    assert page.messages == []
    assert picture(page).max() > 100
    assert page.text_content("#status") == ""
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_arrow_keys_change_the_slice(open_page):
    page = open_page("ben", 390)
    page.uncheck("#show-mask")
    set_range(page, "#slice", 11)
    page.focus("#canvas")
    before = picture(page)
    slice_before = page.text_content("#slice-number")
    page.keyboard.press("ArrowUp")
    assert page.text_content("#slice-number") != slice_before
    assert (picture(page) != before).any()
    page.keyboard.press("ArrowDown")
    assert page.text_content("#slice-number") == slice_before
    assert (picture(page) == before).all()


def test_overlays_cover_the_scan_and_go_away_again(open_page):
    page = open_page("ben", 390)
    page.uncheck("#show-mask")
    plain = coloured_pixels(page)
    for kind, key in (("probability", "b"), ("uncertainty", "u")):
        page.keyboard.press(key)
        assert page.input_value("#overlay") == kind
        page.wait_for_timeout(500)
        assert coloured_pixels(page) > plain + 1000
        page.keyboard.press(key)
        page.wait_for_timeout(500)
        assert coloured_pixels(page) <= plain + 100


def test_the_mask_follows_the_threshold(open_page, address):
    page = open_page("ben", 390)
    maps = maps_of(address, "ben")
    pixels = []
    for threshold in (45, 50, 55):
        set_range(page, "#threshold-0", threshold)
        set_range(page, "#threshold-1", 99)
        page.wait_for_timeout(300)
        assert voxels_of(page, 0) == (label_at(maps, [threshold, 99]) > 0).sum()
        pixels.append(coloured_pixels(page))
    assert pixels[0] > pixels[1] > pixels[2]
    spacing_ml = 1.5 * 3.0 * 0.8 / 1000
    shown = float(page.text_content("#volume-0").removesuffix(" ml"))
    assert np.isclose(shown, voxels_of(page, 0) * spacing_ml, rtol=0.01, atol=0.5)


def test_the_expected_dice_is_that_of_the_probabilities(open_page, address):
    page = open_page("ben", 390)
    set_range(page, "#threshold-0", 50)
    p = maps_of(address, "ben")[0] / 100  # rounded up to whole per cent
    mask = p > 0.5
    expected = 2 * p[mask].sum() / (p.sum() + mask.sum())
    assert abs(float(page.text_content("#dice-0")) - expected) < 0.02


def test_a_contour_has_fewer_pixels_than_a_filled_mask(open_page):
    page = open_page("anna", 390)
    page.uncheck("#show-label")
    filled = coloured_pixels(page)
    page.keyboard.press("o")
    assert 0 < coloured_pixels(page) < filled / 2
    page.keyboard.press("m")
    assert coloured_pixels(page) < 50


def test_each_region_can_be_hidden(open_page):
    page = open_page("anna", 390)
    set_range(page, "#slice", 16)  # has the lesion: voxel 6 of an axis with 22 that is flipped
    both = coloured_pixels(page)
    page.uncheck("#visible-1")
    one = coloured_pixels(page)
    page.uncheck("#visible-0")
    assert both > one > coloured_pixels(page)


def test_what_is_drawn_is_what_is_saved_and_the_next_training_uses_it(
    open_page, address, data, segpl, tmp_path
):
    correct_with_the_pen(open_page("ben", 390), address, data)
    accept_with_another_threshold(open_page("cleo"), address, data)
    out = tmp_path / "run"
    options = ["--steps=2", "--set=channels=4", "--set=patch=[16, 16]", "--set=ratio=1"]
    trained = segpl("train", data, "--method", "segpl", "--out", out, *options)
    assert trained.returncode == 0, trained.stderr
    split = json.loads((out / "split.json").read_text())
    assert sorted(split["labelled"]) == ["anna", "ben", "cleo"]
    assert split["unlabelled"] == ["dora"]


def correct_with_the_pen(page, address, data):
    """Fill the bright box of one slice: the label must have it where the box is in the file."""
    before = label_at(maps_of(address, "ben"), starting_thresholds(address, "ben"))
    page.uncheck("#show-mask")
    set_range(page, "#slice", 11)
    top, bottom, left, right = bright_box(picture(page))
    page.keyboard.press("c")
    page.click("#fill")
    set_range(page, "#pen-size", 1)
    draw_rectangle(page, top, bottom, left, right)
    drawn_voxels = voxels_of(page, 0)
    page.click("#save")
    wait_for_mark(page, address, "ben", "corrected")

    label = read_label(data / "labelsTr/ben.nii.gz")
    assert (label > 0).sum() == drawn_voxels
    changed = label != before
    other_axes = tuple(axis for axis in range(3) if axis != SUPERIOR_AXIS)
    (plane,) = np.flatnonzero(changed.any(axis=other_axes))
    box = landmark().take(plane, SUPERIOR_AXIS)
    drawn_plane = label.take(plane, SUPERIOR_AXIS)
    assert (drawn_plane[binary_erosion(box)] == 1).all()
    assert not changed.take(plane, SUPERIOR_AXIS)[~binary_dilation(box)].any()


def wait_for_mark(page, address, name, decision):
    """Wait until the list shows what was decided about a scan."""
    number = client_of(address).number(name)
    page.wait_for_selector(f"[data-number='{number}'] .{decision}", state="attached")


def bright_box(rgb):
    """The rows and columns of the bright box on the canvas."""
    bright = rgb.min(axis=2) > 190
    rows = np.flatnonzero(bright.sum(axis=1) > 20)
    columns = np.flatnonzero(bright.sum(axis=0) > 20)
    return int(rows[0]), int(rows[-1]), int(columns[0]), int(columns[-1])


def draw_rectangle(page, top, bottom, left, right):
    """Draw along the inside of a box on the canvas, in one stroke."""
    canvas = page.locator("#canvas").bounding_box()
    inset = 4
    x0 = canvas["x"] + left + inset
    x1 = canvas["x"] + right - inset
    y0 = canvas["y"] + top + inset
    y1 = canvas["y"] + bottom - inset
    page.mouse.move(x0, y0)
    page.mouse.down()
    for x, y in ((x1, y0), (x1, y1), (x0, y1), (x0, y0)):
        page.mouse.move(x, y, steps=12)
    page.mouse.up()


def accept_with_another_threshold(page, address, data):
    set_range(page, "#threshold-0", 48)
    set_range(page, "#threshold-1", 52)
    page.wait_for_timeout(300)
    shown = voxels_of(page, 0)
    page.click("#accept")
    wait_for_mark(page, address, "cleo", "accepted")
    label = read_label(data / "labelsTr/cleo.nii.gz")
    assert np.array_equal(label, label_at(maps_of(address, "cleo"), [48, 52]))
    assert (label > 0).sum() == shown
    assert page.text_content("#counter").startswith("3 labels")


def test_undo_takes_a_stroke_back(open_page):
    page = open_page("dora", 390)
    page.keyboard.press("c")
    before = voxels_of(page, 0)
    page.select_option("#pen-region", "1")
    set_range(page, "#pen-size", 9)
    box = page.locator("#canvas").bounding_box()
    page.mouse.move(box["x"] + 150, box["y"] + 150)
    page.mouse.down()
    page.mouse.move(box["x"] + 220, box["y"] + 200, steps=8)
    page.mouse.up()
    assert voxels_of(page, 0) != before
    page.keyboard.press("z")
    assert voxels_of(page, 0) == before


def test_the_help_lists_every_shortcut(open_page):
    page = open_page("dora")
    page.keyboard.press("?")
    assert page.is_visible("#help")
    assert page.locator("#keys tr").count() > 15
