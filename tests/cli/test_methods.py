"""`segpl methods`: every method, prior and setting is listed with a meaning."""

import pytest

from segpl.cli import run_command
from segpl.data.layouts import read_dataset
from segpl.data.splits import training_cases
from segpl.evaluation.shifts import shift_types
from segpl.methods import METHODS
from segpl.settings.descriptions import (
    PLANNED,
    PRIORS,
    method_settings,
    prior_settings,
    run_settings,
    summary,
)
from segpl.settings.plan import plan

METHOD_SETTINGS = ("single_component", "match_size", "nested", "mirror")


def test_all_names_are_listed(capsys):
    assert run_command(["methods"]) == 0
    printed = capsys.readouterr().out
    for name in [*METHODS, *PRIORS, *shift_types()]:
        assert f"\n {name} " in printed


@pytest.mark.parametrize("name", [*METHODS, *PRIORS, "run"])
def test_each_name_has_a_page(name, capsys):
    assert run_command(["methods", name]) == 0
    assert capsys.readouterr().out


@pytest.mark.parametrize("kind", METHODS.values(), ids=METHODS)
def test_every_setting_of_a_method_has_a_meaning(kind):
    assert summary(kind)
    assert all(setting.meaning for setting in method_settings(kind))


@pytest.mark.parametrize("kind", PRIORS.values(), ids=PRIORS)
def test_every_setting_of_a_prior_has_a_meaning(kind):
    assert all(setting.meaning for setting in prior_settings(kind))


def test_every_setting_of_a_run_has_a_meaning():
    assert all(setting.meaning for setting in run_settings())


def test_defaults_are_written_as_a_user_would_type_them():
    defaults = {setting.key: setting.default for setting in method_settings(METHODS["segpl-em"])}
    assert defaults["method.alpha"] == "1.0"
    assert defaults["method.prior"] == "fixed"
    assert defaults["method.box"] == "[0.5, 0.8]"


def test_planned_settings_are_those_that_the_plan_returns(tumours):
    dataset = read_dataset(tumours)
    planned = set(plan(dataset, training_cases(dataset, None, 0, None, None)))
    of_methods = {f"method.{name}" for name in METHOD_SETTINGS}
    of_runs = planned - {"single_component", "match_size", "nested"}
    assert of_runs | of_methods == PLANNED


def test_a_misspelt_name_gets_a_suggestion(capsys):
    assert run_command(["methods", "segplem"]) == 2
    assert "Did you mean 'segpl-em'?" in capsys.readouterr().err
