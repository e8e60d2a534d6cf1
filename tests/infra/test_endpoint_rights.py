"""What the functions may do for policies that call endpoints: read the named secrets, look at records, no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.infra.conftest import ROOT, synthesize
from tests.infra.template import Template, granted

EXAMPLE = (ROOT / "policies" / "bookings-cancel.yaml").read_text()
HERE = "<AWS::Region>:<AWS::AccountId>"
TABLE = f"arn:<AWS::Partition>:dynamodb:{HERE}:table/sexton-demo-bookings"
SECRET = f"arn:<AWS::Partition>:secretsmanager:{HERE}:secret:sexton/carriers-??????"
FUNCTIONS = ("discovery", "worker", "reconciler", "operator", "approver")


def stack(folder: Path, text: str) -> Template:
    policies = folder / "policies"
    policies.mkdir()
    (policies / "bookings-cancel.yaml").write_text(text)
    return synthesize(folder / "code", policies=str(policies))


@pytest.fixture(scope="module")
def enforcing(tmp_path_factory: pytest.TempPathFactory) -> Template:
    text = EXAMPLE.replace("mode: report", "mode: enforce\nrecovery: none")
    return stack(tmp_path_factory.mktemp("enforcing"), text)


@pytest.fixture(scope="module")
def reporting(tmp_path_factory: pytest.TempPathFactory) -> Template:
    return stack(tmp_path_factory.mktemp("reporting"), EXAMPLE)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_only_the_worker_reads_secrets_and_only_those_that_are_named(enforcing: Template, name: str) -> None:
    found = granted(enforcing.rights_of(name), "secretsmanager:*")
    assert found == ({SECRET} if name == "worker" else set())
    assert not [right for right in enforcing.rights_of(name) if right.action in ("*", "secretsmanager:*")]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_report_needs_no_secret(reporting: Template, name: str) -> None:
    assert granted(reporting.rights_of(name), "secretsmanager:*") == set()


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("action", ["DeleteItem", "UpdateItem", "PutItem"])
def test_nobody_may_change_the_records(enforcing: Template, name: str, action: str) -> None:
    assert TABLE not in granted(enforcing.rights_of(name), f"dynamodb:{action}")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_who_looks_at_records_again_may_read_them(enforcing: Template, name: str) -> None:
    """The worker before its call, and the reconciler after an attempt that left no record."""
    looks = TABLE in granted(enforcing.rights_of(name), "dynamodb:BatchGetItem")
    assert looks is (name in ("worker", "reconciler"))
