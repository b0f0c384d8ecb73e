"""Every figure of the report as data: where it stands, what it is made from, who draws it, and what one should see."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import pandas as pd
from matplotlib.figure import Figure

from segpl.reporting.material import Material
from segpl.reporting.page.confidence import (
    draw_price,
    draw_reliability,
    draw_risk,
    price,
    reliability,
    risk,
)
from segpl.reporting.page.learning import course, draw_course, draw_thresholds, thresholds
from segpl.reporting.page.pictures import draw_doubts, draw_levels, draw_masks, draw_temperatures
from segpl.reporting.page.quality import (
    agreement,
    draw_agreement,
    draw_robustness,
    draw_sizes,
    draw_subjects,
    robustness,
    sizes,
    subjects,
)
from segpl.reporting.page.scans import Scan


@dataclass(frozen=True)
class Plot:
    """A figure of numbers: drawn only where there are some."""

    name: str
    section: str
    title: str
    caption: str
    alt: str
    numbers: Callable[[Material], pd.DataFrame]
    draw: Callable[[pd.DataFrame], Figure]


@dataclass(frozen=True)
class Picture:
    """A figure of voxels: `choose` takes its cases from all there are, worst first."""

    name: str
    section: str
    title: str
    caption: str
    alt: str
    choose: Callable[[Sequence[str]], Sequence[str]]
    draw: Callable[[Sequence[Scan]], Figure]
    shows: Callable[[Scan], bool] = lambda scan: True
    """Whether a case has what the figure needs."""


def middle_and_ends(cases: Sequence[str]) -> Sequence[str]:
    """The best, the middle and the worst."""
    return list(dict.fromkeys([cases[-1], cases[len(cases) // 2], cases[0]]))


PLOTS = (
    Plot(
        "loss", "learnt", "Loss over training",
        "It should fall and level out. Bands span the seeds; a cross marks where the guard backed alpha off.",
        "Line chart of the training loss over steps, one line a method.",
        partial(course, column="loss"), partial(draw_course, label="loss"),
    ),
    Plot(
        "validation", "learnt", "IoU on the validation subjects",
        "It should rise and stay. The weights of the highest point are the ones that were tested; a fall after it is "
        "over-fitting, or pseudo-labels that mislead.",
        "Line chart of the IoU on validation subjects over steps, one line a method.",
        partial(course, column="validation_iou"), partial(draw_course, label="validation IoU"),
    ),
    Plot(
        "pseudo-foreground", "learnt", "Foreground in the pseudo-labels",
        "It should settle between 0 and 1, near what the scans hold. A line that drops to 0 or climbs to 1 is a "
        "collapse: the model has taught itself that everything, or nothing, is foreground.",
        "Line chart of the share of foreground in pseudo-labels over steps, one line a method.",
        partial(course, column="pseudo_foreground"), partial(draw_course, label="share of foreground"),
    ),
    Plot(
        "pull", "learnt", "Pull of the unlabelled scans",
        "How large the unlabelled loss is beside the labelled one. Far above 1, the pseudo-labels lead and the labels "
        "no longer correct them.",
        "Line chart of the ratio of unlabelled to labelled loss over steps, one line a method.",
        partial(course, column="unlabelled_to_labelled"), partial(draw_course, label="unlabelled / labelled"),
    ),
    Plot(
        "pseudo-changed", "learnt", "Pseudo-labels that still change",
        "The share of voxels of the same few scans whose pseudo-label changed since the last validation. It should "
        "fall towards 0: expectation maximisation has converged.",
        "Line chart of the share of pseudo-labels that changed between validations, one line a method.",
        partial(course, column="pseudo_changed"), partial(draw_course, label="share changed"),
    ),
    Plot(
        "threshold", "learnt", "Learnt threshold and its prior",
        "A posterior that leaves the grey prior has learnt from the images; one that lies on it has learnt nothing "
        "that a fixed threshold would not do.",
        "Line chart of the threshold's posterior over training, with its prior as a grey band.",
        thresholds, draw_thresholds,
    ),
    Plot(
        "subjects", "good", "Every test subject",
        "Each point is one subject of one run, at the same place in every strip; the bar is the mean. Look at the "
        "lowest points before the mean: those are the patients that the model fails.",
        "Strip plot of the IoU of every test subject, one strip a method.",
        subjects, draw_subjects,
    ),
    Plot(
        "size", "good", "By size of the foreground",
        "Small targets are harder, so lines rise to the right. A method is worth most where it lifts the left end. "
        "Bars are the deviation over images.",
        "Line chart of the IoU by the foreground's share of the image, one line a method.",
        sizes, draw_sizes,
    ),
    Plot(
        "bland-altman", "good", "Difference to the baseline, subject by subject",
        "Bland and Altman's plot; solid is the bias, dashed are the limits of 95 % of subjects. "
        "Points above 0 are subjects that the method segments better. A gain that is real lifts most points, and the "
        "limits do not reach far below 0.",
        "Bland-Altman plots of the difference in IoU to the baseline over the mean of both.",
        agreement, draw_agreement,
    ),
    Plot(
        "reliability", "sure", "Can the probabilities be believed?",
        "On the diagonal a probability of 0.8 is right eight times in ten. Below it the model is too sure, above it "
        "too timid. Thin dashed lines are after temperature scaling, which needs validation subjects to be fitted on.",
        "Reliability curves: share of foreground over probability, one line a method.",
        reliability, draw_reliability,
    ),
    Plot(
        "risk-coverage", "sure", "Does it know where it errs?",
        "The lower and the longer flat, the better: mistakes then lie among the voxels that the model is unsure of, "
        "and a person who checks those finds them.",
        "Risk-coverage curves: share of wrong voxels among the surest ones, one line a method.",
        risk, draw_risk,
    ),
    Plot(
        "robustness", "robust", "IoU as the images get worse",
        "A robust method falls slowly. Level 0 is the image as it is; bands span the seeds.",
        "Line charts of the IoU over levels of each shift, one line a method.",
        robustness, draw_robustness,
    ),
    Plot(
        "price", "cost", "What was found for the time",
        "Up and to the left is better: more found in less training. Times hold for the machine of the run.",
        "Scatter plot of mean IoU over seconds of training, one point a run.",
        price, draw_price,
    ),
)  # fmt: skip

PICTURES = (
    Picture(
        "masks", "top", "What it finds",
        "The best, the middle and the worst test case at the slice with most foreground. A mask should look like the "
        "truth beside it, also in the last row.",
        "Slices of test cases: the image, the true regions, and the regions that each method found.",
        middle_and_ends, draw_masks,
    ),
    Picture(
        "worst", "good", "The worst cases",
        "The five test cases on which the method with the highest mean IoU scores lowest in any of its runs, worst "
        "first: what goes wrong, and whether it goes wrong for all methods.",
        "Slices of the five worst test cases: the image, the true regions, and those that each method found.",
        lambda cases: cases[:5], draw_masks,
    ),
    Picture(
        "uncertainty", "sure", "Uncertainty beside errors",
        "Bright is unsure: the rims of the entropy should lie where the errors are (first region). A red or blue patch "
        "on black is an error that the model is sure of: no threshold on its uncertainty will find it.",
        "Slices of the worst and the middle test case: errors of each method in colour, and below the entropy.",
        lambda cases: list(dict.fromkeys([cases[0], cases[len(cases) // 2]])), draw_doubts, Scan.has_probabilities,
    ),
    Picture(
        "temperature", "sure", "Confidence at three temperatures",
        "The paper's figure: logits divided by 0.1, 1 and 15. Black is a coin toss, bright is sure. What stays dark at "
        "0.1 is truly undecided; what stays bright at 15 is very sure.",
        "Confidence maps of one slice at temperatures 0.1, 1 and 15, one row a method.",
        lambda cases: [cases[len(cases) // 2]], draw_temperatures, Scan.has_probabilities,
    ),
    Picture(
        "levels", "robust", "What each level looks like",
        "One test case under every shift, from the image as it is on the left to the strongest level. Judge a fall "
        "of the curves by what you see here: attacks are hardly visible, artefacts a clinician would notice.",
        "One slice of a test case under each shift, a row a shift, levels rising to the right.",
        lambda cases: [min(cases)], draw_levels, lambda scan: bool(scan.levels()),
    ),
)  # fmt: skip
