"""Messages that are none of ours, or claim what the ledger does not say: each has a dead record of its own."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

from sexton.instant import ms
from sexton.redact import redact
from sexton.table import Key, Write, absent, any_of, before

KEPT_A_DAY = 1000
KEEP = timedelta(days=400)
EXCERPT = 200
MESSAGE = "MESSAGE#"

Kind = Literal["malformed", "policy_mismatch"]


def partition(day: datetime) -> str:
    """The records of one day."""
    return f"MALFORMED#{day:%Y-%m-%d}"


def record(message_id: str, kind: Kind, why: str, body: str, now: datetime, write_id: str) -> list[Write]:
    """The record and the day's count, in one transaction: new for this message id, and below the day's cap."""
    expires_at = int((now + KEEP).timestamp())
    count = Write(
        Key(partition(now), "COUNT"),
        write_id,
        (any_of(absent("records"), before("records", KEPT_A_DAY)),),
        set={"expires_at": expires_at},
        add={"records": 1},
    )
    one = Write(
        Key(partition(now), f"{MESSAGE}{message_id}"),
        write_id,
        (absent("pk"),),
        set={
            "message_id": message_id,
            "kind": kind,
            "why": why,
            "excerpt": redact(body)[:EXCERPT],
            "at": ms(now),
            "expires_at": expires_at,
        },
    )
    return [one, count]
