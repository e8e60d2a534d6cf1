"""What AWS and the network do to a call, on the deployed stack: each run ends with its books balanced all the same.

microburst stands behind the proxy and answers the functions' own calls: it throttles, breaks off, keeps waiting,
refuses, and loses replies after the write was applied. Each fault has a policy, a run and objects of its own, and all
of them are recovered from at once, since most of the time is spent waiting for a lease or a message to come back.

Three things are not microburst's. It kills no process: the proxy does, at a chosen call. It has no errors of single
keys within an answer: those are tested on recorded ones. And what the event source mapping does with the queue happens
inside the emulator, where no fault reaches it.
"""

from __future__ import annotations

import pytest
from microburst.rules import Rule as Fault

from tests.e2e.faults import Faults
from tests.e2e.hardships import BUCKET, HARDSHIPS, HIDE, KILLED, KILLED_SIZE, KILLS, OBJECTS, Hardship, Struck, Unproven
from tests.e2e.proxy import Rule
from tests.e2e.site import Site, numbered

# Of the slowest, a worker killed twice: each time its lease, its message's visibility, and other work in between.
# No more than minutes, but a busy machine makes many of them.
RECOVERED_SECONDS = 600
pytestmark = pytest.mark.timeout(2 * RECOVERED_SECONDS)

PROVEN, UNPROVEN = "deleted", "deleted:absent_after_attempt"


@pytest.fixture(scope="module")
def recovered(site: Site, struck: dict[str, Struck]) -> dict[str, Struck]:
    """Every run, at its end."""
    site.closed(*(each.run_id for each in struck.values()), within=RECOVERED_SECONDS)
    return struck


def outcomes_of(site: Site, policy: str, run_id: str) -> list[str]:
    """Each object's outcome, of a run that ended as it should: everything planned is gone, and nothing else."""
    run = site.show(run_id)
    assert (run["state"], run["balanced"], run["open"]) == ("completed", True, 0)
    assert (run["planned"], run["deleted"]) == (OBJECTS, OBJECTS)
    assert (run["skipped"], run["dead"], run["cancelled"]) == ({}, {}, 0)
    assert site.keys(BUCKET, f"{policy}/") == [f"{policy}/kept/1"]
    assert site.keys(BUCKET, f"beside-{policy}/") == [f"beside-{policy}/1"]
    assert site.told("verify", run_id)["holds"]
    outcomes = site.outcomes(run_id)
    assert sorted(outcomes) == [(key, None) for key in numbered(f"{policy}/", OBJECTS)]
    assert run["deleted_unproven"] == list(outcomes.values()).count(UNPROVEN)
    return list(outcomes.values())


def events(site: Site, policy: str) -> list[str]:
    """What befell the job of a policy's only run, in order."""
    (fate,) = site.told("explain", f"s3://{BUCKET}/{numbered(f'{policy}/', OBJECTS)[3]}")["runs"]
    return [failed["event"] for failed in fate["history"]]


@pytest.mark.parametrize("hardship", HARDSHIPS, ids=lambda hardship: hardship.name)
def test_a_run_gets_through(hardship: Hardship, recovered: dict[str, Struck], site: Site) -> None:
    """And of what it deleted it says that it is not proven only where the reply of a deletion was lost.

    Or where a worker had no time to say so, on a machine that is too busy for it: the history tells of that, too.
    """
    run = recovered[hardship.name]
    outcomes = set(outcomes_of(site, hardship.name, run.run_id))

    assert isinstance(run.by, Fault)
    assert hardship.fires <= run.by.fired_count <= run.by.times
    if hardship.unproven is Unproven.SOME or "no_record" in events(site, hardship.name):
        assert outcomes in ({PROVEN}, {UNPROVEN})
    else:
        assert outcomes == {UNPROVEN if hardship.unproven is Unproven.ALL else PROVEN}


def test_workers_killed_at_work_lose_nothing(recovered: dict[str, Struck], site: Site) -> None:
    """Each died after its deletion and before it said so: of those objects nothing is proven."""
    run = recovered[KILLED]
    outcomes = outcomes_of(site, KILLED, run.run_id)

    assert isinstance(run.by, Rule)
    assert len(run.by.struck) == KILLS
    assert outcomes.count(UNPROVEN) >= KILLS * KILLED_SIZE


@pytest.mark.usefixtures("recovered")
def test_a_message_that_could_not_be_hidden_comes_back(faults: Faults) -> None:
    """Its visibility ends by itself: the runs above did not need the call that hides it for a shorter while."""
    hiding = faults.made[HIDE]

    assert hiding.fired_count == hiding.times
