"""What holds for every artefact of the acquisition, and hand-worked cases of some."""

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
    x, y, z = torch.meshgrid(
        *(torch.linspace(-1, 1, n) if n > 1 else torch.zeros(1) for n in shape), indexing="ij"
    )
    inside = (x / 0.8) ** 2 + (y / 0.7) ** 2 + (z / 2) ** 2 < 1
    chambers = sum(
        torch.exp(-(((x - side) / 0.15) ** 2) - (y / 0.4) ** 2) for side in (-0.25, 0.25)
    )
    return torch.where(inside, 3 + x + 0.5 * y - 2 * chambers, 0)


def scan(shape, background=True):
    """Two channels of different contrast, normalised as images are when they are loaded."""
    signal = body(shape) if background else body(shape) + 1
    where = signal > 0
    channels = [
        torch.where(where, (c - c[where].mean()) / c[where].std(), 0)
        for c in (signal, signal.sqrt())
    ]
    return torch.stack(channels)[None]


def apply(kind, level, x, seed=3):
    return kind(level)(x, x[:, :1], lambda x: x[None], seed)


@pytest.fixture(params=SHAPES)
def x(request):
    return scan(SHAPES[request.param])


@pytest.fixture(params=ARTEFACTS, ids=lambda kind: kind.name)
def kind(request):
    return request.param


def test_the_change_grows_with_the_severity(kind, x):
    for seed in range(2):
        changes = [
            (apply(kind, level, x, seed) - x).abs().mean().item()
            for level in (0, 0.5, 1, 1.5, 2, 3, 4, 5)
        ]
        assert changes[0] == 0
        assert all(weaker < stronger for weaker, stronger in pairwise(changes)), changes


def test_an_artefact_is_severe_at_5_and_the_organ_is_still_there(kind, x):
    for seed in range(3):
        where = x != 0
        changed = apply(kind, 5, x, seed)
        assert (changed - x)[where].abs().mean() > 0.05
        assert torch.corrcoef(torch.stack([changed[where], x[where]]))[0, 1] > 0.5


def test_what_is_drawn_comes_from_the_seed_alone(kind, x):
    torch.manual_seed(1)
    first = apply(kind, 2.5, x, seed=2**31)
    torch.manual_seed(2)
    assert torch.equal(first, apply(kind, 2.5, x, seed=2**31))
    others = [apply(kind, 2.5, x, seed) for seed in range(8)]
    assert any(not torch.equal(first, other) for other in others) == (
        kind is not Blur
    )  # which draws nothing


def test_no_global_random_state_is_touched(kind, x):
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    apply(kind, 3, x)
    assert torch.equal(before[0], torch.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002


def test_the_background_stays_and_the_body_stays_normalised(kind, x):
    changed = apply(kind, 4, x)
    where = x != 0
    assert torch.equal(changed[~where], x[~where])
    for before, after, inside in zip(x[0], changed[0], where[0], strict=True):
        torch.testing.assert_close(after[inside].mean(), before[inside].mean(), atol=1e-5, rtol=0)
        torch.testing.assert_close(after[inside].std(), before[inside].std(), atol=1e-5, rtol=0)


def test_an_image_without_a_background_changes_everywhere(kind):
    x = scan(SHAPES["volume"], background=False)
    assert not (x == 0).any()
    assert (apply(kind, 4, x) != x).float().mean() > 0.9


def test_all_channels_suffer_the_same(kind, x):
    twins = x[:, [0, 0]]
    first, second = apply(kind, 3, twins)[0]
    assert torch.equal(first, second)
    assert not torch.equal(first, twins[0, 0])


@pytest.mark.parametrize("value", [0.0, 1.5])
def test_an_image_of_one_value_stays_as_it_is(kind, value):
    x = torch.full((1, 2, 16, 16, 4), value)
    assert torch.equal(apply(kind, 3, x), x)


def test_the_image_keeps_its_type_and_is_not_changed_in_place(kind, x):
    copy = x.clone()
    assert apply(kind, 3, x.double()).dtype == torch.float64
    apply(kind, 3, x)
    assert torch.equal(x, copy)


DRAWN = {Ghosting: ["num_ghosts", "axis"], BiasField: ["order"], Spike: ["spikes_positions"]}
STRENGTH = {
    Motion: ["degrees", "translation"],
    Ghosting: ["intensity"],
    BiasField: ["coefficients"],
}
STRENGTH |= {Spike: ["intensity"], Blur: ["std"]}


@pytest.fixture
def transforms(monkeypatch):
    """What TorchIO is asked to do to a volume at severities 1.25 and 5."""

    def collect(kind):
        seen = []
        monkeypatch.setattr(
            artefacts, "_simulate", lambda transform, signal: seen.append(transform) or signal
        )
        for level in (1.25, 5):
            apply(kind, level, scan(SHAPES["volume"]))
        return seen

    return collect


@pytest.mark.parametrize("kind", STRENGTH, ids=lambda kind: kind.name)
def test_from_one_severity_to_the_next_only_the_strength_changes(kind, transforms):
    weak, strong = transforms(kind)
    growth = {Motion: 16, Blur: 2}.get(kind, 4)
    for name in DRAWN.get(kind, []):
        np.testing.assert_array_equal(getattr(weak, name), getattr(strong, name))
    for name in STRENGTH[kind]:
        np.testing.assert_allclose(growth * np.array(getattr(weak, name)), getattr(strong, name))
        assert np.any(getattr(strong, name))


def test_severe_motion_comes_nearer_to_the_middle_of_k_space(transforms):
    weak, strong = (transform.times - 0.5 for transform in transforms(Motion))
    np.testing.assert_allclose(strong, weak * 0.07 / 0.1825)
    assert sorted(np.sign(weak)) == [-1, -1, 1]


@pytest.mark.parametrize("kind", [Resolution, Blur])
def test_few_slices_are_not_mixed(kind):
    signal = body(SHAPES["thick slices"])[None]
    signal[..., 0] = 0
    for seed in range(4):
        recorded = kind(5).record(signal, generator(seed))
        assert not recorded[..., 0].any()
        assert not torch.equal(recorded, signal)


def test_two_coarse_voxels_in_place_of_eight_worked_by_hand():
    """Voxels of four lengths: the profile weighs its six nearest 5, 7, 7, 5, 3, 1; then straight lines between them."""
    row = torch.tensor([0.0, 0, 0, 0, 1, 1, 1, 1]).reshape(1, 8, 1, 1)
    recorded = Resolution(5).record(row, generator(0)).flatten()
    low, high = (3 + 1) / 28, (5 + 7 + 7 + 5) / 28
    wanted = [low + share * (high - low) for share in (0, 0, 0.125, 0.375, 0.625, 0.875, 1, 1)]
    torch.testing.assert_close(recorded, torch.tensor(wanted))


def test_one_axis_is_coarse_the_same_at_every_severity_and_every_axis_may_be():
    signal = torch.zeros(1, 24, 24, 24)
    signal[0, 12, 12, 12] = 1
    found = set()
    for seed in range(12):
        recorded = [Resolution(level).record(signal, generator(seed))[0] for level in (1, 3, 5)]
        spread = {
            tuple(len(places.unique()) > 1 for places in each.nonzero().T) for each in recorded
        }
        assert len(spread) == 1
        assert sum(*spread) == 1
        found |= spread
    assert len(found) == 3


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_moving_patient_stays_where_the_label_is(shape):
    """The middle of k-space is the sum along the encoded axis, and that is of the patient before the moves."""
    signal = body(shape)[None]
    axes = set()
    for seed in range(6):
        recorded = Motion(5).record(signal, generator(seed))
        errors = [(recorded.sum(axis) - signal.sum(axis)).abs().max().item() for axis in (1, 2)]
        assert min(errors) < 1e-3 < max(errors)
        axes.add(errors.index(min(errors)))
    assert axes == {0, 1}


def test_a_patient_turns_about_the_middle(monkeypatch):
    """A disc in the middle does not notice a turn."""
    monkeypatch.setattr(artefacts, "_signed", lambda draw, *shape: np.ones(shape))
    x, y = torch.meshgrid(torch.arange(41) - 20.0, torch.arange(41) - 20.0, indexing="ij")
    disc = torch.exp(-(x**2 + y**2) / 8)[None, :, :, None]
    turn = artefacts.torchio.Motion
    still = lambda degrees, translation, *rest: turn(degrees, 0 * translation, *rest)  # noqa: E731
    monkeypatch.setattr(artefacts.torchio, "Motion", still)
    torch.testing.assert_close(Motion(5).record(disc, generator(0)), disc, atol=0.01, rtol=0)


def test_stripes_are_a_wave_of_known_height():
    signal = body(SHAPES["volume"])[None]
    stripes = Spike(2).record(signal, generator(5)) - signal
    height = 0.04 * 2 * signal[signal > 0].mean()
    torch.testing.assert_close(stripes.max(), height, rtol=0.02, atol=0)
    assert (
        torch.fft.fftn(stripes[0]).abs().gt(1).sum() == 2
    )  # the spike and its mirror, as images are real
    torch.testing.assert_close(stripes[..., 0], stripes[..., -1])


def test_gamma_is_a_power_and_its_inverse():
    signal = body(SHAPES["volume"])[None]
    powers = {seed: Gamma(5).record(signal, generator(seed)) for seed in range(6)}
    wanted = [signal**np.e, signal ** (1 / np.e)]
    which = {
        next(i for i, each in enumerate(wanted) if torch.allclose(power, each))
        for power in powers.values()
    }
    assert which == {0, 1}


def test_a_bias_field_is_a_smooth_factor():
    signal = body(SHAPES["volume"])[None]
    weak, strong = (BiasField(level).record(signal, generator(9)) / signal for level in (1, 3))
    inside = signal > 0
    torch.testing.assert_close(weak[inside] ** 3, strong[inside])
    steps = weak.log().diff(dim=1)[inside[:, 1:] & inside[:, :-1]]
    assert 0 < steps.abs().max() < 0.15


def test_the_draws_are_the_stream_of_shifts():
    """So that what an artefact draws never moves with what anything else draws."""
    x = scan(SHAPES["one slice"])
    signal = torch.where(x != 0, x - x[0].flatten(1).min(1).values[:, None, None, None], 0)
    recorded = Ghosting(2).record(signal[0], generator(3, Stream.SHIFT))
    changed, where = apply(Ghosting, 2, x), x != 0
    joint = torch.stack([recorded[0][where[0, 0]], changed[0, 0][where[0, 0]]])
    torch.testing.assert_close(torch.corrcoef(joint)[0, 1], torch.tensor(1.0))
