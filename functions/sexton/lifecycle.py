"""Whether a plain S3 Lifecycle rule would do what a policy does, for nothing; and what would differ all the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from sexton.item import fits_xml
from sexton.key_date import TagDate
from sexton.policy import Policy
from sexton.retain import DAY, Retain
from sexton.selection import Include
from sexton.source import S3Source

MAX_RULES = 1000  # of one bucket's configuration
MAX_FILTER_SIZE = 50 * 2**40  # bytes: the most that a size filter can name, and that an object can have

# What a rule has a form for. Whatever else a policy says, now or in a later version, is an obstacle.
_SOURCE_FIELDS = frozenset(
    {"kind", "bucket", "account", "prefixes", "raw_prefix", "include", "versions", "keep_latest", "purge_markers"}
)
_INCLUDE_FIELDS = frozenset({"min_size", "max_size", "tags"})
MOST_KEPT = 100  # noncurrent versions that a rule can keep

DIFFERENCES = (
    "It removes without a plan, a report, an approval or limits, and leaves no record of what it removed or why.",
    "It begins within a day of being set, on every object that is old enough, and goes on for all that come later.",
    "It counts whole days and rounds up to the next midnight UTC, and S3 can take longer, without a charge.",
    "It cannot be halted at a point, held for some prefixes, or taken back; disabling it stops what is not yet done.",
    "Setting it replaces all Lifecycle rules of the bucket: add it to those that are there.",
)


@dataclass(frozen=True, slots=True)
class LifecycleRules:
    """Rules that would remove what the policy removes, one for each prefix, and what would differ.

    An incomplete upload, a noncurrent version and a current object each have an action of their own.
    """

    rules: tuple[dict[str, object], ...]
    differences: tuple[str, ...]

    def to_json(self) -> str:
        """The configuration as `aws s3api put-bucket-lifecycle-configuration` takes it, in ASCII."""
        return json.dumps({"Rules": self.rules}, indent=2)


@dataclass(frozen=True, slots=True)
class NoLifecycleRule:
    """Why no Lifecycle rule does what the policy does: each reason alone is enough."""

    reasons: tuple[str, ...]


def rule_for(policy: Policy) -> LifecycleRules | NoLifecycleRule:
    """The Lifecycle rules that would do for free what the policy does, or why there are none."""
    if not policy.of_bucket:
        return NoLifecycleRule(
            ("the policy is about a table: DynamoDB's TTL removes by a timestamp, without a record",)
        )
    reasons = tuple(_obstacles(policy))
    if reasons:
        return NoLifecycleRule(reasons)
    prefixes = policy.s3.prefixes
    names = [policy.id] if len(prefixes) == 1 else [f"{policy.id}-{number}" for number in range(1, len(prefixes) + 1)]
    rules = tuple(_rule(name, prefix, policy) for name, prefix in zip(names, prefixes, strict=True))
    return LifecycleRules(rules, tuple(_differences(policy)))


def _obstacles(policy: Policy) -> Iterator[str]:
    if policy.mode != "enforce":
        yield "mode is report: the policy removes nothing, and a Lifecycle rule would"
    if policy.approval == "always":
        yield "approval is always: a person looks at every run, and nobody looks at a Lifecycle rule's"
    if policy.canary:
        yield "canary: a Lifecycle rule begins with everybody"
    elif policy.cohort and not policy.limits.empty_cohort:
        yield "cohort: a Lifecycle rule empties whom it may, and asks nobody (limits.empty_cohort is not true)"
    if policy.age_from != "last_modified":
        place = "tag" if isinstance(policy.age_from, TagDate) else "key"
        yield f"age_from is a date in the {place}: a Lifecycle rule counts from the last modification only"
    if not _whole_days(policy.retain):
        yield f"retain {policy.retain} is not a number of whole days: a Lifecycle rule has no months, years or hours"
    yield from _source_obstacles(policy)


def _source_obstacles(policy: Policy) -> Iterator[str]:
    source = policy.s3
    given = source.model_dump(exclude_defaults=True)
    for name in sorted(given.keys() - _SOURCE_FIELDS):
        yield f"source.{name}: a Lifecycle rule has no form for it"
    for name in sorted(given.get("include", {}).keys() - _INCLUDE_FIELDS):
        yield f"source.include.{name}: a Lifecycle rule selects by prefix, size and tags, not by what a key looks like"
    if source.keep_latest > MOST_KEPT:
        yield f"source.keep_latest is more than the {MOST_KEPT} versions that a Lifecycle rule can keep"
    if source.purge_markers and set(given.get("include", {})) & _INCLUDE_FIELDS:
        yield "source.purge_markers: a Lifecycle rule for delete markers has no sizes and no tags"
    if (source.include.min_size or 0) > MAX_FILTER_SIZE:
        yield f"source.include.min_size is more than the {MAX_FILTER_SIZE} bytes that a Lifecycle rule can name"
    if len(source.prefixes) > MAX_RULES:
        yield f"{len(source.prefixes)} prefixes take as many rules, and a bucket has at most {MAX_RULES}"
    if not all(fits_xml(prefix) for prefix in source.prefixes):
        yield "a prefix has characters that XML cannot carry, and a Lifecycle configuration is XML"


def _whole_days(retain: Retain) -> bool:
    return not retain.months and not retain.rest % DAY and retain.rest >= DAY


def _rule(name: str, prefix: str, policy: Policy) -> dict[str, object]:
    return {
        "ID": name,
        "Status": "Enabled",
        "Filter": _filter(prefix, policy.s3.include),
        **_actions(policy.s3, policy.retain.rest // DAY),
    }


def _actions(source: S3Source, days: int) -> dict[str, object]:
    if source.kind == "s3_uploads":
        return {"AbortIncompleteMultipartUpload": {"DaysAfterInitiation": days}}
    if source.versions == "current":
        return {"Expiration": {"Days": days}}
    expiration: dict[str, object] = {"NoncurrentDays": days}
    if source.keep_latest:
        expiration["NewerNoncurrentVersions"] = source.keep_latest
    markers = {"Expiration": {"ExpiredObjectDeleteMarker": True}} if source.purge_markers else {}
    return {"NoncurrentVersionExpiration": expiration, **markers}


def _filter(prefix: str, include: Include) -> dict[str, object]:
    """S3's sizes are exclusive, ours inclusive; one predicate stands alone, several stand in `And`."""
    found: dict[str, object] = {"Prefix": prefix}
    if include.min_size:
        found["ObjectSizeGreaterThan"] = include.min_size - 1
    if include.max_size is not None and include.max_size < MAX_FILTER_SIZE:
        found["ObjectSizeLessThan"] = include.max_size + 1
    if include.tags:
        found["Tags"] = [{"Key": name, "Value": value} for name, value in sorted(include.tags.items())]
    return found if len(found) == 1 else {"And": found}


def _differences(policy: Policy) -> Iterator[str]:
    yield from DIFFERENCES
    if policy.recovery == "versioning":
        yield (
            "On a versioned bucket it places delete markers, as this policy does; noncurrent versions stay until a"
            " NoncurrentVersionExpiration rule, or a policy that purges, removes them."
        )
    if policy.s3.versions == "noncurrent":
        kept = "" if policy.s3.purge_markers else ", and noncurrent delete markers"
        yield f"It removes noncurrent versions named null too{kept}, which this policy keeps."
    if policy.s3.purge_markers:
        yield "It removes a delete marker as soon as nothing lies behind it, however young the marker is."
