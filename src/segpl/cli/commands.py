"""The commands as functions of their options: thin, and each imports what it needs when it runs.

A command returns its exit code, or nothing if all went well.
"""

import argparse
import json
import sys
from collections.abc import Callable

from segpl import api


def demo(options: argparse.Namespace) -> None:
    """Train on built-in phantoms with and without the unlabelled ones, score both and draw them."""
    from segpl.demo import demo

    demo(options.task, options.out, options.seed, options.all)


def phantom(options: argparse.Namespace) -> None:
    """Write a phantom data set in the nnU-Net layout."""
    from segpl.data.phantoms import write_phantoms

    write_phantoms(options.task, options.out, options.subjects, options.seed)
    print(f"{options.subjects} {options.task} phantoms in {options.out}")


def doctor(options: argparse.Namespace) -> int:
    """Say what is in a data folder and what is wrong with it, in plain words."""
    from segpl.diagnosis.fix import write_fixed
    from segpl.diagnosis.words import as_json, print_diagnosis

    diagnosis = api.doctor(options.data)
    if options.json:
        print(json.dumps(as_json(diagnosis), indent=2))
    else:
        print_diagnosis(diagnosis)
    if options.fix:
        left_out = write_fixed(diagnosis, options.fix)
        without = f", without {', '.join(left_out)}" if left_out else ""
        print(f"repaired copy in {options.fix}{without}", file=sys.stderr)
    return 2 if diagnosis.problems else 0


def train(options: argparse.Namespace) -> None:
    """Train a model on a folder of labelled and unlabelled scans."""
    from segpl.foundation.processes import is_first
    from segpl.settings.run import read_run

    flags = {"labelled": options.labelled, "steps": options.steps, "seed": options.seed}
    given = {key: value for key, value in flags.items() if value is not None}
    directory = api.train(
        options.data,
        options.out,
        method=options.method,
        config=options.config,
        settings=given | dict(options.set),
        minutes=options.minutes,
        resume=options.resume,
        cache=options.cache,
        cache_limit=options.cache_limit,
        devices=options.devices,
        nodes=options.nodes,
    )
    if is_first():
        print(f"{read_run(directory).method.name()} is trained: {directory}")


def evaluate(options: argparse.Namespace) -> None:
    """Score a trained run on the test cases: masks and scores.csv."""
    from segpl.reporting.tables import print_summary, read_scores

    file = api.evaluate(
        options.run,
        data=options.data,
        shifts=options.shift,
        samples=options.samples,
        tolerance=options.tolerance,
        out=options.out,
    )
    print_summary(read_scores([file]))
    print(f"scores: {file}")


def predict(options: argparse.Namespace) -> None:
    """Write the masks of new scans, each in the scan's own geometry, with uncertainty if wanted."""
    table = api.predict(
        options.run,
        options.inputs,
        options.out,
        samples=options.samples,
        temperature=options.temperature,
        probabilities=options.probabilities,
        format=options.format,
    )
    print(f"masks and {table}")


def rank(options: argparse.Namespace) -> None:
    """Say which scans to label next, most useful first, and why."""
    file = api.rank(
        options.run,
        options.inputs,
        out=options.out,
        count=options.count,
        order=options.order,
        samples=options.samples,
    )
    print(f"ranking: {file}")


def export(options: argparse.Namespace) -> None:
    """Hand a trained run over: as an ONNX model, a MONAI bundle, or an nnU-Net data set with pseudo-labels."""
    print(f"{options.format}: {api.export(options.run, options.format, options.out)}")


def report(options: argparse.Namespace) -> None:
    """Write one HTML file about a run, several runs or a study: the verdict, figures, every case."""
    print(f"report: {api.report(options.folders, out=options.out)}")


def study(options: argparse.Namespace) -> int:
    """Train, score and tabulate all runs that a study file lists."""
    from segpl.study.running import run_study

    failed = run_study(
        options.file, options.out, options.data, options.on, options.workers, options.budget
    )
    if not failed:
        return 0
    print(
        f"{failed} runs failed: see failed.txt in their directories; the same command tries them again."
    )
    return 1


def search(options: argparse.Namespace) -> None:
    """Search settings on the validation subjects; the best ones become a run.yaml."""
    from segpl.study.search import search

    best = search(options.file, options.out, options.data, options.trials, options.storage)
    print(f"best settings: {best}")


def compare(options: argparse.Namespace) -> None:
    """Say whether the unlabelled scans helped: runs of methods against runs of a baseline on the same test subjects."""
    api.compare(options.runs, baseline=options.baseline)


def benchmark(options: argparse.Namespace) -> None:
    """Measure how fast training and prediction are on this machine, as ratios to what it could do."""
    from segpl.benchmark import benchmark

    benchmark(options.out, options.quick, options.repeats)
    print(f"numbers: {options.out}")


WHEN_STOPPED: dict[Callable[[argparse.Namespace], int | None], str] = {
    demo: "stopped. The same command goes on from here.",
    train: "stopped. The same command with --resume goes on from the last checkpoint, if there is one.",
    evaluate: "stopped. What was measured is kept, and the same command goes on from there.",
    predict: "stopped. The masks that are written are whole, and the same command predicts the other scans.",
    study: "stopped. What is done is kept, and the same command goes on from there.",
    search: "stopped. The trials that have ended are kept, and the same command goes on from there.",
}
"""What is true after Ctrl-C, by command."""
STOPPED = "stopped."
"""The same for the other commands."""
