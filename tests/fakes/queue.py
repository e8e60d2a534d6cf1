"""A standard SQS queue with its dead-letter queue, in virtual time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from sexton.errors import CallFailed, Failure, ReasonClass
from sexton.ports import Send

from tests.fakes.time import FakeClock

MAX_BATCH = 10
SOURCE_ARN = "arn:aws:sqs:eu-central-1:000000000000:jobs"


@dataclass(frozen=True, slots=True)
class Message:
    """One message on the queue. A duplicate has the same message id and another `copy`."""

    message_id: str
    copy: int
    body: str
    group: str
    sent_at: datetime
    visible_at: datetime
    received: int = 0
    receipt: str = ""
    source_arn: str = ""  # set by SQS on a message that redrive moved


@dataclass(frozen=True, slots=True)
class Dead:
    """A message in the dead-letter queue, its sent time that of the original."""

    message: Message
    moved_at: datetime


@dataclass
class FakeQueue:
    """Queue and Deliveries in one: a sent message can be received, hidden, acked, doubled, lost, redriven."""

    clock: FakeClock
    visibility: timedelta = timedelta(seconds=720)
    max_receive_count: int = 15
    sent: list[Send] = field(default_factory=list)
    dead: list[Dead] = field(default_factory=list)
    refusals: dict[str, Failure] = field(default_factory=dict)  # by Send.id, until taken out
    calls: Counter[str] = field(default_factory=Counter)
    messages: dict[tuple[str, int], Message] = field(default_factory=dict)
    hidden: list[tuple[str, timedelta]] = field(default_factory=list)
    _ids: int = 0

    def send(self, messages: Sequence[Send]) -> Mapping[str, Failure]:
        self.calls["send"] += 1
        ids = [message.id for message in messages]
        if not 0 < len(ids) <= MAX_BATCH or len(set(ids)) != len(ids):
            summary = f"a batch has 1 to {MAX_BATCH} messages with ids of their own"
            raise CallFailed(Failure(ReasonClass.PERMANENT, "InvalidBatch", summary))
        failed = {each: self.refusals[each] for each in ids if each in self.refusals}
        for message in messages:
            if message.id not in failed:
                self.sent.append(message)
                self._add(message.body, message.group)
        return failed

    def hide(self, receipt: str, wait: timedelta) -> None:
        self.calls["hide"] += 1
        self.hidden.append((receipt, wait))
        message = self._in_flight(receipt)
        if message is not None:
            self._keep(replace(message, visible_at=self.clock() + wait))

    # What the event source mapping does.

    def receive(self, limit: int = MAX_BATCH) -> list[Message]:
        """Visible messages, oldest first, each now in flight under a new receipt.

        One that was received `max_receive_count` times already goes to the dead-letter queue instead.
        """
        now = self.clock()
        taken: list[Message] = []
        for message in sorted(self.messages.values(), key=lambda each: (each.sent_at, each.copy)):
            if message.visible_at > now or len(taken) == limit:
                continue
            if message.received >= self.max_receive_count:
                self._bury(message)
                continue
            received = message.received + 1
            receipt = f"{message.message_id}/{message.copy}/{received}"
            kept = replace(message, received=received, receipt=receipt, visible_at=now + self.visibility)
            self._keep(kept)
            taken.append(kept)
        return taken

    def ack(self, receipt: str) -> None:
        """Delete a received message; an old receipt deletes nothing."""
        message = self._in_flight(receipt)
        if message is not None:
            del self.messages[message.message_id, message.copy]

    # What goes wrong.

    def duplicate(self, message_id: str) -> None:
        """Let the queue deliver a message once more, beside the first."""
        copies = [copy for known, copy in self.messages if known == message_id]
        original = self.messages[message_id, copies[0]]
        self._keep(replace(original, copy=max(copies) + 1, received=0, receipt="", visible_at=self.clock()))

    def lose(self, message_id: str) -> None:
        """Let every copy of a message vanish."""
        for known in [known for known in self.messages if known[0] == message_id]:
            del self.messages[known]

    def forge(self, body: str) -> Message:
        """Put a message there that no dispatcher sent."""
        return self._add(body, "forged")

    def redrive(self) -> list[Message]:
        """Move all dead messages back: each gets a new message id and a later sent time."""
        dead, self.dead = self.dead, []
        return [self._add(each.message.body, each.message.group) for each in dead]

    def next_visible(self) -> datetime | None:
        """When the next message can be received, None on an empty queue."""
        return min((message.visible_at for message in self.messages.values()), default=None)

    def _add(self, body: str, group: str) -> Message:
        self._ids += 1
        now = self.clock()
        return self._keep(Message(f"message-{self._ids:06d}", 0, body, group, now, now))

    def _keep(self, message: Message) -> Message:
        self.messages[message.message_id, message.copy] = message
        return message

    def _in_flight(self, receipt: str) -> Message | None:
        """The message under this receipt, if it is the latest one and the message is still hidden by it."""
        found = [message for message in self.messages.values() if receipt and message.receipt == receipt]
        return found[0] if found and found[0].visible_at > self.clock() else None

    def _bury(self, message: Message) -> None:
        del self.messages[message.message_id, message.copy]
        self.dead.append(Dead(replace(message, source_arn=SOURCE_ARN), self.clock()))


def as_event(messages: Sequence[Message]) -> dict[str, object]:
    """The messages as Lambda gets them from an event source mapping."""
    return {"Records": [_as_record(message) for message in messages]}


def _as_record(message: Message) -> dict[str, object]:
    attributes = {
        "ApproximateReceiveCount": str(message.received),
        "SentTimestamp": str(int(message.sent_at.timestamp() * 1000)),
        "SenderId": "000000000000",
        "ApproximateFirstReceiveTimestamp": str(int(message.sent_at.timestamp() * 1000)),
        "MessageGroupId": message.group,
    }
    if message.source_arn:
        attributes["DeadLetterQueueSourceArn"] = message.source_arn
    return {
        "messageId": message.message_id,
        "receiptHandle": message.receipt,
        "body": message.body,
        "attributes": attributes,
        "messageAttributes": {},
        "md5OfBody": "",
        "eventSource": "aws:sqs",
        "eventSourceARN": SOURCE_ARN,
        "awsRegion": "eu-central-1",
    }
