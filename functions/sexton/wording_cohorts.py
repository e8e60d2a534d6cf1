"""What a policy says of cohorts, in words."""

from __future__ import annotations

from collections.abc import Iterator

from sexton.policy import Policy

NAMED = 10  # canaries that a sentence names


def sentences(policy: Policy) -> Iterator[str]:
    """Whose items are, for whom the policy enforces, and what becomes of a cohort of which all is due."""
    if policy.cohort is None:
        return
    if isinstance(policy.cohort, str):
        yield f"By the pattern {policy.cohort} a key tells whose an item is."
    else:
        part = f"By the pattern {policy.cohort.pattern} the" if policy.cohort.pattern else "The"
        yield f"{part} attribute {policy.cohort.attribute} tells whose a record is."
    if policy.canary:
        yield f"Does so for {_listed(policy.canary.cohorts)} alone; what is due of all others is only reported."
    if policy.limits.empty_cohort:
        yield "May remove all that there is of somebody."
    elif policy.mode == "enforce":
        yield "A plan of all that was found of somebody waits for a person too."


def _listed(names: tuple[str, ...]) -> str:
    """The first few, and how many more."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"
