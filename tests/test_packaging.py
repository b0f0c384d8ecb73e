"""What the package says about itself, and what it asks of a user's environment."""

import re
import tomllib
from pathlib import Path

import yaml

import segpl

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def requirements():
    """Those of the package and of all its extras."""
    extras = PROJECT["optional-dependencies"].values()
    return [*PROJECT["dependencies"], *(each for extra in extras for each in extra)]


def test_the_version_is_the_same_everywhere():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert PROJECT["version"] == segpl.__version__ == citation["version"]
    assert f"## {segpl.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_no_package_is_pinned_to_one_version():
    assert not [each for each in requirements() if "==" in each]


def test_no_extra_brings_cuda_or_a_second_torch():
    names = {re.split(r"[^\w.-]", each)[0].lower() for each in requirements()}
    for name in names:
        assert not name.startswith(("nvidia", "cuda", "torchvision", "torchaudio")), name


def test_every_extra_is_documented():
    page = (ROOT / "docs/install.md").read_text(encoding="utf-8")
    for extra in PROJECT["optional-dependencies"]:
        assert f"| `{extra}` |" in page, extra


def test_make_installs_the_torch_that_the_lock_was_made_for():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^TORCH := torch==\d+\.\d+\.\d+$", makefile, re.MULTILINE)
    assert makefile.count("$(TORCH)") == 2  # make setup, make lock
