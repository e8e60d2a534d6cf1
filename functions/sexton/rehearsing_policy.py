"""Which policy a rehearsal may use: one that is made for it, so that it can never meet anybody's objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from sexton.errors import NotAllowed, UnknownPolicy
from sexton.policy import Policy
from sexton.selection import Exclude, Include

LONGEST_RETAIN = timedelta(minutes=1)  # every rehearsal waits for it
MOST_ATTEMPTS = 5  # each but the first is waited for, and twice as long as the one before
MOST_DECOYS = 100

EXAMPLE = """\
id: rehearsal
description: For sexton rehearse alone. Its prefix holds decoys and nothing else.
owner: whoever rehearses
schedule: cron(0 3 1 1 ? 2199)
mode: enforce
approval: none
source:
  kind: s3
  bucket: sexton-rehearsals
  prefixes: [rehearsals/]
retain: PT1S
short_retention: true
recovery: versioning
limits:
  max_items: 1000
  max_attempts: 3
  max_age: PT15M
slo: PT30M
job_size: 10
"""


class NotRehearsed(NotAllowed):
    """Rehearsing does not begin, and nothing was touched."""

    hint = "docs/rehearsing.md says what a rehearsal needs, and why"


def choose(deployed: Sequence[Policy], named: str | None) -> Policy:
    """The policy to rehearse with: the one that is named, else the only one that fits.

    Raises UnknownPolicy, and NotRehearsed with a policy to write.
    """
    if named is not None:
        found = next((policy for policy in deployed if policy.id == named), None)
        if found is None:
            known = ", ".join(policy.id for policy in deployed) or "none"
            raise UnknownPolicy(f"no policy {named!r} is deployed; deployed are: {known}")
        refuse_unfit(found)
        return found
    fitting = [policy for policy in deployed if not any(unfit(policy))]
    if len(fitting) != 1:
        which = ", ".join(policy.id for policy in fitting)
        what = f"several policies are made for rehearsing ({which}): name one" if fitting else _none(deployed)
        raise NotRehearsed("unfit_policy", what)
    return fitting[0]


def refuse_unfit(policy: Policy) -> None:
    """Raise NotRehearsed with all that a policy lacks, and one that is ready to be written."""
    lacking = list(unfit(policy))
    if lacking:
        raise NotRehearsed(
            "unfit_policy", f"{policy.id} is not made for rehearsing: it needs {'; '.join(lacking)}{_one()}"
        )


def unfit(policy: Policy) -> Iterator[str]:
    """What a policy would have to say, and does not."""
    if not policy.of_bucket:
        yield "a bucket as its source"
        return
    source, limits = policy.s3, policy.limits
    rules = {
        "mode: enforce": policy.mode == "enforce",
        "approval: none, and one approver": policy.approval == "none" and policy.approvers == 1,
        "action: expire, of current objects": policy.action == "expire",
        "recovery: versioning": policy.recovery == "versioning",
        "short_retention: true": policy.short_retention,
        "retain: PT1M at most": _short(policy),
        "age_from: last_modified": policy.age_from == "last_modified",
        "one prefix, which ends in '/'": len(source.prefixes) == 1 and source.prefixes[0].endswith("/"),
        "no include and no exclude": (source.include, source.exclude) == (Include(), Exclude()),
        "a bucket of the stack's own account": source.account is None,
        f"limits.max_items: {MOST_DECOYS} or more": limits.max_items >= MOST_DECOYS,
        f"limits.max_attempts: {MOST_ATTEMPTS} at most": limits.max_attempts <= MOST_ATTEMPTS,
        "no cohort and no canary": policy.cohort is None,
        "no limits.max_share under 1": limits.max_share in (None, 1.0),
    }
    yield from (what for what, holds in rules.items() if not holds)


def _short(policy: Policy) -> bool:
    return policy.retain.under_a_day and policy.retain.rest <= LONGEST_RETAIN


def _none(deployed: Sequence[Policy]) -> str:
    known = ", ".join(policy.id for policy in deployed) or "none"
    return f"none of the deployed policies is made for rehearsing (deployed: {known}){_one()}"


def _one() -> str:
    return f".\nOne that is, to be deployed beside the others; its bucket must be versioned:\n\n{EXAMPLE}"
