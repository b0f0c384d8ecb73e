"""From a folder of scans to an answer: what `segpl run` does.

It checks the data, trains with and without the unlabelled scans, gives the verdict, and uses the
runs of the better side together for masks and for the list of what to label next.
"""

import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from segpl.data.cases import Cases, Dataset
from segpl.data.layouts import read_dataset
from segpl.diagnosis import check
from segpl.evaluation import evaluate
from segpl.foundation.errors import UserError
from segpl.foundation.files import remove_drafts, write_text
from segpl.foundation.locks import exclusive_use
from segpl.foundation.progress import console, format_duration, silenced
from segpl.inference.predictor import load
from segpl.prediction import predict_cases
from segpl.prediction.request import Request
from segpl.ranking import make_ranking
from segpl.reporting.page import write_report
from segpl.reporting.prediction_sheet import write_prediction_sheet
from segpl.rundir import (
    ANSWER_FILE,
    ANSWER_MASKS,
    RANK_FILE,
    SCORES_FILE,
    is_trained,
    write_json,
)
from segpl.settings.run import Run
from segpl.training.loop import train
from segpl.workflow.answer import Answer, Outcome, compare_runs, read_ranking
from segpl.workflow.duration import (
    FEWEST_STEPS,
    LATE,
    Costs,
    Seconds,
    estimate,
    fit_into,
    is_too_short,
    measure_costs,
    seconds_of_training,
)
from segpl.workflow.plan import (
    PLAN_FILE,
    Options,
    Plan,
    Testing,
    choose_testing,
    describe,
    directory_of,
    make_plan,
    read_plan,
    scans_without_label,
    write_plan,
)
from segpl.workflow.progress import Display, Stage, TrainingProgress

__all__ = ["Answer", "Options", "run"]

SUMMARY_FILE = "summary.txt"
REPORT_FILE = "report.html"
NO_TEST = "there are too few labelled subjects to test on. Label more scans."


def run(options: Options, out: Path, quiet: bool = False) -> Answer:
    """Do everything, and leave it in `out`; what an earlier call finished is not repeated."""
    started = time.monotonic()
    with silenced() if quiet else nullcontext():
        _check_folders(options.data, out)
        dataset = read_dataset(options.data.resolve())
        plan = read_plan(options, dataset, out)
        deadline = None
        if plan is None:
            _check_data(options.data)
            plan, costs = _new_plan(options, dataset, started)
            if options.minutes is not None:
                deadline = started + LATE * 60 * options.minutes
        else:
            costs = measure_costs(plan, dataset)
        _announce(plan, dataset, estimate(plan, costs, dataset))
    with exclusive_use(out):
        remove_drafts(out, depth=1)
        write_plan(plan, options, dataset, out)
        work = _Work(plan, dataset, costs, out)
        with Display(work.stages(), quiet) as display:
            work.train_all(display, deadline)
            write_plan(work.plan, options, dataset, out)
            answer = work.use(display)
        write_text(out / SUMMARY_FILE, "\n".join(answer.lines()) + "\n")
    return answer


def _check_folders(data: Path, out: Path) -> None:
    """Refuse an output folder with other contents, and one among the data."""
    if out.resolve().is_relative_to(data.resolve()):
        raise UserError(f"--out {out} is inside the data folder: choose a folder outside it.")
    if out.is_file():
        raise UserError(f"--out {out} is a file: choose a folder.")
    if out.is_dir() and not (out / PLAN_FILE).is_file():
        contents = [path for path in out.iterdir() if not path.name.startswith(".")]
        if contents:
            raise UserError(f"--out {out} is not empty: choose another folder.")


def _check_data(data: Path) -> None:
    """Read every scan; any problem is an error."""
    problems = check(data.resolve()).problems
    if len(problems) > 1:
        raise UserError(
            f"{data} has {len(problems)} problems, which segpl doctor {data} lists. "
            f"The first: {problems[0]}"
        )
    if problems:
        raise UserError(problems[0])


def _new_plan(options: Options, dataset: Dataset, started: float) -> tuple[Plan, Costs]:
    """What to do within the minutes that are left, and what a step and a scan cost."""
    testing = choose_testing(options, dataset)
    plan = make_plan(options, dataset, testing)
    costs = measure_costs(plan, dataset)
    minutes = options.minutes
    if minutes is None:
        return plan, costs
    left = 60 * minutes - (time.monotonic() - started)
    plan = fit_into(plan, costs, dataset, minutes, left)
    if is_too_short(plan):
        console.print(f"{minutes:g} minutes are too short to leave out each subject in turn.")
        plan = make_plan(options, dataset, Testing.NONE)
        plan = fit_into(plan, costs, dataset, minutes, left)
    return plan, costs


def _announce(plan: Plan, dataset: Dataset, seconds: Seconds) -> None:
    for line in describe(plan, dataset):
        console.print(line, markup=False)
    console.print(
        f"Time: about {format_duration(seconds.training)} of training and "
        f"{format_duration(seconds.after_training)} for scores, masks, ranking and report"
    )
    if plan.steps < FEWEST_STEPS:
        console.print("These trainings are short: with more minutes, expect better masks.")


class _Work:
    """What is left of a plan: the stages that no earlier call has finished."""

    def __init__(self, plan: Plan, dataset: Dataset, costs: Costs, out: Path):
        self.plan = plan
        self.dataset = dataset
        self.costs = costs
        self.out = out
        self.masks = out / ANSWER_MASKS
        self.ranking_file = out / RANK_FILE
        self.to_rank, only_to_predict = scans_without_label(dataset, plan.runs)
        self.to_predict: Cases = self.to_rank + only_to_predict

    def untrained(self, runs: Sequence[Run]) -> list[Run]:
        """Those of the runs that are to be trained."""
        return [run for run in runs if not is_trained(directory_of(run, self.out))]

    def unscored(self) -> list[Run]:
        """The runs that are to be scored."""
        if self.plan.testing is Testing.NONE:
            return []
        return [run for run in self.plan.runs if not self._is_scored(run)]

    def _is_scored(self, run: Run) -> bool:
        return (directory_of(run, self.out) / SCORES_FILE).is_file()

    def train_all(self, display: Display, deadline: float | None) -> None:
        """Train seed by seed; the seeds that would end after the deadline leave the plan.

        The first seed is always trained. The deadline is a time of `time.monotonic`.
        """
        for seed in self.plan.seeds:
            runs = self.untrained(self.plan.runs_of(seed))
            is_late = deadline is not None and self._ends_at(runs, display) > deadline
            if is_late and seed != self.plan.seeds[0]:
                self._leave_out_from(seed, display)
                return
            for run in runs:
                self._train(run, display)

    def _ends_at(self, runs: Sequence[Run], display: Display) -> float:
        """When everything would be done if these were the last runs to train."""
        training = sum(seconds_of_training(run, self.costs) for run in runs)
        rest = estimate(self.plan, self.costs, self.dataset).after_training
        return time.monotonic() + display.pace * (training + rest)

    def _leave_out_from(self, seed: int, display: Display) -> None:
        kept = self.plan.before(seed)
        left_out = [run for run in self.plan.runs if run not in kept.runs]
        titles = [self._training_title(run) for run in left_out]
        titles += [_scoring_title(run) for run in left_out]
        display.drop(titles)
        seeds = ", ".join(str(number) for number in self.plan.seeds if number not in kept.seeds)
        display.say(f"This machine is slower than it was: no time is left for seeds {seeds}.")
        self.plan = kept

    def use(self, display: Display) -> Answer:
        """Score and compare the trained runs, and predict with the better ones."""
        for run in self.unscored():
            with display.next_stage():
                evaluate(directory_of(run, self.out))
        outcome = self._compare()
        method = outcome.better(self.plan.methods[-1])
        runs = self.out / method
        write_json(self.out / ANSWER_FILE, {"runs": method})
        if self.to_predict:
            with display.next_stage():
                self._predict(runs)
        if self._ranks():
            with display.next_stage():
                self._rank(method)
        with display.next_stage():
            report = write_report([self.out], self.out / REPORT_FILE)
        return Answer(
            outcome=outcome,
            runs=runs,
            members=len(self.plan.seeds),
            scans=len(self.to_predict),
            masks=self.masks,
            ranking=read_ranking(self.ranking_file),
            ranking_file=self.ranking_file,
            report=report,
        )

    def stages(self) -> list[Stage]:
        """The stages of `train_all` and `use`, in their order."""
        seconds = estimate(self.plan, self.costs, self.dataset)
        stages = []
        for run in self.untrained(self.plan.runs):
            title = self._training_title(run)
            stages.append(Stage(title, seconds_of_training(run, self.costs)))
        for run in self.unscored():
            share = seconds.scoring / len(self.plan.runs)
            stages.append(Stage(_scoring_title(run), share))
        if self.to_predict:
            title = f"Predicting {len(self.to_predict)} unlabelled scans"
            stages.append(Stage(title, seconds.prediction))
        if self._ranks():
            stages.append(Stage("Ranking what to label next", seconds.ranking))
        stages.append(Stage("Writing the report", seconds.report))
        return stages

    def _training_title(self, run: Run) -> str:
        number = self.plan.runs.index(run) + 1
        return f"Training {_title(run)} ({number} of {len(self.plan.runs)})"

    def _ranks(self) -> bool:
        return bool(self.to_rank) and not self.ranking_file.is_file()

    def _train(self, run: Run, display: Display) -> None:
        with display.next_stage() as stage:
            watcher = TrainingProgress(display, stage, run.steps)
            directory = directory_of(run, self.out)
            train(run, directory, resume=True, watchers=[watcher], dataset=self.dataset)

    def _compare(self) -> Outcome:
        if self.plan.testing is Testing.NONE:
            return Outcome({}, None, NO_TEST)
        return compare_runs([self.out / method for method in self.plan.methods])

    def _predict(self, runs: Path) -> None:
        """Write the masks; those that exist are skipped."""
        request = Request(self.masks, probabilities=True)
        predict_cases(runs, load(runs), self.to_predict, request)
        write_prediction_sheet(self.masks)

    def _rank(self, method: str) -> None:
        """Rank by the first run of the method: by all it would take as many times as long."""
        runs = [run for run in self.plan.runs if run.method.name() == method]
        make_ranking(directory_of(runs[0], self.out), [], self.ranking_file)


def _scoring_title(run: Run) -> str:
    return f"Scoring {_title(run)}"


def _title(run: Run) -> str:
    return f"{run.method.name()}, seed {run.seed}"
