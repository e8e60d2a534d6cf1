"""The alarms: one for each promise that can be seen to break."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import Aws
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from aws_cdk import aws_sqs as sqs
from constructs import Construct
from sexton.policy import Policy

from infra import config, metrics
from infra.key import Key
from infra.metrics import FIVE_MINUTES

QUIET = cloudwatch.TreatMissingData.NOT_BREACHING
SILENCE_IS_BAD = cloudwatch.TreatMissingData.BREACHING


class Alarms(Construct):
    """Alarms that all report to one topic."""

    def __init__(self, scope: Construct, id: str, *, key: Key, service: str, email: str) -> None:
        super().__init__(scope, id)
        self._service = service
        self.topic = sns.Topic(self, "Topic", display_name="Sexton alarms", master_key=key.key, enforce_ssl=True)
        self._let_alarms_publish()
        if email:
            self.topic.add_subscription(subscriptions.EmailSubscription(email))

    def watch_queues(self, *, dead_letters: sqs.IQueue, failures: sqs.IQueue) -> None:
        """Dead letters (by the ledger, and by the queue), and deliveries that were given up."""
        self._alarm(
            "DeadJobs",
            self._published("DeadJobs"),
            "The ledger holds dead jobs that nobody has resolved: `sexton dlq list`.",
        )
        self._alarm(
            "DeadLetters",
            metrics.visible(dead_letters),
            "Messages lie in the dead-letter queue: `sexton dlq list`.",
        )
        self._alarm(
            "Failures",
            metrics.visible(failures),
            "A schedule's event or an invocation of discovery was given up: read the failure queue.",
        )

    def watch_books(self) -> None:
        """A closed run whose outcomes are not its plan."""
        self._alarm(
            "BooksOutOfBalance",
            self._published("BooksOutOfBalance"),
            "A run closed with items that lack an outcome or have two: `sexton verify RUN`.",
        )

    def watch_breaker(self) -> None:
        """Runs that Sexton halted by itself: they wait for a person."""
        self._alarm(
            "HaltedRuns",
            self._published("HaltedRuns"),
            "The breaker halted a run: `sexton status` says which and why; mend that, then `sexton run resume RUN`.",
        )

    def watch_schedules(self) -> None:
        """Times of a schedule that passed without a run, and that no later run covers."""
        self._alarm(
            "MissedSchedules",
            self._published("MissedSchedules"),
            "A schedule did not lead to its run: `sexton status` says which and why; `sexton run start POLICY --at"
            " TIME` makes up for it.",
        )

    def watch_age(self, policies: Sequence[Policy]) -> None:
        """The oldest open job of each policy, against its SLO."""
        for policy in policies:
            self._alarm(
                f"Age-{policy.id}",
                self._published("OldestOpenJobAge", {"policy": policy.id}),
                f"Work of policy {policy.id} is open for longer than its SLO: `sexton status`.",
                threshold=config.seconds(policy.slo),
            )

    def watch_tick(self, reconciler: lambda_.IFunction) -> None:
        """The tick: without it nothing is recovered and no run closes."""
        self._alarm(
            "Tick",
            reconciler.metric_invocations(statistic="Sum", period=config.TICK),
            "No tick for five minutes: nothing is recovered, and no run closes.",
            operator=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
            periods=config.TICKS_MISSED,
            missing=SILENCE_IS_BAD,
        )

    def watch_errors(self, functions: Mapping[str, lambda_.IFunction]) -> None:
        """Invocations that raised or timed out."""
        for name, function in functions.items():
            self._alarm(
                f"{name}Errors",
                function.metric_errors(statistic="Sum", period=FIVE_MINUTES),
                f"Invocations of the {name.lower()} function failed: read its log.",
            )

    def _published(self, name: str, dimensions: Mapping[str, str] | None = None) -> cloudwatch.Metric:
        return metrics.published(self._service, name, dimensions)

    def _alarm(
        self,
        id: str,
        metric: cloudwatch.IMetric,
        description: str,
        *,
        threshold: float = 1,
        operator: cloudwatch.ComparisonOperator = (cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD),
        periods: int = 1,
        missing: cloudwatch.TreatMissingData = QUIET,
    ) -> None:
        alarm = cloudwatch.Alarm(
            self,
            id,
            metric=metric,
            alarm_description=description,
            threshold=threshold,
            comparison_operator=operator,
            evaluation_periods=periods,
            treat_missing_data=missing,
        )
        alarm.add_alarm_action(actions.SnsAction(self.topic))
        alarm.add_ok_action(actions.SnsAction(self.topic))

    def _let_alarms_publish(self) -> None:
        """Said aloud, since the topic's own policy takes the place of the default one, which allowed it."""
        self.topic.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                actions=["sns:Publish"],
                resources=[self.topic.topic_arn],
                conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}},
            )
        )
