"""Called in the place of a worker: python pretend.py PLAN WORKED DIRECTORY."""

import json
import os
import signal
import sys
from pathlib import Path

import yaml

COLUMNS = "run,method,seed,labelled,subject,case,region,shift,level,metric,value"
COST = {
    "seconds_per_step": 0.5,
    "flops_prediction": 1,
    "flops_labelled": 2,
    "flops_unlabelled": 3,
    "parameters": 4,
}
FACTORS = {"supervised": 0.5, "segpl": 0.75}


def pretend(plan: Path, worked: Path, directory: Path) -> None:
    """Fail, die, or leave made-up scores."""
    run = yaml.safe_load((directory / "run.yaml").read_text(encoding="utf-8"))
    with worked.open("a") as names:
        names.write(directory.name + "\n")
    fate = json.loads(plan.read_text(encoding="utf-8")).get(
        f"{run['method']['name']} {run['seed']}"
    )
    if fate == "fail":
        (directory / "failed.txt").write_text("the scanner was on fire\n")
        return
    if fate == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    wanted = json.loads((directory / "evaluation.json").read_text(encoding="utf-8"))
    shifts = [
        ("clean", 0.0),
        *((text.partition("=")[0], float(text.partition("=")[2])) for text in wanted["shifts"]),
    ]
    origin = f"{directory.name},{run['method']['name']},{run['seed']},{run['labelled']}"
    rows = [
        f"{origin},{subject},{subject},tumour,{shift},{level},{metric},"
        f"{(FACTORS[run['method']['name']] + 0.01 * run['seed']) * (1 - level) - 0.1 * (subject == 'a')}"
        for subject in "abc"
        for shift, level in shifts
        for metric in ("iou", "mean_iou")
    ]
    (directory / "scores.csv").write_text("\n".join([COLUMNS, *rows, ""]))
    (directory / "cost.json").write_text(json.dumps(COST))
    seconds = {"training": 5.0 + run["steps"], "evaluation": 2.0 + len(wanted["shifts"])}
    done = {"evaluation": wanted, "scores": "scores.csv", "seconds": seconds}
    (directory / "done.json").write_text(json.dumps(done))


pretend(*map(Path, sys.argv[1:]))
