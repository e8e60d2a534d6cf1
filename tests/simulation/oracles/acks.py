"""A message goes only when the ledger says that its job has ended, or is ready and will be sent again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import cast

from sexton.instant import from_ms
from sexton.ports import DeadMessage
from sexton.table import Key, Row, Write
from sexton.working import Answer

from tests.fakes.queue import Message
from tests.fakes.table import FakeTable
from tests.simulation.effects import Effect
from tests.simulation.oracles.rows import is_job
from tests.simulation.scheduling import Task
from tests.simulation.violation import Violation

LOOKED = timedelta(minutes=1)  # ago at most, when a copy goes


class Acks:
    """Remembers what each worker, at its present message, last saw or wrote of a job row, as the ledger then had it."""

    def __init__(self, table: FakeTable) -> None:
        self.table = table
        self._seen: dict[str, dict[Key, Row | None]] = {}  # by worker

    def saw(self, effect: Effect) -> None:
        """Note the rows that a worker's call was about, and judge what is swept."""
        if effect.name == "dead_letters.remove":
            self._swept(effect)
        if effect.task.kind != "worker" or effect.call.port != "table":
            return
        for key in _keys(effect):
            if is_job(key):
                self._seen.setdefault(effect.task.name, {})[key] = self.table.rows.get(key)

    def answered(self, task: Task, message: Message, answer: Answer) -> None:
        """Judge what a worker answers for a message: only one that is kept comes again."""
        seen = self._seen.pop(task.name, {})
        if answer is Answer.KEEP:
            return
        try:
            job_id = json.loads(message.body)["job_id"]
        except (ValueError, KeyError):
            raise Violation(f"{task.name} acknowledged a message that is none of ours") from None
        row = seen.get(_key(job_id))
        if row is None:
            raise Violation(f"{task.name} acknowledged {job_id} without a word of the ledger")
        settled = row["state"] in ("succeeded", "cancelled")
        if not settled and not (row["state"] == "ready" and "dispatch_due" in row):
            raise Violation(f"{task.name} acknowledged {job_id}, which was {row['state']}")

    def _swept(self, effect: Effect) -> None:
        """No copy of a dead letter is swept, but of one that has just died again."""
        for letter in cast("Sequence[DeadMessage]", effect.call.args[0]):
            row = self.table.rows.get(_key(json.loads(letter.body)["job_id"]))
            if row is None:
                raise Violation(f"{effect.task.name} swept {letter.message_id}, which is none of ours")
            dead = row["state"] == "dead" and "resolved_at" not in row
            if dead and effect.at - from_ms(row["dead_at"]) > LOOKED:
                raise Violation(f"{effect.task.name} swept {row['job_id']}, which is dead")


def _key(job_id: str) -> Key:
    parts = job_id.split(".")
    return Key(f"RUN#{'.'.join(parts[:3])}", f"JOB#{'#'.join(parts[3:])}")


def _keys(effect: Effect) -> list[Key]:
    first = effect.call.args[0]
    if effect.call.method == "get" and isinstance(first, Key):
        return [first]
    writes = first if effect.call.method == "transact" else [first]
    return [write.key for write in writes if isinstance(write, Write)] if isinstance(writes, list) else []
