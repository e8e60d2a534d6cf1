"""A template, asked in the words of the design: never by logical id."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

Resource = Mapping[str, Any]


@dataclass(frozen=True)
class Right:
    """One statement of a role's policies, for one action."""

    effect: str
    action: str
    resources: tuple[str, ...]
    conditions: str


@dataclass(frozen=True)
class Template:
    """A synthesized CloudFormation template. References are read as `<logical id>` inside of texts."""

    stack_name: str
    json: Mapping[str, Any]

    def all(self, kind: str) -> dict[str, Resource]:
        """The resources of a type, by logical id."""
        return {id_: r for id_, r in self.json["Resources"].items() if r["Type"] == kind}

    def props(self, kind: str) -> list[Mapping[str, Any]]:
        """The properties of the resources of a type."""
        return [r.get("Properties", {}) for r in self.all(kind).values()]

    def functions(self) -> dict[str, Mapping[str, Any]]:
        """The functions' properties, by the name of their handler; of the two of control, by their door."""
        return {_name(p): p for p in self.props("AWS::Lambda::Function")}

    def function_id(self, name: str) -> str:
        """The logical id of a function."""
        functions = self.all("AWS::Lambda::Function")
        return next(id_ for id_, r in functions.items() if _name(r["Properties"]) == name)

    def output(self, name: str) -> str:
        """An output's value as text."""
        return text(self.json["Outputs"][name]["Value"])

    def logical(self, output: str) -> str:
        """The logical id that an output stands for."""
        return self.output(output).strip("<>").split(".")[0]

    def rights(self, role: str) -> list[Right]:
        """What a role is allowed or refused by its own policies; managed policies count as a failure."""
        assert "ManagedPolicyArns" not in self.json["Resources"][role]["Properties"]
        return [right for policy in self._policies(role) for right in statements(policy)]

    def managed(self, output: str) -> list[Right]:
        """What a managed policy allows, by the output that has its ARN."""
        return list(statements(self.json["Resources"][self.logical(output)]["Properties"]["PolicyDocument"]))

    def rights_of(self, function: str) -> list[Right]:
        """What a function may do."""
        return self.rights(self.functions()[function]["Role"]["Fn::GetAtt"][0])

    def queue_policy(self, queue: str) -> list[Right]:
        """What a queue's own policy says."""
        found = [p for p in self.props("AWS::SQS::QueuePolicy") if {"Ref": queue} in p["Queues"]]
        return [right for p in found for right in statements(p["PolicyDocument"])]

    def _policies(self, role: str) -> Iterator[Mapping[str, Any]]:
        for policy in self.props("AWS::IAM::Policy"):
            if {"Ref": role} in policy["Roles"]:
                yield policy["PolicyDocument"]


def _name(function: Mapping[str, Any]) -> str:
    door = function["Environment"]["Variables"].get("SEXTON_DOOR")
    return str(door or function["Handler"].split(".")[1])


def statements(document: Mapping[str, Any]) -> Iterator[Right]:
    """Each statement of a policy document, one right for each action."""
    for statement in document["Statement"]:
        resources = tuple(text(r) for r in as_list(statement["Resource"]))
        conditions = text(json.dumps(statement.get("Condition", {}), sort_keys=True))
        for action in as_list(statement["Action"]):
            yield Right(statement["Effect"], action, resources, conditions)


def granted(rights: list[Right], pattern: str) -> set[str]:
    """The resources on which an action that matches a pattern is allowed, or that a wildcard allows."""
    return {
        resource
        for right in rights
        if right.effect == "Allow" and (fnmatchcase(right.action, pattern) or fnmatchcase(pattern, right.action))
        for resource in right.resources
    }


def as_list(value: Any) -> list[Any]:
    """A value that may be one or several, as several."""
    return value if isinstance(value, list) else [value]


def text(value: Any) -> str:
    """A value with its intrinsic functions as text: `<Id>`, `<Id.Arn>`, joined."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        ((name, argument),) = value.items()
        if name == "Ref":
            return f"<{argument}>"
        if name == "Fn::GetAtt":
            return f"<{'.'.join(argument)}>"
        if name == "Fn::Join":
            return str(argument[0]).join(text(part) for part in argument[1])
    return json.dumps(value, sort_keys=True)
