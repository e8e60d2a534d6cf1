"""The schedules: one for each policy, and the tick."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from sexton.aws.schedules import schedule_name
from sexton.missed import DELIVERED_WITHIN, GRACE

from tests.infra.conftest import POLICIES
from tests.infra.template import Template, text

SCHEDULED = "<aws.scheduler.scheduled-time>"


@pytest.fixture
def schedules(template: Template) -> Mapping[str, Mapping[str, Any]]:
    """By policy id, the tick as `tick`."""
    inputs = {s["Target"]["Input"]: s for s in template.props("AWS::Scheduler::Schedule")}
    return {json.loads(given).get("policy", "tick"): s for given, s in inputs.items()}


def test_every_policy_has_its_schedule(schedules: Mapping[str, Mapping[str, Any]]) -> None:
    assert set(schedules) == {*(path.stem for path in POLICIES.iterdir()), "tick"}
    assert schedules["enforced"]["ScheduleExpression"] == "cron(30 2 * * ? *)"
    assert schedules["enforced"]["ScheduleExpressionTimezone"] == "Europe/Berlin"
    assert schedules["reported"]["ScheduleExpression"] == "rate(12 hours)"


def test_control_finds_a_policys_schedule_by_its_name(schedules: Mapping[str, Mapping[str, Any]]) -> None:
    assert {policy: schedules[policy]["Name"] for policy in schedules if policy != "tick"} == {
        path.stem: schedule_name(path.stem) for path in POLICIES.iterdir()
    }


def test_a_late_delivery_is_not_yet_missed(schedules: Mapping[str, Mapping[str, Any]]) -> None:
    delivered = timedelta(seconds=schedules["enforced"]["Target"]["RetryPolicy"]["MaximumEventAgeInSeconds"])
    assert delivered == DELIVERED_WITHIN < GRACE


def test_a_run_is_known_by_its_scheduled_time_and_not_by_the_attempt(schedules: Mapping[str, Any]) -> None:
    given = json.loads(schedules["enforced"]["Target"]["Input"])

    assert given == {"policy": "enforced", "scheduled_time": SCHEDULED}


@pytest.mark.parametrize("policy", ["enforced", "reported"])
def test_a_policys_event_is_retried_and_kept_when_given_up(
    template: Template, schedules: Mapping[str, Mapping[str, Any]], policy: str
) -> None:
    target = schedules[policy]["Target"]

    assert target["RetryPolicy"]["MaximumRetryAttempts"] > 0
    assert text(target["DeadLetterConfig"]["Arn"]) == f"<{template.logical('FailureQueueUrl')}.Arn>"
    assert text(target["Arn"]) == f"<{template.function_id('discovery')}.Arn>"


def test_a_tick_is_every_minute_and_never_late(template: Template, schedules: Mapping[str, Mapping[str, Any]]) -> None:
    tick = schedules["tick"]

    assert tick["ScheduleExpression"] == "rate(1 minute)"
    assert tick["Target"]["RetryPolicy"] == {"MaximumEventAgeInSeconds": 60, "MaximumRetryAttempts": 0}
    assert json.loads(tick["Target"]["Input"]) == {"tick": SCHEDULED}
    assert text(tick["Target"]["Arn"]) == f"<{template.function_id('reconciler')}.Arn>"


def test_every_schedule_is_on_and_fires_on_time(schedules: Mapping[str, Mapping[str, Any]]) -> None:
    for schedule in schedules.values():
        assert schedule["State"] == "ENABLED"
        assert schedule["FlexibleTimeWindow"] == {"Mode": "OFF"}
