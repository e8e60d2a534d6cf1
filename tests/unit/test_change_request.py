"""What can be asked of control, and how what cannot be is told."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from sexton.change_request import (
    CHANGES,
    FOR_APPROVERS,
    MOST_JOBS,
    BadRequest,
    ChangeRequest,
    Door,
    RunStart,
    door_of,
    read_request,
)

HALT = {"change": "run_halt", "run_id": "logs.20260301T120000Z.1", "reason": "the wrong bucket"}


def read(**fields: Any) -> ChangeRequest:
    return read_request(json.dumps(fields).encode())


def test_every_change_has_a_name_of_its_own_and_one_door() -> None:
    assert len(set(CHANGES)) == len(CHANGES) == len(get_args(ChangeRequest))
    assert {change for change in CHANGES if door_of(change) is Door.APPROVER} == FOR_APPROVERS
    assert set(CHANGES) > FOR_APPROVERS


def test_a_request_is_read() -> None:
    assert read(**HALT).model_dump() == HALT
    assert read(change="run_start", policy="logs", reason="r") == RunStart(
        change="run_start", policy="logs", reason="r"
    )


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({**HALT, "reason": ""}, "reason"),
        ({**HALT, "reason": "   "}, "reason"),
        ({**HALT, "reason": "\u200b\u2060"}, "reason"),  # nothing that anybody can read
        ({**HALT, "reason": "x" * 501}, "reason"),
        ({**HALT, "reason": None}, "reason"),
        ({key: value for key, value in HALT.items() if key != "reason"}, "reason"),
        ({key: value for key, value in HALT.items() if key != "run_id"}, "run_id"),
        ({**HALT, "force": True}, "force"),
        ({**HALT, "change": "run_delete"}, "known are run_start, run_approve"),
        ({"reason": "r"}, "known are run_start, run_approve"),
        ({"change": "dlq_replay", "jobs": [], "reason": "r"}, "jobs"),
        ({"change": "dlq_replay", "jobs": ["j"] * (MOST_JOBS + 1), "reason": "r"}, "jobs"),
        ({"change": "dlq_redrive", "max_rate": 501, "reason": "r"}, "max_rate"),
        ({"change": "dlq_sweep", "limit": 0, "reason": "r"}, "limit"),
        ({"change": "hold_add", "scope": "s" * 1201, "reason": "r"}, "scope"),
        ({"change": "run_start", "policy": "p", "mode": "destroy", "reason": "r"}, "mode"),
    ],
)
def test_what_cannot_be_is_told_by_the_name_of_the_field(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(BadRequest, match=told):
        read(**fields)


@pytest.mark.parametrize("body", [b"", b"no json", b"\xff\xfe", b"[]", b'"text"', b"null", b"{", b"1" * 100])
def test_what_is_no_request_is_told_so(body: bytes) -> None:
    with pytest.raises(BadRequest):
        read_request(body)


def test_what_was_sent_is_not_repeated() -> None:
    with pytest.raises(BadRequest) as refused:
        read(**{**HALT, "run_id": 7, "password": "hunter2hunter2"})
    assert "hunter2" not in str(refused.value)


def test_a_credential_in_a_reason_is_not_kept() -> None:
    assert read(**{**HALT, "reason": "with AKIAIOSFODNN7EXAMPLE"}).reason == "with [redacted]"
    assert len(read(**{**HALT, "reason": "x " * 250}).reason) > 300
