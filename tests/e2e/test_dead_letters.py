"""Dead letters on the deployed stack: jobs that die reach the queue by redrive, and forged messages lead to no call."""

from __future__ import annotations

import json
from typing import Any

import pytest
from microburst.rules import Rule as Fault

from tests.e2e.faults import Faults
from tests.e2e.proxy import Proxy
from tests.e2e.site import TAKEN_SECONDS, Site, numbered, until

pytestmark = pytest.mark.usefixtures("begun")  # so that recovery from the crashes goes on meanwhile

DENIED, FORGED = "e2e-denied", "e2e-forged"
REFUSAL = {"code": "AccessDenied", "status": 403, "message": "User is not authorized to perform: s3:DeleteObject"}
CLOSED_SECONDS = 150
MOVED_SECONDS = 150  # a message is received fifteen times before SQS moves it


@pytest.fixture(scope="module")
def denied(site: Site, faults: Faults) -> tuple[str, Fault]:
    """A run whose worker may not delete, at its end: each time that it was halted for that, it was resumed."""
    site.fill(DENIED, numbered("denied/", 15))
    site.age()
    refused = faults.strike(f"/{DENIED}", service="s3", operation="DeleteObjects", error=REFUSAL)
    run_id = site.start("denied")

    def closed() -> bool:
        site.tick()
        run = site.show(run_id)
        if run["state"] == "halted":
            site.told("run", "resume", run_id, "--reason", "perhaps it goes now")
        return run["closed_at"] is not None

    until(closed, CLOSED_SECONDS, f"{run_id} is closed")
    return run_id, refused


def test_a_refusal_for_good_halts_the_run_before_anything_dies_of_it(site: Site, denied: tuple[str, Fault]) -> None:
    changes = site.show(denied[0])["changes"]
    stops = [(each["change"], each["actor"]) for each in changes if each["change"] in ("halted", "resumed")]

    assert stops[0] == ("halted", "sexton")
    assert [change for change, _ in stops] == ["halted", "resumed"] * (len(stops) // 2)


def test_a_job_that_is_refused_again_is_dead_at_once(site: Site, denied: tuple[str, Fault]) -> None:
    """It was given back once, and then tried once more, however often its message comes again."""
    run_id, refused = denied
    run = site.show(run_id)

    assert (run["state"], run["balanced"], run["deleted"]) == ("completed", True, 0)
    assert run["dead"] == {"AccessDenied": 15}
    assert refused.fired_count == 2 * 2
    assert len(site.keys(DENIED)) == 15
    assert site.told("verify", run_id)["holds"]
    assert site.sexton("run", "watch", run_id).code == 1


def test_a_dead_job_is_listed_with_all_that_is_needed_to_judge_it(site: Site, denied: tuple[str, Fault]) -> None:
    run_id, _ = denied
    letters = [each for each in site.told("dlq", "list") if each["run_id"] == run_id]

    assert sorted(letter["items"] for letter in letters) == [5, 10]
    for letter in letters:
        assert (letter["reason_class"], letter["reason"], letter["attempts"]) == ("permanent", "AccessDenied", 1)
        assert letter["first_claim_at"] <= letter["dead_at"]
        assert letter["next_action"]
        assert "not authorized" in letter["summary"]
    status = site.told("status")
    assert status["dead"]["by_reason"]["AccessDenied"] == 15
    assert run_id in [each["run_id"] for each in status["for_a_person"]]


def test_a_dead_jobs_message_comes_to_the_dead_letter_queue_by_redrive(site: Site, denied: tuple[str, Fault]) -> None:
    """Only what SQS moved itself can be redriven to its source from the console."""
    run_id, refused = denied

    def moved() -> list[dict[str, Any]]:
        there = [message for message in site.dead_messages() if run_id in message["Body"]]
        return there if len(there) == 2 else []

    messages = until(moved, MOVED_SECONDS, "both messages are in the dead-letter queue", every=4)
    asked = {"QueueUrl": site.stage.outputs["JobsQueueUrl"], "AttributeNames": ["QueueArn"]}
    source = site.sqs.get_queue_attributes(**asked)["Attributes"]["QueueArn"]
    assert [message["Attributes"]["DeadLetterQueueSourceArn"] for message in messages] == [source, source]
    assert {json.loads(message["Body"])["job_id"] for message in messages} == {
        letter["job_id"] for letter in site.told("dlq", "list") if letter["run_id"] == run_id
    }
    assert refused.fired_count == 2 * 2


def forgeries(messages: list[dict[str, Any]]) -> dict[str, tuple[str, str]]:
    """By what is wrong with it: a body, and the kind of its record. All but the first two are of the right form."""
    first, second = messages
    part = ("part_key", "part_sha256", "first_key")
    altered = {
        "another part": {name: second[name] for name in part},
        "another hash": {"part_sha256": second["part_sha256"]},
        "another range": {"end": first["end"] - 1, "count": first["count"] - 1},
        "another policy version": {"policy_version": "0" * 64},
        "a later cutoff": {"cutoff": "2199-01-01T00:00:00Z"},
        "an unknown job": {"job_id": first["job_id"].replace("00000000", "00000099")},
        "an unknown run": {name: first[name].replace("Z.1", "Z.7") for name in ("job_id", "run_id")},
    }
    kinds = {name: (json.dumps(first | fields), "policy_mismatch") for name, fields in altered.items()}
    other_schema = json.dumps({**first, "schema": 2})
    return {"no JSON": ("<b>hello</b>", "malformed"), "another schema": (other_schema, "malformed")} | kinds


@pytest.fixture(scope="module")
def forged(site: Site, proxy: Proxy) -> dict[str, Any]:
    """A run at work whose own messages were lost, and forged ones in their place, each of which was looked at."""
    site.fill(FORGED, numbered("forged/", 20))
    site.age()
    with site.worker_held():
        run_id = site.start("forged")
        until(lambda: site.show(run_id)["state"] == "draining", 90, "it is dispatched")
        taken = until(lambda: site.take(run_id, 2), TAKEN_SECONDS, "its two messages are taken off the queue")
        before = len(proxy.calls)
        bodies = forgeries(sorted(map(json.loads, taken), key=lambda message: message["job_id"]))
        sent = {site.send(body): (name, body, kind) for name, (body, kind) in bodies.items()}

    def recorded() -> list[dict[str, Any]]:
        records = [each for each in site.told("status")["malformed"] if each["message_id"] in sent]
        return records if len(records) == len(sent) else []

    records = until(recorded, 90, "each forged message has its record")
    return {"run_id": run_id, "sent": sent, "records": records, "before": before}


def test_a_forged_message_leads_to_no_call(site: Site, proxy: Proxy, forged: dict[str, Any]) -> None:
    calls = proxy.made(site.function("Worker"), since=forged["before"])

    assert not [call for call in calls if call.operation.startswith("s3:") and call.holds(f"/{FORGED}")]
    assert not [call for call in calls if call.operation.startswith("s3:") and call.holds(forged["run_id"])]
    assert len(site.keys(FORGED)) == 20
    assert site.show(forged["run_id"])["jobs_by_state"] == {"ready": 2}


def test_a_forged_message_has_a_record_of_its_own(forged: dict[str, Any]) -> None:
    kinds = {record["message_id"]: record["kind"] for record in forged["records"]}

    assert kinds == {message_id: kind for message_id, (_, _, kind) in forged["sent"].items()}
    assert all(record["why"] for record in forged["records"])


def test_a_forged_message_ends_in_the_dead_letter_queue(site: Site, forged: dict[str, Any]) -> None:
    wanted = {body for _, body, _ in forged["sent"].values()}
    until(
        lambda: wanted <= {message["Body"] for message in site.dead_messages()},
        MOVED_SECONDS,
        "every forged message is in the dead-letter queue",
        every=4,
    )


def test_what_the_queue_lost_is_dispatched_again(site: Site, forged: dict[str, Any]) -> None:
    """The ledger, not the queue, is the truth."""
    site.closed(forged["run_id"])

    run = site.show(forged["run_id"])
    assert (run["state"], run["balanced"], run["deleted"], run["dead"]) == ("completed", True, 20, {})
    assert site.keys(FORGED) == []
