"""The sources: the buckets and tables that the policies name. They are others'; here are only the rights on them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from aws_cdk import Aws
from aws_cdk import aws_iam as iam
from sexton.action import is_call
from sexton.bucket_policy import literal
from sexton.elsewhere import sessions_of
from sexton.endpoint_action import HttpAction
from sexton.grants import DISCOVERY, READ_SECRET, READ_TABLE_KEY, RECONCILER, WORKER, WRITE_TABLE_KEY
from sexton.policy import Policy
from sexton.record_changes import CHANGING, changes_by_table
from sexton.record_source import RecordSource

from infra import review
from infra.key import grant_tables


class Kind(StrEnum):
    """What a policy is about; each kind has actions of its own."""

    OBJECTS = "objects"
    VERSIONS = "versions"
    UPLOADS = "uploads"


LIST = {
    Kind.OBJECTS: "s3:ListBucket",
    Kind.VERSIONS: "s3:ListBucketVersions",
    Kind.UPLOADS: "s3:ListBucketMultipartUploads",
}
READ_TAGS = {Kind.OBJECTS: "s3:GetObjectTagging", Kind.VERSIONS: "s3:GetObjectVersionTagging"}
REMOVE = {
    Kind.OBJECTS: "s3:DeleteObject",
    Kind.VERSIONS: "s3:DeleteObjectVersion",
    Kind.UPLOADS: "s3:AbortMultipartUpload",
}
READ_LOCKS = ["s3:GetObjectVersion", "s3:GetObjectRetention", "s3:GetObjectLegalHold"]

Scopes = dict[str, list[str]]  # prefixes by bucket


class Tables:
    """Rights on the tables of policies about records, each only in the way that its policies need."""

    def __init__(self, policies: Sequence[Policy]) -> None:
        self._sources = [policy.source for policy in policies if isinstance(policy.source, RecordSource)]
        self._changes = changes_by_table(policies, _table_arn)
        self._called = [p.source for p in policies if isinstance(p.source, RecordSource) and is_call(p.action)]

    @property
    def _reached(self) -> list[RecordSource]:
        """Those that the functions' roles reach themselves, without assuming another."""
        return [source for source in self._sources if not source.role_arn]

    @property
    def _followed(self) -> list[RecordSource]:
        """Those of which an effect can be unknown."""
        return [source for source in self._reached if source.elsewhere or source in self._called]

    def grant_keys(self, discovery: iam.IRole, arns: Sequence[str]) -> None:
        """Read what is encrypted with these keys."""
        grant_tables(discovery, arns if self._reached else (), *READ_TABLE_KEY)

    def grant_keys_to_remove(self, worker: iam.IRole, reconciler: iam.IRole, arns: Sequence[str]) -> None:
        """Remove what is encrypted with them; look again at it where `grant_observe` lets."""
        grant_tables(worker, arns if self._reached else (), *WRITE_TABLE_KEY)
        grant_tables(reconciler, arns if self._followed else (), *READ_TABLE_KEY)

    def grant_plan(self, discovery: iam.IRole) -> None:
        """See how the tables are keyed; query the indexes that are named, scan what is to be scanned."""
        queried, scanned = ([s for s in self._reached if bool(s.scan) is scan] for scan in (False, True))
        _grant(discovery, ["dynamodb:DescribeTable"], _arns(self._reached))
        _grant(
            discovery, ["dynamodb:Query"], sorted({_table_arn(s, f"/index/{s.index}" * bool(s.index)) for s in queried})
        )
        _grant(discovery, ["dynamodb:Scan"], _arns(scanned))

    def grant_remove(self, worker: iam.IRole) -> None:
        """Read single records again, and change them as their policies do."""
        _grant(worker, ["dynamodb:BatchGetItem"], _arns(self._reached))
        for action in CHANGING:
            changed = (source for source in self._reached if action in self._changes[_table_arn(source)])
            _grant(worker, [action], _arns(changed))

    def grant_observe(self, reconciler: iam.IRole) -> None:
        """Read single records again, of other regions and where calls are made; else nothing is without an outcome."""
        _grant(reconciler, ["dynamodb:BatchGetItem"], _arns(self._followed))

    def grant_assume(self, role: iam.IRole, function: str) -> None:
        """Assume the roles that the policies name, under the names of this function's sessions and no other."""
        conditions = {"StringLike": {"sts:RoleSessionName": [sessions_of(function)]}}
        assumed = {source.role_arn for source in self._sources if source.role_arn}
        _grant(role, ["sts:AssumeRole"], sorted(assumed), conditions)


def grant_secrets(worker: iam.IRole, policies: Iterable[Policy]) -> None:
    """Read the secrets that the calls of policies that enforce have in their headers, and no others."""
    calls = [p.action for p in policies if p.mode == "enforce" and isinstance(p.action, HttpAction)]
    names = sorted({name for call in calls for name in call.secrets})
    if names:
        arns = [_secret_arn(name) for name in names]
        iam.Grant.add_to_principal(grantee=worker, actions=[*READ_SECRET], resource_arns=arns)
        review.accept_wildcards(worker, arns, "Secrets Manager adds six characters to a secret's name.")


def _secret_arn(name: str) -> str:
    return f"arn:{Aws.PARTITION}:secretsmanager:{Aws.REGION}:{Aws.ACCOUNT_ID}:secret:{name}-??????"


class Sources:
    """Rights on the policies' buckets, each within the prefixes of the policies that need it."""

    def __init__(self, policies: Sequence[Policy]) -> None:
        self._all = policies
        self._policies = [policy for policy in policies if policy.of_bucket]
        self._tables = Tables([policy for policy in policies if not policy.of_bucket])

    @property
    def enforced(self) -> Sources:
        """Only what policies that enforce are about: nothing else may ever be removed."""
        return Sources([policy for policy in self._all if policy.mode == "enforce"])

    @property
    def tables(self) -> Tables:
        """The tables among them."""
        return self._tables

    @property
    def archive(self) -> bool:
        """Whether any of them writes records to evidence."""
        return any(policy.does == "archive" for policy in self._all)

    def grant_plan(self, discovery: iam.IRole) -> None:
        """List what may be planned, and tell whether the bucket is versioned. Nothing of it can delete."""
        self._grant_list(discovery)
        self._grant_tags(discovery)
        self._tables.grant_assume(discovery, DISCOVERY)
        _grant(discovery, ["s3:GetBucketVersioning"], _bucket_arns(_scopes(self._policies)))
        self._tables.grant_plan(discovery)

    def grant_observe(self, observer: iam.IRole) -> None:
        """Look again at what was planned: list, or current objects one at a time."""
        self._grant_list(observer)
        self._grant_tags(observer)
        _grant(observer, ["s3:GetObject"], _object_arns(self._of(Kind.OBJECTS)))
        _grant_listing(observer, Kind.VERSIONS, self._undoable)  # of an undo, the markers

    def grant_remove(self, worker: iam.IRole) -> None:
        """Delete what the policies are about, and only that; to be called on those that enforce.

        Where an undo may take deletions back, also delete markers, which IAM does not tell from versions. Why a version
        could not be deleted, a lock or a missing permission, is read from the version.
        """
        for kind, action in REMOVE.items():
            _grant(worker, [action], _object_arns(self._of(kind)))
        _grant(worker, [REMOVE[Kind.VERSIONS]], _object_arns(self._undoable))
        purged = self._of(Kind.VERSIONS)
        _grant(worker, READ_LOCKS, _object_arns(purged))
        _grant(worker, ["s3:GetBucketObjectLockConfiguration"], _bucket_arns(purged))
        self._tables.grant_remove(worker)
        self._tables.grant_assume(worker, WORKER)

    def grant_follow(self, reconciler: iam.IRole) -> None:
        """Look what became of removals whose replies were lost, where that takes rights of its own."""
        self._tables.grant_observe(reconciler)
        self._tables.grant_assume(reconciler, RECONCILER)

    def _of(self, kind: Kind) -> Scopes:
        return _scopes(p for p in self._policies if _kind(p) is kind)

    @property
    def _undoable(self) -> Scopes:
        return _scopes(p for p in self._policies if p.can_be_undone)

    def _grant_list(self, grantee: iam.IRole) -> None:
        for kind in Kind:
            _grant_listing(grantee, kind, self._of(kind))

    def _grant_tags(self, grantee: iam.IRole) -> None:
        for kind, action in READ_TAGS.items():
            tagged = _scopes(p for p in self._policies if p.needs_tags and _kind(p) is kind)
            _grant(grantee, [action], _object_arns(tagged))


def _grant_listing(grantee: iam.IRole, kind: Kind, scopes: Scopes) -> None:
    for bucket, prefixes in scopes.items():
        within = {"StringLike": {"s3:prefix": [literal(prefix) + "*" for prefix in prefixes]}}
        # IAM knows no prefix of a listing of uploads.
        _grant(grantee, [LIST[kind]], _bucket_arns([bucket]), None if kind is Kind.UPLOADS else within)


def _kind(policy: Policy) -> Kind:
    if policy.s3.kind == "s3_uploads":
        return Kind.UPLOADS
    return Kind.VERSIONS if policy.s3.versions == "noncurrent" else Kind.OBJECTS


def _scopes(policies: Iterable[Policy]) -> Scopes:
    scopes: dict[str, set[str]] = {}
    for policy in policies:
        scopes.setdefault(policy.s3.bucket, set()).update(policy.s3.prefixes)
    return {bucket: sorted(scopes[bucket]) for bucket in sorted(scopes)}


def _grant(
    grantee: iam.IRole,
    actions: Sequence[str],
    arns: Sequence[str],
    conditions: dict[str, dict[str, list[str]]] | None = None,
) -> None:
    if arns:
        iam.Grant.add_to_principal(grantee=grantee, actions=[*actions], resource_arns=[*arns], conditions=conditions)
        review.accept_wildcards(
            grantee, arns, "A policy means whole prefixes; nobody knows the keys below them before."
        )


def _bucket_arn(bucket: str) -> str:
    return f"arn:{Aws.PARTITION}:s3:::{bucket}"


def _bucket_arns(buckets: Iterable[str]) -> list[str]:
    return [_bucket_arn(bucket) for bucket in buckets]


def _object_arns(scopes: Scopes) -> list[str]:
    return [f"{_bucket_arn(bucket)}/{literal(prefix)}*" for bucket, prefixes in scopes.items() for prefix in prefixes]


def _arns(sources: Iterable[RecordSource]) -> list[str]:
    return sorted({_table_arn(source) for source in sources})


def _table_arn(source: RecordSource, below: str = "") -> str:
    region = source.elsewhere.region if source.elsewhere else Aws.REGION
    return f"arn:{Aws.PARTITION}:dynamodb:{region}:{Aws.ACCOUNT_ID}:table/{source.table}{below}"
