"""A policy in words, for whoever must say that it is the right one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sexton.duration import to_text
from sexton.key_date import KeyDate
from sexton.policy import Policy
from sexton.source import S3Source

HOLDS = {
    "first": "The first enforcing run of each version of the policy waits for a person's approval.",
    "always": "Every enforcing run waits for a person's approval.",
    "none": "No run waits for approval, unless it passes a limit.",
}
TAKES_BACK = {
    "versioning": "A deletion is taken back from the bucket's versions.",
    "backup": "A deletion is taken back from a backup.",
    "none": "A deletion cannot be taken back.",
}


def in_words(policy: Policy) -> tuple[str, ...]:
    """What the policy means, a sentence each: what goes, when, and within which limits."""
    return tuple(_sentences(policy))


def _sentences(policy: Policy) -> Iterator[str]:
    verb = "Removes" if policy.mode == "enforce" else "Reports, and does not remove,"
    yield f"{verb} {_what(policy.source)} {_age(policy)}."
    spared = _spared(policy.source)
    if spared:
        yield f"Spares {spared}."
    if policy.schedule:
        yield f"Runs at {policy.schedule} in the zone {policy.timezone}; age is counted from the scheduled time."
    limits = policy.limits
    if policy.mode == "enforce":
        yield HOLDS[policy.approval]
        share = f", or more than {limits.max_share:.1%} of what was looked at" if limits.max_share is not None else ""
        yield f"A plan of more than {limits.max_items:,} objects{share}, or of an empty scope, waits for a person too."
        yield TAKES_BACK[policy.recovery or "none"]
    yield (
        f"Jobs of up to {policy.job_size:,} objects; each is tried {limits.max_attempts} times within"
        f" {to_text(limits.max_age)}, then it is dead. Planning may take {to_text(limits.max_planning)};"
        f" the whole should be done in {to_text(policy.slo)}."
    )


def _what(source: S3Source) -> str:
    include = source.include
    ways = [f"ends in {_any(include.suffixes)}"] if include.suffixes else []
    ways += [f"matches {_any(include.globs)}"] if include.globs else []
    ways += [f"has at least {include.min_size:,} bytes"] if include.min_size is not None else []
    ways += [f"has at most {include.max_size:,} bytes"] if include.max_size is not None else []
    which = f" that {' and '.join(ways)}" if ways else ""
    return f"each object under {_any(f's3://{source.bucket}/{prefix}' for prefix in source.prefixes)}{which}"


def _age(policy: Policy) -> str:
    if isinstance(policy.age_from, KeyDate):
        return f"once the date in its key ({policy.age_from.key_date}) is more than {policy.retain} past"
    return f"once it was last modified more than {policy.retain} ago"


def _spared(source: S3Source) -> str:
    exclude = source.exclude
    ways = [f"what lies under {_any(exclude.prefixes)}"] if exclude.prefixes else []
    ways += [f"what ends in {_any(exclude.suffixes)}"] if exclude.suffixes else []
    ways += [f"what matches {_any(exclude.globs)}"] if exclude.globs else []
    return ", and ".join(ways)


def _any(texts: Sequence[str] | Iterator[str]) -> str:
    return " or ".join(texts)
