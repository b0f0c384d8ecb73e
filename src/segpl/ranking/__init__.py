"""Which scan to label next: the unlabelled ones in the order in which labelling them should help most."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from jaxtyping import Float

from segpl.data.cases import Case
from segpl.foundation.errors import UserError
from segpl.foundation.progress import console, track
from segpl.inference.predictor import Predictor, load
from segpl.ranking.looking import Look, features_of, look, read_tile, save_tile
from segpl.ranking.orders import ORDERS, Name, Pool, novelty, ordered, standardised
from segpl.ranking.scans import cases_to_rank, labelled_cases
from segpl.ranking.words import reasons
from segpl.ranking.writing import Ranked, print_order, write_order, write_sheet
from segpl.reporting.rank_sheet import ROWS, Row
from segpl.rundir import RANK_FILE

__all__ = ["rank"]


def rank(
    directory: Path,
    inputs: Sequence[Path],
    out: Path | None = None,
    count: int | None = None,
    order: Name = "diverse",
    samples: int = 1,
) -> Path:
    """Rank the scans in `inputs`, or the run's own unlabelled ones; return `rank.csv`, beside which is a picture.

    `count` scans are listed, all by default. The order is `diverse` unless asked otherwise: scans that the network is
    unsure of, and that are unlike the labelled ones and those that come before them. `uncertain` looks at each scan by
    itself, and would put ten copies of a difficult one first. Nothing is drawn at random. One scan is held at a time.
    """
    predictor = load(directory)
    cases = cases_to_rank(directory, predictor, inputs)
    file = out or directory / RANK_FILE
    _check(file, cases)
    labelled = _features(labelled_cases(directory, predictor), predictor)
    with TemporaryDirectory() as drafts:
        looks, failed = _look_at(cases, predictor, samples, Path(drafts))
        if looks:
            ranked = _ranked(looks, labelled, count, order)
            write_order(file, ranked, failed)
            regions = {region.paint: region.name for region in predictor.task.regions}
            write_sheet(file.with_suffix(".png"), _rows(ranked, Path(drafts)), regions)
            print_order(ranked, count)
    if failed:
        sentence = (
            f"{len(failed)} of {len(cases)} scans cannot be ranked, the others are in {file}:"
        )
        raise UserError("\n  ".join([sentence, *failed.values()] if looks else failed.values()))
    return file


def _check(file: Path, cases: Sequence[Case]) -> None:
    """Refuse at once what could not be written after a long time, or would be written over a scan."""
    written = {file.resolve(), file.with_suffix(".png").resolve()}
    if file.is_dir() or len(written) < 2:
        raise UserError(
            f"{file} must be the name of a CSV file: the picture beside it ends in .png."
        )
    for image in (image for case in cases for image in case.images if image.resolve() in written):
        raise UserError(f"{image} is a scan and would be written over: choose another --out.")


def _features(cases: Sequence[Case], predictor: Predictor) -> list[Float[np.ndarray, " D"]]:
    if not cases:
        console.print(
            f"The labelled scans of the run are not in {predictor.run.data}: novelty is left open."
        )
    return [features_of(predictor, case) for case in track(cases, "Looking at the labelled scans")]


def _look_at(
    cases: Sequence[Case], predictor: Predictor, samples: int, drafts: Path
) -> tuple[dict[Case, Look], dict[Case, str]]:
    """What is known of each scan, and why nothing is known of the others."""
    looks, failed = dict[Case, Look](), dict[Case, str]()
    for case in track(cases, "Looking at the scans"):
        try:
            looks[case], tile = look(predictor, case, samples)
        except UserError as error:
            failed[case] = str(error)
        else:
            save_tile(drafts, case.name, tile)
    return looks, failed


def _ranked(
    looks: Mapping[Case, Look],
    labelled: Sequence[Float[np.ndarray, " D"]],
    count: int | None,
    order: Name,
) -> list[Ranked]:
    cases, known = list(looks), list(looks.values())
    features = np.stack([each.features for each in known])
    others = np.stack(labelled) if labelled else features[:0]
    pool = Pool(
        [case.name for case in cases],
        np.array([each.uncertainty for each in known]),
        np.array([each.disagreement for each in known]),
        *standardised(features, others),
    )
    picks = ordered(pool, count or len(cases), ORDERS[order])
    unlike = novelty(pool)
    why = reasons(picks, pool.names, known, unlike)
    return [
        Ranked(
            rank=place + 1,
            case=cases[scan].name,
            score=score,
            uncertainty=known[scan].uncertainty,
            novelty=float(unlike[scan]),
            disagreement=known[scan].disagreement,
            slice=known[scan].slice,
            reason=why[place],
            file=cases[scan].images[0],
        )
        for place, (scan, score, *_) in enumerate(picks)
    ]


def _rows(ranked: Sequence[Ranked], drafts: Path) -> list[Row]:
    return [
        Row(
            f"{each.rank}. {each.case}, slice {each.slice}",
            each.reason,
            read_tile(drafts, each.case),
        )
        for each in ranked[:ROWS]
    ]
