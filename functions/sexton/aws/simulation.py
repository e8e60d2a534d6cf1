"""What IAM says that a role may do, without doing it.

The simulation knows the role's policies, its boundary and the organization's; it does not know the policies of
buckets, queues and keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

ALLOWED = "allowed"
NEEDS = "iam:SimulatePrincipalPolicy on the functions' roles, and lambda:GetFunctionConfiguration"


def refused(iam: Any, role: str, actions: Iterable[str], resource: str, context: Mapping[str, str]) -> list[str]:
    """Those of the actions that the role may not do on one resource."""
    entries = [
        {"ContextKeyName": key, "ContextKeyType": "stringList" if key.startswith("dynamodb") else "string"}
        | {"ContextKeyValues": [value]}
        for key, value in context.items()
    ]
    asked = list(actions)
    answer = iam.simulate_principal_policy(
        PolicySourceArn=role, ActionNames=asked, ResourceArns=[resource], ContextEntries=entries
    )
    decided = {each["EvalActionName"]: each["EvalDecision"] for each in answer["EvaluationResults"]}
    return [action for action in asked if decided.get(action) != ALLOWED]
