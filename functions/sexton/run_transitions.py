"""Every transition of a run: one conditional write, or one transaction with the policy row's slot.

`rev` counts state changes (and, later, replays) only: closing compares it with the one read before its scan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from sexton.instant import ms
from sexton.missed import Why
from sexton.run import AT_WORK, ATTENTION, RUNS, Change, Cursor, Mode, Run, RunId, RunState, open_sk
from sexton.table import Condition, Key, Row, Value, Write, absent, any_of, before, equals, one_of, present

# from, to, when
TRANSITIONS: tuple[tuple[str, str, str], ...] = (
    ("-", "planning", "a trigger, or an undo, in the transaction that takes the policy's slot"),
    ("planning", "planned", "the plan is complete and has its digest"),
    ("planned", "reported", "mode report; frees the slot"),
    ("planned", "awaiting_approval", "the policy or a limit asks for a person; frees the slot"),
    ("planned", "dispatching", "nothing holds it"),
    ("awaiting_approval, reported", "dispatching", "approval of the digest; takes the slot"),
    ("dispatching", "draining", "every job has been sent once"),
    ("draining", "completed", "no job is ready or leased, the books are compared; frees the slot"),
    ("completed", "draining", "a dead job is replayed"),
    ("dispatching, draining", "halted", "a person or the breaker"),
    ("halted", "dispatching, draining", "a person resumes it"),
    ("every state but completed", "invalidated", "a person, or a reason of its own: policy_changed, plan_expired ..."),
)

KEEP_CLOSED = timedelta(days=400)
PLANNER_LEASE = timedelta(seconds=120)  # renewed with every part; a dead planner is followed this soon
SKIPPED_TRIGGERS_KEPT = 20
MOST_CHANGES = 100  # with the longest reasons some 230 KB, of the 400 KB that a row may have
BUT_COMPLETED = tuple(state.value for state in RunState if state not in (RunState.COMPLETED, RunState.INVALIDATED))


def policy_key(policy: str) -> Key:
    """The policy row's key."""
    return Key(f"POLICY#{policy}", "POLICY")


def create(
    run_id: RunId,
    version: str,
    cutoff: datetime,
    mode: Mode,
    started_by: str,
    now: datetime,
    last_scheduled_time: datetime,
    write_id: str,
    covers: Sequence[datetime] = (),
    covers_total: int = 0,
    covered_before: datetime | None = None,
    asked: Change | None = None,
    action: str = "",
) -> list[Write]:
    """- -> planning, and the slot: the run is absent and the policy has no open run.

    `covers`: missed times that the run takes care of, the latest of `covers_total`. `covered_before`: up to when the
    policy's schedule is taken care of without this run; None where the run adds nothing. `asked`: a person's request.
    """
    run = Write(
        run_id.key,
        write_id,
        (absent("pk"),),
        set={
            "run_id": str(run_id),
            "policy": run_id.policy,
            "policy_version": version,
            "scheduled_time": ms(run_id.scheduled_time),
            "cutoff": ms(cutoff),
            "n": run_id.n,
            "mode": mode,
            **({"action": action} if action else {}),
            "state": RunState.PLANNING.value,
            "created_at": ms(now),
            "started_by": started_by,
            "open_pk": RUNS,
            "open_sk": open_sk(run_id),
            **({"covers": [ms(at) for at in covers], "covers_total": covers_total} if covers_total else {}),
            **_before(covered_before),
        },
        append=_noted(asked),
        add={"rev": 1},
    )
    slot = Write(
        policy_key(run_id.policy),
        write_id,
        (absent("open_run"),),
        set={
            "open_run": str(run_id),
            "last_scheduled_time": ms(last_scheduled_time),
            **(_covered(run_id) if covered_before else {}),
        },
    )
    return [run, slot]


def _before(covered_before: datetime | None) -> dict[str, Value]:
    return {"covered_before": ms(covered_before)} if covered_before else {}


def _covered(run_id: RunId) -> dict[str, Value]:
    """What the policy's row says of a run that takes care of its time and all before it."""
    return {"covered_until": ms(run_id.scheduled_time), "covered_by": str(run_id)}


def undo(undone: Run, run_id: RunId, change: Change, last_scheduled_time: datetime, write_id: str) -> list[Write]:
    """- -> planning for the undo `run_id`, as `create` does it; the undone run is closed, its rev observed."""
    version, cutoff, now = undone.policy_version, undone.cutoff, change.at
    run, slot = create(
        run_id, version, cutoff, "enforce", change.actor, now, last_scheduled_time, write_id, action=undone.action
    )
    asked = change.model_copy(update={"change": "started", "detail": f"to undo {undone.run_id}"})
    return [
        replace(run, set={**run.set, "undoes": undone.run_id, "versioned": True}, append=_noted(asked)),
        slot,
        Write(
            undone.key,
            write_id,
            (present("closed_at"), equals("rev", undone.rev)),
            append={"undone_by": [str(run_id)], **_noted(change)},
        ),
    ]


def skip_trigger(
    run_id: RunId, why: str, open_run: str | None, kept: Sequence[Value], now: datetime, write_id: str
) -> Write:
    """Record on the policy row that a trigger led to no run, and why; the last 20 are kept.

    What was recorded before is still what was read.
    """
    entry = {"run_id": str(run_id), "why": why, **({"open_run": open_run} if open_run else {}), "at": ms(now)}
    others = [old for old in kept if old["run_id"] != str(run_id)]
    return Write(
        policy_key(run_id.policy),
        write_id,
        (equals("skipped_triggers", list(kept)) if kept else absent("skipped_triggers"),),
        set={"skipped_triggers": [*others, entry][-SKIPPED_TRIGGERS_KEPT:]},
    )


def lease_planner(run: Run, token: str, now: datetime) -> Write:
    """planning: take the planner's lease; nobody holds it, or it expired."""
    return Write(
        run.key,
        token,
        (
            equals("state", RunState.PLANNING.value),
            any_of(absent("planner_until"), before("planner_until", ms(now))),
        ),
        set={"planner_token": token, "planner_until": ms(now + PLANNER_LEASE)},
    )


def _planning(token: str) -> tuple[Condition, ...]:
    """The planner's lease AND state = planning."""
    return equals("state", RunState.PLANNING.value), equals("planner_token", token)


def advance(
    run: Run,
    token: str,
    cursor: Cursor,
    scanned: dict[str, int],
    planned: int,
    size: int,
    now: datetime,
    write_id: str,
    unreadable: Sequence[str] = (),
    cohorts: str | None = None,
) -> Write:
    """planning: move the cursor with the counts up to it, renew the lease; planner's lease and state = planning."""
    return Write(
        run.key,
        write_id,
        _planning(token),
        set={
            "cursor": cursor.to_row(),
            "scanned": scanned,
            "planned": planned,
            "planned_bytes": size,
            "jobs": cursor.part,
            "planner_until": ms(now + PLANNER_LEASE),
            **({"unreadable": list(unreadable)} if unreadable else {}),
            **({"cohorts": cohorts} if cohorts else {}),
        },
    )


def note_versioning(run: Run, token: str, versioned: bool, write_id: str) -> Write:
    """planning: what the bucket's versioning was when planning looked; planner's lease."""
    return Write(run.key, write_id, _planning(token), set={"versioned": versioned})


def put_down(run: Run, token: str, write_id: str) -> Write:
    """planning: give the planner's lease back, so that the next one need not wait; planner's lease."""
    return Write(run.key, write_id, _planning(token), remove=("planner_token", "planner_until"))


def planned(run: Run, token: str, digest: str, now: datetime, write_id: str) -> Write:
    """planning -> planned: the plan is complete; planner's lease."""
    return Write(
        run.key,
        write_id,
        _planning(token),
        set={"state": RunState.PLANNED.value, "digest": digest, "planned_at": ms(now)},
        add={"rev": 1},
        remove=("planner_token", "planner_until"),
    )


def wait(run: Run, state: RunState, because: Sequence[str], write_id: str) -> Write:
    """planned -> reported, awaiting_approval; goes with `free_slot` in one transaction."""
    return Write(
        run.key,
        write_id,
        (equals("state", RunState.PLANNED.value), equals("rev", run.rev)),
        set={"state": state.value, "held_because": list(because)},
        add={"rev": 1},
    )


def move(run: Run, state: RunState, write_id: str) -> Write:
    """planned -> dispatching -> draining: the state is still the one read; run rev observed."""
    return Write(
        run.key,
        write_id,
        (equals("state", run.state.value), equals("rev", run.rev)),
        set={"state": state.value},
        add={"rev": 1},
    )


def approve(
    run: Run, change: Change, approved: Sequence[str], covered_before: datetime | None, write_id: str
) -> list[Write]:
    """awaiting_approval, reported -> dispatching, and the slot: run rev and digest observed, no run of the policy open.

    `approved` are the policy's versions that were approved before. What held the run stays on it. `covered_before`: as
    in `create`; the run may have been a report until now.
    """
    go = Write(
        run.key,
        write_id,
        (equals("state", run.state.value), equals("rev", run.rev), equals("digest", run.digest)),
        set={
            "state": RunState.DISPATCHING.value,
            "mode": "enforce",
            "approved_by": change.actor,
            "approved_at": ms(change.at),
            **({} if run.covered_before else _before(covered_before)),
        },
        add={"rev": 1},
    )
    version = run.policy_version
    slot = Write(
        policy_key(run.policy),
        write_id,
        (absent("open_run"),),
        set={"open_run": run.run_id, **(_covered(run.id) if covered_before else {})},
        append={} if version in approved else {"approved_versions": [version]},
    )
    return [_noting(go, run, change), slot]


def reopen(run: Run, change: Change | None, now: datetime, write_id: str) -> Write:
    """completed -> draining, or at work as before, by the replay of a job in the same transaction; run rev observed.

    A completed run only once its closing was announced, which else would list it no more, and if no undo of it was
    asked for.
    """
    was_closed = run.state is RunState.COMPLETED
    listed = {"open_pk": RUNS, "open_sk": open_sk(run.id)}
    reopened = {"state": RunState.DRAINING.value, "reopened_at": ms(now), **listed}
    write = Write(
        run.key,
        write_id,
        (
            one_of("state", [state.value for state in (*AT_WORK, RunState.COMPLETED)]),
            equals("rev", run.rev),
            *((equals("open_pk", ATTENTION), absent("undone_by")) if was_closed else ()),
        ),
        set=reopened if was_closed else {},
        add={"rev": 1, "replays": 1},
        remove=("closed_at", "expires_at", "balanced") if was_closed else (),
    )
    return _noting(write, run, change)


def note(run: Run, change: Change, write_id: str) -> Write:
    """What was done to one of the run's jobs without moving the run; the run is there."""
    return Write(run.key, write_id, (equals("run_id", run.run_id),), append=_noted(change))


def leave(run: Run, row: Row, now: datetime, write_id: str) -> list[Write]:
    """What closing changes on the policy's row, which must still be as it was read: at most one write.

    The slot is freed if it names this run. The time of an invalidated run, and what it would have covered, is missed
    from now on: the schedule fired, and what was to go is still there.
    """
    when: list[Condition] = []
    if row.get("open_run") == run.run_id:
        when.append(equals("open_run", run.run_id))
    missed: dict[str, Value] = {}
    if run.state is RunState.INVALIDATED and run.covered_before and row.get("covered_by") == run.run_id:
        skipped = skip_trigger(run.id, Why.NOT_CARRIED_OUT.value, None, row.get("skipped_triggers", []), now, write_id)
        when += [equals("covered_by", run.run_id), *skipped.when]
        missed = {**skipped.set, "covered_until": ms(run.covered_before)}
    freed = ("open_run",) if row.get("open_run") == run.run_id else ()
    removed = (*freed, *(("covered_by",) if missed else ()))
    return [Write(policy_key(run.policy), write_id, tuple(when), set=missed, remove=removed)] if when else []


def free_slot(run: Run, write_id: str) -> Write:
    """Free the policy's slot: the policy row still names this run."""
    return Write(policy_key(run.policy), write_id, (equals("open_run", run.run_id),), remove=("open_run",))


def halt(run: Run, change: Change, write_id: str) -> Write:
    """dispatching, draining -> halted, by a person or the breaker: its jobs are parked; run rev observed."""
    write = Write(
        run.key,
        write_id,
        (one_of("state", [state.value for state in AT_WORK]), equals("rev", run.rev)),
        set={
            "state": RunState.HALTED.value,
            "halted_from": run.state.value,
            "halted_at": ms(change.at),
            "reason": change.detail or change.change,
            "message": change.reason,
        },
        add={"rev": 1},
    )
    return _noting(write, run, change)


def resume(run: Run, change: Change, write_id: str) -> Write:
    """halted -> what it was: the age of its jobs, and what the breaker counts, begin anew; run rev observed."""
    write = Write(
        run.key,
        write_id,
        (equals("state", RunState.HALTED.value), equals("rev", run.rev)),
        set={
            "state": (run.halted_from or RunState.DRAINING).value,
            "resumed_at": ms(change.at),
        },
        add={"rev": 1},
        remove=("halted_from", "halted_at", "reason", "message"),
    )
    return _noting(write, run, change)


def _noting(write: Write, run: Run, change: Change | None) -> Write:
    """The write, guarded by the run's rev, with the change on the run's list, which keeps the latest."""
    if change is None:
        return write
    if len(run.changes) < MOST_CHANGES:
        return replace(write, append={**write.append, **_noted(change)})
    kept = [each.to_row() for each in (*run.changes, change)[-MOST_CHANGES:]]
    return replace(write, set={**write.set, "changes": kept})


def _noted(change: Change | None) -> dict[str, Sequence[Value]]:
    """The list that a change is appended to, for those who ask later who did what."""
    return {"changes": [change.to_row()]} if change else {}


def invalidate(
    run: Run, reason: str, message: str, now: datetime, write_id: str, change: Change | None = None
) -> Write:
    """Every state but completed -> invalidated; the reason stays on the run; its jobs are cancelled by the tick.

    `change` is a person's.
    """
    write = Write(
        run.key,
        write_id,
        (one_of("state", BUT_COMPLETED), equals("rev", run.rev)),
        set={
            "state": RunState.INVALIDATED.value,
            "reason": reason,
            "message": message,
            "invalidated_at": ms(now),
        },
        add={"rev": 1},
        remove=("planner_token", "planner_until"),
    )
    return _noting(write, run, change)


def refuse(run: Run, token: str, reason: str, message: str, now: datetime, write_id: str) -> Write:
    """planning -> invalidated, because its source cannot be planned; planner's lease and state = planning."""
    write = invalidate(run, reason, message, now, write_id)
    return replace(write, when=(*write.when, *_planning(token)))


def close(run: Run, balanced: bool, revision: int, now: datetime, write_id: str) -> Write:
    """draining -> completed, or an invalidated run's closing: no job is open, run rev observed before the scan.

    The run stays listed as open until its closing was announced.
    """
    state = RunState.COMPLETED if run.state in AT_WORK else run.state
    return Write(
        run.key,
        write_id,
        (equals("state", run.state.value), equals("rev", run.rev)),
        set={
            "state": state.value,
            "balanced": balanced,
            "report_revision": revision,
            "closed_at": ms(now),
            "expires_at": int((now + KEEP_CLOSED).timestamp()),
        },
        add={"rev": 1},
        remove=("mismatch_since",),
    )


def announced(run: Run, needs_a_person: bool, write_id: str) -> Write:
    """A closed run, its closing announced: listed no more, or listed for a person; run rev observed.

    A run with dead jobs, or whose books do not balance, needs a person.
    """
    return Write(
        run.key,
        write_id,
        (equals("rev", run.rev),),
        set={"open_pk": ATTENTION} if needs_a_person else {},
        remove=() if needs_a_person else ("open_pk", "open_sk"),
    )


def note_mismatch(run: Run, since: datetime | None, write_id: str) -> Write:
    """When the deployed policy version began to differ from the run's, or that it no longer does; run rev observed."""
    return Write(
        run.key,
        write_id,
        (equals("rev", run.rev),),
        set={} if since is None else {"mismatch_since": ms(since)},
        remove=("mismatch_since",) if since is None else (),
    )


def deploy(policy: str, version: str, fields: dict[str, Value], now: datetime, write_id: str) -> Write:
    """Record on the policy row what is deployed now, for the commands that explain it."""
    return Write(
        policy_key(policy),
        write_id,
        (),
        set={
            **fields,
            "policy": policy,
            "deployed_version": version,
            "deployed_at": ms(now),
            "open_pk": "POLICIES",
            "open_sk": policy,
        },
    )


def withdraw(policy: str, write_id: str) -> Write:
    """Record on the policy row that no such policy is deployed any more."""
    return Write(policy_key(policy), write_id, (), remove=("deployed_version",))
