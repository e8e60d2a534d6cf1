"""Classic bugs of systems like this one, each planted by replacing a function; nothing in the code knows of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from sexton import (
    calling,
    closing,
    endpoint,
    job_transitions,
    judging,
    keys,
    planning,
    receiving,
    replaying,
    restoring,
    run_transitions,
    settling,
    starting,
    working,
)
from sexton.archiving import ArchivingRecords
from sexton.decision import EXPIRED
from sexton.errors import CallFailed, Failure
from sexton.item import Item
from sexton.job import Job
from sexton.job_transitions import NOTHING
from sexton.judging import FreshLook
from sexton.markers import PlacedMarkers
from sexton.planning import Planning
from sexton.ports import Record, RecordPage, Removed
from sexton.reconcile import Reconciling
from sexton.record_source import RecordSource
from sexton.replaying import Replaying
from sexton.run import AT_WORK, Change, Run
from sexton.settling import Attempt
from sexton.starting import Starting
from sexton.table import Applied, Check, Put, Write, equals
from sexton.timestamp import FIRST, LAST, Timestamp
from sexton.working import Answer, Look, Working

from tests.fakes.bucket import FakeBucket
from tests.fakes.evidence import FakeEvidence
from tests.fakes.recorder import LOST_REPLY
from tests.fakes.records import FakeRecords
from tests.simulation.history import History

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class Bug:
    """How it is planted, and what the judge that catches it says."""

    plant: Plant
    said: str
    about: Callable[[History], bool] = lambda history: True  # which histories can show it


def _with_records(history: History) -> bool:
    """Those with tables."""
    return bool(history.world.tables)


def _without_records(history: History) -> bool:
    """Those without tables."""
    return not history.world.tables


def _with_buckets(history: History) -> bool:
    """Those with buckets."""
    return bool(history.world.buckets)


def without(write: Write, *attributes: str) -> Write:
    """The write without its conditions on these attributes."""
    return replace(write, when=tuple(each for each in write.when if getattr(each, "attribute", None) not in attributes))


def weakened(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, *attributes: str) -> None:
    """Let a transition forget some of its conditions."""
    real = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *args, **kwargs: without(real(*args, **kwargs), *attributes))


def acknowledge_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message goes although its settlement failed."""
    real = Working.work

    def work(self: Working, *args: Any) -> Answer:
        try:
            return real(self, *args)
        except CallFailed:
            return Answer.ACK

    monkeypatch.setattr(Working, "work", work)


def settle_without_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is late settles what another holds."""
    monkeypatch.setattr(job_transitions, "_held", lambda job: (equals("state", "leased"),))


def claim_in_any_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """A duplicate claims what another worker holds, or what has ended."""
    weakened(monkeypatch, job_transitions, "claim", "state")


def expire_too_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reconciler takes a live lease for an expired one."""
    weakened(monkeypatch, job_transitions, "expire", "lease_expires_at")
    real = Reconciling._expire_leases

    def expire(self: Reconciling, run: Run, now: datetime) -> None:
        real(self, run, now + timedelta(minutes=2))

    monkeypatch.setattr(Reconciling, "_expire_leases", expire)


def cutoff_from_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cutoff is counted from when the run starts, not from its scheduled time."""
    real, create = starting.cutoff, Starting._create

    def created(self: Starting, *args: Any) -> Any:
        monkeypatch.setattr(starting, "cutoff", lambda scheduled, retain: real(max(scheduled, self.clock()), retain))
        return create(self, *args)

    monkeypatch.setattr(Starting, "_create", created)


def no_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker believes the plan instead of looking again."""

    def look(target: Any, judged: Any, items: Sequence[Item], span: int, clock: Callable[[], datetime]) -> FreshLook:
        return FreshLook({item.id: item for item in items}, {item.id: EXPIRED for item in items}, clock())

    monkeypatch.setattr(judging.FreshLook, "of", staticmethod(look))


def cursor_before_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cursor is moved first, the part and its row come after: a crash between loses a part."""
    real = planning.Ledger.__init__

    def init(self: Any, table: Any) -> None:
        real(self, _OneByOne(table))

    monkeypatch.setattr(planning.Ledger, "__init__", init)


class _OneByOne:
    """A table whose transactions are single writes, the last first."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def transact(self, writes: Sequence[Write | Check]) -> Any:
        for write in reversed(writes):
            written = self._table.write(write) if isinstance(write, Write) else None
        return written


def parts_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts have no hash in their names, and the last one to write wins: a stale planner does."""
    monkeypatch.setattr(keys, "part", lambda run_id, seq, sha256: f"plans/{run_id}/{seq}.ndjson.gz")

    def put(self: FakeEvidence, key: str, content: bytes) -> bool:
        self.files[key] = content
        return True

    monkeypatch.setattr(FakeEvidence, "put_once", put)


def two_planners(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planner goes on after another has taken its lease, and writes its rows over the other's."""
    monkeypatch.setattr(run_transitions, "_planning", lambda token: (equals("state", "planning"),))
    weakened(monkeypatch, job_transitions, "plan", "pk")


def dead_without_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that may have removed something dies, or is cancelled, unobserved."""
    monkeypatch.setattr(Reconciling, "_observed_or_not", lambda *args: (NOTHING, None))


def effects_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost reply counts as: it did not happen."""
    monkeypatch.setattr(working.Attempt, "unknown", property(lambda self: False))


def expired_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lease expires, and nobody remembers that its worker may have removed something."""
    for name in ("expire", "take_over"):
        real = getattr(job_transitions, name)

        def forget(*args: Any, real: Callable[..., Write] = real) -> Write:
            write = real(*args)
            return replace(write, set={name: value for name, value in write.set.items() if name != "maybe_done"})

        monkeypatch.setattr(job_transitions, name, forget)


def split_after_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parent is settled first, its children are written after."""

    def write(self: Working, settlement: Write, children: Sequence[Write]) -> None:
        for each in (settlement, *children):
            self.ledger.table.write(each)

    monkeypatch.setattr(Working, "_write_settlement", write)


def sent_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was sent once counts as delivered."""
    real = job_transitions.dispatch

    def dispatch(*args: Any) -> Write:
        write = real(*args)
        return replace(write, set={**write.set, "dispatch_due": 2**42, "open_sk": "ready#9999999999999"})

    monkeypatch.setattr(job_transitions, "dispatch", dispatch)


def sent_before_it_is_due_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job is made ready, and nothing says when to send it."""
    real = job_transitions._ready_fields

    def fields(due: datetime) -> dict[str, object]:
        return {name: value for name, value in real(due).items() if name != "dispatch_due"}

    monkeypatch.setattr(job_transitions, "_ready_fields", fields)


def replayed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay asks for no rule, and leaves its run as it is."""
    monkeypatch.setattr(replaying, "why_not", lambda *args: None)

    def applied(self: Replaying, job: Job, run: Run, change: Change, due: datetime) -> bool:
        return isinstance(self.ledger.table.write(job_transitions.replay(job, change, due, self.token())), Applied)

    monkeypatch.setattr(Replaying, "_applied", applied)


def pauses_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker does not ask whether it is paused."""
    monkeypatch.setattr(Look, "may_work", property(lambda self: self.run.state in AT_WORK))


def state_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker reads the run once, and takes that for fresh ever after."""
    monkeypatch.setattr(Working, "_refreshed", lambda self, look: replace(look, at=self.clock()))


def holds_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Holds are for show."""
    monkeypatch.setattr(Look, "holds", lambda self, address: False)


def lease_unwatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker never looks at the end of its lease, and Lambda never ends it."""
    monkeypatch.setattr(Working, "_time_is_over", lambda *args: False)


def other_version_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker goes on under whatever policy is deployed."""
    real = receiving.met_run
    monkeypatch.setattr(receiving, "met_run", lambda message, run, _: real(message, run, run and run.policy_version))


def closed_too_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run is closed once everything was sent, whatever its jobs' rows say."""
    monkeypatch.setattr(closing, "OPEN", ())
    real = Reconciling._keep_working
    monkeypatch.setattr(
        Reconciling, "_keep_working", lambda self, run, *args: real(self, run, *args) or run.state is AT_WORK[1]
    )


def removal_without_condition(monkeypatch: pytest.MonkeyPatch) -> None:
    """DeleteObjects is sent without ETags: whatever is there goes, a marker lands on a marker."""
    monkeypatch.setattr(FakeBucket, "_remove_one", lambda self, item: Removed(self._delete(item.key)))


def undo_without_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """An undo removes markers that something was written before."""

    def observe(
        self: PlacedMarkers, items: Sequence[Item], span: int, begun: Callable[[], object]
    ) -> Mapping[Any, Any]:
        begun()
        return {item.id: item._replace(alone=False) for item in items}

    monkeypatch.setattr(PlacedMarkers, "observe", observe)


def reports_carried_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A report is dispatched like any other plan."""
    monkeypatch.setattr(
        Planning,
        "_free",
        lambda self, run, state, because: self._write(run_transitions.move(run, AT_WORK[0], self.token())),
    )


def condition_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record is removed whatever it is by now."""
    monkeypatch.setattr(FakeRecords, "permits", lambda self, delete: True)


def partition_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a record was found is no condition of its removal."""
    real = FakeRecords._record

    def record(self: FakeRecords, source: RecordSource, *more: Any) -> Record:
        found = real(self, source, *more)
        return replace(found, values={name: each for name, each in found.values.items() if name in source.guarded})

    monkeypatch.setattr(FakeRecords, "_record", record)


def removed_then_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The records go in a transaction of their own, and their settlement after it."""
    _apart(monkeypatch, records_first=True)


def settled_then_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settlement goes first, and the records in a transaction after it."""
    _apart(monkeypatch, records_first=False)


def _apart(monkeypatch: pytest.MonkeyPatch, records_first: bool) -> None:
    real = Working._commit

    def commit(self: Working, settlement: Write, children: Sequence[Write], attempt: Attempt) -> Failure | None:
        removals = list(attempt.changes.values())
        if not removals:
            return real(self, settlement, children, attempt)
        steps: list[list[Any]] = [removals, [settlement, *children]]
        for step in steps if records_first else reversed(steps):
            if not isinstance(self.ledger.table.transact(step), Applied):
                return working._changed("refused")
        return None

    monkeypatch.setattr(Working, "_commit", commit)


def cancellation_misread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction that was cancelled because of a record counts as carried out."""
    _committing(monkeypatch, lambda failed: None if failed.code == settling.RECORDS_CHANGED else failed)


def lost_reply_taken_for_success(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction that may have gone counts as gone."""
    _committing(monkeypatch, lambda failed: None if failed.code == LOST_REPLY.code else failed)


def _committing(monkeypatch: pytest.MonkeyPatch, read: Callable[[Failure], Failure | None]) -> None:
    real = Working._commit

    def commit(self: Working, *args: Any) -> Failure | None:
        failed = real(self, *args)
        return failed and read(failed)

    monkeypatch.setattr(Working, "_commit", commit)


def lost_reply_taken_for_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a lost reply the job is settled as if nothing had gone, whoever holds it and whatever it says by now."""
    real, lost = Working._commit, set[int]()

    def commit(self: Working, settlement: Write, children: Sequence[Write], attempt: Attempt) -> Failure | None:
        if id(self) in lost and not attempt.changes:
            settlement = without(settlement, "state", "lease_token")
        failed = real(self, settlement, children, attempt)
        if failed is not None and failed.code == LOST_REPLY.code:
            lost.add(id(self))
        return failed

    monkeypatch.setattr(Working, "_commit", commit)


def unreadable_is_long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deadline that nobody can read counts as the beginning of time."""
    real = Timestamp.read
    monkeypatch.setattr(Timestamp, "read", lambda self, value: real(self, value) or FIRST)


def seconds_for_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number is taken for seconds or milliseconds as it fits."""
    real = Timestamp._number

    def either(self: Timestamp, value: Any) -> datetime | None:
        other = self.model_copy(update={"format": "epoch_s" if self.format == "epoch_ms" else "epoch_ms"})
        found = (real(each, value) for each in (self, other))
        return next((at for at in found if at is not None and FIRST <= at < LAST), None)

    monkeypatch.setattr(Timestamp, "_number", either)


def waiting_is_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that has to wait for read capacity is taken for the last of its partition."""
    real = FakeRecords.query
    monkeypatch.setattr(FakeRecords, "query", lambda self, *args: real(self, *args) or RecordPage((), None))


def empty_page_is_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scan ends with the first page of a segment that shows nothing that is meant."""
    real = FakeRecords.scan

    def scan(self: FakeRecords, *args: Any) -> Any:
        pages = real(self, *args)
        return {number: page if len(page.records) > 1 else replace(page, next=None) for number, page in pages.items()}

    monkeypatch.setattr(FakeRecords, "scan", scan)


def called_unannounced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written down before a call that must not be repeated."""
    monkeypatch.setattr(calling, "begin", lambda *args: True)


def called_until_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that may have been carried out is made again, whatever the policy says of that."""
    monkeypatch.setattr(endpoint, "once_only", lambda failure: failure)


def error_taken_for_success(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever an endpoint answers, it was done."""
    monkeypatch.setattr(endpoint, "judged", lambda action, answer: Removed())


def archived_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is archived of a record is what it was judged by."""
    real = ArchivingRecords._there

    def there(self: ArchivingRecords, *args: Any) -> Mapping[str, Record]:
        found = real(self, *args)
        self._whole.update({key: record.values for key, record in found.items()})
        return found

    monkeypatch.setattr(ArchivingRecords, "_there", there)


def put_back_over_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """An undo puts back what was archived, whatever has its key by now."""
    real = FakeRecords.permits
    monkeypatch.setattr(FakeRecords, "permits", lambda self, change: isinstance(change, Put) or real(self, change))
    monkeypatch.setattr(restoring, "IN_USE", 0)


BUGS: dict[str, Bug] = {
    "ack before settle": Bug(acknowledge_first, "acknowledged"),
    "no token in settle": Bug(settle_without_token, "took the live lease|without holding it"),
    "claim in any state": Bug(claim_in_any_state, "took the live lease|no transition"),
    "expire a live lease": Bug(expire_too_soon, "took the live lease"),
    "cutoff from the clock": Bug(cutoff_from_the_clock, "has the cutoff"),
    "no second look": Bug(
        no_second_look,
        "planned was the one of|current since|something lies before|removed it|is dead, and",
        _without_records,
    ),
    "cursor before part": Bug(cursor_before_part, "without its planner's cursor"),
    "part overwritten by a stale planner": Bug(parts_overwritten, "overwrote|books do not balance|its part"),
    "two planners": Bug(
        two_planners, "its planner's cursor|once more|no transition|is planned with|books do not balance"
    ),
    "dead without observing": Bug(dead_without_a_look, "is dead, and|and removed it", _with_buckets),
    "a lost reply did nothing": Bug(effects_known, "and removed it|is dead, and", _with_buckets),
    "expired and forgotten": Bug(expired_and_forgotten, "no transition|and removed it"),
    "split after settle": Bug(split_after_settling, "without a settlement"),
    "sent and forgotten": Bug(sent_and_forgotten, "still open"),
    "ready without due": Bug(sent_before_it_is_due_again, "ready without a dispatch due"),
    "replay without validation": Bug(replayed_alone, "whose run is closed"),
    "pauses unread": Bug(pauses_unread, "after it was stopped, paused or held"),
    "run state unread": Bug(state_unread, "after it was stopped, paused or held"),
    "holds unread": Bug(holds_unread, "after it was stopped, paused or held"),
    "lease unwatched": Bug(lease_unwatched, "without a lease|under a lease", _with_buckets),
    "another policy version obeyed": Bug(other_version_obeyed, "under another policy version"),
    "closed too soon": Bug(closed_too_soon, "is closed, and|is closed and its books do not balance"),
    "removal without condition": Bug(
        removal_without_condition, "planned was the one of|a marker on a marker", _with_buckets
    ),
    "undo without a look": Bug(undo_without_a_look, "something lies before", _with_buckets),
    "reports carried out": Bug(reports_carried_out, "which only reports|no transition"),
    "a record's condition dropped": Bug(
        condition_dropped, "had changed since|the cutoff is|policy means|nobody can read", _with_records
    ),
    "partition forgotten": Bug(
        partition_forgotten, "policy means|had changed since|as it was, is not of", _with_records
    ),
    "records removed apart, before": Bug(removed_then_settled, "says deleted of", _with_records),
    "records removed apart, after": Bug(settled_then_removed, "says deleted of", _with_records),
    "cancellation misread": Bug(cancellation_misread, "which was leased", _with_records),
    "a lost reply taken for success": Bug(lost_reply_taken_for_success, "which was leased", _with_records),
    "a lost reply taken for failure": Bug(
        lost_reply_taken_for_failure, "took the live lease|without holding|no transition", _with_records
    ),
    "unreadable is long ago": Bug(unreadable_is_long_ago, "plans .* of None", _with_records),
    "seconds for milliseconds": Bug(seconds_for_milliseconds, "plans .* of None", _with_records),
    "waiting is the end": Bug(waiting_is_the_end, "not in the plan", _with_records),
    "called unannounced": Bug(called_unannounced, "must not be repeated|nobody has judged", _with_records),
    "called until it answers": Bug(called_until_it_answers, "must not be repeated", _with_records),
    "an error taken for success": Bug(error_taken_for_success, "did not remove it", _with_records),
    "archived in part": Bug(archived_in_part, "and archived", _with_records),
    "put back over another": Bug(put_back_over_another, "to undo", _with_records),
    "an empty page is the end": Bug(empty_page_is_the_end, "not in the plan", _with_records),
}
