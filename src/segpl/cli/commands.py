"""The commands as functions of their options: thin, and each imports what it needs when it runs."""

import argparse
import json
import sys


def demo(options: argparse.Namespace) -> None:
    """Train on built-in phantoms with and without the unlabelled ones, score both and draw them."""
    from segpl.demo import demo

    demo(options.task, options.out, options.seed, options.all)


def phantom(options: argparse.Namespace) -> None:
    """Write a phantom data set in the nnU-Net layout."""
    from segpl.data.phantoms import write_phantoms

    write_phantoms(options.task, options.out, options.subjects, options.seed)
    print(f"{options.subjects} {options.task} phantoms in {options.out}")


def doctor(options: argparse.Namespace) -> None:
    """Say what is in a data folder and what is wrong with it, in plain words."""
    from segpl.diagnosis import examine
    from segpl.diagnosis.fix import write_fixed
    from segpl.diagnosis.words import as_json, print_diagnosis

    diagnosis = examine(options.data)
    if options.json:
        print(json.dumps(as_json(diagnosis), indent=2))
    else:
        print_diagnosis(diagnosis)
    if options.fix:
        left_out = write_fixed(diagnosis, options.fix)
        print(
            f"repaired copy in {options.fix}" + (f", without {', '.join(left_out)}" if left_out else ""),
            file=sys.stderr,
        )
    if diagnosis.problems:
        sys.exit(2)


def train(options: argparse.Namespace) -> None:
    """Train a model on a folder of labelled and unlabelled scans."""
    from segpl.data.cache import Cache, default_folder
    from segpl.data.layouts import read_dataset
    from segpl.foundation.named import merged
    from segpl.foundation.processes import is_first, taking_part
    from segpl.settings.choices import asked_before, for_method, preset
    from segpl.settings.planning import plan_run
    from segpl.settings.run import read_yaml
    from segpl.training.checkpoints import begun
    from segpl.training.loop import train
    from segpl.training.pace import within_minutes

    settings = asked_before(options.out, options.resume)
    if options.config:
        settings |= read_yaml(preset(options.config))
    settings["method"] = for_method(settings["method"], options.method)
    flags = {"labelled": options.labelled, "steps": options.steps, "seed": options.seed}
    given = {key: value for key, value in flags.items() if value is not None}
    source = str(options.config or "the settings")
    run = plan_run(options.data, merged(settings, given | dict(options.set)), source)
    if options.minutes and not begun(options.out):
        run = within_minutes(run, read_dataset(run.data).task, options.minutes)
    cache = Cache(options.cache or default_folder(), 1e9 * options.cache_limit)
    processes = taking_part(options.devices, options.nodes)
    train(run, options.out, options.resume, cache, processes)
    if is_first():
        cache.report()
        print(f"{run.method.name()} is trained: {options.out}")


def evaluate(options: argparse.Namespace) -> None:
    """Score a trained run on the test cases: masks and scores.csv."""
    from segpl.evaluation import evaluate
    from segpl.evaluation.shifts import parse_shifts
    from segpl.reporting.tables import print_summary, read_scores

    shifts = parse_shifts(options.shift)
    file = evaluate(options.run, options.data, shifts, options.out, options.samples, options.tolerance)
    print_summary(read_scores([file]))
    print(f"scores: {file}")


def predict(options: argparse.Namespace) -> None:
    """Write the masks of new scans, each in the scan's own geometry, with uncertainty if wanted."""
    from segpl.inference.temperature import fitted_temperature
    from segpl.prediction import predict_files
    from segpl.prediction.orders import Order

    temperature = options.temperature or fitted_temperature(options.run)
    order = Order(options.out, options.samples, temperature, options.probabilities, options.format)
    print(f"masks and {predict_files(options.run, options.inputs, order)}")


def rank(options: argparse.Namespace) -> None:
    """Say which scans to label next, most useful first, and why."""
    from segpl.ranking import rank

    print(f"ranking: {rank(options.run, options.inputs, options.out, options.count, options.order, options.samples)}")


def export(options: argparse.Namespace) -> None:
    """Hand a trained run over: as an ONNX model, a MONAI bundle, or an nnU-Net data set with pseudo-labels."""
    from segpl.exporting import export

    print(f"{options.format}: {export(options.run, options.format, options.out)}")


def report(options: argparse.Namespace) -> None:
    """Write one HTML file about a run, several runs or a study: the verdict, figures, every case."""
    from segpl.reporting.page import write_report

    print(f"report: {write_report(options.folders, options.out)}")


def study(options: argparse.Namespace) -> None:
    """Train, score and tabulate all runs that a study file lists."""
    from segpl.study import run_study

    failed = run_study(options.file, options.out, options.data, options.on, options.workers, options.budget)
    if failed:
        print(f"{failed} runs failed: see failed.txt in their directories; the same command tries them again.")
        sys.exit(1)


def search(options: argparse.Namespace) -> None:
    """Search settings on the validation subjects; the best ones become a run.yaml."""
    from segpl.study.search import search

    best = search(options.file, options.out, options.data, options.trials, options.storage)
    print(f"best settings: {best}")


def compare(options: argparse.Namespace) -> None:
    """Say whether the unlabelled scans helped: runs of methods against runs of a baseline on the same test subjects."""
    from segpl.reporting.comparison import print_comparison

    print_comparison(options.runs, options.baseline)


def benchmark(options: argparse.Namespace) -> None:
    """Measure how fast training and prediction are on this machine, as ratios to what it could do."""
    from segpl.benchmark import benchmark

    benchmark(options.out, options.quick, options.repeats)
    print(f"numbers: {options.out}")
