"""What rehearsals need of a world, and the world that they are tried on: its worker can have faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sexton.backstage import Backstage
from sexton.decoy import FaultyTarget
from sexton.errors import CallFailed, LeaseLost
from sexton.policy import Policy, load_policies
from sexton.rehearsing_acts import FAULTY_WORKER, WORKER
from sexton.run import Run
from sexton.target import Target

from tests.fakes.bucket import ENABLED
from tests.fakes.dead_letters import FakeDeadLetters
from tests.fakes.queue import Message
from tests.fakes.world import World

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "rehearsing" / "rehearsal.yaml"


class Killed(Exception):
    """The worker's process is gone."""


@dataclass
class Stand(World):
    """A world with a rehearsal's policy, whose worker fails at decoys while it has that handler.

    `before_work` is called with each message before the worker gets it; `stuck`: the function keeps its handler.
    """

    versioning: str = ENABLED
    handler: str = WORKER
    stuck: bool = False
    before_work: Callable[[Message], object] = lambda message: None
    contents: dict[str, bytes] = field(default_factory=dict)  # by ETag

    def __post_init__(self) -> None:
        self.policies = self.policies or {each.id: each for each in load_policies(EXAMPLE)}
        super().__post_init__()

    def meanwhile(self) -> None:
        """What happens while somebody sleeps: the queue's messages are worked on, each by itself."""
        for message in self.queue.receive():
            self.before_work(message)
            try:
                self.work_one(message)
            except (Killed, CallFailed, LeaseLost):
                continue  # nothing is acked: it comes again

    def _target(self, policy: Policy, run: Run) -> Target:
        target = super()._target(policy, run)
        return FaultyTarget(target, _die) if self.handler == FAULTY_WORKER else target


def _die() -> None:
    raise Killed


@dataclass
class FakeDecoys:
    """Objects of a world's buckets."""

    stand: Stand

    def put(self, bucket: str, key: str, content: bytes) -> None:
        self.stand.contents[self.stand.bucket(bucket).put(key, content).etag] = content

    def read(self, bucket: str, key: str) -> bytes | None:
        current = self.stand.bucket(bucket).current(key)
        return self.stand.contents[current.etag] if current else None


@dataclass
class FakeJobsQueue:
    """A world's queue under the redrive role."""

    stand: Stand

    def send(self, body: str, group: str) -> None:
        self.stand.queue.forge(body)

    def waiting(self) -> int:
        return len(self.stand.queue.messages)

    def letters(self) -> FakeDeadLetters:
        return FakeDeadLetters(self.stand.queue, self.stand.clock)


@dataclass
class FakeWorkerFunction:
    """A world's worker."""

    stand: Stand

    def handler(self) -> str:
        return self.stand.handler

    def use(self, handler: str) -> None:
        if not self.stand.stuck:
            self.stand.handler = handler


def backstage(stand: Stand) -> Backstage:
    """All of it."""
    return Backstage(FakeDecoys(stand), FakeJobsQueue(stand), FakeWorkerFunction(stand))
