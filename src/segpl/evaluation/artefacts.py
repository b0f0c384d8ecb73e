"""What can go wrong while a scanner records: the artefacts that radiologists know, each at a severity from 0 to 5.

TorchIO simulates them. Importing it takes a while, hence only what needs an artefact imports this module.
"""

from abc import abstractmethod

import numpy as np
import torch
import torchio
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import interpolate

from segpl.evaluation.shifts import Shift
from segpl.foundation.draws import Stream, generator
from segpl.inference.windows import Predict


class Artefact(Shift):
    """An artefact of the acquisition; at severity 5 the organ is still recognised.

    What is drawn (a direction, an axis, a place) depends on the case alone: from one severity to the next only the
    strength changes. All channels suffer the same, as they do in one acquisition.
    """

    highest = 5.0
    usual = (1.0, 2.0, 3.0, 4.0, 5.0)

    @abstractmethod
    def record(
        self, signal: Float[Tensor, "C X Y Z"], draw: np.random.Generator
    ) -> Float[Tensor, "C X Y Z"]:
        """The signal with the artefact in it. It is 0 where nothing sends any, and never negative."""

    def change(
        self, x: Float[Tensor, "B C X Y Z"], y: Tensor, predict: Predict, seed: int
    ) -> Tensor:
        """Scanners record before anybody normalises: hence back to a signal, and normalised again afterwards."""
        channels = x.detach().flatten(0, 1).float().cpu()
        bodies = [_body(channel) for channel in channels]
        pairs = list(zip(channels, bodies, strict=True))
        signal = torch.stack(
            [torch.where(body, channel - channel[body].min(), 0) for channel, body in pairs]
        )
        recorded = self.record(signal, generator(seed, Stream.SHIFT))
        changed = [_normalise(new, *pair) for new, pair in zip(recorded, pairs, strict=True)]
        return torch.stack(changed).reshape(x.shape).to(x)


def _body(channel: Float[Tensor, "X Y Z"]) -> Bool[Tensor, "X Y Z"]:
    """Where something is: voxels of exactly 0, unless rare, are the background that normalising leaves alone."""
    body = channel != 0
    return body if 0 < body.float().mean() <= 0.99 else torch.ones_like(body)


def _normalise(
    new: Float[Tensor, "X Y Z"], channel: Float[Tensor, "X Y Z"], body: Bool[Tensor, "X Y Z"]
) -> Float[Tensor, "X Y Z"]:
    """Give the body the mean and deviation that it had in the channel. A background was cut away and stays so."""
    before, after = channel[body], new[body]
    scale = before.std(correction=0) / after.std(correction=0).clamp(min=1e-6)
    return torch.where(body, (new - after.mean()) * scale + before.mean(), channel)


class Motion(Artefact):
    """The patient moves three times, turning and shifting within the plane."""

    name = "motion"

    def record(self, signal: Tensor, draw: np.random.Generator) -> Tensor:
        """By up to 3 degrees and 3 % of the field of view, and the nearer to the middle of k-space the more severe.

        The middle itself, 38 to 14 % of the lines, is of the place before the moves, so that the label still fits.
        """
        phase = int(draw.integers(2))
        swapped = signal.transpose(phase + 1, 3)  # TorchIO encodes the phase along the last axis
        within = np.arange(3) != phase  # where the slices are now
        times = 0.5 + (0.22 - 0.03 * self.level) * np.array([-2, -1, 1]) * draw.uniform(
            0.85, 1.15, 3
        )
        strength = 0.12 * self.level**2
        degrees = strength * _signed(draw, 3, 3) * ~within
        translation = strength / 100 * max(signal.shape[1:]) * _signed(draw, 3, 3) * within
        return _simulate(torchio.Motion(degrees, translation, times, "linear"), swapped).transpose(
            phase + 1, 3
        )


class Ghosting(Artefact):
    """Faint copies of the body along an axis of the plane, as breathing and pulse leave them."""

    name = "ghosting"

    def record(self, signal: Tensor, draw: np.random.Generator) -> Tensor:
        """Two to six copies: every so manyth plane of k-space loses 15 % per level."""
        axis, ghosts = int(draw.integers(2)), int(draw.integers(2, 7))
        return _simulate(torchio.Ghosting(ghosts, axis, 0.15 * self.level, restore=None), signal)


class BiasField(Artefact):
    """The coil receives some parts of the body louder than others."""

    name = "bias"

    def record(self, signal: Tensor, draw: np.random.Generator) -> Tensor:
        """A smooth factor: e to a polynomial of third order, with coefficients of up to 0.1 per level."""
        return _simulate(
            torchio.BiasField((0.1 * self.level * draw.uniform(-1, 1, 20)).tolist(), order=3),
            signal,
        )


class Spike(Artefact):
    """An electric spark during the acquisition covers the image with stripes."""

    name = "spike"

    def record(self, signal: Tensor, draw: np.random.Generator) -> Tensor:
        """Four to twenty voxels apart, in any direction of the plane, with 4 % of the body's mean per level."""
        angle, frequency = draw.uniform(0, 2 * np.pi), draw.uniform(0.05, 0.25)
        place = 0.5 + frequency * np.array([[np.cos(angle), np.sin(angle), 0]])
        filled = float(
            (signal > 0).float().mean().clamp(min=1e-6)
        )  # TorchIO's unit is the mean of the field of view
        return _simulate(torchio.Spike(place, 0.04 * self.level / filled), signal)


class Blur(Artefact):
    """The image is out of focus."""

    name = "blur"

    def record(self, signal: Tensor, draw: np.random.Generator) -> Tensor:
        """A Gaussian whose variance is half a squared voxel per level, along every axis that is finely resolved."""
        fine = _fine_axes(signal)
        a, b, c = ((0.5 * self.level) ** 0.5 * (axis in fine) for axis in range(3))
        return _simulate(torchio.Blur((a, b, c)), signal)


class Resolution(Artefact):
    """Thicker slices or fewer lines: one axis is resolved more coarsely."""

    name = "resolution"

    def record(self, signal: Tensor, draw: np.random.Generator) -> Tensor:
        """Voxels that are 60 % longer per level, with a triangular profile, and back to the grid as it was."""
        axis = int(draw.choice(_fine_axes(signal))) + 1
        lines = signal.transpose(axis, 3)
        many, extent = lines[0, ..., 0].numel(), lines.shape[3]
        coarse = max(1, round(extent / (1 + 0.6 * self.level)))
        flat = interpolate(
            lines.flatten(1, 2)[None], (many, coarse), mode="bilinear", antialias=True
        )
        return (
            interpolate(flat, (many, extent), mode="bilinear")[0]
            .reshape(lines.shape)
            .transpose(axis, 3)
        )


class Gamma(Artefact):
    """Another contrast curve: dark parts brighten or darken, black and white stay."""

    name = "gamma"

    def record(self, signal: Tensor, draw: np.random.Generator) -> Tensor:
        """The signal to the power of e to 0.2 per level, or 1 over that."""
        return _simulate(
            torchio.Gamma(float(np.exp(0.2 * self.level * draw.choice([-1, 1])))), signal
        )


def _simulate(
    transform: torchio.Transform, signal: Float[Tensor, "C X Y Z"]
) -> Float[Tensor, "C X Y Z"]:
    """What TorchIO makes of the signal, without the coin that it tosses first from the global generator."""
    affine = np.eye(4)
    affine[:3, 3] = [
        -(extent - 1) / 2 for extent in signal.shape[1:]
    ]  # it turns about the origin: the middle
    subject = torchio.Subject(signal=torchio.ScalarImage(tensor=signal, affine=affine))
    return transform.apply_transform(subject).get_first_image().data


def _signed(draw: np.random.Generator, *shape: int) -> np.ndarray:
    """Between a half and 1, up or down: nobody draws nothing."""
    return draw.choice([-1, 1], shape) * draw.uniform(0.5, 1, shape)


def _fine_axes(signal: Float[Tensor, "C X Y Z"]) -> list[int]:
    """The axes with at least a quarter as many voxels as the longest: not the few thick slices, nor a single one."""
    shape = signal.shape[1:]
    return [axis for axis, extent in enumerate(shape) if 4 * extent >= max(shape)]


ARTEFACTS = (Motion, Ghosting, BiasField, Spike, Blur, Resolution, Gamma)
