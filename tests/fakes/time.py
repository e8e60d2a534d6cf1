"""Virtual time and ids that come in order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class FakeClock:
    """A clock that only moves when told to."""

    def __init__(self, at: datetime = START) -> None:
        self._now = at

    def __call__(self) -> datetime:
        return self._now

    def advance(self, by: timedelta | float) -> datetime:
        """Let time pass (seconds or a timedelta); returns the new now."""
        self._now += by if isinstance(by, timedelta) else timedelta(seconds=by)
        return self._now

    def move_to(self, at: datetime) -> None:
        """Jump to an instant, also back: clocks do."""
        self._now = at


class FakeTokens:
    """`token-000001`, `token-000002`, ...: unique within one instance, the same in every run."""

    def __init__(self, prefix: str = "token") -> None:
        self._prefix = prefix
        self._given = 0

    def __call__(self) -> str:
        self._given += 1
        return f"{self._prefix}-{self._given:06d}"


class FakeTimeLeft:
    """The rest of a function's time on a FakeClock."""

    def __init__(self, clock: FakeClock, limit: timedelta) -> None:
        self._clock = clock
        self._end = clock() + limit

    def __call__(self) -> timedelta:
        return self._end - self._clock()
