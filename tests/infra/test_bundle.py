"""The asset is complete, for the machine that it is meant for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from infra import bundle
from tests.infra.conftest import POLICIES

MIB = 2**20
IMPORT_ALL = """
import importlib, pkgutil, sys
sys.path.append(sys.argv[1])
import handlers, sexton
for package in (handlers, sexton):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
for name in ("discovery", "worker", "reconciler"):
    assert callable(importlib.import_module("handlers." + name).handler)
from sexton.prices import list_prices
list_prices()
import boto3
for service in sys.argv[2:]:
    boto3.client(service, region_name="eu-central-1")
from functools import cached_property
from sexton.aws.clients import Clients
clients = Clients(boto3.session.Session(region_name="eu-central-1"))
for name in [name for name, each in vars(Clients).items() if isinstance(each, cached_property)]:
    getattr(clients, name)
elsewhere = [m for m in sys.modules.values() if "site-packages" in (getattr(m, "__file__", None) or "")]
assert not elsewhere, elsewhere
"""


@pytest.fixture(scope="module")
def local() -> Path:
    return bundle.bundle(POLICIES, local=True)


@pytest.fixture(scope="module")
def deployed() -> Path:
    return bundle.bundle(POLICIES, local=False)


def test_the_handlers_import_from_the_bundle_alone(local: Path, tmp_path: Path) -> None:
    # -I and -S: neither this environment's packages nor this checkout can help out.
    command = [sys.executable, "-I", "-S", "-B", "-c", IMPORT_ALL, str(local), *sorted(bundle.SERVICES)]

    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_deployed_is_for_arm64_and_python_3_13(deployed: Path) -> None:
    binaries = list(deployed.rglob("*.so"))

    assert binaries
    for binary in binaries:
        assert binary.name.endswith((".cpython-313-aarch64-linux-gnu.so", ".abi3.so"))
        assert binary.read_bytes()[18:20] == b"\xb7\x00", f"{binary.name} is not for arm64"


def test_both_bundles_hold_the_same_modules(local: Path, deployed: Path) -> None:
    def modules(folder: Path) -> set[str]:
        return {str(p.relative_to(folder)) for p in folder.rglob("*.py")}

    assert modules(local) == modules(deployed)


def test_the_policies_lie_beside_the_code(deployed: Path) -> None:
    assert {p.name for p in (deployed / "policies").iterdir()} == {p.name for p in POLICIES.iterdir()}
    assert (deployed / "sexton").is_dir()
    assert (deployed / "handlers").is_dir()
    assert not list((deployed / "sexton").glob("cli*"))


def test_nothing_is_compiled_and_the_asset_stays_small(deployed: Path) -> None:
    assert not list(deployed.rglob("__pycache__"))
    assert sum(p.stat().st_size for p in deployed.rglob("*") if p.is_file()) < 40 * MIB


def test_another_policy_makes_another_bundle(tmp_path: Path, local: Path) -> None:
    (tmp_path / "enforced.yaml").write_bytes((POLICIES / "enforced.yaml").read_bytes())

    assert bundle.bundle(tmp_path, local=True) != local
