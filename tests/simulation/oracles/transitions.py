"""Which row of the state tables a change of a ledger row is; a change that is none of them breaks the promise."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sexton import job_transitions, run_transitions
from sexton.table import Row

Step = tuple[Row, Row]  # before and after; before is empty where there was no row
Holds = Callable[[Row, Row], bool]


def _event(row: Row) -> str:
    """What the latest entry of a job's history says."""
    return str(row["history"][-1]["event"]) if row.get("history") else ""


def _more(name: str, by: int) -> Holds:
    return lambda old, new: new.get(name, 0) - old.get(name, 0) == by


def _gained(old: Row, new: Row) -> bool:
    return len(new.get("outcome_files", ())) > len(old.get("outcome_files", ()))


def _appended(old: Row, new: Row) -> bool:
    return len(new.get("history", ())) == len(old.get("history", ())) + 1


def to_split(row: Row) -> bool:
    """Whether a job crashed workers twice and is cut into ranges at its next claim."""
    return row.get("no_records", 0) >= 2 and row["open_items"] > 1


def _released(*events: str) -> Holds:
    return lambda old, new: _appended(old, new) and _event(new) in events


def _stopped_before(old: Row, new: Row) -> bool:
    given_back = new.get("attempt", 0) == old.get("attempt", 0) - 1
    return _released("stopped", "breaker")(old, new) and not _gained(old, new) and given_back


def _stopped_after(old: Row, new: Row) -> bool:
    released = _released("stopped", "out_of_time", "transaction_full", "breaker")
    return released(old, new) and not _stopped_before(old, new)


# Of every row of the table, what of the rows tells it from the others between the same states.
JOBS: Mapping[tuple[str, str, str], Holds] = {
    ("-", "ready", "planned"): lambda old, new: "." not in new["seq"],
    ("-", "ready", "split off, in the transaction that settles its parent"): lambda old, new: "." in new["seq"],
    ("ready", "leased", "a worker claims it; attempt + 1"): _more("attempt", 1),
    ("leased", "leased", "a call that must not be repeated is about to be made: call_begun_at"): (
        lambda old, new: "call_begun_at" in new and new["lease_token"] == old["lease_token"]
    ),
    ("leased", "leased", "lease expired, another worker claims it; attempt + 1, maybe_done"): (
        lambda old, new: bool(new.get("maybe_done")) and not to_split(new)
    ),
    (
        "leased",
        "leased",
        "two no_record attempts and more than one open item: one claim more, to split only",
    ): lambda old, new: bool(new.get("maybe_done")) and to_split(new),
    ("leased", "ready", "lease expired, found by the reconciler; maybe_done"): (
        lambda old, new: _more("no_records", 1)(old, new) and bool(new.get("maybe_done"))
    ),
    ("leased", "succeeded", "all its items have outcomes or rows of their own"): lambda old, new: not new["open_items"],
    ("leased", "ready", "transient failure; not_before and reason recorded"): (
        lambda old, new: _released("transient")(old, new) and "not_before" in new
    ),
    ("leased", "ready", "throttled: attempt - 1, throttles + 1"): (
        lambda old, new: _released("throttled")(old, new) and _more("throttles", 1)(old, new)
    ),
    ("leased", "ready", "told to stop before any effect: attempt - 1"): _stopped_before,
    (
        "leased",
        "ready",
        "stopped, or out of time, after some effects: outcomes recorded; attempt - 1 if an item gained an outcome",
    ): _stopped_after,
    ("leased", "ready", "attempts or age used up, but an effect of this attempt is unknown: maybe_done"): (
        lambda old, new: _released("effect_unknown")(old, new) and bool(new.get("maybe_done"))
    ),
    ("leased", "dead", "permanent failure, or attempts or age used up, every effect known"): _appended,
    ("leased", "cancelled", "the run was invalidated; observed if an effect is unknown"): lambda old, new: True,
    (
        "ready",
        "dead",
        "used up, or an effect that cannot be told (call_begun_at, or the run invalidated); observed if maybe_done; "
        "by the reconciler",
    ): _appended,
    ("ready", "cancelled", "the run was invalidated; observed if maybe_done; by the reconciler"): (
        lambda old, new: True
    ),
    ("ready", "succeeded", "that observation gave every item an outcome"): (
        lambda old, new: bool(old.get("maybe_done")) and not new["open_items"]
    ),
    ("dead", "ready", "replay, in one transaction with the run's row; attempts and age start again, replays + 1"): (
        lambda old, new: _more("replays", 1)(old, new) and "resolved_at" not in old and not new.get("attempt")
    ),
    ("dead", "dead", "resolved without replay"): lambda old, new: "resolved_at" in new and "resolved_at" not in old,
}

RUNS: Mapping[tuple[str, str, str], Holds] = {row: (lambda old, new: True) for row in run_transitions.TRANSITIONS}

# Changes of a job row that move it nowhere: its dispatch is moved, a redrive that came too early is noted.
IN_PLACE = {
    "ready": {"dispatch_due", "open_sk", "dispatches", "rev", "write_id"},
    "dead": {"redriven_early_at", "redrive_refused", "rev", "write_id"},
}


def all_rows() -> list[str]:
    """Every row of both tables, as text."""
    jobs = [f"job {source} -> {to}: {when}" for source, to, when, _ in job_transitions.TRANSITIONS]
    return jobs + [f"run {source} -> {to}: {when}" for source, to, when in run_transitions.TRANSITIONS]


def job_step(old: Row | None, new: Row) -> str | None:
    """The row of the table that a change of a job row is, "" where it moved nowhere, None where it is none."""
    source, to = old["state"] if old else "-", new["state"]
    for (known, known_to, when), holds in JOBS.items():
        if (known, known_to) == (source, to) and holds(old or {}, new):
            return f"job {known} -> {known_to}: {when}"
    in_place = source == to and old is not None and _differing(old, new) <= IN_PLACE.get(source, set())
    return "" if in_place else None


def run_step(old: Row | None, new: Row) -> str | None:
    """The same of a run row."""
    source, to = old["state"] if old else "-", new["state"]
    if source == to:
        return ""
    for known, known_to, when in RUNS:
        sources = known.split(", ")
        every = known.startswith("every state but") and source not in (known.split()[-1], to, "-")
        if to in known_to.split(", ") and (source in sources or every):
            return f"run {known} -> {known_to}: {when}"
    return None


def _differing(old: Row, new: Row) -> set[str]:
    return {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
