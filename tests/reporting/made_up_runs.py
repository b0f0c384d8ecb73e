"""Run directories as training and evaluation leave them, written in milliseconds for tests."""

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import yaml
from PIL import Image

from segpl.foundation.files import file_name, write_nifti, write_text
from segpl.rundir import (
    COST_FILE,
    FACTS_FILE,
    LEVELS_FILE,
    LOG_FILE,
    PROVENANCE_FILE,
    RUN_FILE,
    SPLIT_FILE,
    TASK_FILE,
    SliceLevels,
    scoring_files,
    write_slice_levels,
)

STRANGE = ("<script>document.title='run'</script>", 'quote"d & a/b', "Fall_Ä 患者 $x^$")
"""Names of cases that a page must show and not execute."""
SHAPE = (20, 24, 5)
AFFINE = np.diag([1.0, 1.0, 3.0, 1.0])
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
CURVES = ("reliability", "reliability_tempered", "risk-coverage")
CLEAN = ("clean", 0.0)


def data_folder(folder: Path, cases=STRANGE) -> Path:
    """A data folder with a manifest of test cases and one training case."""
    rows = [["subject", "case", "image", "label", "split"]]
    for number, case in enumerate((*cases, "training")):
        image_name = f"image{number}.nii.gz"
        label_name = f"label{number}.nii.gz"
        image, label = _image_and_label(number)
        write_nifti(folder / image_name, image, AFFINE)
        write_nifti(folder / label_name, label, AFFINE)
        split = "train" if case == "training" else "test"
        rows.append([f"subject {number}", case, image_name, label_name, split])
    with (folder / "manifest.csv").open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows(rows)
    return folder


def _image_and_label(number):
    """A ball (value 1) with a core (value 2), shifted by `number` voxels."""
    x, y, z = np.indices(SHAPE)
    distance = np.hypot(x - 10, y - 9 - number) + abs(z - 2)
    label = (distance < 6).astype(np.uint8) + (distance < 3).astype(np.uint8)
    image = (100 * label + 10 * x).astype(np.int16)
    return image, label


def run_folder(
    folder: Path, data: Path, method="segpl", seed=0, labelled=2, cases=STRANGE, steps=40, shifts=()
) -> Path:
    """A run directory, trained and scored."""
    draw = np.random.default_rng([seed, labelled, len(method)])
    uses_unlabelled = method != "supervised"
    _write_settings(folder, data, method, seed, labelled, steps)
    _write_split(folder, labelled)
    _write_costs(folder, method)
    _write_facts(folder, steps, uses_unlabelled)
    _write_provenance(folder, data)
    origin = {"run": folder.name, "method": method, "seed": seed, "labelled": labelled}
    files = scoring_files(folder)
    _log(steps, draw, uses_unlabelled).to_csv(folder / LOG_FILE, index=False)
    _scores(origin, cases, draw, shifts).to_csv(files.scores, index=False)
    _images(origin, cases, draw).to_csv(files.images, index=False)
    _curves(origin, cases).to_csv(files.curves, index=False)
    _write_volumes(folder, cases, seed)
    _write_shifted_pictures(folder, min(cases), shifts)
    return folder


def _write_settings(folder, data, method, seed, labelled, steps):
    prior = {"name": "normal", "mean": 0.5, "deviation": 0.1}
    run = {
        "data": str(data),
        "method": {"name": method, "alpha": 0.05, "prior": prior},
        "labelled": labelled,
        "seed": seed,
        "steps": steps,
    }
    write_text(folder / RUN_FILE, yaml.safe_dump(run))
    write_text(folder / TASK_FILE, yaml.safe_dump({"channels": ["t1"], "regions": REGIONS}))


def _write_split(folder, labelled):
    split = {
        "labelled": ["training"],
        "unlabelled": ["u1", "u2"],
        "validation": ["v"],
        "subjects": ["training"],
        "labelled_subjects": {
            "total": labelled + 1,
            "learning": labelled,
            "validation": 1,
            "extra_validation": True,
        },
    }
    _write_json(folder / SPLIT_FILE, split)


def _write_costs(folder, method):
    cost = {
        "parameters": 5000,
        "flops_labelled": 1e9,
        "flops_unlabelled": 1e9,
        "flops_prediction": 1e9,
        "seconds_per_step": 0.1 * len(method),
        "seconds_of_training": 4.0,
        "peak_memory_bytes": 10**9,
    }
    _write_json(folder / COST_FILE, cost)
    prediction_cost = {"samples": 1, "voxels_per_second": 2e6, "device": "cpu"}
    _write_json(scoring_files(folder).prediction_cost, prediction_cost)


def _write_facts(folder, steps, uses_unlabelled):
    acts = []
    if uses_unlabelled:
        acts.append({"after_step": steps // 2, "alpha_factor": 0.1})
    facts = {"uses_unlabelled": uses_unlabelled, "guard": {"on": True, "acts": acts}}
    _write_json(folder / FACTS_FILE, facts)


def _write_provenance(folder, data):
    entry = {
        "command": ["segpl", "train", "--out", "a b"],
        "started": "2026-01-01T00:00:00+00:00",
        "python": "3.11",
        "packages": {"segpl": "0.1.0", "torch": "2.13.0"},
        "machine": {"system": "Linux", "processors": 2},
        "data": {"folder": str(data), "fingerprint": "sha256:abc"},
    }
    _write_json(folder / PROVENANCE_FILE, [entry])


def _log(steps, draw, uses_unlabelled) -> pd.DataFrame:
    step = np.arange(1, steps + 1)
    loss = 1 / np.sqrt(step)
    is_validated = step % 10 == 0
    progress = np.where(is_validated, step / steps, np.nan)
    log = {
        "step": step,
        "alpha_factor": np.where(step > steps // 2, 0.1, 1.0),
        "loss": loss,
        "labelled": loss / 2 if uses_unlabelled else loss,
        "pseudo_foreground": draw.uniform(0.2, 0.4, steps),
        "labelled_foreground": draw.uniform(0.2, 0.4, steps),
        "unlabelled_to_labelled": draw.uniform(0, 1, steps),
        "threshold": draw.uniform(0.4, 0.6, steps),
        "threshold_spread": np.full(steps, 0.1),
        "posterior_mean": np.full(steps, 0.45),
        "posterior_deviation": np.full(steps, 0.08),
        "bound": -loss / 2,
        "pseudo_changed": progress,
        "validation_iou": progress,
    }
    return pd.DataFrame(log)


def _scores(origin, cases, draw, shifts) -> pd.DataFrame:
    rows = []
    for case in _case_rows(origin, cases):
        for shift, level in (CLEAN, *shifts):
            for metric in METRICS:
                score = {"metric": metric, "value": draw.uniform(0.2, 0.9)}
                rows.append(case | {"shift": shift, "level": level} | score)
    return pd.DataFrame(rows)


def _images(origin, cases, draw) -> pd.DataFrame:
    rows = []
    for case in _case_rows(origin, cases):
        for z in range(SHAPE[2]):
            score = {"metric": "iou", "value": draw.uniform()}
            image = {"image": z, "foreground": draw.uniform(0, 0.1)}
            rows.append(case | score | image)
    return pd.DataFrame(rows)


def _curves(origin, cases) -> pd.DataFrame:
    rows = []
    for case in _case_rows(origin, cases):
        for curve in CURVES:
            for x in np.arange(1, 21) / 20 - 0.02:
                rows.append(case | {"curve": curve, "x": x, "y": x**2, "voxels": 50.0})
    return pd.DataFrame(rows)


def _case_rows(origin, cases):
    """What all clean scores of a case and region have in common, for every case and region."""
    rows = []
    for number, case in enumerate(cases):
        for region in REGIONS:
            names = {"subject": f"subject {number}", "case": case, "region": region["name"]}
            rows.append(origin | names | {"shift": "clean", "level": 0.0})
    return rows


def _write_volumes(folder: Path, cases, seed) -> None:
    """Masks, and probabilities in per cent, of two boxes."""
    files = scoring_files(folder)
    for number, case in enumerate(cases):
        p = np.zeros((*SHAPE, 2), np.uint8)
        p[4 + number : 15, 5:14, 1:4, 0] = 80
        p[8:12, 7 + seed % 3 : 11, 2:4, 1] = 70
        mask = ((p > 50) * [1, 2]).max(-1).astype(np.uint8)
        name = f"{file_name(case)}.nii.gz"
        write_nifti(files.probabilities / name, p, AFFINE)
        write_nifti(files.masks / name, mask, AFFINE)
        # No level is 0 or 65535, so every logit is finite.
        levels = 655 * np.clip(p[:, :, 2], 1, 99).astype(np.uint16)
        levels_file = files.measured / file_name(case) / LEVELS_FILE
        write_slice_levels(levels_file, SliceLevels(2, levels))


def _write_shifted_pictures(folder: Path, case, shifts) -> None:
    pictures = scoring_files(folder).measured / file_name(case)
    pictures.mkdir(parents=True, exist_ok=True)
    grey = np.full(SHAPE[1::-1], 100, np.uint8)
    for shift, level in (CLEAN, *shifts):
        Image.fromarray(grey).save(pictures / f"{shift}={level:g}.png")


def _write_json(file: Path, contents: object) -> None:
    write_text(file, json.dumps(contents))
