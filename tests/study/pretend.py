"""Takes the place of a worker and trains nothing: python pretend.py PLAN WORKED DIRECTORY."""

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
IOU = {"supervised": 0.5, "segpl": 0.75}


def pretend(plan: Path, worked: Path, directory: Path) -> None:
    """Fail, die, or write made-up scores, as the plan says."""
    run = yaml.safe_load((directory / "run.yaml").read_text(encoding="utf-8"))
    with worked.open("a") as names:
        names.write(directory.name + "\n")
    fates = json.loads(plan.read_text(encoding="utf-8"))
    fate = fates.get(f"{run['method']['name']} {run['seed']}")
    if fate == "fail":
        (directory / "failed.txt").write_text("the scanner was on fire\n")
        return
    if fate == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    evaluation = json.loads((directory / "evaluation.json").read_text(encoding="utf-8"))
    write_scores(directory, run, evaluation["shifts"])
    (directory / "cost.json").write_text(json.dumps(COST))
    seconds = {"training": 5.0 + run["steps"], "evaluation": 2.0 + len(evaluation["shifts"])}
    done = {"evaluation": evaluation, "scores": "scores.csv", "seconds": seconds}
    (directory / "done.json").write_text(json.dumps(done))


def write_scores(directory: Path, run: dict, shifts: list[str]) -> None:
    """Scores of three subjects; a shift lowers them, and subject a is the worst."""
    levels = [("clean", 0.0)]
    for text in shifts:
        name, _, level = text.partition("=")
        levels.append((name, float(level)))
    method = run["method"]["name"]
    origin = f"{directory.name},{method},{run['seed']},{run['labelled']}"
    rows = [COLUMNS]
    for subject in "abc":
        for shift, level in levels:
            value = (IOU[method] + 0.01 * run["seed"]) * (1 - level) - 0.1 * (subject == "a")
            for metric in ("iou", "mean_iou"):
                rows.append(f"{origin},{subject},{subject},tumour,{shift},{level},{metric},{value}")
    (directory / "scores.csv").write_text("\n".join([*rows, ""]))


plan_file, worked_file, run_directory = sys.argv[1:]
pretend(Path(plan_file), Path(worked_file), Path(run_directory))
