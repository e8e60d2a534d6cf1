"""What people see of policies: what each means, whether a Lifecycle rule would do, what other accounts must allow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sexton.bucket_policy import BucketPolicy
from sexton.cli_output import facts
from sexton.lifecycle import LifecycleRules, rule_for
from sexton.policy import Policy
from sexton.table_role import TableRole
from sexton.wording import in_words

if TYPE_CHECKING:
    from rich.console import RenderableType


def checked(found: Sequence[Policy]) -> Iterator[RenderableType]:
    """Each policy with its version and what it means, and what S3 would do of it for nothing."""
    for policy in found:
        identity = (("policy", policy.id), ("version", policy.version), ("owner", policy.owner))
        yield facts((*identity, ("description", policy.description)))
        yield facts(("-", sentence) for sentence in in_words(policy))
        yield from _lifecycle(policy)
        yield ""


def _lifecycle(policy: Policy) -> Iterator[RenderableType]:
    found = rule_for(policy)
    if not isinstance(found, LifecycleRules):
        yield facts((("-", f"No S3 Lifecycle rule does the same: {'; '.join(found.reasons)}."),))
        return
    yield facts((("-", "An S3 Lifecycle rule would remove the same objects, for nothing:"),))
    yield found.to_json()
    yield facts((("-", "What would differ:"), *(("", difference) for difference in found.differences)))


def bucket_policies(found: Sequence[BucketPolicy]) -> Iterator[RenderableType]:
    """What the owner of each bucket adds to its policy."""
    for each in found:
        yield facts((("bucket", each.bucket), ("account", each.account)))
        yield each.to_json()
        yield ""


def table_roles(found: Sequence[TableRole]) -> Iterator[RenderableType]:
    """What the owner of each role makes: whom it trusts, what it may, and what besides where a table has a key."""
    for each in found:
        yield facts((("role", each.role_arn), ("account", each.account)))
        for name, what, policy in each.to_json():
            yield facts(((name, what),))
            yield policy
        yield ""
