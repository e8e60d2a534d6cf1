"""The dead-letter queue: looking into it, and taking messages out. Its tasks are tried on recorded answers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from sexton.ports import DeadLetters, DeadMessage, Send

from tests.contract.worlds import World

LONG = timedelta(minutes=5)


def buried(world: World, count: int) -> DeadLetters:
    """A dead-letter queue with so many messages, put there by SQS."""
    queue, deliveries, hands = world.queue(max_receive_count=1)
    if count:
        queue.send([Send(f"job/{n}", f"body-{n}", "policy") for n in range(count)])
    received = 0
    while received < count:
        batch = hands.receive()
        received += len(batch)
        for each in batch:
            deliveries.hide(each.receipt, timedelta())
    while hands.receive():
        pass
    return hands.dead_letters()


def bodies(found: Sequence[DeadMessage]) -> list[str]:
    return sorted(each.body for each in found)


def test_a_look_sees_each_message_once_until_its_time_is_over(world: World) -> None:
    dead = buried(world, 2)
    seen = [*dead.receive(timedelta(seconds=4)), *dead.receive(timedelta(seconds=4))]
    assert bodies(seen) == ["body-0", "body-1"]
    assert len({each.message_id for each in seen}) == 2
    world.pass_time(4.3)
    assert bodies(dead.receive(LONG)) == ["body-0", "body-1"]
    assert dead.receive(LONG) == []


def test_at_most_ten_come_at_once(world: World) -> None:
    dead = buried(world, 10)
    found = dead.receive(LONG)
    assert 0 < len(found) <= 10


def test_what_is_removed_is_gone_and_the_rest_stays(world: World) -> None:
    dead = buried(world, 3)
    found = dead.receive(timedelta(seconds=1))
    gone = [each for each in found if each.body != "body-1"]
    assert dead.remove(gone) == {}
    world.pass_time(1.3)
    assert bodies(dead.receive(LONG)) == ["body-1"]


def test_an_empty_queue_is_empty(world: World) -> None:
    assert buried(world, 0).receive(LONG) == []
