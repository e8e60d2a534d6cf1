"""What the owner of a bucket in another account must allow the functions' roles: a bucket policy, by the policies.

A role's own rights come with the stack; across accounts S3 wants the owner's word as well. It is made from the same
list that the doctor asks IAM about.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from sexton.grants import EXAMPLE, FUNCTIONS, Grant, of_bucket
from sexton.policy import Policy

Statement = Mapping[str, object]
VERSION = "2012-10-17"  # of IAM's language: the one in which `${*}` is an asterisk
# To be filled in; a stack that is deployed knows them.
PLACEHOLDERS = {name: f"arn:aws:iam::ACCOUNT:role/ROLE-OF-{name.upper()}" for name in FUNCTIONS}


class BucketPolicy(BaseModel):
    """A bucket of another account, and the policy that it needs: its statements beside those that it has."""

    model_config = ConfigDict(frozen=True)

    bucket: str
    account: str
    policy: dict[str, object]

    def to_json(self) -> str:
        """The policy as `aws s3api put-bucket-policy` takes it, in ASCII."""
        return json.dumps(self.policy, indent=2)


@dataclass(frozen=True)
class _Allowed:
    """One action, and who may do it within what; `prefixes` is what a listing may ask for."""

    functions: frozenset[str]
    resources: tuple[str, ...]
    prefixes: tuple[str, ...]


def for_other_accounts(policies: Sequence[Policy], roles: Mapping[str, str]) -> tuple[BucketPolicy, ...]:
    """One for each bucket that a policy says is another account's; `roles` has the ARN of each function's role."""
    by_bucket: dict[tuple[str, str], list[Policy]] = defaultdict(list)
    for policy in policies:
        if policy.of_bucket and policy.s3.account is not None:
            by_bucket[policy.s3.bucket, policy.s3.account].append(policy)
    return tuple(
        BucketPolicy(bucket=bucket, account=account, policy={"Version": VERSION, "Statement": stated})
        for bucket, account in sorted(by_bucket)
        if (stated := statements(bucket, by_bucket[bucket, account], roles))
    )


def statements(bucket: str, policies: Sequence[Policy], roles: Mapping[str, str]) -> tuple[Statement, ...]:
    """The fewest statements that allow what the policies need on their bucket, and nothing beyond."""
    arn = f"arn:{roles[FUNCTIONS[0]].split(':')[1]}:s3:::{bucket}"
    actions: dict[_Allowed, list[str]] = defaultdict(list)
    for action, allowed in _allowed(grant for policy in policies for grant in of_bucket(arn, policy)):
        actions[allowed].append(action)
    return tuple(_statement(allowed, sorted(actions[allowed]), roles) for allowed in actions)


def _allowed(grants: Iterable[Grant]) -> Iterator[tuple[str, _Allowed]]:
    """Each action with all that it is allowed on, those of the bucket itself first."""
    who: dict[tuple[str, str, str | None], set[str]] = defaultdict(set)
    for grant in grants:
        prefix = grant.context.get("s3:prefix")
        for action in grant.actions:
            pattern = None if prefix is None else f"{literal(prefix)}*"
            who[action, _pattern(grant.resource), pattern].add(grant.function)
    together: dict[tuple[str, frozenset[str]], list[tuple[str, str | None]]] = defaultdict(list)
    for (action, resource, pattern), functions in who.items():
        together[action, frozenset(functions)].append((resource, pattern))
    for of in sorted(together, key=lambda of: ("/" in together[of][0][0], of[0], sorted(of[1]))):
        resources = {resource for resource, _ in together[of]}
        prefixes = {pattern for _, pattern in together[of] if pattern}
        yield of[0], _Allowed(of[1], tuple(sorted(resources)), tuple(sorted(prefixes)))


def _pattern(resource: str) -> str:
    """What an example stands for: every key below its prefix."""
    arn, slash, key = resource.partition("/")
    return f"{arn}/{literal(key.removesuffix(EXAMPLE))}*" if slash else arn


def _statement(allowed: _Allowed, actions: Sequence[str], roles: Mapping[str, str]) -> Statement:
    statement: dict[str, object] = {
        "Sid": f"Sexton{actions[0].partition(':')[2]}{''.join(sorted(map(str.capitalize, allowed.functions)))}",
        "Effect": "Allow",
        "Principal": {"AWS": [roles[name] for name in FUNCTIONS if name in allowed.functions]},
        "Action": actions,
        "Resource": allowed.resources,
    }
    if allowed.prefixes:
        statement["Condition"] = {"StringLike": {"s3:prefix": allowed.prefixes}}
    return statement


def literal(text: str) -> str:
    """Text in which IAM reads no wildcard and no variable."""
    return "".join(f"${{{c}}}" if c in "*?$" else c for c in text)
