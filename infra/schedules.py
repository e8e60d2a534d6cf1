"""The schedules: one per policy, and the tick."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import ArnFormat, Aws, RemovalPolicy, Stack, TimeZone
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from aws_cdk import aws_sqs as sqs
from constructs import Construct
from sexton.aws.schedules import schedule_name
from sexton.policy import Policy

from infra import config, review

SCHEDULED_TIME = scheduler.ContextAttribute.scheduled_time


class Schedules(Construct):
    """EventBridge Scheduler's side: it may invoke discovery and the reconciler, and report what it gave up."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        policies: Sequence[Policy],
        discovery: lambda_.IFunction,
        reconciler: lambda_.IFunction,
        failures: sqs.IQueue,
    ) -> None:
        super().__init__(scope, id)
        # Kept, as it would be by default, it would be in the way of a stack of the same name: its own name is fixed.
        group = scheduler.ScheduleGroup(self, "Group", removal_policy=RemovalPolicy.DESTROY)
        self._group = group
        self._tick(group, reconciler)
        role = _role(self, "PolicyRole", group)
        _accept_versions(role, discovery)
        self.policy_role = role
        for policy in policies:
            self._policy(group, role, policy, discovery, failures)

    @property
    def group_name(self) -> str:
        """The name of the group that all schedules are in."""
        return self._group.schedule_group_name

    @property
    def of_policies(self) -> str:
        """The ARN of the policies' schedules."""
        name = f"schedule/{self.group_name}/{schedule_name('*')}"
        return Stack.of(self).format_arn(service="scheduler", resource=name, arn_format=ArnFormat.NO_RESOURCE_NAME)

    def grant_pause(self, control: iam.IRole) -> None:
        """Read a policy's schedule and write it again, whole, with another state; it goes on under its own role."""
        arns = [self.of_policies]
        iam.Grant.add_to_principal(
            grantee=control, actions=["scheduler:GetSchedule", "scheduler:UpdateSchedule"], resource_arns=arns
        )
        review.accept_wildcards(control, arns, "The schedules of all policies that are, or will be, deployed.")
        iam.Grant.add_to_principal(
            grantee=control,
            actions=["iam:PassRole"],
            resource_arns=[self.policy_role.role_arn],
            conditions={"StringEquals": {"iam:PassedToService": "scheduler.amazonaws.com"}},
        )

    def _tick(self, group: scheduler.IScheduleGroup, reconciler: lambda_.IFunction) -> None:
        role = _role(self, "TickRole", group)
        _accept_versions(role, reconciler)
        scheduler.Schedule(
            self,
            "Tick",
            description="Sexton's tick.",
            schedule=scheduler.ScheduleExpression.rate(config.TICK),
            schedule_group=group,
            target=targets.LambdaInvoke(
                reconciler,
                input=scheduler.ScheduleTargetInput.from_object({"tick": SCHEDULED_TIME}),
                role=role,
                retry_attempts=0,
                max_event_age=config.TICK_EVENT_AGE,
            ),
        )

    def _policy(
        self,
        group: scheduler.IScheduleGroup,
        role: iam.IRole,
        policy: Policy,
        discovery: lambda_.IFunction,
        failures: sqs.IQueue,
    ) -> None:
        given = {"policy": policy.id, "scheduled_time": SCHEDULED_TIME}
        scheduler.Schedule(
            self,
            f"Policy-{policy.id}",
            schedule_name=schedule_name(policy.id),
            description=f"Runs of Sexton's policy {policy.id}.",
            schedule=scheduler.ScheduleExpression.expression(policy.schedule, TimeZone.of(policy.timezone)),
            schedule_group=group,
            target=targets.LambdaInvoke(
                discovery,
                input=scheduler.ScheduleTargetInput.from_object(given),
                role=role,
                retry_attempts=config.SCHEDULE_RETRIES,
                max_event_age=config.SCHEDULE_EVENT_AGE,
                dead_letter_queue=failures,
            ),
        )


def _accept_versions(role: iam.IRole, function: lambda_.IFunction) -> None:
    reason = "The schedule's target grants the invocation of the function's versions too, and there are none."
    review.accept_wildcards(role, [f"{function.function_arn}:*"], reason)


def _role(scope: Construct, id: str, group: scheduler.IScheduleGroup) -> iam.Role:
    """A role that only this stack's schedules can make Scheduler take."""
    ours = {"aws:SourceAccount": Aws.ACCOUNT_ID, "aws:SourceArn": group.schedule_group_arn}
    principal = iam.ServicePrincipal("scheduler.amazonaws.com", conditions={"StringEquals": ours})
    return iam.Role(scope, id, assumed_by=principal)
