"""The waits between attempts: bounded from both ends, whatever the turn, the chance or the service says."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

from botocore.exceptions import ClientError
from hypothesis import example, given
from hypothesis import strategies as st
from sexton.aws.errors import failure_of
from sexton.retry import CAP, RETRY_AFTER_CAP, backoff, ceiling, worst_wait

turns = st.integers(1, 10_000) | st.integers(1, 12)
chances = st.floats(0, 1)
asked = st.none() | st.floats(0, 1e9)
NOTHING = timedelta()
TICK = timedelta(microseconds=1)  # what a duration is rounded to
LONGEST_VISIBILITY = timedelta(hours=12)  # of SQS: a message cannot be hidden for longer


def wait(turn: int, chance: float, retry_after: float | None = None) -> timedelta:
    return backoff(turn, lambda most: chance * most, retry_after)


@given(turns, chances, asked)
def test_a_wait_is_within_its_bounds(turn: int, chance: float, retry_after: float | None) -> None:
    found = wait(turn, chance, retry_after)
    assert NOTHING <= found <= max(ceiling(turn), min(RETRY_AFTER_CAP, timedelta(seconds=retry_after or 0)))
    assert found <= LONGEST_VISIBILITY


@given(turns, chances, st.floats(0, 1e9))
def test_what_the_service_asks_for_is_waited_for_and_never_shortens(
    turn: int, chance: float, retry_after: float
) -> None:
    found = wait(turn, chance, retry_after)
    assert found >= min(RETRY_AFTER_CAP, timedelta(seconds=retry_after))
    assert found >= wait(turn, chance)


@given(turns)
def test_the_ceiling_doubles_until_the_cap(turn: int) -> None:
    assert timedelta(seconds=5) == ceiling(1) <= ceiling(turn) <= CAP
    assert ceiling(turn + 1) == min(CAP, 2 * ceiling(turn))


@given(turns, chances)
def test_the_jitter_is_full(turn: int, chance: float) -> None:
    """Evenly from nothing to the ceiling: a thousand jobs that failed together do not come back together."""
    assert wait(turn, 0) == NOTHING
    assert wait(turn, 1) == ceiling(turn)
    assert abs(wait(turn, chance) - chance * ceiling(turn)) <= TICK


@given(st.integers(1, 200), st.lists(chances, min_size=200, max_size=200))
def test_no_attempts_wait_longer_in_all_than_was_said(attempts: int, chance: list[float]) -> None:
    waited = sum((wait(turn, chance[turn]) for turn in range(1, attempts)), NOTHING)
    assert waited <= worst_wait(attempts) <= (attempts - 1) * CAP
    assert worst_wait(1) == NOTHING


def test_the_worst_of_each_number_of_attempts_is_one_wait_more() -> None:
    worst = [worst_wait(attempts) for attempts in range(1, 40)]
    assert [later - earlier for earlier, later in pairwise(worst)] == [ceiling(turn) for turn in range(1, 39)]


@given(
    st.text(max_size=30)
    | st.floats().map(str)
    | st.integers(-10, 10**40).map(str)
    | st.datetimes().map(lambda at: f"{at:%a, %d %b} {at.year:04d} {at:%H:%M:%S} GMT"),
    turns,
)
@example("Wed, 21 Oct 9999 07:28:00 -2359", 1)
@example("Mon, 01 Jan 0100 00:00:00 -0000", 1)
@example("Mon, 01 Jan 99999 00:00:00 GMT", 1)
@example("inf", 1)
@example("nan", 1)
@example("\u0663", 1)
def test_whatever_a_service_sends_as_retry_after_leads_to_a_wait(header: str, turn: int) -> None:
    answer = {"Error": {"Code": "SlowDown"}, "ResponseMetadata": {"HTTPHeaders": {"retry-after": header}}}
    retry_after = failure_of(ClientError(answer, "DeleteObjects")).retry_after  # type: ignore[arg-type]
    assert retry_after is None or retry_after >= 0
    assert NOTHING <= wait(turn, 1, retry_after) <= max(CAP, RETRY_AFTER_CAP)
