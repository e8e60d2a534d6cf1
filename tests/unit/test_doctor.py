"""The doctor: what each probe says of a stack that is as it should be, and of one that is not."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sexton import cli, doctor
from sexton.aws.doctor import Doctor, find_site
from sexton.aws.stack import StackNotFound
from sexton.doctor import Check, CheckName, Diagnosis
from sexton.errors import Failure, ReasonClass, UnknownPolicy
from sexton.grants import FUNCTIONS
from sexton.policy import Policy

from tests.fakes.deployment import FakeFunctions, deployment
from tests.fakes.site import ENVIRONMENT, REMINDERS, FakeAws, arn, error, healthy
from tests.fakes.world import World, policy, records_policy

SOURCE = {"kind": "s3", "bucket": "logs", "prefixes": ["app/"]}
DAILY = policy(schedule="rate(1 day)")
NONCURRENT = policy(schedule="rate(1 day)", source={**SOURCE, "versions": "noncurrent"}, action="purge")
ROLE = "arn:aws:iam::210987654321:role/sexton-reminders"
OURS = {"id": "logs-expire", "schedule": "rate(1 day)"}
RECORDS = records_policy(**OURS, recovery="backup")
ABROAD = records_policy(**OURS, region="eu-west-1", role_arn=ROLE, external_id="ours")
UPLOADS = policy(schedule="rate(1 day)", source={**SOURCE, "kind": "s3_uploads"}, action="abort")


class Clinic:
    """A stack that is as it should be, with one policy deployed, and the doctor who looks at it."""

    def __init__(self, deployed: Policy = DAILY) -> None:
        self.policy = deployed
        self.world = World(policies={deployed.id: deployed})
        self.world.tick()
        self.site, self.aws = healthy(self.world)

    def examine(self, local: Sequence[Policy] | None = None, *asked: str) -> list[Check]:
        return list(Doctor(self.site, local, asked).checks())

    def one(self, name: str, **more: Any) -> Check:
        """The one check of a name."""
        (check,) = self.all(name, **more)
        return check

    def all(self, name: str, **more: Any) -> list[Check]:
        return [check for check in self.examine(**more) if check.name == name]


def test_a_stack_as_it_should_be_is_ok_in_every_respect() -> None:
    found = [*Clinic().examine(), *Clinic(ABROAD).examine()]

    assert {check.name for check in found} == set(CheckName)
    assert [check for check in found if check.verdict != "ok"] == []


@pytest.mark.parametrize(
    "deployed", [NONCURRENT, UPLOADS, RECORDS, ABROAD], ids=["noncurrent", "uploads", "records", "abroad"]
)
def test_each_kind_of_source_is_looked_at(deployed: Policy) -> None:
    clinic = Clinic(deployed)
    simulate = clinic.aws.answers["iam", "simulate_principal_policy"]

    def all_of_the_worker(PolicySourceArn: str, ActionNames: list[str], **given: Any) -> Mapping[str, Any]:
        allowed = [{"EvalActionName": action, "EvalDecision": "allowed"} for action in ActionNames]
        if PolicySourceArn.endswith("worker") and "logs" in given["ResourceArns"][0]:
            return {"EvaluationResults": allowed}
        return simulate(PolicySourceArn=PolicySourceArn, ActionNames=ActionNames, **given)

    clinic.aws.answers["iam", "simulate_principal_policy"] = all_of_the_worker
    assert [check for check in clinic.examine() if check.verdict != "ok"] == []


def test_where_nothing_may_be_looked_at_nothing_is_known_and_nothing_fails() -> None:
    clinic = Clinic()
    for call in clinic.aws.answers:
        clinic.aws.refuse(*call, "AccessDenied")
    found = clinic.examine()

    assert {check.verdict for check in found if check.name != CheckName.POLICY_VERSION} == {"unknown"}
    assert all("role that may " in check.to_do for check in found if check.verdict == "unknown")
    assert Diagnosis.of("Sexton", clinic.world.clock(), found).holds


def test_an_endpoint_that_knows_no_call_breaks_nothing() -> None:
    clinic = Clinic()
    for call in clinic.aws.answers:
        clinic.aws.refuse(*call, "InvalidAction", "no such call")
    assert {check.verdict for check in clinic.examine() if check.name != CheckName.POLICY_VERSION} == {"unknown"}


# values


@pytest.mark.parametrize(
    ("seconds", "verdict"),
    [(0, "ok"), (4.9, "ok"), (5, "warning"), (-5, "warning"), (60, "warning"), (60.1, "failed"), (-61, "failed")],
)
def test_the_clock_may_be_off_by_a_little(seconds: float, verdict: str) -> None:
    assert doctor.clock(timedelta(seconds=seconds)).verdict == verdict


def test_only_a_failed_check_makes_the_whole_fail() -> None:
    clinic = Clinic()
    name = CheckName.CLOCK
    others = [Check.ok(name, "a", "b"), Check.warning(name, "a", "b", "c"), Check.unknown(name, "a", "b", "c")]

    assert Diagnosis.of("Sexton", clinic.world.clock(), others).holds
    diagnosis = Diagnosis.of("Sexton", clinic.world.clock(), [*others, Check.failed(name, "a", "b", "c")])
    assert not diagnosis.holds
    assert diagnosis.counts == {"failed": 1, "warning": 1, "unknown": 1, "ok": 1}


@pytest.mark.parametrize(("code", "verdict"), [("NoSuchBucket", "failed"), ("403", "unknown"), ("SlowDown", "unknown")])
def test_what_is_not_there_has_failed_and_what_may_not_be_seen_is_unknown(code: str, verdict: str) -> None:
    failure = Failure(ReasonClass.PERMANENT, code, "")
    assert doctor.could_not_look(CheckName.SCOPE, "logs", failure, "s3:ListBucket").verdict == verdict


def test_every_check_is_on_its_page() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "doctor.md").read_text()
    table = page.split("| check |")[1].split("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == sorted(
        CheckName, key=lambda name: table.index(f"| `{name}` |")
    )


# the stack


def test_a_clock_that_is_behind() -> None:
    clinic = Clinic()
    date = {"date": "Sun, 01 Mar 2026 12:02:00 GMT"}
    clinic.aws.say("sts", "get_caller_identity", {"ResponseMetadata": {"HTTPHeaders": date}})
    check = clinic.one("clock")

    assert (check.verdict, check.found) == ("failed", "120 s behind AWS's clock")


def test_a_function_with_settings_of_another_stack() -> None:
    clinic = Clinic()
    clinic.aws.change(
        "lambda",
        "get_function_configuration",
        Environment={"Variables": {**ENVIRONMENT, "SEXTON_LEDGER_TABLE": "another"}},
    )
    assert {(check.verdict, check.found) for check in clinic.all("function_settings") if check.of in FUNCTIONS} == {
        ("failed", "not the stack's own: SEXTON_LEDGER_TABLE")
    }


@pytest.mark.parametrize(
    ("changed", "verdict", "found"),
    [
        ({"SEXTON_DOOR": ""}, "failed", "it takes itself for the door of the nobody"),
        ({"SEXTON_DISCOVERY_FUNCTION": "another"}, "failed", "not the stack's own: SEXTON_DISCOVERY_FUNCTION"),
        ({"SEXTON_TRUST_CALLER": "true"}, "warning", "it believes whoever asks, as on the local stage"),
        ({"SEXTON_ACCOUNT": "x"}, "failed", "missing or unreadable: SEXTON_ACCOUNT"),
    ],
)
def test_a_door_that_was_told_something_else(changed: Mapping[str, str], verdict: str, found: str) -> None:
    clinic = Clinic()
    variables = {**clinic.site.environment("operate"), **changed}
    clinic.site._functions.clear()
    before = clinic.aws.answers["lambda", "get_function_configuration"]
    clinic.aws.answers["lambda", "get_function_configuration"] = lambda FunctionName: {
        **before(FunctionName=FunctionName),
        **({"Environment": {"Variables": variables}} if FunctionName == "operate" else {}),
    }
    (check,) = [check for check in clinic.all("function_settings") if check.of == "operate"]
    assert (check.verdict, check.found) == (verdict, found)


def test_a_worker_that_calls_loopback_is_one_of_the_local_stage() -> None:
    clinic = Clinic()
    variables = {**ENVIRONMENT, "SEXTON_LOCAL_CA": "-----BEGIN CERTIFICATE-----"}
    clinic.aws.change("lambda", "get_function_configuration", Environment={"Variables": variables})
    found = {check.of: check for check in clinic.all("function_settings")}
    assert found["worker"].verdict == "warning"
    assert "-c local_ca" in found["worker"].to_do


def test_a_worker_that_a_killed_rehearsal_left_changed() -> None:
    clinic = Clinic()
    clinic.aws.change("lambda", "get_function_configuration", Handler="handlers.rehearsing_worker.handler")
    found = {check.of: check for check in clinic.all("function_handler")}
    assert found["worker"].verdict == "failed"
    assert "sexton rehearse --tidy" in found["worker"].to_do
    assert found["operate"].to_do == "deploy the stack again"


def test_a_function_that_lacks_a_setting() -> None:
    clinic = Clinic()
    variables = {name: value for name, value in ENVIRONMENT.items() if name != "SEXTON_MAX_RECEIVE_COUNT"}
    clinic.aws.change("lambda", "get_function_configuration", Environment={"Variables": variables})

    assert "SEXTON_MAX_RECEIVE_COUNT" in clinic.all("function_settings")[0].found
    assert clinic.one("queue_redrive").verdict == "unknown"


def test_a_worker_that_outlives_its_lease() -> None:
    clinic = Clinic()
    clinic.aws.change("lambda", "get_function_configuration", Timeout=200)

    assert [check.verdict for check in clinic.all("function_timeout")] == ["ok", "failed", "ok"]
    assert clinic.one("queue_visibility").found == "720 s, not 6 x the worker's 200 s"


@pytest.mark.parametrize(
    ("queue", "fields", "name", "verdict"),
    [
        ("jobs", {"VisibilityTimeout": "30"}, "queue_visibility", "failed"),
        ("jobs", {"VisibilityTimeout": "700"}, "queue_visibility", "warning"),
        ("jobs", {"RedrivePolicy": "{}"}, "queue_redrive", "failed"),
        ("jobs", {"MessageRetentionPeriod": "1209600"}, "queue_retention", "failed"),
        ("dead", {"RedriveAllowPolicy": '{"redrivePermission": "denyAll"}'}, "queue_allow", "failed"),
        ("dead", {"RedriveAllowPolicy": "{}"}, "queue_allow", "warning"),
    ],
)
def test_a_queue_that_is_not_as_configured(queue: str, fields: dict[str, str], name: str, verdict: str) -> None:
    clinic = Clinic()
    before = clinic.aws.answers["sqs", "get_queue_attributes"]

    def changed(QueueUrl: str, AttributeNames: list[str]) -> Mapping[str, Any]:
        found = before(QueueUrl=QueueUrl, AttributeNames=AttributeNames)["Attributes"]
        return {"Attributes": {**found, **(fields if QueueUrl.endswith(queue) else {})}}

    clinic.aws.answers["sqs", "get_queue_attributes"] = changed
    assert clinic.one(name).verdict == verdict


def test_receives_that_the_functions_do_not_count_on() -> None:
    clinic = Clinic()
    clinic.aws.change(
        "lambda",
        "get_function_configuration",
        Environment={"Variables": {**ENVIRONMENT, "SEXTON_MAX_RECEIVE_COUNT": "20"}},
    )
    assert clinic.one("queue_redrive").found == "maxReceiveCount is 15, and the functions count on 20"


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        ({"State": "Disabled"}, "failed"),
        ({"FunctionResponseTypes": []}, "failed"),
        ({"ScalingConfig": {}}, "warning"),
        ({"EventSourceArn": "arn:another"}, "failed"),
    ],
)
def test_a_worker_that_is_not_fed_as_it_should_be(fields: dict[str, Any], verdict: str) -> None:
    clinic = Clinic()
    (mapping,) = clinic.aws.answers["lambda", "list_event_source_mappings"]()["EventSourceMappings"]
    clinic.aws.say("lambda", "list_event_source_mappings", {"EventSourceMappings": [{**mapping, **fields}]})
    assert clinic.one("queue_source").verdict == verdict


def test_a_tick_that_is_disabled() -> None:
    clinic = Clinic()
    clinic.aws.change("scheduler", "get_schedule", State="DISABLED")

    assert clinic.one("tick_schedule").verdict == "failed"
    assert clinic.one("policy_schedule").verdict == "warning"


def paused(clinic: Clinic, scope: str) -> None:
    clinic.world.stopping().pause(scope, "why", "ada")


@pytest.mark.parametrize(("state", "says"), [("DISABLED", "follows the pause"), ("ENABLED", "does not follow")])
@pytest.mark.parametrize("scope", ["logs-expire", "all"])
def test_a_schedule_of_a_paused_policy(scope: str, state: str, says: str) -> None:
    clinic = Clinic()
    paused(clinic, scope)
    clinic.aws.change("scheduler", "get_schedule", State=state)

    check = clinic.one("policy_schedule")
    assert (check.verdict, says in check.found, scope in check.found) == ("warning", True, True)


@pytest.mark.parametrize(("scope", "verdict"), [("all", "warning"), ("logs-expire", "failed")])
def test_a_worker_that_is_not_fed_while_all_is_paused(scope: str, verdict: str) -> None:
    clinic = Clinic()
    paused(clinic, scope)
    (mapping,) = clinic.aws.answers["lambda", "list_event_source_mappings"]()["EventSourceMappings"]
    stopped = {"EventSourceMappings": [{**mapping, "State": "Disabled"}]}
    clinic.aws.say("lambda", "list_event_source_mappings", stopped)

    assert clinic.one("queue_source").verdict == verdict


def test_schedules_that_are_gone() -> None:
    clinic = Clinic()
    clinic.aws.say("scheduler", "list_schedules", {"Schedules": []})

    assert clinic.one("tick_schedule").verdict == "failed"
    assert clinic.one("policy_schedule").verdict == "failed"


def test_a_schedule_that_is_not_the_policy_s() -> None:
    clinic = Clinic()
    clinic.aws.change("scheduler", "get_schedule", ScheduleExpressionTimezone="Europe/Berlin")
    assert "Europe/Berlin" in clinic.one("policy_schedule").found


@pytest.mark.parametrize(
    ("through", "invoked", "found"),
    [
        (True, True, "a tick came through in the last 5 minutes"),
        (False, True, "it was invoked in the last 5 minutes, and no tick came through"),
        (False, False, "it logged nothing in the last 5 minutes"),
    ],
)
def test_whether_the_tick_is_alive(through: bool, invoked: bool, found: str) -> None:
    clinic = Clinic()

    def logged(logGroupName: str, startTime: int, filterPattern: str = "") -> Mapping[str, Any]:
        assert logGroupName == "/logs/reconciler"
        return {"events": [{}] if (through if filterPattern else invoked) else []}

    clinic.aws.answers["logs", "filter_log_events"] = logged
    check = clinic.one("tick_alive")
    assert (check.verdict, check.found) == ("ok" if through else "failed", found)


@pytest.mark.parametrize(
    ("call", "field", "value", "name", "verdict"),
    [
        ("describe_table", "Table", {"TableStatus": "DELETING"}, "ledger_table", "failed"),
        ("describe_table", "Table", {"DeletionProtectionEnabled": False}, "ledger_table", "warning"),
        ("describe_table", "Table", {"BillingModeSummary": {}}, "ledger_table", "warning"),
        ("describe_table", "Table", {"GlobalSecondaryIndexes": []}, "ledger_index", "failed"),
        (
            "describe_continuous_backups",
            "ContinuousBackupsDescription",
            {"PointInTimeRecoveryDescription": {}},
            "ledger_recovery",
            "warning",
        ),
        (
            "describe_time_to_live",
            "TimeToLiveDescription",
            {"TimeToLiveStatus": "DISABLED"},
            "ledger_expiry",
            "warning",
        ),
        ("describe_time_to_live", "TimeToLiveDescription", {"AttributeName": "at"}, "ledger_expiry", "failed"),
    ],
)
def test_a_ledger_that_is_not_as_it_should_be(
    call: str, field: str, value: dict[str, Any], name: str, verdict: str
) -> None:
    clinic = Clinic()
    before = clinic.aws.answers["dynamodb", call]()[field]
    clinic.aws.say("dynamodb", call, {field: {**before, **value}})
    assert clinic.one(name).verdict == verdict


def test_the_ledger_is_only_read() -> None:
    clinic = Clinic()
    clinic.examine()
    assert {method for service, method, _ in clinic.aws.asked if service == "dynamodb"} == {
        "describe_table",
        "describe_continuous_backups",
        "describe_time_to_live",
    }


# the store


@pytest.mark.parametrize(
    ("condition", "name"), [("IfNoneMatch", "put_once"), ("ETag", "delete_together"), ("IfMatch", "delete_alone")]
)
def test_a_store_that_ignores_a_condition_is_found_out(condition: str, name: str) -> None:
    clinic = Clinic()
    clinic.aws.store.ignores.add(condition)
    failed = [check.name for check in clinic.examine() if check.verdict == "failed"]
    assert failed == [name]


def test_what_was_made_is_taken_away_again() -> None:
    clinic = Clinic()
    assert clinic.one("scratch").found == "5 versions and markers taken away again"
    assert clinic.aws.store.kept == []


def test_only_scratch_is_written_and_removed() -> None:
    clinic = Clinic()
    clinic.examine()
    changing = {"put_object", "delete_object", "delete_objects"}
    for service, method, given in clinic.aws.asked:
        if service == "s3" and method in changing:
            keys = [given["Key"]] if "Key" in given else [each["Key"] for each in given["Delete"]["Objects"]]
            assert given["Bucket"] == "evidence"
            assert given["ExpectedBucketOwner"] == "123456789012"
            assert all(key.startswith("doctor/") for key in keys)


def test_scratch_that_must_stay_is_told() -> None:
    clinic = Clinic()
    delete = clinic.aws.answers["s3", "delete_objects"]

    def locked(Delete: Mapping[str, Any], **given: Any) -> Mapping[str, Any]:
        if "VersionId" not in Delete["Objects"][0]:
            return delete(Delete=Delete, **given)
        refusal = {"Code": "AccessDenied", "Message": "Access Denied because object protected by object lock."}
        return {"Errors": [{**each, **refusal} for each in Delete["Objects"]]}

    clinic.aws.answers["s3", "delete_objects"] = locked
    check = clinic.one("scratch")
    assert check.verdict == "ok"
    assert "5 versions and markers of a few bytes stay under doctor/" in check.found


def test_without_the_right_to_delete_the_conditions_stay_unknown() -> None:
    clinic = Clinic()
    denial = {"Errors": [{"Key": "x", "Code": "AccessDenied", "Message": "no"}]}
    clinic.aws.say("s3", "delete_objects", denial)
    clinic.aws.refuse("s3", "delete_object", "AccessDenied")
    together, alone = clinic.one("delete_together"), clinic.one("delete_alone")

    assert {together.verdict, alone.verdict} == {"unknown"}
    assert "s3:DeleteObject" in together.to_do


# the buckets


def test_a_bucket_that_is_not_there() -> None:
    clinic = Clinic()
    clinic.aws.refuse("s3", "head_bucket", "404")
    found = clinic.examine()

    assert [check.verdict for check in found if check.name == "bucket_found"] == ["failed"]
    assert not [check for check in found if check.name == "scope"]


def test_a_bucket_of_another_account() -> None:
    clinic = Clinic()
    before = clinic.aws.answers["s3", "head_bucket"]

    def head(Bucket: str, ExpectedBucketOwner: str = "") -> Mapping[str, Any]:
        if ExpectedBucketOwner:
            raise error("403")
        return before()

    clinic.aws.answers["s3", "head_bucket"] = head
    check = clinic.one("bucket_found")
    assert check.verdict == "failed"
    assert "another account" in check.found


def test_a_bucket_that_its_policies_say_is_another_accounts() -> None:
    theirs = policy(source={"kind": "s3", "bucket": "logs", "account": "210987654321", "prefixes": ["app/"]})
    clinic = Clinic(theirs)
    before, asked = clinic.aws.answers["s3", "head_bucket"], []

    def head(Bucket: str, ExpectedBucketOwner: str = "") -> Mapping[str, Any]:
        asked.append(ExpectedBucketOwner)
        return before()

    clinic.aws.answers["s3", "head_bucket"] = head
    clinic.aws.change("s3", "get_bucket_request_payment", Payer="Requester")
    assert clinic.one("bucket_found").verdict == "ok"
    assert set(asked) == {"210987654321"}
    assert clinic.one("bucket_payer").verdict == "failed"


def test_a_bucket_of_another_region() -> None:
    clinic = Clinic()
    clinic.aws.change("s3", "head_bucket", BucketRegion="us-east-1")
    assert clinic.one("bucket_region").verdict == "warning"


@pytest.mark.parametrize(
    ("deployed", "state", "says"),
    [
        (DAILY, {"Status": "Suspended"}, "suspended versioning"),
        (policy(recovery="versioning"), {}, "has none"),
        (NONCURRENT, {}, "is not versioned"),
        (NONCURRENT, {"Status": "Enabled", "MFADelete": "Enabled"}, "MFA delete is on"),
    ],
)
def test_a_bucket_whose_versioning_does_not_fit_the_policy(deployed: Policy, state: dict[str, str], says: str) -> None:
    clinic = Clinic(deployed)
    before = clinic.aws.answers["s3", "get_bucket_versioning"]
    clinic.aws.answers["s3", "get_bucket_versioning"] = lambda Bucket, **_: before() if Bucket == "evidence" else state
    check = clinic.one("bucket_versioning")

    assert check.verdict == "failed"
    assert says in check.found


@pytest.mark.parametrize(
    ("deployed", "retention", "verdict"),
    [
        (NONCURRENT, {"Mode": "COMPLIANCE", "Days": 30}, "ok"),
        (NONCURRENT, {"Mode": "GOVERNANCE", "Days": 31}, "warning"),
        (NONCURRENT, {"Mode": "GOVERNANCE", "Years": 1}, "warning"),
        (NONCURRENT, {}, "ok"),
        (DAILY, {"Mode": "GOVERNANCE", "Years": 1}, "ok"),
    ],
)
def test_object_lock_against_retention(deployed: Policy, retention: dict[str, Any], verdict: str) -> None:
    clinic = Clinic(deployed)
    rule = {"Rule": {"DefaultRetention": retention}} if retention else {}
    clinic.aws.say("s3", "get_object_lock_configuration", {"ObjectLockConfiguration": rule})
    assert clinic.one("bucket_lock").verdict == verdict


@pytest.mark.parametrize(("decision", "verdict"), [("allowed", "ok"), ("implicitDeny", "warning")])
def test_a_customer_s_key_takes_a_grant(decision: str, verdict: str) -> None:
    clinic, key = Clinic(), arn("kms", "key/1")
    encrypt_with(clinic.aws, key)
    before = clinic.aws.answers["iam", "simulate_principal_policy"]

    def simulate(ResourceArns: list[str], ActionNames: list[str], **given: Any) -> Mapping[str, Any]:
        if ResourceArns == [key]:
            return {"EvaluationResults": [{"EvalActionName": "kms:Decrypt", "EvalDecision": decision}]}
        return before(ResourceArns=ResourceArns, ActionNames=ActionNames, **given)

    clinic.aws.answers["iam", "simulate_principal_policy"] = simulate
    check = clinic.one("bucket_encryption")
    assert check.verdict == verdict
    assert key in check.found


def test_a_customer_s_key_whose_grant_cannot_be_told() -> None:
    clinic, key = Clinic(), arn("kms", "key/1")
    encrypt_with(clinic.aws, key)
    clinic.aws.refuse("iam", "simulate_principal_policy", "AccessDenied")
    check = clinic.one("bucket_encryption")

    assert check.verdict == "unknown"
    assert f"source_kms_key_arns={key}" in check.to_do


def encrypt_with(aws: FakeAws, key: str) -> None:
    default = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}}
    aws.say("s3", "get_bucket_encryption", {"ServerSideEncryptionConfiguration": {"Rules": [default]}})


@pytest.mark.parametrize(
    ("statement", "verdict"),
    [
        ({"Effect": "Deny", "Action": "s3:*", "Condition": {"Bool": {"aws:SecureTransport": "false"}}}, "ok"),
        ({"Effect": "Deny", "Action": "s3:PutObject"}, "ok"),
        ({"Effect": "Allow", "Action": "s3:*"}, "ok"),
        ({"Effect": "Deny", "Action": ["s3:PutObject", "s3:Delete*"], "Sid": "Keep"}, "warning"),
        ({"Effect": "Deny", "NotAction": "s3:GetObject"}, "warning"),
    ],
)
def test_denials_of_a_bucket_s_policy(statement: dict[str, Any], verdict: str) -> None:
    clinic = Clinic()
    clinic.aws.say("s3", "get_bucket_policy", {"Policy": json.dumps({"Statement": [statement]})})
    check = clinic.one("bucket_policy")

    assert check.verdict == verdict
    assert verdict == "ok" or statement.get("Sid", "statement 1") in check.found


EXPIRE = {"Status": "Enabled", "ID": "r"}


@pytest.mark.parametrize(
    ("deployed", "rule", "found"),
    [
        (DAILY, {"Filter": {"Prefix": ""}, "Expiration": {"Days": 10}}, "after 10 days, sooner than"),
        (DAILY, {"Prefix": "app/x/", "Expiration": {"Days": 30}}, "after 30 days, beside the policy"),
        (DAILY, {"Filter": {"Prefix": "other/"}, "Expiration": {"Days": 10}}, "no Lifecycle rule"),
        (DAILY, {"Filter": {}, "Expiration": {"Days": 10}, "Status": "Disabled"}, "no Lifecycle rule"),
        (DAILY, {"Filter": {}, "Transitions": [{"Days": 1}]}, "no Lifecycle rule"),
        (DAILY, {"Filter": {"Tag": {"Key": "a"}}, "Expiration": {"Days": 40}}, "of what its tags or sizes select"),
        (
            DAILY,
            {"Filter": {"And": {"Prefix": "other/", "Tags": []}}, "Expiration": {"Days": 40}},
            "no Lifecycle rule",
        ),
        (DAILY, {"Filter": {}, "Expiration": {"Date": "2020-01-01"}}, "at a date"),
        (DAILY, {"Filter": {}, "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7}}, "no Lifecycle rule"),
        (UPLOADS, {"Filter": {}, "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7}}, "after 7 days"),
        (NONCURRENT, {"Filter": {}, "NoncurrentVersionExpiration": {"NoncurrentDays": 90}}, "after 90 days"),
        (
            policy(recovery="versioning"),
            {"Filter": {}, "NoncurrentVersionExpiration": {"NoncurrentDays": 14}},
            "can be taken back for 14 days",
        ),
    ],
)
def test_lifecycle_rules_beside_a_policy(deployed: Policy, rule: dict[str, Any], found: str) -> None:
    clinic = Clinic(deployed)
    clinic.aws.say("s3", "get_bucket_lifecycle_configuration", {"Rules": [{**EXPIRE, **rule}]})
    check = clinic.one("bucket_lifecycle")

    assert found in check.found
    assert check.verdict == ("ok" if "no Lifecycle" in found or "taken back" in found else "warning")


def test_an_empty_scope_is_named() -> None:
    clinic = Clinic()
    clinic.aws.say("s3", "list_objects_v2", {})
    check = clinic.one("scope")

    assert check.verdict == "warning"
    assert "s3://logs/app/" in check.found


# grants


def test_a_right_that_is_missing_is_named() -> None:
    clinic = Clinic()
    simulate = clinic.aws.answers["iam", "simulate_principal_policy"]

    def without_deleting(PolicySourceArn: str, **given: Any) -> Mapping[str, Any]:
        return simulate(PolicySourceArn=PolicySourceArn.replace("worker", "another"), **given)

    clinic.aws.answers["iam", "simulate_principal_policy"] = without_deleting
    check = next(check for check in clinic.all("grants") if check.of == "worker")
    assert check.verdict == "failed"
    assert check.found == "it may not s3:DeleteObject on arn:aws:s3:::logs/app/sexton-doctor"


def test_the_stack_s_own_key_is_among_the_rights() -> None:
    clinic, key = Clinic(), arn("kms", "key/1")
    table = clinic.aws.answers["dynamodb", "describe_table"]()["Table"]
    clinic.aws.say("dynamodb", "describe_table", {"Table": {**table, "SSEDescription": {"KMSMasterKeyArn": key}}})
    clinic.examine()

    asked = [given for _, method, given in clinic.aws.asked if method == "simulate_principal_policy"]
    services = {
        entry["ContextKeyValues"][0]
        for given in asked
        if given["ResourceArns"] == [key]
        for entry in given["ContextEntries"]
    }
    assert services == {f"{service}.eu-central-1.amazonaws.com" for service in ("s3", "dynamodb", "sqs")}


def test_a_right_that_is_too_much_is_named() -> None:
    clinic = Clinic()
    clinic.aws.answers["iam", "simulate_principal_policy"] = lambda ActionNames, **_: {
        "EvaluationResults": [{"EvalActionName": action, "EvalDecision": "allowed"} for action in ActionNames]
    }
    found = {check.of: check for check in clinic.all("excess")}

    assert {check.verdict for check in found.values()} == {"failed"}
    assert "s3:DeleteObject on arn:aws:s3:::" in found["discovery"].found
    assert "s3:PutObject on arn:aws:s3:::evidence/plans/sexton-doctor" in found["approve"].found


def test_a_simulation_that_heeds_no_condition_proves_nothing() -> None:
    clinic = Clinic()
    simulate = clinic.aws.answers["iam", "simulate_principal_policy"]

    def heedless(ActionNames: list[str], ContextEntries: list[object], **given: Any) -> Mapping[str, Any]:
        if ContextEntries and ActionNames == ["s3:ListBucket"]:
            return {"EvaluationResults": [{"EvalActionName": "s3:ListBucket", "EvalDecision": "implicitDeny"}]}
        return simulate(ActionNames=ActionNames, **given)

    clinic.aws.answers["iam", "simulate_principal_policy"] = heedless
    assert {check.verdict for check in clinic.all("grants") if check.of in FUNCTIONS} == {"failed"}
    clinic.aws.say("iam", "simulate_custom_policy", {"EvaluationResults": [{"EvalDecision": "implicitDeny"}]})
    assert {check.verdict for check in clinic.all("grants") if check.of in FUNCTIONS} == {"unknown"}


def test_what_is_allowed_whatever_the_condition_is_no_excess_where_none_is_heeded() -> None:
    clinic = Clinic()
    simulate = clinic.aws.answers["iam", "simulate_principal_policy"]

    def heedless(ActionNames: list[str], ContextEntries: list[object], **given: Any) -> Mapping[str, Any]:
        if ContextEntries and ActionNames == ["dynamodb:UpdateItem"]:
            return {"EvaluationResults": [{"EvalActionName": "dynamodb:UpdateItem", "EvalDecision": "allowed"}]}
        return simulate(ActionNames=ActionNames, ContextEntries=ContextEntries, **given)

    clinic.aws.answers["iam", "simulate_principal_policy"] = heedless
    assert {check.of: check.verdict for check in clinic.all("excess")}["approve"] == "failed"
    clinic.aws.say("iam", "simulate_custom_policy", {"EvaluationResults": [{"EvalDecision": "implicitDeny"}]})
    assert {check.of: check.verdict for check in clinic.all("excess")}["approve"] == "unknown"


def test_a_denial_leaves_what_a_simulation_does_not_judge_unknown() -> None:
    clinic = Clinic()
    simulate = clinic.aws.answers["iam", "simulate_principal_policy"]

    def heedless(ActionNames: list[str], ContextEntries: list[object], **given: Any) -> Mapping[str, Any]:
        if ContextEntries or "s3:DeleteObject" in ActionNames:
            denied = [{"EvalActionName": action, "EvalDecision": "implicitDeny"} for action in ActionNames]
            return {"EvaluationResults": denied}
        return simulate(ActionNames=ActionNames, ContextEntries=ContextEntries, **given)

    clinic.aws.answers["iam", "simulate_principal_policy"] = heedless
    clinic.aws.say("iam", "simulate_custom_policy", {"EvaluationResults": [{"EvalDecision": "implicitDeny"}]})
    failed, unknown = [check for check in clinic.all("grants") if check.of == "worker"]

    assert (failed.verdict, unknown.verdict) == ("failed", "unknown")
    assert "s3:DeleteObject on arn:aws:s3:::logs/app/" in failed.found
    assert "ListBucket" not in failed.found
    assert "s3:ListBucket on arn:aws:s3:::logs" in unknown.found


# policies


def test_versions_of_the_folder_and_of_the_stack() -> None:
    clinic = Clinic()
    changed = policy(retain="P31D")
    another = policy(id="another")

    assert clinic.one("policy_version").verdict == "ok"
    assert clinic.one("policy_version", local=[DAILY]).found.endswith("as in the folder")
    assert changed.version[:12] in clinic.one("policy_version", local=[changed]).found
    found = {check.of: check for check in clinic.all("policy_version", local=[another])}
    assert {check.verdict for check in found.values()} == {"warning"}
    assert found["folder"].found == "not deployed, and not checked: another"
    assert "no such policy" in found["logs-expire"].found


def test_a_copy_that_was_altered() -> None:
    clinic = Clinic()
    key = f"policies/logs-expire/{DAILY.version}.json"
    clinic.world.evidence.files[key] = b"{}"

    failed = [check for check in clinic.all("policy_version") if check.verdict == "failed"]
    assert [check.found for check in failed] == [f"{key} is gone or altered"]


# tables


def test_a_table_without_recovery_is_told_where_a_policy_counts_on_a_backup() -> None:
    clinic = Clinic(RECORDS)
    off = {"PointInTimeRecoveryDescription": {"PointInTimeRecoveryStatus": "DISABLED"}}
    clinic.aws.say("dynamodb", "describe_continuous_backups", {"ContinuousBackupsDescription": off})
    assert clinic.one("table_recovery").verdict == "warning"
    assert "point-in-time recovery is off" in clinic.one("table_recovery").found
    without = Clinic(records_policy(**OURS, recovery="none"))
    without.aws.say("dynamodb", "describe_continuous_backups", {"ContinuousBackupsDescription": off})
    assert without.one("table_recovery").verdict == "ok"


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"index": "by-day"}, "there is no index by-day"),
        ({"filter": {"kind": "renewal"}}, "does not show kind"),
        ({"timestamp": {"attribute": "deadline", "format": "iso8601"}}, "is not sorted by deadline"),
    ],
)
def test_a_table_that_is_keyed_otherwise_is_told_before_a_run(changes: Mapping[str, Any], what: str) -> None:
    check = Clinic(records_policy(**OURS, **changes)).one("table_fit")
    assert check.verdict == "failed"
    assert what in check.found


def test_an_index_that_is_being_built_finds_too_little() -> None:
    clinic = Clinic(RECORDS)
    (index,) = REMINDERS["GlobalSecondaryIndexes"]
    described = {**REMINDERS, "GlobalSecondaryIndexes": [{**index, "IndexStatus": "CREATING"}]}
    clinic.aws.say("dynamodb", "describe_table", {"Table": described})
    assert clinic.one("table_fit").found == "index by-status is CREATING"


def test_a_table_that_is_not_there_is_all_that_is_said_of_it() -> None:
    clinic = Clinic(RECORDS)
    clinic.aws.refuse("dynamodb", "describe_table", "ResourceNotFoundException")
    assert [(check.name, check.verdict) for check in clinic.examine() if check.name.startswith("table_")] == [
        ("table_found", "failed")
    ]


def test_ttl_by_the_same_attribute_is_told() -> None:
    clinic = Clinic(RECORDS)
    expiry = {"TimeToLiveStatus": "ENABLED", "AttributeName": "deadline"}
    clinic.aws.say("dynamodb", "describe_time_to_live", {"TimeToLiveDescription": expiry})
    assert clinic.one("table_expiry").verdict == "warning"


@pytest.mark.parametrize(("deployed", "to_do"), [(RECORDS, "source_kms_key_arns"), (ABROAD, "policy check --grants")])
def test_a_table_with_a_key_that_the_functions_may_not_use(deployed: Policy, to_do: str) -> None:
    clinic, key = Clinic(deployed), arn("kms", "key/2")
    described = {"Table": {**REMINDERS, "SSEDescription": {"KMSMasterKeyArn": key}}}
    table, simulate = (
        clinic.aws.answers["dynamodb", "describe_table"],
        clinic.aws.answers["iam", "simulate_principal_policy"],
    )
    clinic.aws.answers["dynamodb", "describe_table"] = lambda TableName: (
        described if TableName == "reminders" else table(TableName=TableName)
    )

    def closed(ActionNames: list[str], ResourceArns: list[str], **given: Any) -> Mapping[str, Any]:
        if ResourceArns == [key]:
            return {
                "EvaluationResults": [{"EvalActionName": each, "EvalDecision": "implicitDeny"} for each in ActionNames]
            }
        return simulate(ActionNames=ActionNames, ResourceArns=ResourceArns, **given)

    clinic.aws.answers["iam", "simulate_principal_policy"] = closed
    check = clinic.one("table_encryption")
    assert check.verdict == "warning"
    assert to_do in check.to_do


def test_a_role_that_lets_only_the_functions_in_leaves_its_table_unknown() -> None:
    clinic = Clinic(ABROAD)
    clinic.aws.refuse("sts", "assume_role", "AccessDenied")
    found = [check for check in clinic.examine() if check.name.startswith("table_")]
    assert [(check.name, check.verdict) for check in found] == [("table_role", "unknown")]
    assert "sexton-discovery.*" in found[0].to_do


def test_a_role_is_asked_for_as_the_policy_says() -> None:
    clinic = Clinic(ABROAD)
    assert clinic.one("table_role").verdict == "ok"
    (asked,) = [given for _, method, given in clinic.aws.asked if method == "assume_role"]
    assert asked == {"RoleArn": ROLE, "RoleSessionName": "sexton-person", "ExternalId": "ours"}


def test_the_stacks_own_table_is_not_elsewhere() -> None:
    check = Clinic(records_policy(**OURS, region="eu-central-1")).one("table_found")
    assert (check.verdict, check.to_do) == ("failed", "write no source.region, and start a new run")


def test_policies_that_are_not_deployed_are_one_warning_and_are_not_checked() -> None:
    clinic = Clinic()
    examples = [policy(id=f"example-{n}", source={**SOURCE, "bucket": f"example-{n}"}) for n in range(7)]
    checks = clinic.examine([DAILY, *examples])

    assert [(check.of, check.verdict) for check in checks if check.verdict != "ok"] == [("folder", "warning")]
    (warning,) = [check for check in checks if check.of == "folder"]
    assert warning.found.endswith("example-3, example-4 and 2 more")
    assert not any("example" in str(given) for _, _, given in clinic.aws.asked)


def test_before_the_first_tick_no_policy_is_known_and_nothing_is_said_against_the_folder() -> None:
    world = World(policies={DAILY.id: DAILY})
    site, _ = healthy(world)
    checks = list(Doctor(site, [DAILY], (DAILY.id,)).checks())

    assert [(check.of, check.verdict) for check in checks if check.name == "policy_version"] == [("ledger", "unknown")]
    assert [check for check in checks if check.verdict == "failed"] == []
    assert not [check for check in checks if check.name == "bucket_found"]


def test_a_copy_that_cannot_be_read_is_replaced_by_the_same_version_of_the_folder_alone() -> None:
    clinic = Clinic()
    clinic.world.evidence.files.clear()

    assert clinic.all("bucket_found", local=[DAILY])
    assert not clinic.all("bucket_found", local=[policy(retain="P31D")])


def test_only_the_policies_asked_for_are_looked_at() -> None:
    clinic = Clinic()
    another = policy(id="another", source={**SOURCE, "bucket": "elsewhere"})
    clinic.world.policies[another.id] = another
    clinic.world.tick()
    checks = list(Doctor(clinic.site, [DAILY, another], ("another",)).checks())

    assert {check.of for check in checks if check.name.startswith("bucket_")} == {"elsewhere", "another"}
    with pytest.raises(UnknownPolicy, match="nobody"):
        list(Doctor(clinic.site, [DAILY], ("nobody",)).checks())


def test_a_stack_that_names_no_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    monkeypatch.setattr("sexton.aws.doctor.find", lambda *_: (arn("cloudformation", "stack/Sexton/1"), {}))
    session: Any = None
    with pytest.raises(StackNotFound, match="JobsQueueUrl"):
        find_site("Sexton", session, deployment(world, FakeFunctions(world)))


# the command


@pytest.mark.parametrize("failing", [False, True])
def test_the_command_ends_as_the_checks_did(
    failing: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clinic = Clinic()
    if failing:
        clinic.aws.refuse("s3", "head_bucket", "404")
    asked = []

    def examine(stack: str, policies: Sequence[str], folder: object) -> Diagnosis:
        asked.append((stack, tuple(policies), str(folder)))
        return Diagnosis.of(stack, clinic.world.clock(), clinic.examine())

    monkeypatch.setattr(cli, "examine", examine)
    assert cli.main(["doctor", "logs-expire", "--stack", "Sexton-beta", "--json"]) == int(failing)
    said = json.loads(capsys.readouterr().out)
    assert asked == [("Sexton-beta", ("logs-expire",), "policies")]
    assert said["counts"]["failed"] == int(failing)
    assert {"name", "of", "verdict", "found", "to_do"} == set(said["checks"][0])

    assert cli.main(["doctor", "--policies", "elsewhere"]) == int(failing)
    out = capsys.readouterr().out
    assert ("failed: bucket_found" in out) == failing
    assert out.splitlines()[-1].startswith("in all")


def test_the_parts_that_are_looked_at_are_the_stack_s() -> None:
    site = Clinic().site
    assert site.arns.ledger == arn("dynamodb", "table/ledger")
    assert site.arns.jobs == arn("sqs", "Sexton-jobs")
    assert site.arns.bucket("logs") == "arn:aws:s3:::logs"
