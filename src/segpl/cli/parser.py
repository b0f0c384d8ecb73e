"""The command line: thin, and nothing heavy is imported until a command runs."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from segpl import __version__
from segpl.cli import commands
from segpl.cli.options import (
    assignment,
    length,
    natural,
    positive,
    settings_help,
    shifts_help,
    temperature,
)


class CommandParser(argparse.ArgumentParser):
    """A parser whose help ends with details that are put together only when it is shown."""

    def __init__(self, *args: Any, details: Callable[[], str] | None = None, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.formatter_class = argparse.RawDescriptionHelpFormatter
        self.details = details

    def format_help(self) -> str:
        """The help with its details."""
        if self.details is not None:
            self.epilog = self.details()
        return super().format_help()


def command_line() -> argparse.ArgumentParser:
    """All commands and their options."""
    parser = CommandParser("segpl", description="Semi-supervised segmentation of medical images.")
    parser.add_argument("--version", action="version", version=f"segpl {__version__}")
    chosen = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(
        function: Callable[[argparse.Namespace], int | None],
        details: Callable[[], str] | None = None,
    ) -> argparse.ArgumentParser:
        text = function.__doc__
        added = chosen.add_parser(function.__name__, help=text, description=text, details=details)
        when_stopped = commands.WHEN_STOPPED.get(function, commands.STOPPED)
        added.set_defaults(function=function, when_stopped=when_stopped)
        return added

    tasks, file = ("tumour", "vessels"), Path

    one = command(commands.demo)
    one.add_argument("--task", choices=tasks, default="tumour", help="which phantoms [tumour]")
    one.add_argument("--out", type=file, default=Path("demo"), help="where everything goes [demo]")
    one.add_argument(
        "--seed",
        type=natural,
        default=0,
        help="draws who is labelled, the weights and the batches [0]",
    )
    one.add_argument(
        "--all", action="store_true", help="train the paper's own methods too: SegPL and SegPL-VI"
    )

    one = command(commands.phantom)
    one.add_argument("task", choices=tasks)
    one.add_argument("--out", type=file, required=True, help="the folder to write")
    one.add_argument(
        "--subjects",
        type=natural,
        default=24,
        help="a third labelled, a third unlabelled, a third test [24]",
    )
    one.add_argument("--seed", type=natural, default=0, help="draws the subjects [0]")

    one = command(commands.doctor)
    one.add_argument("data", type=file, help="data folder")
    one.add_argument(
        "--fix", type=file, metavar="DIR", help="write a repaired copy where the remedy is certain"
    )
    one.add_argument("--json", action="store_true", help="for scripts")

    one = command(commands.train, settings_help)
    one.add_argument("data", type=file, help="data folder; segpl doctor says what is in it")
    one.add_argument(
        "--method",
        metavar="NAME",
        help="how to learn; see below [segpl-em; segpl with --config brats or carve]",
    )
    one.add_argument(
        "--out", type=file, required=True, metavar="RUN", help="the run directory to make"
    )
    one.add_argument(
        "--labelled",
        type=int,
        metavar="N",
        help="labelled subjects to use; the others serve as unlabelled [all]",
    )
    long = one.add_mutually_exclusive_group()
    long.add_argument("--steps", type=positive, metavar="N", help="optimiser steps [from the data]")
    long.add_argument(
        "--minutes",
        type=length,
        metavar="N",
        help="as many steps as this machine makes in N minutes",
    )
    one.add_argument(
        "--seed", type=int, metavar="N", help="draws the split, the weights and the batches [0]"
    )
    one.add_argument(
        "--config",
        type=file,
        metavar="FILE",
        help="YAML, such as a run.yaml; or brats, carve: the paper's",
    )
    one.add_argument(
        "--set",
        type=assignment,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="one setting",
    )
    one.add_argument(
        "--cache",
        type=file,
        metavar="DIR",
        help="prepared images [SEGPL_CACHE, or the user's cache]",
    )
    one.add_argument(
        "--cache-limit", type=float, default=20, metavar="GB", help="how large it may grow [20]"
    )
    one.add_argument(
        "--devices",
        type=positive,
        metavar="N",
        help="GPUs, or processes, a node [1, or what was started]",
    )
    one.add_argument(
        "--nodes",
        type=positive,
        metavar="N",
        help="machines [1, or what torchrun or SLURM started]",
    )
    one.add_argument(
        "--resume",
        action="store_true",
        help="go on from the last checkpoint of RUN, if there is one",
    )

    one = command(commands.evaluate, shifts_help)
    one.add_argument("run", type=file, metavar="RUN", help="a run directory made by segpl train")
    one.add_argument(
        "--data", type=file, help="score on another data folder with the same channels and regions"
    )
    one.add_argument(
        "--shift",
        action="append",
        default=[],
        metavar="NAME[=LEVEL]",
        help="change the scans too; see below",
    )
    one.add_argument(
        "--samples",
        type=positive,
        default=1,
        metavar="S",
        help="thresholds or members that are drawn and averaged [1]",
    )
    one.add_argument(
        "--tolerance", type=length, default=1.0, metavar="MM", help="of the surface Dice [1 mm]"
    )
    one.add_argument(
        "--out", type=file, metavar="FILE", help="where the scores go [RUN/scores.csv]"
    )

    one = command(commands.predict)
    one.add_argument("run", type=file, metavar="RUN", help="a run directory made by segpl train")
    one.add_argument(
        "inputs",
        type=file,
        nargs="+",
        metavar="INPUT",
        help="scans: files, folders or DICOM series",
    )
    one.add_argument(
        "--out", type=file, required=True, metavar="DIR", help="masks, maps and cases.csv go here"
    )
    one.add_argument(
        "--samples",
        type=positive,
        default=1,
        metavar="S",
        help="opinions to average; 2 or more: maps [1]",
    )
    one.add_argument(
        "--temperature", type=temperature, default=1.0, metavar="T", help="a number, or fit [1]"
    )
    one.add_argument(
        "--probabilities", action="store_true", help="write the foreground's probability too"
    )
    one.add_argument(
        "--format",
        choices=("nifti", "same", "dicom-seg"),
        default="nifti",
        help="of the masks [nifti]",
    )

    one = command(commands.rank)
    one.add_argument("run", type=file, metavar="RUN", help="a run directory made by segpl train")
    one.add_argument(
        "inputs",
        type=file,
        nargs="*",
        metavar="INPUT",
        help="scans [the run's own unlabelled ones]",
    )
    one.add_argument(
        "--out", type=file, metavar="FILE", help="the list; a picture goes beside it [RUN/rank.csv]"
    )
    one.add_argument("--count", type=positive, metavar="N", help="how many to list [all]")
    one.add_argument(
        "--order",
        choices=("diverse", "uncertain"),
        default="diverse",
        help="what comes first [diverse]",
    )
    one.add_argument(
        "--samples",
        type=positive,
        default=1,
        metavar="S",
        help="opinions behind the uncertainty [1]",
    )

    one = command(commands.export)
    one.add_argument("run", type=file, metavar="RUN", help="a run directory made by segpl train")
    one.add_argument(
        "--format", choices=("onnx", "bundle", "nnunet"), required=True, help="what to write"
    )
    one.add_argument(
        "--out", type=file, required=True, metavar="PATH", help="the file or folder to make"
    )

    one = command(commands.report)
    one.add_argument(
        "folders", type=file, nargs="+", metavar="DIR", help="a run, a folder of runs, or a study"
    )
    one.add_argument("--out", type=file, metavar="FILE", help="the page [DIR/report.html]")

    one = command(commands.study)
    one.add_argument(
        "file", type=file, metavar="FILE", help="the study: data, methods, budgets, seeds, shifts"
    )
    one.add_argument(
        "--out", type=file, required=True, metavar="DIR", help="runs and tables go here"
    )
    one.add_argument("--data", type=file, help="a data folder instead of the one that FILE names")
    one.add_argument(
        "--on", default="local", metavar="WHERE", help="local, ray or ray://HOST:PORT [local]"
    )
    one.add_argument(
        "--workers", type=positive, metavar="N", help="runs at a time [1; on Ray as many as fit]"
    )
    one.add_argument(
        "--budget", type=length, metavar="MINUTES", help="leave out what does not fit, and say what"
    )

    one = command(commands.search)
    one.add_argument(
        "file",
        type=file,
        metavar="FILE",
        help="the search: data, settings, and the space to search",
    )
    one.add_argument(
        "--out",
        type=file,
        required=True,
        metavar="DIR",
        help="trials and the best run.yaml go here",
    )
    one.add_argument("--data", type=file, help="a data folder instead of the one that FILE names")
    one.add_argument(
        "--trials", type=positive, metavar="N", help="stop when so many are done [what FILE says]"
    )
    one.add_argument(
        "--storage", metavar="URL", help="a database that machines share [a journal file in DIR]"
    )

    one = command(commands.compare)
    one.add_argument(
        "runs",
        type=file,
        nargs="+",
        metavar="RUN",
        help="scored run directories, or folders of them",
    )
    one.add_argument(
        "--baseline",
        default="supervised",
        metavar="METHOD",
        help="what they are compared with [supervised]",
    )

    one = command(commands.benchmark)
    one.add_argument(
        "--quick", action="store_true", help="under two minutes: two methods, nothing compiled"
    )
    one.add_argument(
        "--repeats", type=positive, default=3, metavar="N", help="measurements of each thing [3]"
    )
    one.add_argument(
        "--out",
        type=file,
        default=Path("benchmark.json"),
        metavar="FILE",
        help="the numbers [benchmark.json]",
    )
    return parser
