"""What people see a run's items called, and what came of them: JSON, evidence and table have one word for all."""

from __future__ import annotations

from sexton.outcome import ARCHIVED, MARKED, RESTORED, Ending

OF_RECORDS = frozenset({"delete", "archive", "mark", "http"})  # actions
CALLED = "called"  # of an endpoint that was called for the record
_DONE = {"mark": MARKED, "archive": ARCHIVED, "http": CALLED}


def ending(name: str, undoes: str | None, action: str) -> str:
    """How an ending is called. What an undo deletes are delete markers, so that objects are restored; and so on.

    `action` is empty of runs that were made before rows had it.
    """
    done = RESTORED if undoes else _DONE.get(action, Ending.DELETED.value)
    return name.replace(Ending.DELETED, done)


def things(action: str) -> str:
    """What a run with this action is about: records, or objects."""
    return "records" if action in OF_RECORDS else "objects"
