"""The app as the CDK runs it: a mistake ends the synth with a message for people."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize(
    ("name", "value"),
    [("worker_timeout", "901"), ("worker_concurrency", "1"), ("stage", "UPPER"), ("alarm_email", "nobody")],
)
def test_a_context_value_that_cannot_be_is_named(tmp_path: Path, name: str, value: str) -> None:
    done = run_app(tmp_path, policies=str(POLICIES), **{name: value})

    assert done.returncode == 1
    assert f"-c {name}={value}: " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_folder_of_policies_is_named(tmp_path: Path) -> None:
    done = run_app(tmp_path, policies=str(tmp_path / "none"))

    assert done.returncode == 1
    assert str(tmp_path / "none") in done.stderr
