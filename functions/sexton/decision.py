"""What is meant for an item: one pure judgement, with a reason for every way it can go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sexton.item import Item
from sexton.key_date import KeyDate
from sexton.policy import Policy

Action = Literal["remove", "keep"]
Reason = Literal["expired", "younger", "outside_scope", "excluded", "not_selected", "unreadable_date"]


@dataclass(frozen=True, slots=True)
class Decision:
    """Remove or keep, and why. What came of it is an Outcome."""

    action: Action
    reason: Reason


EXPIRED = Decision("remove", "expired")
YOUNGER = Decision("keep", "younger")
OUTSIDE_SCOPE = Decision("keep", "outside_scope")
EXCLUDED = Decision("keep", "excluded")
NOT_SELECTED = Decision("keep", "not_selected")
UNREADABLE_DATE = Decision("keep", "unreadable_date")

Judge = Callable[[Item], Decision]


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
    by_age = _age_judge(policy, cutoff)
    prefixes = policy.source.prefixes
    excluded, included = policy.source.exclude.test(), policy.source.include.test()

    def judged(item: Item) -> Decision:
        if not item.key.startswith(prefixes):
            return OUTSIDE_SCOPE
        if excluded is not None and excluded(item):
            return EXCLUDED
        if included is not None and not included(item):
            return NOT_SELECTED
        return by_age(item)

    return judged


def _age_judge(policy: Policy, cutoff: datetime) -> Judge:
    if isinstance(policy.age_from, KeyDate):
        return _key_date_judge(policy.age_from, cutoff)
    return _last_modified_judge(cutoff)


# Two judges instead of one that calls a reader: a call more is a sixth of the time that a judgement takes.
def _last_modified_judge(cutoff: datetime) -> Judge:
    def judged(item: Item) -> Decision:
        try:
            return EXPIRED if item.last_modified < cutoff else YOUNGER  # type: ignore[operator]
        except TypeError:  # None, a naive time, or no time at all: none of them compares with an aware one
            return UNREADABLE_DATE

    return judged


def _key_date_judge(age_from: KeyDate, cutoff: datetime) -> Judge:
    read = age_from.reader()

    def judged(item: Item) -> Decision:
        date = read(item.key)
        if date is None:
            return UNREADABLE_DATE
        return EXPIRED if date < cutoff else YOUNGER

    return judged
