"""Properties of every artefact of the acquisition, and hand-worked cases of some."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from segpl.evaluation import artefacts
from segpl.evaluation.artefacts import (
    ARTEFACTS,
    BiasField,
    Blur,
    Gamma,
    Ghosting,
    Motion,
    Resolution,
    Spike,
)
from segpl.foundation.draws import Stream, generator

SHAPES = {"volume": (48, 40, 16), "thick slices": (48, 40, 3), "one slice": (48, 40, 1)}


def body(shape):
    """A head in an empty field of view: smooth, never negative, with two darker chambers."""
    axes = [torch.linspace(-1, 1, n) if n > 1 else torch.zeros(1) for n in shape]
    x, y, z = torch.meshgrid(*axes, indexing="ij")
    inside = (x / 0.8) ** 2 + (y / 0.7) ** 2 + (z / 2) ** 2 < 1
    left_chamber = torch.exp(-(((x + 0.25) / 0.15) ** 2) - (y / 0.4) ** 2)
    right_chamber = torch.exp(-(((x - 0.25) / 0.15) ** 2) - (y / 0.4) ** 2)
    return torch.where(inside, 3 + x + 0.5 * y - 2 * (left_chamber + right_chamber), 0)


def scan(shape, background=True):
    """Two channels of different contrast, normalised as images are when they are loaded."""
    signal = body(shape) if background else body(shape) + 1
    channels = [normalised(signal), normalised(signal.sqrt())]
    return torch.stack(channels)[None]


def normalised(signal):
    inside = signal > 0
    values = signal[inside]
    return torch.where(inside, (signal - values.mean()) / values.std(), 0)


def apply(artefact, level, x, seed=3):
    return artefact(level)(x, x[:, :1], lambda x: x[None], seed)


@pytest.fixture(params=SHAPES)
def x(request):
    return scan(SHAPES[request.param])


def name_of(artefact):
    return artefact.name


@pytest.fixture(params=ARTEFACTS, ids=name_of)
def artefact(request):
    return request.param


def test_the_change_grows_with_the_severity(artefact, x):
    for seed in range(2):
        changes = []
        for level in (0, 0.5, 1, 1.5, 2, 3, 4, 5):
            change = apply(artefact, level, x, seed) - x
            changes.append(change.abs().mean().item())
        assert changes[0] == 0
        for weaker, stronger in pairwise(changes):
            assert weaker < stronger, changes


def test_an_artefact_is_severe_at_5_and_the_organ_is_still_there(artefact, x):
    for seed in range(3):
        where = x != 0
        changed = apply(artefact, 5, x, seed)
        assert (changed - x)[where].abs().mean() > 0.05
        assert torch.corrcoef(torch.stack([changed[where], x[where]]))[0, 1] > 0.5


def test_what_is_drawn_comes_from_the_seed_alone(artefact, x):
    torch.manual_seed(1)
    first = apply(artefact, 2.5, x, seed=2**31)
    torch.manual_seed(2)
    assert torch.equal(first, apply(artefact, 2.5, x, seed=2**31))
    others = [apply(artefact, 2.5, x, seed) for seed in range(8)]
    is_random = any(not torch.equal(first, other) for other in others)
    assert is_random == (artefact is not Blur), "only a blur draws nothing"


def test_no_global_random_state_is_touched(artefact, x):
    torch_state = torch.get_rng_state()
    numpy_state = np.random.get_state()[1].copy()  # noqa: NPY002
    apply(artefact, 3, x)
    assert torch.equal(torch_state, torch.get_rng_state())
    assert np.array_equal(numpy_state, np.random.get_state()[1])  # noqa: NPY002


def test_the_background_stays_and_the_body_stays_normalised(artefact, x):
    changed = apply(artefact, 4, x)
    where = x != 0
    assert torch.equal(changed[~where], x[~where])
    for before, after, inside in zip(x[0], changed[0], where[0], strict=True):
        torch.testing.assert_close(after[inside].mean(), before[inside].mean(), atol=1e-5, rtol=0)
        torch.testing.assert_close(after[inside].std(), before[inside].std(), atol=1e-5, rtol=0)


def test_an_image_without_a_background_changes_everywhere(artefact):
    x = scan(SHAPES["volume"], background=False)
    assert not (x == 0).any()
    assert (apply(artefact, 4, x) != x).float().mean() > 0.9


def test_all_channels_get_the_same_artefact(artefact, x):
    twins = x[:, [0, 0]]
    first, second = apply(artefact, 3, twins)[0]
    assert torch.equal(first, second)
    assert not torch.equal(first, twins[0, 0])


@pytest.mark.parametrize("value", [0.0, 1.5])
def test_an_image_of_one_value_stays_as_it_is(artefact, value):
    x = torch.full((1, 2, 16, 16, 4), value)
    assert torch.equal(apply(artefact, 3, x), x)


def test_the_image_keeps_its_type_and_is_not_changed_in_place(artefact, x):
    copy = x.clone()
    assert apply(artefact, 3, x.double()).dtype == torch.float64
    apply(artefact, 3, x)
    assert torch.equal(x, copy)


DRAWN = {Ghosting: ["num_ghosts", "axis"], BiasField: ["order"], Spike: ["spikes_positions"]}
STRENGTH = {
    Motion: ["degrees", "translation"],
    Ghosting: ["intensity"],
    BiasField: ["coefficients"],
    Spike: ["intensity"],
    Blur: ["std"],
}


@pytest.fixture
def transforms(monkeypatch):
    """Collects TorchIO's transforms of a volume at severities 1.25 and 5."""

    def collect(artefact):
        used = []

        def record(transform, signal):
            used.append(transform)
            return signal

        monkeypatch.setattr(artefacts, "_simulate", record)
        apply(artefact, 1.25, scan(SHAPES["volume"]))
        apply(artefact, 5, scan(SHAPES["volume"]))
        return used

    return collect


@pytest.mark.parametrize("artefact", STRENGTH, ids=name_of)
def test_between_severities_only_the_strength_changes(artefact, transforms):
    weak, strong = transforms(artefact)
    growth = {Motion: 16, Blur: 2}.get(artefact, 4)
    for name in DRAWN.get(artefact, []):
        np.testing.assert_array_equal(getattr(weak, name), getattr(strong, name))
    for name in STRENGTH[artefact]:
        np.testing.assert_allclose(growth * np.array(getattr(weak, name)), getattr(strong, name))
        assert np.any(getattr(strong, name))


def test_severe_motion_is_nearer_to_the_centre_of_k_space(transforms):
    weak, strong = transforms(Motion)
    np.testing.assert_allclose(strong.times - 0.5, (weak.times - 0.5) * 0.07 / 0.1825)
    assert sorted(np.sign(weak.times - 0.5)) == [-1, -1, 1]


@pytest.mark.parametrize("artefact", [Resolution, Blur])
def test_thick_slices_are_not_mixed(artefact):
    signal = body(SHAPES["thick slices"])[None]
    signal[..., 0] = 0
    for seed in range(4):
        recorded = artefact(5).record(signal, generator(seed))
        assert not recorded[..., 0].any()
        assert not torch.equal(recorded, signal)


def test_two_coarse_voxels_in_place_of_eight_worked_by_hand():
    """Voxels 4 times as long weigh the six nearest 5, 7, 7, 5, 3, 1; then linear interpolation."""
    row = torch.tensor([0.0, 0, 0, 0, 1, 1, 1, 1]).reshape(1, 8, 1, 1)
    recorded = Resolution(5).record(row, generator(0)).flatten()
    low = (3 + 1) / 28
    high = (5 + 7 + 7 + 5) / 28
    shares = torch.tensor([0, 0, 0.125, 0.375, 0.625, 0.875, 1, 1])
    torch.testing.assert_close(recorded, low + shares * (high - low))


def test_one_axis_is_coarse_the_same_at_every_severity():
    signal = torch.zeros(1, 24, 24, 24)
    signal[0, 12, 12, 12] = 1
    coarse_axes = set()
    for seed in range(12):
        axes = set()
        for level in (1, 3, 5):
            recorded = Resolution(level).record(signal, generator(seed))[0]
            axes.add(coarse_axis(recorded))
        assert len(axes) == 1
        coarse_axes |= axes
    assert coarse_axes == {0, 1, 2}


def coarse_axis(volume):
    """The only axis along which a single bright voxel has become several."""
    coordinates = volume.nonzero()
    (axis,) = [axis for axis in range(3) if len(coordinates[:, axis].unique()) > 1]
    return axis


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_moving_patient_stays_where_the_label_is(shape):
    """The centre of k-space, the sum along the encoded axis, is that before the moves."""
    signal = body(shape)[None]
    axes = set()
    for seed in range(6):
        recorded = Motion(5).record(signal, generator(seed))
        errors = [(recorded.sum(axis) - signal.sum(axis)).abs().max().item() for axis in (1, 2)]
        assert min(errors) < 1e-3 < max(errors)
        axes.add(errors.index(min(errors)))
    assert axes == {0, 1}


def test_a_patient_rotates_about_the_centre(monkeypatch):
    """A disc in the centre is not changed by a rotation."""
    monkeypatch.setattr(artefacts, "_signed", lambda draw, *shape: np.ones(shape))
    x, y = torch.meshgrid(torch.arange(41) - 20.0, torch.arange(41) - 20.0, indexing="ij")
    disc = torch.exp(-(x**2 + y**2) / 8)[None, :, :, None]
    motion = artefacts.torchio.Motion

    def only_rotation(degrees, translation, *rest):
        return motion(degrees, 0 * translation, *rest)

    monkeypatch.setattr(artefacts.torchio, "Motion", only_rotation)
    torch.testing.assert_close(Motion(5).record(disc, generator(0)), disc, atol=0.01, rtol=0)


def test_stripes_are_a_wave_of_known_height():
    signal = body(SHAPES["volume"])[None]
    stripes = Spike(2).record(signal, generator(5)) - signal
    height = 0.04 * 2 * signal[signal > 0].mean()
    torch.testing.assert_close(stripes.max(), height, rtol=0.02, atol=0)
    spectrum = torch.fft.fftn(stripes[0]).abs()
    assert (spectrum > 1).sum() == 2, "the spike and its mirror image, because images are real"
    torch.testing.assert_close(stripes[..., 0], stripes[..., -1])


def test_gamma_is_a_power_and_its_inverse():
    signal = body(SHAPES["volume"])[None]
    powers = set()
    for seed in range(6):
        recorded = Gamma(5).record(signal, generator(seed))
        is_power = torch.allclose(recorded, signal**np.e)
        is_root = torch.allclose(recorded, signal ** (1 / np.e))
        assert is_power != is_root
        powers.add(is_power)
    assert powers == {True, False}


def test_a_bias_field_is_a_smooth_factor():
    signal = body(SHAPES["volume"])[None]
    weak = BiasField(1).record(signal, generator(9)) / signal
    strong = BiasField(3).record(signal, generator(9)) / signal
    inside = signal > 0
    torch.testing.assert_close(weak[inside] ** 3, strong[inside])
    steps = weak.log().diff(dim=1)[inside[:, 1:] & inside[:, :-1]]
    assert 0 < steps.abs().max() < 0.15


def test_the_draws_are_the_stream_of_shifts():
    """So that what an artefact draws never changes with what anything else draws."""
    x = scan(SHAPES["one slice"])
    lowest = x[0].flatten(1).min(1).values
    signal = torch.where(x != 0, x - lowest[:, None, None, None], 0)
    recorded = Ghosting(2).record(signal[0], generator(3, Stream.SHIFT))[0]
    changed = apply(Ghosting, 2, x)[0, 0]
    inside = x[0, 0] != 0
    joint = torch.stack([recorded[inside], changed[inside]])
    torch.testing.assert_close(torch.corrcoef(joint)[0, 1], torch.tensor(1.0))
