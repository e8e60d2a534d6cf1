"""The functions: their environment, limits and logs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sexton.aws.settings import PREFIX, OnlyLocal, Settings, UntrustedCaller, read

from tests.infra.conftest import synthesize
from tests.infra.template import Template, text

CONTROL = ("operator", "approver")
FUNCTIONS = ("discovery", "worker", "reconciler", "widget", *CONTROL)
OF_CONTROL = {"DOOR", "TRUST_CALLER", "SCHEDULE_GROUP", "JOBS_MAPPING", "REDRIVE_ROLE"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_environment_is_what_the_settings_read(template: Template, name: str) -> None:
    given = set(template.functions()[name]["Environment"]["Variables"])
    read = {field.upper() for field in Settings.model_fields}
    others = set() if name in CONTROL else OF_CONTROL if name == "reconciler" else OF_CONTROL | {"DISCOVERY_FUNCTION"}
    others = others if name == "worker" else others | {"LOCAL_CA"}

    assert {v for v in given if v.startswith(PREFIX)} == {PREFIX + field for field in read - others}
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


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_run_on_arm_and_the_newest_python_that_is_bundled(template: Template, name: str) -> None:
    function = template.functions()[name]

    assert function["Runtime"] == "python3.13"
    assert function["Architectures"] == ["arm64"]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_logs_do_not_stay_for_ever(template: Template, name: str) -> None:
    group = template.functions()[name]["LoggingConfig"]["LogGroup"]["Ref"]

    assert template.all("AWS::Logs::LogGroup")[group]["Properties"]["RetentionInDays"] == 90


def test_each_door_takes_its_own_changes_and_is_open_to_whom_iam_lets_in(template: Template) -> None:
    urls = template.props("AWS::Lambda::Url")

    assert [template.functions()[name]["Environment"]["Variables"]["SEXTON_DOOR"] for name in CONTROL] == [*CONTROL]
    assert [url["AuthType"] for url in urls] == ["AWS_IAM", "AWS_IAM"]
    assert not any("Cors" in url for url in urls)
    assert not [p for p in template.props("AWS::Lambda::Permission") if "FunctionUrl" in json.dumps(p)]


@pytest.mark.parametrize(("local", "trusted"), [("false", "false"), ("true", "true")])
def test_callers_are_believed_on_the_emulator_only(tmp_path: Path, local: str, trusted: str) -> None:
    made = synthesize(tmp_path / "code", local=local)
    variables = [made.functions()[name]["Environment"]["Variables"] for name in CONTROL]

    assert [each["SEXTON_TRUST_CALLER"] for each in variables] == [trusted, trusted]
    if local == "true":
        given = {name: text(value) for name, value in variables[0].items()} | {"SEXTON_ACCOUNT": "123456789012"}
        with pytest.raises(UntrustedCaller):
            read(given)
        assert read({**given, "AWS_ENDPOINT_URL": "http://127.0.0.1:4566"}).trust_caller


def test_a_local_authority_is_the_workers_and_starts_on_an_emulator_only(
    tmp_path: Path, template: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert template.functions()["worker"]["Environment"]["Variables"]["SEXTON_LOCAL_CA"] == ""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:4566")
    made = synthesize(tmp_path / "code", local="true", local_ca="/tmp/authority.pem")
    given = {name: text(value) for name, value in made.functions()["worker"]["Environment"]["Variables"].items()}
    given |= {"SEXTON_ACCOUNT": "123456789012"}
    with pytest.raises(OnlyLocal):
        read(given)
    assert read({**given, "AWS_ENDPOINT_URL": "http://127.0.0.1:4566"}).local_ca == "/tmp/authority.pem"


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
