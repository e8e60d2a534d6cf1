"""A message is a claim: what dispatch writes is read back, and nothing else is taken for one."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sexton import message
from sexton.job import Job, job_key
from sexton.message import Malformed, read, write
from sexton.run import RunId

CUTOFF = datetime(2026, 1, 30, 12, 0, tzinfo=UTC)
RUN = RunId("logs-expire", datetime(2026, 3, 1, 12, 0, tzinfo=UTC))
MOST = 8 * 1024  # bytes


def job(seq: str = "00000003", run_id: str = str(RUN), first_key: str = "app/a.log") -> Job:
    return Job(
        job_id=f"{run_id}.{seq}",
        run_id=run_id,
        policy="logs-expire",
        seq=seq,
        state="ready",
        rev=1,
        part_key=f"plans/{run_id}/00000003-{'0' * 64}.ndjson.gz",
        part_sha256="0" * 64,
        start=0,
        end=1000,
        count=1000,
        open_items=1000,
        span=1000,
        first_key=first_key,
        last_key="app/z.log",
    )


def body(**changes: object) -> str:
    fields = json.loads(write(job(), "a" * 64, CUTOFF)) | changes
    return json.dumps({name: value for name, value in fields.items() if value is not None})


def test_what_is_written_is_read_back() -> None:
    found = read(write(job("00000003.0017"), "a" * 64, CUTOFF))
    assert found.job_key == job_key(str(RUN), "00000003.0017")
    assert found.run == RUN
    assert (found.policy_version, found.cutoff, found.start, found.end) == ("a" * 64, CUTOFF, 0, 1000)


keys = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).map(
    lambda text: text.encode()[:1024].decode(errors="ignore") or "a"
)


@given(keys)
def test_any_key_travels_in_ascii_and_under_8_kb(key: str) -> None:
    written = write(job(first_key=key), "a" * 64, CUTOFF)
    assert written.isascii()
    assert written.isprintable()
    assert len(written) < MOST
    assert read(written).first_key == key


@pytest.mark.parametrize("character", ["\x01", "\x7f", "é", "\uffff", "\U0010ffff"])
def test_the_longest_key_the_longest_ids_and_the_deepest_split_stay_under_8_kb(character: str) -> None:
    run_id = f"{'p' * 48}.20260301T120000Z.9999"
    longest = job("00099999.0000.0050.0052.0053", run_id, character * (1024 // len(character.encode())))
    assert len(write(longest, "a" * 64, CUTOFF)) < MOST


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        '"text"',
        "{}",
        "not json",
        "[" * 100_000,
        "\ud800",
        body(schema=2),
        body(schema=0),
        body(schema=None),
        body(job_id=None),
        body(job_id="x"),
        body(job_id=f"{RUN}."),
        body(job_id=f"{RUN}.00000003#0001"),
        body(job_id=f"{RUN}.0000000a"),
        body(job_id=f"{RUN}.٠٠٠٠٠٠٠٣"),
        body(job_id="other-policy.20260301T120000Z.1.00000003"),
        body(run_id="logs-expire"),
        body(run_id="logs-expire.20269999T120000Z.1", job_id="logs-expire.20269999T120000Z.1.00000003"),
        body(run_id="logs-expire.20260301T120000Z.0", job_id="logs-expire.20260301T120000Z.0.00000003"),
        body(policy_version="a" * 63),
        body(policy_version="A" * 64),
        body(part_sha256="x"),
        body(cutoff="yesterday"),
        body(cutoff="2026-01-30T12:00:00"),
        body(cutoff=10**30),
        body(start=-1),
        body(end=10**40),
        body(end=0),
        body(start="0; drop"),
        body(count=0),
        body(part_key="k" * 2000),
        body(extra="field"),
    ],
)
def test_anything_else_is_malformed(text: str) -> None:
    with pytest.raises(Malformed):
        read(text)


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), lambda one: st.lists(one)).map(json.dumps))
def test_no_text_is_read_as_a_message_and_none_breaks_the_reading(text: str) -> None:
    with pytest.raises(Malformed):
        read(text)


def test_the_error_repeats_nothing_of_the_message() -> None:
    with pytest.raises(Malformed) as refused:
        read(body(part_sha256="hunter2-secret"))
    assert "hunter2" not in str(refused.value)
    assert "part_sha256" in str(refused.value)


@pytest.mark.parametrize("name", ["hunter2-secret", "x" * 5000, "‮evil"])
def test_the_error_repeats_no_name_of_a_field_that_is_not_ours(name: str) -> None:
    with pytest.raises(Malformed) as refused:
        read(body(**{name: 1}))
    assert name not in str(refused.value)


def test_the_schema_is_what_this_code_writes() -> None:
    assert json.loads(write(job(), "a" * 64, CUTOFF))["schema"] == message.SCHEMA
