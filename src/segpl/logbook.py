"""What a training leaves behind as it goes: `log.csv`, a line of progress, and where it all came from."""

import csv
import hashlib
import json
import os
import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

from lightning import Callback, LightningModule, Trainer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from segpl.files import write_text
from segpl.progress import console


class Logbook(Callback):
    """`log.csv`: one row a step, written at each validation, just before the checkpoint that matches it."""

    def __init__(self, file: Path):
        self.file = file
        self.rows: list[dict[str, Any]] = []

    def on_train_start(self, trainer: Trainer, learner: LightningModule) -> None:
        """Forget rows that the checkpoint does not know: a killed run may have been ahead of it."""
        if self.file.is_file() and trainer.is_global_zero:
            lines = self.file.read_text(encoding="utf-8").splitlines(keepends=True)
            whole = [line for line in lines[1:] if line.endswith("\n") and line.count(",") == lines[0].count(",")]
            kept = [line for line in whole if int(line.partition(",")[0]) <= trainer.global_step]
            write_text(self.file, "".join(lines[:1] + kept) if kept else "")

    def on_train_batch_end(self, trainer: Trainer, learner: LightningModule, outputs: Any, batch: Any, _: int) -> None:
        """Take down what the step logged."""
        seen = {name: value for name, value in trainer.callback_metrics.items() if name != "validation_iou"}
        self.rows.append({"step": trainer.global_step, **seen, "pseudo_changed": "", "validation_iou": ""})

    def on_train_epoch_end(self, trainer: Trainer, learner: Any) -> None:
        """Write the rows since the last validation; a resumed run ends the epoch of its checkpoint again, with none."""
        if not self.rows:
            return
        self.rows[-1] |= {"validation_iou": trainer.callback_metrics.get("validation_iou", ""), **learner.milestones}
        learner.milestones.clear()
        if trainer.is_global_zero:
            self._write()
        self.rows.clear()

    def _write(self) -> None:
        with self.file.open("a", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, fieldnames=self.rows[0], lineterminator="\n")
            if stream.tell() == 0:
                writer.writeheader()
            writer.writerows({key: _plain(value) for key, value in row.items()} for row in self.rows)


class ProgressBar(Callback):
    """One bar over all steps, with the loss, the validation IoU and the threshold; plain lines without a terminal."""

    NAMES: ClassVar = {"loss": "loss", "validation_iou": "validation IoU", "threshold": "T"}

    def __init__(self, description: str, steps: int):
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self.bar = Progress(
            *columns, TextColumn("{task.fields[seen]}"), console=console, disable=not console.is_terminal
        )
        self.task = self.bar.add_task(description, total=steps, seen="")
        self.description, self.steps = description, steps

    def on_train_start(self, trainer: Trainer, learner: LightningModule) -> None:
        """Show the bar."""
        self.bar.start()

    def on_train_batch_end(self, trainer: Trainer, learner: LightningModule, outputs: Any, batch: Any, _: int) -> None:
        """Move the bar."""
        self.bar.update(self.task, completed=trainer.global_step, seen=self._seen(trainer))

    def on_train_epoch_end(self, trainer: Trainer, learner: LightningModule) -> None:
        """Show the validation; say it in a line to those who read a file instead of a terminal."""
        self.bar.update(self.task, seen=self._seen(trainer))
        if not console.is_terminal and self._seen(trainer):
            console.print(f"{self.description} step {trainer.global_step}/{self.steps}  {self._seen(trainer)}")

    def on_train_end(self, trainer: Trainer, learner: LightningModule) -> None:
        """Leave the terminal as it was."""
        self.bar.stop()

    def on_exception(self, trainer: Trainer, learner: LightningModule, exception: BaseException) -> None:
        """Also after Ctrl-C or an error: a bar that still runs hides the cursor."""
        self.bar.stop()

    def _seen(self, trainer: Trainer) -> str:
        metrics = trainer.callback_metrics
        return "  ".join(f"{name} {float(metrics[key]):.3f}" for key, name in self.NAMES.items() if key in metrics)


def write_provenance(file: Path, data: Path) -> None:
    """Where a run came from: versions, machine, command, time, data; one more entry each time it goes on."""
    before = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else []
    packages = ("segpl", "torch", "lightning", "monai", "numpy", "nibabel")
    contents = {
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in packages},
        "machine": {"system": platform.platform(), "processors": os.cpu_count()},
        "data": {"folder": str(data), "fingerprint": _fingerprint(data)},
    }
    write_text(file, json.dumps([*before, contents], indent=2) + "\n")


def _fingerprint(folder: Path) -> str:
    """A hash of the names and sizes of all files: cheap, and it changes when a file is added, removed or resized."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    lines = (f"{file.relative_to(folder).as_posix()} {file.stat().st_size}\n" for file in files)
    return "sha256:" + hashlib.sha256("".join(lines).encode()).hexdigest()


def _plain(value: Any) -> Any:
    return repr(float(value)) if value != "" and not isinstance(value, int) else value
