"""The page on the paper names only what exists, and quotes only what is kept."""

import importlib
import importlib.util
import re
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/paper.md").read_text(encoding="utf-8")
QUOTED = sorted(set(re.findall(r"`([^`\n]+)`", PAGE)))
"""Everything in back quotes: symbols, tests, files, commands and settings."""

SYMBOLS = [text for text in QUOTED if re.fullmatch(r"segpl(\.\w+)+", text)]
TESTS = [text for text in QUOTED if "::" in text]
FILES = [text for text in QUOTED if re.fullmatch(r"(src|studies|docs)/[\w/.-]+", text)]
COMMANDS = [text for text in QUOTED if re.match(r"(segpl|python) .*studies/", text)]
PICTURES = re.findall(r"!\[[^]]+\]\(([^)]+)\)", PAGE)
LINKS = re.findall(r"(?<!!)\[[^]]+\]\(([^)]+)\)", PAGE)


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_every_symbol_exists(symbol):
    module, _, name = symbol.rpartition(".")
    assert hasattr(importlib.import_module(module), name)


@pytest.mark.parametrize("test", TESTS)
def test_every_test_exists(test):
    file, _, name = test.partition("::")
    assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("file", [*FILES, *(f"docs/{picture}" for picture in PICTURES)])
def test_every_file_exists(file):
    assert (ROOT / file).is_file()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_names_a_file_that_exists(command):
    (file,) = re.findall(r"studies/[\w.]+", command)
    assert (ROOT / file).is_file()


@pytest.mark.parametrize("link", LINKS)
def test_every_link_leads_somewhere(link):
    file, _, anchor = link.partition("#")
    page = (ROOT / "docs" / file).read_text(encoding="utf-8") if file else PAGE
    headings = re.findall(r"^#+ (.+)$", page, flags=re.MULTILINE)
    anchors = [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]
    assert not anchor or anchor in anchors


@pytest.mark.parametrize("equation", range(1, 9))
def test_every_equation_of_the_paper_has_a_test_and_a_row(equation):
    tests = []
    for file in (ROOT / "tests").rglob("test_*.py"):
        tests += re.findall(rf"def (test_eq_{equation}_\w+)", file.read_text(encoding="utf-8"))
    assert tests
    assert re.search(rf"^\| {equation}: ", PAGE, flags=re.MULTILINE)


def test_quoted_effects_are_those_of_the_page_of_results():
    results = (ROOT / "docs/results.md").read_text(encoding="utf-8")
    effects = re.findall(r"[+-]\d+\.\d \([+-]\d+\.\d to [+-]\d+\.\d\)", PAGE)
    assert len(effects) == 8
    for effect in effects:
        assert effect in results


def test_quoted_sizes_of_networks_are_the_kept_ones():
    sizes = pd.read_csv(ROOT / "studies/results/model_sizes.csv").set_index("method")
    learning = sizes["flops_unlabelled"].where(sizes["flops_unlabelled"] > 0)
    learning = learning.fillna(sizes["flops_labelled"])
    parameters = [f"{count / 1e3:.1f}" for count in sizes["parameters"]]
    gigaflops = [f"{count / 1e9:.2f}" for count in learning]
    assert _first_numbers("parameters, thousands") == parameters
    assert _first_numbers("GFLOP to learn from an image") == gigaflops


def _first_numbers(title: str) -> list[str]:
    """Our number in each cell of a row; the paper's follows in brackets."""
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| {title} |")]
    return re.findall(r"\| ([\d.]+) \(", row)


def test_quoted_learning_rates_are_the_kept_ones():
    kept = pd.read_csv(ROOT / "studies/results/understanding.csv")
    best = 100 * kept.groupby(["variant", "seed"])["validation_iou"].max()
    for rate in ("0.003", "0.01"):
        cells = []
        for data in ("", "BraTS: ", "DRIVE: "):
            of_seeds = best[f"{data}supervised, rate {rate}"]
            cells.append(", ".join(f"{value:.1f}" for value in of_seeds))
        assert f"| {rate} | {' | '.join(cells)} |" in PAGE


@pytest.mark.parametrize(
    ("quoted", "method", "choose"),
    [
        ("ends at 0.500", "segpl-vi", "last"),
        ("ends at 0.499", "segpl-elbo", "last"),
        ("falls to 0.374 at step 30", "segpl-elbo, KL x 0.01", "min"),
        ("ends at 0.459", "segpl-elbo, KL x 0.01", "last"),
        ("rises to 0.698 at step 44", "segpl-elbo, labels, KL x 0.01", "max"),
        ("ends at\n  0.546", "segpl-elbo, labels, KL x 0.01", "last"),
        ("mean 0.495 at the end", "segpl-vi, categorical", "last"),
    ],
)
def test_quoted_thresholds_are_the_kept_ones(quoted, method, choose):
    kept = pd.read_csv(ROOT / "studies/results/thresholds.csv").set_index("step")
    means = kept[kept["method"] == method]["posterior_mean"]
    value = means.iloc[-1] if choose == "last" else getattr(means, choose)()
    assert quoted in PAGE
    assert f"{value:.3f}" in quoted
    if "step" in quoted:
        step = getattr(means, f"idx{choose}")()
        assert quoted.endswith(f"step {step:.0f}")


def study_program(name):
    """A program of `studies`, as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"studies/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_diagrams_can_be_drawn(tmp_path, monkeypatch):
    diagrams = study_program("diagrams")
    monkeypatch.setattr(diagrams, "DOCS", tmp_path)
    diagrams.main()
    for name in ("model.svg", "data-flow.svg"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert len(text) == pytest.approx(len((ROOT / "docs" / name).read_text()), rel=0.2)


def test_the_figure_of_thresholds_can_be_drawn_from_the_kept_numbers(tmp_path):
    thresholds = study_program("thresholds")
    thresholds.draw(tmp_path / "thresholds.svg")
    text = (tmp_path / "thresholds.svg").read_text(encoding="utf-8")
    for method in pd.read_csv(thresholds.KEPT)["method"].unique():
        assert method in text
