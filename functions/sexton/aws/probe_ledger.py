"""Probes of the ledger. They only read: nobody who asks may write rows, and the doctor tries no writes either."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sexton.aws.probe import DEPLOY, Probe, Site
from sexton.doctor import Check, CheckName

OF = "ledger"
INDEX = "open"
EXPIRY = "expires_at"
KEYS = {"pk": "HASH", "sk": "RANGE"}
INDEX_KEYS = {"open_pk": "HASH", "open_sk": "RANGE"}


def probes(site: Site) -> Iterator[Probe]:
    """Of the table, its index, its recovery and its expiry."""

    def ask(call: str) -> Any:
        return getattr(site.client("dynamodb"), call)(TableName=site.outputs["LedgerTableName"])

    describe = "dynamodb:DescribeTable"
    yield Probe(CheckName.LEDGER_TABLE, OF, describe, lambda: _table(ask("describe_table")["Table"]))
    yield Probe(CheckName.LEDGER_INDEX, OF, describe, lambda: _index(ask("describe_table")["Table"]))
    yield Probe(
        CheckName.LEDGER_RECOVERY,
        OF,
        "dynamodb:DescribeContinuousBackups",
        lambda: _recovery(ask("describe_continuous_backups")["ContinuousBackupsDescription"]),
    )
    yield Probe(
        CheckName.LEDGER_EXPIRY,
        OF,
        "dynamodb:DescribeTimeToLive",
        lambda: _expiry(ask("describe_time_to_live")["TimeToLiveDescription"]),
    )


def _table(table: Any) -> Iterator[Check]:
    name = CheckName.LEDGER_TABLE
    if table["TableStatus"] not in ("ACTIVE", "UPDATING") or _keys(table) != KEYS:
        found = f"{table['TableStatus']}, keys {', '.join(_keys(table))}"
        yield Check.failed(name, OF, found, f"wait until it is active; if its keys are others, {DEPLOY}")
        return
    troubles = []
    if table.get("BillingModeSummary", {}).get("BillingMode") != "PAY_PER_REQUEST":
        troubles.append("its capacity is provisioned, so that a large run is throttled")
    if not table.get("DeletionProtectionEnabled"):
        troubles.append("it can be deleted")
    if troubles:
        yield Check.warning(name, OF, "; ".join(troubles), f"{DEPLOY}: it sets on-demand and deletion protection")
    else:
        yield Check.ok(name, OF, "active, on demand, protected from deletion")


def _index(table: Any) -> Iterator[Check]:
    name = CheckName.LEDGER_INDEX
    index = next((each for each in table.get("GlobalSecondaryIndexes", []) if each["IndexName"] == INDEX), None)
    if index is None or _keys(index) != INDEX_KEYS or index["Projection"]["ProjectionType"] != "ALL":
        yield Check.failed(name, OF, f"there is no index {INDEX!r} as Sexton reads it", DEPLOY)
    elif index.get("IndexStatus", "ACTIVE") != "ACTIVE":
        yield Check.failed(name, OF, f"index {INDEX!r} is {index['IndexStatus']}", "wait until it is active")
    else:
        yield Check.ok(name, OF, f"index {INDEX!r} is active")


def _recovery(backups: Any) -> Iterator[Check]:
    state = backups.get("PointInTimeRecoveryDescription", {}).get("PointInTimeRecoveryStatus", "DISABLED")
    if state == "ENABLED":
        yield Check.ok(CheckName.LEDGER_RECOVERY, OF, "point-in-time recovery is on")
    else:
        found = "point-in-time recovery is off: rows that are lost stay lost"
        yield Check.warning(CheckName.LEDGER_RECOVERY, OF, found, DEPLOY)


def _expiry(expiry: Any) -> Iterator[Check]:
    state, attribute = expiry.get("TimeToLiveStatus", "DISABLED"), expiry.get("AttributeName")
    if state in ("ENABLED", "ENABLING") and attribute == EXPIRY:
        yield Check.ok(CheckName.LEDGER_EXPIRY, OF, f"closed work leaves by {EXPIRY}")
    elif state in ("ENABLED", "ENABLING"):
        found = f"rows leave by {attribute!r}, which is none of Sexton's"
        yield Check.failed(CheckName.LEDGER_EXPIRY, OF, found, DEPLOY)
    else:
        yield Check.warning(CheckName.LEDGER_EXPIRY, OF, "closed work never leaves the table", DEPLOY)


def _keys(described: Any) -> dict[str, str]:
    return {each["AttributeName"]: each["KeyType"] for each in described["KeySchema"]}
