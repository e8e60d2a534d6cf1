"""Counts the requests that botocore makes, whoever made the client."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from botocore import handlers
from botocore.client import BaseClient

EVENT = "request-created"  # once for each attempt, so that what the SDK retries is counted too

Calls = Counter[tuple[str, str]]  # by service and operation: ("s3", "ListObjectsV2")


@contextmanager
def counting() -> Iterator[Calls]:
    """Counts on every client of every session that is made inside."""
    counted: Calls = Counter()
    entry = (EVENT, _Counting(counted))
    handlers.BUILTIN_HANDLERS.append(entry)
    try:
        yield counted
    finally:
        handlers.BUILTIN_HANDLERS.remove(entry)


def count_on(client: BaseClient, counted: Calls | None = None) -> Calls:
    """Counts on one client that is there already."""
    counted = Counter() if counted is None else counted
    client.meta.events.register(EVENT, _Counting(counted))
    return counted


class _Counting:
    def __init__(self, counted: Calls) -> None:
        self._counted = counted

    def __call__(self, event_name: str, **_: object) -> None:
        service, operation = event_name.split(".")[1:3]
        self._counted[service, operation] += 1
