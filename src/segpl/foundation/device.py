"""Where networks run. Only this module decides it."""

import torch


def has_gpu() -> bool:
    """Whether there is a GPU that torch can use."""
    return torch.cuda.is_available()


def choose_device(name: str = "auto") -> torch.device:
    """The device of this name; for `auto` the GPU if there is one, and the CPU otherwise."""
    if name == "auto":
        name = "cuda" if has_gpu() else "cpu"
    return torch.device(name)


def device_name() -> str:
    """The name of the device in records: the GPU's model, or cpu."""
    return torch.cuda.get_device_name() if has_gpu() else "cpu"
