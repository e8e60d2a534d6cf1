"""What is measured, as alarms and the dashboard ask CloudWatch for it: the worst of five minutes."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_sqs as sqs

from infra import config

FIVE_MINUTES = Duration.minutes(5)


def published(service: str, name: str, dimensions: Mapping[str, str] | None = None) -> cloudwatch.Metric:
    """A metric that the reconciler publishes with its log."""
    return cloudwatch.Metric(
        namespace=config.METRICS_NAMESPACE,
        metric_name=name,
        dimensions_map={"service": service, **(dimensions or {})},
        statistic="Maximum",
        period=FIVE_MINUTES,
    )


def visible(queue: sqs.IQueue) -> cloudwatch.Metric:
    """Messages that wait in a queue."""
    return queue.metric_approximate_number_of_messages_visible(statistic="Maximum", period=FIVE_MINUTES)
