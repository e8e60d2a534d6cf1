"""How long to wait before trying again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

BASE = timedelta(seconds=5)
CAP = timedelta(minutes=15)
RETRY_AFTER_CAP = timedelta(hours=1)  # a server that asks for more is asked again after an hour

Jitter = Callable[[float], float]  # a number between 0 and the one given


def ceiling(attempt: int) -> timedelta:
    """The longest wait after the attempt of this number (from 1): 5 s doubled each time, at most 15 min."""
    doublings = min(attempt - 1, 20)
    return min(CAP, BASE * (1 << doublings))


def worst_wait(attempts: int) -> timedelta:
    """The longest that all waits between so many attempts can add up to."""
    return sum((ceiling(attempt) for attempt in range(1, attempts)), timedelta())


def backoff(attempt: int, jitter: Jitter, retry_after: float | None = None) -> timedelta:
    """Capped exponential with full jitter; never shorter than what the server asked for, in seconds."""
    wait = timedelta(seconds=jitter(ceiling(attempt).total_seconds()))
    if retry_after is None:
        return wait
    return max(wait, min(RETRY_AFTER_CAP, timedelta(seconds=retry_after)))
