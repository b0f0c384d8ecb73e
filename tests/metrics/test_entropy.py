"""The entropy of a probability, against scipy."""

import numpy as np
import pytest
from scipy.stats import bernoulli

from segpl.metrics.entropy import entropy


def test_entropy_is_that_of_a_bernoulli_variable_in_bits():
    p = np.linspace(0, 1, 101)
    assert entropy(p) == pytest.approx(bernoulli(p).entropy() / np.log(2))


def test_certain_probabilities_have_no_entropy():
    assert entropy(np.array([0.0, 1.0])).tolist() == [0.0, 0.0]
