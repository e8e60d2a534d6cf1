"""Whose an item is: a policy's cohorts, named by a part of a key or an attribute, and the canaries among them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag

from sexton import attributes
from sexton.item import Item
from sexton.limits import Limits
from sexton.problem import refused
from sexton.record_source import RecordSource
from sexton.selection import check_key_text, sorted_set
from sexton.source import S3Source
from sexton.timestamp import Name

NO_COHORT = "no_cohort"  # what an item is counted under whose cohort cannot be told
LONGEST_NAME = 256  # characters; a longer name is none
MOST_CANARIES = 100
REST = "..."  # at a pattern's end: whatever follows
EXAMPLE = "a pattern such as 'tenants/{tenant}/...' or '*/{customer}-data/...'"
RECORD_EXAMPLE = "{attribute: tenant}, or {attribute: pk, pattern: 'TENANT#{tenant}#...'}"

_TOKENS = re.compile(r"\{[a-z][a-z0-9_]*\}|\*|[{}]|[^{}*]+")

NameOf = Callable[[Item], str]


def check_pattern(pattern: str) -> str:
    """Give the pattern back, or raise PydanticCustomError saying what to write instead."""
    check_key_text(pattern)
    tokens = _tokens(pattern)
    names = [token for token in tokens if _is_name(token)]
    if len(names) != 1 or "{" in tokens or "}" in tokens:
        raise refused(f"cohort {pattern!r} does not have one {{name}} for what the cohort is called", EXAMPLE)
    for before, token, after in zip(["", *tokens], tokens, [*tokens[1:], ""], strict=False):
        if token == "*" and not (before[-1:] in ("", "/") and after[:1] in ("", "/")):
            raise refused(f"cohort {pattern!r} has a * that is no whole segment, as between two /", EXAMPLE)
    return pattern


def pattern_regex(pattern: str) -> str:
    """The pattern as a regular expression for `fullmatch`; its one group is the cohort.

    A name ends before the character that follows it in the pattern, and never has a `/`. So there is one way to
    match, and none backtracks.
    """
    tokens = _tokens(pattern)
    return "".join(_token_regex(token, after) for token, after in zip(tokens, [*tokens[1:], ""], strict=True)) + (
        "(?s:.*)" if pattern.endswith(REST) else ""
    )


def _tokens(pattern: str) -> list[str]:
    return _TOKENS.findall(pattern.removesuffix(REST))


def _is_name(token: str) -> bool:
    return len(token) > 1 and token.startswith("{")


def _token_regex(token: str, after: str) -> str:
    if _is_name(token):
        return f"([^/{re.escape(after[:1])}]+)"
    return "[^/]*" if token == "*" else re.escape(token)


Pattern = Annotated[str, AfterValidator(check_pattern)]


class RecordCohort(BaseModel):
    """A record's cohort: an attribute's text or number, of its key or not, or the part of it that a pattern says."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    attribute: Name
    pattern: Pattern | None = None


Cohort = Annotated[
    Annotated[Pattern, Tag("key")] | Annotated[RecordCohort, Tag("record")],
    Discriminator(lambda value: "record" if isinstance(value, dict | RecordCohort) else "key"),
]


def _check_canaries(names: tuple[str, ...]) -> tuple[str, ...]:
    if not names:
        raise refused(
            "the canary has no cohort, so nothing would be removed", "the cohorts to begin with, or no canary"
        )
    if NO_COHORT in names:
        raise refused(f"{NO_COHORT} is what items are counted under whose cohort is unknown", "names of cohorts")
    return sorted_set(names)


CohortName = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]


class Canary(BaseModel):
    """The cohorts for which an enforcing policy enforces; of all others it only reports."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cohorts: Annotated[tuple[CohortName, ...], Field(max_length=MOST_CANARIES), AfterValidator(_check_canaries)]


def fitted(source: S3Source | RecordSource, cohort: str | RecordCohort | None) -> S3Source | RecordSource:
    """The source, which of records reads the attribute that names the cohort; raises where it has none to name."""
    if isinstance(source, RecordSource):
        if isinstance(cohort, str):
            raise refused("the key of a record is no text that a pattern could match", RECORD_EXAMPLE, at="..cohort")
        return source.reading(cohort.attribute) if cohort else source
    if isinstance(cohort, RecordCohort):
        raise refused("what lies in a bucket has no attributes; its key names its cohort", EXAMPLE, at="..cohort")
    if cohort and not any(_reaches(cohort, prefix) for prefix in source.prefixes):
        what = f"cohort {cohort!r} is matched against whole keys, and none under the prefixes can match it"
        raise refused(
            what, f"{source.prefixes[0] + '{tenant}/...'!r}, or one that begins as the keys do", at="..cohort"
        )
    return source


def _reaches(pattern: str, prefix: str) -> bool:
    head = re.split(r"[{*]", pattern, maxsplit=1)[0]
    return head.startswith(prefix) or prefix.startswith(head)


def refuse_limits(limits: Limits, source: S3Source | RecordSource | None, cohort: str | RecordCohort | None) -> None:
    """Raise where the limits say of cohorts what nothing can tell, or what is about none."""
    if cohort is None and limits.empty_cohort:
        raise refused("limits.empty_cohort is about cohorts, and the policy has none", EXAMPLE, at="empty_cohort")
    if cohort is not None and source and source.shows_only_due and not limits.empty_cohort:
        what = "a query stops at the cutoff, so nothing tells whether a run would empty a whole cohort"
        raise refused(what, "limits.empty_cohort: true, or source.scan instead of partitions", at="..cohort")


def refuse_canary(canary: Canary | None, cohort: str | RecordCohort | None) -> None:
    """Raise where a canary names cohorts of a policy that has none."""
    if canary and cohort is None:
        raise refused("canary names cohorts, and nothing says whose an item is", f"cohort: {EXAMPLE}")


def name_of(cohort: str | RecordCohort) -> NameOf:
    """The cohort of an item, as a function made once for millions; NO_COHORT where it cannot be told."""
    if isinstance(cohort, str):
        return _by_key(_matched(cohort))
    return _by_attribute(cohort.attribute, _matched(cohort.pattern) if cohort.pattern else lambda text: text)


def _matched(pattern: str) -> Callable[[str], str]:
    match = re.compile(pattern_regex(pattern)).fullmatch

    def read(text: str) -> str:
        found = match(text)
        return found[1] if found else ""

    return read


def _by_key(read: Callable[[str], str]) -> NameOf:
    return lambda item: _bounded(read(item.key))


def _by_attribute(attribute: str, read: Callable[[str], str]) -> NameOf:
    """What a record was judged by is its etag, and what names it its key; the attribute is in one of them."""

    def named(item: Item) -> str:
        value = _attributes(item.etag).get(attribute) or _attributes(item.key).get(attribute)
        return _bounded(read(_text(value)))

    return named


def _attributes(text: str) -> attributes.Attributes:
    """None where it holds none, as the etag of what an undo puts back."""
    try:
        return attributes.parse(text)
    except ValueError:
        return {}


def _text(value: Any) -> str:
    """A text, or a number as DynamoDB writes it; empty for anything else."""
    return str(value.get("S") or value.get("N") or "") if isinstance(value, dict) else ""


def _bounded(name: str) -> str:
    return name if 0 < len(name) <= LONGEST_NAME else NO_COHORT
