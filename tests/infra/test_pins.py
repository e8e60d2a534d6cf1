"""The lists of packages agree with each other."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from tests.infra.conftest import ROOT

PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[a-z0-9,]+\])?==(\S+)$")


def pins(file: Path) -> dict[str, str]:
    """The pinned packages of a requirements file, by normalized name; a line that pins nothing fails."""
    lines = [line for line in file.read_text().splitlines() if line and not line.startswith(("#", "-r "))]
    found = {line: PIN.match(line) for line in lines}
    assert not [line for line, match in found.items() if match is None]
    return {match[1].lower().replace("_", "-"): match[2] for match in found.values() if match}


def test_everything_is_pinned_once() -> None:
    run_time = pins(ROOT / "functions" / "requirements.txt")

    assert not set(run_time) & set(pins(ROOT / "requirements.txt"))


def test_the_package_asks_for_the_pinned_versions() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = pins(ROOT / "functions" / "requirements.txt") | pins(ROOT / "requirements.txt")

    for requirement in project["dependencies"]:
        name, version = requirement.lower().split("==")
        assert pinned[name] == version


def test_the_cdks_lock_pins_the_command_and_names_no_host() -> None:
    wanted = json.loads((ROOT / "infra" / "cdk" / "package.json").read_text())["devDependencies"]["aws-cdk"]
    lock = (ROOT / "infra" / "cdk" / "package-lock.json").read_text()

    assert re.fullmatch(r"\d+\.\d+\.\d+", wanted)
    assert json.loads(lock)["packages"]["node_modules/aws-cdk"]["version"] == wanted
    assert "http" not in lock
