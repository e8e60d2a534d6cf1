"""The functions: their environment, limits and logs."""

from __future__ import annotations

import pytest
from sexton.aws.settings import PREFIX, Settings

from tests.infra.template import Template, text

FUNCTIONS = ("discovery", "worker", "reconciler")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_environment_is_what_the_settings_read(template: Template, name: str) -> None:
    given = set(template.functions()[name]["Environment"]["Variables"])
    read = {PREFIX + field.upper() for field in Settings.model_fields}
    reconcilers_own = {"SEXTON_DISCOVERY_FUNCTION"}

    assert {v for v in given if v.startswith(PREFIX)} == (read if name == "reconciler" else read - reconcilers_own)
    assert {v for v in given if not v.startswith(PREFIX)} == {
        "POWERTOOLS_SERVICE_NAME",
        "POWERTOOLS_METRICS_NAMESPACE",
        "POWERTOOLS_LOG_LEVEL",
    }


def test_the_settings_accept_the_values(template: Template) -> None:
    given = template.functions()["reconciler"]["Environment"]["Variables"]
    values = {k.removeprefix(PREFIX).lower(): text(v) for k, v in given.items() if k.startswith(PREFIX)}

    settings = Settings.model_validate({**values, "account": "123456789012"})

    assert settings.worker_timeout.total_seconds() == template.functions()["worker"]["Timeout"]
    assert settings.stage == template.stack_name


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_run_on_arm_and_the_newest_python_that_is_bundled(template: Template, name: str) -> None:
    function = template.functions()[name]

    assert function["Runtime"] == "python3.13"
    assert function["Architectures"] == ["arm64"]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_logs_do_not_stay_for_ever(template: Template, name: str) -> None:
    group = template.functions()[name]["LoggingConfig"]["LogGroup"]["Ref"]

    assert template.all("AWS::Logs::LogGroup")[group]["Properties"]["RetentionInDays"] == 90


def test_discovery_has_lambdas_longest_time(template: Template) -> None:
    assert template.functions()["discovery"]["Timeout"] == 900


def test_given_up_invocations_of_discovery_are_kept(template: Template) -> None:
    by_function = {text(p["FunctionName"]): p for p in template.props("AWS::Lambda::EventInvokeConfig")}
    discovery = by_function[f"<{template.function_id('discovery')}>"]

    assert discovery["MaximumRetryAttempts"] == 2
    assert text(discovery["DestinationConfig"]["OnFailure"]["Destination"]) == (
        f"<{template.logical('FailureQueueUrl')}.Arn>"
    )


def test_a_failed_tick_is_not_tried_again(template: Template) -> None:
    by_function = {text(p["FunctionName"]): p for p in template.props("AWS::Lambda::EventInvokeConfig")}
    reconciler = by_function[f"<{template.function_id('reconciler')}>"]

    assert reconciler["MaximumRetryAttempts"] == 0
    assert reconciler["MaximumEventAgeInSeconds"] == 60
