"""Planning takes no more memory for more objects, measured on listings that are made as they are read."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import pytest
from sexton.errors import CallFailed, Failure, ReasonClass
from sexton.item import Item
from sexton.ports import Listing

from tests.fakes.bucket import FakeBucket
from tests.fakes.evidence import FakeEvidence
from tests.fakes.time import START, FakeClock
from tests.fakes.world import World, policy

MEGABYTE = 1_000_000
FEW, MANY = 10_000, 200_000
STOPPED = Failure(ReasonClass.TRANSIENT, "Stopped", "the queue takes nothing: only planning is measured")


class EndlessBucket(FakeBucket):
    """So many objects `app/00000000` and on; one of each four had its time."""

    def __init__(self, objects: int) -> None:
        super().__init__(FakeClock())
        self.objects = objects

    def list(self, prefix: str, start_after: str = "", limit: int = 1000) -> Listing:
        self.calls["list"] += 1
        first = int(start_after.removeprefix("app/") or -1) + 1
        last = min(first + limit, self.objects)
        return Listing([_object(number) for number in range(first, last)], truncated=last < self.objects)


OLD, YOUNG, ETAG = START - timedelta(days=60), START - timedelta(days=1), f'"{0:032x}"'


def _object(number: int) -> Item:
    return Item(f"app/{number:08d}", ETAG, number, "STANDARD", YOUNG if number % 4 else OLD)


class CountingEvidence(FakeEvidence):
    """Keeps how much was written, and no content."""

    def put_once(self, key: str, content: bytes) -> bool:
        return super().put_once(key, b"")


@dataclass
class Measured:
    """Bytes. `peak` of all; `kept` of it at the end, by the fakes that stand for the ledger and the evidence."""

    peak: int = 0
    kept: int = 0


@contextmanager
def measured() -> Iterator[Measured]:
    found = Measured()
    tracemalloc.start()
    try:
        yield found
        found.kept, found.peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()


def planned(objects: int, job_size: int) -> Measured:
    """Plan so many objects, up to the first message."""
    limits = {"max_items": min(1_000_000, job_size * 99_999)}
    world = World(policies={"logs-expire": policy(job_size=job_size, limits=limits)})
    world.buckets["logs"] = EndlessBucket(objects)
    world.evidence = CountingEvidence()
    world.trace.run = lambda call, real: real(*call.args, **call.kwargs)  # type: ignore[method-assign, assignment]
    world.queue.send = _refuse  # type: ignore[method-assign]
    with measured() as found, pytest.raises(CallFailed, match="Stopped"):
        world.trigger()
    (run,) = world.ledger.runs("logs-expire")
    eligible = -(-objects // 4)
    assert (run.state, run.planned, run.scanned_total) == ("dispatching", eligible, objects)
    assert run.jobs == -(-eligible // job_size)
    return found


def _refuse(_: object) -> dict[str, Failure]:
    raise CallFailed(STOPPED)


def test_planning_twenty_times_as_many_objects_takes_no_more_memory() -> None:
    """A page and a part are in memory, and what the fakes keep of each job row; 190,000 items would be 30 MB."""
    few, many = planned(FEW, 1000), planned(MANY, 1000)
    assert few.peak < 5 * MEGABYTE
    assert many.peak - few.peak < 2 * MEGABYTE


def test_planning_many_jobs_takes_little_more_than_the_list_of_their_parts() -> None:
    """`plan.json` has a line for each part: that is all that grows, and stays far below a function's 1,024 MB."""
    few, many = planned(400, 1), planned(6_000, 1)
    assert (many.peak - many.kept) - (few.peak - few.kept) < 1_400 * 3_000
