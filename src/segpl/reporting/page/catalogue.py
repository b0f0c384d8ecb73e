"""All figures of the report: section, title, caption, and the functions that draw them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import pandas as pd
from matplotlib.figure import Figure

from segpl.reporting.material import Material
from segpl.reporting.page.ablations import ablations, draw_ablations
from segpl.reporting.page.accuracy import (
    differences_from_baseline,
    draw_differences,
    draw_scores_by_size,
    draw_subject_scores,
    scores_by_size,
    subject_scores,
)
from segpl.reporting.page.calibration import (
    draw_reliability,
    draw_risk_coverage,
    reliability,
    risk_coverage,
)
from segpl.reporting.page.cost import accuracy_and_cost, draw_accuracy_and_cost
from segpl.reporting.page.images import draw_image_differences, image_differences
from segpl.reporting.page.pictures import (
    draw_levels,
    draw_masks,
    draw_temperatures,
    draw_uncertainty,
)
from segpl.reporting.page.robustness import draw_scores_by_level, scores_by_level
from segpl.reporting.page.scans import Scan
from segpl.reporting.page.training_curves import (
    draw_threshold_inference,
    draw_thresholds,
    draw_training_curve,
    threshold_inference,
    thresholds,
    training_curve,
)

WORST_CASES = 5
"""Cases in the figure of the worst cases."""


def always(scan: Scan) -> bool:
    """Every case has what the figure needs."""
    return True


@dataclass(frozen=True)
class Plot:
    """A figure of numbers. It is drawn only if there are numbers."""

    name: str
    """Of its files, without the ending."""
    section: str
    """The section of the page, by its identifier in page.html."""
    title: str
    caption: str
    alt: str
    """Describes the figure to readers who cannot see it."""
    numbers: Callable[[Material], pd.DataFrame]
    draw: Callable[[pd.DataFrame], Figure]


@dataclass(frozen=True)
class Picture:
    """A figure of slices. It is drawn only if there are cases for it."""

    name: str
    section: str
    title: str
    caption: str
    alt: str
    choose_cases: Callable[[Sequence[str]], Sequence[str]]
    """Chooses among the names of all test cases, worst first."""
    draw: Callable[[Sequence[Scan]], Figure]
    can_show: Callable[[Scan], bool] = always
    """Whether a case has what the figure needs."""


def best_middle_and_worst(cases: Sequence[str]) -> Sequence[str]:
    """At most three cases, each once."""
    chosen = [cases[-1], *middle(cases), cases[0]]
    return list(dict.fromkeys(chosen))


def worst_and_middle(cases: Sequence[str]) -> Sequence[str]:
    """At most two cases, each once."""
    chosen = [cases[0], *middle(cases)]
    return list(dict.fromkeys(chosen))


def middle(cases: Sequence[str]) -> Sequence[str]:
    """The case in the middle of the order, alone."""
    return [cases[len(cases) // 2]]


def worst(cases: Sequence[str]) -> Sequence[str]:
    """The first `WORST_CASES` cases."""
    return cases[:WORST_CASES]


def first_by_name(cases: Sequence[str]) -> Sequence[str]:
    """The case for which the evaluation stores pictures of the shifts."""
    return [min(cases)]


def has_level_pictures(scan: Scan) -> bool:
    """Whether the evaluation stored pictures of this case under shifts."""
    return bool(scan.level_pictures())


PLOTS = (
    Plot(
        name="loss",
        section="training",
        title="Training loss",
        caption=(
            "The loss should fall and level off. Bands show the range over seeds. A cross marks a "
            "step at which the guard reduced alpha."
        ),
        alt="Line chart of the training loss over steps, one line per method.",
        numbers=partial(training_curve, column="loss"),
        draw=partial(draw_training_curve, label="loss"),
    ),
    Plot(
        name="validation",
        section="training",
        title="IoU on the validation subjects",
        caption=(
            "The IoU should rise and stay high. The weights at the highest point are the ones "
            "tested. A fall after it is a sign of over-fitting or of misleading pseudo-labels."
        ),
        alt="Line chart of the IoU on the validation subjects over steps, one line per method.",
        numbers=partial(training_curve, column="validation_iou"),
        draw=partial(draw_training_curve, label="validation IoU"),
    ),
    Plot(
        name="pseudo-foreground",
        section="training",
        title="Foreground in the pseudo-labels",
        caption=(
            "The fraction should settle near the true fraction of foreground in the scans. A line "
            "that drops to 0 or climbs to 1 shows a collapse: the model labels everything as "
            "background, or everything as foreground."
        ),
        alt="Line chart of the fraction of foreground in the pseudo-labels, one line per method.",
        numbers=partial(training_curve, column="pseudo_foreground"),
        draw=partial(draw_training_curve, label="fraction of foreground"),
    ),
    Plot(
        name="pull",
        section="training",
        title="Unlabelled loss relative to labelled loss",
        caption=(
            "The unlabelled loss divided by the labelled loss. Far above 1, the pseudo-labels "
            "dominate and the labels no longer correct them."
        ),
        alt="Line chart of the ratio of unlabelled to labelled loss, one line per method.",
        numbers=partial(training_curve, column="unlabelled_to_labelled"),
        draw=partial(draw_training_curve, label="unlabelled / labelled"),
    ),
    Plot(
        name="pseudo-changed",
        section="training",
        title="Changes in the pseudo-labels",
        caption=(
            "The fraction of voxels whose pseudo-label changed since the previous validation, in "
            "a fixed set of scans. It should fall towards 0 as expectation maximisation converges."
        ),
        alt="Line chart of the fraction of changed pseudo-labels over steps, one line per method.",
        numbers=partial(training_curve, column="pseudo_changed"),
        draw=partial(draw_training_curve, label="fraction changed"),
    ),
    Plot(
        name="threshold",
        section="training",
        title="Learnt threshold and its prior",
        caption=(
            "If the posterior moves away from the grey prior, the model has learnt the threshold "
            "from the images. If it stays on the prior, a fixed threshold would do as well."
        ),
        alt="Line chart of the threshold's posterior over steps, with its prior as a grey band.",
        numbers=thresholds,
        draw=draw_thresholds,
    ),
    Plot(
        name="inference",
        section="training",
        title="Inference of the threshold",
        caption=(
            "A panel for each method shows the prior and the posterior of its threshold: mean and "
            "one standard deviation. The lowest panel shows, in the same colours, the bound of "
            "Eq. 7 that the posterior should maximise: minus the expected loss of the labels, "
            "minus the divergence from the prior. It is computed exactly, and higher is better. It "
            "also rises as the network becomes more certain, so compare its course and not its "
            "level between methods. Bands around it show the range over seeds."
        ),
        alt="Line charts of the threshold's prior and posterior, and of the bound, over steps.",
        numbers=threshold_inference,
        draw=draw_threshold_inference,
    ),
    Plot(
        name="subjects",
        section="accuracy",
        title="IoU of every test subject",
        caption=(
            "Each point is one subject in one run, and the bar is the mean. A subject has the "
            "same position in every strip. Look at the lowest points first: they are the patients "
            "on whom the model fails."
        ),
        alt="Strip plot of the IoU of every test subject, one strip per method.",
        numbers=subject_scores,
        draw=draw_subject_scores,
    ),
    Plot(
        name="size",
        section="accuracy",
        title="IoU by size of the foreground",
        caption=(
            "Small targets are usually harder, so lines tend to rise to the right. Bars show the "
            "standard deviation over images."
        ),
        alt="Line chart of the IoU by the foreground's share of the image, one line per method.",
        numbers=scores_by_size,
        draw=draw_scores_by_size,
    ),
    Plot(
        name="bland-altman",
        section="accuracy",
        title="Difference from the baseline for each subject",
        caption=(
            "Bland-Altman plot. Points above 0 are subjects that the method segments better than "
            "the baseline. The solid line is the mean difference; about 95 % of subjects should "
            "lie between the dashed lines. A reliable gain lifts most points above 0, and the "
            "lower dashed line is not far below 0."
        ),
        alt="Bland-Altman plot of the difference in IoU from the baseline, one colour per method.",
        numbers=differences_from_baseline,
        draw=draw_differences,
    ),
    Plot(
        name="image-differences",
        section="accuracy",
        title="Difference from the baseline, image by image",
        caption=(
            "As in the paper, each point is one test image (a slice, or a crop of the patch's "
            "size), its regions and seeds averaged. Points above 0 are images on which the method "
            "is better. The solid line is the mean difference; about 95 % of images lie between "
            "the dashed limits of agreement. The Mann-Whitney test takes images for independent, "
            "which slices of one scan are not, so its p-value is no evidence: see the verdict."
        ),
        alt="Bland-Altman plots: difference in IoU over mean IoU, a point for each test image.",
        numbers=image_differences,
        draw=draw_image_differences,
    ),
    Plot(
        name="ablations",
        section="accuracy",
        title="Ablations",
        caption=(
            "Mean IoU of runs that differ in one setting only, and in the seed. Bands show the "
            "range over seeds. A flat curve means that the setting hardly matters."
        ),
        alt="Line charts of the mean IoU over the values of one setting, one panel per setting.",
        numbers=ablations,
        draw=draw_ablations,
    ),
    Plot(
        name="reliability",
        section="uncertainty",
        title="Reliability diagram",
        caption=(
            "Calibrated probabilities lie on the diagonal: of the voxels with a probability of "
            "0.8, 80 % are foreground. Below the diagonal the model overestimates the probability "
            "of foreground, above it the model underestimates it. Dashed lines show the "
            "probabilities after temperature scaling, which needs validation subjects."
        ),
        alt="Reliability curves: fraction of foreground over probability, one line per method.",
        numbers=reliability,
        draw=draw_reliability,
    ),
    Plot(
        name="risk-coverage",
        section="uncertainty",
        title="Error detection",
        caption=(
            "Lower is better. A curve that stays low for long means that most errors are among "
            "the least confident voxels, so checking these voxels finds most errors."
        ),
        alt="Risk-coverage curves: wrong among the most confident voxels, one line per method.",
        numbers=risk_coverage,
        draw=draw_risk_coverage,
    ),
    Plot(
        name="robustness",
        section="robustness",
        title="IoU under image shifts",
        caption=(
            "The flatter the curve, the more robust the method. Level 0 is the unchanged image. "
            "Bands show the range over seeds."
        ),
        alt="Line charts of the IoU over the levels of each shift, one line per method.",
        numbers=scores_by_level,
        draw=draw_scores_by_level,
    ),
    Plot(
        name="price",
        section="cost",
        title="Accuracy and training time",
        caption=(
            "Up and to the left is better: a higher IoU after less training. Times were measured "
            "on the machine of each run."
        ),
        alt="Scatter plot of mean IoU over training time in seconds, one point per run.",
        numbers=accuracy_and_cost,
        draw=partial(draw_accuracy_and_cost, column="seconds", label="training time, s"),
    ),
    Plot(
        name="model-size",
        section="cost",
        title="Accuracy and model size",
        caption=(
            "Up and to the left is better: a higher IoU with fewer trained parameters. All "
            "networks of a method count, such as both networks of cps."
        ),
        alt="Scatter plot of mean IoU over thousands of parameters, one point per run.",
        numbers=accuracy_and_cost,
        draw=partial(draw_accuracy_and_cost, column="parameters_k", label="parameters, thousands"),
    ),
)

PICTURES = (
    Picture(
        name="masks",
        section="top",
        title="Predicted masks",
        caption=(
            "The best, the middle and the worst test case, each at its slice with the most "
            "foreground. A good mask looks like the truth in the second column."
        ),
        alt="Slices of test cases: the image, the true regions, and the mask of each method.",
        choose_cases=best_middle_and_worst,
        draw=draw_masks,
    ),
    Picture(
        name="worst",
        section="accuracy",
        title="Worst cases",
        caption=(
            "The test cases on which the method with the highest mean IoU scores lowest in any of "
            "its runs, worst first. They show what goes wrong, and whether it goes wrong for all "
            "methods."
        ),
        alt="Slices of the worst test cases: the image, the true regions, and each method's mask.",
        choose_cases=worst,
        draw=draw_masks,
    ),
    Picture(
        name="uncertainty",
        section="uncertainty",
        title="Uncertainty and errors",
        caption=(
            "Upper rows show the errors in the first region; lower rows show the entropy, bright "
            "where the model is uncertain. Errors should be bright in the row below. An error "
            "that is dark there is a confident error, which the uncertainty cannot reveal."
        ),
        alt="Slices of test cases: the errors of each method, and below them its entropy.",
        choose_cases=worst_and_middle,
        draw=draw_uncertainty,
        can_show=Scan.has_probabilities,
    ),
    Picture(
        name="temperature",
        section="uncertainty",
        title="Probability at three temperatures",
        caption=(
            "Probability of the first region, with logits divided by a temperature T of 0.1, 1 "
            "and 15 as in the paper. Red is foreground, blue is background, white is undecided. "
            "What stays pale at 0.1 is truly undecided. At 15 all colours are pale, and the "
            "deepest show where the model is most certain. Evaluation stores probabilities in "
            "steps of 1/65535, which limits logits to ±11.8 and, at 15, probabilities to 0.31 to "
            "0.69."
        ),
        alt="Probability maps of one slice at temperatures 0.1, 1 and 15, one row per method.",
        choose_cases=middle,
        draw=draw_temperatures,
        can_show=Scan.has_slice_levels,
    ),
    Picture(
        name="levels",
        section="robustness",
        title="Image shifts by level",
        caption=(
            "One test case under every shift, from the unchanged image on the left to the "
            "strongest level on the right. Use it to judge the curves of IoU: attacks are hardly "
            "visible, whereas a clinician would notice artefacts."
        ),
        alt="One slice of a test case under each shift, one row per shift, levels rising.",
        choose_cases=first_by_name,
        draw=draw_levels,
        can_show=has_level_pictures,
    ),
)
