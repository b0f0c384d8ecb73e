"""Scores of single images, as the paper counts them: means over images, and two methods compared.

Images are slices where the network sees slices, and otherwise crops of the patch's size.
"""

from dataclasses import dataclass

import pandas as pd

from segpl.reporting.statistics import BlandAltman, bland_altman, mann_whitney, mean_of_regions
from segpl.reporting.study_numbers import CELL, HEADLINE, WITH_BACKGROUND

IMAGE = ["subject", "case", "image"]
"""The columns that identify an image."""


@dataclass(frozen=True)
class ImageAgreement:
    """Two methods on the same images: the Bland-Altman plot and the test of the paper."""

    agreement: BlandAltman
    mann_whitney: float
    """p-value over the images of the plot, as if they were independent, which they are not."""


def per_image(images: pd.DataFrame, metric: str = HEADLINE) -> pd.DataFrame:
    """One `value` per budget, method and clean image: the mean over its regions, then over seeds.

    The value of an image is undefined if truth and mask are empty in all regions and seeds.
    """
    is_wanted = (images["metric"] == metric) & (images["shift"] == "clean")
    seed_values = mean_of_regions(images[is_wanted], [*CELL, "seed", *IMAGE])
    by_image = seed_values.groupby([*CELL, *IMAGE], sort=False)
    return by_image.mean().reset_index()


def over_images(images: pd.DataFrame) -> pd.DataFrame:
    """A row for each budget and method, with mean and standard deviation over images.

    `images` counts the images with a defined IoU and `undefined` the others; `seeds` counts runs.
    """
    tables = []
    for metric in (HEADLINE, WITH_BACKGROUND):
        by_cell = per_image(images, metric).groupby(CELL, sort=False)["value"]
        means = by_cell.agg(["mean", "std"])
        tables.append(means.add_prefix(f"{metric}_"))
    values = per_image(images).groupby(CELL, sort=False)["value"]
    counts = pd.DataFrame(
        {
            "images": values.count(),
            "undefined": values.size() - values.count(),
            "seeds": images.groupby(CELL, sort=False)["seed"].nunique(),
        }
    )
    return pd.concat([*tables, counts], axis=1).reset_index()


def image_agreement(values: pd.DataFrame, method: str, baseline: str) -> ImageAgreement:
    """Compare two methods on the images that both have, given `per_image` values of one budget."""
    by_image = values.set_index(["method", *IMAGE])["value"]
    both = pd.concat({"a": by_image[method], "b": by_image[baseline]}, axis=1).dropna()
    return ImageAgreement(
        agreement=bland_altman(both["a"], both["b"]),
        mann_whitney=mann_whitney(both["a"], both["b"]),
    )
