"""What a rehearsal needs of a deployed stack beyond what every command needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from sexton.ports import DeadLetters


class Decoys(Protocol):
    """Objects of a bucket, put and read under the rights of who rehearses. Each may raise CallFailed."""

    def put(self, bucket: str, key: str, content: bytes) -> None:
        """Put an object."""

    def read(self, bucket: str, key: str) -> bytes | None:
        """What is there now; None where nothing is."""


class JobsQueue(Protocol):
    """The jobs queue and its dead letters under the redrive role, which alone may send beside discovery."""

    def send(self, body: str, group: str) -> None:
        """Send one message. Raises CallFailed where it may not have been taken."""

    def waiting(self) -> int:
        """How many messages are on the queue, hidden ones too; about right."""

    def letters(self) -> DeadLetters:
        """The dead-letter queue, with the right to take something out."""


class WorkerFunction(Protocol):
    """Which handler the worker function has."""

    def handler(self) -> str:
        """Its name."""

    def use(self, handler: str) -> None:
        """Give the function another, and wait until it is in place."""


@dataclass(frozen=True)
class Backstage:
    """All three of one stack."""

    decoys: Decoys
    queue: JobsQueue
    worker: WorkerFunction
