"""A call that must not be repeated, written down before it is begun: on its job, and for its record over all runs."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta

from sexton import job_transitions
from sexton.errors import CallFailed, Failure, LeaseLost, ReasonClass
from sexton.instant import ms
from sexton.item import Item
from sexton.job import Job, job_key, split_id
from sexton.ledger import Ledger
from sexton.run_transitions import policy_key
from sexton.table import Applied, Key, Row, Write, absent, equals

KEEP = timedelta(days=400)  # as long as the jobs that may have made a call


def call_key(policy: str, item: Item) -> Key:
    """The row of a record's call: the same record with another deadline is called for anew."""
    named = hashlib.sha256(f"{item.key}\n{item.version_id}\n".encode()).hexdigest()
    return Key(policy_key(policy).pk, f"CALL#{named}")


def begin(ledger: Ledger, job: Job, item: Item, now: datetime, write_id: str) -> bool:
    """Write down that a job's call for a record is about to be made.

    False where another job may have made one, and no person has judged that yet: then nothing was written. Raises
    LeaseLost, and CallFailed where another job was faster or the write failed: then no call may be made either.
    """
    key = call_key(job.policy, item)
    row = ledger.table.get(key)
    if row is not None and row["job_id"] != job.job_id and _unjudged(ledger, row):
        return False
    writes = [job_transitions.begin_call(job, now, write_id), _note(key, row, job, now, write_id)]
    written = ledger.table.transact(writes)
    if isinstance(written, Applied):
        return True
    if written.index == 0:
        raise LeaseLost(f"the lease on {job.key.sk} is not ours any more")
    raise CallFailed(Failure(ReasonClass.TRANSIENT, "called_meanwhile", "another job began a call for the same record"))


def _unjudged(ledger: Ledger, row: Row) -> bool:
    """Whether the call that the row tells of may have been carried out, and nobody knows."""
    earlier = ledger.job(job_key(*split_id(str(row["job_id"]))))
    if earlier is None or earlier.resolved_at is not None:
        return False
    return earlier.maybe_done or earlier.call_begun_at is not None


def _note(key: Key, row: Row | None, job: Job, now: datetime, write_id: str) -> Write:
    """The row names the job that began the latest call; it must be as it was read."""
    guard = absent("pk") if row is None else equals("job_id", row["job_id"])
    fields = {"job_id": job.job_id, "called_at": ms(now), "expires_at": int((now + KEEP).timestamp())}
    return Write(key, write_id, (guard,), set=fields)
