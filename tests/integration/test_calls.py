"""What a run costs in AWS calls: 16 for each thousand objects, and a hundred for the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import pytest
from sexton.policy import Policy

from tests.fakes.calls import Calls
from tests.fakes.world import World, policy
from tests.integration import on_moto
from tests.integration.on_moto import Functions

OBJECTS = 10_000
BUDGET = 16 * OBJECTS // 1000 + 100
RECEIVED = 1  # the event source mapping's own calls are not ours to count


def table(calls: Mapping[object, int]) -> str:
    """The calls by operation, most first."""
    lines = [f"{number:6}  {operation}" for operation, number in Counter(calls).most_common()]
    return "\n".join([f"{sum(calls.values())} calls, {BUDGET} are allowed:", *lines])


@pytest.fixture(scope="module")
def process() -> Iterator[Calls]:
    with on_moto.process() as calls:
        yield calls


@pytest.fixture
def functions(process: Calls, monkeypatch: pytest.MonkeyPatch) -> Iterator[Functions]:
    with on_moto.functions(process, monkeypatch) as functions:
        yield functions


def neighbours() -> Iterator[str]:
    return (f"app/{number:05d}" for number in range(OBJECTS))


def test_ten_thousand_neighbours_through_the_real_handlers_and_adapters(functions: Functions) -> None:
    functions.deploy(policy(source={"kind": "s3", "bucket": "items", "prefixes": ["app/"]}))
    functions.put(neighbours())
    answer = functions.trigger()
    while functions.run(answer).state != "completed":
        while functions.work():
            pass
        functions.tick()
    run = functions.run(answer)
    counted = functions.calls.copy()
    assert (run.balanced, run.planned, functions.report(run)["deleted"]) == (True, OBJECTS, OBJECTS)
    assert sum(counted.values()) <= BUDGET, table(counted)
    assert counted["s3", "DeleteObjects"] == OBJECTS // 1000, table(counted)
    assert counted["s3", "HeadObject"] == 0, table(counted)


def test_ten_thousand_neighbours_in_memory() -> None:
    calls = calls_of(policy())
    assert sum(calls.values()) <= BUDGET, table(calls)
    assert calls["bucket.remove"] == OBJECTS // 1000, table(calls)
    assert calls["bucket.head"] == 0, table(calls)


def calls_of(chosen: Policy) -> Counter[str]:
    """The port calls of a whole run: none of them makes more than one call of AWS for neighbours."""
    world = World(policies={chosen.id: chosen})
    world.fill(neighbours())
    answer = world.trigger()
    world.settle()
    run = world.run(answer)
    assert (run.state, run.balanced, run.planned) == ("completed", True, OBJECTS)
    return Counter(world.trace.names)


@pytest.mark.parametrize(("job_size", "a_thousand"), [(1000, 16), (500, 32), (100, 160)])
def test_the_cost_goes_with_the_number_of_jobs(job_size: int, a_thousand: int) -> None:
    calls = calls_of(policy(job_size=job_size, limits={"max_items": 100_000}))
    assert sum(calls.values()) <= a_thousand * OBJECTS // 1000 + 100, table(calls)


def test_a_report_costs_a_few_calls_for_each_thousand() -> None:
    world = World(policies={"logs-expire": policy(mode="report")})
    world.fill(neighbours())
    world.trigger()
    calls = Counter(world.trace.names)
    assert sum(calls.values()) <= 4 * OBJECTS // 1000 + 20, table(calls)


def test_an_idle_tick_costs_a_handful_of_calls() -> None:
    """It comes 43,200 times a month."""
    world = World()
    world.fill(["app/1"])
    world.trigger()
    world.settle()
    world.trace.calm()
    world.tick()
    calls = Counter(name for name in world.trace.names if name != "gauges.put")  # a line of log, and no call
    assert sum(calls.values()) <= 4, table(calls)  # three lists of the index, and the pauses
