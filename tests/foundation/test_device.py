"""One module decides where networks run."""

from pathlib import Path

import pytest
import torch

from segpl.foundation.device import choose_device, device_name, has_gpu

SOURCE = Path(__file__).parents[2] / "src/segpl"
EXPORTED = SOURCE / "exporting/bundle.py"
"""It has a line that MONAI runs without segpl."""


def test_nothing_else_asks_torch_for_a_gpu():
    asking = set()
    for file in SOURCE.rglob("*.py"):
        if "cuda.is_available" in file.read_text(encoding="utf-8"):
            asking.add(file)
    assert asking == {SOURCE / "foundation/device.py", EXPORTED}


@pytest.mark.parametrize(("gpu", "kind"), [(True, "cuda"), (False, "cpu")])
def test_the_gpu_is_the_default_if_there_is_one(gpu, kind, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a large one")
    assert has_gpu() == gpu
    assert choose_device().type == kind
    assert choose_device("cpu").type == "cpu"
    assert device_name() == ("a large one" if gpu else "cpu")
