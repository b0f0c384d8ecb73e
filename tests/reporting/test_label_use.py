import pytest
from made_up_runs import run_folder

from segpl.reporting.label_use import label_use, label_use_sentence
from segpl.reporting.material import gather

EXTRA_VALIDATION = (
    "3 labelled subjects to learn from, and 5 further labelled subjects to choose the weights: "
    "8 in all."
)
SHARED_VALIDATION = "20 labelled subjects: 18 to learn from and 2 to choose the weights."
NO_VALIDATION = (
    "1 labelled subject to learn from and none to choose the weights, which are those of the last "
    "step."
)


@pytest.mark.parametrize(
    ("learning", "validation", "extra", "sentence"),
    [
        (3, 5, True, EXTRA_VALIDATION),
        (18, 2, False, SHARED_VALIDATION),
        (1, 0, False, NO_VALIDATION),
    ],
)
def test_one_sentence_says_what_the_labels_were_used_for(learning, validation, extra, sentence):
    use = {
        "total": learning + validation,
        "learning": learning,
        "validation": validation,
        "extra_validation": extra,
    }
    assert label_use_sentence(use) == sentence


def test_each_budget_has_its_own_sentence(tmp_path):
    for labelled in (2, 4):
        run_folder(tmp_path / f"run-{labelled}", tmp_path, labelled=labelled, cases=("a",))
    first, second = label_use(gather([tmp_path]).runs)
    assert first.startswith("2 labelled: 2 labelled subjects to learn from")
    assert second.startswith("4 labelled: 4 labelled subjects to learn from")
