"""What is recorded during training: `log.csv`, the same for TensorBoard, and a progress bar."""

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

Row = dict[str, Any]


class Logbook(Callback):
    """`log.csv`: one row per step.

    The rows are written at each validation, just before the checkpoint that matches them. A
    checkpoint between two validations holds the rows that are not written yet.
    """

    def __init__(self, file: Path):
        self.file = file
        self.rows: list[Row] = []
        """The rows since the last validation."""
        self.written: list[Row] = []
        """The rows that the last validation wrote."""

    def on_train_start(self, trainer: Trainer, learner: LightningModule) -> None:
        """Remove rows after the checkpoint: a killed run may have been ahead of it."""
        if self.file.is_file() and trainer.is_global_zero:
            lines = self.file.read_text(encoding="utf-8").splitlines(keepends=True)
            kept = _rows_up_to(trainer.global_step, lines)
            text = "".join(lines[:1] + kept) if kept else ""
            if kept != lines[1:]:
                write_text(self.file, text)

    def state_dict(self) -> dict[str, Any]:
        """The rows that are not written yet."""
        return {"rows": [_plain_row(row) for row in self.rows]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue with these rows."""
        self.rows = list(state_dict["rows"])

    def on_train_batch_end(self, trainer: Trainer, learner: LightningModule, *_: Any) -> None:
        """Remember what the step logged."""
        row: Row = {"step": trainer.global_step}
        for name, value in trainer.callback_metrics.items():
            if name != "validation_iou":
                row[name] = value
        row["pseudo_changed"] = ""
        row["validation_iou"] = ""
        self.rows.append(row)

    def on_train_epoch_end(self, trainer: Trainer, learner: Any) -> None:
        """Write the rows since the last validation.

        A resumed run ends the epoch of its checkpoint again, without rows.
        """
        if not self.rows:
            self.written = []
            return
        last_row = self.rows[-1]
        last_row["validation_iou"] = trainer.callback_metrics.get("validation_iou", "")
        last_row.update(learner.epoch_metrics)
        learner.epoch_metrics.clear()
        if trainer.is_global_zero:
            self._write()
        self.written = self.rows
        self.rows = []

    def _write(self) -> None:
        """Add the rows to the file.

        A loss term that starts late adds a column, which stays empty in earlier rows.
        """
        known_columns = self._columns()
        columns = list(known_columns)
        for row in self.rows:
            for name in row:
                if name not in columns:
                    columns.append(name)
        text = self._earlier_lines(columns)
        rows = [_plain_row(row) for row in self.rows]
        write_text(self.file, text + _csv_lines(rows, columns))

    def _earlier_lines(self, columns: Sequence[str]) -> str:
        """The file so far with these columns; the header of a new file."""
        text = ""
        if self.file.is_file():
            text = self.file.read_text(encoding="utf-8")
        header = ",".join(columns) + "\n"
        if text.startswith(header):
            return text
        return header + _csv_lines(csv.DictReader(io.StringIO(text)), columns)

    def _columns(self) -> list[str]:
        """The columns of the file so far."""
        if not self.file.is_file():
            return []
        with self.file.open(encoding="utf-8") as stream:
            return list(csv.DictReader(stream).fieldnames or ())


class TensorBoard(Callback):
    """The rows of the logbook for TensorBoard."""

    def __init__(self, logbook: Logbook):
        self.logbook = logbook

    @staticmethod
    def if_installed(logbook: Logbook) -> "list[TensorBoard]":
        """One callback where TensorBoard is installed, in the process that writes; else none."""
        if find_spec("tensorboard") and is_first():
            return [TensorBoard(logbook)]
        return []

    def on_train_start(self, trainer: Trainer, learner: LightningModule) -> None:
        """Open the log; steps after the checkpoint, left by a killed run, are discarded."""
        from torch.utils.tensorboard import SummaryWriter  # takes a second to import

        folder = self.logbook.file.with_name(TENSORBOARD)
        self.writer = SummaryWriter(str(folder), purge_step=trainer.global_step + 1)

    def on_train_epoch_end(self, trainer: Trainer, learner: LightningModule) -> None:
        """Add what the logbook has written."""
        for row in self.logbook.written:
            for name, value in row.items():
                if name != "step" and value != "":
                    self.writer.add_scalar(name, float(value), row["step"])
        self.writer.flush()

    def on_train_end(self, trainer: Trainer, learner: LightningModule) -> None:
        """Close the file."""
        self.writer.close()


class ProgressBar(Callback):
    """One bar over all steps with the main metrics; plain lines where there is no terminal."""

    NAMES: ClassVar = {"loss": "loss", "validation_iou": "validation IoU", "threshold": "T"}

    def __init__(self, description: str, steps: int):
        self.description = description
        self.steps = steps
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[metrics]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self.task = self.bar.add_task(description, total=steps, metrics="")

    def on_train_start(self, trainer: Trainer, learner: LightningModule) -> None:
        """Show the bar."""
        self.bar.start()

    def on_train_batch_end(self, trainer: Trainer, learner: LightningModule, *_: Any) -> None:
        """Move the bar."""
        metrics = self._metrics(trainer)
        self.bar.update(self.task, completed=trainer.global_step, metrics=metrics)

    def on_train_epoch_end(self, trainer: Trainer, learner: LightningModule) -> None:
        """Show the validation; without a terminal, in a line of its own."""
        metrics = self._metrics(trainer)
        self.bar.update(self.task, metrics=metrics)
        if metrics and not console.is_terminal:
            step = f"step {trainer.global_step}/{self.steps}"
            console.print(f"{self.description} {step}  {metrics}")

    def on_train_end(self, trainer: Trainer, learner: LightningModule) -> None:
        """Leave the terminal as it was."""
        self.bar.stop()

    def on_exception(
        self,
        trainer: Trainer,
        learner: LightningModule,
        exception: BaseException,
    ) -> None:
        """Stop the bar after Ctrl-C or an error: a running bar hides the cursor."""
        self.bar.stop()

    def _metrics(self, trainer: Trainer) -> str:
        """The current metrics, such as `loss 0.512  T 0.500`."""
        texts = []
        for key, name in self.NAMES.items():
            if key in trainer.callback_metrics:
                value = float(trainer.callback_metrics[key])
                texts.append(f"{name} {value:.3f}")
        return "  ".join(texts)


def _rows_up_to(step: int, lines: Sequence[str]) -> list[str]:
    """The rows of `log.csv` up to a step, without its header and without incomplete lines."""
    kept = []
    for line in lines[1:]:
        is_complete = line.endswith("\n") and line.count(",") == lines[0].count(",")
        if is_complete and int(line.partition(",")[0]) <= step:
            kept.append(line)
    return kept


def _csv_lines(rows: Iterable[Row], columns: Sequence[str]) -> str:
    """The rows as CSV without a header; missing values are empty."""
    text = io.StringIO()
    csv.DictWriter(text, columns, restval="", lineterminator="\n").writerows(rows)
    return text.getvalue()


def _plain_row(row: Row) -> Row:
    return {name: _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    """Tensors and floats with all their digits; integers and empty cells as they are."""
    if value == "" or isinstance(value, int):
        return value
    return repr(float(value))
