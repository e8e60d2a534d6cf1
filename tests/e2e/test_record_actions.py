"""What else is done with records on the deployed stack: marked, archived and put back, called for.

Calls go to an application of the tests, which knows one that comes again by its Idempotency-Key.
"""

from __future__ import annotations

from typing import Any

import pytest

from infra.local.demo.application import Application
from tests.e2e.proxy import Proxy, Rule, Strike
from tests.e2e.record_stories import (
    ARCHIVE,
    CALL,
    CALL_KILLED,
    CALL_ONCE,
    CALLS,
    DAY,
    FEW,
    MARK,
    MARKED,
    key_of,
    put,
    record,
    there,
)
from tests.e2e.site import REASON, TAKEN_SECONDS, Site, now, until

CLOSED_SECONDS = 2 * TAKEN_SECONDS


def few(policy: str) -> list[dict[str, Any]]:
    """Records that are due, and one that is not, with an attribute that nobody judges by."""
    due = [record(policy, f"{number:05d}", now() - DAY, note={"L": [{"S": "é"}]}) for number in range(FEW)]
    return [*due, record(policy, "later", now() + DAY)]


def by_key(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(records, key=key_of)


def closed(site: Site, run_id: str, done: int) -> dict[str, Any]:
    """A run at its end, in which so much was done and proven."""
    site.closed(run_id, within=CLOSED_SECONDS)
    run = site.show(run_id)
    assert (run["state"], run["balanced"], run["open"]) == ("completed", True, 0)
    assert (run["deleted"], run["deleted_unproven"]) == (done, 0)
    assert site.told("verify", run_id)["holds"]
    return run


def test_records_are_marked_once_and_stay(site: Site) -> None:
    *due, later = few(MARK)
    put(site, [*due, later])
    run = closed(site, site.start(MARK), FEW)

    assert run["planned"] == FEW
    assert by_key(there(site, MARK)) == by_key([*(each | MARKED for each in due), later])

    site.age()
    again = closed(site, site.start(MARK), 0)
    assert (again["planned"], again["scanned_by"]) == (0, {"marked": FEW})


def test_what_was_archived_is_put_back_unless_its_key_is_in_use(site: Site) -> None:
    everything = few(ARCHIVE)
    put(site, everything)
    run_id = site.start(ARCHIVE)
    closed(site, run_id, FEW)
    assert there(site, ARCHIVE) == everything[-1:]

    another = record(ARCHIVE, "00002", now() + DAY, note={"S": "of somebody else"})
    put(site, [another])
    undone = site.told("run", "undo", run_id, "--reason", REASON)
    try:
        run = closed(site, undone["run_id"], FEW - 1)
    finally:  # they keep the whole table, which other tests have records in
        for place in undone["held"]:
            site.told("hold", "release", place, "--reason", REASON)

    assert run["skipped"] == {"key_in_use": 1}
    kept = [each for each in everything if key_of(each) != key_of(another)]
    assert by_key(there(site, ARCHIVE)) == by_key([*kept, another])


def put_calls(site: Site, policy: str) -> list[dict[str, Any]]:
    """The records that a policy's calls are about."""
    records = [record(policy, name, now() - DAY) for name in CALLS[policy]]
    put(site, records)
    return records


def test_an_application_does_each_thing_once_whatever_becomes_of_the_call(site: Site, application: Application) -> None:
    """A lost reply, a busy moment that passes, and one that is refused for good."""
    records = put_calls(site, CALL)
    run = closed(site, site.start(CALL), len(records) - 1)

    heard = {name.removeprefix(f"{CALL}-"): came for name, came in application.heard.items() if CALL in name}
    assert {name: came.answers for name, came in heard.items()} == {
        "plain": ["204"],
        "reply-lost": ["no answer", "200"],
        "busy": ["503", "204"],
        "refused": ["422"],
    }
    assert {name: came.done for name, came in heard.items()} == {"plain": 1, "reply-lost": 1, "busy": 1, "refused": 0}
    assert {len(came.keys) for came in heard.values()} == {1}
    assert len({key for came in heard.values() for key in came.keys}) == len(heard)
    assert (run["dead"], by_key(there(site, CALL))) == ({"http_422": 1}, by_key(records))
    (letter,) = [each for each in site.told("dlq", "list") if each["run_id"] == run["run_id"]]
    assert (letter["reason_class"], letter["reason"], letter["attempts"]) == ("permanent", "http_422", 1)
    assert letter["first_key"] == key_of(record(CALL, "refused", now()))
    assert letter["next_action"]


def test_a_refused_call_is_made_again_under_its_key_when_it_is_replayed(site: Site, application: Application) -> None:
    """The application has thought better of it meanwhile."""
    (letter,) = [each for each in site.told("dlq", "list") if each["reason"] == "http_422"]
    before = application.heard[f"{CALL}-refused"]
    key, answers = set(before.keys), len(before.answers)
    application.moods = {**application.moods, f"{CALL}-refused": application.moods[f"{CALL}-plain"]}

    site.told("dlq", "replay", letter["job_id"], "--reason", REASON)
    run = closed(site, letter["run_id"], len(CALLS[CALL]))

    after = application.heard[f"{CALL}-refused"]
    assert (run["dead"], after.keys, after.answers[answers:], after.done) == ({}, key, ["204"], 1)


@pytest.fixture(scope="module")
def killed_calls(site: Site, proxy: Proxy) -> dict[str, str]:
    """By policy a run, at its end, whose worker was killed after its call and before it could say so."""
    at, runs = now(), dict[str, str]()
    for policy in (CALL_KILLED, CALL_ONCE):  # one by one, so that no two share a batch
        put_calls(site, policy)
        runs[policy] = f"{policy}.{at:%Y%m%dT%H%M%SZ}.1"
        rule = proxy.add(Rule("dynamodb:UpdateItem", (f"RUN#{runs[policy]}", "settled_at"), Strike.KILL_BEFORE))
        assert site.trigger(policy, at) == runs[policy]
        until(rule.hit.is_set, TAKEN_SECONDS, f"{policy} is struck at its settlement", every=0.2)
    site.closed(*runs.values(), within=CLOSED_SECONDS)
    return runs


def test_a_call_comes_again_under_its_key_where_a_repeat_is_safe(
    site: Site, application: Application, killed_calls: dict[str, str]
) -> None:
    run, heard = closed(site, killed_calls[CALL_KILLED], 1), application.heard[f"{CALL_KILLED}-plain"]

    assert (heard.answers, len(heard.keys), heard.done, run["dead"]) == (["204", "200"], 1, 1, {})


def test_a_call_is_for_a_person_to_judge_where_a_repeat_is_not_safe(
    site: Site, application: Application, killed_calls: dict[str, str]
) -> None:
    run, heard = closed(site, killed_calls[CALL_ONCE], 0), application.heard[f"{CALL_ONCE}-plain"]

    assert (heard.answers, heard.done, run["dead"]) == (["204"], 1, {"effect_unknown": 1})
