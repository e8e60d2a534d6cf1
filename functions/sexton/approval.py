"""Why a complete plan waits for a person."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta

from sexton.cohort_counts import CohortCounts
from sexton.escaping import escaped
from sexton.policy import Policy
from sexton.run import Run

NAMED = 5  # cohorts that a reason names
LONGEST_NAMED = 60  # characters of each

PLAN_TTL = timedelta(days=7)  # for how long a complete plan may wait: then it is invalidated, and a new run plans anew


def reasons_to_wait(
    policy: Policy, run: Run, approved_versions: Collection[str], counts: CohortCounts | None = None
) -> tuple[str, ...]:
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
    if counts:
        reasons.extend(_reasons_of_cohorts(policy, counts))
    elif policy.cohort:
        reasons.append("cohorts_lost: the counts by cohort are gone, or not what was written")
    if policy.approval == "always":
        reasons.append("approval: the policy asks for approval of every run")
    elif policy.approval == "first" and run.policy_version not in approved_versions:
        reasons.append("approval: the first enforcing run of this policy version")
    return tuple(reasons)


def _reasons_of_cohorts(policy: Policy, counts: CohortCounts) -> list[str]:
    """What the counts by cohort say against going on; a query's tell only of what is due."""
    reasons: list[str] = []
    if counts.nameless:
        reasons.append("unread_cohorts: no item's cohort could be told; does the policy's cohort fit what is there?")
    missing = counts.not_found()
    if missing and len(missing) == len(counts.canaries) and not policy.source.shows_only_due:
        reasons.append(f"empty_canary: nothing was found of {_some(missing)}; are the canaries spelled right?")
    if policy.limits.empty_cohort:
        return reasons
    emptied = counts.emptied()
    if emptied:
        these = f"all that was scanned of {len(emptied)} cohort{'' if len(emptied) == 1 else 's'} is planned"
        reasons.append(f"empty_cohort: {these}: {_some(emptied)}; limits.empty_cohort would permit it")
    if counts.others.planned:
        beyond = f"{counts.others.planned} planned items are of cohorts beyond the {counts.most} that are counted apart"
        reasons.append(f"uncounted_cohorts: {beyond}; whether one of them is emptied cannot be told")
    return reasons


def _some(names: Sequence[str]) -> str:
    """The first few names, fit to be shown, and how many more there are."""
    shown = ", ".join(_short(escaped(name)) for name in names[:NAMED])
    return f"{shown} and {len(names) - NAMED} more" if len(names) > NAMED else shown


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_NAMED else f"{text[:LONGEST_NAMED]}..."
