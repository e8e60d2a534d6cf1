"""What feeds the worker, stopped while jobs wait in the queue and started again: nothing is done meanwhile or lost."""

from __future__ import annotations

from tests.e2e.site import REASON, Site, numbered, until

POLICY, BUCKET = "fed", "e2e-fed"
JOBS, JOB_SIZE = 3, 10
KEYS = numbered(f"{POLICY}/", JOBS * JOB_SIZE)
SWITCHED_SECONDS = 60


def dispatched(site: Site) -> str:
    """A run whose jobs are all in the queue; nobody receives them."""
    site.fill(BUCKET, KEYS)
    site.age()
    run_id = site.start(POLICY)
    until(lambda: site.show(run_id)["state"] == "draining", 90, "its jobs are in the queue")
    return run_id


def nothing_is_done(site: Site, run_id: str) -> None:
    """Not in several ticks either."""
    for _ in range(2):
        site.tick()
        site.age()
    assert site.show(run_id)["jobs_by_state"] == {"ready": JOBS}
    assert site.keys(BUCKET) == KEYS


def all_is_done(site: Site, run_id: str) -> None:
    """Each object once, and proven."""
    site.closed(run_id)
    run = site.show(run_id)
    assert (run["state"], run["balanced"], run["planned"], run["deleted"]) == ("completed", True, len(KEYS), len(KEYS))
    assert (run["skipped"], run["dead"], run["deleted_unproven"]) == ({}, {}, 0)
    assert site.outcomes(run_id) == {(key, None): "deleted" for key in KEYS}
    assert site.keys(BUCKET) == []


def test_jobs_in_the_queue_outlast_a_disabled_mapping(site: Site) -> None:
    """Disabled at the mapping itself, without a word to the ledger."""
    with site.worker_held():
        until(lambda: site.feed() == "Disabled", SWITCHED_SECONDS, "the worker is fed no more")
        run_id = dispatched(site)
        nothing_is_done(site, run_id)

    all_is_done(site, run_id)


def test_jobs_in_the_queue_outlast_a_pause_of_all(site: Site) -> None:
    """The pause switches the mapping off, and holds even where a person switches it on again: then jobs are parked."""
    with site.worker_held():
        run_id = dispatched(site)
        assert site.told("pause", "--reason", REASON)["trouble"] is None
        nothing_is_done(site, run_id)
    until(lambda: site.feed() == "Enabled", SWITCHED_SECONDS, "somebody feeds the worker all the same")
    until(lambda: site.queued() == 0, SWITCHED_SECONDS, "each message was taken and let go")
    nothing_is_done(site, run_id)

    assert site.told("resume", "--reason", REASON)["trouble"] is None
    all_is_done(site, run_id)
