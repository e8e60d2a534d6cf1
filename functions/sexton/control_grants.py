"""What the two control functions must be allowed, by what people may ask them for, and what neither may."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sexton.grants import EXAMPLE, READ_ROWS, WRITE_ROWS, Arns, Grant

OPERATE, APPROVE = "operate", "approve"
CONTROL = (OPERATE, APPROVE)
DOORS = {OPERATE: "operator", APPROVE: "approver"}  # as each is told in its settings

SWEEP = ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ListMessageMoveTasks")
STOP_FEED = ("lambda:GetEventSourceMapping", "lambda:UpdateEventSourceMapping")
PAUSE = ("scheduler:GetSchedule", "scheduler:UpdateSchedule")
ASSUME = ("sts:AssumeRole",)


@dataclass(frozen=True, slots=True)
class ControlArns:
    """What only the control functions reach, by their ARNs; `schedules` is one of a policy."""

    dead_letters: str
    redrive_role: str
    feed: str
    schedules: str


def needed(arns: Arns, control: ControlArns) -> Iterator[Grant]:
    """What the doors cannot do without."""
    for door in CONTROL:
        yield Grant(door, READ_ROWS, arns.ledger)
        yield Grant(door, ("lambda:InvokeFunction",), arns.discovery)
    for key in ("POLICY#x", "RUN#x", "CONTROL"):
        yield Grant(OPERATE, WRITE_ROWS, arns.ledger, _rows(key))
    yield Grant(OPERATE, SWEEP, control.dead_letters)
    yield Grant(OPERATE, ASSUME, control.redrive_role)
    yield Grant(OPERATE, STOP_FEED, control.feed)
    yield Grant(OPERATE, PAUSE, control.schedules)
    for key in ("POLICY#x", "CONTROL"):
        yield Grant(APPROVE, WRITE_ROWS, arns.ledger, _rows(key))
    yield Grant(APPROVE, ("dynamodb:ConditionCheckItem",), arns.ledger)
    yield Grant(APPROVE, ("s3:ListBucket",), arns.evidence)
    for folder in ("policies", "outcomes"):
        yield Grant(APPROVE, ("s3:GetObject",), f"{arns.evidence}/{folder}/{EXAMPLE}")


def excessive(arns: Arns, control: ControlArns) -> Iterator[Grant]:
    """What neither may: delete rows or evidence, write evidence, or send; and the approver none of the operator's."""
    for door in CONTROL:
        yield Grant(door, ("dynamodb:DeleteItem",), arns.ledger)
        changing = ("s3:PutObject", "s3:DeleteObject", "s3:DeleteObjectVersion")
        yield Grant(door, changing, f"{arns.evidence}/plans/{EXAMPLE}")
        yield Grant(door, ("sqs:SendMessage",), arns.jobs)
    yield Grant(APPROVE, WRITE_ROWS, arns.ledger, _rows("RUN#x"))
    yield Grant(APPROVE, ASSUME, control.redrive_role)
    yield Grant(APPROVE, STOP_FEED[1:], control.feed)
    yield Grant(APPROVE, PAUSE[1:], control.schedules)


def _rows(key: str) -> Mapping[str, str]:
    return {"dynamodb:LeadingKeys": key}
