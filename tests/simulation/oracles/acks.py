"""A message goes only when the ledger says that its job has ended, or is ready and will be sent again."""

from __future__ import annotations

import json

from sexton.table import Key, Row, Write
from sexton.working import Answer

from tests.fakes.queue import Message
from tests.fakes.table import FakeTable
from tests.simulation.effects import Effect
from tests.simulation.oracles.rows import is_job
from tests.simulation.scheduling import Task
from tests.simulation.violation import Violation


class Acks:
    """Remembers what each worker, at its present message, last saw or wrote of a job row, as the ledger then had it."""

    def __init__(self, table: FakeTable) -> None:
        self.table = table
        self._seen: dict[str, dict[Key, Row | None]] = {}  # by worker

    def saw(self, effect: Effect) -> None:
        """Note the rows that a worker's call was about."""
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
        parts = job_id.split(".")
        key = Key(f"RUN#{'.'.join(parts[:3])}", f"JOB#{'#'.join(parts[3:])}")
        row = seen.get(key)
        if row is None:
            raise Violation(f"{task.name} acknowledged {job_id} without a word of the ledger")
        settled = row["state"] in ("succeeded", "cancelled")
        if not settled and not (row["state"] == "ready" and "dispatch_due" in row):
            raise Violation(f"{task.name} acknowledged {job_id}, which was {row['state']}")


def _keys(effect: Effect) -> list[Key]:
    first = effect.call.args[0]
    if effect.call.method == "get" and isinstance(first, Key):
        return [first]
    writes = first if effect.call.method == "transact" else [first]
    return [write.key for write in writes if isinstance(write, Write)] if isinstance(writes, list) else []
