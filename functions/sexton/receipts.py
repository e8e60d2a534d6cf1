"""What a run left that an undo can take back: delete markers and archived records that its outcome files name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sexton.errors import EvidenceAltered, SourceRefused
from sexton.item import RECORD, Item
from sexton.job import Job, job_key
from sexton.ledger import Ledger
from sexton.outcome import Ending, Recorded
from sexton.ports import Evidence
from sexton.reading import read_outcomes
from sexton.run import RunId

PLACED = "placed"  # a delete marker that the run placed, by its id: what an undo removes
ARCHIVED = "archived"  # a record that the run archived before it removed it: what an undo puts back
UNPROVEN = "unproven"  # gone after an attempt that left no record: no marker can be told to be the run's
NULL = "null"  # the id of a marker placed while versioning was suspended: others bear it too, and what it hid is lost
NOT_DELETED = "not_deleted"  # the run skipped it
ENTRIES = 2  # that a listing of versions has at least for each object that was deleted: it, and its marker


@dataclass(frozen=True)
class Receipts:
    """What the outcome files of one job say: what can be taken back in the plan's order, and counts of all kinds.

    `others` are the keys of the rest. `span` is how many entries a listing of versions may have from the first marker
    to the last.
    """

    items: Sequence[Item]
    counts: Counter[str] = field(default_factory=Counter)
    others: Sequence[tuple[str, str]] = ()  # keys that an undo leaves alone, with their kind
    span: int = 0


def read(evidence: Evidence, files: Sequence[str], span: int = 0) -> Receipts:
    """The receipts of a job of that span; the order of its files does not matter. Raises EvidenceAltered."""
    recorded = sorted((each for file in files for each in read_outcomes(evidence, file)), key=lambda each: each.index)
    kinds = [(each, _kind(each)) for each in recorded]
    items = [_TAKEN_BACK[kind](each) for each, kind in kinds if kind in _TAKEN_BACK]
    return Receipts(
        items,
        Counter(kind for _, kind in kinds),
        [(each.key, kind) for each, kind in kinds if kind not in _TAKEN_BACK],
        ENTRIES * max(span, len(items)),
    )


def of_run(ledger: Ledger, evidence: Evidence, run_id: str, after: str = "") -> Iterator[tuple[Job, Receipts]]:
    """The receipts of every job of a run, in order, those after the job of that seq.

    Raises SourceRefused where a file is altered or gone, and at the end where rows of the run have left the ledger:
    then there may be more than it told.
    """
    run, seen, done = ledger.run(RunId.parse(run_id)), 0, job_key(run_id, after).sk
    for job in ledger.jobs(run_id):
        seen += job.end if "." not in job.seq else 0
        if job.key.sk > done:
            yield job, _read(evidence, job)
    if run is None or seen != run.planned:
        raise SourceRefused(
            "receipts_gone",
            f"the ledger has jobs of {seen} of the items of {run_id}, and rows leave it after 400 days; "
            "its outcome files in evidence name each delete marker, and each file with archived records: "
            "take those back by hand",
        )


def _read(evidence: Evidence, job: Job) -> Receipts:
    try:
        return read(evidence, job.outcome_files, job.span)
    except EvidenceAltered as altered:
        raise SourceRefused("receipts_altered", f"{altered}; nothing is brought back on its word") from altered


def _kind(recorded: Recorded) -> str:
    if recorded.name.partition(":")[0] != Ending.DELETED:
        return NOT_DELETED
    if recorded.fields.get("archive"):
        return ARCHIVED
    named = recorded.fields.get("marker_version_id") not in (None, "", NULL)
    return PLACED if named and not recorded.fields.get("unproven") else UNPROVEN


def _marker(recorded: Recorded) -> Item:
    """The marker as an item. Nobody looked at it yet, so nothing else is known of it."""
    return Item(recorded.key, "", 0, "", None, str(recorded.fields["marker_version_id"]), is_marker=True)


def _archived(recorded: Recorded) -> Item:
    """The record by its key and deadline, with the file that has it as etag."""
    return Item(recorded.key, str(recorded.fields["archive"]), 0, RECORD, None, recorded.id[1])


_TAKEN_BACK = {PLACED: _marker, ARCHIVED: _archived}
