"""The command line: thin, and nothing heavy is imported until a command runs."""

import argparse
import json
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from segpl import __version__, describe
from segpl.errors import UserError


def demo(options: argparse.Namespace) -> None:
    """Train supervised, SegPL and SegPL-VI on built-in phantoms, score them and draw them."""
    from segpl.demo import demo

    demo(options.task, options.out)


def phantom(options: argparse.Namespace) -> None:
    """Write a phantom data set in the nnU-Net layout."""
    from segpl.data.phantoms import write_phantoms

    write_phantoms(options.task, options.out, options.subjects, options.seed)
    print(f"{options.subjects} {options.task} phantoms in {options.out}")


def doctor(options: argparse.Namespace) -> None:
    """Say what is in a data folder and what is wrong with it, in plain words."""
    from segpl.doctor import examine
    from segpl.doctor.fix import write_fixed
    from segpl.doctor.words import as_json, print_diagnosis

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
    from segpl.run import RUN_FILE, for_method, plan_run, preset, read_yaml
    from segpl.training import train

    started = options.out / RUN_FILE
    settings = read_yaml(started) if options.resume and started.is_file() else {"method": "segpl"}
    if options.config:
        settings |= read_yaml(preset(options.config))
    settings["method"] = for_method(settings["method"], options.method)
    flags = {"labelled": options.labelled, "steps": options.steps, "seed": options.seed}
    given = {key: value for key, value in flags.items() if value is not None}
    source = str(options.config or "the settings")
    run = plan_run(options.data, merged(settings, given | dict(options.set)), source)
    cache = Cache(options.cache or default_folder(), 1e9 * options.cache_limit)
    train(run, options.out, resume=options.resume, cache=cache)
    cache.report()
    print(f"{run.method.name()} is trained: {options.out}")


def evaluate(options: argparse.Namespace) -> None:
    """Score a trained run on the test cases: masks and scores.csv."""
    from segpl.evaluation import evaluate
    from segpl.evaluation.shifts import parse_shifts
    from segpl.report.tables import print_summary, read_scores

    file = evaluate(options.run, options.data, parse_shifts(options.shift), options.out)
    print_summary(read_scores([file]))
    print(f"scores: {file}")


def merged(settings: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Settings with dotted keys such as method.alpha put in their place."""
    result = {key: dict(value) if isinstance(value, dict) else value for key, value in settings.items()}
    for key, value in given.items():
        *path, last = key.split(".")
        place = result
        for part in path:
            inner = place.get(part, {})
            if not isinstance(inner, dict | str):
                raise UserError(f"--set {key}: {part} has no settings of its own: leave out what follows it.")
            place[part] = place = {"name": inner} if isinstance(inner, str) else dict(inner)
        place[last] = value
    return result


def assignment(text: str) -> tuple[str, Any]:
    """`key=value`, the value read as YAML."""
    import yaml

    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form key=value")
    try:
        return key, yaml.safe_load(value)
    except yaml.YAMLError:
        raise argparse.ArgumentTypeError(f"the value of {text!r} is not valid YAML") from None


def natural(text: str) -> int:
    """A whole number of 0 or more."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 0 or more")
    return int(text)


def settings_help() -> str:
    """What --method and --set accept, from the docstrings of the fields."""

    def lines(title: str, settings: list[describe.Setting], prefix: str = "") -> list[str]:
        rows = [f"  {prefix + setting.name:<24} {setting.text} [{setting.default}]" for setting in settings]
        return [title, *rows, ""] if rows else []

    text = ["methods:", *(f"  {name:<24} {method.text}" for name, method in describe.methods().items()), ""]
    own = [setting for setting in describe.run_settings() if setting.name not in ("data", "method")]
    text += lines("settings (--set key=value, or a line of the --config file):", own)
    text += lines("settings that methods share (supervised: objective alone):", describe.shared_settings(), "method.")
    for name, method in describe.methods().items():
        text += lines(f"settings of {name}:", method.settings, "method.")
    for name, prior in describe.priors().items():
        text += [f"prior {name} (--set method.prior.name={name}): {prior.text}"]
        text += lines("", prior.settings, "method.prior.")[1:]
    return "\n".join(text)


def command_line() -> argparse.ArgumentParser:
    """All commands and their options."""
    parser = argparse.ArgumentParser("segpl", description="Semi-supervised segmentation of medical images.")
    parser.add_argument("--version", action="version", version=f"segpl {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(function: Callable[[argparse.Namespace], None], epilog: str | None = None) -> argparse.ArgumentParser:
        plain = argparse.RawDescriptionHelpFormatter
        text = function.__doc__
        added = commands.add_parser(
            function.__name__, help=text, description=text, epilog=epilog, formatter_class=plain
        )
        added.set_defaults(function=function)
        return added

    tasks, file = ("tumour", "vessels"), Path

    one = command(demo)
    one.add_argument("--task", choices=tasks, default="tumour", help="which phantoms [tumour]")
    one.add_argument("--out", type=file, default=Path("demo"), help="where everything goes [demo]")

    one = command(phantom)
    one.add_argument("task", choices=tasks)
    one.add_argument("--out", type=file, required=True, help="the folder to write")
    one.add_argument(
        "--subjects", type=natural, default=24, help="a third labelled, a third unlabelled, a third test [24]"
    )
    one.add_argument("--seed", type=natural, default=0, help="draws the subjects [0]")

    one = command(doctor)
    one.add_argument("data", type=file, help="data folder")
    one.add_argument("--fix", type=file, metavar="DIR", help="write a repaired copy where the remedy is certain")
    one.add_argument("--json", action="store_true", help="for scripts")

    one = command(train, settings_help() if "train" in sys.argv else None)
    one.add_argument("data", type=file, help="data folder in the nnU-Net layout")
    one.add_argument("--method", metavar="NAME", help="how to learn; see below [segpl]")
    one.add_argument("--out", type=file, required=True, metavar="RUN", help="the run directory to make")
    one.add_argument("--labelled", type=int, metavar="N", help="subjects that keep their label [all]")
    one.add_argument("--steps", type=int, metavar="N", help="optimiser steps [200]")
    one.add_argument("--seed", type=int, metavar="N", help="draws the split, the weights and the batches [0]")
    one.add_argument(
        "--config", type=file, metavar="FILE", help="YAML, such as a run.yaml; or brats, carve: the paper's"
    )
    one.add_argument("--set", type=assignment, action="append", default=[], metavar="KEY=VALUE", help="one setting")
    one.add_argument("--cache", type=file, metavar="DIR", help="prepared images [SEGPL_CACHE, or the user's cache]")
    one.add_argument("--cache-limit", type=float, default=20, metavar="GB", help="how large it may grow [20]")
    one.add_argument("--resume", action="store_true", help="go on from the last checkpoint of RUN, if there is one")

    one = command(evaluate)
    one.add_argument("run", type=file, metavar="RUN", help="a run directory made by segpl train")
    one.add_argument("--data", type=file, help="score on another data folder with the same channels and regions")
    one.add_argument(
        "--shift", action="append", default=[], metavar="NAME=LEVEL", help="also ood=0.1, fgsm=... or pgd=..."
    )
    one.add_argument("--out", type=file, metavar="FILE", help="where the scores go [RUN/scores.csv]")
    return parser


def main() -> None:
    """Run a command. Exit codes: 0 done; 2 the input is wrong, in one sentence; 1 anything else."""
    options = command_line().parse_args()
    try:
        options.function(options)
    except UserError as error:
        sys.exit(_complain(str(error), 2))
    except OSError as error:
        name = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        sys.exit(_complain(f"{name}: check the path, the disk, and that you may write there.", 2))
    except KeyboardInterrupt:
        sys.exit(_complain("stopped. A training goes on from its last checkpoint with --resume.", 1))
    except Exception as error:
        with tempfile.NamedTemporaryFile("w", prefix="segpl-", suffix=".log", delete=False) as log:
            log.write(traceback.format_exc())
        sys.exit(_complain(f"this should not have happened: {error!r}. Please report it with {log.name}.", 1))


def _complain(message: str, code: int) -> int:
    print(f"segpl: {message}", file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
