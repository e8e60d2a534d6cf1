"""The app as the CDK runs it: a mistake ends the synth with a message for people."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from sexton.limits import Limits
from sexton.policy import PolicyError, load_policies

from infra import config
from tests.fakes.world import calls_policy
from tests.infra.conftest import POLICIES, ROOT


def run_app(out: Path, **context: str) -> subprocess.CompletedProcess[str]:
    """Run app.py as the CDK does, with context values."""
    environment = {**os.environ, "CDK_CONTEXT_JSON": json.dumps(context), "CDK_OUTDIR": str(out)}
    return subprocess.run(
        [sys.executable, ROOT / "app.py"], cwd=out, env=environment, capture_output=True, text=True, check=False
    )


def test_a_broken_policy_fails_with_its_file_and_line(tmp_path: Path) -> None:
    policies = tmp_path / "policies"
    policies.mkdir()
    good = (POLICIES / "enforced.yaml").read_text()
    (policies / "broken.yaml").write_text(good.replace("retain: P30D", "retain: P0D"))

    done = run_app(tmp_path, policies=str(policies))

    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert "broken.yaml:13" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_policy_over_the_stacks_own_evidence_is_refused(tmp_path: Path) -> None:
    (tmp_path / "policies").mkdir()
    good = (POLICIES / "enforced.yaml").read_text()
    own = good.replace("bucket: sources-one", "bucket: sexton-beta-evidencebucketc67ff768-q1w2e3")
    (tmp_path / "policies" / "own.yaml").write_text(own)

    done = run_app(tmp_path, policies=str(tmp_path / "policies"), stage="beta")

    assert done.returncode == 1
    assert "is Sexton's own evidence; write instead a bucket that is yours to clean" in done.stderr


def test_max_age_has_room_for_three_attempts_of_a_slow_worker() -> None:
    policies = load_policies(POLICIES)
    config.refuse_unfit(policies, config.read({}))
    hasty = [p.model_copy(update={"limits": Limits(max_age=timedelta(minutes=45))}) for p in policies]
    with pytest.raises(PolicyError, match="leaves no room for 3 attempts of a worker that may take 900 s"):
        config.refuse_unfit(hasty, config.read({"worker_timeout": "900"}))


def test_a_context_value_that_cannot_be_fails_with_its_name(tmp_path: Path) -> None:
    done = run_app(tmp_path, policies=str(POLICIES), worker_timeout="901")

    assert done.returncode == 1
    assert done.stderr.startswith("error: -c worker_timeout=901: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("worker_timeout", "0"),
        ("worker_concurrency", "1"),
        ("mismatch_seconds", "soon"),
        ("stage", "UPPER"),
        ("alarm_email", "nobody"),
        ("local", "perhaps"),
    ],
)
def test_each_context_value_is_checked(name: str, value: str) -> None:
    with pytest.raises(config.ConfigError, match=f"-c {name}={value}: it must be "):
        config.read({name: value})


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("worker_timout", "did you mean worker_timeout?"),
        ("workerTimeout", "did you mean worker_timeout?"),
        ("worker-timeout", "did you mean worker_timeout?"),
        ("alarmEmail", "did you mean alarm_email?"),
        ("Stage", "did you mean stage?"),
        ("colour", "there are stage, alarm_email, policies"),
    ],
)
def test_an_unknown_context_value_is_refused(name: str, says: str) -> None:
    with pytest.raises(config.ConfigError, match=f"-c {name}: there is no such context value; .*{re.escape(says)}"):
        config.read({name: "1"})


def test_an_unknown_context_value_is_told_beside_one_that_cannot_be() -> None:
    with pytest.raises(config.ConfigError, match=r"(?s)-c polices: .*-c stage=UPPER: "):
        config.read({"polices": "p", "stage": "UPPER"})


EMULATOR = {"AWS_ENDPOINT_URL": "http://127.0.0.1:4566"}


@pytest.mark.parametrize(
    ("context", "environ"),
    [
        ({"local_ca": "/tmp/ca.pem"}, {}),
        ({"local_ca": "/tmp/ca.pem"}, EMULATOR),
        ({"local_ca": "/tmp/ca.pem", "local": "false"}, EMULATOR),
        ({"local_ca": "/tmp/ca.pem", "local": "true"}, {}),
        ({"local_ca": "/tmp/ca.pem", "local": "true"}, {"AWS_ENDPOINT_URL": ""}),
    ],
)
def test_a_local_authority_never_reaches_a_real_account(context: dict[str, str], environ: dict[str, str]) -> None:
    with pytest.raises(config.ConfigError, match="local_ca is for an emulator only"):
        config.read(context, environ)


def test_a_local_authority_is_a_whole_path() -> None:
    given = {"local_ca": "ca.pem", "local": "true"}
    with pytest.raises(config.ConfigError, match="absolute path"):
        config.read(given, EMULATOR)
    assert config.read({**given, "local_ca": "/tmp/ca.pem"}, EMULATOR).local_ca == "/tmp/ca.pem"


def test_a_pace_that_no_worker_has_the_time_for_is_refused() -> None:
    slow = [calls_policy(rate=0.1)]
    config.refuse_unfit(slow, config.read({}))
    with pytest.raises(PolicyError, match=r"action\.rate 0\.1 .* write instead 0\.15 or more"):
        config.refuse_unfit(slow, config.read({"worker_timeout": "20"}))


def test_the_cdks_own_context_is_left_alone() -> None:
    own = json.loads((ROOT / "cdk.json").read_text())["context"]
    looked_up = {"aws:cdk:bundling-stacks": [], "availability-zones:account=1:region=r": [], "@aws-cdk/stage": True}
    assert config.read({**own, **looked_up}) == config.Config()


def test_context_values_of_the_command_line_are_texts() -> None:
    settings = config.read({"worker_timeout": "6", "local": "true", "stage": "beta"})

    assert (settings.worker_timeout, settings.local, settings.stack_name) == (6, True, "Sexton-beta")
    assert settings.visibility.to_seconds() == 36
