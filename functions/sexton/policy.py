"""A policy: what goes, how old it must be, what is done with it, within which limits.

`load_policies` reads a folder of them and says everything that is wrong at once, each with its file and line.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StrictBool,
    StrictInt,
    Tag,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from sexton.action import Action, check_action, check_recovery, is_call, name_of, recoveries, taken_back_by
from sexton.cohort import Canary, Cohort, RecordCohort, fitted, refuse_canary, refuse_limits
from sexton.duration import FixedDuration, to_text
from sexton.key_date import KeyDate, TagDate
from sexton.limits import SHORTEST_MAX_AGE, Limits
from sexton.policy_check import explain, missing
from sexton.policy_file import PolicyFile, read_policy_file
from sexton.problem import CHECKED, PolicyError, Problem, refused
from sexton.record_source import RecordSource
from sexton.retain import Retain, RetainField
from sexton.retry import worst_wait
from sexton.schedule import Schedule, Zone
from sexton.source import S3Source

__all__ = ["MAX_PARTS", "Policy", "PolicyError", "Problem", "load_policies", "refuse_own"]

MAX_PARTS = 99_999  # a part's number has five digits
REVIEW_SHARE = 0.25  # of the SLO, left for a person to look at what died
LONGEST_SLO = timedelta(days=14)  # no message and no dead letter lives longer in SQS
MINUTE = timedelta(minutes=1)
NOT_IN_VERSION = frozenset({"description", "owner", "schedule", "timezone"})
NEEDED_IN_FILE = ("description", "owner", "schedule")


def _age_kind(value: object) -> str:
    """Which of the three a given `age_from` means."""
    if isinstance(value, TagDate) or (isinstance(value, dict) and "tag" in value):
        return "tag_date"
    return "key_date" if isinstance(value, dict | KeyDate) else "last_modified"


AgeFrom = Annotated[
    Annotated[Literal["last_modified"], Tag("last_modified")]
    | Annotated[KeyDate, Tag("key_date")]
    | Annotated[TagDate, Tag("tag_date")],
    Discriminator(_age_kind),
]

# A transaction has 100 actions at most: so many records, the settlement of their job, and one to spare.
MOST_RECORDS = 98


def _source_kind(value: object) -> str:
    """Which of the two a given `source` means; what is neither is refused as a bucket's."""
    kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
    return "dynamodb" if kind == "dynamodb" else "s3"


Source = Annotated[
    Annotated[S3Source, Tag("s3")] | Annotated[RecordSource, Tag("dynamodb")],
    Discriminator(_source_kind),
]


class Policy(BaseModel):
    """One policy, checked. Two policies of one `version` remove the same things in the same way.

    `description`, `owner` and `schedule` are required in a file; they are empty in one read `from_canonical`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{1,47}$")]
    description: str = ""
    owner: str = ""
    schedule: Schedule = ""
    timezone: Zone = "UTC"
    mode: Literal["report", "enforce"] = "report"
    approval: Literal["first", "always", "none"] = "first"
    approvers: Annotated[StrictInt, Field(ge=1, le=2)] = 1
    cohort: Cohort | None = None
    canary: Annotated[Canary | None, CHECKED] = None
    source: Source
    retain: RetainField
    short_retention: Annotated[StrictBool, CHECKED] = False
    age_from: Annotated[AgeFrom, CHECKED] = "last_modified"
    action: Annotated[Action, CHECKED] = "expire"
    recovery: Annotated[Literal["versioning", "archive", "backup", "none"] | None, CHECKED] = None
    limits: Annotated[Limits, CHECKED] = Limits()
    slo: Annotated[FixedDuration, CHECKED] = timedelta(days=1)
    job_size: Annotated[StrictInt, Field(ge=1, le=1000), CHECKED] = 1000

    @model_validator(mode="before")
    @classmethod
    def _jobs_of_records_are_small(cls, given: Any) -> Any:
        """Left out, the size of a job of records is the largest that one transaction takes, and of calls one."""
        if isinstance(given, dict) and _source_kind(given.get("source")) == "dynamodb":
            return {"job_size": 1 if is_call(given.get("action")) else MOST_RECORDS, **given}
        return given

    # Fields are checked against each other one by one, in their order, each with those before it that are good in
    # themselves (`info.data`): so that nothing that is wrong hides anything else.

    @field_validator("approvers")
    @classmethod
    def _there_is_an_approval(cls, approvers: int, info: ValidationInfo) -> int:
        if approvers > 1 and info.data.get("approval") == "none":
            raise refused(
                "approvers: 2 means two persons, and approval: none means nobody", "approval: first or always"
            )
        return approvers

    @field_validator("canary")
    @classmethod
    def _canary_of_cohorts(cls, canary: Canary | None, info: ValidationInfo) -> Canary | None:
        if "cohort" in info.data:
            refuse_canary(canary, info.data["cohort"])
        return canary

    @field_validator("source")
    @classmethod
    def _source_tells_cohorts(cls, source: S3Source | RecordSource, info: ValidationInfo) -> S3Source | RecordSource:
        return fitted(source, info.data.get("cohort"))

    @field_validator("short_retention")
    @classmethod
    def _retention_meant(cls, short: bool, info: ValidationInfo) -> bool:
        retain: Retain | None = info.data.get("retain")
        if retain and retain.under_a_day and not short:
            raise refused(
                f"retain {retain} is under a day",
                "P1D or more, or set short_retention: true if you mean it",
                at="..retain",
            )
        return short

    @field_validator("age_from")
    @classmethod
    def _age_readable(cls, age_from: object, info: ValidationInfo) -> object:
        source: S3Source | RecordSource | None = info.data.get("source")
        if isinstance(source, RecordSource):
            if age_from != "last_modified":
                raise refused("the age of a record counts from its source.timestamp", "no age_from")
            return age_from
        if source and isinstance(age_from, TagDate) and source.kind == "s3_uploads":
            raise refused("an incomplete upload has no tags", "age_from: last_modified")
        if source and source.versions == "noncurrent" and age_from != "last_modified":
            raise refused("the age of a noncurrent version counts from when it became noncurrent", "no age_from")
        return age_from

    @field_validator("action")
    @classmethod
    def _action_fits(cls, action: Action, info: ValidationInfo) -> Action:
        source: S3Source | RecordSource | None = info.data.get("source")
        return check_action(action, source) if source else action

    @field_validator("recovery")
    @classmethod
    def _recovery_known(cls, recovery: str | None, info: ValidationInfo) -> str | None:
        action: Action = info.data.get("action", "expire")
        if info.data.get("mode") == "enforce" and recovery is None:
            raise refused("an enforcing policy must say how a deletion can be taken back", recoveries(action))
        check_recovery(recovery, action)
        return recovery

    @field_validator("limits")
    @classmethod
    def _share_of_something(cls, limits: Limits, info: ValidationInfo) -> Limits:
        source: S3Source | RecordSource | None = info.data.get("source")
        if source and source.shows_only_due and limits.max_share is not None:
            what = "limits.max_share says nothing where a query stops at the cutoff: all that it shows is due"
            raise refused(what, "limits.max_items, or source.scan instead of partitions", at="max_share")
        return limits

    @field_validator("limits")
    @classmethod
    def _emptying_can_be_told(cls, limits: Limits, info: ValidationInfo) -> Limits:
        cohort: str | RecordCohort | None = info.data.get("cohort")
        if "cohort" in info.data:
            refuse_limits(limits, info.data.get("source"), cohort)
        return limits

    @field_validator("slo")
    @classmethod
    def _slo_within_message_life(cls, slo: timedelta) -> timedelta:
        if slo > LONGEST_SLO:
            raise refused(f"slo {to_text(slo)} is longer than a message can live", f"{to_text(LONGEST_SLO)} or less")
        return slo

    @field_validator("slo")
    @classmethod
    def _retries_leave_room(cls, slo: timedelta, info: ValidationInfo) -> timedelta:
        limits: Limits | None = info.data.get("limits")
        waits = worst_wait(limits.max_attempts) if limits else timedelta(0)
        window = limits.max_age + waits if limits else timedelta(0)
        room = slo * (1 - REVIEW_SHARE)
        if limits is None or window <= room:
            return slo
        longest, shortest_slo = (room - waits) // MINUTE * MINUTE, -(-window / (1 - REVIEW_SHARE) // MINUTE) * MINUTE
        shorter = f"limits.max_age: {to_text(longest)} at most, or " if longest >= SHORTEST_MAX_AGE else ""
        raise refused(
            f"a job can be retried for {to_text(window)}, which leaves less than a quarter of the slo"
            f" of {to_text(slo)} for review",
            f"{shorter}slo: {to_text(shortest_slo)} or more",
            at="..limits.max_age" if "max_age" in limits.model_fields_set else "",
        )

    @field_validator("job_size")
    @classmethod
    def _records_fit_a_transaction(cls, job_size: int, info: ValidationInfo) -> int:
        source = info.data.get("source")
        if isinstance(source, RecordSource) and not source.elsewhere and job_size > MOST_RECORDS:
            what = f"job_size {job_size} is more records than one transaction takes beside their job's settlement"
            raise refused(what, f"{MOST_RECORDS} or less")
        return job_size

    @field_validator("job_size")
    @classmethod
    def _a_call_is_for_one(cls, job_size: int, info: ValidationInfo) -> int:
        if is_call(info.data.get("action")) and job_size > 1:
            raise refused(f"job_size {job_size} is more than the one item that a call is made for", "1, or no job_size")
        return job_size

    @field_validator("job_size")
    @classmethod
    def _parts_can_be_numbered(cls, job_size: int, info: ValidationInfo) -> int:
        limits: Limits | None = info.data.get("limits")
        calls = is_call(info.data.get("action"))
        if limits and limits.max_items > MAX_PARTS * job_size:
            raise refused(
                f"max_items {limits.max_items} in jobs of {job_size} makes more than {MAX_PARTS} parts",
                f"limits.max_items: {MAX_PARTS * job_size} at most"
                + ("" if calls else f", or job_size: {-(-limits.max_items // MAX_PARTS)} or more"),
                at="..limits.max_items",
            )
        return job_size

    @property
    def s3(self) -> S3Source:
        """The source of a policy that is about a bucket; only to be asked of one."""
        assert isinstance(self.source, S3Source), f"policy {self.id} is about {self.source.place}"
        return self.source

    @property
    def of_bucket(self) -> bool:
        """Whether it is about a bucket."""
        return isinstance(self.source, S3Source)

    @property
    def does(self) -> str:
        """The action's name, whether it is a word or a mapping."""
        return name_of(self.action)

    @property
    def can_be_undone(self) -> bool:
        """Whether the worker may take back what runs of it did: remove delete markers, or put records back."""
        return self.mode == "enforce" and taken_back_by(self.action) == self.recovery

    @property
    def needs_tags(self) -> bool:
        """Whether an item cannot be judged without its tags."""
        return self.source.needs_tags or isinstance(self.age_from, TagDate)

    def __hash__(self) -> int:
        return hash((self.id, self.version))

    def canonical(self) -> str:
        """What the version is the digest of: sorted compact JSON of what is not left at its default.

        So a new field with a default changes no version, and neither does the spelling in the file.
        """
        fields = self.model_dump(mode="json", exclude_defaults=True, exclude=set(NOT_IN_VERSION))
        return json.dumps(fields, sort_keys=True, separators=(",", ":"))

    @cached_property
    def version(self) -> str:
        """SHA-256 of the canonical text, in hex."""
        return hashlib.sha256(self.canonical().encode("ascii")).hexdigest()

    @classmethod
    def from_canonical(cls, text: str | bytes) -> Self:
        """The policy that `canonical` wrote. Raises pydantic.ValidationError where it is none."""
        return cls.model_validate_json(text)


def load_policies(folder: Path) -> tuple[Policy, ...]:
    """Read every *.yaml and *.yml of a folder, in the order of their names; or the one file that the path names.

    Raises PolicyError with the problems of all files together. A folder without a policy is one.
    """
    files = [read_policy_file(path) for path in _policy_paths(folder)]
    checked = [check_policy(file) for file in files]
    problems = [problem for _, found in checked for problem in found] + _repeated_ids(files)
    problems += _two_accounts(zip(files, (policy for policy, _ in checked), strict=True))
    if problems:
        raise PolicyError(problems)
    return tuple(policy for policy, _ in checked if policy is not None)


def _policy_paths(folder: Path) -> list[Path]:
    if folder.is_file():
        return [folder]
    if not folder.is_dir():
        raise PolicyError([Problem(str(folder), "there is no such folder", "the folder that holds the policies")])
    paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in {".yaml", ".yml"} and path.is_file())
    if not paths:
        raise PolicyError([Problem(str(folder), "no policy is in this folder", "at least one *.yaml file in it")])
    return paths


def check_policy(file: PolicyFile) -> tuple[Policy | None, list[Problem]]:
    """The policy of a file, or all that is wrong with it, in the order of the lines."""
    if file.problems:
        return None, file.problems
    empty = [name for name in NEEDED_IN_FILE if _is_empty(file.fields.get(name))]
    problems = [missing(file, (name,)) for name in empty]
    given = {name: value for name, value in file.fields.items() if name not in empty}
    try:
        policy = Policy.model_validate(given)
    except ValidationError as error:
        problems += [explain(file, Policy, detail) for detail in error.errors(include_url=False)]
        return None, sorted(problems, key=lambda problem: int(problem.where.rpartition(":")[2]))
    return (None if problems else policy), problems


def _is_empty(value: object) -> bool:
    return not value or (isinstance(value, str) and not value.strip())


def _repeated_ids(files: Iterable[PolicyFile]) -> list[Problem]:
    first: dict[str, PolicyFile] = {}
    problems = []
    for file in files:
        policy_id = file.fields.get("id")
        if not isinstance(policy_id, str):
            continue
        if policy_id in first:
            what = f"id {policy_id!r} is already that of {first[policy_id].where(('id',))}"
            problems.append(Problem(file.where(("id",)), what, "an id of its own"))
        first.setdefault(policy_id, file)
    return problems


def _two_accounts(found: Iterable[tuple[PolicyFile, Policy | None]]) -> list[Problem]:
    """A bucket belongs to one account, and a bucket's name in an address is all that tells which."""
    first: dict[str, tuple[PolicyFile, str | None]] = {}
    problems = []
    for file, policy in found:
        if policy is None or not policy.of_bucket:
            continue
        bucket, account = policy.s3.bucket, policy.s3.account
        there, theirs = first.setdefault(bucket, (file, account))
        if theirs != account:
            what = f"bucket {bucket} is of {_whose(account)} here, and of {_whose(theirs)} in {there.path}"
            problems.append(Problem(file.where(("source", "account")), what, "the same source.account in both"))
    return problems


def _whose(account: str | None) -> str:
    return f"account {account}" if account else "the stack's own account"


def refuse_own(policies: Iterable[Policy], own_buckets: Collection[str], own_tables: Collection[str] = ()) -> None:
    """Raise PolicyError if a policy's source is one of Sexton's own buckets or tables, which nothing may empty."""
    own = [problem for policy in policies if (problem := _own(policy, own_buckets, own_tables))]
    if own:
        raise PolicyError(own)


def _own(policy: Policy, own_buckets: Collection[str], own_tables: Collection[str]) -> Problem | None:
    where = f"policy {policy.id}"
    if isinstance(policy.source, RecordSource):
        table = policy.source.table
        what = f"source.table {table!r} is Sexton's own ledger"
        return Problem(where, what, "a table that is yours to clean") if table in own_tables else None
    bucket = policy.source.bucket
    what = f"source.bucket {bucket!r} is Sexton's own evidence"
    return Problem(where, what, "a bucket that is yours to clean") if bucket in own_buckets else None
