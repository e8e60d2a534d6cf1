"""The bucket policy for another account: exactly what the policies take, each function for itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from sexton import cli
from sexton.bucket_policy import PLACEHOLDERS, BucketPolicy, for_other_accounts, literal
from sexton.grants import DISCOVERY, FUNCTIONS, RECONCILER, WORKER, of_bucket
from sexton.policy import Policy

from tests.fakes.world import policy

ACCOUNT = "210987654321"
ROLES = {name: f"arn:aws:iam::123456789012:role/Sexton-{name}" for name in FUNCTIONS}
BUCKET = "arn:aws:s3:::theirs"

Triple = tuple[str, str, str]  # function, action, resource with what it may list


def of_theirs(prefix: str, source: dict[str, object] | None = None, **changes: object) -> Policy:
    whole = {"kind": "s3", "bucket": "theirs", "account": ACCOUNT, "prefixes": [prefix], **(source or {})}
    return policy(source=whole, **changes)


EXPIRE = of_theirs("app/")
REPORT = of_theirs("exports/", mode="report", recovery=None)
UNDOABLE = of_theirs("app/", recovery="versioning")
PURGE = of_theirs("docs/", {"versions": "noncurrent"}, action="purge")
ABORT = of_theirs("uploads/", {"kind": "s3_uploads"}, action="abort")
TAGGED = of_theirs("tagged/", {"include": {"tags": {"keep": "no"}}})
EVERY_KIND = [EXPIRE, UNDOABLE, REPORT, PURGE, ABORT, TAGGED]


def statements(*policies: Policy) -> list[dict[str, Any]]:
    (found,) = for_other_accounts(policies, ROLES)
    assert (found.bucket, found.account) == ("theirs", ACCOUNT)
    return json.loads(found.to_json())["Statement"]  # type: ignore[no-any-return]


def allowed(*policies: Policy) -> set[Triple]:
    return {triple for statement in statements(*policies) for triple in _triples(statement)}


def _triples(statement: dict[str, Any]) -> Iterator[Triple]:
    names = {arn: name for name, arn in ROLES.items()}
    prefixes = statement.get("Condition", {}).get("StringLike", {}).get("s3:prefix", [""])
    for role in statement["Principal"]["AWS"]:
        for action in statement["Action"]:
            for resource in statement["Resource"]:
                yield from ((names[role], action, f"{resource} {prefix}".strip()) for prefix in prefixes)


def test_expiring_takes_listing_looking_and_deleting_within_the_prefix() -> None:
    assert allowed(EXPIRE) == {
        (DISCOVERY, "s3:GetBucketVersioning", BUCKET),
        *((name, "s3:ListBucket", f"{BUCKET} app/*") for name in FUNCTIONS),
        (WORKER, "s3:GetObject", f"{BUCKET}/app/*"),
        (RECONCILER, "s3:GetObject", f"{BUCKET}/app/*"),
        (WORKER, "s3:DeleteObject", f"{BUCKET}/app/*"),
    }


def test_what_can_be_undone_takes_versions_to_be_listed_and_markers_to_be_removed() -> None:
    more = allowed(UNDOABLE) - allowed(EXPIRE)

    assert more == {
        (WORKER, "s3:ListBucketVersions", f"{BUCKET} app/*"),
        (RECONCILER, "s3:ListBucketVersions", f"{BUCKET} app/*"),
        (WORKER, "s3:DeleteObjectVersion", f"{BUCKET}/app/*"),
    }


def test_reporting_takes_no_right_to_delete() -> None:
    assert not any("Delete" in action or "Abort" in action for _, action, _ in allowed(REPORT))


def test_purging_takes_versions_and_what_tells_a_lock_from_a_missing_permission() -> None:
    found = allowed(PURGE)
    assert {action for name, action, _ in found if name == WORKER} == {
        "s3:ListBucketVersions",
        "s3:DeleteObjectVersion",
        "s3:GetBucketObjectLockConfiguration",
        "s3:GetObjectVersion",
        "s3:GetObjectRetention",
        "s3:GetObjectLegalHold",
    }
    assert {action for name, action, _ in found if name == DISCOVERY} == {
        "s3:ListBucketVersions",
        "s3:GetBucketVersioning",
    }


def test_aborting_takes_the_whole_listing_of_uploads_and_aborting_within_the_prefix() -> None:
    """IAM has no condition for the prefix of that listing."""
    found = allowed(ABORT)
    assert {(name, "s3:ListBucketMultipartUploads", BUCKET) for name in FUNCTIONS} <= found
    assert {(name, where) for name, action, where in found if action == "s3:AbortMultipartUpload"} == {
        (WORKER, f"{BUCKET}/uploads/*")
    }


def test_tags_are_read_by_every_function_that_judges() -> None:
    readers = {name for name, action, _ in allowed(TAGGED) if action == "s3:GetObjectTagging"}
    assert readers == set(FUNCTIONS)


def test_it_allows_what_the_functions_need_and_only_the_worker_removes() -> None:
    """What is needed is the list that the doctor asks IAM about."""
    found = allowed(*EVERY_KIND)
    for grant in (grant for each in EVERY_KIND for grant in of_bucket(BUCKET, each)):
        wanted = f"{grant.resource} {grant.context.get('s3:prefix', '')}".strip()
        for action in grant.actions:
            patterns = [where for name, given, where in found if (name, given) == (grant.function, action)]
            assert any(fnmatchcase(wanted, pattern) for pattern in patterns), (grant, action)
    assert {name for name, action, _ in found if "Delete" in action or "Abort" in action} == {WORKER}


def test_sids_are_such_as_s3_takes_and_no_two_are_equal() -> None:
    sids = [statement["Sid"] for statement in statements(*EVERY_KIND)]
    assert len(set(sids)) == len(sids)
    assert all(sid.isalnum() for sid in sids)


def test_what_iam_reads_in_a_prefix_stands_for_itself() -> None:
    assert literal("a*b?$c/") == "a${*}b${?}${$}c/"
    assert (WORKER, "s3:DeleteObject", f"{BUCKET}/odd${{*}}x/*") in allowed(of_theirs("odd*x/"))


def test_buckets_of_the_own_account_need_none() -> None:
    assert for_other_accounts([policy()], ROLES) == ()


def test_the_partition_is_that_of_the_roles() -> None:
    roles = {name: arn.replace("arn:aws:", "arn:aws-cn:") for name, arn in ROLES.items()}
    (found,) = for_other_accounts([EXPIRE], roles)
    assert "arn:aws-cn:s3:::theirs" in found.to_json()
    assert "arn:aws:" not in found.to_json()


# the command


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "theirs.yaml").write_text(
        "id: theirs-expire\ndescription: Theirs.\nowner: tests\nschedule: rate(1 day)\nretain: P30D\n"
        f"source: {{kind: s3, bucket: theirs, account: '{ACCOUNT}', prefixes: [app/]}}\n"
    )
    return tmp_path


def test_the_command_prints_it_with_places_to_fill_in(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["policy", "check", str(folder), "--grants"]) == 0
    people = capsys.readouterr().out
    assert cli.main(["policy", "check", str(folder), "--grants", "--json"]) == 0
    (found,) = [BucketPolicy.model_validate(each) for each in json.loads(capsys.readouterr().out)]
    assert found.to_json() in people
    assert PLACEHOLDERS[DISCOVERY] in people
    assert ACCOUNT in people


def test_the_command_asks_a_stack_for_its_roles(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def roles(stack: str) -> dict[str, str]:
        asked.append(stack)
        return ROLES

    monkeypatch.setattr(cli, "roles", roles)
    assert cli.main(["policy", "check", str(folder), "--grants", "--stack", "Sexton-beta"]) == 0
    assert asked == ["Sexton-beta"]
    assert ROLES[WORKER] in capsys.readouterr().out


def test_the_command_says_when_there_is_nothing_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["policy", "check", str(Path(__file__).parents[2] / "policies"), "--grants"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "the rights of the stack's own roles are enough" in err
