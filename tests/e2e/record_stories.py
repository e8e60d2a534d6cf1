"""Runs over records that meet a crash or a fault: for each a policy, and records in a partition of its own.

What is told apart here is whether a removal and its record ever come apart. So each story strikes at the one
transaction that holds both, and notes what there is right after a worker was killed there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sexton.attributes import canonical

from infra.local.demo.application import SECRET, Mood
from tests.e2e.faults import Faults
from tests.e2e.hardships import CONFLICT, LEDGER, LOST, ONCE, THROTTLED, TRANSACTION, Hardship, Struck, every, says
from tests.e2e.proxy import Proxy, Rule, Strike
from tests.e2e.site import TAKEN_SECONDS, Site, now, until, write_policy

TABLE, INDEX, PARTITION = "e2e-reminders", "by-group", "group"
RECORDS = 12
PUT_AT_ONCE = 25
DAY = timedelta(days=1)

LINE, LINE_GROUPS = "reminders-line", ("line-a", "line-b")

# Records that are marked, archived, or called for.
MARK, ARCHIVE = "mark-line", "archive-line"
CALL, CALL_ONCE, CALL_KILLED = "call-line", "call-once", "call-killed"
MARKED = {"retired": {"BOOL": True}}
FEW = 5
CALLS = {
    CALL: {
        "plain": Mood.WELL,
        "reply-lost": Mood.LOSES_REPLY,
        "busy": Mood.BUSY,
        "refused": Mood.REFUSES,
    },
    CALL_ONCE: {"plain": Mood.WELL},
    CALL_KILLED: {"plain": Mood.WELL},
}
MOODS = {f"{policy}-{name}": mood for policy, moods in CALLS.items() for name, mood in moods.items()}

# The removals are the only `Delete` that any transaction of Sexton has.
REMOVAL = "dynamodb:TransactWriteItems"
KILLED = {"record-before": Strike.KILL_BEFORE, "record-after": Strike.KILL_AFTER}

HARDSHIPS = (
    Hardship("record-conflict", {**TRANSACTION, "body": says("Delete"), **CONFLICT, "times": 4}, fires=4),
    Hardship("record-lost", {**TRANSACTION, "body": says("Delete"), **LOST, "times": 3}),
    Hardship("record-throttled", {**LEDGER, **THROTTLED, **every(2, 1, 60)}, fires=10),
    Hardship("record-unread", {**LEDGER, "operation": "BatchGetItem", **THROTTLED, **ONCE}),
)


@dataclass(frozen=True)
class Killed:
    """A run whose worker was killed at its removals; how many records there were right after, and the job's state."""

    run_id: str
    rule: Rule
    left: int
    states: dict[str, int]


def write_policies(folder: Path) -> None:
    """A policy for each story, and the one of a run that nothing strikes."""
    for policy in (*KILLED, *(hardship.name for hardship in HARDSHIPS)):
        write_record_policy(folder, policy, [policy])
    write_record_policy(folder, LINE, LINE_GROUPS, filter={"state": ["sent", "unsent"]})


def write_action_policies(folder: Path, host: str) -> None:
    """A policy for each other thing that can be done with records; the application that is called is at this host."""
    write_record_policy(folder, MARK, [MARK], action={"kind": "mark", "attribute": "retired", "value": True})
    write_record_policy(folder, ARCHIVE, [ARCHIVE], action="archive", recovery="archive")
    for policy in (CALL, CALL_ONCE, CALL_KILLED):
        call = {"kind": "http", "method": "POST", "hosts": [host], "url": f"https://{host}/reminders/{{id}}/cancel"}
        how = {"success": [200, 204], "headers": {"Authorization": SECRET}, "rate": 20}
        write_record_policy(folder, policy, [policy], action={**call, **how, "idempotent": policy != CALL_ONCE})


def write_record_policy(
    folder: Path,
    policy: str,
    groups: Sequence[str],
    action: object = "delete",
    recovery: str = "none",
    **source: object,
) -> None:
    """A policy for the records of some groups, once their deadline is a second past."""
    values = {
        "kind": "dynamodb",
        "table": TABLE,
        "index": INDEX,
        "partitions": list(groups),
        "timestamp": {"attribute": "deadline", "format": "epoch_ms"},
        "version_attribute": "version",
    }
    limits = {"max_attempts": 5, "max_items": 10_000}
    write_policy(folder, policy, "", source=values | source, action=action, recovery=recovery, limits=limits)


def record(group: str, name: str, deadline: datetime, **more: dict[str, str]) -> dict[str, Any]:
    """A record; its id holds its group, by which the calls that name it are known."""
    return {
        "id": {"S": f"{group}-{name}"},
        PARTITION: {"S": group},
        "deadline": epoch(deadline),
        "version": {"N": "1"},
        "state": {"S": "sent"},
        **more,
    }


def epoch(deadline: datetime, in_second: int = 1000) -> dict[str, str]:
    """A deadline as a record has it: whole seconds, in units of which there are so many in a second."""
    return {"N": str(int(deadline.timestamp()) * in_second)}


def key_of(record: dict[str, Any]) -> str:
    """Its key as evidence has it."""
    return canonical({"id": record["id"]})


def put(site: Site, records: Iterable[dict[str, Any]]) -> None:
    """Put records into the table."""
    puts = [{"PutRequest": {"Item": each}} for each in records]
    for at in range(0, len(puts), PUT_AT_ONCE):
        answer = site.dynamodb.batch_write_item(RequestItems={TABLE: puts[at : at + PUT_AT_ONCE]})
        assert not answer["UnprocessedItems"]


def there(site: Site, *groups: str) -> list[dict[str, Any]]:
    """Every record of some groups, whatever index shows it."""
    pages = site.dynamodb.get_paginator("scan").paginate(TableName=TABLE)
    return [each for page in pages for each in page["Items"] if each[PARTITION]["S"] in groups]


def begin_all(site: Site, proxy: Proxy) -> dict[str, Killed]:
    """Begin the runs whose worker is killed, one by one, so that no two share a batch."""
    _fill(site, KILLED)
    at, begun = now(), dict[str, Killed]()
    for policy, strike in KILLED.items():
        run_id = f"{policy}.{at:%Y%m%dT%H%M%SZ}.1"
        rule = proxy.add(Rule(REMOVAL, (f"RUN#{run_id}", "Delete"), strike))
        assert site.trigger(policy, at) == run_id
        until(rule.hit.is_set, TAKEN_SECONDS, f"{policy} is struck at its removals", every=0.2)
        begun[policy] = Killed(run_id, rule, len(there(site, policy)), site.show(run_id)["jobs_by_state"])
    return begun


def strike_all(site: Site, faults: Faults) -> dict[str, Struck]:
    """Begin the runs that meet a hardship; they are closed by later ticks."""
    _fill(site, [hardship.name for hardship in HARDSHIPS])
    at = now()
    strikes = {each.name: faults.strike(each.name, **each.fault) for each in HARDSHIPS}
    return {policy: Struck(site.trigger(policy, at), by) for policy, by in strikes.items()}


def _fill(site: Site, policies: Iterable[str]) -> None:
    """For each policy records that are due, and one that is not."""
    due, later = now() - DAY, now() + DAY
    for policy in policies:
        put(site, [record(policy, f"{number:05d}", due) for number in range(RECORDS)])
        put(site, [record(policy, "later", later)])
