"""Which role can do what."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fnmatch import fnmatchcase

import pytest

from tests.infra.template import Right, Template, as_list, granted, text

FUNCTIONS = ("discovery", "worker", "reconciler")
CONTROL = ("operator", "approver")
ALL = (*FUNCTIONS, *CONTROL, "widget")
POLICIES = ("ViewerPolicyArn", "OperatorPolicyArn", "ApproverPolicyArn")
ENFORCED = {
    "arn:<AWS::Partition>:s3:::sources-one/app/*",
    "arn:<AWS::Partition>:s3:::sources-one/odd${*}${$}x/*",
}
TWO = "arn:<AWS::Partition>:s3:::sources-two"
THREE = "arn:<AWS::Partition>:s3:::sources-three"
TABLES = "arn:<AWS::Partition>:dynamodb:<AWS::Region>:<AWS::AccountId>:table"
REMINDERS, SESSIONS = f"{TABLES}/reminders", f"{TABLES}/sessions"
MARKED, ARCHIVED = CHANGED = f"{TABLES}/marked", f"{TABLES}/archived"
ORDERS = "arn:<AWS::Partition>:dynamodb:us-east-1:<AWS::AccountId>:table/orders"  # in another region
BEHIND, READABLE = "arn:aws:iam::210987654321:role/sexton-reminders", "arn:aws:iam::310987654321:role/readable"
SEEN = ENFORCED | {"arn:<AWS::Partition>:s3:::sources-one/exports/*"}


def test_each_function_has_its_own_role(template: Template) -> None:
    roles = [template.functions()[name]["Role"]["Fn::GetAtt"][0] for name in ALL]

    assert len(set(roles)) == len(ALL)


def test_only_the_worker_deletes_and_only_where_a_policy_enforces(template: Template) -> None:
    worker = template.rights_of("worker")

    assert granted(worker, "s3:DeleteObject") == ENFORCED | {f"{THREE}/restorable/*"}
    assert granted(worker, "s3:DeleteObjectVersion") == {f"{TWO}/history/*", f"{THREE}/restorable/*"}
    assert granted(worker, "s3:AbortMultipartUpload") == {f"{TWO}/incoming/*"}
    assert granted(worker, "s3:BypassGovernanceRetention") == set()
    for name in ("discovery", "reconciler"):
        assert granted(template.rights_of(name), "s3:Abort*") == set()
    assert granted(template.rights_of("discovery"), "s3:Delete*") == set()
    assert granted(template.rights_of("reconciler"), "s3:Delete*") == set()


@pytest.mark.parametrize("name", ALL)
def test_nobody_deletes_evidence_or_ledger_rows_or_scans(template: Template, name: str) -> None:
    rights = template.rights_of(name)

    assert not any(template.logical("EvidenceBucketName") in r for r in granted(rights, "s3:Delete*"))
    for action in ("DeleteItem", "BatchWriteItem", "PartiQLDelete", "Scan", "DeleteTable", "UpdateTable"):
        assert granted(rights, f"dynamodb:{action}") <= {REMINDERS, SESSIONS, ORDERS, *CHANGED}
    assert granted(rights, "s3:PutLifecycleConfiguration") == set()


@pytest.mark.parametrize("name", ALL)
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
    of_rows = [right for right in writes if not {*right.resources} <= {*CHANGED}]

    assert of_rows
    for right in of_rows:
        assert '"dynamodb:LeadingKeys": ["RUN#*", "MALFORMED#*", "POLICY#*"]' in right.conditions


def test_each_function_writes_its_own_kind_of_evidence(template: Template) -> None:
    bucket = f"<{template.logical('EvidenceBucketName')}.Arn>"

    def kinds(name: str) -> set[str]:
        return {r.removeprefix(f"{bucket}/") for r in granted(template.rights_of(name), "s3:PutObject")}

    assert kinds("discovery") == {"plans/*", "policies/*", "runs/*"}
    assert kinds("worker") == {"outcomes/*", "archived/*"}
    assert kinds("reconciler") == {"outcomes/*", "policies/*", "runs/*"}


def test_only_the_worker_reads_archived_records(template: Template) -> None:
    bucket = f"<{template.logical('EvidenceBucketName')}.Arn>"

    def reads(name: str) -> bool:
        return any(
            each in (f"{bucket}/archived/*", f"{bucket}/*")
            for each in granted(template.rights_of(name), "s3:GetObject")
        )

    assert [name for name in ALL if reads(name)] == ["worker"]


def test_the_worker_updates_records_where_a_policy_marks_and_nowhere_else(template: Template) -> None:
    updated = {name: granted(template.rights_of(name), "dynamodb:UpdateItem") for name in ALL}
    assert {name for name, tables in updated.items() if MARKED in tables} == {"worker"}
    assert not any({REMINDERS, SESSIONS, ORDERS, ARCHIVED} & tables for tables in updated.values())


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

    assert granted(rights, "s3:ListBucketVersions") == ({TWO} if name == "discovery" else {TWO, THREE})
    (within,) = (r.conditions for r in rights if r.action == "s3:ListBucketVersions" and TWO in r.resources)
    assert within == '{"StringLike": {"s3:prefix": ["history/*", "old/*"]}}'
    assert granted(rights, "s3:ListBucketMultipartUploads") == {TWO}
    (listing,) = (r for r in rights if r.action == "s3:ListBucket" and TWO in r.resources)
    assert listing.conditions == '{"StringLike": {"s3:prefix": ["tagged/*"]}}'


@pytest.mark.parametrize("name", ["worker", "reconciler"])
def test_markers_are_listed_where_an_undo_may_take_deletions_back(template: Template, name: str) -> None:
    (right,) = (r for r in template.rights_of(name) if r.action == "s3:ListBucketVersions" and THREE in r.resources)

    assert right.conditions == '{"StringLike": {"s3:prefix": ["restorable/*"]}}'


def test_who_undoes_reads_the_receipts_and_the_policy(template: Template) -> None:
    bucket = f"<{template.logical('EvidenceBucketName')}.Arn>"

    assert f"{bucket}/outcomes/*" in granted(template.rights_of("discovery"), "s3:GetObject")
    assert f"{bucket}/policies/*" in granted(template.rights_of("worker"), "s3:GetObject")


@pytest.mark.parametrize(
    ("name", "action", "where"),
    [
        ("discovery", "DescribeTable", {REMINDERS, SESSIONS, ORDERS, *CHANGED}),
        ("discovery", "Scan", {SESSIONS, ORDERS, *CHANGED}),
        ("worker", "BatchGetItem", {REMINDERS, ORDERS, *CHANGED}),
        ("worker", "DeleteItem", {REMINDERS, ORDERS, ARCHIVED}),
        ("worker", "PutItem", {ARCHIVED}),
    ],
)
def test_records_are_found_by_discovery_and_removed_by_the_worker(
    template: Template, name: str, action: str, where: set[str]
) -> None:
    assert granted(template.rights_of(name), f"dynamodb:{action}") == where
    followed = {ORDERS} if action == "BatchGetItem" else set()
    for other in set(ALL) - {name}:
        assert granted(template.rights_of(other), f"dynamodb:{action}") == (
            followed if other == "reconciler" else set()
        )


@pytest.mark.parametrize(
    ("name", "roles"),
    [
        ("discovery", {BEHIND, READABLE}),
        ("worker", {BEHIND}),
        ("reconciler", {BEHIND}),
        ("approver", set()),
    ],
)
def test_a_table_behind_a_role_is_reached_by_assuming_exactly_that_role_under_ones_own_name(
    template: Template, name: str, roles: set[str]
) -> None:
    assumed = [right for right in template.rights_of(name) if right.action == "sts:AssumeRole"]

    assert {resource for right in assumed for resource in right.resources} == roles
    for right in assumed:
        assert json.loads(right.conditions or "{}") == {"StringLike": {"sts:RoleSessionName": [f"sexton-{name}.*"]}}
    assert not any("210987654321" in each for each in granted(template.rights_of(name), "dynamodb:*"))


def test_records_are_queried_on_the_index_that_a_policy_names_and_nothing_else(template: Template) -> None:
    queried = granted(template.rights_of("discovery"), "dynamodb:Query")

    assert {each for each in queried if each.startswith(TABLES)} == {f"{REMINDERS}/index/by-day"}
    for name in ("worker", "reconciler"):
        assert not any(each.startswith(TABLES) for each in granted(template.rights_of(name), "dynamodb:Query"))


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


def test_the_evidence_refuses_deletion_to_every_function(template: Template) -> None:
    (policy,) = template.props("AWS::S3::BucketPolicy")
    refused = [s for s in policy["PolicyDocument"]["Statement"] if s.get("Sid") == "NoFunctionDeletes"]
    roles = {text(arn) for s in refused for arn in as_list(s["Condition"]["ArnEquals"]["aws:PrincipalArn"])}

    assert roles == {text(template.functions()[name]["Role"]) for name in ALL}


def test_control_touches_no_source_and_writes_no_evidence(template: Template) -> None:
    bucket = f"<{template.logical('EvidenceBucketName')}.Arn>"
    for name in CONTROL:
        rights = template.rights_of(name)
        files = {right for action in ("s3:*", "s3:GetObject") for right in granted(rights, action)}
        assert all(resource.startswith(bucket) for resource in files), name
        assert granted(rights, "s3:PutObject") == set()
    assert granted(template.rights_of("operator"), "s3:*") == set()
    assert granted(template.rights_of("approver"), "s3:GetObject") == {f"{bucket}/policies/*", f"{bucket}/outcomes/*"}


def test_control_writes_the_rows_that_its_changes_are_of(template: Template) -> None:
    rows = {name: [r for r in template.rights_of(name) if r.action == "dynamodb:UpdateItem"] for name in CONTROL}

    for name, keys in (("operator", '["POLICY#*", "RUN#*", "CONTROL"]'), ("approver", '["POLICY#*", "CONTROL"]')):
        (right,) = rows[name]
        assert right.conditions == f'{{"ForAllValues:StringLike": {{"dynamodb:LeadingKeys": {keys}}}}}'


def test_control_calls_discovery_and_no_other_function(template: Template) -> None:
    for name in CONTROL:
        assert granted(template.rights_of(name), "lambda:InvokeFunction") == {
            f"<{template.function_id('discovery')}.Arn>"
        }


def test_only_the_operator_s_door_pauses_sweeps_and_redrives(template: Template) -> None:
    operator, approver = (template.rights_of(name) for name in CONTROL)
    dead = f"<{template.logical('DeadLetterQueueUrl')}.Arn>"

    (schedules,) = granted(operator, "scheduler:UpdateSchedule")
    assert schedules.endswith("/policy-*")
    (passed,) = (r for r in operator if r.action == "iam:PassRole")
    assert passed.conditions == '{"StringEquals": {"iam:PassedToService": "scheduler.amazonaws.com"}}'
    assert len(granted(operator, "lambda:UpdateEventSourceMapping")) == 1
    assert granted(operator, "sqs:DeleteMessage") == granted(operator, "sqs:ReceiveMessage") == {dead}
    assert granted(operator, "sqs:ListMessageMoveTasks") == {dead}  # asked before a move is started or stopped
    assert granted(operator, "sqs:SendMessage") == set()
    assert granted(operator, "sts:AssumeRole") == {f"<{template.logical('RedriveRoleArn')}.Arn>"}
    for action in ("scheduler:*", "iam:*", "sqs:*", "sts:*", "lambda:UpdateEventSourceMapping"):
        assert granted(approver, action) == set()


def test_the_widget_reads_and_changes_nothing(template: Template) -> None:
    """Nobody is known to it: whoever looks at the dashboard sees what it sees."""
    rights = template.rights_of("widget")
    bucket = f"<{template.logical('EvidenceBucketName')}.Arn>"

    changing = ("Put*", "Update*", "Delete*", "Write*", "Send*", "Abort*", "Invoke*", "Start*", "Create*", "Publish*")
    found = {r.action for r in rights for verb in changing if fnmatchcase(r.action.partition(":")[2], verb)}
    assert found == {"logs:CreateLogStream", "logs:PutLogEvents"}
    files = granted(rights, "s3:GetObject")
    assert {each for each in files if each.startswith(bucket)} == {
        f"{bucket}/{folder}/*" for folder in ("plans", "outcomes", "policies")
    }


@pytest.mark.parametrize("output", POLICIES)
def test_no_human_role_writes_ledger_or_evidence_or_calls_discovery(template: Template, output: str) -> None:
    """Who may call discovery could say that somebody else asked."""
    rights = template.managed(output)

    for action in ("PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "Scan", "PartiQLUpdate"):
        assert granted(rights, f"dynamodb:{action}") == set()
    for pattern in ("s3:Put*", "s3:Delete*", "sqs:Send*", "sqs:Delete*", "sqs:Start*", "scheduler:Update*"):
        assert granted(rights, pattern) == set()
    assert f"<{template.function_id('discovery')}.Arn>" not in granted(rights, "lambda:Invoke*")
    assert not any("*" in right.action for right in rights)


def test_each_policy_opens_its_own_door_and_no_other(template: Template) -> None:
    doors = {name: f"<{template.function_id(name)}.Arn>" for name in CONTROL}
    viewer, operator, approver = (template.managed(output) for output in POLICIES)

    assert granted(viewer, "lambda:Invoke*") == {f"<{template.function_id('widget')}.Arn>"}
    for rights, door in ((operator, doors["operator"]), (approver, doors["approver"])):
        assert granted(rights, "lambda:InvokeFunctionUrl") == {door}
        through = [r for r in rights if r.action == "lambda:InvokeFunction" and door in r.resources]
        assert [r.conditions for r in through] == ['{"Bool": {"lambda:InvokedViaFunctionUrl": "true"}}']


def _single(rights: Sequence[Right]) -> set[tuple[str, str, str]]:
    """Right by right, since statements are merged."""
    return {(right.action, resource, right.conditions) for right in rights for resource in right.resources}


def test_operators_and_approvers_read_what_viewers_read(template: Template) -> None:
    viewer, operator, approver = (_single(template.managed(output)) for output in POLICIES)

    assert viewer < operator
    assert viewer < approver
    (stack,) = granted(
        template.managed("ViewerPolicyArn"), "cloudformation:DescribeStacks"
    )  # the first call of every command, by name
    assert stack.endswith(f":stack/{template.stack_name}/*")


@pytest.mark.parametrize("output", POLICIES)
def test_a_managed_policy_is_short_enough_for_iam(closed_template: Template, output: str) -> None:
    """6,144 characters; what stands for a name or an ARN here takes up to a hundred there."""
    document = closed_template.json["Resources"][closed_template.logical(output)]["Properties"]["PolicyDocument"]
    assert len(json.dumps(document, separators=(",", ":"))) < 4500
