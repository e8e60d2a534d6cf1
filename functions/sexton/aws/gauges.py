"""Gauges as CloudWatch metrics, written to the function's log in the embedded metric format."""

from __future__ import annotations

from aws_lambda_powertools.metrics import MetricUnit, single_metric


class EmfGauges:
    """One line of log for each number, written at once: nothing is kept from one invocation to the next.

    Powertools adds the dimension `service` to each (`POWERTOOLS_SERVICE_NAME`) and takes the namespace from
    `POWERTOOLS_METRICS_NAMESPACE`.
    """

    def put(self, name: str, value: float, policy: str | None = None) -> None:
        """Publish one gauge; a name that ends in `Age` is in seconds, all others count."""
        unit = MetricUnit.Seconds if name.endswith("Age") else MetricUnit.Count
        dimensions = {"policy": policy} if policy else None
        with single_metric(name=name, unit=unit, value=value, default_dimensions=dimensions):
            pass
