"""Where a Lifecycle rule would do: the rule is one that S3 takes, and everything else is refused with its reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from botocore.session import get_session  # type: ignore[import-untyped]
from botocore.validate import ParamValidator  # type: ignore[import-untyped]
from sexton.lifecycle import DIFFERENCES, MAX_FILTER_SIZE, MAX_RULES, LifecycleRules, NoLifecycleRule, rule_for

from tests.fakes.world import policy

SOURCE = {"kind": "s3", "bucket": "logs", "prefixes": ["app/"]}


def source(**changes: object) -> dict[str, object]:
    return {**SOURCE, **changes}


def rules(**changes: object) -> list[dict[str, Any]]:
    found = rule_for(policy(**changes))
    assert isinstance(found, LifecycleRules)
    configuration = json.loads(found.to_json())
    _check_shape(configuration)
    return configuration["Rules"]  # type: ignore[no-any-return]


def _check_shape(configuration: dict[str, Any]) -> None:
    """As S3's model has it, and what its documentation says beyond: one predicate, or two and more in And."""
    model = get_session().get_service_model("s3").operation_model("PutBucketLifecycleConfiguration")
    request = {"Bucket": "logs", "LifecycleConfiguration": configuration}
    report = ParamValidator().validate(request, model.input_shape)
    assert not report.has_errors(), report.generate_report()
    assert 1 <= len(configuration["Rules"]) <= MAX_RULES
    assert len({rule["ID"] for rule in configuration["Rules"]}) == len(configuration["Rules"])
    for rule in configuration["Rules"]:
        assert len(rule["ID"]) <= 255
        assert rule["Status"] == "Enabled"
        assert len(rule.keys() - {"ID", "Status", "Filter"}) >= 1
        assert len(rule["Filter"]) == 1
        assert len(rule["Filter"].get("And", "..")) >= 2


def test_a_plain_policy_is_one_rule() -> None:
    assert rules() == [
        {"ID": "logs-expire", "Status": "Enabled", "Filter": {"Prefix": "app/"}, "Expiration": {"Days": 30}}
    ]


def test_each_prefix_is_a_rule_of_its_own() -> None:
    found = rules(source=source(prefixes=["b/", "a/"]))
    assert [(rule["ID"], rule["Filter"]["Prefix"]) for rule in found] == [
        ("logs-expire-1", "a/"),
        ("logs-expire-2", "b/"),
    ]


@pytest.mark.parametrize(("retain", "days"), [("P1D", 1), ("P2W", 14), ("PT48H", 2), ("P365D", 365)])
def test_whole_days_are_kept(retain: str, days: int) -> None:
    assert [rule["Expiration"] for rule in rules(retain=retain)] == [{"Days": days}]


@pytest.mark.parametrize(
    ("include", "sizes"),
    [
        ({"min_size": 1}, {"ObjectSizeGreaterThan": 0}),
        ({"max_size": 0}, {"ObjectSizeLessThan": 1}),
        ({"min_size": 500, "max_size": 500}, {"ObjectSizeGreaterThan": 499, "ObjectSizeLessThan": 501}),
        ({"min_size": 0}, {}),
        ({"max_size": MAX_FILTER_SIZE}, {}),
        ({"max_size": MAX_FILTER_SIZE - 1}, {"ObjectSizeLessThan": MAX_FILTER_SIZE}),
    ],
)
def test_sizes_are_exclusive_in_s3(include: dict[str, int], sizes: dict[str, int]) -> None:
    [rule] = rules(source=source(include=include))
    expected = {"And": {"Prefix": "app/", **sizes}} if sizes else {"Prefix": "app/"}
    assert rule["Filter"] == expected


def test_required_tags_are_a_filter() -> None:
    [rule] = rules(source=source(include={"tags": {"b": "2", "a": ""}}))
    tags = [{"Key": "a", "Value": ""}, {"Key": "b", "Value": "2"}]
    assert rule["Filter"] == {"And": {"Prefix": "app/", "Tags": tags}}


def test_what_lies_in_a_bucket_without_versioning_is_purged_by_the_same_rule() -> None:
    assert rules(action="purge") == rules()


@pytest.mark.parametrize(
    ("changes", "actions"),
    [
        ({}, {"NoncurrentVersionExpiration": {"NoncurrentDays": 30}}),
        ({"keep_latest": 2}, {"NoncurrentVersionExpiration": {"NoncurrentDays": 30, "NewerNoncurrentVersions": 2}}),
        (
            {"purge_markers": True},
            {
                "NoncurrentVersionExpiration": {"NoncurrentDays": 30},
                "Expiration": {"ExpiredObjectDeleteMarker": True},
            },
        ),
    ],
)
def test_noncurrent_versions_have_a_rule(changes: dict[str, object], actions: dict[str, object]) -> None:
    assert rules(action="purge", source=source(versions="noncurrent", **changes)) == [
        {"ID": "logs-expire", "Status": "Enabled", "Filter": {"Prefix": "app/"}, **actions}
    ]
    found = rule_for(policy(action="purge", source=source(versions="noncurrent", **changes)))
    assert isinstance(found, LifecycleRules)
    assert any("named null" in each for each in found.differences)


def test_incomplete_uploads_have_a_rule() -> None:
    [rule] = rules(action="abort", retain="P7D", source=source(kind="s3_uploads"))
    assert rule["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 7}
    assert "Expiration" not in rule


def test_a_first_approval_a_limit_or_a_raw_prefix_is_no_obstacle() -> None:
    assert rules(approval="first", limits={"max_items": 5}, source=source(prefixes=["app"], raw_prefix=True))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"mode": "report"}, "mode is report"),
        ({"approval": "always"}, "approval is always"),
        ({"retain": "P1M"}, "retain P1M"),
        ({"retain": "P1Y"}, "retain P1Y"),
        ({"retain": "P1M1D"}, "retain P1M1D"),
        ({"retain": "P1DT6H"}, "retain P1DT6H"),
        ({"retain": "PT6H", "short_retention": True}, "retain PT6H"),
        ({"age_from": {"key_date": "dt=%Y-%m-%d"}}, "age_from is a date in the key"),
        ({"age_from": {"tag": "created"}}, "age_from is a date in the tag"),
        ({"source": source(exclude={"tags": {"keep": "yes"}})}, "source.exclude"),
        ({"action": "purge", "source": source(versions="noncurrent", keep_latest=101)}, "source.keep_latest"),
        (
            {
                "action": "purge",
                "source": source(versions="noncurrent", purge_markers=True, include={"tags": {"a": "b"}}),
            },
            "source.purge_markers",
        ),
        ({"source": source(exclude={"prefixes": ["app/keep/"]})}, "source.exclude"),
        ({"source": source(exclude={"suffixes": [".gz"]})}, "source.exclude"),
        ({"source": source(include={"suffixes": [".log"]})}, "source.include.suffixes"),
        ({"source": source(include={"globs": ["app/*/x"]})}, "source.include.globs"),
        ({"source": source(include={"min_size": MAX_FILTER_SIZE + 2})}, "source.include.min_size"),
        ({"source": source(prefixes=["app\x01/"])}, "XML"),
        ({"source": source(prefixes=[f"{n:04d}/" for n in range(MAX_RULES + 1)])}, "1001 prefixes"),
    ],
)
def test_what_a_rule_cannot_say_is_an_obstacle(changes: dict[str, object], reason: str) -> None:
    found = rule_for(policy(**changes))
    assert isinstance(found, NoLifecycleRule)
    assert [each for each in found.reasons if reason in each] == list(found.reasons)


def test_every_obstacle_is_told() -> None:
    found = rule_for(policy(mode="report", retain="P1M", source=source(include={"suffixes": [".log"]})))
    assert isinstance(found, NoLifecycleRule)
    assert len(found.reasons) == 3


def test_the_differences_that_remain_are_told() -> None:
    plain, versioned = rule_for(policy()), rule_for(policy(recovery="versioning"))
    assert isinstance(plain, LifecycleRules)
    assert isinstance(versioned, LifecycleRules)
    for word in ("record", "approval", "limits", "midnight UTC", "come later", "replaces all"):
        assert any(word in each for each in plain.differences), word
    assert any("noncurrent" in each for each in versioned.differences)


def test_the_page_tells_the_same_differences() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "money.md").read_text()
    assert all(f"- {each}" in page for each in DIFFERENCES)
