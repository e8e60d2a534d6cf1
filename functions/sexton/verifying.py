"""Verifying a run from evidence alone: the ledger and the functions are not asked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sexton import archive, books, keys, part, plan, receipts
from sexton.books import Books, Entry
from sexton.breakdown import Breakdown
from sexton.closing import by_ending
from sexton.decision import EXPIRED, judge
from sexton.errors import EvidenceAltered
from sexton.item import Item, ItemId
from sexton.plan import Plan
from sexton.policy import Policy
from sexton.ports import Evidence
from sexton.retain import cutoff
from sexton.verifying_cohorts import CohortsAgain

DIFFERENCES_KEPT = 100
COMPARED_WITH_PLAN = ("policy", "policy_version", "digest", "scanned", "planned", "planned_bytes")


class Verdict(BaseModel):
    """What verifying came to. It `holds` when nothing differs.

    `books` is the revision that was verified, None for a run whose books are not in evidence: then only the plan
    was. `digest` is the recomputed one. `counts` are those of the recomputed books, in the report's shape. `undoes` is
    the run that was undone, for the words of people alone: what an undo deletes are delete markers.
    """

    model_config = ConfigDict(frozen=True)

    run_id: str
    holds: bool
    differences: tuple[str, ...]
    difference_count: int
    digest: str
    policy_version: str
    parts: int
    planned: int
    books: int | None
    jobs: int
    outcome_files: int
    counts: dict[str, Any]
    undoes: str | None = Field(default=None, exclude=True)


@dataclass
class _Findings:
    """Differences as they are found; the first hundred are kept in words."""

    kept: list[str] = field(default_factory=list)
    count: int = 0

    def differs(self, text: str) -> None:
        self.count += 1
        if len(self.kept) < DIFFERENCES_KEPT:
            self.kept.append(text)

    def expect(self, what: str, written: object, found: object) -> None:
        if written != found:
            self.differs(f"{what}: written is {_shown(written)}, recomputed {_shown(found)}")


def verify(evidence: Evidence, run_id: str) -> Verdict:
    """Recompute digest and books of a run, and say exactly what differs from what is written.

    Raises NoPlan where evidence has no plan of the run, EvidenceAltered where its list cannot be read at all.
    """
    written, findings = plan.read(evidence, run_id), _Findings()
    findings.expect("plan.json run_id", written.run_id, run_id)
    policy = _policy(evidence, written, findings)
    _verify_parts(evidence, written, policy, findings)
    digest = part.digest(written.policy_version, written.cutoff, (each.sha256 for each in written.parts))
    if written.digest is not None:
        findings.expect("digest of the plan", written.digest, digest)
    revision = archive.newest_revision(evidence, run_id)
    entries = _entries(evidence, run_id, revision, findings) if revision else []
    compared = Books()
    if revision:
        breakdown = Breakdown.of(policy, written.cutoff, written.cohorts) if policy else None
        compared = _verify_books(evidence, written, entries, breakdown, findings)
        _verify_report(evidence, written, revision, len(entries), compared, breakdown, findings)
    return Verdict(
        run_id=run_id,
        holds=findings.count == 0,
        differences=tuple(findings.kept),
        difference_count=findings.count,
        digest=digest,
        policy_version=written.policy_version,
        parts=len(written.parts),
        planned=written.planned,
        books=revision,
        jobs=len(entries),
        outcome_files=sum(len(entry.outcome_files) for entry in entries),
        counts=by_ending(compared.counts) if revision else {},
        undoes=written.undoes,
    )


def _policy(evidence: Evidence, written: Plan, findings: _Findings) -> Policy | None:
    """The policy that the plan was made under, if its copy is what its version says."""
    key = keys.policy(written.policy, written.policy_version)
    text = evidence.get(key)
    if text is None:
        findings.differs(f"{key}: the copy of the policy is gone")
        return None
    findings.expect(f"{key}: version of the policy", written.policy_version, hashlib.sha256(text).hexdigest())
    try:
        policy = Policy.from_canonical(text)
    except ValidationError:
        findings.differs(f"{key}: the copy is no policy that this version of Sexton can read")
        return None
    findings.expect("plan.json policy", written.policy, policy.id)
    findings.expect("cutoff", written.cutoff, cutoff(written.scheduled_time, policy.retain))
    return policy


def _verify_parts(evidence: Evidence, written: Plan, policy: Policy | None, findings: _Findings) -> None:
    """Every part is what its hash says, no item stands twice, each had its time, and the sums are the plan's."""
    judged = judge(policy, written.cutoff) if policy and written.undoes is None else None
    placed = _receipts(evidence, written.undoes, findings) if written.undoes else None
    cohorts = CohortsAgain.of(written, policy)
    of_records = policy is not None and not policy.of_bucket
    count, size, last, versions = 0, 0, "", set[str | None]()  # the versions of the last key
    for place, planned in enumerate(written.parts):
        findings.expect(
            f"key of part {planned.seq}", planned.key, keys.part(written.run_id, planned.seq, planned.sha256)
        )
        findings.expect(f"number of part {place}", planned.seq, f"000{place:05d}")
        try:
            items = plan.read_part(evidence, planned)
        except (EvidenceAltered, ValueError, KeyError) as error:
            findings.differs(f"part {planned.seq}: {error}")
            continue
        cohorts.add(items)
        count, bytes_here = count + len(items), sum(item.size for item in items)
        size += bytes_here
        findings.expect(f"bytes of part {planned.seq}", planned.bytes, bytes_here)
        if of_records:
            last = ""  # records are found in no order of their keys; only a part is ordered
        if placed is not None:
            last = ""  # an undo has a part for each job of the undone run, in the order of the jobs
            _verify_receipts(planned.seq, items, placed, written, findings)
        for index, item in enumerate(items):
            if item.key != last:
                versions.clear()
            # A record that moves while it is looked for can be found twice, and is removed once.
            if item.key < last or (item.version_id in versions and not of_records):
                findings.differs(f"part {planned.seq}: item {index} is out of order, or planned twice")
            last = item.key
            versions.add(item.version_id)
            decision = judged(item) if judged else EXPIRED
            if decision.action != "remove":
                findings.differs(f"part {planned.seq}: item {index} must not be planned: {decision.reason}")
    findings.expect("planned items", written.planned, count)
    findings.expect("planned bytes", written.planned_bytes, size)
    if policy is not None:
        cohorts.check(evidence, written, findings.expect)


def _receipts(evidence: Evidence, undone: str, findings: _Findings) -> Iterator[set[ItemId]]:
    """The ids of what each job of the undone run left to take back, in the order of its books."""
    revision = archive.newest_revision(evidence, undone)
    if revision is None:
        findings.differs(f"the books of {undone}, which it undoes, are gone")
        return
    for entry in _entries(evidence, undone, revision, findings):
        try:
            yield {item.id for item in receipts.read(evidence, entry.outcome_files).items}
        except EvidenceAltered as error:
            findings.differs(str(error))


def _verify_receipts(
    seq: str, items: Sequence[Item], placed: Iterator[set[ItemId]], written: Plan, findings: _Findings
) -> None:
    """An undo's part is of one job of the undone run; the next part is of a later job."""
    ids = {item.id for item in items}
    if not any(ids <= of_job for of_job in placed):
        findings.differs(f"part {seq}: it has items that no job of {written.undoes} left to take back")


def _entries(evidence: Evidence, run_id: str, revision: int, findings: _Findings) -> list[Entry]:
    try:
        return archive.read_books(evidence, run_id, revision)
    except EvidenceAltered as error:
        findings.differs(str(error))
        return []


def _verify_books(
    evidence: Evidence, written: Plan, entries: list[Entry], breakdown: Breakdown | None, findings: _Findings
) -> Books:
    """The books are about the plan's own parts and the run's own files, and they balance."""
    for text in _strangers(written, entries):
        findings.differs(text)
    compared = books.compare(evidence, entries, partial(_count, breakdown, written.cutoff) if breakdown else None)
    for text in compared.problems:
        findings.differs(f"books: {text}")
    findings.count += max(0, compared.problem_count - len(compared.problems))
    findings.expect("items in the books", written.planned, compared.planned)
    return compared


def _count(breakdown: Breakdown, at: datetime, item: Item, name: str, fields: Mapping[str, object]) -> None:
    breakdown.ended(item, name, fields, at)


def _strangers(written: Plan, entries: list[Entry]) -> Iterator[str]:
    parts = {planned.seq: (planned.key, planned.sha256) for planned in written.parts}
    for entry in entries:
        if not entry.job_id.startswith(f"{written.run_id}."):
            yield f"books: job {entry.job_id} is not of this run"
        if parts.get(entry.part) != (entry.part_key, entry.part_sha256):
            yield f"books: job {entry.job_id} has another part than the plan"
        if entry.state not in ("succeeded", "dead", "cancelled"):
            yield f"books: job {entry.job_id} was {entry.state} when the run was closed"
        for file in entry.outcome_files:
            if not file.startswith(f"outcomes/{written.run_id}/"):
                yield f"books: job {entry.job_id} names {file}, which is not of this run"
    for seq in parts.keys() - {entry.part for entry in entries}:
        yield f"books: part {seq} has no job"


def _verify_report(
    evidence: Evidence,
    written: Plan,
    revision: int,
    jobs: int,
    compared: Books,
    breakdown: Breakdown | None,
    findings: _Findings,
) -> None:
    """The report says of the plan what the plan says, and of the outcomes what the books come to."""
    key = keys.report(written.run_id, revision)
    try:
        report = archive.read_report(evidence, written.run_id, revision)
    except EvidenceAltered as error:
        findings.differs(str(error))
        return
    for name in COMPARED_WITH_PLAN:
        findings.expect(f"{key}: {name}", report.get(name), getattr(written, name))
    for name, found in (
        {"run_id": written.run_id, "revision": revision, "jobs": jobs} | by_ending(compared.counts)
    ).items():
        findings.expect(f"{key}: {name}", report.get(name), found)
    findings.expect(f"{key}: balanced", report.get("balanced"), compared.balanced)
    if breakdown is not None and "cohorts" in report:  # reports of an earlier release have none
        findings.expect(f"{key}: cohorts", report["cohorts"], breakdown.by_cohort().model_dump(mode="json"))
    for text in report.get("problems", []):
        if text not in compared.problems:
            findings.differs(f"{key} says: {text}")


def _shown(value: object) -> str:
    return json.dumps(value, default=str, sort_keys=True)
