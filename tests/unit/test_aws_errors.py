"""One table says what an error of AWS means; what is not in it is never absent and never success."""

from __future__ import annotations

import time
from email.utils import formatdate

import botocore.session
import pytest
from botocore import exceptions as botocore_errors
from botocore.exceptions import ClientError
from botocore.parsers import ResponseParserError
from sexton.aws.errors import _CODES_OF, CODES, SdkError, calls, failure, failure_of, kind_of
from sexton.errors import NEXT_ACTION, CallFailed, ReasonClass

# Every operation that Sexton calls.
OPERATIONS = {
    "s3": [
        "ListObjectsV2",
        "HeadObject",
        "DeleteObject",
        "DeleteObjects",
        "PutObject",
        "GetObject",
        "GetBucketVersioning",
    ],
    "dynamodb": ["GetItem", "UpdateItem", "TransactWriteItems", "Query"],
    "sqs": ["SendMessageBatch", "ChangeMessageVisibility"],
    "lambda": ["Invoke"],
    "events": ["PutEvents"],
}


def modelled() -> list[str]:
    """The codes that the services' own models name for these operations."""
    session = botocore.session.get_session()
    codes = set()
    for service, operations in OPERATIONS.items():
        model = session.get_service_model(service)
        for operation in operations:
            for shape in model.operation_model(operation).error_shapes:
                codes.add(shape.metadata.get("error", {}).get("code") or shape.name)
    return sorted(codes)


def answered(code: str, message: str = "", status: int = 400, retries: int = 0, **headers: str) -> ClientError:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    metadata = {"HTTPStatusCode": status, "RetryAttempts": retries, "HTTPHeaders": names}
    response: dict[str, object] = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": metadata}
    return ClientError(response, "DeleteObjects")  # type: ignore[arg-type]


@pytest.mark.parametrize("code", modelled())
def test_every_error_that_a_service_s_model_names_is_in_the_table(code: str) -> None:
    assert code in CODES


def test_no_code_has_two_meanings() -> None:
    listed = [code for codes in _CODES_OF.values() for code in codes.split()]
    assert len(listed) == len(set(listed))


def test_every_reason_class_says_what_comes_next() -> None:
    assert set(NEXT_ACTION) == set(ReasonClass)


@pytest.mark.parametrize(
    ("code", "reason_class", "unknown"),
    [
        ("SlowDown", ReasonClass.THROTTLED, False),
        ("503", ReasonClass.THROTTLED, False),
        ("429", ReasonClass.THROTTLED, False),
        ("ThrottlingException", ReasonClass.THROTTLED, False),
        ("ProvisionedThroughputExceededException", ReasonClass.THROTTLED, False),
        ("InternalError", ReasonClass.TRANSIENT, True),
        ("500", ReasonClass.TRANSIENT, True),
        ("502", ReasonClass.TRANSIENT, True),
        ("RequestTimeout", ReasonClass.TRANSIENT, True),
        ("TransactionConflictException", ReasonClass.TRANSIENT, False),
        ("TransactionInProgressException", ReasonClass.TRANSIENT, True),
        ("ConditionalRequestConflict", ReasonClass.TRANSIENT, False),
        ("ExpiredToken", ReasonClass.TRANSIENT, False),
        ("AccessDenied", ReasonClass.PERMANENT, False),
        ("AllAccessDisabled", ReasonClass.PERMANENT, False),
        ("InvalidAccessKeyId", ReasonClass.PERMANENT, False),
        ("NoSuchBucket", ReasonClass.PERMANENT, False),
        ("ValidationException", ReasonClass.PERMANENT, False),
        ("ResourceNotFoundException", ReasonClass.PERMANENT, False),
        ("NotImplemented", ReasonClass.PERMANENT, False),
        ("403", ReasonClass.PERMANENT, False),
        ("AWS.SimpleQueueService.NonExistentQueue", ReasonClass.PERMANENT, False),
        ("NoSuchKey", ReasonClass.GONE, False),
        ("404", ReasonClass.GONE, False),
        ("PreconditionFailed", ReasonClass.CHANGED, False),
        ("412", ReasonClass.CHANGED, False),
    ],
)
def test_what_a_code_means(code: str, reason_class: ReasonClass, unknown: bool) -> None:
    assert kind_of(code) == (reason_class, unknown)


@pytest.mark.parametrize("code", ["", "Unknown", "SomethingNew", "accessdenied", "NoSuchKey ", "200", "204"])
def test_an_unmapped_code_is_transient_and_its_effect_unknown(code: str) -> None:
    assert kind_of(code) == (ReasonClass.TRANSIENT, True)


@pytest.mark.parametrize(
    "message",
    [
        "Access Denied because object protected by object lock.",
        "Access Denied because object protected by object lock retention.",
        "Object is under Legal Hold",
    ],
)
def test_a_lock_is_told_apart_from_a_missing_permission(message: str) -> None:
    assert failure("AccessDenied", message).reason_class is ReasonClass.LOCKED
    assert failure("AccessDenied", "Access Denied").reason_class is ReasonClass.PERMANENT
    assert failure("InternalError", message).reason_class is ReasonClass.TRANSIENT
    assert failure_of(answered("AccessDenied", message, 403)).reason_class is ReasonClass.LOCKED


def test_a_failure_is_redacted_and_short() -> None:
    url = "https://b.s3.amazonaws.com/k?X-Amz-Credential=AKIAIOSFODNN7EXAMPLE&X-Amz-Signature=abc"
    found = failure_of(answered("AccessDenied", f"no {url} " + "x" * 1000))
    assert len(found.summary) <= 300
    assert "AKIA" not in found.summary
    assert "X-Amz" not in found.summary


def test_a_retried_call_may_have_acted_before_its_last_answer() -> None:
    assert failure_of(answered("SlowDown")).unknown_effect is False
    assert failure_of(answered("SlowDown", retries=2)).unknown_effect is True


def test_a_wait_that_the_service_asks_for_is_passed_on() -> None:
    assert failure_of(answered("SlowDown", retry_after="12")).retry_after == 12
    assert failure_of(answered("SlowDown", retry_after="1.5")).retry_after == 1.5
    assert failure_of(answered("SlowDown")).retry_after is None
    assert failure_of(answered("SlowDown", retry_after="soon")).retry_after is None
    assert failure_of(answered("SlowDown", retry_after="-5")).retry_after is None
    no_day = "Mon, 99999999999999999999 Jan 2026 01:02:00 GMT"
    assert failure_of(answered("SlowDown", retry_after=no_day)).retry_after is None
    later = failure_of(answered("SlowDown", retry_after=formatdate(time.time() + 60, usegmt=True))).retry_after
    assert later is not None
    assert 50 < later <= 60
    assert failure_of(answered("SlowDown", retry_after="Thu, 01 Jan 1970 00:00:00 GMT")).retry_after == 0


@pytest.mark.parametrize(
    ("error", "reason_class", "unknown_alone"),
    [
        (botocore_errors.EndpointConnectionError(endpoint_url="https://s3"), ReasonClass.TRANSIENT, False),
        (botocore_errors.ConnectTimeoutError(endpoint_url="https://s3"), ReasonClass.TRANSIENT, False),
        (botocore_errors.SSLError(endpoint_url="https://s3", error=OSError("x")), ReasonClass.TRANSIENT, False),
        (botocore_errors.ReadTimeoutError(endpoint_url="https://s3"), ReasonClass.TRANSIENT, True),
        (botocore_errors.ConnectionClosedError(endpoint_url="https://s3"), ReasonClass.TRANSIENT, True),
        (botocore_errors.HTTPClientError(error="reset"), ReasonClass.TRANSIENT, True),
        (botocore_errors.ResponseStreamingError(error="cut"), ReasonClass.TRANSIENT, True),
        (ResponseParserError("not XML: <html>"), ReasonClass.TRANSIENT, True),
        (botocore_errors.NoCredentialsError(), ReasonClass.PERMANENT, False),
        (botocore_errors.NoRegionError(), ReasonClass.PERMANENT, False),
        (botocore_errors.ParamValidationError(report="bad"), ReasonClass.PERMANENT, False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_errors_of_the_sdk(error: SdkError, reason_class: ReasonClass, unknown_alone: bool) -> None:
    alone = failure_of(error, only_attempt=True)
    assert (alone.reason_class, alone.unknown_effect) == (reason_class, unknown_alone)
    assert alone.code == type(error).__name__
    retried = failure_of(error)
    assert retried.unknown_effect is (reason_class is ReasonClass.TRANSIENT)


def test_what_botocore_raises_becomes_a_failed_call_with_its_cause() -> None:
    cause = answered("NoSuchBucket", "gone", 404)
    with pytest.raises(CallFailed, match="NoSuchBucket: gone") as caught, calls():
        raise cause
    assert caught.value.__cause__ is cause


def test_what_is_no_error_of_aws_passes() -> None:
    with pytest.raises(KeyError), calls():
        raise KeyError("ours")
