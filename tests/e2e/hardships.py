"""What microburst does to the functions' calls: for each hardship a policy with objects of its own, and a fault."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from microburst.rules import Rule as Fault

from tests.e2e.faults import Faults
from tests.e2e.proxy import Proxy, Rule, Strike
from tests.e2e.site import Site, now, numbered, stamp, write_policy

BUCKET = "e2e-hardships"
OBJECTS = 12
LIMITS = {"max_attempts": 5, "max_items": 10_000}  # no job dies of a busy machine on top of its hardship
AT_ONCE = 3  # discoveries; each may begin as a process of its own

# A policy whose worker is killed by the proxy, each time right after a deletion.
KILLED, KILLS, KILLED_SIZE = "killed-at-work", 2, 4
# A mark of its own: these calls name neither run nor policy, only a receipt.
HIDE = "sqs:ChangeMessageVisibility"


class Unproven(Enum):
    """Of how many objects an outcome may say that they were gone before their deletion was recorded."""

    NONE = "no reply of a deletion was lost"
    SOME = "the deletion came late: the worker may have seen the objects again before"
    ALL = "the reply of the deletion was lost"


@dataclass(frozen=True)
class Hardship:
    """A fault in microburst's words, without whose calls it is for. `fires`: how often at least; at most is `times`."""

    name: str
    fault: Mapping[str, Any]
    unproven: Unproven = Unproven.NONE
    fires: int = 1


@dataclass(frozen=True)
class Struck:
    """A run that meets a hardship, and what strikes it."""

    run_id: str
    by: Fault | Rule


def says(text: str) -> str:
    """A call whose JSON holds a text."""
    return f"contains(to_string(@), '{text}')"


def _error(code: str, status: int, **fields: object) -> dict[str, object]:
    return {"error": {"code": code, "status": status, "message": "by the tests", "fields": fields or None}}


LEDGER = {"service": "dynamodb"}
WRITE, TRANSACTION = LEDGER | {"operation": "UpdateItem"}, LEDGER | {"operation": "TransactWriteItems"}
DELETE, LIST, GET, PUT = (
    {"service": "s3", "operation": operation}
    for operation in ("DeleteObjects", "ListObjectsV2", "GetObject", "PutObject")
)
SEND = {"service": "sqs", "operation": "SendMessageBatch"}

RESET = {"reset": True}  # before the call is carried out
LOST = {"response": {"abort_bytes": 0}}  # the call is carried out, its answer breaks off
ONCE = {"times": 1}
THROTTLED = _error("ProvisionedThroughputExceededException", 400)
SLOW_DOWN = _error("SlowDown", 503)
CONFLICT = _error(
    "TransactionCanceledException", 400, CancellationReasons=[{"Code": "TransactionConflict"}, {"Code": "None"}]
)


def every(fail: int, passing: int, times: int) -> dict[str, object]:
    """So many fail, so many pass, and on; the SDK tries a call three times."""
    return {"sequence": {"fail": fail, "pass": passing}, "times": times}


def _delayed(seconds: int) -> dict[str, object]:
    """Carried out when its caller has given up."""
    return {"latency": 1000 * seconds}


def _unanswered(seconds: int) -> dict[str, object]:
    """Not carried out, and no answer while its caller waits."""
    return {"timeout_ms": 1000 * seconds}


# The functions wait 10 s for an answer, and 2 s for that of a deletion, here where the worker has 10 s in all.
HARDSHIPS = (
    Hardship("ledger-throttled", {**LEDGER, **THROTTLED, **every(2, 1, 60)}, fires=20),
    Hardship("claim-throttled", {**WRITE, "body": says("first_claim_at"), **THROTTLED, "times": 4}, fires=4),
    Hardship("ledger-reset", {**LEDGER, **RESET, **every(1, 2, 30)}, fires=5),
    Hardship("ledger-lost", {**LEDGER, **LOST, **every(1, 1, 60)}, fires=10),
    Hardship("plan-conflict", {**TRANSACTION, **CONFLICT, "times": 4}, fires=4),
    Hardship("dispatch-hung", {**WRITE, "body": says("dispatches"), **_unanswered(12), **ONCE}),
    Hardship("claim-late", {**WRITE, "body": says("first_claim_at"), **_delayed(12), **ONCE}),
    Hardship("settle-lost", {**WRITE, "body": says("settled_at"), **LOST, **ONCE}),
    Hardship("delete-slow", {**DELETE, **SLOW_DOWN, "times": 2}, fires=2),
    Hardship("delete-broken", {**DELETE, **_error("InternalError", 500), **ONCE}),
    Hardship("delete-reset", {**DELETE, **RESET, **ONCE}),
    Hardship("delete-hung", {**DELETE, **_unanswered(6), **ONCE}),
    Hardship("delete-late", {**DELETE, **_delayed(5), **ONCE}, Unproven.SOME),
    Hardship("reply-lost", {**DELETE, **LOST, **ONCE}, Unproven.ALL),
    Hardship("list-slow", {**LIST, **SLOW_DOWN, **every(2, 1, 12)}, fires=4),
    Hardship("part-lost", {**GET, **LOST, **ONCE}),
    Hardship("evidence-slow", {**PUT, **SLOW_DOWN, **every(2, 1, 12)}, fires=4),
    Hardship("evidence-reset", {**PUT, **RESET, **every(1, 1, 12)}, fires=2),
    Hardship("planned-lost", {"payload": r"PUT \S+/plans/", "cut_reply": {"after_bytes": 0}, **ONCE}),
    Hardship("outcomes-lost", {"payload": r"PUT \S+/outcomes/", "cut_reply": {"after_bytes": 0}, **ONCE}),
    Hardship("books-lost", {"payload": r"PUT \S+/runs/\S+/books-", "cut_reply": {"after_bytes": 0}, **ONCE}),
    Hardship("send-refused", {**SEND, **_error("RequestThrottled", 400), **ONCE}),
    Hardship("send-lost", {**SEND, **LOST, **ONCE}),
)

HIDING_FAILS = {"service": "sqs", "operation": "ChangeMessageVisibility", **_error("RequestThrottled", 400), "times": 2}


def write_policies(folder: Path) -> None:
    """A policy for each hardship."""
    for hardship in HARDSHIPS:
        write_policy(folder, hardship.name, BUCKET, limits=LIMITS)
    write_policy(folder, KILLED, BUCKET, job_size=KILLED_SIZE, limits=LIMITS)


def begin_all(site: Site, proxy: Proxy, faults: Faults) -> dict[str, Struck]:
    """Begin a run for each hardship, by its policy; they are closed by later ticks."""
    strikes = _strikes(proxy, faults)
    for policy in strikes:
        site.fill(BUCKET, [*numbered(f"{policy}/", OBJECTS), f"{policy}/kept/1", f"beside-{policy}/1"])
    site.age()
    at, functions = now(), site.functions  # one client for all threads
    with ThreadPoolExecutor(AT_ONCE) as pool:
        events = [json.dumps({"policy": policy, "scheduled_time": stamp(at)}) for policy in strikes]
        # Discovery may fail of its hardship; then the tick goes on.
        called = [
            pool.submit(functions.invoke, FunctionName=site.function("Discovery"), Payload=event) for event in events
        ]
    for call in called:
        call.result()
    return {policy: Struck(f"{policy}.{at:%Y%m%dT%H%M%SZ}.1", by) for policy, by in strikes.items()}


def _strikes(proxy: Proxy, faults: Faults) -> dict[str, Fault | Rule]:
    """What strikes each policy's run."""
    faults.strike(HIDE, **HIDING_FAILS)
    strikes: dict[str, Fault | Rule] = {each.name: faults.strike(each.name, **each.fault) for each in HARDSHIPS}
    killing = Rule("s3:DeleteObjects", (f"{KILLED}/",), Strike.KILL_AFTER, times=KILLS)
    return strikes | {KILLED: proxy.add(killing)}
