"""Explaining one object: every run that planned it and what came of it, and what the policies would do now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from pydantic import AwareDatetime, BaseModel, ConfigDict

from sexton import archive, attributes, part, plan
from sexton.cohort import name_of
from sexton.decision import Decision, judge
from sexton.errors import CallFailed, Failure, Refused
from sexton.fate import OPEN, PLANNED, Attempted, Fate, Implied, SeenItem
from sexton.item import Item
from sexton.job import Job, JobState
from sexton.judging import judge_all
from sexton.ledger import Ledger
from sexton.outcome import Ending
from sexton.policy import Policy
from sexton.ports import Clock, Evidence, Stores
from sexton.reading import kept_policy, read_part
from sexton.records import ListedRecords
from sexton.retain import cutoff
from sexton.run import WAITING, Run
from sexton.showing import known_policies
from sexton.targets import bucket_of, items_at, of_current_objects, target_of

SCHEMES = {"s3://": "bucket", "dynamodb://": "table"}


class BadAddress(Refused):
    """The text is no address of an object or a record."""

    code = "bad_address"


class Verdict(BaseModel):
    """What one deployed policy says of the object now, or of one version or incomplete upload of its key.

    `action` is remove or keep; `unknown` where it cannot be looked at. `cohort` is whose it is by that policy.
    """

    model_config = ConfigDict(frozen=True)

    policy: str
    policy_version: str
    mode: str
    cutoff: AwareDatetime
    action: str
    reason: str
    version_id: str | None = None
    cohort: str | None = None


class Explanation(BaseModel):
    """`now` is the current object or record, None when there is none or it cannot be looked at (then `look_failed`).

    Of a record `bucket` is empty, and `table` names where it lies.
    """

    model_config = ConfigDict(frozen=True)

    bucket: str
    key: str
    now: SeenItem | None
    look_failed: str | None
    runs: tuple[Fate, ...]
    policies: tuple[Verdict, ...]
    table: str = ""


@dataclass(frozen=True, slots=True)
class Address:
    """Where something lies: in a `bucket` or a `table` of this name, under this key."""

    kind: str
    name: str
    key: str

    @property
    def place(self) -> str:
        """As a policy's source names it."""
        return f"{self.kind} {self.name}"


def address(text: str) -> Address:
    """Read `s3://bucket/key`, byte by byte, or `dynamodb://table/{"id":{"S":"1"}}`. Raises BadAddress."""
    scheme = next((each for each in SCHEMES if text.startswith(each)), "")
    name, _, key = text.removeprefix(scheme).partition("/")
    if not scheme or not name or not key:
        examples = 's3://bucket/path/to/key, or dynamodb://table/{"id":{"S":"1"}}'
        raise BadAddress(f"{text!r} is no address of an object or a record; one looks like {examples}")
    try:
        key.encode()
    except UnicodeEncodeError as error:
        raise BadAddress("the key is no UTF-8, and every key in S3 is") from error
    return Address(SCHEMES[scheme], name, _record_key(key) if SCHEMES[scheme] == "table" else key)


def _record_key(text: str) -> str:
    """A record's key in its one form, however it was spaced and ordered."""
    try:
        found = attributes.parse(text)
    except ValueError as error:
        raise BadAddress(f'{text[:80]!r} is no key of a record; one looks like {{"id":{{"S":"1"}}}}') from error
    if not all(
        isinstance(value, dict) and len(value) == 1 and value.keys() <= {"S", "N", "B"} for value in found.values()
    ):
        raise BadAddress(
            f'{text[:80]!r} is no key of a record: each attribute needs its type, as in {{"id":{{"S":"1"}}}}'
        )
    return attributes.canonical(found)


@dataclass(frozen=True)
class Explaining:
    """Explains objects, reading only."""

    ledger: Ledger
    evidence: Evidence
    stores: Stores
    clock: Clock
    _copies: dict[tuple[str, str], Policy] = field(default_factory=dict)

    def explain(self, text: str) -> Explanation:
        """Everything that is known of the object or record. Raises BadAddress, EvidenceAltered."""
        about = address(text)
        now, failed = self._looked(about)
        return Explanation(
            bucket=about.name if about.kind == "bucket" else "",
            table=about.name if about.kind == "table" else "",
            key=about.key,
            now=SeenItem.of(now) if now else None,
            look_failed=f"{failed.code}: {failed.summary}" if failed else None,
            runs=tuple(sorted(self._fates(about), key=lambda fate: fate.scheduled_time, reverse=True)),
            policies=tuple(self._verdicts(about, now, failed)),
        )

    def _looked(self, about: Address) -> tuple[Item | None, Failure | None]:
        """What is there now; a look that fails leaves the past to be explained all the same."""
        try:
            return (self._record(about) if about.kind == "table" else self._object(about)), None
        except CallFailed as failed:
            return None, failed.failure

    def _object(self, about: Address) -> Item | None:
        there = self.stores.bucket(about.name, self._account(about))
        now = there.head(about.key)
        if now is None:
            there.list(about.key, limit=1)  # a HEAD does not tell an absent object from an absent bucket
        return now

    def _record(self, about: Address) -> Item | None:
        """As the first policy of its table reads it; None where no policy is about the table."""
        policy = next(self._deployed(about), None)
        return self._record_of(policy, about.key) if policy else None

    def _record_of(self, policy: Policy, key: str) -> Item | None:
        target = target_of(policy, self.stores, self.clock())
        return target.at_key(key) if isinstance(target, ListedRecords) else None

    def _account(self, about: Address) -> str | None:
        """Whose bucket it is by the deployed policies, which agree on it."""
        return next((policy.s3.account for policy in self._deployed(about)), None)

    def _fates(self, about: Address) -> Iterator[Fate]:
        for policy in known_policies(self.ledger):
            in_ledger = set()
            for run in self.ledger.runs(policy):
                in_ledger.add(run.run_id)
                if self._copy(run.policy, run.policy_version).source.place == about.place:
                    yield from self._in_run(run, about.key)
            for run_id in archive.run_ids(self.evidence, policy):
                if run_id not in in_ledger:
                    yield from self._in_archive(run_id, about)

    def _in_archive(self, run_id: str, about: Address) -> Iterator[Fate]:
        planned = plan.read(self.evidence, run_id)
        if self._copy(planned.policy, planned.policy_version).source.place == about.place:
            yield from archive.fates(self.evidence, planned, about.key)

    def _copy(self, policy: str, version: str) -> Policy:
        """The policy as it was when a run was planned under it; what it said is in evidence."""
        if (policy, version) not in self._copies:
            self._copies[policy, version] = kept_policy(self.evidence, policy, version)
        return self._copies[policy, version]

    def _in_run(self, run: Run, key: str) -> Iterator[Fate]:
        """One for each planned version of the key, from the job that answers for it."""
        for job in self.ledger.jobs(run.run_id):
            if job.first_key <= key <= job.last_key:
                lines = part.read(read_part(self.evidence, job), job.part_sha256)
                yield from (
                    _Answer(self.evidence, run, job, index, lines[index]).fate()
                    for index in job.indexes()
                    if lines[index].key == key
                )

    def _verdicts(self, about: Address, now: Item | None, failed: Failure | None) -> Iterator[Verdict]:
        for policy in self._deployed(about):
            yield from self._verdicts_of(policy, about.key, now, failed)

    def _deployed(self, about: Address) -> Iterator[Policy]:
        for row in self.ledger.policies():
            version = str(row.get("deployed_version", ""))
            if version and (policy := self._copy(row["policy"], version)).source.place == about.place:
                yield policy

    def _verdicts_of(self, policy: Policy, key: str, now: Item | None, failed: Failure | None) -> Iterator[Verdict]:
        cut = cutoff(self.clock().replace(microsecond=0), policy.retain)
        verdict = partial(Verdict, policy=policy.id, policy_version=policy.version, mode=policy.mode, cutoff=cut)
        if policy.of_bucket and not key.startswith(policy.s3.prefixes):
            yield verdict(action="keep", reason="outside_scope")
            return
        try:
            judged = self._judged(policy, key, now, failed, cut)
        except CallFailed as unseen:
            yield verdict(action="unknown", reason=unseen.failure.code)
            return
        cohort_of = name_of(policy.cohort) if policy.cohort else lambda _: None
        for item, decision in judged:
            said = verdict(action=decision.action, reason=decision.reason, cohort=cohort_of(item))
            yield said.model_copy(update={"version_id": item.version_id})
        if not judged:
            yield verdict(action="keep", reason="absent")

    def _judged(
        self, policy: Policy, key: str, now: Item | None, failed: Failure | None, cut: datetime
    ) -> list[tuple[Item, Decision]]:
        """What the policy would decide of everything that its target has under the key. Raises CallFailed."""
        if not policy.of_bucket:
            record = self._record_of(policy, key)
            found = [record] if record else []
        elif not of_current_objects(policy):
            found = list(items_at(policy, bucket_of(policy, self.stores), key))
        elif failed is not None:
            raise CallFailed(failed)
        else:
            found = [now] if now else []
        return judge_all(target_of(policy, self.stores, cut), judge(policy, cut), found)


@dataclass(frozen=True)
class _Answer:
    """A job's answer for one of its items: what a file recorded, else what the row implies."""

    evidence: Evidence
    run: Run
    job: Job
    index: int
    planned: Item

    def fate(self) -> Fate:
        job, found = self.job, archive.recorded(self.evidence, self.job.files, self.index)
        return Fate.of(
            self.run,
            self.planned,
            found,
            Implied(self._implied(), self._reason(), self._implied_at()),
            run_state=self.run.state.value,
            job_id=job.job_id,
            index=self.index,
            attempts=job.attempt,
            history=tuple(Attempted(**failed.model_dump()) for failed in job.history),
            summary=None if found else job.summary,
            next_action=None if found else job.next_action,
        )

    def _implied(self) -> str:
        if self.job.state is JobState.DEAD:
            return Ending.DEAD
        if self.job.state is JobState.CANCELLED:
            return Ending.CANCELLED
        return PLANNED if self.run.state in WAITING else OPEN

    def _reason(self) -> str | None:
        return self.run.reason if self.job.state is JobState.CANCELLED else self.job.reason

    def _implied_at(self) -> datetime | None:
        return self.job.dead_at if self.job.state is JobState.DEAD else self.job.settled_at
