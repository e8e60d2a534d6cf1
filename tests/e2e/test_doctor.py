"""`sexton doctor` on the deployed stack."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from infra.local.emulator import surroundings
from infra.local.stage import Stage

# What the emulator lacks, as far as the template asks for it: recovery and expiry of tables, time zones of
# schedules, conditions in a simulation. Scopes may be empty, as other tests leave them. Control believes its callers.
LACKING = {
    *("ledger_recovery", "ledger_expiry", "policy_schedule", "grants", "scope"),
    *("function_settings", "table_recovery", "excess"),
}


def test_the_stack_is_as_sexton_relies_on(stage: Stage, policies: Path) -> None:
    tick = json.dumps({"tick": "2026-01-01T00:00:00Z"})
    stage.client("lambda").invoke(FunctionName=stage.outputs["ReconcilerFunctionName"], Payload=tick)
    found = doctor(stage, policies)

    not_ok = {check["name"] for check in found["checks"] if check["verdict"] != "ok"}
    assert found["counts"]["failed"] == 0, found
    assert not_ok <= LACKING, found
    for name in ("put_once", "delete_together", "delete_alone", "scratch", "tick_alive"):
        assert [check["verdict"] for check in found["checks"] if check["name"] == name] == ["ok"]
    left = stage.client("s3").list_object_versions(Bucket=stage.outputs["EvidenceBucketName"], Prefix="doctor/")
    assert "Versions" not in left
    assert "DeleteMarkers" not in left


def doctor(stage: Stage, policies: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "sexton.cli", "doctor", "--json", "--policies", str(policies)]
    done = subprocess.run(
        command,
        env={**surroundings(), **stage.environment, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found
