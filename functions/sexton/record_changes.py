"""What changing records takes: the calls on a table that the worker may make, by what policies do there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from sexton.policy import Policy
from sexton.record_source import RecordSource

DELETE, UPDATE, PUT = "dynamodb:DeleteItem", "dynamodb:UpdateItem", "dynamodb:PutItem"
CHANGING = (DELETE, UPDATE, PUT)


def of_policy(policy: Policy) -> tuple[str, ...]:
    """By what a policy does: a call changes none, a mark updates, all else removes; what may be undone is put."""
    if policy.does == "http":
        return ()
    if policy.does == "mark":
        return (UPDATE,)
    return (DELETE, PUT) if policy.can_be_undone else (DELETE,)


def changes_by_table(policies: Iterable[Policy], arn: Callable[[RecordSource], str]) -> Mapping[str, frozenset[str]]:
    """The same of all policies of a table that enforce, by the table's ARN; a table without any has none."""
    found: dict[str, frozenset[str]] = {}
    for policy in policies:
        if isinstance(policy.source, RecordSource):
            table, changes = arn(policy.source), of_policy(policy) if policy.mode == "enforce" else ()
            found[table] = found.get(table, frozenset()).union(changes)
    return found
