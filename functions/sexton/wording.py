"""A policy in words, for whoever must say that it is the right one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

from pydantic import BaseModel, ConfigDict

from sexton import wording_calls, wording_cohorts, wording_records
from sexton.endpoint_action import HttpAction
from sexton.key_date import KeyDate, TagDate
from sexton.lifecycle import LifecycleRules, rule_for
from sexton.policy import Policy
from sexton.record_source import DatePartitions, RecordSource
from sexton.retain import Retain
from sexton.source import S3Source

HOLDS = {
    "first": "The first enforcing run of each version of the policy waits for a person's approval.",
    "always": "Every enforcing run waits for a person's approval.",
    "none": "No run waits for approval, unless it passes a limit.",
}
TAKES_BACK = {
    "versioning": "A {noun} is taken back from the bucket's versions.",
    "archive": "A {noun} is taken back from the archive in evidence.",
    "backup": "A {noun} is taken back from a backup.",
    "none": "A {noun} cannot be taken back.",
}


class Described(BaseModel):
    """A policy for scripts: what identifies it, and what it means."""

    model_config = ConfigDict(frozen=True)

    id: str
    version: str
    description: str
    owner: str
    schedule: str
    timezone: str
    mode: str
    approval: str
    bucket: str  # empty where the policy is about a table
    table: str
    account: str | None
    prefixes: tuple[str, ...]
    retain: str
    means: tuple[str, ...]
    lifecycle_rules: tuple[dict[str, object], ...]
    lifecycle: tuple[str, ...]

    @staticmethod
    def of(policy: Policy) -> Described:
        """Describe one policy. `lifecycle`: what would differ under the rules, or why there are none."""
        rule = rule_for(policy)
        return Described(
            id=policy.id,
            version=policy.version,
            description=policy.description,
            owner=policy.owner,
            schedule=policy.schedule,
            timezone=policy.timezone,
            mode=policy.mode,
            approval=policy.approval,
            bucket=policy.s3.bucket if policy.of_bucket else "",
            table=policy.source.table if isinstance(policy.source, RecordSource) else "",
            account=policy.s3.account if policy.of_bucket else None,
            prefixes=policy.s3.prefixes if policy.of_bucket else (),
            retain=str(policy.retain),
            means=in_words(policy),
            lifecycle_rules=rule.rules if isinstance(rule, LifecycleRules) else (),
            lifecycle=rule.differences if isinstance(rule, LifecycleRules) else rule.reasons,
        )


def in_words(policy: Policy) -> tuple[str, ...]:
    """What the policy means, a sentence each: what goes, when, and within which limits."""
    return tuple(_sentences(policy))


def _sentences(policy: Policy) -> Iterator[str]:
    verb = wording_calls.verb(policy) if policy.does == "http" else wording_records.verb(policy)
    if isinstance(policy.source, RecordSource):
        yield f"{verb} {_which_records(policy.source)} {_age(policy)}."
        yield from _of_records(policy, policy.source)
    else:
        yield f"{verb} {_what(policy.source)} {_age(policy)}."
        yield from _of_objects(policy.source)
    yield from wording_cohorts.sentences(policy)
    if policy.schedule:
        yield f"Runs at {policy.schedule} in the zone {policy.timezone}; age is counted from the scheduled time."
    limits, things = policy.limits, "objects" if policy.of_bucket else "records"
    if policy.mode == "enforce":
        yield HOLDS[policy.approval]
        share = f", or more than {limits.max_share:.1%} of what was looked at" if limits.max_share is not None else ""
        empty = "" if policy.source.shows_only_due else ", or of an empty scope,"
        yield f"A plan of more than {limits.max_items:,} {things}{share}{empty} waits for a person too."
        yield TAKES_BACK[policy.recovery or "none"].format(noun=wording_records.noun(policy))
    yield (
        f"Jobs of up to {policy.job_size:,} {things}; each is tried {limits.max_attempts} times within"
        f" {length(limits.max_age)}, then it is dead. Planning may take {length(limits.max_planning)};"
        f" the whole should be done in {length(policy.slo)}."
    )


def _of_objects(source: S3Source) -> Iterator[str]:
    if source.account:
        yield f"The bucket must belong to account {source.account}, which allows it by the bucket's policy."
    spared = _spared(source)
    if spared:
        yield f"Spares {spared}."
    yield from _of_versions(source)


def _which_records(source: RecordSource) -> str:
    ways = [f"{name} is {_any(map(str, wanted))}" for name, wanted in sorted(source.filter.items())]
    which = f" whose {' and '.join(ways)}" if ways else ""
    return f"each record of table {source.table}{which}"


def _of_records(policy: Policy, source: RecordSource) -> Iterator[str]:
    where = f"index {source.index}" if source.index else "the table's own key"
    if source.scan:
        yield f"Finds them by a scan of the whole table, {_counted(source.scan.segments, 'segment')} at once."
    elif isinstance(source.partitions, DatePartitions):
        yield f"Finds them by {where}, in each partition {source.partitions.date} from {source.partitions.since} on."
    else:
        yield f"Finds them by {where}, in the partitions {_any(source.partitions or ())}."
    version = f", or its {source.version_attribute}," if source.version_attribute else ""
    judged = f"{source.timestamp.attribute}{version}"
    if isinstance(policy.action, HttpAction):
        yield from wording_calls.sentences(policy.action, judged)
    else:
        yield from wording_records.together(policy, judged)
    yield f"Planning reads {source.read_capacity:,} capacity units a second at most."


def _what(source: S3Source) -> str:
    include = source.include
    ways = [f"ends in {_any(include.suffixes)}"] if include.suffixes else []
    ways += [f"matches {_any(include.globs)}"] if include.globs else []
    ways += [f"has at least {include.min_size:,} bytes"] if include.min_size is not None else []
    ways += [f"has at most {include.max_size:,} bytes"] if include.max_size is not None else []
    ways += [f"is tagged {' and '.join(_tags(include.tags))}"] if include.tags else []
    which = f" that {' and '.join(ways)}" if ways else ""
    return f"each {_thing(source)} under {_any(f's3://{source.bucket}/{prefix}' for prefix in source.prefixes)}{which}"


def _thing(source: S3Source) -> str:
    if source.kind == "s3_uploads":
        return "incomplete multipart upload"
    return "noncurrent version" if source.versions == "noncurrent" else "object"


def _of_versions(source: S3Source) -> Iterator[str]:
    if source.keep_latest:
        yield f"Keeps the {_counted(source.keep_latest, 'newest noncurrent version')} of each key, whatever the age."
    if source.purge_markers:
        yield "Removes delete markers too, once they hide nothing any more."


def _tags(tags: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in sorted(tags.items())]


def _age(policy: Policy) -> str:
    age_from, retained = policy.age_from, _retained(policy.retain)
    if isinstance(policy.source, RecordSource):
        stamp = policy.source.timestamp
        return f"once its {stamp.attribute} ({stamp.format}) is more than {retained} past"
    if isinstance(age_from, KeyDate):
        return f"once the date in its key ({age_from.key_date}) is more than {retained} past"
    if isinstance(age_from, TagDate):
        return f"once the date in its tag {age_from.tag} ({age_from.tag_date}) is more than {retained} past"
    if policy.s3.versions == "noncurrent":
        return f"once it has been noncurrent for more than {retained}"
    begun = "begun" if policy.s3.kind == "s3_uploads" else "last modified"
    return f"once it was {begun} more than {retained} ago"


def _spared(source: S3Source) -> str:
    exclude = source.exclude
    ways = [f"what lies under {_any(exclude.prefixes)}"] if exclude.prefixes else []
    ways += [f"what ends in {_any(exclude.suffixes)}"] if exclude.suffixes else []
    ways += [f"what matches {_any(exclude.globs)}"] if exclude.globs else []
    ways += [f"what is tagged {_any(_tags(exclude.tags))}"] if exclude.tags else []
    return ", and ".join(ways)


def _retained(retain: Retain) -> str:
    years, months = divmod(retain.months, 12)
    parts = [_counted(years, "year"), _counted(months, "month"), length(retain.rest) if retain.rest else ""]
    return " and ".join(filter(None, parts))


def length(of: timedelta) -> str:
    """A length of time in words: `1 day and 12 hours`."""
    minutes, seconds = divmod(of.seconds, 60)
    parts = (
        _counted(of.days, "day"),
        _counted(minutes // 60, "hour"),
        _counted(minutes % 60, "minute"),
        _counted(seconds, "second"),
    )
    return " and ".join(filter(None, parts))


def _counted(number: int, unit: str) -> str:
    return f"{number:,} {unit}{'' if number == 1 else 's'}" if number else ""


def _any(texts: Sequence[str] | Iterator[str]) -> str:
    return " or ".join(texts)
