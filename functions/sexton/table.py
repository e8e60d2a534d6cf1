"""Conditional writes as values: what a transition sets, and what must hold for it.

The ledger's rules are written once, in these terms. An adapter turns them into DynamoDB's expressions; the fake
evaluates them. The semantics are DynamoDB's: a comparison with an attribute that the row lacks is false.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sexton.attributes import Attribute, Attributes

Value = Any  # str | int | bool | list | dict of these: what JSON and DynamoDB share, without floats
Row = dict[str, Value]


class Key(NamedTuple):
    """A row's primary key."""

    pk: str
    sk: str


@dataclass(frozen=True, slots=True)
class Test:
    """`attribute operator value`; operators: absent, present, =, <, <=, >, >=, in."""

    attribute: str
    operator: str
    value: Value = None

    __test__ = False  # not a pytest class


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one of the tests holds."""

    tests: tuple[Test, ...]


Condition = Test | AnyOf


def absent(attribute: str) -> Test:
    """The row (or the attribute) is not there."""
    return Test(attribute, "absent")


def present(attribute: str) -> Test:
    """The attribute is there."""
    return Test(attribute, "present")


def equals(attribute: str, value: Value) -> Test:
    """The attribute has this value."""
    return Test(attribute, "=", value)


def before(attribute: str, value: int) -> Test:
    """The attribute is smaller than this."""
    return Test(attribute, "<", value)


def at_most(attribute: str, value: int) -> Test:
    """The attribute is this or smaller."""
    return Test(attribute, "<=", value)


def after(attribute: str, value: int) -> Test:
    """The attribute is greater than this."""
    return Test(attribute, ">", value)


def one_of(attribute: str, values: Sequence[Value]) -> Test:
    """The attribute is one of these."""
    return Test(attribute, "in", tuple(values))


def any_of(*tests: Test) -> AnyOf:
    """At least one holds."""
    return AnyOf(tests)


@dataclass(frozen=True, slots=True)
class Write:
    """One conditional write of one row; a row that is not there is created.

    Applied in this order of meaning (all in one atomic step): `set` replaces, `set_once` sets where absent,
    `add` adds to a number (absent counts as 0), `append` extends a list (absent counts as empty), `remove`
    takes attributes away. No attribute stands in two of them. `id` is unique to this write and is stored on
    the row as `write_id`, so that a writer whose reply was lost recognises its own work.
    """

    key: Key
    id: str
    when: tuple[Condition, ...]
    set: Mapping[str, Value] = field(default_factory=dict)
    set_once: Mapping[str, Value] = field(default_factory=dict)
    add: Mapping[str, int] = field(default_factory=dict)
    append: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    remove: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Check:
    """A condition on a row that a transaction does not change."""

    key: Key
    when: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    """The removal of a record of another table, within a transaction.

    Refused unless each attribute of `expected` has the value given, or is absent where that is None.
    """

    table: str
    key: Attributes
    expected: Mapping[str, Attribute | None]


@dataclass(frozen=True, slots=True)
class Update:
    """New values of some attributes of such a record, refused as a Delete is; all others stay as they are.

    At least one of `expected` has a value, so that no record is ever created.
    """

    table: str
    key: Attributes
    expected: Mapping[str, Attribute | None]
    values: Attributes


@dataclass(frozen=True, slots=True)
class Put:
    """A whole record that is put where there is none of its key; refused where there is."""

    table: str
    key: Attributes
    record: Attributes


Change = Delete | Update | Put  # of a record of another table


@dataclass(frozen=True, slots=True)
class Applied:
    """The write took place; `row` is the row after it (None for transactions)."""

    row: Row | None


@dataclass(frozen=True, slots=True)
class Refused:
    """A condition did not hold: nothing was written. `old` is the row it met, None where there is none.

    `index` is the place of the refused write in its transaction.
    """

    old: Row | None
    index: int = 0


Written = Applied | Refused

WRITE_ID = "write_id"

_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: bool(a == b),
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
    ">": lambda a, b: bool(a > b),
    ">=": lambda a, b: bool(a >= b),
    "in": lambda a, b: a in b,
}


def holds(condition: Condition, row: Row | None) -> bool:
    """Whether the condition holds of the row, as DynamoDB would judge it."""
    if isinstance(condition, AnyOf):
        return any(holds(test, row) for test in condition.tests)
    there = row is not None and condition.attribute in row
    if condition.operator in ("absent", "present"):
        return there == (condition.operator == "present")
    return there and row is not None and _COMPARE[condition.operator](row[condition.attribute], condition.value)


def applied(write: Write, row: Row | None) -> Row:
    """The row after the write, its conditions aside."""
    new: Row = dict(row or {"pk": write.key.pk, "sk": write.key.sk})
    new.update(write.set)
    for attribute, value in write.set_once.items():
        new.setdefault(attribute, value)
    for attribute, amount in write.add.items():
        new[attribute] = new.get(attribute, 0) + amount
    for attribute, values in write.append.items():
        new[attribute] = [*new.get(attribute, []), *values]
    for attribute in write.remove:
        new.pop(attribute, None)
    new[WRITE_ID] = write.id
    return new
