"""The three handlers on moto, called as Lambda calls them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sexton.aws.edge import wired
from sexton.aws.table import DynamoTable
from sexton.errors import BadEvent, CallFailed, Failure, ReasonClass
from sexton.instant import ms
from sexton.reconcile import TickFailed

from tests.fakes.calls import Calls
from tests.fakes.world import policy, records_policy
from tests.integration import on_moto
from tests.integration.on_moto import LATER, Functions

SOURCE = {"kind": "s3", "bucket": "items", "prefixes": ["app/"]}
POLICY = policy(source=SOURCE)
SMALL_JOBS = policy(source=SOURCE, job_size=2, limits={"max_items": 1000})
UNAVAILABLE = Failure(ReasonClass.TRANSIENT, "InternalServerError", "try again")


@pytest.fixture(scope="module")
def process() -> Iterator[Calls]:
    with on_moto.process() as calls:
        yield calls


@pytest.fixture
def functions(process: Calls, monkeypatch: pytest.MonkeyPatch) -> Iterator[Functions]:
    with on_moto.functions(process, monkeypatch) as functions:
        yield functions


def test_the_straight_line_through_real_handlers_and_adapters(functions: Functions) -> None:
    functions.deploy(SMALL_JOBS)
    functions.put([*(f"app/{n}" for n in range(5)), "app/a b+c%2Fd", "other/1"])
    answer = functions.trigger()
    assert answer == {"run_id": answer["run_id"], "state": "draining", "created": True, "skipped": False}
    assert functions.work() == []
    functions.tick()
    run = functions.run(answer)
    assert (run.state, run.balanced, run.planned, run.jobs) == ("completed", True, 6, 3)
    assert functions.report(run)["deleted"] == 6
    assert functions.keys() == ["other/1"]
    events = [line["message"] for line in functions.logged()]
    assert events[:2] == ["run_triggered", "run_advanced"]
    assert events.count("job_claimed") == events.count("job_succeeded") == 3
    assert events[-1] == "run_closed"


def test_every_line_of_the_log_says_which_invocation_and_which_job(functions: Functions) -> None:
    functions.deploy(POLICY)
    functions.put(["app/1"])
    answer = functions.trigger()
    functions.work()
    (claimed,) = functions.logged("job_claimed")
    assert claimed["job_id"] == f"{answer['run_id']}.00000000"
    assert (claimed["run_id"], claimed["policy"], claimed["attempt"]) == (answer["run_id"], "logs-expire", 1)
    assert claimed["function_request_id"]


def test_a_report_leaves_everything_as_it_is(functions: Functions) -> None:
    functions.deploy(POLICY)
    functions.put(["app/1", "app/2"])
    answer = functions.trigger(mode="report")
    functions.tick()
    assert answer["state"] == "reported"
    assert functions.receive() == []
    assert functions.keys() == ["app/1", "app/2"]
    assert {operation for _, operation in functions.calls}.isdisjoint(
        {"DeleteObjects", "DeleteObject", "SendMessageBatch", "SendMessage"}
    )


def test_one_unparsable_record_of_ten_fails_alone(functions: Functions) -> None:
    functions.deploy(policy(source=SOURCE, job_size=1, limits={"max_items": 1000}))
    functions.put(f"app/{n}" for n in range(9))
    functions.trigger()
    body = '{"job_id": "logs-expire.20260301T120000Z.1.00000000"'
    bad = functions.sqs.send_message(QueueUrl=functions.queue, MessageBody=body)["MessageId"]
    assert functions.work() == [bad]
    assert functions.keys() == []
    (day,) = {item["pk"]["S"] for item in functions.rows() if item["pk"]["S"].startswith("MALFORMED#")}
    (record,) = [item for item in functions.rows() if item["sk"]["S"] == f"MESSAGE#{bad}"]
    assert (record["pk"]["S"], record["kind"]["S"]) == (day, "malformed")


@pytest.mark.parametrize(
    "error", [CallFailed(UNAVAILABLE), RuntimeError("a bug"), KeyError("row")], ids=["call failed", "bug", "key"]
)
def test_a_raising_adapter_keeps_the_message_and_only_that(
    functions: Functions, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    functions.deploy(SMALL_JOBS)
    functions.put(f"app/{n}" for n in range(6))
    functions.trigger()
    records, real = functions.receive(), DynamoTable.write
    broken = json.loads(records[1]["body"])["job_id"].rsplit(".", 1)[1]

    def write(table: DynamoTable, write: Any) -> Any:
        if write.key.sk == f"JOB#{broken}":
            raise error
        return real(table, write)

    monkeypatch.setattr(DynamoTable, "write", write)
    answer = functions.invoke("worker", {"Records": records})
    assert answer == {"batchItemFailures": [{"itemIdentifier": records[1]["messageId"]}]}
    (told,) = functions.logged("message_not_settled")
    assert (told["level"], told["message_id"]) == ("ERROR", records[1]["messageId"])
    assert len(functions.keys()) == 2


def test_a_batch_of_which_all_fails_names_all(functions: Functions) -> None:
    functions.deploy(POLICY)
    for _ in range(3):
        functions.sqs.send_message(QueueUrl=functions.queue, MessageBody="no message of ours")
    records = functions.receive()
    answer = functions.invoke("worker", {"Records": records})
    assert answer == {"batchItemFailures": [{"itemIdentifier": record["messageId"]} for record in records]}


def test_a_message_that_sqs_says_was_sent_after_the_death_replays_its_job(functions: Functions) -> None:
    functions.deploy(POLICY)
    functions.put(["app/1"])
    answer = functions.trigger()
    (record,) = functions.receive()
    (part,) = (each["Key"] for each in functions.s3.list_objects_v2(Bucket="evidence", Prefix="plans/")["Contents"])
    kept = functions.s3.get_object(Bucket="evidence", Key=part)
    functions.s3.delete_object(Bucket="evidence", Key=part)
    functions.invoke("worker", {"Records": [record]})
    functions.s3.put_object(
        Bucket="evidence", Key=part, Body=kept["Body"].read(), ContentEncoding=kept.get("ContentEncoding", "")
    )
    assert len(functions.logged("job_died")) == 1
    died = datetime.now(UTC) + LATER
    for seconds, ended in ((30, 0), (62, 1)):
        sent = {"SentTimestamp": str(ms(died + timedelta(seconds=seconds)))}
        functions.invoke("worker", {"Records": [record | {"attributes": record["attributes"] | sent}]})
        assert len(functions.logged("job_succeeded")) == ended
    assert len(functions.logged("redriven_early")) == len(functions.logged("job_replayed")) == 1
    assert functions.keys() == []
    functions.tick()
    assert functions.run(answer).balanced


def test_a_refused_event_is_answered_to_a_person_and_raised_to_a_schedule(functions: Functions) -> None:
    """An asynchronous invocation that raises ends in the failure queue, which an alarm watches."""
    functions.deploy(POLICY)
    event = {"policy": "logs-expire", "scheduled_time": "<aws.scheduler.scheduled-time>"}
    with pytest.raises(BadEvent, match="did not fill in"):
        functions.invoke("discovery", event)
    answer = functions.invoke("discovery", event | {"plan": False})
    assert answer["error"]["code"] == "bad_event"
    assert "did not fill in" in answer["error"]["message"]
    assert [line["code"] for line in functions.logged("event_refused")] == ["bad_event", "bad_event"]


def test_a_missing_bucket_ends_the_run_with_its_name(functions: Functions) -> None:
    functions.deploy(policy(source={**SOURCE, "bucket": "nowhere"}))
    answer = functions.trigger()
    assert answer["state"] == "invalidated"
    assert functions.run(answer).reason == "source_refused"
    assert "NoSuchBucket" in str(functions.run(answer).message)


def test_the_tick_asks_discovery_to_go_on_with_what_was_left(functions: Functions) -> None:
    functions.deploy(POLICY)
    functions.put(["app/1"])
    answer = functions.trigger(plan=False)
    functions.tick()
    assert functions.calls["lambda", "Invoke"] == 1
    assert functions.invoke("discovery", {"resume": answer["run_id"]})["state"] == "draining"


def test_the_tick_raises_for_what_it_could_not_attend_to(functions: Functions, monkeypatch: pytest.MonkeyPatch) -> None:
    functions.deploy(POLICY)
    answer = functions.trigger(plan=False)
    monkeypatch.setattr("sexton.aws.functions.LambdaDiscovery.resume", _unavailable)
    with pytest.raises(TickFailed, match=answer["run_id"]):
        functions.tick()


def _unavailable(*_: object) -> None:
    raise CallFailed(UNAVAILABLE)


def test_the_tick_publishes_its_gauges_in_the_embedded_metric_format(
    functions: Functions, capsys: pytest.CaptureFixture[str]
) -> None:
    functions.deploy(POLICY)
    functions.tick()
    metrics = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    published = {line["_aws"]["CloudWatchMetrics"][0]["Metrics"][0]["Name"]: line for line in metrics}
    assert {"OldestOpenJobAge", "DeadJobs", "BooksOutOfBalance"} <= set(published)
    assert published["OldestOpenJobAge"]["policy"] == "logs-expire"
    assert published["DeadJobs"]["service"] == "sexton-test"


def test_planning_stops_before_the_functions_time_does(functions: Functions) -> None:
    functions.deploy(POLICY)
    functions.put(f"app/{n:04d}" for n in range(1100))
    answer = functions.trigger(plan=False)
    functions.invoke("discovery", {"resume": answer["run_id"]}, left=timedelta(seconds=29))
    stopped = functions.run(answer)
    assert (stopped.state, stopped.planned, stopped.planner_until) == ("planning", 1000, None)
    assert functions.invoke("discovery", {"resume": answer["run_id"]})["state"] == "draining"
    assert functions.run(answer).planned == 1100


@pytest.mark.parametrize("missing", ["SEXTON_LEDGER_TABLE", "SEXTON_JOBS_QUEUE_URL", "SEXTON_ACCOUNT"])
def test_a_missing_variable_fails_the_cold_start_by_name(
    functions: Functions, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    functions.deploy(POLICY)
    monkeypatch.delenv(missing)
    wired.cache_clear()
    with pytest.raises(ValueError, match=missing.removeprefix("SEXTON_").lower()):
        functions.tick()


def test_records_go_through_real_handlers_and_adapters(functions: Functions) -> None:
    deadline = int((datetime.now(UTC) - timedelta(days=60)).timestamp())
    functions.create_reminders({**{f"reminder_{n:03d}": deadline + n for n in range(100)}, "young": deadline * 2})
    functions.deploy(records_policy())
    answer = functions.trigger("reminders-delete")
    assert functions.work() == []
    functions.tick()
    run = functions.run(answer)
    assert (run.state, run.balanced, run.planned, run.jobs) == ("completed", True, 100, 2)
    assert functions.report(run)["deleted"] == 100
    assert functions.reminders() == ["young"]
    assert {operation for _, operation in functions.calls}.isdisjoint({"DeleteItem", "BatchWriteItem", "Scan"})
