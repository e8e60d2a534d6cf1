"""Dispatch: putting the message for a ready job on the queue. Always repeatable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from sexton import job_transitions, message, run_transitions
from sexton.job import Job, JobState
from sexton.ledger import Ledger
from sexton.ports import Clock, Queue, Send, TimeLeft, Token
from sexton.run import AT_WORK, Run, RunState
from sexton.table import Applied

BATCH = 10  # SQS takes ten messages a call
WINDOW = 10_000  # jobs sent and not settled; more would only age in the queue
SEND_WITHIN = timedelta(seconds=20)  # after the write that allows it, or not at all
SEND_TIMEOUT = timedelta(seconds=10)  # the longest that a send may take
RESERVE = timedelta(seconds=30)
LONGEST_DUE = timedelta(days=1)


@dataclass(frozen=True)
class Dispatching:
    """Sends the ready jobs of a run."""

    ledger: Ledger
    queue: Queue
    clock: Clock
    token: Token
    time_left: TimeLeft
    visibility: timedelta

    def dispatch(self, run: Run) -> Run:
        """Send what is due, until all was sent or the time is over. Returns the run as it then stands."""
        if run.state is RunState.DISPATCHING:
            if self._send_all(run, self._due(run)):
                self.ledger.table.write(run_transitions.move(run, RunState.DRAINING, self.token()))
        elif run.state is RunState.DRAINING:
            self._send_all(run, self.ledger.open_jobs(run.run_id, JobState.READY, up_to=self.clock()))
        else:
            return run
        found = self.ledger.run(run.id)
        return found or run

    def _due(self, run: Run) -> Iterator[Job]:
        """Walk all rows in order; stop at the window of outstanding jobs."""
        outstanding = 0
        for job in self.ledger.jobs(run.run_id):
            if outstanding >= WINDOW:
                raise _WindowFull
            sent = job.state is JobState.READY and job.dispatches > 0
            outstanding += job.state is JobState.LEASED or sent
            if job.state is JobState.READY and job.dispatch_due is not None and job.dispatch_due <= self.clock():
                outstanding += not sent
                yield job

    def _send_all(self, run: Run, due: Iterable[Job]) -> bool:
        """Send in batches; False when the time, the window or a person ended it before the last."""
        try:
            for batch in _batches(due):
                if self.time_left() < RESERVE or not self._may_send(run):
                    return False
                self._send(run, batch)
        except _WindowFull:
            return False
        return True

    def _may_send(self, run: Run) -> bool:
        """Whether the run is still at work and not paused: asked before each batch, so that stopping beats sending."""
        found = self.ledger.run(run.id)
        return found is not None and found.state in AT_WORK and not self.ledger.controls().paused(run.policy)

    def _send(self, run: Run, jobs: list[Job]) -> None:
        """Move each row's dispatch ahead, then send those that were ours to move."""
        started = self.clock()
        moved = [moved for job in jobs if (moved := self._move(job))]
        # A send that comes late could double one that another dispatcher makes after the row is due again.
        if not moved or self.clock() - started > SEND_WITHIN - SEND_TIMEOUT:
            return
        failures = self.queue.send(
            [
                Send(_entry_id(place), message.write(job, run.policy_version, run.cutoff), run.policy)
                for place, job in enumerate(moved)
            ]
        )
        for place, job in enumerate(moved):
            if _entry_id(place) in failures:
                self.ledger.table.write(job_transitions.due_now(job, self.clock(), self.token()))

    def _move(self, job: Job) -> Job | None:
        """The job after its dispatch was moved ahead; None when the row has changed since it was read."""
        written = self.ledger.table.write(job_transitions.dispatch(job, self._next_due(job), self.token()))
        if isinstance(written, Applied) and written.row:
            return Job.from_row(written.row)
        return None

    def _next_due(self, job: Job) -> datetime:
        """When it counts as lost if nothing came of it: a visibility timeout, doubled with each dispatch."""
        return self.clock() + min(LONGEST_DUE, self.visibility * (1 << min(job.dispatches, 10)))


class _WindowFull(Exception):
    """Enough jobs are outstanding; the tick goes on later."""


def _batches(due: Iterable[Job]) -> Iterator[list[Job]]:
    """Ten at a time; the last few come too where the window ends them."""
    batch: list[Job] = []
    try:
        for job in due:
            batch.append(job)
            if len(batch) == BATCH:
                yield batch
                batch = []
    except _WindowFull:
        if batch:
            yield batch
        raise
    if batch:
        yield batch


def _entry_id(place: int) -> str:
    return str(place)
