"""Why a complete plan waits for a person."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

from sexton.policy import Policy
from sexton.run import Run

PLAN_TTL = timedelta(days=7)  # for how long a complete plan may wait: then it is invalidated, and a new run plans anew


def reasons_to_wait(policy: Policy, run: Run, approved_versions: Collection[str]) -> tuple[str, ...]:
    """Every reason, as people read it; empty when the run may go on by itself.

    Limits are judged on the whole plan and never stop a report, which only shows them.
    """
    limits = policy.limits
    reasons = []
    if run.planned > limits.max_items:
        reasons.append(f"too_many_items: {run.planned} planned, limits.max_items is {limits.max_items}")
    if limits.max_share is not None and run.planned > limits.max_share * run.scanned_total:
        share = run.planned / run.scanned_total
        reasons.append(f"too_large_share: {share:.1%} of what was scanned, limits.max_share is {limits.max_share:.1%}")
    if run.scanned_total == 0 and not policy.source.shows_only_due:
        where = "under the policy's prefixes; are they spelled right?" if policy.of_bucket else "in the table"
        reasons.append(f"empty_scope: nothing was found {where}")
    if policy.approval == "always":
        reasons.append("approval: the policy asks for approval of every run")
    elif policy.approval == "first" and run.policy_version not in approved_versions:
        reasons.append("approval: the first enforcing run of this policy version")
    return tuple(reasons)
