"""The application whose records they are: it writes, moves, rewrites, deletes and brings back at any time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from tests.fakes.records import FakeRecords
from tests.fakes.time import START
from tests.simulation.faults import Fault
from tests.simulation.oracles.store import Store
from tests.simulation.reminders import IDS, STATUSES, Wanted, new, odd, written
from tests.simulation.scenario import RETAIN, Scenario
from tests.simulation.simulated import SimulatedWorld

FASTER = 0.2  # of the removals meet somebody who is faster, where that happens at all
BEHIND = 1.0, 120.0  # seconds that listings may be behind
Change = Callable[[FakeRecords, Wanted, str], str | None]


class Application:
    """What becomes of records beside what Sexton does. `acts` by kind; each tells what it did, or did not (None)."""

    def __init__(self, world: SimulatedWorld, scenario: Scenario, store: Store) -> None:
        self.world, self.store, self.random = world, store, world.weather.random
        self._wanted = {rule.bucket: rule.wanted for rule in scenario.rules.values() if rule.wanted is not None}
        self._taken: dict[str, dict[str, Mapping[str, Any]]] = {name: {} for name in self._wanted}
        self._changes: dict[Fault, Change] = {
            Fault.MOVED_ON: self._move_on,
            Fault.GARBLED: self._garble,
            Fault.RECLASSED: self._reclass,
            Fault.TOUCHED: self._touch,
            Fault.TAKEN: self._take,
        }
        self.acts: dict[Fault, Callable[[], str | None]] = {
            Fault.WRITTEN: self._write,
            Fault.BACK: self._bring_back,
            Fault.TABLE_DENIED: self._deny,
            Fault.STALE_LISTING: self._fall_behind,
            **{kind: lambda change=change: self._some_record(change) for kind, change in self._changes.items()},
        }

    def race(
        self, keys: Sequence[str], within: float, happens: Callable[[Fault, Callable[[], str | None]], None]
    ) -> None:
        """While a removal is on its way, somebody is faster with one of its records."""
        mine = [kind for kind in self._changes if self.world.weather.likely[kind]]
        if not mine or self.world.weather.calm or self.random.random() > FASTER:
            return
        kind, key = self.random.choice(mine), self.random.choice(keys)
        name = self.random.choice(sorted(self._wanted))  # nearly always there is but one

        def change() -> str | None:
            table = self.world.tables[name]
            return self._changes[kind](table, self._wanted[name], key) if key in table.records else None

        self.world.scheduler.after(within * self.random.random(), lambda: happens(kind, change))

    def _table(self) -> tuple[str, FakeRecords, Wanted]:
        name = self.random.choice(sorted(self._wanted))
        return name, self.world.tables[name], self._wanted[name]

    def _some_record(self, change: Change) -> str | None:
        _, table, wanted = self._table()
        keys = sorted(table.records)
        return change(table, wanted, self.random.choice(keys)) if keys else None

    def _write(self) -> str:
        name, table, wanted = self._table()
        key = self._put(name, table, new(f"{self.random.randrange(IDS):02d}", wanted, RETAIN, self.random))
        return f"writes {key} of {name}"

    def _put(self, name: str, table: FakeRecords, record: Mapping[str, Any]) -> str:
        """Where none was before, nobody can tell it from one that was removed."""
        there = set(table.records)
        key = table.put(**record)
        if key not in there:
            self.store.undone.add((name, key))
        return key

    def _move_on(self, table: FakeRecords, wanted: Wanted, key: str) -> str:
        age = self.random.choice((RETAIN * 2, RETAIN * 3, RETAIN / 2, -RETAIN, RETAIN))
        self._rewrite(table, key, written(START - age - timedelta(minutes=self.random.randrange(9)), wanted))
        return f"moves the deadline of {key}"

    def _garble(self, table: FakeRecords, wanted: Wanted, key: str) -> str:
        self._rewrite(table, key, odd(START - 2 * RETAIN, wanted, self.random))
        return f"garbles the deadline of {key}"

    def _reclass(self, table: FakeRecords, wanted: Wanted, key: str) -> str:
        name, value = self.random.choice((("carrier", "gls"), ("status", STATUSES[-1])))
        self._rewrite(table, key, {name: value}, keep=True)
        return f"makes {key} {value}"

    def _touch(self, table: FakeRecords, wanted: Wanted, key: str) -> str:
        self._rewrite(table, key, {"note": f"written at {self.world.clock()}"}, keep=True)
        return f"rewrites {key}"

    def _rewrite(self, table: FakeRecords, key: str, new: Mapping[str, Any], keep: bool = False) -> None:
        """Every rewriting counts up; a deadline that is not kept is as `new` says, or not there."""
        old = {name: value for name, value in table.records[key].items() if keep or name != "deadline"}
        table.put(**{**old, "changes": int(old["changes"]["N"]) + 1, **new})

    def _take(self, table: FakeRecords, wanted: Wanted, key: str) -> str:
        self._taken[next(name for name in self._taken if self.world.tables[name] is table)][key] = table.records[key]
        del table.records[key]
        return f"deletes {key}"

    def _bring_back(self) -> str | None:
        name, table, _ = self._table()
        gone = sorted(self._taken[name].keys() - table.records.keys())
        if not gone:
            return None
        key = self.random.choice(gone)
        self._put(name, table, self._taken[name].pop(key))
        return f"writes {key} again as it was"

    def _deny(self) -> str:
        name, table, _ = self._table()
        keys = sorted(table.records) if self.random.random() < 0.5 else sorted(table.records)[:1]
        self.world.trace.denied.update(keys)
        self.world.scheduler.after(
            self.random.uniform(10, 400), lambda: self.world.trace.denied.difference_update(keys)
        )
        return f"forbids the removal of {len(keys)} records from {name}"

    def _fall_behind(self) -> str:
        name, table, _ = self._table()
        table.freeze_listings()
        self.world.scheduler.after(self.random.uniform(*BEHIND), table.thaw_listings)
        return f"lets listings of {name} fall behind"
