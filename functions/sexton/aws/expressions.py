"""Conditional writes in DynamoDB's own words: expressions, placeholders and typed values."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sexton.attributes import Attribute as Typed
from sexton.attributes import Attributes
from sexton.table import WRITE_ID, AnyOf, Change, Check, Condition, Delete, Key, Put, Row, Test, Update, Value, Write

Attribute = dict[str, Any]  # a typed value, such as {"S": "text"}

_OPERATORS = {"=": "=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def key_of(key: Key) -> dict[str, Attribute]:
    """The row's primary key as DynamoDB takes it."""
    return {"pk": {"S": key.pk}, "sk": {"S": key.sk}}


def to_attribute(value: Value) -> Attribute:
    """A value with its type. Raises TypeError for what the ledger does not store (floats among them)."""
    if isinstance(value, bool):  # before int, of which it is one
        return {"BOOL": value}
    if isinstance(value, str):
        return {"S": str(value)}
    if isinstance(value, int):
        return {"N": str(int(value))}
    if value is None:
        return {"NULL": True}
    if isinstance(value, Mapping):
        return {"M": {name: to_attribute(each) for name, each in value.items()}}
    if isinstance(value, (list, tuple)):
        return {"L": [to_attribute(each) for each in value]}
    raise TypeError(f"the ledger stores no {type(value).__name__}")


_FROM: Mapping[str, Callable[[Any], Value]] = {
    "S": lambda text: text,
    "N": int,
    "BOOL": lambda flag: flag,
    "NULL": lambda _: None,
    "L": lambda values: [from_attribute(each) for each in values],
    "M": lambda values: from_item(values),
}


def from_attribute(attribute: Mapping[str, Any]) -> Value:
    """The value without its type; whole numbers come back as int."""
    ((kind, value),) = attribute.items()
    return _FROM[kind](value)


def from_item(item: Mapping[str, Any]) -> Row:
    """A whole row."""
    return {name: from_attribute(attribute) for name, attribute in item.items()}


class Placeholders:
    """`#n` for names and `:v` for values: no attribute's name can meet a reserved word."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.values: dict[str, Attribute] = {}

    def name(self, attribute: str) -> str:
        return self.names.setdefault(attribute, f"#n{len(self.names)}")

    def value(self, value: Value) -> str:
        return self.typed(to_attribute(value))

    def typed(self, value: Attribute) -> str:
        placeholder = f":v{len(self.values)}"
        self.values[placeholder] = value
        return placeholder

    def fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        if self.names:
            fields["ExpressionAttributeNames"] = {short: name for name, short in self.names.items()}
        if self.values:
            fields["ExpressionAttributeValues"] = self.values
        return fields


def update_fields(write: Write) -> dict[str, Any]:
    """The fields of an UpdateItem, or of an Update in a transaction, without its table."""
    use = Placeholders()
    return {
        "Key": key_of(write.key),
        "UpdateExpression": _update(write, use),
        "ConditionExpression": " AND ".join([_not_yet(write, use), *(_condition(each, use) for each in write.when)]),
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        **use.fields(),
    }


def check_fields(check: Check) -> dict[str, Any]:
    """The fields of a ConditionCheck in a transaction, without its table."""
    use = Placeholders()
    return {
        "Key": key_of(check.key),
        "ConditionExpression": " AND ".join(_condition(each, use) for each in check.when),
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        **use.fields(),
    }


def delete_fields(delete: Delete) -> dict[str, Any]:
    """The fields of a Delete in a transaction, without its table. The old record is not asked for."""
    use = Placeholders()
    return {"Key": wire_key(delete.key), "ConditionExpression": _as_expected(delete, use), **use.fields()}


def record_update_fields(update: Update) -> dict[str, Any]:
    """The same of an Update of a record."""
    use = Placeholders()
    sets = [f"{use.name(name)} = {use.typed(to_wire(value))}" for name, value in update.values.items()]
    return {
        "Key": wire_key(update.key),
        "UpdateExpression": "SET " + ", ".join(sets),
        "ConditionExpression": _as_expected(update, use),
        **use.fields(),
    }


def put_fields(put: Put) -> dict[str, Any]:
    """The same of a Put, where there is no record of its key."""
    use = Placeholders()
    missing = f"attribute_not_exists({use.name(next(iter(put.key)))})"
    return {"Item": wire_key(put.record), "ConditionExpression": missing, **use.fields()}


def change_action(change: Change) -> dict[str, Any]:
    """A change of a record, as a transaction takes it."""
    if isinstance(change, Put):
        return {"Put": {"TableName": change.table, **put_fields(change)}}
    if isinstance(change, Update):
        return {"Update": {"TableName": change.table, **record_update_fields(change)}}
    return {"Delete": {"TableName": change.table, **delete_fields(change)}}


def _as_expected(change: Delete | Update, use: Placeholders) -> str:
    conditions = []
    for name, value in change.expected.items():
        short = use.name(name)
        if value is None:
            conditions.append(f"attribute_not_exists({short})")
        else:
            conditions.append(f"{short} = {use.typed(to_wire(value))}")
    return " AND ".join(conditions)


def wire_key(key: Attributes) -> dict[str, Attribute]:
    """Attributes of a record as boto3 takes them: bytes where JSON has base64."""
    return {name: to_wire(value) for name, value in key.items()}


def to_wire(value: Typed) -> Attribute:
    """An attribute of a record as boto3 takes it."""
    ((kind, held),) = value.items()
    if kind == "B":
        return {kind: base64.b64decode(held)}
    if kind == "BS":
        return {kind: [base64.b64decode(each) for each in held]}
    if kind == "M":
        return {kind: wire_key(held)}
    return {kind: [to_wire(each) for each in held]} if kind == "L" else {kind: held}


def from_wire(value: Any) -> Any:
    """A record's attribute, or what is in it, as JSON can carry it: base64 where boto3 gives bytes."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {name: from_wire(each) for name, each in value.items()}
    return [from_wire(each) for each in value] if isinstance(value, list) else value


def _not_yet(write: Write, use: Placeholders) -> str:
    """A repeat of a write that was applied already is refused, and recognised by the old row."""
    name = use.name(WRITE_ID)
    return f"(attribute_not_exists({name}) OR {name} <> {use.value(write.id)})"


def _condition(condition: Condition, use: Placeholders) -> str:
    if isinstance(condition, AnyOf):
        return "(" + " OR ".join(_test(test, use) for test in condition.tests) + ")"
    return _test(condition, use)


def _test(test: Test, use: Placeholders) -> str:
    name = use.name(test.attribute)
    if test.operator == "absent":
        return f"attribute_not_exists({name})"
    if test.operator == "present":
        return f"attribute_exists({name})"
    if test.operator == "in":
        return f"{name} IN (" + ", ".join(use.value(each) for each in test.value) + ")"
    return f"{name} {_OPERATORS[test.operator]} {use.value(test.value)}"


def _update(write: Write, use: Placeholders) -> str:
    sets = [*_replacements({**write.set, WRITE_ID: write.id}, use), *_firsts(write.set_once, use)]
    sets += [*_sums(write.add, use), *_extensions(write.append, use)]
    clauses = ["SET " + ", ".join(sets)]
    if write.remove:
        clauses.append("REMOVE " + ", ".join(use.name(attribute) for attribute in write.remove))
    return " ".join(clauses)


def _replacements(values: Mapping[str, Value], use: Placeholders) -> list[str]:
    return [f"{use.name(name)} = {use.value(value)}" for name, value in values.items()]


def _firsts(values: Mapping[str, Value], use: Placeholders) -> list[str]:
    return [f"{use.name(name)} = if_not_exists({use.name(name)}, {use.value(value)})" for name, value in values.items()]


def _sums(amounts: Mapping[str, int], use: Placeholders) -> list[str]:
    return [
        f"{use.name(name)} = if_not_exists({use.name(name)}, {use.value(0)}) + {use.value(amount)}"
        for name, amount in amounts.items()
    ]


def _extensions(lists: Mapping[str, Sequence[Value]], use: Placeholders) -> list[str]:
    return [
        f"{use.name(name)} = list_append(if_not_exists({use.name(name)}, {use.value([])}), {use.value(list(values))})"
        for name, values in lists.items()
    ]
