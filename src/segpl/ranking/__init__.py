"""Which scan to label next: unlabelled scans, the one whose label should help most first."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from segpl.data.cases import Case
from segpl.foundation.errors import UserError
from segpl.foundation.progress import console, track
from segpl.inference.predictor import Predictor, load
from segpl.ranking.assessment import Assessment, assess, features_of, read_tile, save_tile
from segpl.ranking.features import Features
from segpl.ranking.ordering import ORDERS, OrderName, Pool, novelty, pick_scans, standardised
from segpl.ranking.reasons import rank_reasons
from segpl.ranking.scans import cases_to_rank, labelled_cases
from segpl.ranking.writing import Ranked, print_ranking, write_ranking, write_sheet
from segpl.reporting.rank_sheet import ROWS, Row
from segpl.rundir import RANK_FILE

__all__ = ["make_ranking", "rank"]


class Result(NamedTuple):
    """The ranked scans, the most useful first, and the error of each scan that failed."""

    ranking: list[Ranked]
    failed: dict[Case, str]
    scans: int
    """How many were to be ranked."""


def rank(
    directory: Path,
    inputs: Sequence[Path],
    out: Path | None = None,
    count: int | None = None,
    order: OrderName = "diverse",
    samples: int = 1,
    show: bool = True,
) -> Path:
    """Rank the scans in `inputs`, or the run's own unlabelled ones, and return `rank.csv`.

    With `show`, the ranking is printed too.
    """
    file = out or directory / RANK_FILE
    result = make_ranking(directory, inputs, file, count, order, samples)
    if result.ranking and show:
        print_ranking(result.ranking, count)
    if result.failed:
        raise _failure(result.failed, result.scans, file)
    return file


def make_ranking(
    directory: Path,
    inputs: Sequence[Path],
    file: Path,
    count: int | None = None,
    order: OrderName = "diverse",
    samples: int = 1,
) -> Result:
    """Rank the scans in `inputs`, or the run's own unlabelled ones, and write the list to `file`.

    A picture of the first scans is written beside it. `count` scans are listed, all by default. The
    order `diverse` prefers scans that are uncertain, and unlike the labelled ones and those with a
    higher rank. `uncertain` looks at each scan by itself, and would put ten copies of a difficult
    scan first. Nothing is random. One scan at a time is in memory.
    """
    predictor = load(directory)
    cases = cases_to_rank(directory, predictor, inputs)
    _check_output(file, cases)
    labelled = _labelled_features(directory, predictor)
    ranking: list[Ranked] = []
    with TemporaryDirectory() as folder:
        tiles = Path(folder)
        assessments, failed = _assess_all(cases, predictor, samples, tiles)
        if assessments:
            ranking = _rank_assessed(assessments, labelled, count, order)
            write_ranking(file, ranking, failed)
            regions = {region.paint: region.name for region in predictor.task.regions}
            sheet_rows = _sheet_rows(ranking, tiles)
            write_sheet(file.with_suffix(".png"), sheet_rows, regions)
    return Result(ranking, failed, len(cases))


def _check_output(file: Path, cases: Sequence[Case]) -> None:
    """Refuse a path that cannot be written or would overwrite a scan, before the long work."""
    outputs = {file.resolve(), file.with_suffix(".png").resolve()}
    if file.is_dir() or len(outputs) < 2:
        raise UserError(
            f"{file} must be the name of a CSV file: the picture beside it ends in .png."
        )
    for case in cases:
        for image in case.images:
            if image.resolve() in outputs:
                raise UserError(
                    f"{image} is a scan and would be overwritten: choose another --out."
                )


def _labelled_features(directory: Path, predictor: Predictor) -> list[Features]:
    """The features of the labelled scans of the run; none where they no longer exist."""
    cases = labelled_cases(directory, predictor)
    if not cases:
        console.print(
            f"The labelled scans of the run are not in {predictor.run.data}: "
            "the ranking does without novelty."
        )
    return [features_of(predictor, case) for case in track(cases, "Reading the labelled scans")]


def _assess_all(
    cases: Sequence[Case],
    predictor: Predictor,
    samples: int,
    tiles: Path,
) -> tuple[dict[Case, Assessment], dict[Case, str]]:
    """The numbers of each scan, and the error of each scan that failed. Tiles go to a folder."""
    assessments: dict[Case, Assessment] = {}
    failed: dict[Case, str] = {}
    for case in track(cases, "Predicting the scans"):
        try:
            assessment, tile = assess(predictor, case, samples)
        except UserError as error:
            failed[case] = str(error)
        else:
            assessments[case] = assessment
            save_tile(tiles, case.name, tile)
    return assessments, failed


def _rank_assessed(
    assessments: Mapping[Case, Assessment],
    labelled: Sequence[Features],
    count: int | None,
    order: OrderName,
) -> list[Ranked]:
    """The rows of `rank.csv`, the most useful scan first."""
    cases = list(assessments)
    numbers = list(assessments.values())
    pool = _pool(cases, numbers, labelled)
    picks = pick_scans(pool, count or len(cases), ORDERS[order])
    novelties = novelty(pool)
    texts = rank_reasons(picks, pool.names, numbers, novelties)
    ranking = []
    for number, (pick, text) in enumerate(zip(picks, texts, strict=True), start=1):
        case = cases[pick.scan]
        assessment = numbers[pick.scan]
        row = Ranked(
            rank=number,
            case=case.name,
            score=pick.score,
            uncertainty=assessment.uncertainty,
            novelty=float(novelties[pick.scan]),
            disagreement=assessment.disagreement,
            slice=assessment.slice,
            reason=text,
            file=case.images[0],
        )
        ranking.append(row)
    return ranking


def _pool(
    cases: Sequence[Case],
    assessments: Sequence[Assessment],
    labelled: Sequence[Features],
) -> Pool:
    features = np.stack([assessment.features for assessment in assessments])
    labelled_features = np.stack(labelled) if labelled else features[:0]
    scaled, scaled_labelled = standardised(features, labelled_features)
    return Pool(
        names=[case.name for case in cases],
        uncertainty=np.array([assessment.uncertainty for assessment in assessments]),
        disagreement=np.array([assessment.disagreement for assessment in assessments]),
        features=scaled,
        labelled=scaled_labelled,
    )


def _sheet_rows(ranking: Sequence[Ranked], tiles: Path) -> list[Row]:
    """The first scans as rows of the contact sheet."""
    rows = []
    for scan in ranking[:ROWS]:
        title = f"{scan.rank}. {scan.case}, slice {scan.slice}"
        tile = read_tile(tiles, scan.case)
        rows.append(Row(title, scan.reason, tile))
    return rows


def _failure(failed: Mapping[Case, str], count: int, file: Path) -> UserError:
    """The error that lists why scans failed, and says where the other ones are."""
    lines = list(failed.values())
    if len(failed) < count:
        summary = f"{len(failed)} of {count} scans cannot be ranked, the others are in {file}:"
        lines.insert(0, summary)
    return UserError("\n  ".join(lines))
