"""Strays: copies in the dead-letter queue of jobs that are dead no longer. They do no harm, and can be swept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from pydantic import BaseModel, ConfigDict

from sexton import message
from sexton.job import Job, JobState
from sexton.ledger import Ledger
from sexton.message import Malformed
from sexton.ports import DeadLetters, DeadMessage

PEEK = timedelta(seconds=10)  # a look keeps messages from a redrive for so long, and sees each of them once
SWEEP = timedelta(seconds=60)  # longer than the sweep may take


class Stray(BaseModel):
    """A copy of a job that is dead no longer: `state` is what it is now, `resolved` among them."""

    model_config = ConfigDict(frozen=True)

    message_id: str
    job_id: str
    run_id: str
    state: str


class Strays(BaseModel):
    """What a look into the dead-letter queue found. `more`: it may hold others, which were not looked at."""

    model_config = ConfigDict(frozen=True)

    looked_at: int
    strays: tuple[Stray, ...]
    more: bool


class Swept(BaseModel):
    """What a sweep did; `left` messages are dead letters, or no messages of ours."""

    model_config = ConfigDict(frozen=True)

    looked_at: int
    removed: int
    left: int
    failed: int
    more: bool

    def plus(self, later: Swept) -> Swept:
        """Both together."""
        return Swept(
            looked_at=self.looked_at + later.looked_at,
            removed=self.removed + later.removed,
            left=self.left + later.left,
            failed=self.failed + later.failed,
            more=later.more,
        )


@dataclass(frozen=True)
class Straying:
    """Compares the dead-letter queue with the ledger."""

    ledger: Ledger
    dead_letters: DeadLetters

    def peek(self, limit: int) -> Strays:
        """The strays among so many messages, which stay where they are."""
        found, strays, more = 0, list[Stray](), True
        for batch in self._batches(limit, PEEK):
            found, more = found + len(batch), bool(batch)
            strays += [stray for each in batch if (stray := self._stray(each))]
        return Strays(looked_at=found, strays=tuple(strays), more=more and found >= limit)

    def sweep(self, limit: int) -> Swept:
        """Remove the strays among so many messages. One that is a dead letter, or none of ours, is left."""
        found, strays, failed, more = 0, 0, 0, True
        for batch in self._batches(limit, SWEEP):
            found, more = found + len(batch), bool(batch)
            to_remove = [each for each in batch if self._stray(each)]
            if to_remove:
                strays += len(to_remove)
                failed += len(self.dead_letters.remove(to_remove))
        removed = strays - failed
        return Swept(looked_at=found, removed=removed, left=found - strays, failed=failed, more=more and found >= limit)

    def _batches(self, limit: int, hide: timedelta) -> Iterator[Sequence[DeadMessage]]:
        """Until one is empty, or so many were seen."""
        seen = 0
        while seen < limit:
            batch = self.dead_letters.receive(hide)
            yield batch
            if not batch:
                return
            seen += len(batch)

    def _stray(self, letter: DeadMessage) -> Stray | None:
        try:
            job = self.ledger.job(message.read(letter.body).job_key)
        except Malformed:
            return None
        if job is None or _is_dead(job):
            return None
        state = "resolved" if job.state is JobState.DEAD else job.state.value
        return Stray(message_id=letter.message_id, job_id=job.job_id, run_id=job.run_id, state=state)


def _is_dead(job: Job) -> bool:
    return job.state is JobState.DEAD and job.resolved_at is None
