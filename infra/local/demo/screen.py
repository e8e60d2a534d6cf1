"""What the demo says while it works: a live list of steps on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.progress_bar import ProgressBar
from rich.text import Text

WIDTH = 118  # of plain output
QUARTERS = 4  # lines that a counting step says in plain output


class Step(Protocol):
    """One step under way."""

    def at(self, done: int, total: int) -> None:
        """How far it is."""

    def says(self, text: str) -> None:
        """What came of it, beside its name."""


class Screen:
    """Tells of one step after the other."""

    def __init__(self) -> None:
        plain = Console()
        self.live = plain.is_terminal
        self.console = plain if self.live else Console(width=WIDTH)
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the demo began."""
        return time.monotonic() - self._began

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """A step, for as long as the block lasts."""
        with self._live(name) if self.live else self._plain(name) as step:
            yield step

    @contextlib.contextmanager
    def _live(self, name: str) -> Iterator[Step]:
        columns = (
            SpinnerColumn(finished_text="[green]✓"),
            TextColumn("{task.description}", markup=False),
            _Bar(bar_width=24),
            TextColumn("{task.fields[said]}", markup=False, style="dim"),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self.console) as progress:
            step = _LiveStep(progress, name)
            yield step
            step.end()

    @contextlib.contextmanager
    def _plain(self, name: str) -> Iterator[Step]:
        step = _PlainStep(self, name)
        step.line("...")
        yield step
        step.line(step.said or "done")

    def line(self, text: str) -> None:
        """One plain line, with the seconds since the beginning."""
        self.console.print(f"{self.seconds:5.1f} s  {text}", markup=False, highlight=False, soft_wrap=True)


class _Bar(BarColumn):
    """A bar for steps that count."""

    def render(self, task: Task) -> ProgressBar | Text:  # type: ignore[override]
        return super().render(task) if task.fields["counts"] else Text()


class _LiveStep:
    def __init__(self, progress: Progress, name: str) -> None:
        self._progress = progress
        self._task = progress.add_task(name, total=None, said="", counts=False)

    def at(self, done: int, total: int) -> None:
        self._progress.update(self._task, completed=done, total=total, counts=True, said=f"{done:,} of {total:,}")

    def says(self, text: str) -> None:
        self._progress.update(self._task, said=text)

    def end(self) -> None:
        task = self._progress.tasks[0]
        total = task.total or 1
        self._progress.update(self._task, completed=total, total=total)


@dataclass
class _PlainStep:
    screen: Screen
    name: str
    said: str = ""
    _quarter: int = field(default=0)

    def at(self, done: int, total: int) -> None:
        quarter = done * QUARTERS // max(total, 1)
        if quarter > self._quarter:
            self._quarter = quarter
            self.line(f"{done:,} of {total:,}")

    def says(self, text: str) -> None:
        self.said = text

    def line(self, text: str) -> None:
        self.screen.line(f"{self.name}: {text}")
