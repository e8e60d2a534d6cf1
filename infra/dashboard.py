"""The dashboard: the stages of the pipeline side by side, and below them what is stuck, why, and what to type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct
from sexton.policy import Policy

from infra import config, metrics
from infra.functions import Function, Functions
from infra.key import Key
from infra.metrics import FIVE_MINUTES
from infra.queue import FailureQueue, JobsQueue

WIDTH = 24  # of a dashboard, in CloudWatch's units
STAGE = WIDTH // 4
HEIGHT = 6


class Dashboard(Construct):
    """One dashboard of the stack, and the function that draws its table, which reads and changes nothing."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        key: Key,
        code: lambda_.Code,
        environment: Mapping[str, str],
        service: str,
        functions: Functions,
        queue: JobsQueue,
        failures: FailureQueue,
        policies: Sequence[Policy],
    ) -> None:
        super().__init__(scope, id)
        self._service = service
        self.widget = Function(
            self,
            "Widget",
            handler="widget",
            key=key,
            code=code,
            timeout=config.WIDGET_TIMEOUT,
            environment=environment,
            description="Says on the dashboard what is stuck, why, and what a replay would do.",
        )
        self.dashboard = cloudwatch.Dashboard(self, "Dashboard", default_interval=Duration.hours(12))
        self.dashboard.add_widgets(
            _stage("Schedule and planning", _of_function(functions.discovery), _visible("Given up", failures.queue)),
            _stage("Queue", _visible("Waiting", queue.jobs), _oldest("Age of the oldest (s)", queue.jobs)),
            _stage("Work", _of_function(functions.worker), _concurrent(functions.worker)),
            _stage("Dead letters", [self._gauge("DeadJobs")], _visible("In the queue", queue.dead_letters)),
        )
        ages = [self._gauge("OldestOpenJobAge", policy=policy.id) for policy in policies if policy.mode == "enforce"]
        troubles = [self._gauge(name) for name in ("BooksOutOfBalance", "HaltedRuns", "MissedSchedules")]
        self.dashboard.add_widgets(
            _stage("Oldest open job, by policy (s)", ages, width=WIDTH // 2),
            _stage("What waits for a person", troubles, width=WIDTH // 2),
        )
        self.dashboard.add_widgets(
            cloudwatch.CustomWidget(
                title="What is stuck, why, and what happens if it is replayed",
                function_arn=self.widget.function.function_arn,
                width=WIDTH,
                height=2 * HEIGHT,
                update_on_refresh=True,
                update_on_resize=False,
                update_on_time_range_change=False,
            )
        )

    def _gauge(self, name: str, **dimensions: str) -> cloudwatch.IMetric:
        return metrics.published(self._service, name, dimensions)


def _stage(title: str, *shown: Sequence[cloudwatch.IMetric], width: int = STAGE) -> cloudwatch.GraphWidget:
    left = [metric for each in shown for metric in each]
    return cloudwatch.GraphWidget(title=title, left=left, width=width, height=HEIGHT)


def _of_function(function: Function) -> list[cloudwatch.IMetric]:
    called = function.function.metric_invocations(statistic="Sum", period=FIVE_MINUTES, label="Invocations")
    return [called, function.function.metric_errors(statistic="Sum", period=FIVE_MINUTES, label="Errors")]


def _concurrent(function: Function) -> list[cloudwatch.IMetric]:
    at_once = function.function.metric("ConcurrentExecutions", statistic="Maximum", period=FIVE_MINUTES)
    return [at_once.with_(label="At once")]


def _visible(label: str, queue: sqs.IQueue) -> list[cloudwatch.IMetric]:
    return [metrics.visible(queue).with_(label=label)]


def _oldest(label: str, queue: sqs.IQueue) -> list[cloudwatch.IMetric]:
    aged = queue.metric_approximate_age_of_oldest_message(statistic="Maximum", period=FIVE_MINUTES)
    return [aged.with_(label=label)]
