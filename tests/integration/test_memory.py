"""Planning takes no more memory for more objects, measured on listings that are made as they are read."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import pytest
from sexton.errors import CallFailed, Failure, ReasonClass
from sexton.item import Item
from sexton.ports import Listing, Versions

from tests.fakes.bucket import FakeBucket
from tests.fakes.evidence import FakeEvidence
from tests.fakes.time import START, FakeClock
from tests.fakes.world import World, policy, purge_policy

MEGABYTE = 1_000_000
FEW, MANY, MILLION = 10_000, 200_000, 1_000_000
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
    """Keeps how much was written, and no content but the latest counts by cohort, which are read again."""

    def put_once(self, key: str, content: bytes) -> bool:
        if "/cohorts-" not in key:
            return super().put_once(key, b"")
        for older in [each for each in self.files if "/cohorts-" in each]:
            self.files[older] = b""
        return super().put_once(key, content)


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


class EndlessVersions(FakeBucket):
    """So many entries, four to a key: one that is current, one that had its time, a delete marker, one that had its."""

    def __init__(self, entries: int) -> None:
        super().__init__(FakeClock(), "Enabled")
        self.entries = entries

    def list_versions(self, prefix: str, after_key: str = "", after_version: str = "", limit: int = 1000) -> Versions:
        first = int(after_version or -1) + 1
        items = [_entry(number) for number in range(first, min(first + limit, self.entries))]
        last = items[-1]
        return Versions(items, first + limit < self.entries, last.key, str(last.version_id))


def _entry(number: int) -> Item:
    key, place, version = f"app/{number // 4:08d}", number % 4, f"{number:010d}"
    if place == 2:
        return Item(key, "", 0, "", OLD, version, rank=1, is_marker=True)
    return Item(key, ETAG, number, "STANDARD", OLD, version, rank=min(place, 1))


def planned(
    objects: int,
    job_size: int,
    versions: bool = False,
    watch: Callable[[], AbstractContextManager[Measured]] = measured,
    cohort: str | None = None,
) -> Measured:
    """Plan so many objects or versions, up to the first message. `cohort`: the pattern that tells whose each is."""
    rule = partial(purge_policy, id="logs-expire") if versions else policy
    limits = {"max_items": min(1_000_000, job_size * 99_999), "empty_cohort": cohort is not None}
    world = World(policies={"logs-expire": rule(job_size=job_size, limits=limits, cohort=cohort)})
    world.buckets["logs"] = EndlessVersions(objects) if versions else EndlessBucket(objects)
    world.evidence = CountingEvidence()
    world.trace.run = lambda call, real: real(*call.args, **call.kwargs)  # type: ignore[method-assign, assignment]
    world.queue.send = _refuse  # type: ignore[method-assign]
    with watch() as found, pytest.raises(CallFailed, match="Stopped"):
        world.trigger()
    (run,) = world.ledger.runs("logs-expire")
    eligible = objects // 2 if versions else -(-objects // 4)
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


def test_planning_as_many_cohorts_as_objects_takes_no_more_memory() -> None:
    """5,000 are counted apart, of either: 55,000 more would be 12 MB."""
    few, many = (planned(objects, 1000, cohort="app/{number}") for objects in (FEW, 60_000))
    assert few.peak < 10 * MEGABYTE
    assert many.peak - few.peak < 2 * MEGABYTE


def test_planning_a_million_versions_takes_no_more_memory() -> None:
    """What is carried from page to page is a date and a rank. The ledger's rows of 500 jobs are the fake's."""
    few, many = peak_of_a_process(FEW), peak_of_a_process(MILLION)
    assert many - few < 10 * MEGABYTE


def peak_of_a_process(versions: int) -> int:
    """The most memory of a process that plans so many versions: measuring each allocation would take minutes."""
    code = f"from tests.integration.test_memory import report_peak; report_peak({versions})"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    told = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    return int(told.stdout) * 1024


def report_peak(versions: int) -> None:
    """Plan, and print the most memory that this process had, in KiB."""
    planned(versions, 1000, versions=True, watch=lambda: nullcontext(Measured()))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def test_planning_many_jobs_takes_little_more_than_the_list_of_their_parts() -> None:
    """`plan.json` has a line for each part: that is all that grows, and stays far below a function's 1,024 MB."""
    few, many = planned(400, 1), planned(6_000, 1)
    assert (many.peak - many.kept) - (few.peak - few.kept) < 1_400 * 3_000
