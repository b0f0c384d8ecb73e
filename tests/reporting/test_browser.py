"""The report in a real browser, without a network."""

import shutil
from collections.abc import Iterator

import pytest
from made_up_runs import STRANGE, data_folder, run_folder

from segpl.reporting.page import write_report

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
WIDTHS = (390, 1440)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    data = data_folder(folder / "data")
    for method in ("supervised", "segpl", "<img src=x onerror=alert(1)>"):
        run_folder(folder / "runs" / f"run of {len(method)}", data, method, shifts=(("ood", 0.1),))
    return write_report([folder / "runs"], folder / "report.html")


@pytest.fixture(scope="module")
def browser() -> Iterator:
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(params=WIDTHS)
def page(request, browser, file) -> Iterator:
    """The page as it opens from disk with the network off; whatever it complains of or asks for is kept."""
    context = browser.new_context(viewport={"width": request.param, "height": 900}, offline=True)
    page = context.new_page()
    page.complaints, page.asked = [], []
    page.on("console", lambda message: page.complaints.append(message.text))
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("dialog", lambda dialog: page.complaints.append(dialog.message))
    page.on("request", lambda request: page.asked.append(request.url))
    page.goto(file.as_uri())
    page.wait_for_selector("#viewer-panels canvas")
    yield page
    context.close()


def pixels(page, number=1):
    """The picture that a panel shows."""
    return page.evaluate(
        "n => document.querySelectorAll('#viewer-panels canvas')[n].toDataURL()", number
    )


def place(page):
    return page.text_content("#viewer-place")


def test_the_page_is_quiet_complete_and_as_wide_as_the_screen(page):
    assert not page.complaints
    assert [address for address in page.asked if not address.startswith("data:")] == [page.url]
    assert page.evaluate(
        "[...document.images].every(image => image.complete && image.naturalWidth > 0)"
    )
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.title() == "Report: runs"  # a case is called after a script that would change it


def test_slices_move_by_key_and_by_slider(page):
    assert place(page) == "slice 3 of 5"  # the fullest
    before = pixels(page)
    page.focus("#viewer")
    page.keyboard.press("ArrowRight")
    assert place(page) == "slice 4 of 5"
    assert pixels(page) != before
    page.focus("#viewer-slice")
    page.keyboard.press("ArrowLeft")
    assert (place(page), pixels(page)) == ("slice 3 of 5", before)
    page.fill("#viewer-slice", "0")
    assert place(page) == "slice 1 of 5"
    page.keyboard.press("ArrowLeft")
    assert place(page) == "slice 1 of 5"


def test_cases_change_and_bear_their_names(page):
    names = page.evaluate(
        "[...document.querySelectorAll('#viewer-case option')].map(one => one.textContent)"
    )
    assert set(names) == set(STRANGE)
    before = pixels(page)
    page.focus("#viewer")
    page.keyboard.press("ArrowDown")
    page.wait_for_function(
        "old => document.querySelectorAll('#viewer-panels canvas')[1].toDataURL() !== old",
        arg=before,
    )
    assert page.input_value("#viewer-case") == "1"
    captions = page.evaluate(
        "[...document.querySelectorAll('#viewer-panels figcaption')].map(one => one.textContent)"
    )
    assert captions == ["image", "supervised", "<img src=x onerror=alert(1)>", "segpl"]


@pytest.mark.parametrize(
    ("box", "key"), [("truth", "t"), ("mask", "m"), ("errors", "e"), ("doubt", "u")]
)
def test_each_layer_can_be_switched(page, box, key):
    before = pixels(page)
    page.click(f"#show-{box}")
    assert pixels(page) != before
    page.focus("#viewer")
    page.keyboard.press(key)
    assert pixels(page) == before


def test_errors_have_the_colours_of_the_paper(page):
    for box in ("truth", "mask"):
        page.uncheck(f"#show-{box}")
    page.check("#show-errors")
    script = """() => { const canvas = document.querySelectorAll('#viewer-panels canvas')[1];
        const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
        const seen = new Set();
        for (let at = 0; at < data.length; at += 4) {
            const [r, g, b] = data.slice(at, at + 3), most = Math.max(r, g, b);
            if (most - Math.min(r, g, b) > 60) seen.add(most === r ? 'red' : most === g ? 'green' : 'blue'); }
        return [...seen].sort(); }"""
    assert page.evaluate(script) == ["blue", "green", "red"]
