"""One progress display for everything that `segpl run` does, with the time left."""

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from lightning import Callback, LightningModule, Trainer
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from segpl.foundation.progress import format_duration, silenced


class Stage(NamedTuple):
    """A part of the work, and its estimated duration in seconds."""

    title: str
    seconds: float


class Display:
    """A bar over all stages in a terminal; elsewhere, a line for each stage."""

    def __init__(self, stages: Sequence[Stage], quiet: bool):
        self.console = Console(stderr=True, highlight=False, soft_wrap=True, quiet=quiet)
        self.stages = list(stages)
        self.total = sum(stage.seconds for stage in stages)
        self.done = 0.0
        """Estimated seconds of the stages that have ended."""
        self.reached = 0.0
        """The same with what is known to be done of the current stage."""
        self.started = time.monotonic()
        self.reached_at = self.started
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TimeLeft(self),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )
        self.task = self.bar.add_task("", total=self.total)

    def __enter__(self) -> "Display":
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()

    @contextmanager
    def next_stage(self) -> Iterator[Stage]:
        """Show the next stage while the block works on it; the block's own output is hidden."""
        stage = self.stages.pop(0)
        self.bar.update(self.task, description=stage.title)
        self._advance_to(self.done)
        if not self.console.is_terminal:
            self.console.print(f"{stage.title}; {self.time_left()}", markup=False)
        with silenced():
            yield stage
        self.done += stage.seconds
        self._advance_to(self.done)

    def say(self, sentence: str) -> None:
        """Print a sentence above the bar."""
        self.console.print(sentence, markup=False)

    def drop(self, titles: Collection[str]) -> None:
        """Leave out the stages with these titles."""
        self.stages = [stage for stage in self.stages if stage.title not in titles]
        self.total = self.done + sum(stage.seconds for stage in self.stages)
        self.bar.update(self.task, total=self.total)

    def show_share(self, stage: Stage, share: float) -> None:
        """Show that a share (0 to 1) of the current stage is done."""
        self._advance_to(self.done + share * stage.seconds)

    def _advance_to(self, reached: float) -> None:
        self.reached = reached
        self.reached_at = time.monotonic()
        self.bar.update(self.task, completed=reached)

    @property
    def pace(self) -> float:
        """How many times as long as estimated the work has taken so far."""
        if self.reached == 0:
            return 1.0
        return (self.reached_at - self.started) / self.reached

    def time_left(self) -> str:
        """The time left: the estimate, corrected by the pace so far."""
        since_then = time.monotonic() - self.reached_at
        seconds = self.pace * (self.total - self.reached) - since_then
        return f"about {format_duration(max(0.0, seconds))} left"


class TimeLeft(ProgressColumn):
    """The time left of a display, which also passes while nothing is known to be done."""

    def __init__(self, display: Display):
        super().__init__()
        self.display = display

    def render(self, task: Task) -> Text:
        """For example: about 5 min left."""
        return Text(self.display.time_left())


class TrainingProgress(Callback):
    """Shows the steps of a training in the display."""

    def __init__(self, display: Display, stage: Stage, steps: int):
        self.display = display
        self.stage = stage
        self.steps = steps

    def on_train_batch_end(self, trainer: Trainer, learner: LightningModule, *_: Any) -> None:
        """Move the bar."""
        self.display.show_share(self.stage, trainer.global_step / self.steps)
