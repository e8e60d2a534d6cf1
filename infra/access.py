"""Access: what people need, as managed policies to attach to their roles. None of them writes the ledger."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Aws, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra import review
from infra.control import Control
from infra.dashboard import Dashboard
from infra.evidence import Evidence
from infra.functions import Function, Functions
from infra.key import READ as READ_KEY
from infra.key import TABLE, Key
from infra.ledger import OPEN, Ledger
from infra.ledger import READ as READ_ROWS
from infra.queue import FailureQueue, JobsQueue
from infra.schedules import Schedules

LOOK_AT_TABLE = ("dynamodb:DescribeTable", "dynamodb:DescribeContinuousBackups", "dynamodb:DescribeTimeToLive")


class Access(Construct):
    """`SextonViewer` reads; `SextonOperator` and `SextonApprover` may besides ask for changes, each at its own door.

    They carry no name of their own, which would be in the way of a second stack of the account; the outputs do.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        key: Key,
        ledger: Ledger,
        evidence: Evidence,
        queue: JobsQueue,
        failures: FailureQueue,
        functions: Functions,
        control: Control,
        schedules: Schedules,
        dashboard: Dashboard,
    ) -> None:
        super().__init__(scope, id)
        # Whoever names a stack is judged by its id at one time, and by `NAME/*` at another.
        stack = Stack.of(self).format_arn(
            service="cloudformation", resource="stack", resource_name=f"{Stack.of(self).stack_name}/*"
        )
        self._read = [_allow(["cloudformation:DescribeStacks"], [stack])]
        every = [*functions.all, *control.all, dashboard.widget]
        self._read += _reading(key, ledger, evidence, queue, failures, every)
        self._read += _looking(functions, schedules)
        self._read += _seeing(dashboard)
        self._wide = [stack, *evidence.of_runs, schedules.of_policies, "*"]
        peek = [_allow(["sqs:ReceiveMessage"], [queue.dead_letters.queue_arn])]
        tick = [_allow(["lambda:InvokeFunction"], [functions.reconciler.function.function_arn])]
        self.viewer = self._policy("SextonViewer", "Reads Sexton's ledger, evidence and queues.", [])
        self.operator = self._policy(
            "SextonOperator",
            "Reads, and asks Sexton to stop, to go on and to replay.",
            [*peek, *tick, *control.operator.statements()],
        )
        self.approver = self._policy(
            "SextonApprover",
            "Reads, and asks Sexton to approve, to undo and to release holds.",
            control.approver.statements(),
        )

    def _policy(self, id: str, description: str, more: Sequence[iam.PolicyStatement]) -> iam.ManagedPolicy:
        made = iam.ManagedPolicy(self, id, description=description)
        made.add_statements(*(each.copy() for each in self._read), *more)
        reason = (
            "All that runs are made of and every policy's schedule is there to be read; a stack's id begins with its"
            " name; and AWS lists schedules and event source mappings of a whole account or not at all."
        )
        review.accept_wildcards(made, self._wide, reason)
        return made


def _reading(
    key: Key,
    ledger: Ledger,
    evidence: Evidence,
    queue: JobsQueue,
    failures: FailureQueue,
    functions: Sequence[Function],
) -> list[iam.PolicyStatement]:
    """What the reading commands need. Of the sources nothing: their owners say who may look into them."""
    table, bucket = ledger.table.table_arn, evidence.bucket.bucket_arn
    found = [
        _allow([*READ_ROWS], [table, f"{table}/index/{OPEN}"]),
        _allow([*LOOK_AT_TABLE], [table]),
        _allow(["s3:GetObject"], evidence.of_runs),
        _allow(["s3:ListBucket", "s3:GetBucketVersioning", "s3:GetBucketObjectLockConfiguration"], [bucket]),
        _allow(
            ["sqs:GetQueueAttributes"],
            [each.queue_arn for each in (queue.jobs, queue.dead_letters, failures.queue)],
        ),
        _allow(["sqs:ListMessageMoveTasks"], [queue.dead_letters.queue_arn]),
        _allow(["lambda:GetFunctionConfiguration"], [each.function.function_arn for each in functions]),
    ]
    if key.key:
        found += [_with_key(key.key.key_arn, READ_KEY, "s3"), _with_key(key.key.key_arn, TABLE, "dynamodb")]
        found.append(_with_key(key.key.key_arn, READ_KEY, "sqs"))
    return found


def _looking(functions: Functions, schedules: Schedules) -> list[iam.PolicyStatement]:
    """What the doctor needs besides, of what starts the functions."""
    return [
        _allow(["logs:FilterLogEvents"], [functions.reconciler.log_group.log_group_arn]),
        _allow(["scheduler:GetSchedule"], [schedules.of_policies]),
        _allow(["lambda:ListEventSourceMappings", "scheduler:ListSchedules"], ["*"]),
    ]


def _seeing(dashboard: Dashboard) -> list[iam.PolicyStatement]:
    """What the dashboard needs of whoever looks at it: CloudWatch calls its function in their name."""
    return [
        _allow(["cloudwatch:GetDashboard"], [dashboard.dashboard.dashboard_arn]),
        _allow(["cloudwatch:GetMetricData"], ["*"]),
        _allow(["lambda:InvokeFunction"], [dashboard.widget.function.function_arn]),
    ]


def _allow(actions: Sequence[str], resources: Sequence[str]) -> iam.PolicyStatement:
    return iam.PolicyStatement(actions=[*actions], resources=[*resources])


def _with_key(arn: str, actions: Sequence[str], service: str) -> iam.PolicyStatement:
    through = {"StringEquals": {"kms:ViaService": f"{service}.{Aws.REGION}.amazonaws.com"}}
    return iam.PolicyStatement(actions=[*actions], resources=[arn], conditions=through)
