"""Fixtures that all tests share. Shapes and types are checked at run time in tests only."""

from jaxtyping import install_import_hook

install_import_hook("segpl", "typechecker.check")  # before anything of segpl is imported

import atexit  # noqa: E402
import locale  # noqa: E402
import os  # noqa: E402
import shutil  # noqa: E402
import signal  # noqa: E402
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
# Two test processes run on two cores, and more threads than cores slow each other down.
torch.set_num_threads(1)
# A shell starts programs in the background with SIGINT ignored, and tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)


def crop(folder: Path, depth: int) -> Path:
    """Keep only the middle of each volume, so that tests are fast."""
    for file in folder.glob("*/*.nii.gz"):
        image = nibabel.load(file)
        start = (image.shape[2] - depth) // 2
        middle = image.slicer[16:80, 16:80, start : start + depth]
        voxels = np.asarray(middle.dataobj)
        nibabel.save(nibabel.Nifti1Image(voxels, middle.affine), file)
    return folder


@pytest.fixture(scope="session")
def tumours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six tumour phantoms: two labelled, two unlabelled, two test subjects."""
    folder = tmp_path_factory.mktemp("data") / "tumours"
    return crop(write_phantoms("tumour", folder, subjects=6), depth=12)


@pytest.fixture(scope="session")
def vessels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six vessel phantoms: two labelled, two unlabelled, two test subjects."""
    folder = tmp_path_factory.mktemp("data") / "vessels"
    return crop(write_phantoms("vessels", folder, subjects=6), depth=16)


@pytest.fixture(params=[(16, 16), (16, 16, 3)], ids=["2D", "3D"])
def patch(request: pytest.FixtureRequest) -> tuple[int, ...]:
    return request.param


@pytest.fixture
def batch(patch: tuple[int, ...]) -> Batch:
    """Two labelled and three unlabelled images; each of two regions is bright in one channel."""
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(5, 2, *patch, generator=generator)
    x_l = x[:2]
    y_l = (x_l > 0.3).float()
    return Batch(
        x_l=x_l,
        y_l=y_l,
        x_p=x_l.flip(0),
        y_p=y_l.flip(0),
        x_u=x[2:],
        seeds_l=torch.tensor([21, 22]),
        seeds_u=torch.tensor([11, 12, 13]),
    )


@pytest.fixture
def network(patch: tuple[int, ...]) -> Callable[[], UNet]:
    """A function that makes a small network for `batch`, with new weights at each call."""
    return lambda: UNet(inputs=2, regions=2, channels=4, patch=patch)


@pytest.fixture
def segpl() -> Callable[..., subprocess.CompletedProcess[str]]:
    """A function that calls the command line as a user does, in its own process."""

    def call(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "segpl", *map(str, arguments)],
            capture_output=True,
            encoding="utf-8",
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            check=False,
        )

    return call


@pytest.fixture
def utf_8():
    """Set the locale that torch's compiler needs: libraries called by other tests may change it."""
    before = locale.setlocale(locale.LC_CTYPE)
    locale.setlocale(locale.LC_CTYPE, "C.UTF-8")
    yield
    locale.setlocale(locale.LC_CTYPE, before)
