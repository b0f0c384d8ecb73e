"""What holds for every shift, what attacks achieve, and how shifts are named."""

import pytest
import torch
from captum import robust

from segpl.cli import describe
from segpl.data.layouts import read_dataset
from segpl.data.preparation import load
from segpl.data.splits import cases_for_test
from segpl.em.objectives import dice_loss, dice_per_image
from segpl.evaluation.shifts import FGSM, PGD, Clean, OutOfDistribution, kinds, parse_shifts
from segpl.foundation.errors import UserError
from segpl.inference.model import load_model
from segpl.methods import METHODS
from segpl.methods.base import Method
from segpl.settings.planning import plan_run
from segpl.training.loop import train

KINDS = kinds()
ATTACKS = [FGSM, PGD]


def predictor(network, seed=0):
    torch.manual_seed(seed)
    model = network().requires_grad_(False)
    return lambda x: model(x).sigmoid()[None]


@pytest.fixture
def predict(network):
    return predictor(network)


def losses(x, y, predict):
    """The Dice loss of each image, over its classes."""
    return dice_per_image(predict(x).mean(0), y).mean(1)


@pytest.mark.parametrize("kind", [Clean, *KINDS.values()])
def test_level_0_changes_nothing_bit_for_bit_and_asks_nobody(kind, batch):
    def never(x):
        raise AssertionError

    x = torch.tensor([-0.0, float("nan"), 1.0]).expand_as(batch.x_l[..., :3]).contiguous()
    changed = kind(0.0)(x, batch.y_l[..., :3], never, 1)
    assert torch.equal(changed.view(torch.int32), x.view(torch.int32))


@pytest.mark.parametrize("kind", [OutOfDistribution, *ATTACKS])
def test_same_seed_same_shift(kind, batch, predict):
    first, again = (kind(0.1)(batch.x_l, batch.y_l, predict, 5) for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, batch.x_l)


def test_ood_is_the_papers_mix(batch, predict):
    half, whole = (
        OutOfDistribution(level)(batch.x_l, batch.y_l, predict, 3) for level in (0.5, 1.0)
    )
    torch.testing.assert_close(half, 0.5 * whole + 0.5 * batch.x_l)
    other = OutOfDistribution(1.0)(batch.x_l, batch.y_l, predict, 4)
    assert not torch.allclose(whole, other)


@pytest.mark.parametrize("epsilon", [0.01, 0.3])
def test_fgsm_is_captums_fgsm(epsilon, batch, predict):
    reference = robust.FGSM(lambda x: predict(x).mean(0), lambda p, y: dice_loss(p, y)[None])
    reference.zero_thresh = 0
    wanted = reference.perturb(batch.x_l.clone().requires_grad_(), epsilon, batch.y_l)
    assert torch.equal(FGSM(epsilon)(batch.x_l, batch.y_l, predict, 0), wanted)


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_worked_by_hand(attack):
    """Where brightness is probability, the object darkens and all else brightens; a voxel that is not asked stays."""
    x = torch.tensor([0.5, -1.0, 0.25, 0.0]).reshape(1, 1, 2, 2)
    y = torch.tensor([1.0, 1.0, 0.0, 0.0]).reshape(1, 1, 2, 2)
    asked = torch.tensor([1.0, 1.0, 1.0, 0.0]).reshape(1, 1, 2, 2)
    moved = attack(0.125)(x, y, lambda x: (asked * x).sigmoid()[None], 0)
    assert moved.flatten().tolist() == [0.375, -1.125, 0.375, 0.0]


@pytest.mark.parametrize("far", [0.0, 1000.0])
@pytest.mark.parametrize("epsilon", [0.003, 0.1, 0.7])
def test_pgd_never_leaves_its_ball(epsilon, far, batch, predict):
    x = batch.x_l + far  # where floating-point numbers lie far apart
    moved = PGD(epsilon)(x, batch.y_l, predict, 0)
    assert (moved >= x - epsilon).all()
    assert (moved <= x + epsilon).all()
    if not far:
        assert (moved - x).abs().max() <= epsilon + 1e-6


@pytest.mark.parametrize("epsilon", [0.01, 0.3])
def test_pgd_is_at_least_as_strong_as_fgsm_on_every_image(epsilon, batch, network):
    stronger = 0
    for seed in range(4):
        predict = predictor(network, seed)
        clean, one, many = (
            losses(attack(batch.x_l, batch.y_l, predict, 0), batch.y_l, predict)
            for attack in (Clean(0), FGSM(epsilon), PGD(epsilon))
        )
        assert (many >= one).all()
        assert (many > clean).all()
        stronger += int((many > one).sum())
    assert stronger >= 6  # of eight: its other steps are no ornament


def test_more_steps_are_never_weaker(batch, predict):
    few, many = (PGD(0.3, steps)(batch.x_l, batch.y_l, predict, 0) for steps in (2, 6))
    assert (losses(many, batch.y_l, predict) >= losses(few, batch.y_l, predict)).all()
    assert torch.equal(
        PGD(0.3, 1)(batch.x_l, batch.y_l, predict, 0), FGSM(0.3)(batch.x_l, batch.y_l, predict, 0)
    )


def rise(aim, batch, predict):
    """How much a tiny attack that aims at one prediction raises the loss of another."""
    attacked = FGSM(1e-3)(batch.x_l, batch.y_l, aim, 0)
    return (losses(attacked, batch.y_l, predict) - losses(batch.x_l, batch.y_l, predict)).mean()


def model_of(method, network):
    """Weights of which no part can be ignored."""
    torch.manual_seed(4)
    model = method.build(network).requires_grad_(False)
    for weight in model.parameters():
        weight += 0.1 * torch.randn_like(weight)
    return model


def test_an_attack_reaches_every_member_of_an_ensemble(batch, network):
    """The loss rises less when any member is kept from the attacker."""
    method = Method.choose({"name": "deep-ensemble", "members": 3})
    model = model_of(method, network)

    def predict(x):
        return method.predict(model, x, samples=3)

    for hidden in range(3):
        others = torch.arange(3) != hidden
        assert rise(predict, batch, predict) > 1.01 * rise(
            lambda x, seen=others: predict(x)[seen], batch, predict
        )


def test_an_attack_reaches_the_thresholds_of_segpl_vi(batch, network):
    """The loss rises less when the attacker takes the thresholds for constants."""
    method = Method.choose("segpl-vi")
    model = model_of(method, network)
    for layer in model["phi"].numbers:
        layer.weight *= 20  # the thresholds depend on the image as if much had been learned
    theta, middle = model["theta"], torch.full((2, 2), 0.5)
    thresholds = method.posterior(model, theta.features(batch.x_l), batch.y_l).quantile(middle)

    def predict(x):
        return method.predict(model, x)

    def constant(x):
        return (theta(x) - thresholds.logit().reshape(2, 2, *[1] * (x.ndim - 2))).sigmoid()[None]

    torch.testing.assert_close(predict(batch.x_l), constant(batch.x_l))
    assert rise(predict, batch, predict) > 1.01 * rise(constant, batch, predict)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_can_be_attacked(method, batch, network):
    method = Method.choose(method)
    torch.manual_seed(0)
    model = method.build(network).requires_grad_(False).eval()

    def predict(x):
        return method.predict(model, x, samples=5)

    for attack in (FGSM(0.01), PGD(0.01, steps=2)):
        attacked = attack(batch.x_l, batch.y_l, predict, 0)
        assert (losses(attacked, batch.y_l, predict) > losses(batch.x_l, batch.y_l, predict)).all()


@pytest.fixture(scope="module")
def trained(tumours, tmp_path_factory):
    """A network that has learned something, and the slices of the test subjects that have every region."""
    settings = {
        "patch": [64, 64],
        "channels": 4,
        "ratio": 1,
        "steps": 60,
        "validate_every": 60,
        "learning_rate": 0.03,
    }
    run = plan_run(tumours, settings | {"method": {"name": "supervised", "objective": "dice"}})
    train(run, directory := tmp_path_factory.mktemp("run") / "run")
    model, dataset = load_model(directory, run).requires_grad_(False).eval(), read_dataset(tumours)
    volumes = [
        load(case, dataset.task, run.preparation) for case in cases_for_test(dataset, run.seed)
    ]
    x, y = (
        torch.cat([volume[part].permute(3, 0, 1, 2).float() for volume in volumes])
        for part in (1, 2)
    )
    whole = y.flatten(2).any(2).all(1)
    return x[whole], y[whole], lambda x: run.method.predict(model, x)


@pytest.mark.parametrize("level", [0.02, 0.1])
@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_raises_the_loss_of_a_trained_network_on_every_image(attack, level, trained):
    x, y, predict = trained
    clean = losses(x, y, predict)
    assert len(x) > 3
    assert clean.mean() < 0.85
    assert (losses(attack(level)(x, y, predict, 0), y, predict) > clean).all()


def named(*texts):
    return [(shift.name, shift.level) for shift in parse_shifts(texts)]


def test_what_is_named_is_what_is_applied():
    assert named() == [("clean", 0)]
    assert named("ood=0.1", "fgsm=0.05") == [("clean", 0), ("ood", 0.1), ("fgsm", 0.05)]
    assert [type(shift) for shift in parse_shifts(["pgd=1", "motion=1"])] == [
        Clean,
        PGD,
        KINDS["motion"],
    ]


def test_a_sweep_has_both_ends_and_short_numbers():
    assert named("ood=0:0.1:6")[1:] == [
        ("ood", level) for level in (0, 0.02, 0.04, 0.06, 0.08, 0.1)
    ]
    assert named("motion=5:1:3")[1:] == [("motion", 5), ("motion", 3), ("motion", 1)]


def test_a_name_alone_is_its_usual_levels_and_all_is_everything():
    assert named("motion")[1:] == [("motion", level) for level in (1, 2, 3, 4, 5)]
    assert named("pgd") == named("pgd=0.02:0.1:5")
    assert named("all") == named(*KINDS)
    assert len(named("all")) == 1 + 5 * 10


def test_the_same_shift_twice_is_one():
    assert named("ood=0.1", "ood=0.1", "fgsm=0.1", "ood=0.05:0.1:2")[1:] == [
        ("ood", 0.1),
        ("fgsm", 0.1),
        ("ood", 0.05),
    ]
    assert named("all", "motion=3", "ood=0.06") == named("all")


WRONG = [
    "fog=1",
    "ood=much",
    "0.1",
    "ood=",
    "=1",
    "",
    "clean",
    "clean=1",
    "all=1",
    "all=",
    "ood=0:1",
    "ood=0:1:2:3",
]


@pytest.mark.parametrize(
    "text", [*WRONG, "ood=0:1:1", "ood=0:1:2.5", "ood=0:1:1000", "ood=a:1:2", "Motion", "ood==1"]
)
def test_a_shift_that_is_none(text):
    with pytest.raises(UserError) as error:
        parse_shifts(["ood=0.1", text])
    forms = "write NAME, NAME=LEVEL, NAME=START:STOP:COUNT or all, with a name of "
    assert str(error.value) == f"--shift {text} is not a shift: {forms}{', '.join(KINDS)}."


@pytest.mark.parametrize(
    ("text", "range_"),
    [
        ("ood=-1", "ood go from 0 to 1"),
        ("ood=1.1", "ood go from 0 to 1"),
        ("ood=nan", "ood go from 0 to 1"),
    ]
    + [("fgsm=inf", "fgsm go from 0 upwards"), ("pgd=-0.1:0.1:3", "pgd go from 0 upwards")]
    + [(f"{name}=5.1", f"{name} go from 0 to 5") for name in list(KINDS)[3:]]
    + [("gamma=1:6:6", "gamma go from 0 to 5"), ("spike=0:inf:3", "spike go from 0 to 5")],
)
def test_a_level_that_means_nothing(text, range_):
    with pytest.raises(UserError) as error:
        parse_shifts([text])
    assert str(error.value) == f"--shift {text} has no usable level: those of {range_}."


def test_the_help_describes_every_shift_and_nothing_else():
    assert list(describe.shifts()) == list(KINDS)
    assert all(describe.shifts().values())
