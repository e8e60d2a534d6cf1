"""Whose an item is, by its key or by an attribute; and what a canary leaves alone."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sexton.attributes import canonical
from sexton.cohort import LONGEST_NAME, NO_COHORT, RecordCohort, check_pattern, name_of
from sexton.decision import EXPIRED, REPORT_ONLY, YOUNGER, judge
from sexton.item import Item
from sexton.policy import Policy

from tests.fakes.time import START
from tests.fakes.world import policy, records_policy

LONG = "a" * LONGEST_NAME


def item(key: str, etag: str = '"e"', age: timedelta = timedelta(days=60)) -> Item:
    return Item(key, etag, 1, "STANDARD", START - age)


@pytest.mark.parametrize(
    ("pattern", "key", "cohort"),
    [
        ("tenants/{tenant}/...", "tenants/acme/a/b", "acme"),
        ("tenants/{tenant}/...", "tenants/acme/", "acme"),
        ("tenants/{tenant}/...", "tenants/acme", NO_COHORT),
        ("tenants/{tenant}/...", "tenants//a", NO_COHORT),
        ("tenants/{tenant}/...", "x/tenants/acme/a", NO_COHORT),
        ("tenants/{tenant}/...", "tenants/a\nb/c\nd", "a\nb"),
        ("tenants/{tenant}/...", "tenants/a b%2F+/c", "a b%2F+"),
        ("tenants/{tenant}/...", f"tenants/{LONG}/c", LONG),
        ("tenants/{tenant}/...", f"tenants/{LONG}a/c", NO_COHORT),
        ("tenants/{tenant}/...", f"tenants/{NO_COHORT}/c", NO_COHORT),
        ("tenants/{tenant}...", "tenants/acme", "acme"),
        ("tenants/{tenant}", "tenants/acme/a", NO_COHORT),
        ("tenants/{tenant}/x", "tenants/acme/x", "acme"),
        ("*/{tenant}-data/...", "eu/acme-data/1", "acme"),
        ("*/{tenant}-data/...", "eu/ac-me-data/1", NO_COHORT),
        ("*/*/{tenant}/...", "a/b/acme/1", "acme"),
        ("*/{tenant}/...", "/acme/1", "acme"),
        ("app/{tenant}.log", "app/a.b.log", NO_COHORT),
        ("app/{tenant}.log", "app/a.log", "a"),
        ("app/[{tenant}]/...", "app/[a^-b]/1", "a^-b"),
        ("app/{tenant}^x", "app/a^x", "a"),
    ],
)
def test_the_cohort_of_a_key(pattern: str, key: str, cohort: str) -> None:
    assert name_of(check_pattern(pattern))(item(key)) == cohort


names = st.text(st.characters(exclude_characters="/", exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(names, st.text(max_size=20))
def test_a_key_that_is_made_by_the_pattern_gives_the_name_back(name: str, rest: str) -> None:
    assert name_of("tenants/{tenant}/...")(item(f"tenants/{name}/{rest}")) == name


def test_no_key_takes_long_to_match() -> None:
    began = time.perf_counter()
    of = name_of(check_pattern("/".join(["*"] * 20) + "/{tenant}-x/..."))
    for key in ("/" * 1024, "-" * 1024, "a/" * 512, "a/" * 20 + "-x" * 400):
        of(item(key))
    assert time.perf_counter() - began < 1


@pytest.mark.parametrize(
    ("cohort", "seen", "name"),
    [
        (RecordCohort(attribute="tenant"), {"tenant": {"S": "acme"}}, "acme"),
        (RecordCohort(attribute="tenant"), {"tenant": {"N": "7"}}, "7"),
        (RecordCohort(attribute="tenant"), {"tenant": {"N": "0"}}, "0"),
        (RecordCohort(attribute="tenant"), {"tenant": {"S": ""}}, NO_COHORT),
        (RecordCohort(attribute="tenant"), {"tenant": None}, NO_COHORT),
        (RecordCohort(attribute="tenant"), {"tenant": {"BOOL": True}}, NO_COHORT),
        (RecordCohort(attribute="tenant"), {}, NO_COHORT),
        (RecordCohort(attribute="id"), {}, "T#acme#1"),
        (RecordCohort(attribute="id", pattern="T#{tenant}#..."), {}, "acme"),
        (RecordCohort(attribute="id", pattern="U#{tenant}#..."), {}, NO_COHORT),
    ],
)
def test_the_cohort_of_a_record(cohort: RecordCohort, seen: dict[str, object], name: str) -> None:
    key = canonical({"id": {"S": "T#acme#1"}})
    assert name_of(cohort)(item(key, canonical(seen))) == name  # type: ignore[arg-type]


def canary(*cohorts: str, **more: object) -> Policy:
    return policy(cohort="app/{tenant}/...", canary={"cohorts": list(cohorts)}, **more)


@pytest.mark.parametrize("mode", ["enforce", "report"])
def test_what_is_of_no_canary_is_only_reported(mode: str) -> None:
    judged = judge(canary("acme", mode=mode), START - timedelta(days=30))
    young = timedelta(days=1)
    assert judged(item("app/acme/1")) == EXPIRED
    assert judged(item("app/acme/1", age=young)) == YOUNGER
    assert judged(item("app/globex/1")) == REPORT_ONLY
    assert judged(item("app/globex/1", age=young)) == YOUNGER
    assert judged(item("app/1")) == REPORT_ONLY, "what has no cohort is nobody's canary"
    assert judged(item("elsewhere/acme/1")).reason == "outside_scope"


def test_other_canaries_make_another_version_and_their_order_does_not() -> None:
    versions = {canary("a").version, canary("b").version, canary("a", "b").version, policy().version}
    assert len(versions) == 4
    assert canary("a", "b").version == canary("b", "a").version


def test_a_record_is_judged_by_what_names_its_cohort() -> None:
    made = records_policy(cohort={"attribute": "tenant"}, limits={"empty_cohort": True})
    assert made.source.guarded == ("deadline", "tenant")  # type: ignore[union-attr]
    assert records_policy().source.guarded == ("deadline",)  # type: ignore[union-attr]
    assert Policy.from_canonical(made.canonical()) == made
