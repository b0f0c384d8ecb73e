"""Artefacts of the acquisition that radiologists know, each at a severity from 0 to 5.

TorchIO simulates them. It is slow to import, so import this module only where it is needed.
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

Channel = Float[Tensor, "X Y Z"]
Channels = Float[Tensor, "C X Y Z"]
Mask = Bool[Tensor, "X Y Z"]


class Artefact(Shift):
    """An artefact of the acquisition; at severity 5 the organ can still be recognised.

    What is drawn (a direction, an axis, a position) depends on the case alone: between severities
    only the strength changes. All channels get the same artefact, as in one acquisition.
    """

    highest = 5.0
    default_levels = (1.0, 2.0, 3.0, 4.0, 5.0)

    @abstractmethod
    def record(self, signal: Channels, draw: np.random.Generator) -> Channels:
        """The signal with the artefact. A signal is never negative, and 0 outside the body."""

    def change(
        self,
        x: Float[Tensor, "B C X Y Z"],
        y: Tensor,
        predict: Predict,
        seed: int,
    ) -> Tensor:
        """The image with the artefact.

        Scanners record before anybody normalises. So the image goes back to a signal, and is
        normalised again after the artefact.
        """
        channels = x.detach().flatten(0, 1)
        channels = channels.float().cpu()
        bodies = [_body(channel) for channel in channels]
        signals = []
        for channel, body in zip(channels, bodies, strict=True):
            lowest = channel[body].min()
            signals.append(torch.where(body, channel - lowest, 0))
        recorded = self.record(torch.stack(signals), generator(seed, Stream.SHIFT))
        normalised = []
        for signal, channel, body in zip(recorded, channels, bodies, strict=True):
            normalised.append(_normalise_like(channel, signal, body))
        changed = torch.stack(normalised)
        return changed.reshape(x.shape).to(x)


def _body(channel: Channel) -> Mask:
    """Where the body is: everywhere but at voxels of exactly 0, the background after normalising.

    Where zeros are rare (at most 1 %) or all there is, the image has no background.
    """
    body = channel != 0
    share = body.float().mean()
    if 0 < share <= 0.99:
        return body
    return torch.ones_like(body)


def _normalise_like(channel: Channel, signal: Channel, body: Mask) -> Channel:
    """The signal, with the channel's mean and standard deviation over the body.

    The background is that of the channel.
    """
    before = channel[body]
    after = signal[body]
    std_before = before.std(correction=0)
    std_after = after.std(correction=0)
    scale = std_before / std_after.clamp(min=1e-6)
    normalised = (signal - after.mean()) * scale + before.mean()
    return torch.where(body, normalised, channel)


class Motion(Artefact):
    """The patient moves three times, rotating and shifting within the plane."""

    name = "motion"

    def record(self, signal: Tensor, draw: np.random.Generator) -> Tensor:
        """Moves of up to 3 degrees and 3 % of the field of view.

        The more severe, the nearer the moves are to the centre of k-space. The centre itself, 38 to
        14 % of the lines, shows the position before the moves, so the label still fits.
        """
        phase_axis = int(draw.integers(2))
        # TorchIO encodes the phase along the last axis, so the slices are at `phase_axis` now.
        swapped = signal.transpose(phase_axis + 1, 3)
        is_in_plane = np.arange(3) != phase_axis
        distance = 0.22 - 0.03 * self.level
        jitter = draw.uniform(0.85, 1.15, 3)
        times = 0.5 + distance * np.array([-2, -1, 1]) * jitter
        strength = 0.12 * self.level**2
        rotations = _signed(draw, 3, 3)
        degrees = strength * rotations * ~is_in_plane
        field_of_view = max(signal.shape[1:])
        shifts = _signed(draw, 3, 3)
        translation = strength / 100 * field_of_view * shifts * is_in_plane
        motion = torchio.Motion(degrees, translation, times, "linear")
        return _simulate(motion, swapped).transpose(phase_axis + 1, 3)


class Ghosting(Artefact):
    """Faint copies of the body along an axis of the plane, as breathing and pulse leave them."""

    name = "ghosting"

    def record(self, signal: Tensor, draw: np.random.Generator) -> Tensor:
        """N = 2 to 6 copies: every Nth plane of k-space loses 15 % per level."""
        axis = int(draw.integers(2))
        copies = int(draw.integers(2, 7))
        ghosting = torchio.Ghosting(copies, axis, 0.15 * self.level, restore=None)
        return _simulate(ghosting, signal)


class BiasField(Artefact):
    """The coil is more sensitive to some regions of the body than to others."""

    name = "bias"

    def record(self, signal: Tensor, draw: np.random.Generator) -> Tensor:
        """A smooth factor: exp of a polynomial of order 3, coefficients up to 0.1 per level."""
        limit = 0.1 * self.level
        coefficients = limit * draw.uniform(-1, 1, 20)
        bias_field = torchio.BiasField(coefficients.tolist(), order=3)
        return _simulate(bias_field, signal)


class Spike(Artefact):
    """An electric spark during the acquisition covers the image with stripes."""

    name = "spike"

    def record(self, signal: Tensor, draw: np.random.Generator) -> Tensor:
        """Stripes 4 to 20 voxels apart, in any direction of the plane.

        Their height is 4 % of the body's mean per level.
        """
        angle = draw.uniform(0, 2 * np.pi)
        frequency = draw.uniform(0.05, 0.25)
        direction = np.array([[np.cos(angle), np.sin(angle), 0]])
        position = 0.5 + frequency * direction
        # TorchIO's unit is the mean of the whole field of view, not of the body.
        is_body = signal > 0
        body_share = is_body.float().mean().clamp(min=1e-6)
        intensity = 0.04 * self.level / float(body_share)
        return _simulate(torchio.Spike(position, intensity), signal)


class Blur(Artefact):
    """The image is out of focus."""

    name = "blur"

    def record(self, signal: Tensor, draw: np.random.Generator) -> Tensor:
        """A Gaussian of variance 0.5 voxels^2 per level, along every finely resolved axis."""
        sigma = (0.5 * self.level) ** 0.5
        sigmas = [0.0, 0.0, 0.0]
        for axis in _fine_axes(signal):
            sigmas[axis] = sigma
        return _simulate(torchio.Blur(tuple(sigmas)), signal)


class Resolution(Artefact):
    """Thicker slices or fewer lines: one axis has a lower resolution."""

    name = "resolution"

    def record(self, signal: Tensor, draw: np.random.Generator) -> Tensor:
        """Voxels 60 % longer per level, with a triangular profile, and back to the old grid."""
        axis = int(draw.choice(_fine_axes(signal))) + 1
        lines_last = signal.transpose(axis, 3)
        length = lines_last.shape[3]
        factor = 1 + 0.6 * self.level
        coarse_length = max(1, round(length / factor))
        lines = lines_last.flatten(1, 2)[None]
        count = lines.shape[2]
        coarse = interpolate(lines, (count, coarse_length), mode="bilinear", antialias=True)
        (restored,) = interpolate(coarse, (count, length), mode="bilinear")
        restored = restored.reshape(lines_last.shape)
        return restored.transpose(axis, 3)


class Gamma(Artefact):
    """Another contrast curve: dark parts brighten or darken, black and white stay."""

    name = "gamma"

    def record(self, signal: Tensor, draw: np.random.Generator) -> Tensor:
        """The signal to the power of exp(0.2 per level), or of its inverse."""
        sign = draw.choice([-1, 1])
        exponent = np.exp(0.2 * self.level * sign)
        return _simulate(torchio.Gamma(float(exponent)), signal)


def _simulate(transform: torchio.Transform, signal: Channels) -> Channels:
    """The signal after TorchIO's transform.

    `apply_transform` skips TorchIO's own random decision, which uses the global generator.
    """
    affine = np.eye(4)
    # TorchIO rotates about the origin, so the origin must be the centre of the volume.
    affine[:3, 3] = [-(length - 1) / 2 for length in signal.shape[1:]]
    image = torchio.ScalarImage(tensor=signal, affine=affine)
    subject = torchio.Subject(signal=image)
    changed = transform.apply_transform(subject)
    return changed.get_first_image().data


def _signed(draw: np.random.Generator, *shape: int) -> np.ndarray:
    """Numbers in [-1, -0.5] or [0.5, 1]: never close to 0, which would be no artefact."""
    sign = draw.choice([-1, 1], shape)
    size = draw.uniform(0.5, 1, shape)
    return sign * size


def _fine_axes(signal: Channels) -> list[int]:
    """The axes with at least a quarter of the longest axis's voxels, so not those of few slices."""
    shape = signal.shape[1:]
    longest = max(shape)
    return [axis for axis, length in enumerate(shape) if 4 * length >= longest]


ARTEFACTS = (Motion, Ghosting, BiasField, Spike, Blur, Resolution, Gamma)
