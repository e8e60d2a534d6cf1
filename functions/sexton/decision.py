"""What is meant for an item: one pure judgement, with a reason for every way it can go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sexton import attributes
from sexton.action import Mark
from sexton.cohort import Canary, NameOf, name_of
from sexton.item import Item
from sexton.key_date import KeyDate, TagDate
from sexton.policy import Policy
from sexton.record_source import RecordSource

Action = Literal["remove", "keep", "ask"]
Reason = Literal[
    "expired",
    "younger",
    "outside_scope",
    "excluded",
    "not_selected",
    "unreadable_date",
    "unreadable",
    "unreadable_tags",
    "tags_needed",
    "current_version",
    "kept_latest",
    "null_version",
    "delete_marker",
    "placed",
    "nothing_behind",
    "report_only",
    "marked",
    "archived",
    "key_in_use",
]


@dataclass(frozen=True, slots=True)
class Decision:
    """Remove or keep, and why; or ask: it cannot be told before the item's tags are read.

    What came of it is an Outcome.
    """

    action: Action
    reason: Reason


EXPIRED = Decision("remove", "expired")
YOUNGER = Decision("keep", "younger")
OUTSIDE_SCOPE = Decision("keep", "outside_scope")
EXCLUDED = Decision("keep", "excluded")
NOT_SELECTED = Decision("keep", "not_selected")
UNREADABLE = Decision("keep", "unreadable")  # a record's timestamp, under the declared format
UNREADABLE_DATE = Decision("keep", "unreadable_date")
UNREADABLE_TAGS = Decision("keep", "unreadable_tags")
TAGS_NEEDED = Decision("ask", "tags_needed")
CURRENT_VERSION = Decision("keep", "current_version")
KEPT_LATEST = Decision("keep", "kept_latest")
NULL_VERSION = Decision("keep", "null_version")
DELETE_MARKER = Decision("keep", "delete_marker")
PLACED = Decision("remove", "placed")  # of an undo: a delete marker that the undone run placed
NOTHING_BEHIND = Decision("keep", "nothing_behind")  # of an undo: no object would come back
ARCHIVED = Decision("remove", "archived")  # of an undo: a record that the undone run archived
KEY_IN_USE = Decision("keep", "key_in_use")  # of an undo: another record has its key
MARKED = Decision("keep", "marked")  # it has had its time, and bears the mark already
REPORT_ONLY = Decision("keep", "report_only")  # it had its time, and is of no cohort that the canary names

Judge = Callable[[Item], Decision]
DateOf = Callable[[Item], datetime | None]


def decide(policy: Policy, item: Item, cutoff: datetime) -> Decision:
    """Judge one item. See `judge` for the promise."""
    return judge(policy, cutoff)(item)


def judge(policy: Policy, cutoff: datetime) -> Judge:
    """The policy as a function of an item, made once for the millions of items of a run.

    An item is removed only if its date is *before* the cutoff: S3 cuts LastModified to whole seconds, so one that
    shows the cutoff itself can be younger. A date that is missing, naive or unreadable keeps the item. The function
    never raises and reads nothing but the item. Raises ValueError for a naive cutoff.
    """
    if cutoff.utcoffset() is None:
        raise ValueError("a cutoff needs a zone")
    judged = (
        _record_judge(policy.source, cutoff)
        if isinstance(policy.source, RecordSource)
        else _object_judge(policy, cutoff)
    )
    if isinstance(policy.action, Mark):
        judged = _unmarked_judge(policy.action, judged)
    return _canary_judge(policy.canary, name_of(policy.cohort), judged) if policy.canary and policy.cohort else judged


def _canary_judge(canary: Canary, cohort_of: NameOf, by_rest: Judge) -> Judge:
    """Where a policy names canaries, nothing of any other cohort is removed: it is only reported."""
    enforced = frozenset(canary.cohorts)

    def judged(item: Item) -> Decision:
        decision = by_rest(item)
        return REPORT_ONLY if decision.action == "remove" and cohort_of(item) not in enforced else decision

    return judged


def _object_judge(policy: Policy, cutoff: datetime) -> Judge:
    by_rest = _rest_judge(policy, cutoff)
    prefixes = policy.s3.prefixes
    excluded, included = policy.s3.exclude.test(), policy.s3.include.test()

    def judged(item: Item) -> Decision:
        if not item.key.startswith(prefixes):
            return OUTSIDE_SCOPE
        if excluded is not None and excluded(item):
            return EXCLUDED
        if included is not None and not included(item):
            return NOT_SELECTED
        return by_rest(item)

    return judged


def _record_judge(source: RecordSource, cutoff: datetime) -> Judge:
    """A record goes when its deadline is before the cutoff. What it is judged by is its etag."""

    def judged(item: Item) -> Decision:
        seen = attributes.parse(item.etag) if source.filter else {}
        for name, wanted in source.filter.items():
            if not any(attributes.matches(seen.get(name), value) for value in wanted):
                return NOT_SELECTED
        if item.last_modified is None:
            return UNREADABLE
        return EXPIRED if item.last_modified < cutoff else YOUNGER

    return judged


def _unmarked_judge(mark: Mark, by_rest: Judge) -> Judge:
    """A record that bears the mark already is left alone: marking it again would write, and say nothing new."""

    def judged(item: Item) -> Decision:
        decision = by_rest(item)
        if decision.action != "remove":
            return decision
        marked = attributes.matches(attributes.parse(item.etag).get(mark.attribute), mark.value)
        return MARKED if marked else decision

    return judged


def _rest_judge(policy: Policy, cutoff: datetime) -> Judge:
    """What is left to judge of an item whose key and size are meant."""
    by_age = _age_judge(date_of(policy), cutoff)
    if policy.s3.versions == "noncurrent":
        by_age = _version_judge(policy, by_age)
    return _tag_judge(policy, by_age) if policy.needs_tags else by_age


def _age_judge(date_of: DateOf, cutoff: datetime) -> Judge:
    def judged(item: Item) -> Decision:
        try:
            return EXPIRED if date_of(item) < cutoff else YOUNGER  # type: ignore[operator]
        except TypeError:  # None, naive, or no date at all: none of them compares with an aware date
            return UNREADABLE_DATE

    return judged


def date_of(policy: Policy) -> DateOf:
    """The date that the policy's age counts from.

    Of a version that is when it became noncurrent; of a delete marker that hides nothing, its own.
    """
    if policy.of_bucket and policy.s3.versions == "noncurrent":
        return lambda item: item.last_modified if item.rank == 0 else item.noncurrent_since
    age_from = policy.age_from
    if isinstance(age_from, KeyDate):
        read = age_from.reader()
        return lambda item: read(item.key)
    if isinstance(age_from, TagDate):
        read, tag = age_from.reader(), age_from.tag
        return lambda item: read((item.tags or {}).get(tag, ""))
    return lambda item: item.last_modified


def _version_judge(policy: Policy, by_age: Judge) -> Judge:
    """A version goes when it has been noncurrent for long enough; the current one never goes."""
    keep_latest, purge_markers = policy.s3.keep_latest, policy.s3.purge_markers

    def judged(item: Item) -> Decision:
        if item.version_id is None or item.version_id == "null":
            return NULL_VERSION
        if item.rank == 0 and not item.alone:
            return CURRENT_VERSION
        if item.is_marker:
            return by_age(item) if purge_markers else DELETE_MARKER
        return KEPT_LATEST if item.rank <= keep_latest else by_age(item)

    return judged


def _tag_judge(policy: Policy, by_age: Judge) -> Judge:
    """Tags cost a call each: they are asked for only where everything else that can be told says remove."""
    sparing, wanted = policy.s3.exclude.tag_test(), policy.s3.include.tag_test()
    age_in_tags = isinstance(policy.age_from, TagDate)

    def judged(item: Item) -> Decision:
        if item.tags is None:
            decision = TAGS_NEEDED if age_in_tags else by_age(item)
            return TAGS_NEEDED if decision.action == "remove" else decision
        if sparing is not None and sparing(item):
            return EXCLUDED
        if wanted is not None and not wanted(item):
            return NOT_SELECTED
        return by_age(item)

    return judged
