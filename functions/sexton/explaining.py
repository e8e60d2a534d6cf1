"""Explaining one object: every run that planned it and what came of it, and what the policies would do now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from pydantic import AwareDatetime, BaseModel, ConfigDict

from sexton import archive, part, plan
from sexton.decision import Decision, judge
from sexton.errors import CallFailed, Failure, Refused
from sexton.fate import OPEN, PLANNED, Attempted, Fate, Implied, SeenItem
from sexton.item import Item
from sexton.job import Job, JobState
from sexton.judging import judge_all
from sexton.ledger import Ledger
from sexton.outcome import Ending
from sexton.policy import Policy
from sexton.ports import Buckets, Clock, Evidence
from sexton.reading import kept_policy, read_part
from sexton.retain import cutoff
from sexton.run import WAITING, Run
from sexton.showing import known_policies
from sexton.targets import items_at, of_current_objects, target_of

SCHEME = "s3://"


class BadAddress(Refused):
    """The text is no address of an object."""

    code = "bad_address"


class Verdict(BaseModel):
    """What one deployed policy says of the object now, or of one version or incomplete upload of its key.

    `action` is remove or keep; `unknown` where it cannot be looked at.
    """

    model_config = ConfigDict(frozen=True)

    policy: str
    policy_version: str
    mode: str
    cutoff: AwareDatetime
    action: str
    reason: str
    version_id: str | None = None


class Explanation(BaseModel):
    """`now` is the current object, None when there is none or it cannot be looked at (then `look_failed`)."""

    model_config = ConfigDict(frozen=True)

    bucket: str
    key: str
    now: SeenItem | None
    look_failed: str | None
    runs: tuple[Fate, ...]
    policies: tuple[Verdict, ...]


def address(text: str) -> tuple[str, str]:
    """Bucket and key of `s3://bucket/key`; the key is taken byte by byte. Raises BadAddress."""
    bucket, slash, key = text.removeprefix(SCHEME).partition("/")
    if not text.startswith(SCHEME) or not bucket or not slash or not key:
        raise BadAddress(f"{text!r} is no address of an object; one looks like s3://bucket/path/to/key")
    try:
        key.encode()
    except UnicodeEncodeError as error:
        raise BadAddress("the key is no UTF-8, and every key in S3 is") from error
    return bucket, key


@dataclass(frozen=True)
class Explaining:
    """Explains objects, reading only."""

    ledger: Ledger
    evidence: Evidence
    bucket: Buckets
    clock: Clock
    _copies: dict[tuple[str, str], Policy] = field(default_factory=dict)

    def explain(self, text: str) -> Explanation:
        """Everything that is known of the object. Raises BadAddress, EvidenceAltered."""
        bucket, key = address(text)
        now, failed = self._looked(bucket, key)
        return Explanation(
            bucket=bucket,
            key=key,
            now=SeenItem.of(now) if now else None,
            look_failed=f"{failed.code}: {failed.summary}" if failed else None,
            runs=tuple(sorted(self._fates(bucket, key), key=lambda fate: fate.scheduled_time, reverse=True)),
            policies=tuple(self._verdicts(bucket, key, now, failed)),
        )

    def _looked(self, bucket: str, key: str) -> tuple[Item | None, Failure | None]:
        """The object now; a look that fails leaves the past to be explained all the same."""
        try:
            there = self.bucket(bucket, self._account(bucket))
            now = there.head(key)
            if now is None:
                there.list(key, limit=1)  # a HEAD does not tell an absent object from an absent bucket
            return now, None
        except CallFailed as failed:
            return None, failed.failure

    def _account(self, bucket: str) -> str | None:
        """Whose bucket it is by the deployed policies, which agree on it."""
        return next((policy.source.account for policy in self._deployed(bucket)), None)

    def _fates(self, bucket: str, key: str) -> Iterator[Fate]:
        for policy in known_policies(self.ledger):
            in_ledger = set()
            for run in self.ledger.runs(policy):
                in_ledger.add(run.run_id)
                if self._copy(run.policy, run.policy_version).source.bucket == bucket:
                    yield from self._in_run(run, key)
            for run_id in archive.run_ids(self.evidence, policy):
                if run_id not in in_ledger:
                    yield from self._in_archive(run_id, bucket, key)

    def _in_archive(self, run_id: str, bucket: str, key: str) -> Iterator[Fate]:
        planned = plan.read(self.evidence, run_id)
        if self._copy(planned.policy, planned.policy_version).source.bucket == bucket:
            yield from archive.fates(self.evidence, planned, key)

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

    def _verdicts(self, bucket: str, key: str, now: Item | None, failed: Failure | None) -> Iterator[Verdict]:
        for policy in self._deployed(bucket):
            yield from self._verdicts_of(policy, key, now, failed)

    def _deployed(self, bucket: str) -> Iterator[Policy]:
        for row in self.ledger.policies():
            version = str(row.get("deployed_version", ""))
            if version and (policy := self._copy(row["policy"], version)).source.bucket == bucket:
                yield policy

    def _verdicts_of(self, policy: Policy, key: str, now: Item | None, failed: Failure | None) -> Iterator[Verdict]:
        cut = cutoff(self.clock().replace(microsecond=0), policy.retain)
        verdict = partial(Verdict, policy=policy.id, policy_version=policy.version, mode=policy.mode, cutoff=cut)
        if not key.startswith(policy.source.prefixes):
            yield verdict(action="keep", reason="outside_scope")
            return
        try:
            judged = self._judged(policy, key, now, failed, cut)
        except CallFailed as unseen:
            yield verdict(action="unknown", reason=unseen.failure.code)
            return
        for item, decision in judged:
            yield verdict(action=decision.action, reason=decision.reason, version_id=item.version_id)
        if not judged:
            yield verdict(action="keep", reason="absent")

    def _judged(
        self, policy: Policy, key: str, now: Item | None, failed: Failure | None, cut: datetime
    ) -> list[tuple[Item, Decision]]:
        """What the policy would decide of everything that its target has under the key. Raises CallFailed."""
        bucket = self.bucket(policy.source.bucket, policy.source.account)
        if not of_current_objects(policy):
            found = list(items_at(policy, bucket, key))
        elif failed is not None:
            raise CallFailed(failed)
        else:
            found = [now] if now else []
        return judge_all(target_of(policy, bucket), judge(policy, cut), found)


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
