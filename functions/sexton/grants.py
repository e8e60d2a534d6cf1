"""What each function must be allowed, by the calls that it makes, and what none may be.

Resources are examples: a key that does not exist stands for all under its prefix.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sexton.policy import Policy

DISCOVERY, WORKER, RECONCILER = "discovery", "worker", "reconciler"
FUNCTIONS = (DISCOVERY, WORKER, RECONCILER)
EXAMPLE = "sexton-doctor"

READ_ROWS = ("dynamodb:GetItem", "dynamodb:Query")
USE_KEY = ("kms:Decrypt", "kms:GenerateDataKey")
READ_LOCKS = ("s3:GetObjectVersion", "s3:GetObjectRetention", "s3:GetObjectLegalHold")
WRITE_ROWS = ("dynamodb:UpdateItem",)


@dataclass(frozen=True, slots=True)
class Arns:
    """The stack's parts by their ARNs. `key` is the customer's key that they are encrypted with, empty without one."""

    ledger: str
    evidence: str
    jobs: str
    discovery: str
    key: str = ""

    def bucket(self, name: str) -> str:
        """Of a policy's bucket: it lies in the partition of the evidence."""
        return f"{self.evidence.rpartition(':')[0]}:{name}"


@dataclass(frozen=True)
class Grant:
    """Actions of one function on one resource; `context` is what a condition may look at."""

    function: str
    actions: tuple[str, ...]
    resource: str
    context: Mapping[str, str] = field(default_factory=dict)


def needed(arns: Arns, policies: Sequence[Policy]) -> Iterator[Grant]:
    """What the functions cannot do without."""
    yield from _of_ledger(arns)
    yield from _of_evidence(arns)
    yield Grant(DISCOVERY, ("sqs:SendMessage",), arns.jobs)
    yield Grant(WORKER, ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"), arns.jobs)
    yield Grant(RECONCILER, ("lambda:InvokeFunction",), arns.discovery)
    yield from _of_key(arns)
    for policy in policies:
        yield from of_bucket(arns.bucket(policy.source.bucket), policy)


def excessive(arns: Arns, policies: Sequence[Policy]) -> Iterator[Grant]:
    """What no function may do: deleting belongs to the worker, and nothing deletes rows or evidence."""
    for function in FUNCTIONS:
        yield Grant(function, ("dynamodb:DeleteItem",), arns.ledger)
        yield Grant(function, ("s3:DeleteObject", "s3:DeleteObjectVersion"), f"{arns.evidence}/plans/{EXAMPLE}")
    yield Grant(WORKER, ("sqs:SendMessage",), arns.jobs)
    for policy in policies:
        for prefix in policy.source.prefixes:
            within = f"{arns.bucket(policy.source.bucket)}/{prefix}{EXAMPLE}"
            removing = ("s3:DeleteObject", "s3:DeleteObjectVersion", "s3:AbortMultipartUpload")
            yield Grant(DISCOVERY, removing, within)
            yield Grant(RECONCILER, removing, within)


def _of_ledger(arns: Arns) -> Iterator[Grant]:
    run = {"dynamodb:LeadingKeys": "RUN#x"}
    for function in FUNCTIONS:
        yield Grant(function, (*READ_ROWS, *WRITE_ROWS), arns.ledger, run)
    for function in (DISCOVERY, RECONCILER):
        yield Grant(function, ("dynamodb:Query",), f"{arns.ledger}/index/open")


def _of_key(arns: Arns) -> Iterator[Grant]:
    """Through the services that hold what is encrypted with it."""
    through = {DISCOVERY: ("s3", "dynamodb", "sqs"), WORKER: ("s3", "dynamodb"), RECONCILER: ("s3", "dynamodb")}
    for function in FUNCTIONS if arns.key else ():
        for service in through[function]:
            yield Grant(function, USE_KEY, arns.key, via(service, arns.key))


def via(service: str, key: str) -> Mapping[str, str]:
    """The context of a key that is used through a service of its region."""
    return {"kms:ViaService": f"{service}.{key.split(':')[3]}.amazonaws.com"}


def _of_evidence(arns: Arns) -> Iterator[Grant]:
    write = {DISCOVERY: ("plans", "runs", "policies"), WORKER: ("outcomes",), RECONCILER: ("runs", "outcomes")}
    read = {
        DISCOVERY: ("plans", "policies", "outcomes"),
        WORKER: ("plans", "outcomes", "policies"),
        RECONCILER: ("plans", "outcomes", "runs", "policies"),
    }
    for function in FUNCTIONS:
        yield Grant(function, ("s3:ListBucket",), arns.evidence)
        for actions, folders in ((("s3:PutObject",), write), (("s3:GetObject",), read)):
            for folder in folders[function]:
                yield Grant(function, actions, f"{arns.evidence}/{folder}/{EXAMPLE}")


def of_bucket(bucket: str, policy: Policy) -> Iterator[Grant]:
    """What a policy takes on its bucket, whose ARN is given."""
    yield Grant(DISCOVERY, ("s3:GetBucketVersioning",), bucket)
    if policy.mode == "enforce" and policy.source.versions == "noncurrent":
        yield Grant(WORKER, ("s3:GetBucketObjectLockConfiguration",), bucket)
    for prefix in policy.source.prefixes:
        # Of a listing of uploads IAM knows no prefix.
        within = {} if policy.source.kind == "s3_uploads" else {"s3:prefix": prefix}
        yield from (Grant(function, (_listing(policy),), bucket, within) for function in FUNCTIONS)
        if policy.can_be_undone:
            yield from (Grant(each, ("s3:ListBucketVersions",), bucket, within) for each in (WORKER, RECONCILER))
        example = f"{bucket}/{prefix}{EXAMPLE}"
        yield from (Grant(function, actions, example) for function, actions in _on_items(policy) if actions)


def _listing(policy: Policy) -> str:
    if policy.source.kind == "s3_uploads":
        return "s3:ListBucketMultipartUploads"
    return "s3:ListBucket" if policy.source.versions == "current" else "s3:ListBucketVersions"


def _on_items(policy: Policy) -> Iterable[tuple[str, tuple[str, ...]]]:
    """Looking at single items, reading their tags, removing them."""
    current, objects = policy.source.versions == "current", policy.source.kind == "s3"
    tags = ("s3:GetObjectTagging" if current else "s3:GetObjectVersionTagging",) if policy.needs_tags else ()
    look = ("s3:GetObject",) if objects and current else ()
    yield DISCOVERY, tags
    yield RECONCILER, (*look, *tags)
    yield WORKER, (*look, *tags, *(_removing(policy) if policy.mode == "enforce" else ()))


def _removing(policy: Policy) -> tuple[str, ...]:
    if policy.source.kind == "s3_uploads":
        return ("s3:AbortMultipartUpload",)
    if policy.source.versions == "noncurrent":
        return ("s3:DeleteObjectVersion", *READ_LOCKS)
    return ("s3:DeleteObject", "s3:DeleteObjectVersion") if policy.can_be_undone else ("s3:DeleteObject",)
