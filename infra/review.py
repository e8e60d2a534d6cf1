"""What a review of the stack finds and is accepted, with the reason beside the construct that it is about.

The rules are those of cdk-nag's pack AwsSolutions; the stack itself does not need it, only the test that applies it.
"""

from __future__ import annotations

from collections.abc import Iterable

from aws_cdk import Acknowledgment, Stack, Validations
from constructs import IConstruct

NO_ACCESS_LOG = "AwsSolutions-S1"
NO_DEAD_LETTERS = "AwsSolutions-SQS3"
OLDER_RUNTIME = "AwsSolutions-L1"
WILDCARD = "AwsSolutions-IAM5"


def accept(construct: IConstruct, rule: str, reason: str) -> None:
    """Accept one finding on a construct or on what it contains."""
    Validations.of(construct).acknowledge(Acknowledgment(id=rule, reason=reason))


def accept_wildcards(holder: IConstruct, arns: Iterable[str], reason: str) -> None:
    """Accept that the rights of a role end in a wildcard, for exactly these resources."""
    for arn in sorted({*_flat(holder, arns)}):
        if "*" in arn:
            accept(holder, f"{WILDCARD}[Resource::{arn}]", reason)


def _flat(scope: IConstruct, arns: Iterable[str]) -> Iterable[str]:
    return (_text(Stack.of(scope).resolve(arn)) for arn in arns)


def _text(value: object) -> str:
    """An ARN as the rule names it: references in angle brackets, also what IAM itself reads as a variable."""
    if isinstance(value, str):
        return value.replace("${", "<").replace("}", ">")
    if not isinstance(value, dict):
        raise TypeError(f"no part of an ARN: {value!r}")
    ((name, argument),) = value.items()
    if name == "Fn::Join":
        return str(argument[0]).join(map(_text, argument[1]))
    return f"<{argument if name == 'Ref' else '.'.join(argument)}>"
