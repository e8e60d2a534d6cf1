"""What the doctor says that the functions need is what the stack grants them, and what none may is granted to none."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase

from sexton import control_grants
from sexton.control_grants import DOORS, ControlArns
from sexton.grants import EXAMPLE, Arns, Grant, excessive, needed
from sexton.policy import load_policies

from tests.infra.conftest import POLICIES
from tests.infra.template import Right, Template
from tests.infra.template import granted as granted_resources

POLICY_FILES = load_policies(POLICIES)


def arns(template: Template) -> Arns:
    def arn(output: str) -> str:
        return f"<{template.logical(output)}.Arn>"

    evidence = arn("EvidenceBucketName")
    ledger = f"arn:aws:dynamodb:eu-central-1:123456789012:table/{arn('LedgerTableName')}"
    return Arns(ledger, f":::{evidence}", arn("JobsQueueUrl"), arn("DiscoveryFunctionName"))


def allows(right: Right, action: str, grant: Grant) -> bool:
    here = local(grant.resource)
    patterns = [pattern(local(resource)) for resource in right.resources]
    conditions = json.loads(right.conditions)
    return (
        right.effect == "Allow"
        and right.action == action
        and any(fnmatchcase(here, each) for each in patterns)
        and all(holds(grant, operator, keys) for operator, keys in conditions.items())
    )


def local(arn: str) -> str:
    """An ARN without partition, region and account, which are no matter here."""
    table = arn.partition(":table/")[2]
    if table.startswith("<"):  # a reference to the ledger, which is an ARN of its own
        return table
    return f"/{table}" if table else arn.rpartition(":::")[2]


def holds(grant: Grant, operator: str, keys: dict[str, list[str]]) -> bool:
    assert operator in ("StringLike", "ForAllValues:StringLike")
    return all(
        any(fnmatchcase(grant.context.get(key, ""), pattern(each)) for each in patterns)
        for key, patterns in keys.items()
    )


def pattern(text: str) -> str:
    """IAM's pattern as fnmatch reads it."""
    return text.replace("[", "[[]").replace("${*}", "[*]").replace("${?}", "[?]").replace("${$}", "$")


def granted(template: Template, grant: Grant) -> set[str]:
    rights = template.rights_of(grant.function)
    return {action for action in grant.actions if any(allows(right, action, grant) for right in rights)}


def test_what_the_functions_need_is_granted(template: Template) -> None:
    for grant in needed(arns(template), POLICY_FILES):
        assert granted(template, grant) == set(grant.actions), grant


def test_what_is_another_s_is_not_granted(template: Template) -> None:
    for grant in excessive(arns(template), POLICY_FILES):
        assert granted(template, grant) == set(), grant


def control_arns(template: Template) -> ControlArns:
    (feed,) = granted_resources(template.rights_of("operator"), "lambda:UpdateEventSourceMapping")
    (schedules,) = granted_resources(template.rights_of("operator"), "scheduler:UpdateSchedule")
    dead = f"<{template.logical('DeadLetterQueueUrl')}.Arn>"
    return ControlArns(dead, template.output("RedriveRoleArn"), feed, schedules.replace("*", EXAMPLE))


def of_door(template: Template, grant: Grant) -> set[str]:
    rights = template.rights_of(DOORS[grant.function])
    return {action for action in grant.actions if any(allows(right, action, grant) for right in rights)}


def test_what_the_control_functions_need_is_granted(template: Template) -> None:
    for grant in control_grants.needed(arns(template), control_arns(template)):
        assert of_door(template, grant) == set(grant.actions), grant


def test_what_the_control_functions_must_not_is_not_granted(template: Template) -> None:
    for grant in control_grants.excessive(arns(template), control_arns(template)):
        assert of_door(template, grant) == set(), grant


def test_each_right_of_control_is_known_to_the_doctor(template: Template) -> None:
    needed_by_control = control_grants.needed(arns(template), control_arns(template))
    known = {action for grant in needed_by_control for action in grant.actions}
    logs = {"logs:CreateLogStream", "logs:PutLogEvents"}
    beside = {"iam:PassRole", "sqs:GetQueueAttributes", "sqs:ListDeadLetterSourceQueues"}
    for door in DOORS.values():
        assert {right.action for right in template.rights_of(door)} <= known | logs | beside
