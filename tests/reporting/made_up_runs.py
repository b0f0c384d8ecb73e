"""Run directories as training and evaluation leave them, made up in milliseconds for the tests of the report."""

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import yaml
from PIL import Image

from segpl.foundation.files import file_name, write_nifti, write_text

STRANGE = ("<script>document.title='run'</script>", 'quote"d & a/b', "Fall_Ä 患者 $x^$")
"""Names of cases that a page must show and not obey."""
SHAPE = (20, 24, 5)
REGIONS = [
    {"name": "whole", "values": [1, 2], "paint": 1},
    {"name": "core <i>", "values": [2], "paint": 2},
]
METRICS = (
    "iou",
    "mean_iou",
    "dice",
    "hd95",
    "surface_dice",
    "volume_error",
    "brier",
    "ece",
    "nll",
    "aurc",
)


def data_folder(folder: Path, cases=STRANGE) -> Path:
    """A manifest of test cases, and one for training."""
    rows = []
    for number, name in enumerate((*cases, "training")):
        x, y, z = np.meshgrid(*map(np.arange, SHAPE), indexing="ij")
        far = np.hypot(x - 10, y - 9 - number) + abs(z - 2)
        label = ((far < 6).astype(np.uint8) + (far < 3)).astype(np.uint8)
        write_nifti(
            folder / f"image{number}.nii.gz",
            (100 * label + 10 * x).astype(np.int16),
            np.diag([1, 1, 3, 1]),
        )
        write_nifti(folder / f"label{number}.nii.gz", label, np.diag([1, 1, 3, 1]))
        part = "train" if name == "training" else "test"
        rows.append(
            [f"subject {number}", name, f"image{number}.nii.gz", f"label{number}.nii.gz", part]
        )
    with (folder / "manifest.csv").open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([["subject", "case", "image", "label", "split"], *rows])
    return folder


def run_folder(
    folder: Path, data: Path, method="segpl", seed=0, labelled=2, cases=STRANGE, steps=40, shifts=()
) -> Path:
    """One run directory, trained and scored."""
    draw = np.random.default_rng([seed, labelled, len(method)])
    settings = {
        "name": method,
        "alpha": 0.05,
        "prior": {"name": "normal", "mean": 0.5, "deviation": 0.1},
    }
    run = {
        "data": str(data),
        "method": settings,
        "labelled": labelled,
        "seed": seed,
        "steps": steps,
    }
    write_text(folder / "run.yaml", yaml.safe_dump(run))
    write_text(folder / "task.yaml", yaml.safe_dump({"channels": ["t1"], "regions": REGIONS}))
    split = {
        "labelled": ["training"],
        "unlabelled": ["u1", "u2"],
        "validation": ["v"],
        "subjects": ["training"],
    }
    use = {"total": labelled + 1, "learning": labelled, "validation": 1, "extra_validation": True}
    _json(folder / "split.json", split | {"labelled_subjects": use})
    _json(
        folder / "prediction_cost.json", {"samples": 1, "voxels_per_second": 2e6, "device": "cpu"}
    )
    flops = {f"flops_{kind}": 1e9 for kind in ("labelled", "unlabelled", "prediction")}
    cost = {
        "parameters": 5000,
        **flops,
        "seconds_per_step": 0.1 * len(method),
        "seconds_of_training": 4.0,
    }
    _json(folder / "cost.json", cost | {"peak_memory_bytes": 10**9})
    uses_unlabelled = method != "supervised"
    guard = {
        "on": True,
        "acts": [{"after_step": steps // 2, "alpha_factor": 0.1}] if uses_unlabelled else [],
    }
    _json(folder / "facts.json", {"uses_unlabelled": uses_unlabelled, "guard": guard})
    packages = {"segpl": "0.1.0", "torch": "2.13.0"}
    entry = {
        "command": ["segpl", "train", "--out", "a b"],
        "started": "2026-01-01T00:00:00+00:00",
        "python": "3.11",
    }
    entry |= {"packages": packages, "machine": {"system": "Linux", "processors": 2}}
    _json(
        folder / "provenance.json",
        [entry | {"data": {"folder": str(data), "fingerprint": "sha256:abc"}}],
    )
    origin = {"run": folder.name, "method": method, "seed": seed, "labelled": labelled}
    _log(steps, draw, uses_unlabelled).to_csv(folder / "log.csv", index=False)
    scores(origin, cases, draw, shifts).to_csv(folder / "scores.csv", index=False)
    _images(origin, cases, draw).to_csv(folder / "images.csv", index=False)
    _curves(origin, cases).to_csv(folder / "curves.csv", index=False)
    _volumes(folder, cases, seed)
    for shift, level in (("clean", 0.0), *shifts):
        seen = folder / "evaluation" / file_name(min(cases))
        seen.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full(SHAPE[1::-1], 100, np.uint8)).save(seen / f"{shift}={level:g}.png")
    return folder


def scores(origin, cases, draw, shifts=()) -> pd.DataFrame:
    rows = [
        origin | {"subject": f"subject {n}", "case": case, "region": region["name"], "shift": shift, "level": level}
        | {"metric": metric, "value": draw.uniform(0.2, 0.9)}
        for n, case in enumerate(cases) for region in REGIONS for shift, level in (("clean", 0.0), *shifts)
        for metric in METRICS
    ]  # fmt: skip
    return pd.DataFrame(rows)


def _log(steps, draw, uses_unlabelled) -> pd.DataFrame:
    step = np.arange(1, steps + 1)
    log = {
        "step": step,
        "alpha_factor": np.where(step > steps // 2, 0.1, 1.0),
        "loss": 1 / np.sqrt(step),
    }
    log["labelled"] = log["loss"] / 2 if uses_unlabelled else log["loss"]
    log |= {
        name: draw.uniform(0.2, 0.4, steps) for name in ("pseudo_foreground", "labelled_foreground")
    }
    log |= {
        "unlabelled_to_labelled": draw.uniform(0, 1, steps),
        "threshold": draw.uniform(0.4, 0.6, steps),
    }
    log |= {"threshold_spread": np.full(steps, 0.1), "posterior_mean": np.full(steps, 0.45)}
    log |= {"posterior_deviation": np.full(steps, 0.08)}
    validated = step % 10 == 0
    log |= {
        name: np.where(validated, step / steps, np.nan)
        for name in ("pseudo_changed", "validation_iou")
    }
    return pd.DataFrame(log)


def _images(origin, cases, draw) -> pd.DataFrame:
    rows = [
        origin | {"subject": f"subject {n}", "case": case, "region": region["name"], "shift": "clean", "level": 0.0}
        | {"metric": "iou", "value": draw.uniform(), "image": z, "foreground": draw.uniform(0, 0.1)}
        for n, case in enumerate(cases) for region in REGIONS for z in range(SHAPE[2])
    ]  # fmt: skip
    return pd.DataFrame(rows)


def _curves(origin, cases) -> pd.DataFrame:
    rows = [
        origin | {"subject": f"subject {n}", "case": case, "region": region["name"], "shift": "clean", "level": 0.0}
        | {"curve": curve, "x": x, "y": x**2, "voxels": 50.0}
        for n, case in enumerate(cases) for region in REGIONS
        for curve in ("reliability", "reliability_tempered", "risk-coverage") for x in np.arange(1, 21) / 20 - 0.02
    ]  # fmt: skip
    return pd.DataFrame(rows)


def _volumes(folder: Path, cases, seed) -> None:
    for number, case in enumerate(cases):
        p = np.zeros((*SHAPE, 2), np.uint8)
        p[4 + number : 15, 5:14, 1:4, 0], p[8:12, 7 + seed % 3 : 11, 2:4, 1] = 80, 70
        affine, name = np.diag([1.0, 1.0, 3.0, 1.0]), f"{file_name(case)}.nii.gz"
        write_nifti(folder / "probabilities" / name, p, affine)
        write_nifti(folder / "masks" / name, ((p > 50) * [1, 2]).max(-1).astype(np.uint8), affine)


def _json(file: Path, contents: object) -> None:
    write_text(file, json.dumps(contents))
