"""What each function must be allowed, by the calls that it makes, and what none may be.

Resources are examples: a key that does not exist stands for all under its prefix.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sexton.action import is_call
from sexton.elsewhere import session_name
from sexton.endpoint_action import HttpAction
from sexton.policy import Policy
from sexton.record_changes import CHANGING, changes_by_table, of_policy
from sexton.record_source import RecordSource

DISCOVERY, WORKER, RECONCILER = "discovery", "worker", "reconciler"
FUNCTIONS = (DISCOVERY, WORKER, RECONCILER)
EXAMPLE = "sexton-doctor"

READ_ROWS = ("dynamodb:GetItem", "dynamodb:Query")
USE_KEY = ("kms:Decrypt", "kms:GenerateDataKey")
READ_LOCKS = ("s3:GetObjectVersion", "s3:GetObjectRetention", "s3:GetObjectLegalHold")
WRITE_ROWS = ("dynamodb:UpdateItem",)
ASSUME = ("sts:AssumeRole",)
READ_SECRET = ("secretsmanager:GetSecretValue",)
# Of a customer's key that a table is encrypted with: DynamoDB uses it in the name of whoever reads, or writes.
READ_TABLE_KEY = ("kms:Decrypt", "kms:DescribeKey")
WRITE_TABLE_KEY = (
    *READ_TABLE_KEY,
    "kms:Encrypt",
    "kms:GenerateDataKey",
    "kms:GenerateDataKeyWithoutPlaintext",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
)


@dataclass(frozen=True, slots=True)
class Arns:
    """The stack's parts by their ARNs. `key` is the customer's key that they are encrypted with, empty without one."""

    ledger: str
    evidence: str
    jobs: str
    discovery: str
    key: str = ""

    def table(self, source: RecordSource) -> str:
        """Of a policy's table: it lies where the ledger does, unless the policy says otherwise."""
        _, partition, service, region, account, _ = self.ledger.split(":", 5)
        place = source.elsewhere
        if place is not None:
            region, account = place.region, place.account or account
        return f"arn:{partition}:{service}:{region}:{account}:table/{source.table}"

    def secret(self, name: str) -> str:
        """Of a secret in the account and region of the ledger; Secrets Manager adds six characters to each name."""
        _, partition, _, region, account, _ = self.ledger.split(":", 5)
        return f"arn:{partition}:secretsmanager:{region}:{account}:secret:{name}-AbCdEf"

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
    if any(policy.does == "archive" and policy.mode == "enforce" for policy in policies):
        yield Grant(WORKER, ("s3:GetObject", "s3:PutObject"), f"{arns.evidence}/archived/{EXAMPLE}")
    yield Grant(DISCOVERY, ("sqs:SendMessage",), arns.jobs)
    yield Grant(WORKER, ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"), arns.jobs)
    yield Grant(RECONCILER, ("lambda:InvokeFunction",), arns.discovery)
    yield from _of_key(arns)
    for policy in policies:
        yield from of_source(arns, policy)
        yield from _of_calls(arns, policy)
        yield from _of_secrets(arns, policy)


def excessive(arns: Arns, policies: Sequence[Policy]) -> Iterator[Grant]:
    """What no function may do: deleting belongs to the worker, and nothing deletes rows or evidence."""
    for function in FUNCTIONS:
        yield Grant(function, ("dynamodb:DeleteItem",), arns.ledger)
        yield Grant(function, ("s3:DeleteObject", "s3:DeleteObjectVersion"), f"{arns.evidence}/plans/{EXAMPLE}")
    for function in (DISCOVERY, RECONCILER):
        yield Grant(function, ("s3:GetObject",), f"{arns.evidence}/archived/{EXAMPLE}")
    yield Grant(WORKER, ("sqs:SendMessage",), arns.jobs)
    for function in FUNCTIONS:
        yield Grant(function, READ_SECRET, arns.secret(f"sexton/{EXAMPLE}"))
    for grant in (each for policy in policies for each in _of_secrets(arns, policy)):
        yield from (Grant(function, READ_SECRET, grant.resource) for function in (DISCOVERY, RECONCILER))
    for policy in policies:
        if isinstance(policy.source, RecordSource):
            yield from (Grant(each, CHANGING, arns.table(policy.source)) for each in (DISCOVERY, RECONCILER))
            table = arns.table(policy.source)
            rest = tuple(each for each in CHANGING if each not in changes_by_table(policies, arns.table)[table])
            yield Grant(WORKER, rest, table)
            yield from _borrowed_names(policy.source)
            continue
        for prefix in policy.s3.prefixes:
            within = f"{arns.bucket(policy.s3.bucket)}/{prefix}{EXAMPLE}"
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


def _of_calls(arns: Arns, policy: Policy) -> Iterator[Grant]:
    """A call can lose its reply wherever the table lies: somebody must look what became of the record."""
    called = policy.mode == "enforce" and is_call(policy.action)
    if called and isinstance(policy.source, RecordSource) and not policy.source.role_arn:
        yield Grant(RECONCILER, ("dynamodb:BatchGetItem",), arns.table(policy.source))


def _of_secrets(arns: Arns, policy: Policy) -> Iterator[Grant]:
    """The secrets that the headers of a policy's calls have for values."""
    if policy.mode == "enforce" and isinstance(policy.action, HttpAction):
        yield from (Grant(WORKER, READ_SECRET, arns.secret(name)) for name in policy.action.secrets)


def of_source(arns: Arns, policy: Policy) -> Iterator[Grant]:
    """What a policy takes on its bucket or table."""
    if isinstance(policy.source, RecordSource):
        place = policy.source.elsewhere
        if place and place.role_arn:
            yield from of_role(place.role_arn, enforced=policy.mode == "enforce")
        else:
            changing = of_policy(policy)
            yield from of_table(arns.table(policy.source), policy.source, policy.mode == "enforce", changing)
    else:
        yield from of_bucket(arns.bucket(policy.source.bucket), policy)


def of_table(
    table: str, source: RecordSource, enforced: bool, changing: Sequence[str] = ("dynamodb:DeleteItem",)
) -> Iterator[Grant]:
    """What a policy takes on its table, whose ARN is given; `changing` is what the worker does to records."""
    yield Grant(DISCOVERY, ("dynamodb:DescribeTable",), table)
    if source.scan:
        yield Grant(DISCOVERY, ("dynamodb:Scan",), table)
    else:
        yield Grant(DISCOVERY, ("dynamodb:Query",), f"{table}/index/{source.index}" if source.index else table)
    if enforced:
        yield Grant(WORKER, ("dynamodb:BatchGetItem", *changing), table)
    if enforced and source.elsewhere:  # a deletion there can lose its reply, and somebody must look what became of it
        yield Grant(RECONCILER, ("dynamodb:BatchGetItem",), table)


def of_role(role_arn: str, *, enforced: bool) -> Iterator[Grant]:
    """To assume the role of a table that lies elsewhere, each function under the names of its own sessions."""
    for function in FUNCTIONS if enforced else (DISCOVERY,):
        yield Grant(function, ASSUME, role_arn, _as(function))


def _borrowed_names(source: RecordSource) -> Iterator[Grant]:
    """By the name of its session the role tells who may remove: nobody may take the worker's."""
    if source.elsewhere and source.elsewhere.role_arn:
        for function in (DISCOVERY, RECONCILER):
            yield Grant(function, ASSUME, source.elsewhere.role_arn, _as(WORKER))


def _as(function: str) -> Mapping[str, str]:
    return {"sts:RoleSessionName": session_name(function, EXAMPLE)}


def of_bucket(bucket: str, policy: Policy) -> Iterator[Grant]:
    """What a policy takes on its bucket, whose ARN is given."""
    yield Grant(DISCOVERY, ("s3:GetBucketVersioning",), bucket)
    if policy.mode == "enforce" and policy.s3.versions == "noncurrent":
        yield Grant(WORKER, ("s3:GetBucketObjectLockConfiguration",), bucket)
    for prefix in policy.s3.prefixes:
        # Of a listing of uploads IAM knows no prefix.
        within = {} if policy.s3.kind == "s3_uploads" else {"s3:prefix": prefix}
        yield from (Grant(function, (_listing(policy),), bucket, within) for function in FUNCTIONS)
        if policy.can_be_undone:
            yield from (Grant(each, ("s3:ListBucketVersions",), bucket, within) for each in (WORKER, RECONCILER))
        example = f"{bucket}/{prefix}{EXAMPLE}"
        yield from (Grant(function, actions, example) for function, actions in _on_items(policy) if actions)


def _listing(policy: Policy) -> str:
    if policy.s3.kind == "s3_uploads":
        return "s3:ListBucketMultipartUploads"
    return "s3:ListBucket" if policy.s3.versions == "current" else "s3:ListBucketVersions"


def _on_items(policy: Policy) -> Iterable[tuple[str, tuple[str, ...]]]:
    """Looking at single items, reading their tags, removing them."""
    current, objects = policy.s3.versions == "current", policy.s3.kind == "s3"
    tags = ("s3:GetObjectTagging" if current else "s3:GetObjectVersionTagging",) if policy.needs_tags else ()
    look = ("s3:GetObject",) if objects and current else ()
    yield DISCOVERY, tags
    yield RECONCILER, (*look, *tags)
    yield WORKER, (*look, *tags, *(_removing(policy) if policy.mode == "enforce" else ()))


def _removing(policy: Policy) -> tuple[str, ...]:
    if policy.s3.kind == "s3_uploads":
        return ("s3:AbortMultipartUpload",)
    if policy.s3.versions == "noncurrent":
        return ("s3:DeleteObjectVersion", *READ_LOCKS)
    return ("s3:DeleteObject", "s3:DeleteObjectVersion") if policy.can_be_undone else ("s3:DeleteObject",)
