"""What a training says as it goes: `log.csv`, the same for TensorBoard, and a line of progress."""

import csv
import io
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from lightning import Callback, LightningModule, Trainer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from segpl.foundation.files import write_text
from segpl.foundation.processes import is_first
from segpl.foundation.progress import console
from segpl.rundir import TENSORBOARD


class Logbook(Callback):
    """`log.csv`: one row a step, written at each validation, just before the checkpoint that matches it."""

    def __init__(self, file: Path):
        self.file = file
        self.rows: list[dict[str, Any]] = []
        self.written: list[dict[str, Any]] = []
        """The rows of the last validation."""

    def on_train_start(self, trainer: Trainer, learner: LightningModule) -> None:
        """Forget rows that the checkpoint does not know: a killed run may have been ahead of it."""
        if self.file.is_file() and trainer.is_global_zero:
            lines = self.file.read_text(encoding="utf-8").splitlines(keepends=True)
            whole = [
                line
                for line in lines[1:]
                if line.endswith("\n") and line.count(",") == lines[0].count(",")
            ]
            kept = [line for line in whole if int(line.partition(",")[0]) <= trainer.global_step]
            write_text(self.file, "".join(lines[:1] + kept) if kept else "")

    def on_train_batch_end(
        self, trainer: Trainer, learner: LightningModule, outputs: Any, batch: Any, _: int
    ) -> None:
        """Take down what the step logged."""
        seen = {
            name: value
            for name, value in trainer.callback_metrics.items()
            if name != "validation_iou"
        }
        self.rows.append(
            {"step": trainer.global_step, **seen, "pseudo_changed": "", "validation_iou": ""}
        )

    def on_train_epoch_end(self, trainer: Trainer, learner: Any) -> None:
        """Write the rows since the last validation; a resumed run ends the epoch of its checkpoint again, with none."""
        if not self.rows:
            self.written = []
            return
        self.rows[-1] |= {
            "validation_iou": trainer.callback_metrics.get("validation_iou", ""),
            **learner.milestones,
        }
        learner.milestones.clear()
        if trainer.is_global_zero:
            self._write()
        self.rows, self.written = [], self.rows

    def _write(self) -> None:
        """Add the rows; where they bring a column, as a term that begins late does, the earlier rows get it empty."""
        known = self._columns()
        columns = list(dict.fromkeys([*known, *(name for row in self.rows for name in row)]))
        if columns != known:
            text = self.file.read_text(encoding="utf-8") if known else ""
            write_text(
                self.file,
                ",".join(columns) + "\n" + _lines(csv.DictReader(io.StringIO(text)), columns),
            )
        with self.file.open("a", newline="", encoding="utf-8") as stream:
            stream.write(
                _lines(
                    ({name: _plain(value) for name, value in row.items()} for row in self.rows),
                    columns,
                )
            )

    def _columns(self) -> list[str]:
        if not self.file.is_file():
            return []
        with self.file.open(encoding="utf-8") as stream:
            return list(csv.DictReader(stream).fieldnames or ())


class TensorBoard(Callback):
    """The rows of the logbook for TensorBoard too."""

    def __init__(self, logbook: Logbook):
        self.logbook = logbook

    def on_train_start(self, trainer: Trainer, learner: LightningModule) -> None:
        """Take back what a killed run showed ahead of its checkpoint."""
        from torch.utils.tensorboard import (
            SummaryWriter,
        )  # a second to import: only for those who have it

        folder = self.logbook.file.with_name(TENSORBOARD)
        self.board = SummaryWriter(str(folder), purge_step=trainer.global_step + 1)

    def on_train_epoch_end(self, trainer: Trainer, learner: LightningModule) -> None:
        """Show what the logbook has written."""
        for row in self.logbook.written:
            for name, value in row.items():
                if name != "step" and value != "":
                    self.board.add_scalar(name, float(value), row["step"])
        self.board.flush()

    def on_train_end(self, trainer: Trainer, learner: LightningModule) -> None:
        """Close the file."""
        self.board.close()

    @staticmethod
    def beside(logbook: Logbook) -> "list[TensorBoard]":
        """One, where TensorBoard is installed and this is the process that writes."""
        return [TensorBoard(logbook)] if find_spec("tensorboard") and is_first() else []


class ProgressBar(Callback):
    """One bar over all steps, with the loss, the validation IoU and the threshold; plain lines without a terminal."""

    NAMES: ClassVar = {"loss": "loss", "validation_iou": "validation IoU", "threshold": "T"}

    def __init__(self, description: str, steps: int):
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        self.bar = Progress(
            *columns,
            TextColumn("{task.fields[seen]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self.task = self.bar.add_task(description, total=steps, seen="")
        self.description, self.steps = description, steps

    def on_train_start(self, trainer: Trainer, learner: LightningModule) -> None:
        """Show the bar."""
        self.bar.start()

    def on_train_batch_end(
        self, trainer: Trainer, learner: LightningModule, outputs: Any, batch: Any, _: int
    ) -> None:
        """Move the bar."""
        self.bar.update(self.task, completed=trainer.global_step, seen=self._seen(trainer))

    def on_train_epoch_end(self, trainer: Trainer, learner: LightningModule) -> None:
        """Show the validation; say it in a line to those who read a file instead of a terminal."""
        self.bar.update(self.task, seen=self._seen(trainer))
        if not console.is_terminal and self._seen(trainer):
            console.print(
                f"{self.description} step {trainer.global_step}/{self.steps}  {self._seen(trainer)}"
            )

    def on_train_end(self, trainer: Trainer, learner: LightningModule) -> None:
        """Leave the terminal as it was."""
        self.bar.stop()

    def on_exception(
        self, trainer: Trainer, learner: LightningModule, exception: BaseException
    ) -> None:
        """Also after Ctrl-C or an error: a bar that still runs hides the cursor."""
        self.bar.stop()

    def _seen(self, trainer: Trainer) -> str:
        metrics = trainer.callback_metrics
        return "  ".join(
            f"{name} {float(metrics[key]):.3f}"
            for key, name in self.NAMES.items()
            if key in metrics
        )


def _lines(rows: Iterable[dict[str, Any]], columns: Sequence[str]) -> str:
    text = io.StringIO()
    csv.DictWriter(text, columns, restval="", lineterminator="\n").writerows(rows)
    return text.getvalue()


def _plain(value: Any) -> Any:
    return repr(float(value)) if value != "" and not isinstance(value, int) else value
