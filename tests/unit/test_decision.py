"""The one judgement: every reason, and the boundary to the second."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sexton.decision import Decision, Reason, decide, judge
from sexton.item import Item
from sexton.policy import Policy

CUTOFF = datetime(2026, 10, 31, 2, 30, tzinfo=UTC)
OLD = CUTOFF - timedelta(days=1)
SECOND = timedelta(seconds=1)


def policy(*, age_from: Any = "last_modified", **source: Any) -> Policy:
    return Policy.model_validate(
        {
            "id": "logs-expire",
            "source": {"kind": "s3", "bucket": "some-bucket", "prefixes": ["app/"], **source},
            "retain": "P30D",
            "age_from": age_from,
        }
    )


def item(key: str = "app/x.log", modified: Any = OLD, size: int = 10) -> Item:
    return Item(key, '"etag"', size, "STANDARD", modified)


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (-SECOND, Decision("remove", "expired")),
        (timedelta(0), Decision("keep", "younger")),
        (SECOND, Decision("keep", "younger")),
        (-timedelta(microseconds=1), Decision("remove", "expired")),
    ],
)
def test_only_what_is_before_the_cutoff_goes(offset: timedelta, expected: Decision) -> None:
    assert decide(policy(), item(modified=CUTOFF + offset), CUTOFF) == expected
    elsewhere = (CUTOFF + offset).astimezone(timezone(timedelta(hours=-7)))
    assert decide(policy(), item(modified=elsewhere), CUTOFF) == expected


@pytest.mark.parametrize("modified", [None, OLD.replace(tzinfo=None), "2020-01-01", 0, OLD.date()])
def test_a_date_that_cannot_be_read_keeps_the_item(modified: object) -> None:
    assert decide(policy(), item(modified=modified), CUTOFF) == Decision("keep", "unreadable_date")


@pytest.mark.parametrize(
    ("source", "key", "size", "reason"),
    [
        ({}, "app/", 0, "expired"),
        ({}, "app//b", 1, "expired"),
        ({}, "app/../b", 1, "expired"),
        ({}, "app", 1, "outside_scope"),
        ({}, "/app/x", 1, "outside_scope"),
        ({}, "App/x", 1, "outside_scope"),
        ({}, "app-old/x", 1, "outside_scope"),
        ({"prefixes": ["app"], "raw_prefix": True}, "app-old/x", 1, "expired"),
        ({"prefixes": ["web/", "app/"]}, "web/x", 1, "expired"),
        ({"exclude": {"prefixes": ["app/audit/"]}}, "app/audit/x", 1, "excluded"),
        ({"exclude": {"prefixes": ["app/audit/"]}}, "app/audit-x", 1, "expired"),
        ({"exclude": {"suffixes": [".keep"]}}, "app/x.keep", 1, "excluded"),
        ({"exclude": {"globs": ["**/keep/**"]}}, "app/a/keep/b/c", 1, "excluded"),
        ({"exclude": {"suffixes": [".log"]}, "include": {"suffixes": [".log"]}}, "app/x.log", 1, "excluded"),
        ({"include": {"suffixes": [".log", ".gz"]}}, "app/x.gz", 1, "expired"),
        ({"include": {"suffixes": [".log", ".gz"]}}, "app/x.txt", 1, "not_selected"),
        ({"include": {"globs": ["app/*.log"]}}, "app/x.log", 1, "expired"),
        ({"include": {"globs": ["app/*.log"]}}, "app/deep/x.log", 1, "not_selected"),
        ({"include": {"suffixes": [".log"], "globs": ["app/a*"]}}, "app/b.log", 1, "not_selected"),
        ({"include": {"min_size": 2, "max_size": 3}}, "app/x", 1, "not_selected"),
        ({"include": {"min_size": 2, "max_size": 3}}, "app/x", 2, "expired"),
        ({"include": {"min_size": 2, "max_size": 3}}, "app/x", 3, "expired"),
        ({"include": {"min_size": 2, "max_size": 3}}, "app/x", 4, "not_selected"),
        ({"include": {"max_size": 0}}, "app/x", 1, "not_selected"),
        ({"include": {"max_size": 0}}, "app/x/", 0, "expired"),
    ],
)
def test_scope_exclusion_and_selection(source: dict[str, Any], key: str, size: int, reason: Reason) -> None:
    decision = decide(policy(**source), item(key, size=size), CUTOFF)
    assert decision.reason == reason
    assert decision.action == ("remove" if reason == "expired" else "keep")


@pytest.mark.parametrize("eligible", ["app/a b", "app/a+b", "app/a%2Fb", "app/100%"])
def test_keys_are_compared_byte_for_byte(eligible: str) -> None:
    judged = judge(policy(include={"suffixes": [eligible.removeprefix("app/")]}), CUTOFF)
    keys = ["app/a b", "app/a+b", "app/a%2Fb", "app/100%"]
    assert [key for key in keys if judged(item(key)).action == "remove"] == [eligible]


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("app/dt=2026-10-29/x", "expired"),  # ends 2026-10-30T00:00Z, before 02:30 on the 31st
        ("app/dt=2026-10-30/x", "expired"),  # ends 2026-10-31T00:00Z
        ("app/dt=2026-10-31/x", "younger"),  # ends 2026-11-01T00:00Z
        ("app/x", "unreadable_date"),
        ("app/dt=2026-02-30/x", "unreadable_date"),
        ("app/dt=2026-10-29/dt=2026-10-28/x", "unreadable_date"),
    ],
)
def test_age_from_the_key(key: str, reason: Reason) -> None:
    by_key = policy(age_from={"key_date": "dt=%Y-%m-%d"})
    assert decide(by_key, item(key, modified=None), CUTOFF).reason == reason


def test_a_period_that_ends_at_the_cutoff_stays() -> None:
    by_key = policy(age_from={"key_date": "dt=%Y-%m-%d"})
    midnight = datetime(2026, 10, 31, tzinfo=UTC)
    rows = [
        decide(by_key, item("app/dt=2026-10-30/x"), midnight + offset).reason
        for offset in (-SECOND, 0 * SECOND, SECOND)
    ]
    assert rows == ["younger", "younger", "expired"]


def test_a_naive_cutoff_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a zone"):
        judge(policy(), CUTOFF.replace(tzinfo=None))


keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=40).map(lambda text: f"app/{text}") | st.text(
    max_size=9
)
dates = st.none() | st.datetimes() | st.datetimes(timezones=st.timezones())
sources = st.sampled_from(
    [
        {},
        {"include": {"suffixes": [".log"], "globs": ["**/a*b"], "min_size": 1}},
        {"exclude": {"prefixes": ["app/a/"], "suffixes": ["x"], "globs": ["app/?/**"]}},
    ]
)


@given(keys, dates, st.integers(0, 2**43), sources, st.sampled_from(["last_modified", {"key_date": "%Y%m*"}]))
def test_every_item_gets_a_decision(
    key: str, modified: datetime | None, size: int, source: dict[str, Any], age_from: Any
) -> None:
    rule = policy(age_from=age_from, **source)
    decision = decide(rule, item(key, modified, size), CUTOFF)
    assert decision.reason in get_args(Reason)
    assert (decision.action == "remove") == (decision.reason == "expired")
    assert judge(rule, CUTOFF)(item(key, modified, size)) == decision


@given(keys, dates, st.integers(0, 10), st.integers(0, 10**9))
def test_what_an_earlier_cutoff_removes_a_later_one_removes_too(
    key: str, modified: datetime | None, size: int, seconds: int
) -> None:
    thing = item(key, modified, size)
    if decide(policy(), thing, CUTOFF).action == "remove":
        assert decide(policy(), thing, CUTOFF + timedelta(seconds=seconds)).action == "remove"


def test_the_page_explains_every_reason() -> None:
    page = (Path(__file__).parents[2] / "docs" / "policies.md").read_text()
    told = set(get_args(Reason)) - {"tags_needed"}  # which keeps nothing: then they are read
    told -= {"placed", "nothing_behind", "archived", "key_in_use"}  # of undos, which go by no policy
    assert {reason for reason in told if f"| `{reason}` |" not in page} == set()
