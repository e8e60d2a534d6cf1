"""The bucket's own Lifecycle rules beside a policy: which of them remove what the policy is about, and when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from sexton.policy import Policy

MONTH = timedelta(days=30)  # about; a rule counts days, a policy may count months


@dataclass(frozen=True, slots=True)
class LifecycleRule:
    """One enabled rule of a bucket. None: it does not do that. `narrowed`: by tags or sizes too."""

    id: str
    prefix: str = ""
    narrowed: bool = False
    expires_after: int | None = None  # days; 0 where it names a date
    noncurrent_after: int | None = None  # days
    aborts_after: int | None = None  # days
    removes_markers: bool = False

    def touches(self, policy: Policy) -> bool:
        """Whether some key could be under its prefix and the policy's."""
        return any(prefix.startswith(self.prefix) or self.prefix.startswith(prefix) for prefix in policy.s3.prefixes)


def overlaps(policy: Policy, rules: Sequence[LifecycleRule]) -> Iterator[str]:
    """A sentence for each rule that removes what the policy removes."""
    for rule in rules:
        days = _days(policy, rule)
        if days is None or not rule.touches(policy):
            continue
        which = " of what its tags or sizes select" if rule.narrowed else ""
        when = f"after {days} days" if days else "at a date, or as soon as it finds them"
        sooner = timedelta(days=days) < about(policy)
        effect = "sooner than the policy would, and without a record" if sooner else "beside the policy"
        yield f"rule {rule.id!r} removes the same under {rule.prefix!r}{which} {when}, {effect}"


def taken_back_within(policy: Policy, rules: Sequence[LifecycleRule]) -> int | None:
    """After how many days a rule removes the versions that would take a deletion back; None where none does."""
    if policy.recovery != "versioning":
        return None
    ends = (rule.noncurrent_after for rule in rules if rule.touches(policy))
    return min((days for days in ends if days is not None), default=None)


def about(policy: Policy) -> timedelta:
    """About how long the policy keeps things."""
    return policy.retain.months * MONTH + policy.retain.rest


def _days(policy: Policy, rule: LifecycleRule) -> int | None:
    """After how many days the rule removes items of the policy's kind."""
    if policy.s3.kind == "s3_uploads":
        return rule.aborts_after
    if policy.s3.versions == "current":
        return rule.expires_after
    if rule.noncurrent_after is None and policy.s3.purge_markers and rule.removes_markers:
        return 0
    return rule.noncurrent_after
