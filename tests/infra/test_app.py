"""The app as the CDK runs it: a mistake ends the synth with a message for people."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra import config
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
    with pytest.raises(config.ConfigError, match=f"-c {name}={value}: "):
        config.read({name: value}.get)


def test_context_values_of_the_command_line_are_texts() -> None:
    settings = config.read({"worker_timeout": "6", "local": "true", "stage": "beta"}.get)

    assert (settings.worker_timeout, settings.local, settings.stack_name) == (6, True, "Sexton-beta")
    assert settings.visibility.to_seconds() == 36
