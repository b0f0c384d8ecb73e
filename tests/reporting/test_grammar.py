import pytest

from segpl.reporting.grammar import listed, plural, verb


@pytest.mark.parametrize(("count", "text"), [(0, "0 runs"), (1, "1 run"), (2, "2 runs")])
def test_a_noun_agrees_with_its_count(count, text):
    assert plural(count, "run") == text


@pytest.mark.parametrize(("count", "form"), [(0, "are"), (1, "is"), (2, "are")])
def test_a_verb_agrees_with_its_count(count, form):
    assert verb(count, "is", "are") == form


@pytest.mark.parametrize(
    ("names", "text"),
    [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")],
)
def test_names_are_listed_as_in_a_sentence(names, text):
    assert listed(names) == text
