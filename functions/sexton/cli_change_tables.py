"""What people see of holds, of previews, and of what became of many jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sexton.cli_output import facts, many, table
from sexton.cli_tables import when

if TYPE_CHECKING:
    from rich.console import RenderableType

    from sexton.controls import Hold
    from sexton.dead_letters import DeadLetter
    from sexton.job import Failed
    from sexton.job_history import JobHistory
    from sexton.previewing import Preview
    from sexton.redriving import Redrive
    from sexton.strays import Strays


def holds(found: Sequence[Hold]) -> Iterator[RenderableType]:
    """Each place with who holds it, since when and why."""
    headers = ("place", "since", "by", "reason", "of the undo")
    yield table(headers, ((h.scope, when(h.since), h.actor, h.reason, h.run_id) for h in found))


def undo(found: Preview) -> Iterator[RenderableType]:
    """What an undo would bring back, what it would leave, and what it would hold."""
    yield facts((("undoes", found.undoes), ("it would hold", ", ".join(found.holds))))
    yield ""
    kinds = [("brought back", found.restored), *((f"left: {name}", kind) for name, kind in found.left.items())]
    yield table(
        ("what", "items", "for example"), ((n, k.count, ", ".join(k.first)) for n, k in kinds), right=("items",)
    )


def replays(letters: Sequence[DeadLetter]) -> Iterator[RenderableType]:
    """What a replay of each would do now."""
    rows = ((each.job_id, each.items, each.replay_now and each.replay_now.sentence) for each in letters)
    yield table(("job", "items", "what a replay would do now"), rows, right=("items",))


def strays(found: Strays) -> Iterator[RenderableType]:
    """Copies of jobs that are dead no longer."""
    count = many(len(found.strays), "message")
    yield facts((("strays", f"{count} of jobs that are dead no longer: sexton dlq sweep"),))
    yield table(("message", "job", "which is"), ((s.message_id, s.job_id, s.state) for s in found.strays))


def job(found: JobHistory) -> Iterator[RenderableType]:
    """A job with all that befell it."""
    resolved = f"{when(found.resolved_at)} by {found.resolved_by}" if found.resolved_at else None
    yield facts(
        (
            ("job", found.job_id),
            ("state", found.state.value),
            ("resolved", resolved),
            ("split off from", ", ".join(found.lineage)),
            ("split into", ", ".join(child.job_id for child in found.children)),
            ("items", f"{found.count:,}, of which {found.items:,} have no outcome"),
            ("outcomes", ", ".join(f"{name} {number:,}" for name, number in sorted(found.counts.items()))),
            ("keys", f"{found.first_key} to {found.last_key}"),
            ("why", ": ".join(filter(None, (found.reason_class, found.reason, found.summary)))),
            ("attempts", found.attempts),
            ("replays", found.replays),
            ("next action", found.next_action),
            ("a replay now", found.replay_now and found.replay_now.sentence),
            ("evidence", ", ".join((*found.inherited_files, *found.outcome_files))),
        )
    )
    yield ""
    headers = ("when", "attempt", "what", "code", "summary", "by", "reason")
    yield table(headers, map(_entry, found.history), right=("attempt",))


def _entry(each: Failed) -> tuple[object, ...]:
    return when(each.at), each.attempt, each.event, each.code, each.summary, each.actor, each.reason


def redrive(found: Redrive) -> Iterator[RenderableType]:
    """How far a redrive is."""
    of = "" if found.to_move is None else f" of about {found.to_move:,}"
    yield facts(
        (
            ("redrive", found.status),
            ("begun", when(found.started_at)),
            ("moved", f"about {found.moved:,}{of}"),
            ("at most a second", found.max_rate),
            ("trouble", found.failure),
        )
    )
