"""The recorder does to the fakes what a crash or a bad network does to the adapters."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sexton.errors import CallFailed, Failure
from sexton.ports import Removed, Send
from sexton.table import Key, Write, absent

from tests.fakes.bucket import FakeBucket
from tests.fakes.evidence import FakeEvidence
from tests.fakes.queue import FakeQueue, as_event
from tests.fakes.recorder import LOST_REPLY, LOST_REQUEST, Crash, Trace
from tests.fakes.table import FakeTable
from tests.fakes.time import FakeClock, FakeTimeLeft, FakeTokens

WRITE = Write(Key("P", "S"), "w", (absent("pk"),), set={"a": 1})


def test_all_ports_share_one_trace() -> None:
    trace = Trace()
    table, evidence = trace.wrap("table", FakeTable()), trace.wrap("evidence", FakeEvidence())
    evidence.put_once("a", b"")
    table.write(WRITE)
    assert list(evidence.list("")) == ["a"]
    assert trace.names == ["evidence.put_once", "table.write", "evidence.list"]
    assert trace.calls[1].args == (WRITE,)


def test_what_is_no_call_of_the_port_is_not_recorded() -> None:
    trace = Trace()
    bucket = trace.wrap("bucket", FakeBucket(FakeClock()))
    bucket.put("a")
    bucket.request_timeout()
    assert bucket.keys() == ["a"]
    assert trace.calls == []


@pytest.mark.parametrize(("place", "done"), [("before", False), ("after", True)])
def test_a_crash_before_or_after_a_call(place: str, done: bool) -> None:
    trace, fake = Trace(), FakeTable()
    table = trace.wrap("table", fake)
    getattr(trace, f"crash_{place}")(2)
    table.get(WRITE.key)
    with pytest.raises(Crash, match=r"table\.write"):
        table.write(WRITE)
    assert (WRITE.key in fake.rows) is done


def test_a_crash_is_no_exception_that_a_flow_could_handle() -> None:
    assert not issubclass(Crash, Exception)


def test_a_lost_reply_and_a_lost_request() -> None:
    trace, fake = Trace(), FakeTable()
    table = trace.wrap("table", fake)
    trace.lose_request(1)
    trace.lose_reply(2)
    with pytest.raises(CallFailed) as lost:
        table.write(WRITE)
    assert lost.value.failure.unknown_effect is False
    assert fake.rows == {}
    with pytest.raises(CallFailed) as lost:
        table.write(WRITE)
    assert lost.value.failure.unknown_effect is True
    assert WRITE.key in fake.rows


def test_a_removal_answers_for_each_key_though_its_reply_was_lost() -> None:
    trace, fake = Trace(), FakeBucket(FakeClock())
    bucket = trace.wrap("bucket", fake)
    items = [fake.put("a"), fake.put("b")]
    trace.lose_request(1)
    trace.lose_reply(2)
    assert bucket.remove(items) == {"a": LOST_REQUEST, "b": LOST_REQUEST}
    assert fake.keys() == ["a", "b"]
    assert bucket.remove(items) == {"a": LOST_REPLY, "b": LOST_REPLY}
    assert fake.keys() == []


def test_something_can_happen_between_two_calls() -> None:
    trace, fake = Trace(), FakeTable()
    table = trace.wrap("table", fake)
    trace.at(2, lambda: fake.delete(WRITE.key))
    table.write(WRITE)
    assert table.get(WRITE.key) is None
    trace.calm()
    table.write(WRITE)
    assert trace.names == ["table.write"]


def test_a_queue_delivers_twice_loses_and_redrives() -> None:
    clock = FakeClock()
    queue = FakeQueue(clock, max_receive_count=1)
    queue.send([Send("j1", "one", "p"), Send("j2", "two", "p")])
    one, two = queue.receive()
    queue.duplicate(one.message_id)
    (again,) = queue.receive()
    assert (again.message_id, again.body) == (one.message_id, "one")
    assert again.receipt != one.receipt
    queue.lose(one.message_id)
    clock.advance(queue.visibility)
    assert queue.receive() == []
    assert [dead.message.body for dead in queue.dead] == ["two"]
    clock.advance(60)
    (redriven,) = queue.redrive()
    assert redriven.message_id != two.message_id
    assert redriven.sent_at - two.sent_at > timedelta(seconds=60)


def test_an_old_receipt_hides_and_acks_nothing() -> None:
    clock = FakeClock()
    queue = FakeQueue(clock)
    queue.send([Send("j", "one", "p")])
    (first,) = queue.receive()
    clock.advance(queue.visibility)
    (second,) = queue.receive()
    queue.hide(first.receipt, timedelta())
    queue.ack(first.receipt)
    assert queue.receive() == []
    queue.ack(second.receipt)
    assert queue.messages == {}


def test_messages_as_lambda_gets_them() -> None:
    queue = FakeQueue(FakeClock())
    queue.send([Send("j", "one", "p")])
    records: Any = as_event(queue.receive())["Records"]
    (record,) = records
    assert record["body"] == "one"
    assert record["attributes"]["ApproximateReceiveCount"] == "1"
    assert "DeadLetterQueueSourceArn" not in record["attributes"]


def test_a_suspended_bucket_loses_its_null_version_to_a_plain_delete() -> None:
    """Why such buckets are refused at planning."""
    bucket = FakeBucket(FakeClock(), "Suspended")
    item = bucket.put("a", "precious")
    assert bucket.remove([item]) == {"a": Removed("null")}
    assert [version.item for version in bucket.versions["a"]] == [None]


def test_versions_as_s3_has_them_and_no_emulator() -> None:
    """A listing goes on after a version that has been removed meanwhile, which scripts that empty a bucket need."""
    bucket = FakeBucket(FakeClock(), "Enabled")
    for content in ("1", "22", "333", "4444"):
        bucket.put("a", content)
    page = bucket.list_versions("", limit=2)
    bucket.remove_versions(page.items)
    assert [item.size for item in bucket.list_versions("", page.next_key, page.next_version).items] == [2, 1]


def test_failures_on_request() -> None:
    bucket = FakeBucket(FakeClock())
    a, b, c = bucket.put("a"), bucket.put("b"), bucket.put("c")
    bucket.failures["a"] = LOST_REQUEST
    bucket.lock("b")
    results = bucket.remove([a, b, c])
    assert results["a"] == LOST_REQUEST
    assert isinstance(results["b"], Failure)
    assert results["b"].reason_class == "locked"
    assert results["c"] == Removed()
    bucket.fail_next("list", LOST_REQUEST)
    with pytest.raises(CallFailed):
        bucket.list("")
    assert [item.key for item in bucket.list("").items] == ["a", "b"]


def test_ids_and_time_are_the_same_in_every_run() -> None:
    clock, token = FakeClock(), FakeTokens()
    left = FakeTimeLeft(clock, timedelta(seconds=10))
    clock.advance(4)
    assert left() == timedelta(seconds=6)
    assert (token(), token()) == ("token-000001", "token-000002")
    assert clock().tzinfo is not None
