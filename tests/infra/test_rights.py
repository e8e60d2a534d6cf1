"""Which role can do what."""

from __future__ import annotations

import pytest

from tests.infra.template import Template, granted

FUNCTIONS = ("discovery", "worker", "reconciler")
ENFORCED = {
    "arn:<AWS::Partition>:s3:::sources-one/app/*",
    "arn:<AWS::Partition>:s3:::sources-one/odd${*}${$}x/*",
}
TWO = "arn:<AWS::Partition>:s3:::sources-two"
SEEN = ENFORCED | {"arn:<AWS::Partition>:s3:::sources-one/exports/*"}


def test_each_function_has_its_own_role(template: Template) -> None:
    roles = [template.functions()[name]["Role"]["Fn::GetAtt"][0] for name in FUNCTIONS]

    assert len(set(roles)) == len(FUNCTIONS)


def test_only_the_worker_deletes_and_only_where_a_policy_enforces(template: Template) -> None:
    worker = template.rights_of("worker")

    assert granted(worker, "s3:DeleteObject") == ENFORCED
    assert granted(worker, "s3:DeleteObjectVersion") == {f"{TWO}/history/*"}
    assert granted(worker, "s3:AbortMultipartUpload") == {f"{TWO}/incoming/*"}
    assert granted(worker, "s3:BypassGovernanceRetention") == set()
    for name in ("discovery", "reconciler"):
        assert granted(template.rights_of(name), "s3:Abort*") == set()
    assert granted(template.rights_of("discovery"), "s3:Delete*") == set()
    assert granted(template.rights_of("reconciler"), "s3:Delete*") == set()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_nobody_deletes_evidence_or_ledger_rows_or_scans(template: Template, name: str) -> None:
    rights = template.rights_of(name)

    assert not any(template.logical("EvidenceBucketName") in r for r in granted(rights, "s3:Delete*"))
    for action in ("DeleteItem", "BatchWriteItem", "PartiQLDelete", "Scan", "DeleteTable", "UpdateTable"):
        assert granted(rights, f"dynamodb:{action}") == set()
    assert granted(rights, "s3:PutLifecycleConfiguration") == set()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_right_is_a_wildcard(template: Template, name: str) -> None:
    for right in template.rights_of(name):
        assert "*" not in right.action
        assert "*" not in right.resources


def test_only_discovery_sends_and_only_the_worker_takes(template: Template) -> None:
    jobs = f"<{template.logical('JobsQueueUrl')}.Arn>"

    assert granted(template.rights_of("discovery"), "sqs:SendMessage") == {
        jobs,
        f"<{template.logical('FailureQueueUrl')}.Arn>",  # where Lambda puts, as discovery, the events it gave up
    }
    assert granted(template.rights_of("worker"), "sqs:SendMessage") == set()
    assert granted(template.rights_of("reconciler"), "sqs:SendMessage") == set()
    assert granted(template.rights_of("worker"), "sqs:DeleteMessage") == {jobs}
    assert granted(template.rights_of("worker"), "sqs:ChangeMessageVisibility") == {jobs}
    for name in ("discovery", "reconciler"):
        assert granted(template.rights_of(name), "sqs:ReceiveMessage") == set()


def test_the_worker_writes_no_control_rows(template: Template) -> None:
    writes = [r for r in template.rights_of("worker") if r.action in ("dynamodb:PutItem", "dynamodb:UpdateItem")]

    assert writes
    for right in writes:
        assert '"dynamodb:LeadingKeys": ["RUN#*", "MALFORMED#*"]' in right.conditions


def test_each_function_writes_its_own_kind_of_evidence(template: Template) -> None:
    bucket = f"<{template.logical('EvidenceBucketName')}.Arn>"

    def kinds(name: str) -> set[str]:
        return {r.removeprefix(f"{bucket}/") for r in granted(template.rights_of(name), "s3:PutObject")}

    assert kinds("discovery") == {"plans/*", "policies/*", "runs/*"}
    assert kinds("worker") == {"outcomes/*"}
    assert kinds("reconciler") == {"outcomes/*", "policies/*", "runs/*"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_sources_are_listed_only_within_the_policies_prefixes(template: Template, name: str) -> None:
    source = "arn:<AWS::Partition>:s3:::sources-one"
    listing = [r for r in template.rights_of(name) if r.action == "s3:ListBucket" and source in r.resources]

    assert [r.conditions for r in listing] == [
        '{"StringLike": {"s3:prefix": ["app/*", "exports/*", "odd${*}${$}x/*"]}}'
    ]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_versions_and_uploads_are_listed_only_where_a_policy_is_about_them(template: Template, name: str) -> None:
    rights = template.rights_of(name)

    assert granted(rights, "s3:ListBucketVersions") == {TWO}
    (within,) = (r.conditions for r in rights if r.action == "s3:ListBucketVersions")
    assert within == '{"StringLike": {"s3:prefix": ["history/*", "old/*"]}}'
    assert granted(rights, "s3:ListBucketMultipartUploads") == {TWO}
    (listing,) = (r for r in rights if r.action == "s3:ListBucket" and TWO in r.resources)
    assert listing.conditions == '{"StringLike": {"s3:prefix": ["tagged/*"]}}'


@pytest.mark.parametrize("name", FUNCTIONS)
def test_tags_are_read_only_where_a_policy_goes_by_them(template: Template, name: str) -> None:
    rights = template.rights_of(name)

    assert granted(rights, "s3:GetObjectTagging") == {f"{TWO}/tagged/*"}
    assert granted(rights, "s3:GetObjectVersionTagging") == {f"{TWO}/history/*"}


def test_locks_are_read_by_the_worker_where_it_purges(template: Template) -> None:
    worker = template.rights_of("worker")

    assert granted(worker, "s3:GetBucketObjectLockConfiguration") == {TWO}
    for action in ("s3:GetObjectVersion", "s3:GetObjectRetention", "s3:GetObjectLegalHold"):
        assert granted(worker, action) == {f"{TWO}/history/*"}
        for name in ("discovery", "reconciler"):
            assert granted(template.rights_of(name), action) == set()


def test_objects_are_read_by_who_observes(template: Template) -> None:
    def read(name: str) -> set[str]:
        return {r for r in granted(template.rights_of(name), "s3:GetObject") if "sources-one" in r}

    assert read("worker") == SEEN
    assert read("reconciler") == SEEN
    assert read("discovery") == set()


def test_the_reconciler_invokes_only_discovery_and_announces_on_one_bus(template: Template) -> None:
    discovery = template.function_id("discovery")
    rights = template.rights_of("reconciler")

    assert granted(rights, "lambda:InvokeFunction") == {f"<{discovery}.Arn>"}
    (bus,) = granted(rights, "events:PutEvents")
    assert bus.endswith(":event-bus/default")
    for name in ("discovery", "worker"):
        assert granted(template.rights_of(name), "lambda:*") == set()


def test_the_redrive_role_moves_dead_letters_and_nothing_else(template: Template) -> None:
    role = template.logical("RedriveRoleArn")
    jobs, dead = (f"<{template.logical(name)}.Arn>" for name in ("JobsQueueUrl", "DeadLetterQueueUrl"))
    rights = template.rights(role)

    assert granted(rights, "sqs:StartMessageMoveTask") == {dead}
    assert granted(rights, "sqs:SendMessage") == {jobs}
    assert granted(rights, "sqs:PurgeQueue") == set()
    assert {r.action.split(":")[0] for r in rights} == {"sqs"}


def test_the_scheduler_takes_roles_only_for_our_schedules(template: Template) -> None:
    roles = [
        statement
        for role in template.props("AWS::IAM::Role")
        for statement in role["AssumeRolePolicyDocument"]["Statement"]
        if statement["Principal"].get("Service") == "scheduler.amazonaws.com"
    ]

    assert len(roles) == 2
    for statement in roles:
        assert set(statement["Condition"]["StringEquals"]) == {"aws:SourceAccount", "aws:SourceArn"}
