"""From what happened in an attempt to the job's next state: every case by name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sexton.errors import Failure, ReasonClass
from sexton.item import Item
from sexton.job import REPLAYED, Failed, Job, JobState
from sexton.outcome import Ending, Outcome
from sexton.settling import (
    BREAKER,
    EFFECT_UNKNOWN,
    EVIDENCE_ALTERED,
    INVALIDATED,
    OUT_OF_TIME,
    STOPPED,
    TRANSACTION_FULL,
    Attempt,
    Kind,
    Next,
    next_step,
    ranges,
    span_of,
)
from sexton.table import Delete

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SLOW = Failure(ReasonClass.THROTTLED, "SlowDown", "slow down")
BROKEN = Failure(ReasonClass.TRANSIENT, "OperationAborted", "try again")
UNSURE = Failure(ReasonClass.TRANSIENT, "InternalError", "something broke", unknown_effect=True)
DENIED = Failure(ReasonClass.PERMANENT, "AccessDenied", "access denied")
REFUSED = Failure(ReasonClass.PERMANENT, "InvalidRequest", "no such thing")


def job(**changes: object) -> Job:
    fields: dict[str, object] = {
        "job_id": "logs-expire.20260301T120000Z.1.00000000",
        "run_id": "logs-expire.20260301T120000Z.1",
        "policy": "logs-expire",
        "seq": "00000000",
        "state": JobState.LEASED,
        "rev": 3,
        "part_key": "plans/x",
        "part_sha256": "0" * 64,
        "start": 0,
        "end": 40,
        "count": 40,
        "open_items": 40,
        "span": 40,
        "first_key": "a",
        "last_key": "z",
        **changes,
    }
    return Job.model_validate(fields)


def ended(indexes: Iterable[int]) -> list[Outcome]:
    return [Outcome(index, f"key-{index}", Ending.DELETED, NOW) for index in indexes]


def attempt(
    of: int = 3, done: Iterable[int] = (), failed: dict[int, Failure] | None = None, looked: bool = True, **more: object
) -> Attempt:
    """An attempt on `of` items that looked at all of them."""
    found = set(range(of)) if looked else set()
    return Attempt(list(range(of)), outcomes=ended(done), failures=failed or {}, looked=found, **more)  # type: ignore[arg-type]


def step(tried: Attempt, of: Job | None = None, used_up: bool = False, too_old: bool = False) -> Next:
    return next_step(of or job(), tried, used_up, too_old)


def test_every_item_with_an_outcome_succeeds() -> None:
    assert step(attempt(done=range(3))) == Next(Kind.SUCCEED)


def test_every_item_with_an_outcome_succeeds_though_attempts_age_and_time_are_over() -> None:
    assert step(attempt(done=range(3), stop=STOPPED), job(maybe_done=True), used_up=True, too_old=True) == Next(
        Kind.SUCCEED
    )


# transient and throttled


def test_a_transient_failure_is_tried_again_and_costs_an_attempt() -> None:
    assert step(attempt(done=[0], failed={1: BROKEN, 2: BROKEN})) == Next(Kind.RELEASE, "transient", BROKEN)


def test_throttling_costs_no_attempt_even_when_they_are_used_up() -> None:
    expected = Next(Kind.RELEASE, "throttled", SLOW, refund=True)
    assert step(attempt(failed={0: SLOW, 1: SLOW, 2: SLOW}), used_up=True) == expected


def test_throttling_is_bounded_by_age() -> None:
    assert step(attempt(failed={0: SLOW, 1: SLOW, 2: SLOW}), too_old=True) == Next(Kind.DIE, "SlowDown", SLOW)


def test_throttling_beside_another_transient_failure_costs_an_attempt() -> None:
    assert step(attempt(failed={0: SLOW, 1: BROKEN, 2: SLOW})) == Next(Kind.RELEASE, "transient", BROKEN)


@pytest.mark.parametrize(("used_up", "too_old"), [(True, False), (False, True)])
def test_used_up_with_every_effect_known_is_dead(used_up: bool, too_old: bool) -> None:
    tried = attempt(done=[0], failed={1: BROKEN, 2: BROKEN})
    assert step(tried, used_up=used_up, too_old=too_old) == Next(Kind.DIE, "OperationAborted", BROKEN)


@pytest.mark.parametrize(("used_up", "too_old"), [(True, False), (False, True)])
def test_used_up_with_an_effect_unknown_is_observed_first(used_up: bool, too_old: bool) -> None:
    tried = attempt(done=[0], failed={1: UNSURE, 2: BROKEN})
    assert step(tried, used_up=used_up, too_old=too_old) == Next(Kind.RELEASE, EFFECT_UNKNOWN, UNSURE, maybe_done=True)


def test_a_whole_call_that_may_pass_is_tried_again() -> None:
    assert step(attempt(looked=False, whole=BROKEN)) == Next(Kind.RELEASE, "transient", BROKEN)


# what is known of effects


def test_an_unknown_effect_is_remembered() -> None:
    assert step(attempt(failed={0: UNSURE, 1: BROKEN, 2: BROKEN})).maybe_done


def test_what_was_unknown_stays_so_until_every_open_item_was_looked_at() -> None:
    looked_at_two = Attempt([0, 1, 2], looked={0, 1}, outcomes=ended([0]), stop=OUT_OF_TIME)
    assert step(looked_at_two, job(maybe_done=True)).maybe_done


def test_what_was_unknown_is_known_once_every_open_item_was_looked_at() -> None:
    looked_at_all_left = Attempt([0, 1, 2], looked={1, 2}, outcomes=ended([0]), failures={1: BROKEN, 2: BROKEN})
    assert not step(looked_at_all_left, job(maybe_done=True)).maybe_done


# permanent failures


def test_a_permanent_failure_of_the_whole_call_gives_the_job_back() -> None:
    assert step(attempt(looked=False, whole=DENIED)) == given_back(DENIED)


def test_altered_evidence_concerns_its_job_alone() -> None:
    altered = replace(DENIED, code=EVIDENCE_ALTERED)
    assert step(attempt(looked=False, whole=altered)) == Next(Kind.DIE, EVIDENCE_ALTERED, altered)


def test_a_job_that_was_given_back_before_dies() -> None:
    before = Failed(at=NOW, attempt=1, event=BREAKER, code="AccessDenied")
    assert step(attempt(looked=False, whole=DENIED), job(history=(before,))) == Next(Kind.DIE, "AccessDenied", DENIED)


def test_a_replayed_job_is_given_back_anew() -> None:
    """Else a thousand that are replayed before anything is mended would all be dead again."""
    before = Failed(at=NOW, attempt=1, event=BREAKER, code="AccessDenied")
    replayed = Failed(at=NOW, attempt=2, event=REPLAYED, actor="ann", reason="it is mended")
    again = attempt(looked=False, whole=DENIED)
    assert step(again, job(history=(before, replayed))) == given_back(DENIED)
    assert step(again, job(history=(before, replayed, before))) == Next(Kind.DIE, "AccessDenied", DENIED)


def given_back(failure: Failure, maybe_done: bool = False) -> Next:
    return Next(Kind.RELEASE, BREAKER, failure, maybe_done, refund=True, at_once=True)


def test_a_permanent_failure_after_an_unknown_effect_is_observed_first() -> None:
    assert step(attempt(looked=False, whole=DENIED), job(maybe_done=True)) == given_back(DENIED, maybe_done=True)
    before = Failed(at=NOW, attempt=1, event=BREAKER, code="AccessDenied")
    assert step(attempt(looked=False, whole=DENIED), job(maybe_done=True, history=(before,))) == Next(
        Kind.RELEASE, EFFECT_UNKNOWN, DENIED, maybe_done=True
    )


def test_every_item_refused_alike_is_a_failure_of_the_whole() -> None:
    assert step(attempt(failed=dict.fromkeys(range(3), DENIED))) == given_back(DENIED)


def test_one_item_that_is_refused_says_nothing_of_other_jobs() -> None:
    assert step(attempt(of=1, failed={0: DENIED})) == Next(Kind.DIE, "AccessDenied", DENIED)


def test_a_call_refused_whole_is_a_failure_of_the_whole_though_others_were_skipped_before() -> None:
    skipped = [Outcome(0, "key-0", Ending.SKIPPED, NOW, "changed")]
    tried = Attempt([0, 1, 2], outcomes=skipped, failures={1: DENIED, 2: DENIED}, looked={0, 1, 2})
    assert step(tried) == given_back(DENIED)


def test_items_refused_differently_are_split_off_each() -> None:
    tried = attempt(of=2, failed={0: DENIED, 1: REFUSED})
    assert step(tried) == Next(Kind.SUCCEED, split_off=(0, 1))


def test_items_that_fail_for_good_are_split_off_and_the_rest_is_done() -> None:
    assert step(attempt(done=[0, 2], failed={1: DENIED})) == Next(Kind.SUCCEED, split_off=(1,))


def test_items_that_fail_for_good_leave_and_the_rest_is_tried_again() -> None:
    tried = attempt(done=[0], failed={1: DENIED, 2: BROKEN})
    assert step(tried) == Next(Kind.RELEASE, "transient", BROKEN, split_off=(1,))


def test_a_throttled_rest_costs_no_attempt_when_others_are_split_off() -> None:
    tried = attempt(done=[0], failed={1: DENIED, 2: SLOW})
    assert step(tried) == Next(Kind.RELEASE, "throttled", SLOW, refund=True, split_off=(1,))


def test_items_never_tried_are_left_when_others_are_split_off() -> None:
    tried = attempt(done=[0], failed={1: DENIED}, stop=OUT_OF_TIME)
    assert step(tried) == Next(Kind.RELEASE, OUT_OF_TIME, refund=True, at_once=True, split_off=(1,))


def test_a_look_that_fails_after_others_were_refused_leaves_the_rest_for_later() -> None:
    tried = attempt(of=4, done=[0], failed={1: DENIED}, whole=BROKEN)
    assert step(tried) == Next(Kind.RELEASE, "transient", BROKEN, split_off=(1,))


def test_what_is_split_off_keeps_an_unknown_effect() -> None:
    assert step(attempt(done=[0], failed={1: DENIED, 2: UNSURE})).maybe_done


def test_twenty_items_are_split_off_over_a_life_and_no_more() -> None:
    tried = attempt(of=10, done=[0], failed=dict.fromkeys(range(1, 10), DENIED))
    assert step(tried, job(items_split_off=11)).kind is Kind.SUCCEED
    assert step(tried, job(items_split_off=12)) == Next(Kind.DIE, "AccessDenied", DENIED)


# stopped, or out of time


def test_invalidated_with_every_effect_known_is_cancelled() -> None:
    assert step(attempt(done=[0], stop=INVALIDATED)) == Next(Kind.CANCEL)


def test_stopped_with_every_effect_known_is_given_back() -> None:
    assert step(attempt(done=[0], stop=STOPPED)) == Next(Kind.RELEASE, STOPPED, refund=True, at_once=True)


@pytest.mark.parametrize("stop", [STOPPED, INVALIDATED])
def test_stopped_with_an_effect_unknown_is_observed_first(stop: str) -> None:
    tried = attempt(failed={0: UNSURE}, stop=stop)
    assert step(tried) == Next(Kind.RELEASE, STOPPED, maybe_done=True, at_once=True)


def test_stopped_before_any_effect_costs_no_attempt() -> None:
    assert step(attempt(looked=False, stop=STOPPED), job(maybe_done=True)).refund


def test_out_of_time_after_some_outcomes_costs_no_attempt() -> None:
    tried = attempt(done=[0], stop=OUT_OF_TIME)
    assert step(tried, used_up=True) == Next(Kind.RELEASE, OUT_OF_TIME, refund=True, at_once=True)


def test_out_of_time_without_an_outcome_costs_an_attempt() -> None:
    last = step(attempt(stop=OUT_OF_TIME))
    assert (last.kind, last.event, last.refund) == (Kind.RELEASE, "transient", False)
    assert step(attempt(stop=OUT_OF_TIME), used_up=True).kind is Kind.DIE


def test_out_of_time_while_throttled_still_backs_off() -> None:
    tried = attempt(done=[0], failed={1: SLOW}, stop=OUT_OF_TIME)
    assert step(tried) == Next(Kind.RELEASE, OUT_OF_TIME, SLOW, refund=True)


def test_out_of_time_is_bounded_by_age() -> None:
    assert step(attempt(done=[0], stop=OUT_OF_TIME), too_old=True).kind is Kind.DIE


# every attempt has a next step

failures = st.sampled_from([SLOW, BROKEN, UNSURE, DENIED, REFUSED])


@st.composite
def attempts(draw: st.DrawFn) -> Attempt:
    indexes = draw(st.lists(st.integers(0, 39), min_size=1, max_size=30, unique=True).map(sorted))
    ways = {index: draw(st.sampled_from(["done", "failed", "untried"])) for index in indexes}
    return Attempt(
        indexes,
        outcomes=ended(index for index, way in ways.items() if way == "done"),
        failures={index: draw(failures) for index, way in ways.items() if way == "failed"},
        looked=draw(st.sampled_from([set(), set(indexes)])),
        whole=draw(st.none() | failures),
        stop=draw(st.sampled_from([None, STOPPED, INVALIDATED, OUT_OF_TIME])),
    )


@given(attempts(), st.booleans(), st.integers(0, 20), st.booleans(), st.booleans())
def test_every_attempt_has_a_next_step_that_keeps_the_promises(
    tried: Attempt, maybe_done: bool, split_before: int, used_up: bool, too_old: bool
) -> None:
    found = next_step(job(maybe_done=maybe_done, items_split_off=split_before), tried, used_up, too_old)
    unknown = tried.unknown or (maybe_done and not tried.looked)
    if found.kind is Kind.SUCCEED:
        assert sorted([*found.split_off, *(each.index for each in tried.outcomes)]) == tried.open
    if found.kind is Kind.DIE:
        assert found.failure
    if found.kind in (Kind.DIE, Kind.CANCEL):
        assert not unknown
    if found.kind is Kind.RELEASE:
        assert found.maybe_done == unknown
    assert set(found.split_off) <= {i for i, f in tried.failures.items() if f.reason_class is ReasonClass.PERMANENT}
    assert split_before + len(found.split_off) <= 20
    assert not found.split_off or found.maybe_done == unknown


@given(st.lists(st.integers(0, 999), min_size=2, unique=True).map(sorted))
def test_a_crashed_job_becomes_two_to_twenty_ranges_that_hold_each_item_once(open_indexes: list[int]) -> None:
    groups = ranges(open_indexes)
    assert 2 <= len(groups) <= 20
    assert [index for group in groups for index in group] == open_indexes
    spans = [span_of(group) for group in groups]
    assert all(one.end <= other.start for one, other in pairwise(spans))


def test_half_of_the_changes_leaves_what_was_said_of_the_rest() -> None:
    """Of a record that was planned twice, the second turn finds it gone only if the first one came."""
    keys = ["a", "b", "a", "b", "c"]
    items = {index: Item(key, "", 1, "RECORD", NOW) for index, key in enumerate(keys)}
    outcomes = [Outcome(index, key, Ending.DELETED, NOW) for index, key in enumerate(keys)]
    changes = {index: Delete("reminders", {"id": {"S": keys[index]}}, {}) for index in (0, 1)}
    half = Attempt(range(5), items, outcomes=outcomes, changes=changes).halved()
    assert (list(half.changes), [each.index for each in half.outcomes]) == ([0], [0, 2, 4])
    assert (half.left, half.stop) == ([1, 3], TRANSACTION_FULL)
