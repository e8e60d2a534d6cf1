"""The dead-letter queue of a FakeQueue, as a person sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from sexton.errors import CallFailed, Failure, ReasonClass
from sexton.ports import DeadMessage, Move

from tests.fakes.queue import FakeQueue
from tests.fakes.time import FakeClock

BATCH = 10


@dataclass
class FakeDeadLetters:
    """Messages that are hidden are not received again until then. One task may run; `finish` lets it end."""

    queue: FakeQueue
    clock: FakeClock
    hidden: dict[str, datetime] = field(default_factory=dict)
    refusals: dict[str, Failure] = field(default_factory=dict)  # of `remove`, by message id
    tasks: list[Move] = field(default_factory=list)

    def receive(self, hide: timedelta) -> Sequence[DeadMessage]:
        now = self.clock()
        there = [each.message for each in self.queue.dead]
        seen = [each for each in there if self.hidden.get(each.message_id, now) <= now][:BATCH]
        self.hidden |= {each.message_id: now + hide for each in seen}
        return [DeadMessage(each.message_id, f"dead/{each.message_id}", each.body) for each in seen]

    def remove(self, messages: Sequence[DeadMessage]) -> Mapping[str, Failure]:
        gone = {each.message_id for each in messages} - self.refusals.keys()
        self.queue.dead = [each for each in self.queue.dead if each.message.message_id not in gone]
        return {each.message_id: self.refusals[each.message_id] for each in messages if each.message_id not in gone}

    def moves(self) -> Sequence[Move]:
        return list(reversed(self.tasks))

    def start_move(self, max_rate: int | None) -> None:
        if any(task.handle for task in self.tasks):
            raise CallFailed(Failure(ReasonClass.PERMANENT, "UnsupportedOperation", "a task is active"))
        handle, count = f"task-{len(self.tasks)}", len(self.queue.dead)
        self.tasks.append(Move(handle, "RUNNING", 0, count, max_rate, "", self.clock()))

    def cancel_move(self, handle: str) -> int:
        self._end("CANCELLED", 0)
        return 0

    def finish(self) -> None:
        """The task moves everything."""
        self._end("COMPLETED", len(self.queue.redrive()))

    def _end(self, status: str, moved: int) -> None:
        self.tasks[-1] = replace(self.tasks[-1], handle="", status=status, moved=moved)
