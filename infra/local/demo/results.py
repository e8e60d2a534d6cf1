"""What the demo shows at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text
from sexton.escaping import escaped
from sexton.job import Job
from sexton.showing import RunView

from infra.local.demo.application import Heard, Mood
from infra.local.demo.checking import POLICIES, Ended
from infra.local.demo.records import BOOKINGS, CONTRACTS, MOODS, QUOTES
from infra.local.demo.seeds import Fate, Seed
from infra.local.stage import BIN

DONE = {
    QUOTES: "deleted: archived to evidence before, whole",
    CONTRACTS: "done: marked as lapsed",
    BOOKINGS: "done: cancelled by its application",
}
TIMES = {0: "never", 1: "once"}
KEY_SHOWN = 40  # characters of an example
WHY = {
    Fate.DELETED: "deleted: past its retention, as planned",
    Fate.CHANGED: "skipped: written again since it was planned",
    Fate.ABSENT: "skipped: gone before its turn came",
    Fate.RETAGGED: "skipped: tagged since as one to be kept",
    Fate.LOCKED: "skipped: under legal hold",
    Fate.DEAD: "dead: S3 refused this one for good",
    Fate.REFUSED: "dead: its application will not cancel it",
    Fate.PLANNED: "kept: planned only, {state}",
    Fate.REPORT_ONLY: "kept: of no canary, so only reported",
    Fate.YOUNGER: "kept: younger than the cutoff",
    Fate.EXCLUDED: "kept: excluded by the policy",
    Fate.NOT_SELECTED: "kept: not what the policy selects",
    Fate.UNREADABLE_DATE: "kept: no date to be read in its key",
    Fate.UNREADABLE: "kept: unreadable, no deadline in its timestamp",
    Fate.CURRENT: "kept: the current version of its key",
    Fate.KEPT_LATEST: "kept: one of the newest behind the current",
    Fate.OUTSIDE: "kept: not even listed, outside the prefixes",
    Fate.COMPLETE: "kept: not even listed, an object and no upload",
    Fate.MARKED: "kept: bears the mark already",
    Fate.NOT_DUE: "kept: not even found, due after the cutoff",
}


def show(console: Console, ended: Ended, seeds: Sequence[Seed]) -> None:
    """The tables: runs, objects and records by fate, dead letters, books."""
    console.print()
    console.print(_runs(ended.views.values()))
    console.print(_objects(ended, seeds))
    console.print(_calls(ended.heard))
    console.print(_dead(ended.dead, ended.dead_letters))
    for view in ended.views.values():
        if view.balanced is not None:
            _line(console, f"Books of {view.run_id}: {_books(view)}")


def show_surprises(console: Console, surprises: Sequence[str]) -> None:
    """The verdict."""
    for text in surprises:
        _line(console, f"NOT AS EXPECTED  {text}", "bold red")
    if not surprises:
        compared = "ledger, evidence, buckets, tables and calls were compared with what was put in."
        _line(console, f"Every object and record ended as expected: {compared}")


def show_ways_on(console: Console, folder: Path, bucket: str, run_id: str, stays: bool) -> None:
    """Where the evidence is, and how to look further: commands to type."""
    kept = _short(folder)
    ways = {
        "the report of the run": f"cat {kept}/evidence/runs/{run_id}/report-1.json",
        "its plan": f"gzip -dc {kept}/evidence/plans/{run_id}/*.gz | head",
        "its outcomes": f"gzip -dc {kept}/evidence/outcomes/{run_id}/*.gz | head",
        "what the functions wrote": f"less {kept}/emulator.log",
        "the stack itself": f". {kept}/env" if stays else f"{_short(BIN)}/python -m infra.local.demo --stay",
        "and then": f"{_short(BIN)}/sexton dlq list; {_short(BIN)}/sexton run show {run_id}",
    }
    _line(console, f"\nThe evidence of all runs is a copy of the bucket {bucket} in {kept}/evidence. To look further:")
    for what, command in ways.items():
        _line(console, f"  {what:<24} {command}")


def _runs(views: Iterable[RunView]) -> Table:
    table = _table("Runs", "policy", "mode", "state", "scanned", "planned", "deleted", "skipped", "dead", "books")
    for view in views:
        counts = (view.scanned, view.planned, view.deleted, sum(view.skipped.values()), sum(view.dead.values()))
        books = {True: "balanced", False: "NOT BALANCED", None: "-"}[view.balanced]
        table.add_row(view.policy, view.mode, view.state, *map(_number, counts), books)
    return table


def _objects(ended: Ended, seeds: Sequence[Seed]) -> Table:
    """What became of everything, as found: counts from ledger, buckets and tables, examples from what was put in."""
    table = _table("Objects and records", "policy", "count", "what became of them, and why", "for example")
    for store, policy in POLICIES.items():
        view, here = ended.views[policy], [seed for seed in seeds if seed.store == store]
        there = set(ended.contents[store])
        counts = _found(view, Counter[str](seed.fate for seed in here if not seed.fate.listed and seed.left in there))
        for fate in Fate:
            if counts[fate]:
                example = next((seed.key for seed in reversed(here) if seed.fate is fate), "")
                why = _why(fate, store).format(state=view.state.replace("_", " "))
                table.add_row(policy, _number(counts[fate]), why, Text(_shortened(escaped(example))))
        table.add_section()
    return table


def _found(view: RunView, unlisted: Counter[str]) -> Counter[str]:
    """Counts by fate, as the ledger has them, and of what the planner never saw."""
    found = Counter(view.scanned_by)
    del found["expired"]
    found.update({f"skipped:{reason}": count for reason, count in view.skipped.items()})
    found.update({f"dead:{reason}": count for reason, count in view.dead.items()})
    found.update({Fate.DELETED: view.deleted, **unlisted})
    if view.balanced is None:
        found[Fate.PLANNED] = view.planned
    return found


def _why(fate: Fate, store: str) -> str:
    """What was done to an item where that is not what the policies of the buckets do."""
    return (fate is Fate.DELETED and DONE.get(store)) or WHY[fate]


def _calls(heard: Mapping[str, Heard]) -> Table:
    """What the application heard of the bookings that did not go straight, and of one that did."""
    columns = ("booking", "what it does", "its answers", "keys", "cancelled")
    table = _table("Calls of the application (keys: how many Idempotency-Keys it saw)", *columns)
    shown = {MOODS[booking]: booking for booking in sorted(heard, reverse=True)}
    for mood in Mood:
        if mood in shown:
            came = heard[shown[mood]]
            answers = ", then ".join(came.answers)
            table.add_row(shown[mood], mood.value, answers, _number(len(came.keys)), TIMES.get(came.done, "TOO OFTEN"))
    return table


def _dead(dead: Sequence[Job], dead_letters: int) -> Table:
    table = _table(
        f"Dead letters (in the queue, moved there by SQS: {dead_letters})", "job", "what was said", "next action"
    )
    for job in dead:
        said = f"{escaped(job.first_key)}\n{job.reason} ({job.reason_class}): {escaped(job.summary or '')}"
        table.add_row(job.job_id, Text(f"{said}\nattempts: {job.attempt}"), Text(job.next_action or ""))
    return table


def _books(view: RunView) -> str:
    skipped, dead = sum(view.skipped.values()), sum(view.dead.values())
    sums = f"{view.deleted:,} deleted + {skipped:,} skipped + {dead:,} dead + {view.cancelled:,} cancelled"
    return f"{view.planned:,} planned = {sums}, each item exactly once."


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", header_style="dim", expand=False)
    numbers = {"count", "scanned", "planned", "deleted", "skipped", "dead", "keys"}
    for name in columns:
        whole = name in ("policy", "job", "booking")
        table.add_column(name, justify="right" if name in numbers else "left", overflow="fold", no_wrap=whole)
    return table


def _number(count: int) -> str:
    return f"{count:,}" if count else "-"


def _shortened(text: str) -> str:
    return text if len(text) <= KEY_SHOWN else text[: KEY_SHOWN - 1] + "…"


def _short(path: Path) -> Path:
    """Relative to where we are, if it lies under it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _line(console: Console, text: str, style: str = "") -> None:
    console.print(Text(text, style=style), soft_wrap=True)
