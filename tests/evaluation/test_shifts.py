"""Properties of every shift, the strength of attacks, and how shifts are named."""

import pytest
import torch
from captum import robust

from segpl.data.layouts import read_dataset
from segpl.data.preparation import load
from segpl.data.splits import cases_for_test
from segpl.em.objectives import dice_loss, dice_per_image
from segpl.evaluation.shifts import FGSM, PGD, Clean, OutOfDistribution, parse_shifts, shift_types
from segpl.foundation.errors import UserError
from segpl.inference.model import load_model
from segpl.methods import METHODS
from segpl.methods.base import Method
from segpl.settings.planning import plan_run
from segpl.training.loop import train

SHIFTS = shift_types()
ATTACKS = [FGSM, PGD]


def predictor(network, seed=0):
    torch.manual_seed(seed)
    model = network().requires_grad_(False)

    def predict(x):
        return model(x).sigmoid()[None]

    return predict


@pytest.fixture
def predict(network):
    return predictor(network)


def losses(x, y, predict):
    """The Dice loss of each image, over its classes."""
    return dice_per_image(predict(x).mean(0), y).mean(1)


@pytest.mark.parametrize("shift", [Clean, *SHIFTS.values()])
def test_level_0_changes_nothing_bit_for_bit_and_predicts_nothing(shift, batch):
    def never(x):
        raise AssertionError

    x = torch.tensor([-0.0, float("nan"), 1.0]).expand_as(batch.x_l[..., :3]).contiguous()
    changed = shift(0.0)(x, batch.y_l[..., :3], never, 1)
    assert torch.equal(changed.view(torch.int32), x.view(torch.int32))


@pytest.mark.parametrize("shift", [OutOfDistribution, *ATTACKS])
def test_the_same_seed_gives_the_same_shift(shift, batch, predict):
    first = shift(0.1)(batch.x_l, batch.y_l, predict, 5)
    again = shift(0.1)(batch.x_l, batch.y_l, predict, 5)
    assert torch.equal(first, again)
    assert not torch.equal(first, batch.x_l)


def test_ood_is_the_papers_mix(batch, predict):
    half = OutOfDistribution(0.5)(batch.x_l, batch.y_l, predict, 3)
    whole = OutOfDistribution(1.0)(batch.x_l, batch.y_l, predict, 3)
    torch.testing.assert_close(half, 0.5 * whole + 0.5 * batch.x_l)


def test_ood_depends_on_the_seed(batch, predict):
    first = OutOfDistribution(1.0)(batch.x_l, batch.y_l, predict, 3)
    second = OutOfDistribution(1.0)(batch.x_l, batch.y_l, predict, 4)
    assert not torch.allclose(first, second)


@pytest.mark.parametrize("epsilon", [0.01, 0.3])
def test_fgsm_is_captums_fgsm(epsilon, batch, predict):
    reference = robust.FGSM(lambda x: predict(x).mean(0), lambda p, y: dice_loss(p, y)[None])
    reference.zero_thresh = 0
    wanted = reference.perturb(batch.x_l.clone().requires_grad_(), epsilon, batch.y_l)
    assert torch.equal(FGSM(epsilon)(batch.x_l, batch.y_l, predict, 0), wanted)


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_worked_by_hand(attack):
    """Where p rises with brightness, the object darkens and the background brightens.

    The last voxel has no influence on p, and stays as it is.
    """
    x = torch.tensor([0.5, -1.0, 0.25, 0.0]).reshape(1, 1, 2, 2)
    y = torch.tensor([1.0, 1.0, 0.0, 0.0]).reshape(1, 1, 2, 2)
    influence = torch.tensor([1.0, 1.0, 1.0, 0.0]).reshape(1, 1, 2, 2)
    attacked = attack(0.125)(x, y, lambda x: (influence * x).sigmoid()[None], 0)
    assert attacked.flatten().tolist() == [0.375, -1.125, 0.375, 0.0]


@pytest.mark.parametrize("offset", [0.0, 1000.0])
@pytest.mark.parametrize("epsilon", [0.003, 0.1, 0.7])
def test_pgd_never_leaves_its_ball(epsilon, offset, batch, predict):
    x = batch.x_l + offset  # around 1000, floating-point numbers are far apart
    attacked = PGD(epsilon)(x, batch.y_l, predict, 0)
    assert (attacked >= x - epsilon).all()
    assert (attacked <= x + epsilon).all()


@pytest.mark.parametrize("epsilon", [0.003, 0.1, 0.7])
def test_pgd_moves_no_voxel_by_more_than_epsilon(epsilon, batch, predict):
    attacked = PGD(epsilon)(batch.x_l, batch.y_l, predict, 0)
    assert (attacked - batch.x_l).abs().max() <= epsilon + 1e-6


@pytest.mark.parametrize("epsilon", [0.01, 0.3])
def test_pgd_is_at_least_as_strong_as_fgsm_on_every_image(epsilon, batch, network):
    stronger = 0
    for seed in range(4):
        predict = predictor(network, seed)
        clean = losses(batch.x_l, batch.y_l, predict)
        fgsm = losses(FGSM(epsilon)(batch.x_l, batch.y_l, predict, 0), batch.y_l, predict)
        pgd = losses(PGD(epsilon)(batch.x_l, batch.y_l, predict, 0), batch.y_l, predict)
        assert (pgd >= fgsm).all()
        assert (pgd > clean).all()
        stronger += int((pgd > fgsm).sum())
    assert stronger >= 6, "of eight images: the further steps have an effect"


def test_more_steps_are_never_weaker(batch, predict):
    few = PGD(0.3, steps=2)(batch.x_l, batch.y_l, predict, 0)
    many = PGD(0.3, steps=6)(batch.x_l, batch.y_l, predict, 0)
    assert (losses(many, batch.y_l, predict) >= losses(few, batch.y_l, predict)).all()


def test_pgd_with_one_step_is_fgsm(batch, predict):
    pgd = PGD(0.3, steps=1)(batch.x_l, batch.y_l, predict, 0)
    fgsm = FGSM(0.3)(batch.x_l, batch.y_l, predict, 0)
    assert torch.equal(pgd, fgsm)


def loss_increase(attacked_predict, batch, predict):
    """How much a tiny attack on one prediction raises the loss of another."""
    attacked = FGSM(1e-3)(batch.x_l, batch.y_l, attacked_predict, 0)
    after = losses(attacked, batch.y_l, predict)
    before = losses(batch.x_l, batch.y_l, predict)
    return (after - before).mean()


def model_of(method, network):
    """Random weights, so that every part of the model has an influence."""
    torch.manual_seed(4)
    model = method.build(network).requires_grad_(False)
    for weight in model.parameters():
        weight += 0.1 * torch.randn_like(weight)
    return model


def test_an_attack_reaches_every_member_of_an_ensemble(batch, network):
    """The loss rises less if any member is hidden from the attacker."""
    method = Method.choose({"name": "deep-ensemble", "members": 3})
    model = model_of(method, network)

    def predict(x):
        return method.predict(model, x, samples=3).samples

    def predict_without(hidden):
        visible = torch.arange(3) != hidden
        return lambda x: predict(x)[visible]

    full = loss_increase(predict, batch, predict)
    for hidden in range(3):
        assert full > 1.01 * loss_increase(predict_without(hidden), batch, predict)


def test_an_attack_reaches_the_thresholds_of_segpl_vi(batch, network):
    """The loss rises less if the attacker takes the thresholds for constants."""
    method = Method.choose("segpl-vi")
    model = model_of(method, network)
    for layer in model["phi"].numbers:
        layer.weight *= 20  # the thresholds depend on the image as if much had been learned
    theta = model["theta"]
    posterior = method.posterior(model, theta.features(batch.x_l), batch.y_l)
    thresholds = posterior.quantile(torch.full((2, 2), 0.5))

    def predict(x):
        return method.predict(model, x).samples

    def predict_with_constants(x):
        trailing = [1] * (x.ndim - 2)
        logits_of_t = thresholds.logit().reshape(2, 2, *trailing)
        return (theta(x) - logits_of_t).sigmoid()[None]

    torch.testing.assert_close(predict(batch.x_l), predict_with_constants(batch.x_l))
    full = loss_increase(predict, batch, predict)
    assert full > 1.01 * loss_increase(predict_with_constants, batch, predict)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_can_be_attacked(method, batch, network):
    method = Method.choose(method)
    torch.manual_seed(0)
    model = method.build(network).requires_grad_(False).eval()

    def predict(x):
        return method.predict(model, x, samples=5).samples

    for attack in (FGSM(0.01), PGD(0.01, steps=2)):
        attacked = attack(batch.x_l, batch.y_l, predict, 0)
        assert (losses(attacked, batch.y_l, predict) > losses(batch.x_l, batch.y_l, predict)).all()


@pytest.fixture(scope="module")
def trained(tumours, tmp_path_factory):
    """Slices of the test subjects that have every region, and a network that learned something."""
    settings = {
        "patch": [64, 64],
        "channels": 4,
        "ratio": 1,
        "steps": 60,
        "validate_every": 60,
        "learning_rate": 0.03,
    }
    run = plan_run(tumours, settings | {"method": {"name": "supervised", "objective": "dice"}})
    directory = train(run, tmp_path_factory.mktemp("run") / "run")
    model = load_model(directory, run).requires_grad_(False)
    dataset = read_dataset(tumours)
    images = []
    labels = []
    for case in cases_for_test(dataset, run.seed):
        volume = load(case, dataset.task, run.preparation)
        images.append(volume.x.permute(3, 0, 1, 2))
        labels.append(volume.y.permute(3, 0, 1, 2).float())
    x = torch.cat(images)
    y = torch.cat(labels)
    has_every_region = y.flatten(2).any(2).all(1)
    images = x[has_every_region]
    labels = y[has_every_region]
    return images, labels, lambda x: run.method.predict(model, x).samples


@pytest.mark.parametrize("level", [0.02, 0.1])
@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_raises_the_loss_of_a_trained_network_on_every_image(attack, level, trained):
    x, y, predict = trained
    clean = losses(x, y, predict)
    assert len(x) > 3
    assert clean.mean() < 0.85
    assert (losses(attack(level)(x, y, predict, 0), y, predict) > clean).all()


def named(*texts):
    """Name and level of each parsed shift after the clean image."""
    shifts = parse_shifts(texts)
    assert (shifts[0].name, shifts[0].level) == ("clean", 0)
    return [(shift.name, shift.level) for shift in shifts[1:]]


def test_without_a_name_there_is_the_clean_image_only():
    assert named() == []


def test_a_level_follows_the_name():
    assert named("ood=0.1", "fgsm=0.05") == [("ood", 0.1), ("fgsm", 0.05)]


def test_a_name_gives_a_shift_of_its_type():
    types = [type(shift) for shift in parse_shifts(["pgd=1", "motion=1"])]
    assert types == [Clean, PGD, SHIFTS["motion"]]


def test_a_sweep_has_both_ends_and_short_numbers():
    levels = [0, 0.02, 0.04, 0.06, 0.08, 0.1]
    assert named("ood=0:0.1:6") == [("ood", level) for level in levels]
    assert named("motion=5:1:3") == [("motion", 5), ("motion", 3), ("motion", 1)]


def test_a_name_alone_has_the_default_levels():
    assert named("motion") == [("motion", level) for level in (1, 2, 3, 4, 5)]
    assert named("pgd") == named("pgd=0.02:0.1:5")


def test_all_is_every_shift_at_its_default_levels():
    assert named("all") == named(*SHIFTS)
    assert len(named("all")) == 5 * 10


def test_a_shift_that_is_named_twice_comes_once():
    shifts = named("ood=0.1", "ood=0.1", "fgsm=0.1", "ood=0.05:0.1:2")
    assert shifts == [("ood", 0.1), ("fgsm", 0.1), ("ood", 0.05)]
    assert named("all", "motion=3", "ood=0.06") == named("all")


UNKNOWN_NAMES = ["fog=1", "0.1", "=1", "", "clean", "clean=1", "all=1", "all=", "Motion"]
NO_LEVELS = ["ood=much", "ood=", "ood==1"]
NO_SWEEPS = ["ood=0:1", "ood=0:1:2:3", "ood=0:1:1", "ood=0:1:2.5", "ood=0:1:1000", "ood=a:1:2"]


@pytest.mark.parametrize("text", [*UNKNOWN_NAMES, *NO_LEVELS, *NO_SWEEPS])
def test_an_error_says_how_to_write_a_shift(text):
    with pytest.raises(UserError) as error:
        parse_shifts(["ood=0.1", text])
    forms = "write NAME, NAME=LEVEL, NAME=START:STOP:COUNT or all, with a name of "
    assert str(error.value) == f"--shift {text} is not a shift: {forms}{', '.join(SHIFTS)}."


ARTEFACTS = [name for name in SHIFTS if name not in ("ood", "fgsm", "pgd")]


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("ood=-1", "ood go from 0 to 1"),
        ("ood=1.1", "ood go from 0 to 1"),
        ("ood=nan", "ood go from 0 to 1"),
        ("fgsm=inf", "fgsm go from 0 upwards"),
        ("pgd=-0.1:0.1:3", "pgd go from 0 upwards"),
        ("gamma=1:6:6", "gamma go from 0 to 5"),
        ("spike=0:inf:3", "spike go from 0 to 5"),
        *[(f"{name}=5.1", f"{name} go from 0 to 5") for name in ARTEFACTS],
    ],
)
def test_an_error_says_which_levels_are_possible(text, limits):
    with pytest.raises(UserError) as error:
        parse_shifts([text])
    assert str(error.value) == f"--shift {text} has no usable level: those of {limits}."
