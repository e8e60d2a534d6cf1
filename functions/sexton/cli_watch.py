"""Watching a run until it has ended or waits for a person."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Protocol

from sexton import showing
from sexton.cli_output import console, say
from sexton.deployment import Deployment
from sexton.errors import CallFailed
from sexton.run import RunState
from sexton.showing import RunView

POLL = 2.0  # seconds
PATIENCE = 5  # calls that fail in a row, each of which may go through later

DONE, ENDED_OTHERWISE, AWAITING_APPROVAL, TIMEOUT = 0, 1, 3, 4


class Progress(Protocol):
    """Shows how far a run is."""

    def __call__(self, view: RunView) -> None: ...


def watch(deployment: Deployment, run_id: str, timeout: float | None) -> tuple[RunView, int]:
    """The run as it was last seen, and the exit code: see `ending`; TIMEOUT when time was over first."""
    give_up = deployment.clock() + timedelta(seconds=timeout) if timeout is not None else None
    with _progress() as show:
        while True:
            view = _seen(deployment, run_id)
            show(view)
            code = ending(view)
            if code is not None:
                return view, code
            if give_up is not None and deployment.clock() >= give_up:
                return view, TIMEOUT
            deployment.sleep(POLL)


def ending(view: RunView) -> int | None:
    """0 completed with balanced books and nothing dead, or reported; 1 ended otherwise; 3 awaiting; else None."""
    if view.state == RunState.REPORTED:
        return DONE
    if view.state == RunState.AWAITING_APPROVAL:
        return AWAITING_APPROVAL
    if view.closed_at is None:
        return None
    return DONE if view.clean else ENDED_OTHERWISE


def _seen(deployment: Deployment, run_id: str) -> RunView:
    """One look; what may go through later is tried again a few times."""
    for attempt in range(1, PATIENCE + 1):
        try:
            return showing.show(deployment.ledger, run_id)
        except CallFailed as failed:
            if not failed.failure.may_pass or attempt == PATIENCE:
                raise
            say(f"cannot look now, trying again: {failed}")
            deployment.sleep(POLL)
    raise AssertionError("unreachable")


@contextmanager
def _progress() -> Iterator[Progress]:
    """A bar on a terminal, else a line whenever something has changed."""
    if not sys.stderr.isatty():
        yield _changes()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bar(*columns, console=console(sys.stderr)) as bar:
        task = bar.add_task("looking", total=None)

        def show(view: RunView) -> None:
            total = view.planned if view.state not in (RunState.PLANNING, RunState.PLANNED) else None
            bar.update(task, description=view.state, total=total, completed=view.finished if total else view.scanned)

        yield show


def _changes() -> Progress:
    last = ""

    def show(view: RunView) -> None:
        nonlocal last
        seen = f"{view.state}: {view.scanned:,} scanned, {view.planned:,} planned, {view.finished:,} ended"
        if seen != last:
            say(seen)
        last = seen

    return show
