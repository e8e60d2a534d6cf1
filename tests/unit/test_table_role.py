"""What the owner of a table in another account makes: whom the role trusts, and with what."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from sexton import cli
from sexton.elsewhere import LONGEST_SESSION, session_name, sessions_of
from sexton.grants import FUNCTIONS
from sexton.policy import Policy
from sexton.run import RunId
from sexton.table_role import TableRole, for_other_accounts

from tests.fakes.world import policy, records_policy

ROLES = {name: f"arn:aws:iam::123456789012:role/{name}" for name in FUNCTIONS}
ROLE = "arn:aws:iam::210987654321:role/sexton-reminders"
PLACED = {"region": "eu-west-1", "role_arn": ROLE, "external_id": "our-stage"}
TABLE = "arn:aws:dynamodb:eu-west-1:210987654321:table/reminders"
WORKER, RECONCILER, DISCOVERY = (f"*:sexton-{name}.*" for name in ("worker", "reconciler", "discovery"))


def role(*policies: Policy) -> TableRole:
    (found,) = for_other_accounts(policies, ROLES)
    return found


def statements(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["Action"]: each for each in document["Statement"]}


def sessions(statement: dict[str, Any]) -> list[str]:
    found: list[str] = statement["Condition"]["StringLike"]["aws:userid"]
    return found


def test_each_function_is_trusted_under_its_own_name_with_the_external_id() -> None:
    trusted = role(records_policy(**PLACED)).trust["Statement"]
    assert isinstance(trusted, list)
    assert {each["Principal"]["AWS"]: each["Condition"] for each in trusted} == {
        ROLES[name]: {
            "StringEquals": {"sts:ExternalId": ["our-stage"]},
            "StringLike": {"sts:RoleSessionName": f"sexton-{name}.*"},
        }
        for name in FUNCTIONS
    }


def test_only_the_worker_may_remove() -> None:
    found = statements(role(records_policy(**PLACED)).permissions)
    allowed = {action: (each["Resource"], sessions(each)) for action, each in found.items()}
    assert allowed == {
        "dynamodb:DescribeTable": ([TABLE], [DISCOVERY]),
        "dynamodb:Query": ([f"{TABLE}/index/by-status"], [DISCOVERY]),
        "dynamodb:BatchGetItem": ([TABLE], [WORKER, RECONCILER]),
        "dynamodb:DeleteItem": ([TABLE], [WORKER]),
    }


def test_a_report_takes_reading_only_and_discovery_alone() -> None:
    found = role(records_policy(**PLACED, mode="report", index=None, partitions=None, scan={"segments": 2}))
    assert set(statements(found.permissions)) == {"dynamodb:DescribeTable", "dynamodb:Scan"}
    assert len(found.trust["Statement"]) == 1  # type: ignore[arg-type]
    (key,) = found.with_a_key
    assert key["Action"] == ["kms:Decrypt", "kms:DescribeKey"]


def test_what_is_only_marked_may_not_be_removed() -> None:
    mark = {"kind": "mark", "attribute": "expired", "value": True}
    found = statements(role(records_policy(**PLACED, action=mark)).permissions)
    assert found["dynamodb:UpdateItem"]["Resource"] == [TABLE]
    assert sessions(found["dynamodb:UpdateItem"]) == [WORKER]
    assert "dynamodb:DeleteItem" not in found


def test_policies_of_one_role_are_put_together() -> None:
    other = records_policy(**PLACED, id="other", partitions=["sent"], index="by-day")
    found = statements(role(records_policy(**PLACED), other).permissions)
    assert found["dynamodb:Query"]["Resource"] == [f"{TABLE}/index/by-day", f"{TABLE}/index/by-status"]


def test_an_external_id_that_one_policy_lacks_is_not_demanded() -> None:
    other = records_policy(**{**PLACED, "external_id": None}, id="other")
    trusted = role(records_policy(**PLACED), other).trust["Statement"]
    assert all("StringEquals" not in each["Condition"] for each in trusted)  # type: ignore[attr-defined]


def test_a_key_is_used_through_dynamodb_of_its_region() -> None:
    read, write = role(records_policy(**PLACED)).with_a_key
    assert read["Condition"]["StringEquals"] == {"kms:ViaService": "dynamodb.eu-west-1.amazonaws.com"}  # type: ignore[index]
    assert write["Condition"]["StringLike"] == {"aws:userid": [WORKER]}  # type: ignore[index]


def test_what_needs_no_role_has_none() -> None:
    assert for_other_accounts([policy(), records_policy(), records_policy(region="us-east-1")], ROLES) == ()


def test_the_command_prints_what_iam_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = Path(__file__).parents[1] / "infra" / "policies" / "records-abroad.yaml"
    (tmp_path / "p.yaml").write_text(text.read_text())
    assert cli.main(["policy", "check", str(tmp_path), "--grants", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["role_arn"] == ROLE
    assert cli.main(["policy", "check", str(tmp_path), "--grants"]) == 0
    printed = capsys.readouterr().out
    documents = re.findall(r"^\{$.*?^\}$", printed, re.DOTALL | re.MULTILINE)
    assert found["trust"] in map(json.loads, documents)


# the names of sessions


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_session_tells_the_function_and_the_run_and_is_no_other_functions(function: str) -> None:
    run = RunId.parse("reminders-delete.20261130T201900Z.12")
    name = session_name(function, str(run))
    assert name == f"sexton-{function}.{run}"
    assert [each for each in FUNCTIONS if fnmatchcase(name, sessions_of(each))] == [function]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_policy_with_a_long_name_keeps_the_runs_time_and_number(function: str) -> None:
    name = session_name(function, f"{'p' * 48}.20261130T201900Z.u12")
    assert len(name) == LONGEST_SESSION
    assert name.startswith(f"sexton-{function}.ppp")
    assert name.endswith("p.20261130T201900Z.u12")
    assert re.fullmatch(r"[\w+=,.@-]{2,64}", name, re.ASCII)
