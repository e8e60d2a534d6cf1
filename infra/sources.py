"""The sources: the buckets that the policies name. They belong to others; here are only the rights on them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from aws_cdk import Aws
from aws_cdk import aws_iam as iam
from sexton.policy import Policy

from infra import review


class Sources:
    """Rights on the policies' buckets, each within the policies' prefixes."""

    def __init__(self, policies: Sequence[Policy]) -> None:
        self._scopes = _scopes(policies)
        self._enforced = _scopes(p for p in policies if p.mode == "enforce")

    def grant_plan(self, discovery: iam.IRole) -> None:
        """List what may be planned, and tell whether the bucket is versioned. Nothing of it can delete."""
        self._grant_list(discovery)
        _grant(discovery, ["s3:GetBucketVersioning"], [_bucket_arn(bucket) for bucket in self._scopes])

    def grant_observe(self, observer: iam.IRole) -> None:
        """Look again at planned objects: list, or one at a time."""
        self._grant_list(observer)
        _grant(observer, ["s3:GetObject"], _object_arns(self._scopes))

    def grant_remove(self, worker: iam.IRole) -> None:
        """Delete, only within the prefixes of policies that enforce."""
        _grant(worker, ["s3:DeleteObject"], _object_arns(self._enforced))

    def _grant_list(self, grantee: iam.IRole) -> None:
        for bucket, prefixes in self._scopes.items():
            within = [literal(prefix) + "*" for prefix in prefixes]
            _grant(
                grantee,
                ["s3:ListBucket"],
                [_bucket_arn(bucket)],
                {"StringLike": {"s3:prefix": within}},
            )


def literal(text: str) -> str:
    """Text in which IAM reads no wildcard and no variable."""
    return "".join(f"${{{c}}}" if c in "*?$" else c for c in text)


def _scopes(policies: Iterable[Policy]) -> dict[str, list[str]]:
    scopes: dict[str, set[str]] = {}
    for policy in policies:
        scopes.setdefault(policy.source.bucket, set()).update(policy.source.prefixes)
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


def _object_arns(scopes: dict[str, list[str]]) -> list[str]:
    return [f"{_bucket_arn(bucket)}/{literal(prefix)}*" for bucket, prefixes in scopes.items() for prefix in prefixes]
