"""The jobs queue: sending, hiding, and what SQS does by itself."""

from __future__ import annotations

from datetime import timedelta

from sexton.ports import Send

from tests.contract.worlds import Delivery, QueueHands, World, failure_in

NOW = timedelta()


def message(n: int, body: str | None = None) -> Send:
    return Send(f"policy.20260301T120000Z.1/{n:03d}", body or f'{{"n":{n}}}', "policy")


def receive_all(hands: QueueHands) -> list[Delivery]:
    found: list[Delivery] = []
    while batch := hands.receive():
        found += batch
    return found


def test_what_is_sent_is_received_with_its_group(world: World) -> None:
    queue, _, hands = world.queue()
    assert queue.send([message(1)]) == {}
    (received,) = receive_all(hands)
    assert received.body == '{"n":1}'
    assert received.group == "policy"
    assert received.received == 1


def test_ten_at_once(world: World) -> None:
    queue, _, hands = world.queue()
    assert queue.send([message(n) for n in range(10)]) == {}
    assert sorted(each.body for each in receive_all(hands)) == sorted(message(n).body for n in range(10))


def test_eleven_at_once_fail_as_a_whole(world: World) -> None:
    queue, _, hands = world.queue()
    failure = failure_in(lambda: queue.send([message(n) for n in range(11)]))
    assert failure.reason_class == "permanent"
    assert receive_all(hands) == []


def test_a_received_message_is_hidden_and_comes_again_when_told(world: World) -> None:
    queue, deliveries, hands = world.queue()
    queue.send([message(1)])
    (first,) = hands.receive()
    assert hands.receive() == []
    deliveries.hide(first.receipt, NOW)
    (second,) = hands.receive()
    assert second.body == first.body
    assert second.received == 2


def test_a_message_is_hidden_for_as_long_as_told(world: World) -> None:
    queue, deliveries, hands = world.queue()
    queue.send([message(1)])
    (first,) = hands.receive()
    deliveries.hide(first.receipt, timedelta(seconds=0.4))  # rounded up to a second
    assert hands.receive() == []
    world.pass_time(1.3)
    (second,) = hands.receive()
    assert second.received == 2


def test_a_message_can_be_hidden_for_twelve_hours(world: World) -> None:
    queue, deliveries, hands = world.queue()
    queue.send([message(1)])
    (first,) = hands.receive()
    deliveries.hide(first.receipt, timedelta(hours=12, seconds=-5))
    assert hands.receive() == []


def test_hiding_what_was_acked_is_no_error(world: World) -> None:
    queue, deliveries, hands = world.queue()
    queue.send([message(1)])
    (first,) = hands.receive()
    hands.ack(first.receipt)
    deliveries.hide(first.receipt, NOW)
    assert hands.receive() == []


def test_hiding_by_a_receipt_that_is_none_is_no_error(world: World) -> None:
    _, deliveries, _ = world.queue()
    deliveries.hide("no-receipt", NOW)


def test_hiding_what_is_no_longer_in_flight_is_no_error(world: World) -> None:
    queue, deliveries, hands = world.queue()
    queue.send([message(1)])
    (first,) = hands.receive()
    deliveries.hide(first.receipt, NOW)
    deliveries.hide(first.receipt, NOW)
    (second,) = hands.receive()
    assert second.received == 2


def test_a_message_received_too_often_is_moved_to_the_dead_letters(world: World) -> None:
    queue, deliveries, hands = world.queue(max_receive_count=2)
    queue.send([message(1)])
    for _ in range(2):
        (received,) = hands.receive()
        deliveries.hide(received.receipt, NOW)
    assert hands.receive() == []
    assert hands.dead() == ['{"n":1}']
