"""The straight line, as a person goes it: buckets are filled, then there is only the `sexton` command.

In between, a schedule's event or a change in a bucket; what is left of each bucket is looked at at the end.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.proxy import Call, Proxy
from tests.e2e.site import TAKEN_SECONDS, Site, now, numbered, stamp, until

pytestmark = pytest.mark.usefixtures(  # so that recovery from crashes and faults goes on meanwhile
    "begun", "struck", "killed", "struck_records"
)

LOGS, DOCUMENTS, UPLOADS, EXPORTS = "e2e-logs", "e2e-documents", "e2e-uploads", "e2e-exports"
ENDED_SECONDS = 150

# Under `app/`. What S3 itself allows and XML does not has its tests where both emulators are known not to lie.
ODD_KEYS = [
    "app//double",
    "app/.",
    "app/..",
    "app/../b",
    "app/100%",
    "app/a b",
    "app/a%2Fb",
    "app/a%252Fb",
    "app/a+b",
    "app/a&b<c>'\"",
    "app/a=b;c,d@e:f$g",
    "app/a\\b",
    "app/dir/",
    "app/ü/é/🎈",
    "app/" + "k" * 1020,  # S3 counts bytes: 1,024 of them
    "app/" + "é" * 510,
]
TWINS = ["app/twins/a b", "app/twins/a+b", "app/twins/a%2Fb", "app/twins/100%"]


def watched(site: Site, run_id: str) -> int:
    """Follow a run with `run watch`, with a tick now and then, and give its exit code."""
    watching = site.begin("run", "watch", run_id, "--timeout", str(ENDED_SECONDS), "--json")

    def ended() -> bool:
        site.tick()
        return watching.poll() is not None

    until(ended, ENDED_SECONDS + 30, f"{run_id} was watched to its end")
    out, _ = watching.communicate()
    assert json.loads(out)["run_id"] == run_id
    return watching.returncode


@pytest.fixture(scope="module")
def logs(site: Site) -> dict[str, Any]:
    """A run over an unversioned bucket, at its end, as `run show` tells it."""
    spared = ["app/audit/1", "other/1", "app.txt"]
    site.fill(LOGS, [*numbered("app/2026/", 2000), *ODD_KEYS, TWINS[0], *spared])
    site.age()
    at = now()
    site.fill(LOGS, TWINS[1:])  # too young for this run
    run_id = site.sexton("run", "start", "logs-expire", "--reason", "r", "--at", stamp(at)).out.strip()
    assert watched(site, run_id) == 0
    return dict(json.loads(site.sexton("run", "show", run_id, "--json").out))


def test_a_run_ends_completed_and_balanced(logs: dict[str, Any]) -> None:
    planned = 2000 + len(ODD_KEYS) + 1

    assert (logs["state"], logs["balanced"], logs["mode"]) == ("completed", True, "enforce")
    assert logs["scanned"] == planned + 3 + 1
    assert logs["planned"] == logs["deleted"] == planned
    assert logs["planned_bytes"] == planned
    assert logs["jobs"] == -(-planned // 100)
    assert (logs["skipped"], logs["dead"], logs["cancelled"], logs["open"]) == ({}, {}, 0, 0)


def test_exactly_what_was_old_and_in_scope_is_gone(site: Site, logs: dict[str, Any]) -> None:
    assert site.keys(LOGS) == sorted([*TWINS[1:], "app/audit/1", "other/1", "app.txt"])


def test_the_evidence_of_a_run_verifies(site: Site, logs: dict[str, Any]) -> None:
    verdict = site.sexton("verify", logs["run_id"], "--json")

    assert verdict.code == 0
    assert verdict.json["holds"]
    assert (verdict.json["digest"], verdict.json["planned"]) == (logs["digest"], logs["planned"])


def test_the_plan_can_be_read(site: Site, logs: dict[str, Any]) -> None:
    everything = site.told("plan", "show", logs["run_id"])
    some = site.sexton("plan", "show", logs["run_id"], "--limit", "3", "--json").json

    keys = [item["key"] for item in everything]
    assert sorted(keys) == sorted([*numbered("app/2026/", 2000), *ODD_KEYS, TWINS[0]])
    assert [item["key"] for item in some] == keys[:3]


@pytest.mark.parametrize("key", [ODD_KEYS[3], ODD_KEYS[-1], TWINS[0], "app/2026/00500"], ids=range(4))
def test_what_became_of_an_object_is_explained(site: Site, logs: dict[str, Any], key: str) -> None:
    explained = site.told("explain", f"s3://{LOGS}/{key}")

    (fate,) = explained["runs"]
    assert explained["now"] is None
    assert (fate["run_id"], fate["outcome"], fate["unproven"]) == (logs["run_id"], "deleted", False)
    assert fate["planned"]["key"] == key


def test_an_object_that_no_run_had_is_explained(site: Site, logs: dict[str, Any]) -> None:
    explained = site.sexton("explain", f"s3://{LOGS}/app/audit/1", "--json").json

    assert explained["runs"] == []
    (verdict,) = [each for each in explained["policies"] if each["policy"] == "logs-expire"]
    assert (verdict["action"], verdict["reason"]) == ("keep", "excluded")


def test_a_duplicate_of_a_trigger_finds_the_run(site: Site, logs: dict[str, Any]) -> None:
    """EventBridge delivers at least once, and Lambda repeats what failed: one run, one plan."""
    event = {"policy": "logs-expire", "scheduled_time": logs["scheduled_time"]}
    for _ in range(2):
        reply = site.functions.invoke(FunctionName=site.function("Discovery"), Payload=json.dumps(event))
        answer = json.load(reply["Payload"])
        assert (answer["run_id"], answer["created"], answer["state"]) == (logs["run_id"], False, "completed")

    assert site.told("run", "start", "logs-expire", "--reason", "r", "--at", logs["scheduled_time"])["created"] is False
    assert [each["run_id"] for each in site.told("run", "list", "--policy", "logs-expire")] == [logs["run_id"]]
    assert site.show(logs["run_id"]) == logs


def test_a_duplicate_of_a_message_makes_no_call(site: Site, logs: dict[str, Any], proxy: Proxy) -> None:
    """SQS delivers at least once: a job that is settled is not worked on again."""
    sent = [c for c in proxy.made(site.function("Discovery")) if c.operation == "sqs:SendMessageBatch"]
    (first, *_) = [json.loads(call.body)["Entries"] for call in sent if call.holds(logs["run_id"])]
    before = len(proxy.calls)
    for entry in first[:3]:
        site.send(entry["MessageBody"])

    def calls() -> list[Call]:
        made = proxy.made(site.function("Worker"), since=before)
        return [call for call in made if call.holds(LOGS) or call.holds(logs["run_id"])]

    until(lambda: len(calls()) >= 3, TAKEN_SECONDS, "the worker has looked at the duplicates")
    site.age()
    assert {call.operation.split(":")[0] for call in calls()} == {"dynamodb"}
    assert site.show(logs["run_id"]) == logs


def test_a_report_makes_no_mutating_call(site: Site, proxy: Proxy) -> None:
    """Neither a policy that only reports nor a run narrowed to a report, whatever process it goes through."""
    days = [f"exports/dt=2020-01-{day:02d}/part-{part}.parquet" for day in range(1, 10) for part in range(10)]
    site.fill(EXPORTS, [*days, "exports/dt=2020-02-31/part-0.parquet", "exports/manifest.json"])
    site.fill(DOCUMENTS, numbered("documents/reported/", 50))
    site.age()
    there, before = site.versions(DOCUMENTS), len(proxy.calls)

    by_policy, by_request = site.start("exports-report"), site.start("documents-expire", "--mode", "report")
    for run_id, planned in ((by_policy, len(days)), (by_request, 50)):
        assert watched(site, run_id) == 0
        run = site.show(run_id)
        assert (run["state"], run["mode"], run["planned"], run["deleted"]) == ("reported", "report", planned, 0)
        assert len(site.told("plan", "show", run_id)) == planned
        assert site.told("verify", run_id)["holds"]
    site.tick()

    calls = [call for call in proxy.calls[before:] if call.holds(f"/{EXPORTS}") or call.holds(f"/{DOCUMENTS}")]
    assert {call.operation for call in calls} == {"s3:GetBucketVersioning", "s3:ListObjectsV2"}
    assert not [call for call in proxy.calls[before:] if call.operation.startswith("sqs:") and call.holds(by_policy)]
    assert len(site.keys(EXPORTS)) == len(days) + 2
    assert site.versions(DOCUMENTS) == there


def test_a_plan_waits_for_approval(site: Site) -> None:
    site.fill(UPLOADS, numbered("uploads/", 20))
    site.age()
    run_id = site.start("uploads-approval")

    assert watched(site, run_id) == 3
    run = site.show(run_id)
    assert (run["state"], run["planned"], run["open"]) == ("awaiting_approval", 20, 20)
    assert run["digest"]
    assert any("approval" in because for because in run["held_because"])
    assert [each["run_id"] for each in site.told("status")["awaiting_approval"]] == [run_id]
    assert "awaiting approval" in site.sexton("status").out
    assert len(site.keys(UPLOADS)) == 20


def test_a_versioned_bucket_gets_one_marker_a_key(site: Site) -> None:
    """And no version goes; a second run finds nothing to do, and places no second one."""
    keys = [*numbered("documents/a/", 1200), "documents/a b", "documents/é"]
    site.fill(DOCUMENTS, keys)
    site.age()
    _, markers = site.versions(DOCUMENTS)
    assert markers == []
    there = site.keys(DOCUMENTS)

    run_id = site.start("documents-expire")
    assert watched(site, run_id) == 0
    kept, markers = site.versions(DOCUMENTS)
    assert sorted(markers) == sorted(kept) == sorted(there)
    explained = site.told("explain", f"s3://{DOCUMENTS}/documents/a b")["runs"][0]
    assert (explained["outcome"], bool(explained["marker_version_id"])) == ("deleted", True)

    site.age()
    at = now()
    site.fill(DOCUMENTS, ["documents/young"])
    again = site.start("documents-expire", "--at", stamp(at))
    assert watched(site, again) == 0
    assert site.show(again)["planned"] == 0
    assert sorted(site.versions(DOCUMENTS)[1]) == sorted(there)


def test_what_was_rewritten_after_planning_stays(site: Site) -> None:
    """Other bytes, the same bytes again, and one that somebody else removed: each a skip that says why."""
    bucket, keys = "e2e-rewritten", numbered("rewritten/", 30)
    site.fill(bucket, keys)
    site.age()
    with site.worker_held():
        run_id = site.start("rewritten")
        until(lambda: site.show(run_id)["state"] == "draining", 90, "it is dispatched")
        site.fill(bucket, keys[:3], b"other bytes")
        site.fill(bucket, keys[10:13], b"x")
        site.s3.delete_object(Bucket=bucket, Key=keys[20])

    assert watched(site, run_id) == 0
    run = site.show(run_id)
    assert (run["deleted"], run["skipped"], run["balanced"]) == (23, {"changed": 6, "absent": 1}, True)
    assert site.keys(bucket) == [*keys[:3], *keys[10:13]]
    fate = site.told("explain", f"s3://{bucket}/{keys[11]}")["runs"][0]
    assert (fate["outcome"], fate["reason"]) == ("skipped", "changed")
    assert fate["observed"]["etag"] == fate["planned"]["etag"]
    assert fate["observed"]["last_modified"] > fate["planned"]["last_modified"]


def test_a_second_trigger_while_a_run_is_open_is_skipped(site: Site) -> None:
    site.fill("e2e-rewritten", numbered("rewritten/", 5))
    site.age()
    with site.worker_held():
        first = site.start("rewritten")
        site.age()
        second = site.asked("run", "start", "rewritten", "--reason", "r")
        assert second.code == 1
        assert second.json["error"]["code"] == "another_run_open"
        assert first in second.json["error"]["message"]
    site.closed(first, within=ENDED_SECONDS)
    assert site.show(first)["balanced"]


def test_a_bucket_that_is_gone_ends_the_run_and_says_so(site: Site) -> None:
    site.s3.delete_bucket(Bucket="e2e-missing")
    run_id = site.start("missing-bucket")

    assert watched(site, run_id) == 1
    run = site.show(run_id)
    assert (run["state"], run["reason"], run["planned"], run["balanced"]) == ("invalidated", "source_refused", 0, True)
    assert "NoSuchBucket" in run["message"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("run", "start", "nobody-has-this", "--reason", "r"), "unknown_policy"),
        (("run", "start", "logs-expire", "--reason", "r", "--at", "2199-01-01T00:00:00Z"), "bad_event"),
        (("run", "show", "logs-expire.20200101T000000Z.1"), "unknown_run"),
        (("run", "show", "what"), "bad_run_id"),
        (("verify", "logs-expire.20200101T000000Z.1"), "no_plan"),
        (("status", "--stack", "Nobodys"), "stack_not_found"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_done_is_refused_with_a_reason(site: Site, arguments: tuple[str, ...], code: str) -> None:
    answer = site.sexton(*arguments, "--json")

    assert answer.code == 1
    assert answer.json["error"]["code"] == code
    assert answer.json["error"]["message"]
    assert answer.json["error"]["hint"]


def test_an_endpoint_that_is_down_is_told(site: Site) -> None:
    answer = site.sexton(
        "run", "start", "logs-expire", "--reason", "r", AWS_ENDPOINT_URL="http://127.0.0.1:9", AWS_MAX_ATTEMPTS="1"
    )

    assert answer.code == 1
    assert answer.out == ""
    assert "error: " in answer.err
    assert "AWS_ENDPOINT_URL" in answer.err
