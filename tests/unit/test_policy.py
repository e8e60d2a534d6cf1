"""The policy model: its defaults, its canonical text and its version."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from sexton.policy import Policy, load_policies
from sexton.record_source import RecordSource
from sexton.retain import parse_retain

ROOT = Path(__file__).parents[2]
GOOD = ROOT / "tests" / "fixtures" / "policies" / "good"
SMALL: dict[str, Any] = {
    "id": "logs-expire",
    "source": {"kind": "s3", "bucket": "some-bucket", "prefixes": ["web/", "app/"]},
    "retain": "P30D",
}
SMALL_TEXT = (
    '{"id":"logs-expire","retain":"P30D","source":{"bucket":"some-bucket","kind":"s3","prefixes":["app/","web/"]}}'
)
EVERYTHING_TEXT = (
    '{"age_from":{"key_date":"dt=%Y-%m-%d"},"approval":"always","id":"everything","job_size":250,'
    '"limits":{"max_age":"PT8H","max_attempts":7,"max_items":5000,"max_planning":"PT1H30M","max_share":0.25},'
    '"mode":"enforce","recovery":"backup","retain":"P1Y2M3DT4H","short_retention":true,"slo":"P2DT12H",'
    '"source":{"bucket":"some.bucket-1","exclude":{"globs":["**/keep/**"],"prefixes":["app/audit"],"suffixes":[".keep"]},'
    '"include":{"globs":["**/[a-z]*.??*"],"max_size":5000000,"min_size":1,"suffixes":[".gz",".log"]},'
    '"kind":"s3","prefixes":["app/","web"],"raw_prefix":true}}'
)


def small(**changes: Any) -> Policy:
    return Policy.model_validate({**SMALL, **changes})


def file_policy(name: str, tmp_path: Path) -> Policy:
    (tmp_path / name).write_bytes((GOOD / name).read_bytes())
    (policy,) = load_policies(tmp_path)
    return policy


def test_defaults_are_the_careful_ones() -> None:
    policy = small()
    assert (policy.mode, policy.approval, policy.action) == ("report", "first", "expire")
    assert (policy.timezone, policy.age_from, policy.recovery) == ("UTC", "last_modified", None)
    assert (policy.slo, policy.job_size) == (timedelta(days=1), 1000)
    limits = policy.limits
    assert (limits.max_items, limits.max_share, limits.max_attempts) == (1_000_000, None, 5)
    assert (limits.max_planning, limits.max_age) == (timedelta(hours=6), timedelta(hours=6))


def test_canonical_text_of_a_small_policy_is_pinned() -> None:
    """A change here changes the version of every deployed policy, and so invalidates its open runs."""
    assert small().canonical() == SMALL_TEXT
    assert small().version == "a1a74a7095648255b75d4f996fa3b807b8a0b652366e6941507c35d5f95512f5"


def test_canonical_text_of_every_field_is_pinned(tmp_path: Path) -> None:
    assert file_policy("everything.yml", tmp_path).canonical() == EVERYTHING_TEXT


RECORDS_TEXT = (
    '{"action":"delete","id":"reminders-delete","job_size":98,"mode":"enforce","recovery":"backup","retain":"P1M",'
    '"source":{"filter":{"state":["sent","unsent"]},"index":"by-month","kind":"dynamodb",'
    '"partitions":{"date":"%Y-%m","since":"2025-01-01"},"table":"sexton-demo-reminders",'
    '"timestamp":{"attribute":"deadline","format":"epoch_ms"},"version_attribute":"version"}}'
)


def test_canonical_text_of_the_example_about_records_is_pinned() -> None:
    (policy,) = load_policies(ROOT / "policies" / "reminders-delete.yaml")
    assert policy.canonical() == RECORDS_TEXT
    assert Policy.from_canonical(RECORDS_TEXT).version == policy.version


def test_the_examples_of_marks_and_archives_are_policies() -> None:
    archive, mark = load_policies(ROOT / "docs" / "records")
    assert (archive.does, archive.can_be_undone) == ("archive", True)
    assert (mark.does, mark.can_be_undone) == ("mark", False)
    assert Policy.from_canonical(mark.canonical()) == mark.model_copy(
        update={"description": "", "owner": "", "schedule": "", "timezone": "UTC"}
    )


def test_partitions_that_are_dates_end_with_the_one_of_the_cutoff() -> None:
    def values(date: str, since: str, cutoff: str) -> tuple[str, ...]:
        source = {"kind": "dynamodb", "table": "reminders", "partitions": {"date": date, "since": since}}
        stamp = {"attribute": "deadline", "format": "epoch_s"}
        return RecordSource.model_validate({**source, "timestamp": stamp}).partition_values(
            datetime.fromisoformat(cutoff)
        )

    assert values("%Y-%m-%d", "2026-02-27", "2026-03-01T00:00:00Z") == ("2026-02-27", "2026-02-28", "2026-03-01")
    assert values("%Y%m", "2025-12-31", "2026-02-01T00:00:00Z") == ("202512", "202601", "202602")
    assert values("y%Y", "2025-12-31", "2025-12-31T23:59:59Z") == ("y2025",)
    assert values("%Y-%m-%dT%H", "2026-03-01", "2026-03-01T01:59:59Z") == ("2026-03-01T00", "2026-03-01T01")
    assert values("%Y-%m-%d", "2026-03-02", "2026-03-01T23:59:59Z") == ()


def test_spelling_style_and_order_change_no_version(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    one = file_policy("everything.yml", tmp_path / "one")
    other = file_policy("same-in-json-style.yaml", tmp_path / "other")
    assert one.version == other.version
    assert one.timezone != other.timezone


def test_a_field_written_out_with_its_default_changes_no_version() -> None:
    defaults = Policy.model_validate(SMALL).model_dump(mode="json", exclude={"id", "source", "retain"})
    source = {**SMALL["source"], "raw_prefix": False, "include": {"suffixes": []}, "exclude": {}}
    assert set(defaults) == set(Policy.model_fields) - {"id", "source", "retain"}
    assert small(**defaults, source=source).version == small().version


def test_a_new_field_with_a_default_changes_no_version() -> None:
    class Grown(Policy):
        approvers: int = 1

    assert Grown.model_validate(SMALL).version == small().version
    assert Grown.model_validate({**SMALL, "approvers": 2}).version != small().version


@pytest.mark.parametrize(
    "change", [{"description": "x"}, {"owner": "x"}, {"schedule": "rate(1 day)"}, {"timezone": "Asia/Tokyo"}]
)
def test_what_removes_nothing_is_not_in_the_version(change: dict[str, str]) -> None:
    assert small(**change).version == small().version


@pytest.mark.parametrize(
    "change",
    [
        {"id": "logs-gone"},
        {"mode": "enforce", "recovery": "none"},
        {"approval": "none"},
        {"retain": "P31D"},
        {"age_from": {"key_date": "dt=%Y-%m-%d"}},
        {"recovery": "backup"},
        {"limits": {"max_items": 7}},
        {"slo": "P2D"},
        {"job_size": 100},
        {"source": {**SMALL["source"], "exclude": {"prefixes": ["app/a/"]}}},
        {"source": {**SMALL["source"], "include": {"tags": {"class": "scratch"}}}},
        {"source": {**SMALL["source"], "exclude": {"tags": {"keep": ""}}}},
        {"source": {**SMALL["source"], "versions": "noncurrent"}, "action": "purge"},
        {"source": {**SMALL["source"], "kind": "s3_uploads"}, "action": "abort"},
        {"age_from": {"tag": "created"}},
    ],
)
def test_what_can_remove_something_else_is_in_the_version(change: dict[str, Any]) -> None:
    assert small(**change).version != small().version


def test_the_canonical_text_reads_back(tmp_path: Path) -> None:
    policy = file_policy("everything.yml", tmp_path)
    again = Policy.from_canonical(policy.canonical())
    assert again.version == policy.version
    assert again.canonical() == policy.canonical()
    assert again.retain == policy.retain
    assert (again.description, again.owner, again.schedule) == ("", "", "")


@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200).map(lambda text: f"{text}/"),
    st.integers(100_000, 10**7),
    st.floats(0, 1, exclude_min=True),
)
def test_any_canonical_text_is_ascii_and_reads_back(prefix: str, max_items: int, max_share: float) -> None:
    source = {**SMALL["source"], "prefixes": [prefix]}
    policy = small(source=source, limits={"max_items": max_items, "max_share": max_share})
    assert policy.canonical().isascii()
    assert Policy.from_canonical(policy.canonical()) == policy


def test_a_text_that_is_no_policy_is_refused() -> None:
    for text in ("", "[]", "{}", json.dumps({**SMALL, "colour": "red"})):
        with pytest.raises(ValidationError):
            Policy.from_canonical(text)


def test_a_policy_cannot_be_changed_and_can_be_a_key() -> None:
    policy = small()
    assert policy.version  # read once, so that a cached value disturbs neither equality nor hashing
    with pytest.raises(ValidationError):
        policy.retain = parse_retain("P1D")  # type: ignore[misc]
    assert {policy: 1}[small()] == 1
    tagged = {"source": {**SMALL["source"], "include": {"tags": {"a": "1", "b": "2"}}}}
    assert {small(**tagged): 1}[small(**tagged)] == 1


def test_a_refusal_of_a_policy_made_in_code_says_what_to_write() -> None:
    with pytest.raises(ValidationError, match=r"under a day; write instead P1D or more"):
        small(retain="PT1H")
    assert small(retain="PT1H", short_retention=True).retain.rest == timedelta(hours=1)


def test_anchors_and_merge_keys_are_ordinary_yaml(tmp_path: Path) -> None:
    policy = file_policy("anchors.yaml", tmp_path)
    assert policy.owner == policy.description == "Anchors and merge keys are ordinary YAML."
    assert policy.source.exclude.suffixes == (".keep",)


def test_policies_come_in_the_order_of_their_files() -> None:
    examples = [policy.id for policy in load_policies(ROOT / "policies")]
    assert examples == sorted(path.stem for path in (ROOT / "policies").iterdir())


def test_one_file_can_be_read_alone() -> None:
    (policy,) = load_policies(ROOT / "policies" / "logs-expire.yaml")
    assert (policy.mode, policy.approval, policy.recovery) == ("enforce", "none", "none")


def test_the_page_describes_every_field() -> None:
    page = (ROOT / "docs" / "policies.md").read_text()
    schema = Policy.model_json_schema(mode="serialization")
    models = [schema, *schema["$defs"].values()]
    names = {name for model in models for name in model.get("properties", {})}
    assert {name for name in names if f"`{name}`" not in page} == set()
