"""What AWS and the network do to a call, on the deployed stack: each run ends with its books balanced all the same.

microburst stands behind the proxy and answers the functions' own calls: it throttles, breaks off, keeps waiting,
refuses, and loses replies after the write was applied. Each fault has a policy, a run and objects of its own, and all
of them are recovered from at once, since most of the time is spent waiting for a lease or a message to come back.

Two things are not microburst's. It kills no process: the proxy does, at a chosen call. And what the event source
mapping does with the queue happens inside the emulator, where no fault reaches it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pytest
from microburst.rules import Rule as Fault

from tests.e2e.faults import Faults
from tests.e2e.hardships import (
    BUCKET,
    HARDSHIPS,
    HIDE,
    HIDING_FAILS,
    KILLED,
    KILLED_SIZE,
    KILLS,
    OBJECTS,
    Hardship,
    Unproven,
)
from tests.e2e.proxy import Proxy, Rule, Strike
from tests.e2e.site import Site, now, numbered, stamp

# Of the slowest, a late claim: its worker's time, its lease, its message's visibility, and other work in between.
RECOVERED_SECONDS = 300
AT_ONCE = 3  # discoveries; each begins as a process of its own
PROVEN, UNPROVEN = "deleted", "deleted:absent_after_attempt"


@pytest.fixture(scope="module")
def struck(site: Site, proxy: Proxy, faults: Faults) -> Mapping[str, Fault | Rule]:
    """By policy what struck its run; every run is closed."""
    policies = [*(hardship.name for hardship in HARDSHIPS), KILLED]
    for policy in policies:
        site.fill(BUCKET, [*numbered(f"{policy}/", OBJECTS), f"{policy}/kept/1", f"beside-{policy}/1"])
    site.age()
    at = now()
    rules: dict[str, Fault | Rule] = {each.name: faults.strike(each.name, **each.fault) for each in HARDSHIPS}
    rules[HIDE] = faults.strike(HIDE, **HIDING_FAILS)
    rules[KILLED] = proxy.add(Rule("s3:DeleteObjects", (f"{KILLED}/",), Strike.KILL_AFTER, times=KILLS))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        run_ids = list(pool.map(lambda policy: begin(site, policy, at), policies))
    site.closed(*run_ids, within=RECOVERED_SECONDS)
    return rules


def begin(site: Site, policy: str, at: datetime) -> str:
    """The schedule's event, and the run's id. Discovery may fail of it; then the tick goes on."""
    event = json.dumps({"policy": policy, "scheduled_time": stamp(at)})
    site.functions.invoke(FunctionName=site.function("Discovery"), Payload=event)
    return f"{policy}.{at:%Y%m%dT%H%M%SZ}.1"


def outcomes_of(site: Site, policy: str) -> list[str]:
    """Each object's outcome, of a policy whose run ended as it should: everything planned is gone, nothing else is."""
    (line,) = site.told("run", "list", "--policy", policy)
    run = site.show(line["run_id"])
    assert (run["state"], run["balanced"], run["open"]) == ("completed", True, 0)
    assert (run["planned"], run["deleted"]) == (OBJECTS, OBJECTS)
    assert (run["skipped"], run["dead"], run["cancelled"]) == ({}, {}, 0)
    assert site.keys(BUCKET, f"{policy}/") == [f"{policy}/kept/1"]
    assert site.keys(BUCKET, f"beside-{policy}/") == [f"beside-{policy}/1"]
    assert site.told("verify", run["run_id"])["holds"]
    outcomes = site.outcomes(run["run_id"])
    assert sorted(outcomes) == [(key, None) for key in numbered(f"{policy}/", OBJECTS)]
    assert run["deleted_unproven"] == list(outcomes.values()).count(UNPROVEN)
    return list(outcomes.values())


@pytest.mark.parametrize("hardship", HARDSHIPS, ids=lambda hardship: hardship.name)
def test_a_run_gets_through(hardship: Hardship, struck: Mapping[str, Fault | Rule], site: Site) -> None:
    """And of what it deleted it says that it is not proven only where the reply of a deletion was lost."""
    outcomes = outcomes_of(site, hardship.name)

    fault = struck[hardship.name]
    assert isinstance(fault, Fault)
    assert hardship.fires <= fault.fired_count <= fault.times
    if hardship.unproven is Unproven.SOME:
        assert set(outcomes) in ({PROVEN}, {UNPROVEN})
    else:
        assert set(outcomes) == {UNPROVEN if hardship.unproven is Unproven.ALL else PROVEN}


def test_workers_killed_again_and_again_lose_nothing(struck: Mapping[str, Fault | Rule], site: Site) -> None:
    """Each died after its deletion and before it said so: of those objects alone nothing is proven."""
    outcomes = outcomes_of(site, KILLED)

    kills = struck[KILLED]
    assert isinstance(kills, Rule)
    assert len(kills.struck) == KILLS
    assert outcomes.count(UNPROVEN) == KILLS * KILLED_SIZE


def test_a_message_that_could_not_be_hidden_comes_back(struck: Mapping[str, Fault | Rule]) -> None:
    """Its visibility timeout ends, and with it the wait: the runs above did not need the call to go through."""
    hiding = struck[HIDE]
    assert isinstance(hiding, Fault)
    assert hiding.fired_count == hiding.times
