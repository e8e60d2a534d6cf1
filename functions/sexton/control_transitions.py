"""Every transition of a control row: pause and resume, hold and release. Each is one conditional write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from sexton.controls import hold_key, pause_key
from sexton.instant import ms
from sexton.run import Change
from sexton.table import Value, Write, absent, any_of, equals

KEEP_RELEASED = timedelta(days=400)
MOST_HISTORY = 200  # the latest entries that a row keeps: workers read all of them, and a row has an end


def pause(scope: str, change: Change, write_id: str, told: Sequence[Value] = ()) -> Write:
    """Not paused -> paused: discovery and the worker stop; `scope` is a policy's id, or `all`.

    `told` is the row's history so far.
    """
    write = Write(
        pause_key(scope),
        write_id,
        (any_of(absent("paused"), equals("paused", False)),),
        set={"scope": scope, "paused": True, **_last(change)},
    )
    return _told(write, change, told)


def resume(scope: str, change: Change, write_id: str, told: Sequence[Value] = ()) -> Write:
    """Paused -> not paused; the age of jobs counts anew from here."""
    write = Write(
        pause_key(scope),
        write_id,
        (equals("paused", True),),
        set={"paused": False, "resumed_at": ms(change.at), **_last(change)},
    )
    return _told(write, change, told)


def hold(scope: str, change: Change, write_id: str, run_id: str | None = None) -> Write:
    """Absent or released -> active. `run_id`: the undo that places it, which may find it active already."""
    return Write(
        hold_key(scope),
        write_id,
        () if run_id else (any_of(absent("active"), equals("active", False)),),
        set={"scope": scope, "active": True, **({"run_id": run_id} if run_id else {}), **_last(change)},
        append={"history": [change.to_row()]},
        remove=("released_at", "expires_at"),
    )


def release(scope: str, change: Change, write_id: str) -> Write:
    """Active -> released; the row stays for a while, as the record of who released it."""
    return Write(
        hold_key(scope),
        write_id,
        (equals("active", True),),
        set={
            "active": False,
            "released_at": ms(change.at),
            "expires_at": int((change.at + KEEP_RELEASED).timestamp()),
            **_last(change),
        },
        append={"history": [change.to_row()]},
        remove=("run_id",),
    )


def _told(write: Write, change: Change, told: Sequence[Value]) -> Write:
    """The write with one more entry in the row's history, the oldest left out where there are many."""
    if len(told) < MOST_HISTORY:
        return replace(write, append={"history": [change.to_row()]})
    return replace(write, set={**write.set, "history": [*told[-MOST_HISTORY + 1 :], change.to_row()]})


def _last(change: Change) -> dict[str, object]:
    return {"since": ms(change.at), "actor": change.actor, "reason": change.reason}
