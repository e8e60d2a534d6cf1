"""Every transition of a job, each one conditional write: what it sets and what must hold for it.

TRANSITIONS is the whole table; the functions below carry it out. What the table does not name is refused by the
conditions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from sexton.errors import NEXT_ACTION, Failure, ReasonClass
from sexton.instant import ms
from sexton.item import Item
from sexton.job import MAX_REPLAYS, NO_RECORD, Job, JobState, Limits, Span, job_key, open_sk
from sexton.message import Message
from sexton.part import Part
from sexton.run import Change, Run
from sexton.table import (
    Condition,
    Row,
    Write,
    absent,
    after,
    any_of,
    at_most,
    before,
    equals,
)

# from, to, when, guard
TRANSITIONS: tuple[tuple[str, str, str, str], ...] = (
    ("-", "ready", "planned", "row absent, planner's lease, run planning"),
    ("-", "ready", "split off, in the transaction that settles its parent", "row absent, parent's token"),
    (
        "ready",
        "leased",
        "a worker claims it; attempt + 1",
        "state = ready, not_before passed, attempts and age left",
    ),
    (
        "leased",
        "leased",
        "lease expired, another worker claims it; attempt + 1, maybe_done",
        "lease_expires_at < now, attempts and age left",
    ),
    (
        "leased",
        "ready",
        "lease expired, found by the reconciler; maybe_done",
        "lease_expires_at < now, token unchanged",
    ),
    ("leased", "leased", "a call that must not be repeated is about to be made: call_begun_at", "own token"),
    ("leased", "succeeded", "all its items have outcomes or rows of their own", "own token"),
    ("leased", "ready", "transient failure; not_before and reason recorded", "own token"),
    ("leased", "ready", "throttled: attempt - 1, throttles + 1", "own token"),
    ("leased", "ready", "told to stop before any effect: attempt - 1", "own token"),
    (
        "leased",
        "ready",
        "stopped, or out of time, after some effects: outcomes recorded; attempt - 1 if an item gained an outcome",
        "own token",
    ),
    (
        "leased",
        "ready",
        "attempts or age used up, but an effect of this attempt is unknown: maybe_done",
        "own token",
    ),
    (
        "leased",
        "leased",
        "two no_record attempts and more than one open item: one claim more, to split only",
        "lease_expires_at < now (also from ready)",
    ),
    ("leased", "dead", "permanent failure, or attempts or age used up, every effect known", "own token"),
    ("leased", "cancelled", "the run was invalidated; observed if an effect is unknown", "own token"),
    (
        "ready",
        "dead",
        "used up, or an effect that cannot be told (call_begun_at, or the run invalidated); observed if maybe_done; "
        "by the reconciler",
        "row rev observed",
    ),
    (
        "ready",
        "cancelled",
        "the run was invalidated; observed if maybe_done; by the reconciler",
        "row rev observed",
    ),
    ("ready", "succeeded", "that observation gave every item an outcome", "row rev observed"),
    (
        "dead",
        "ready",
        "replay, in one transaction with the run's row; attempts and age start again, replays + 1",
        "state = dead, row rev observed, not resolved, fewer than 10 replays; run at work or closed and announced",
    ),
    ("dead", "dead", "resolved without replay", "state = dead, row rev observed, not resolved"),
)

KEEP_SETTLED = timedelta(days=400)  # closed work leaves by TTL then; its evidence stays

LEASE_ATTRIBUTES = ("lease_token", "lease_expires_at")
ATTEMPT_ATTRIBUTES = (*LEASE_ATTRIBUTES, "call_begun_at")
REDRIVE_ATTRIBUTES = ("redriven_early_at", "redrive_refused")
MOST_HISTORY = 200  # the latest entries that a row keeps: a job can be throttled for days, and a row has an end


def _ready_fields(dispatch_due: datetime) -> dict[str, object]:
    """No row becomes ready without a dispatch due."""
    return {
        "state": JobState.READY.value,
        "dispatch_due": ms(dispatch_due),
        "open_sk": open_sk(JobState.READY, dispatch_due),
    }


def plan(run: Run, part: Part, part_key: str, now: datetime, write_id: str) -> Write:
    """- -> ready: the row of a planned part; the row must be absent."""
    return Write(
        job_key(run.run_id, part.seq),
        write_id,
        (absent("pk"),),
        set={
            "job_id": f"{run.run_id}.{part.seq}",
            "run_id": run.run_id,
            "policy": run.policy,
            "seq": part.seq,
            "part_key": part_key,
            "part_sha256": part.sha256,
            "start": 0,
            "end": part.count,
            "count": part.count,
            "open_items": part.count,
            "span": part.span,
            "bytes": part.bytes,
            "first_key": part.first_key,
            "last_key": part.last_key,
            "open_pk": f"RUN#{run.run_id}",
            **_ready_fields(now),
        },
        add={"rev": 1},
    )


def dispatch(job: Job, due: datetime, write_id: str) -> Write:
    """ready, its dispatch moved ahead to `due`, before its message is sent; row rev observed."""
    return Write(
        job.key,
        write_id,
        _observed(job, JobState.READY),
        set=_ready_fields(due),
        add={"rev": 1, "dispatches": 1},
    )


def due_now(job: Job, now: datetime, write_id: str) -> Write:
    """ready, its dispatch due at once: the queue did not take its message, or it is parked; row rev observed."""
    return Write(job.key, write_id, _observed(job, JobState.READY), set=_ready_fields(now), add={"rev": 1})


def _observed(job: Job, state: JobState) -> tuple[Condition, ...]:
    return equals("state", state.value), equals("rev", job.rev)


def _as_claimed(message: Message) -> tuple[Condition, ...]:
    """The row says what the message claims: same part, same range."""
    return (
        equals("part_key", message.part_key),
        equals("part_sha256", message.part_sha256),
        equals("start", message.start),
        equals("end", message.end),
        equals("count", message.count),
    )


def _age_left(limits: Limits, now: datetime, resumed_at: datetime | None) -> tuple[Condition, ...]:
    """Age counts from the latest of first claim, resume and replay."""
    oldest = now - limits.max_age
    if resumed_at is not None and resumed_at > oldest:
        return ()
    return (any_of(absent("first_claim_at"), after("first_claim_at", ms(oldest)), after("replayed_at", ms(oldest))),)


def _leased(token: str, now: datetime, lease: timedelta) -> dict[str, object]:
    return {
        "state": JobState.LEASED.value,
        "lease_token": token,
        "lease_expires_at": ms(now + lease),
        "open_sk": open_sk(JobState.LEASED, now + lease),
    }


def claim(
    message: Message, token: str, now: datetime, lease: timedelta, limits: Limits, resumed_at: datetime | None
) -> Write:
    """ready -> leased: not_before passed, attempts and age left, and the row says what the message claims."""
    return Write(
        message.job_key,
        token,
        (
            equals("state", JobState.READY.value),
            any_of(absent("not_before"), at_most("not_before", ms(now))),
            any_of(absent("attempt"), before("attempt", limits.max_attempts)),
            absent("call_begun_at"),
            *_age_left(limits, now, resumed_at),
            *_as_claimed(message),
        ),
        set=_leased(token, now, lease),
        set_once={"first_claim_at": ms(now)},
        add={"rev": 1, "attempt": 1},
        remove=("not_before", "dispatch_due"),
    )


def take_over(job: Job, token: str, now: datetime, lease: timedelta) -> Write:
    """leased -> leased: the lease expired, attempts and age are left; row rev observed; maybe_done.

    The caller has judged attempts and age on the observed row. This is also the one claim more, to split only,
    of a job that crashed workers twice, from leased or ready.
    """
    expired = job.state is JobState.LEASED
    state, guard = (JobState.LEASED, (before("lease_expires_at", ms(now)),)) if expired else (JobState.READY, ())
    write = Write(
        job.key,
        token,
        (*_observed(job, state), *guard),
        set={**_leased(token, now, lease), **({"maybe_done": True} if expired else {})},
        set_once={"first_claim_at": ms(now)},
        add={"rev": 1, "attempt": 1, **({"no_records": 1} if expired else {})},
        remove=("not_before", "dispatch_due"),
    )
    return _told(write, job, _no_record(job, now)) if expired else write


def begin_call(job: Job, now: datetime, write_id: str) -> Write:
    """leased -> leased, own token: a call is about to be made that must not be repeated.

    Whatever settles the attempt takes this back. Where nothing does, nobody can tell whether the call was made.
    """
    return Write(job.key, write_id, _held(job), set={"call_begun_at": ms(now)}, add={"rev": 1})


def expire(job: Job, now: datetime, write_id: str) -> Write:
    """leased -> ready: the lease expired, found by the reconciler; token unchanged; maybe_done."""
    write = Write(
        job.key,
        write_id,
        (
            equals("state", JobState.LEASED.value),
            equals("lease_token", job.lease_token),
            before("lease_expires_at", ms(now)),
        ),
        set={**_ready_fields(now), "maybe_done": True},
        add={"rev": 1, "no_records": 1},
        remove=LEASE_ATTRIBUTES,
    )
    return _told(write, job, _no_record(job, now))


def _told(write: Write, job: Job, entry: Row) -> Write:
    """The write with one more entry in the job's history, which its condition keeps as it was read."""
    if len(job.history) < MOST_HISTORY:
        return replace(write, append={**write.append, "history": [entry]})
    latest = job.history[-MOST_HISTORY + 1 :]
    kept = [{**each.model_dump(exclude_none=True), "at": ms(each.at)} for each in latest]
    return replace(write, set={**write.set, "history": [*kept, entry]})


def _no_record(job: Job, now: datetime) -> Row:
    return _entry(job, now, NO_RECORD, NO_RECORD, "the attempt ended without a record")


def _entry(job: Job, now: datetime, event: str, code: str, summary: str) -> Row:
    return {"at": ms(now), "attempt": job.attempt, "event": event, "code": code, "summary": summary}


@dataclass(frozen=True, slots=True)
class Gained:
    """What an attempt, or an observation, gained: outcomes in a file, and items that leave for rows of their own."""

    file: str | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    split_off: tuple[Span, ...] = ()
    items_split_off: int = 0
    for_failure: bool = True

    @property
    def items(self) -> int:
        """How many items gained an outcome."""
        return sum(self.counts.values())


NOTHING = Gained()


def _gained(job: Job, gained: Gained) -> tuple[dict[str, object], dict[str, Sequence[object]], dict[str, int]]:
    """What is set, appended and added for what was gained."""
    counts = dict(job.counts)
    for name, number in gained.counts.items():
        counts[name] = counts.get(name, 0) + number
    append: dict[str, Sequence[object]] = {}
    if gained.file:
        append["outcome_files"] = [gained.file]
    if gained.split_off:
        append["split_off"] = [span.model_dump() for span in gained.split_off]
    add = {"items_split_off": gained.items_split_off} if gained.for_failure and gained.items_split_off else {}
    left = job.open_items - gained.items - gained.items_split_off
    return {"counts": counts, "open_items": left}, append, add


def _held(job: Job) -> tuple[Condition, ...]:
    """Own token: nobody took the job over."""
    return equals("state", JobState.LEASED.value), equals("lease_token", job.lease_token)


def _guard(job: Job) -> tuple[Condition, ...]:
    """The worker's token where it holds the lease, else the row rev that the reconciler observed."""
    return _held(job) if job.state is JobState.LEASED else _observed(job, JobState.READY)


def succeed(job: Job, gained: Gained, now: datetime, write_id: str) -> Write:
    """leased, ready -> succeeded: every item has an outcome or a row of its own."""
    return _end(job, JobState.SUCCEEDED, gained, now, write_id)


def cancel(job: Job, gained: Gained, now: datetime, write_id: str) -> Write:
    """leased, ready -> cancelled: the run was invalidated; what is left open counts as cancelled."""
    return _end(job, JobState.CANCELLED, gained, now, write_id)


def _end(job: Job, state: JobState, gained: Gained, now: datetime, write_id: str) -> Write:
    fields, append, add = _gained(job, gained)
    return Write(
        job.key,
        write_id,
        _guard(job),
        set={
            **fields,
            "state": state.value,
            "settled_at": ms(now),
            "expires_at": int((now + KEEP_SETTLED).timestamp()),
        },
        append=append,
        add={"rev": 1, **add},
        remove=(*ATTEMPT_ATTRIBUTES, "maybe_done", "dispatch_due", "not_before", "open_pk", "open_sk"),
    )


def die(
    job: Job,
    gained: Gained,
    failure: Failure,
    reason: str,
    now: datetime,
    write_id: str,
    cannot_tell: bool = False,
) -> Write:
    """leased, ready -> dead: a permanent failure, or attempts or age used up; every effect is known or observed.

    `cannot_tell`: an effect may have happened and no look will ever tell; then maybe_done is set, for a replay.
    """
    fields, append, add = _gained(job, gained)
    write = Write(
        job.key,
        write_id,
        _guard(job),
        set={
            **fields,
            "state": JobState.DEAD.value,
            "dead_at": ms(now),
            "open_sk": open_sk(JobState.DEAD, now),
            "reason": reason,
            "reason_class": failure.reason_class.value,
            "summary": failure.summary,
            "next_action": failure.next_action,
            **({"maybe_done": True} if cannot_tell else {}),
        },
        append=append,
        add={"rev": 1, **add},
        remove=(*ATTEMPT_ATTRIBUTES, "dispatch_due", "not_before", *(() if cannot_tell else ("maybe_done",))),
    )
    return _told(write, job, _entry(job, now, "dead", failure.code, failure.summary))


def replay(job: Job, change: Change, due: datetime, write_id: str) -> Write:
    """dead -> ready: row rev observed, not resolved, replays left; in one transaction with the run's `reopen`.

    Attempts and age start again; the job keeps its id, its outcomes and its history. `due`: when it is dispatched,
    at once or, where its message is in hand, when that would count as lost.
    """
    write = Write(
        job.key,
        write_id,
        (
            *_unresolved(job),
            any_of(absent("replays"), before("replays", MAX_REPLAYS)),
        ),
        set={
            **_ready_fields(due),
            "replayed_at": ms(change.at),
            "attempt": 0,
            "throttles": 0,
            "no_records": 0,
            "dispatches": 0,
        },
        add={"rev": 1, "replays": 1},
        remove=("dead_at", "reason", "reason_class", "summary", "next_action", *REDRIVE_ATTRIBUTES),
    )
    return _told(write, job, _by_a_person(job, change))


def resolve(job: Job, change: Change, write_id: str) -> Write:
    """dead -> dead, resolved: closed without a replay and listed no more; row rev observed, not resolved."""
    write = Write(
        job.key,
        write_id,
        _unresolved(job),
        set={
            "resolved_at": ms(change.at),
            "resolved_by": change.actor,
            "expires_at": int((change.at + KEEP_SETTLED).timestamp()),
        },
        add={"rev": 1},
        remove=("open_pk", "open_sk"),
    )
    return _told(write, job, _by_a_person(job, change))


def redriven_early(job: Job, now: datetime, write_id: str) -> Write:
    """dead, its message redriven so soon that it may be an old copy: recorded once, for `status` to tell."""
    return Write(
        job.key, write_id, (*_unresolved(job), absent("redriven_early_at")), set={"redriven_early_at": ms(now)}
    )


def redrive_refused(job: Job, code: str, write_id: str) -> Write:
    """dead, its message redriven while a rule forbids a replay: recorded once, for `status` to tell."""
    return Write(job.key, write_id, (*_unresolved(job), absent("redrive_refused")), set={"redrive_refused": code})


def _unresolved(job: Job) -> tuple[Condition, ...]:
    return (*_observed(job, JobState.DEAD), absent("resolved_at"))


def _by_a_person(job: Job, change: Change) -> Row:
    entry = {"at": ms(change.at), "attempt": job.attempt, "event": change.change}
    return {**entry, "actor": change.actor, "reason": change.reason}


@dataclass(frozen=True, slots=True)
class Release:
    """How a worker gives a job back.

    `not_before`: when it may be claimed again; `dispatch_due`: when it is sent again if nothing came of it.
    `refund`: the attempt does not count. `maybe_done`: whether an effect may have happened without a record.
    """

    event: str
    not_before: datetime
    dispatch_due: datetime
    maybe_done: bool
    refund: bool = False
    failure: Failure | None = None


def release(job: Job, gained: Gained, how: Release, now: datetime, write_id: str) -> Write:
    """leased -> ready, own token: to be tried again, with what was gained recorded."""
    fields, append, add = _gained(job, gained)
    code = how.failure.code if how.failure else how.event
    summary = how.failure.summary if how.failure else ""
    reason_class = how.failure.reason_class if how.failure else ReasonClass.TRANSIENT
    adds = {"rev": 1, **add}
    if how.refund:
        adds["attempt"] = -1
    if how.event == ReasonClass.THROTTLED:
        adds["throttles"] = 1
    write = Write(
        job.key,
        write_id,
        _held(job),
        set={
            **fields,
            **_ready_fields(how.dispatch_due),
            "not_before": ms(how.not_before),
            "maybe_done": how.maybe_done,
            "reason": code,
            "reason_class": reason_class.value,
            "summary": summary,
            "next_action": NEXT_ACTION[reason_class],
        },
        append=append,
        add=adds,
        remove=ATTEMPT_ATTRIBUTES,
    )
    return _told(write, job, _entry(job, now, how.event, code, summary))


def split_off(
    job: Job, span: Span, indexes: Sequence[int], items: Mapping[int, Item], now: datetime, write_id: str
) -> Write:
    """- -> ready: a range of the parent's part that leaves for a row of its own; the row must be absent.

    `indexes` are the open ones of the span, `items` at least theirs. The child inherits maybe_done, the age
    clock, and the parent's outcome files and split-off ranges; it answers for no item in them.
    """
    seq = f"{job.seq}.{span.start:04d}"
    inherited: dict[str, object] = {
        "maybe_done": job.maybe_done,
        "inherited_files": list(job.files),
        "split_off": [gone.model_dump() for gone in job.split_off],
    }
    if job.first_claim_at is not None:
        inherited["first_claim_at"] = ms(job.first_claim_at)
    if job.replayed_at is not None:
        inherited["replayed_at"] = ms(job.replayed_at)
    return Write(
        job_key(job.run_id, seq),
        write_id,
        (absent("pk"),),
        set={
            "job_id": f"{job.run_id}.{seq}",
            "run_id": job.run_id,
            "policy": job.policy,
            "seq": seq,
            "part_key": job.part_key,
            "part_sha256": job.part_sha256,
            "start": span.start,
            "end": span.end,
            "count": len(indexes),
            "open_items": len(indexes),
            "span": max(len(indexes), job.span * len(indexes) // max(1, job.count)),
            "bytes": sum(items[index].size for index in indexes),
            "first_key": items[indexes[0]].key,
            "last_key": items[indexes[-1]].key,
            "open_pk": f"RUN#{job.run_id}",
            **inherited,
            **_ready_fields(now),
        },
        add={"rev": 1},
    )
