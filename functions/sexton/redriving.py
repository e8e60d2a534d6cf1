"""Redrive: SQS's own task moves dead letters back to the jobs queue, where each is a replay of its job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pydantic import AwareDatetime, BaseModel, ConfigDict

from sexton.errors import CallFailed, NotAllowed
from sexton.ports import DeadLetters, Move

RUNNING = "RUNNING"
NO_SUCH_CALL = frozenset({"InvalidAction", "UnknownOperation", "UnknownOperationException", "NotImplemented", "501"})


class Redrive(BaseModel):
    """A task that moves messages back; numbers are SQS's, and about right."""

    model_config = ConfigDict(frozen=True)

    status: str
    moved: int = 0
    to_move: int | None = None
    max_rate: int | None = None
    failure: str = ""
    started_at: AwareDatetime | None = None

    @staticmethod
    def of(move: Move) -> Redrive:
        """As SQS tells of it."""
        return Redrive(
            status=move.status,
            moved=move.moved,
            to_move=move.to_move,
            max_rate=move.max_rate,
            failure=move.failure,
            started_at=move.started_at,
        )


@dataclass(frozen=True)
class Redriving:
    """Starts, stops and watches the one task that may run. Raises NotAllowed: no_move_tasks."""

    dead_letters: DeadLetters

    def start(self, max_rate: int | None) -> Redrive:
        """Begin to move all messages. Raises NotAllowed: redrive_running."""
        if self._running():
            raise NotAllowed("redrive_running", "a redrive is under way; `sexton dlq redrive --status` follows it")
        with _known_here():
            self.dead_letters.start_move(max_rate)
        return Redrive(status=RUNNING, max_rate=max_rate)

    def cancel(self) -> Redrive:
        """Stop it; what was moved stays moved. Raises NotAllowed: no_redrive."""
        running = self._running()
        if running is None:
            raise NotAllowed("no_redrive", "no redrive is under way")
        with _known_here():
            moved = self.dead_letters.cancel_move(running.handle)
        return Redrive.of(running).model_copy(update={"status": "CANCELLING", "moved": moved})

    def latest(self) -> Redrive | None:
        """The task that runs, or the last one that did."""
        return next((Redrive.of(move) for move in self._moves()), None)

    def _running(self) -> Move | None:
        return next((move for move in self._moves() if move.status == RUNNING), None)

    def _moves(self) -> Sequence[Move]:
        with _known_here():
            return self.dead_letters.moves()


@contextmanager
def _known_here() -> Iterator[None]:
    """An endpoint that does not know the call has no redrive, and has done nothing."""
    try:
        yield
    except CallFailed as failed:
        if failed.failure.code not in NO_SUCH_CALL:
            raise
        unknown = f"it does not know SQS's message move tasks ({failed.failure.code})"
        instead = "`sexton dlq replay` tries dead jobs again without it"
        raise NotAllowed("no_move_tasks", f"this endpoint has no redrive: {unknown}; {instead}") from failed
