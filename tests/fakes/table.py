"""The ledger's table in memory, judged by the same conditions as DynamoDB."""

from __future__ import annotations

import json
from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from sexton.attributes import canonical
from sexton.errors import CallFailed, Failure, ReasonClass
from sexton.ports import Rows
from sexton.table import (
    WRITE_ID,
    Applied,
    Change,
    Check,
    Key,
    Refused,
    Row,
    Write,
    Written,
    applied,
    holds,
)

from tests.fakes.records import FakeRecords

# DynamoDB's limits, in bytes of UTF-8 and in actions.
MAX_PK = 2048
MAX_SK = 1024
MAX_TRANSACTION = 100
MAX_ROW = 400 * 1024
MAX_TRANSACTION_BYTES = 4 * 1024 * 1024


def _invalid(summary: str) -> CallFailed:
    return CallFailed(Failure(ReasonClass.PERMANENT, "ValidationException", summary))


class FakeTable:
    """Rows by key. Rows go in and out as copies: nobody changes the table by changing what he read."""

    def __init__(self, page_size: int = 1000) -> None:
        self.page_size = page_size
        self.rows: dict[Key, Row] = {}
        self.calls: Counter[str] = Counter()
        self.tables: dict[str, FakeRecords] = {}  # other tables, whose records go in transactions of this one
        self._sort_keys: dict[str, list[str]] = {}
        self._frozen_index: dict[Key, Row] | None = None

    def get(self, key: Key) -> Row | None:
        self.calls["get"] += 1
        row = self.rows.get(key)
        return None if row is None else _copy(row)

    def write(self, write: Write) -> Written:
        self.calls["write"] += 1
        _refuse_malformed(write)
        old = self.rows.get(write.key)
        if _is_own(write, old):
            return Applied(_copy(old))
        if not _permitted(write, old):
            return Refused(_copy(old))
        return Applied(_copy(self._store(applied(write, old))))

    def transact(self, writes: Sequence[Write | Check | Change]) -> Written:
        self.calls["transact"] += 1
        rows = [each for each in writes if isinstance(each, Write | Check)]
        changes = [each for each in writes if not isinstance(each, Write | Check)]
        if not changes:
            return self._transact(rows, len(writes))
        for table in {each.table for each in changes}:
            self.tables[table].begin()
        _refuse_same_record(changes)
        assert [*rows, *changes] == list(writes)  # in no other order do the flows send them
        refused = self._judged(rows)
        if refused is not None:
            return refused
        for index, change in enumerate(changes, len(rows)):
            if not self.tables[change.table].permits(change):
                return Refused(None, index)
        if sum(self.tables[change.table].weight(change) for change in changes) > MAX_TRANSACTION_BYTES:
            raise _invalid("a transaction has 4 MB at most")
        written = self._transact(rows, len(writes))
        for change in changes:
            self.tables[change.table].carry_out(change)
        return written

    def _judged(self, rows: Sequence[Write | Check]) -> Written | None:
        """What the rows alone decide: done before, or refused."""
        if any(_is_own(row, self.rows.get(row.key)) for row in rows):
            return Applied(None)
        for index, row in enumerate(rows):
            if not _permitted(row, self.rows.get(row.key)):
                return Refused(_copy(self.rows.get(row.key)), index)
        return None

    def _transact(self, writes: Sequence[Write | Check], actions: int) -> Written:
        _refuse_malformed_transaction(writes, actions)
        if any(_is_own(write, self.rows.get(write.key)) for write in writes):
            return Applied(None)
        for index, write in enumerate(writes):
            old = self.rows.get(write.key)
            if not _permitted(write, old):
                return Refused(_copy(old), index)
        rows = [applied(write, self.rows.get(write.key)) for write in writes if isinstance(write, Write)]
        for row in rows:
            _refuse_too_large(row)
        for row in rows:
            self._store(row)
        return Applied(None)

    def query(self, pk: str, prefix: str = "", after: str | None = None, descending: bool = False) -> Rows:
        self.calls["query"] += 1
        found = [sk for sk in self._sort_keys.get(pk, []) if sk.startswith(prefix)]
        if descending:
            found.reverse()
        if after is not None:
            found = [sk for sk in found if (sk < after if descending else sk > after)]
        page = [_copy(self.rows[Key(pk, sk)]) for sk in found[: self.page_size]]
        # Like DynamoDB, a page that is full has a next even when nothing follows.
        return Rows(page, found[self.page_size - 1] if len(page) == self.page_size else None)

    def query_open(self, open_pk: str, prefix: str = "", up_to: str | None = None, after: str | None = None) -> Rows:
        self.calls["query_open"] += 1
        entries = sorted(self._open_entries(open_pk, prefix, up_to))
        if after is not None:
            start = json.loads(after)
            entries = entries[bisect_right(entries, (start[0], Key(*start[1:]))) :]
        page = entries[: self.page_size]
        following = json.dumps([page[-1][0], *page[-1][1]]) if len(page) == self.page_size else None
        return Rows([_copy(self._index()[key]) for _, key in page], following)

    # For tests only: what the outside world does to the table.

    def freeze_index(self) -> None:
        """Let the `open` index stay behind at what it shows now: it is eventually consistent."""
        self._frozen_index = {key: _copy(row) for key, row in self.rows.items()}

    def thaw_index(self) -> None:
        """Let the `open` index catch up."""
        self._frozen_index = None

    def put(self, row: Row) -> None:
        """Place a row without conditions."""
        self._store(_copy(row))

    def delete(self, key: Key) -> None:
        """Take a row away, as TTL does."""
        if self.rows.pop(key, None) is not None:
            self._sort_keys[key.pk].remove(key.sk)

    def _index(self) -> dict[Key, Row]:
        return self.rows if self._frozen_index is None else self._frozen_index

    def _open_entries(self, open_pk: str, prefix: str, up_to: str | None) -> Iterator[tuple[str, Key]]:
        for key, row in self._index().items():
            sk = row.get("open_sk")
            if row.get("open_pk") != open_pk or not isinstance(sk, str):
                continue
            if prefix <= sk <= up_to if up_to is not None else sk.startswith(prefix):
                yield sk, key

    def _store(self, row: Row) -> Row:
        _refuse_too_large(row)
        key = Key(row["pk"], row["sk"])
        if key not in self.rows:
            insort(self._sort_keys.setdefault(key.pk, []), key.sk)
        self.rows[key] = _copy(row)
        return self.rows[key]


_PLAIN = {str, int, bool, type(None)}


def _copy(value: Any) -> Any:
    """What `deepcopy` does, many times faster, for the values that rows have."""
    if isinstance(value, dict):
        return {name: each if type(each) in _PLAIN else _copy(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [each if type(each) in _PLAIN else _copy(each) for each in value]
    return value


def _is_own(write: Write | Check, old: Row | None) -> bool:
    return isinstance(write, Write) and old is not None and old.get(WRITE_ID) == write.id


def _permitted(write: Write | Check, old: Row | None) -> bool:
    return all(holds(condition, old) for condition in write.when)


def _refuse_too_large(row: Row) -> None:
    """Near enough to what DynamoDB counts, and cheap: most rows are far from it."""
    if len(repr(row)) < MAX_ROW / 4:  # a character has four bytes at most
        return
    if sum(len(name) + _size(value) for name, value in row.items()) > MAX_ROW:
        raise _invalid("the row is larger than 400 KB")


def _size(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    return 8 if type(value) in _PLAIN else len(json.dumps(value))


def _refuse_malformed(write: Write | Check) -> None:
    """Refuse what DynamoDB would refuse, so that no test passes on a write that never works."""
    if not write.key.pk or not write.key.sk:
        raise _invalid("a key attribute is empty")
    if len(write.key.pk.encode()) > MAX_PK or len(write.key.sk.encode()) > MAX_SK:
        raise _invalid("a key attribute is too long")
    if isinstance(write, Check):
        if not write.when:
            raise _invalid("a check without a condition")
        return
    names = [*write.set, *write.set_once, *write.add, *write.append, *write.remove, WRITE_ID]
    if len(names) != len(set(names)):
        raise _invalid("an attribute stands twice in one write")
    if {"pk", "sk"} & set(names):
        raise _invalid("a key attribute cannot be changed")
    _refuse_floats([write.set, write.set_once, write.append])


def _refuse_floats(value: object) -> None:
    if isinstance(value, float):
        raise _invalid("floats are not supported")
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        return
    for part in value.values() if hasattr(value, "values") else value:
        _refuse_floats(part)


def _refuse_same_record(changes: Sequence[Change]) -> None:
    keys = {(change.table, canonical(change.key)) for change in changes}
    if len(keys) != len(changes):
        raise _invalid("a transaction names a record twice")


def _refuse_malformed_transaction(writes: Sequence[Write | Check], actions: int) -> None:
    if not 0 < actions <= MAX_TRANSACTION:
        raise _invalid(f"a transaction has 1 to {MAX_TRANSACTION} actions, not {actions}")
    keys = {write.key for write in writes}
    if len(keys) != len(writes):
        raise _invalid("a transaction names a row twice")
    for write in writes:
        _refuse_malformed(write)
