"""Control: the two functions that people's changes go through, each behind a URL that IAM guards."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra import config
from infra.functions import Function
from infra.key import Key


class Door(Construct):
    """One control function and its URL."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        key: Key,
        code: lambda_.Code,
        environment: Mapping[str, str],
        door: str,
        description: str,
    ) -> None:
        super().__init__(scope, id)
        self.control = Function(
            self,
            "Control",
            handler="control",
            key=key,
            code=code,
            timeout=config.CONTROL_TIMEOUT,
            environment={**environment, "SEXTON_DOOR": door},
            description=description,
        )
        self.url = self.control.function.add_function_url(auth_type=lambda_.FunctionUrlAuthType.AWS_IAM)

    def statements(self) -> list[iam.PolicyStatement]:
        """What a person needs to ask: both rights, and to invoke only through the URL, where IAM says who asks."""
        arns = [self.control.function.function_arn]
        return [
            iam.PolicyStatement(actions=["lambda:InvokeFunctionUrl"], resources=arns),
            iam.PolicyStatement(
                actions=["lambda:InvokeFunction"],
                resources=arns,
                conditions={"Bool": {"lambda:InvokedViaFunctionUrl": "true"}},
            ),
        ]


class Control(Construct):
    """Both doors: the operator's, and the approver's for what takes protection back or lets objects go."""

    def __init__(
        self, scope: Construct, id: str, *, key: Key, code: lambda_.Code, environment: Mapping[str, str]
    ) -> None:
        super().__init__(scope, id)
        self.operator = Door(
            self,
            "Operate",
            key=key,
            code=code,
            environment=environment,
            door="operator",
            description="Carries out what an operator asks for: stops, goes on, replays.",
        )
        self.approver = Door(
            self,
            "Approve",
            key=key,
            code=code,
            environment=environment,
            door="approver",
            description="Carries out what an approver asks for: approves, undoes, releases holds.",
        )

    @property
    def all(self) -> tuple[Function, ...]:
        """Both functions."""
        return (self.operator.control, self.approver.control)

    def let_ask(self, discovery: lambda_.IFunction) -> None:
        """Let both call discovery, which creates runs and goes on with them."""
        for control in self.all:
            iam.Grant.add_to_principal(
                grantee=control.role, actions=["lambda:InvokeFunction"], resource_arns=[discovery.function_arn]
            )
