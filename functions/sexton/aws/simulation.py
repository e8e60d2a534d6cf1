"""What IAM says that a role may do, without doing it.

The simulation knows the role's policies, its boundary and the organization's; it does not know the policies of
buckets, queues and keys.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from botocore.exceptions import ClientError

ALLOWED = "allowed"
CONTROL = {"s3:prefix": "doctor/"}
CONTROL_POLICY = {
    "Version": "2012-10-17",
    "Statement": {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "*", "Condition": {"StringLike": CONTROL}},
}
NEEDS = (
    "iam:SimulatePrincipalPolicy on the functions' roles, lambda:GetFunctionConfiguration and dynamodb:DescribeTable"
)


def refused(iam: Any, role: str, actions: Iterable[str], resource: str, context: Mapping[str, str]) -> list[str]:
    """Those of the actions that the role may not do on one resource."""
    asked = list(actions)
    answer = iam.simulate_principal_policy(
        PolicySourceArn=role, ActionNames=asked, ResourceArns=[resource], ContextEntries=_entries(context)
    )
    decided = {each["EvalActionName"]: each["EvalDecision"] for each in answer["EvaluationResults"]}
    return [action for action in asked if decided.get(action) != ALLOWED]


def heeds_context(iam: Any) -> bool:
    """Whether conditions are judged by the context that is given: emulators may leave it out, and refuse.

    Where that cannot be asked, it is believed.
    """
    try:
        answer = iam.simulate_custom_policy(
            PolicyInputList=[json.dumps(CONTROL_POLICY)],
            ActionNames=["s3:ListBucket"],
            ResourceArns=["arn:aws:s3:::sexton-doctor"],
            ContextEntries=_entries(CONTROL),
        )
    except ClientError:
        return True
    return bool(answer["EvaluationResults"][0]["EvalDecision"] == ALLOWED)


def _entries(context: Mapping[str, str]) -> list[dict[str, Any]]:
    """A table's leading keys are a list, all else is one text."""
    return [
        {
            "ContextKeyName": key,
            "ContextKeyType": "stringList" if key == "dynamodb:LeadingKeys" else "string",
            "ContextKeyValues": [value],
        }
        for key, value in context.items()
    ]
