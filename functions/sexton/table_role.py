"""What the owner of a table in another account must make: the role that a policy names, and whom it trusts with what.

It is made from the same lists that the stack's own rights are made from. By the name of its session the role tells
the functions apart, so that there, too, only the worker may remove.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from sexton.elsewhere import Elsewhere, sessions_of
from sexton.grants import FUNCTIONS, READ_TABLE_KEY, WRITE_TABLE_KEY, Grant, of_table
from sexton.policy import Policy
from sexton.record_changes import CHANGING, of_policy
from sexton.record_source import RecordSource

Statement = Mapping[str, object]
VERSION = "2012-10-17"  # of IAM's language
Use = tuple[Elsewhere, RecordSource, Policy]


class TableRole(BaseModel):
    """A role of another account.

    `trust` is its trust policy, `permissions` what it may do; `with_a_key` are the statements besides where a table is
    encrypted with a key of its owner's, in whose ARN the key's id is to be filled in.
    """

    model_config = ConfigDict(frozen=True)

    role_arn: str
    account: str
    trust: dict[str, object]
    permissions: dict[str, object]
    with_a_key: tuple[dict[str, object], ...]

    def to_json(self) -> tuple[tuple[str, str, str], ...]:
        """Each of the three with its name and what it is for, as IAM takes it, in ASCII."""
        shown: tuple[tuple[str, str, object], ...] = (
            ("trust policy", "who may assume it", self.trust),
            ("permissions", "what it may", self.permissions),
            ("with a key", "statements to add where the table has a key of yours", self.with_a_key),
        )
        return tuple((name, what, json.dumps(policy, indent=2)) for name, what, policy in shown)


def for_other_accounts(policies: Sequence[Policy], roles: Mapping[str, str]) -> tuple[TableRole, ...]:
    """One for each role that a policy names; `roles` has the ARN of each function's own role."""
    by_role: dict[str, list[Use]] = defaultdict(list)
    for policy in policies:
        source = policy.source
        if isinstance(source, RecordSource) and source.elsewhere and source.elsewhere.role_arn:
            by_role[source.elsewhere.role_arn].append((source.elsewhere, source, policy))
    return tuple(_role(arn, by_role[arn], roles) for arn in sorted(by_role))


def _role(arn: str, uses: Sequence[Use], roles: Mapping[str, str]) -> TableRole:
    grants = [each for use in uses for each in _grants(*use)]
    return TableRole(
        role_arn=arn,
        account=arn.split(":")[4],
        trust={"Version": VERSION, "Statement": list(_trusting(uses, grants, roles))},
        permissions={"Version": VERSION, "Statement": list(_permitting(grants))},
        with_a_key=tuple(_using_keys(uses, grants)),
    )


def _grants(place: Elsewhere, source: RecordSource, policy: Policy) -> Iterator[Grant]:
    return of_table(_table(place, source), source, policy.mode == "enforce", of_policy(policy))


def _table(place: Elsewhere, source: RecordSource) -> str:
    return f"arn:{place.partition}:dynamodb:{place.region}:{place.account}:table/{source.table}"


def _trusting(uses: Iterable[Use], grants: Iterable[Grant], roles: Mapping[str, str]) -> Iterator[Statement]:
    """Each function under the names of its own sessions; with the external ids, if all policies have one."""
    ids = {place.external_id for place, _, _ in uses}
    asked = {} if None in ids else {"StringEquals": {"sts:ExternalId": sorted(filter(None, ids))}}
    needing = {grant.function for grant in grants}
    for function in (each for each in FUNCTIONS if each in needing):
        yield {
            "Sid": f"Sexton{function.capitalize()}",
            "Effect": "Allow",
            "Principal": {"AWS": roles[function]},
            "Action": "sts:AssumeRole",
            "Condition": {**asked, "StringLike": {"sts:RoleSessionName": sessions_of(function)}},
        }


def _permitting(grants: Iterable[Grant]) -> Iterator[Statement]:
    """Each action on its tables, for the sessions of the functions that need it."""
    resources: dict[str, set[str]] = defaultdict(set)
    functions: dict[str, set[str]] = defaultdict(set)
    for grant in grants:
        for action in grant.actions:
            resources[action].add(grant.resource)
            functions[action].add(grant.function)
    for action in sorted(resources):
        yield {
            "Sid": f"Sexton{action.partition(':')[2]}",
            "Effect": "Allow",
            "Action": action,
            "Resource": sorted(resources[action]),
            "Condition": {"StringLike": _sessions(functions[action])},
        }


def _sessions(functions: Iterable[str]) -> Mapping[str, object]:
    """`aws:userid` of a role's session is the role's id and, behind a colon, the session's name."""
    return {"aws:userid": [f"*:{sessions_of(function)}" for function in FUNCTIONS if function in set(functions)]}


def _using_keys(uses: Iterable[Use], grants: Sequence[Grant]) -> Iterator[dict[str, object]]:
    """Through DynamoDB of each region only."""
    needing = {grant.function for grant in grants}
    writers = {grant.function for grant in grants if {*grant.actions} & {*CHANGING}}
    for place in {place.region: place for place, _, _ in uses}.values():
        for writing in (False, True):
            functions = writers if writing else needing - writers
            if functions:
                through = {"kms:ViaService": f"dynamodb.{place.region}.amazonaws.com"}
                yield {
                    "Sid": f"Sexton{'Write' if writing else 'Read'}Key{place.region.replace('-', '')}",
                    "Effect": "Allow",
                    "Action": [*(WRITE_TABLE_KEY if writing else READ_TABLE_KEY)],
                    "Resource": f"arn:{place.partition}:kms:{place.region}:{place.account}:key/KEY-OF-THE-TABLE",
                    "Condition": {"StringEquals": through, "StringLike": _sessions(functions)},
                }
