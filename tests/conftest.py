"""Shapes and types are checked at run time, but only here. What tests share."""

from jaxtyping import install_import_hook

install_import_hook("segpl", "typechecker.check")  # before anything of segpl is imported

import atexit  # noqa: E402
import locale  # noqa: E402
import os  # noqa: E402
import shutil  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
from collections.abc import Callable  # noqa: E402
from pathlib import Path  # noqa: E402

import nibabel  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402

from segpl.data.phantoms import write_phantoms  # noqa: E402
from segpl.em.types import Batch  # noqa: E402
from segpl.networks.unet import UNet  # noqa: E402

pytest_plugins = ["drawn_runs"]
os.environ["SEGPL_CACHE"] = tempfile.mkdtemp(prefix="segpl-cache-")  # never the user's own
atexit.register(shutil.rmtree, os.environ["SEGPL_CACHE"], ignore_errors=True)
torch.set_num_threads(
    1
)  # two test processes on two cores; more threads than cores stall each other


def small(folder: Path, depth: int) -> Path:
    """The middle of each volume: tests need less of it than users do."""
    for file in folder.glob("*/*.nii.gz"):
        image = nibabel.load(file)
        start = (image.shape[2] - depth) // 2
        middle = image.slicer[16:80, 16:80, start : start + depth]
        nibabel.save(nibabel.Nifti1Image(np.asarray(middle.dataobj), middle.affine), file)
    return folder


@pytest.fixture(scope="session")
def tumours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six tumour phantoms: two labelled, two unlabelled, two test subjects."""
    return small(
        write_phantoms("tumour", tmp_path_factory.mktemp("data") / "tumours", subjects=6), depth=12
    )


@pytest.fixture(scope="session")
def vessels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small(
        write_phantoms("vessels", tmp_path_factory.mktemp("data") / "vessels", subjects=6), depth=16
    )


@pytest.fixture(params=[(16, 16), (16, 16, 3)], ids=["2D", "3D"])
def patch(request: pytest.FixtureRequest) -> tuple[int, ...]:
    return request.param


@pytest.fixture
def batch(patch: tuple[int, ...]) -> Batch:
    """Two labelled and three unlabelled images of two channels, with two regions that can be seen in the channels."""
    draw = torch.Generator().manual_seed(7)
    x = torch.randn(5, 2, *patch, generator=draw)
    y = (x[:2] > 0.3).float()
    return Batch(
        x[:2],
        y,
        x[:2].flip(0),
        y.flip(0),
        x[2:],
        torch.tensor([21, 22]),
        torch.tensor([11, 12, 13]),
    )


@pytest.fixture
def network(patch: tuple[int, ...]) -> Callable[[], UNet]:
    return lambda: UNet(inputs=2, regions=2, channels=4, patch=patch)


@pytest.fixture
def segpl() -> Callable[..., subprocess.CompletedProcess[str]]:
    """The command line as a user calls it, in a process of its own."""

    def call(*words: object) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "segpl", *map(str, words)]
        return subprocess.run(
            command, capture_output=True, encoding="utf-8", env=environment, check=False
        )

    return call


@pytest.fixture
def utf_8():
    """Text files as torch's compiler expects them: a library that another test called may have changed the locale."""
    before = locale.setlocale(locale.LC_CTYPE)
    locale.setlocale(locale.LC_CTYPE, "C.UTF-8")
    yield
    locale.setlocale(locale.LC_CTYPE, before)
