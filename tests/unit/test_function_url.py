"""What a Function URL hands over and takes back."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from sexton.aws.function_url import answered, body_of, caller_of
from sexton.controlling import Answer, Caller

ADA = "arn:aws:sts::123456789012:assumed-role/Operators/ada"
SIGNED = {"requestContext": {"authorizer": {"iam": {"userArn": ADA, "accountId": "123456789012"}}}}


@pytest.mark.parametrize("trusting", [True, False])
def test_who_signed_is_the_caller_whoever_else_is_named(trusting: bool) -> None:
    event = {**SIGNED, "headers": {"x-sexton-actor": "somebody else"}}
    assert caller_of(event, trusting=trusting) == Caller(ADA, verified=True)


def test_who_is_only_named_is_believed_where_that_is_said_and_nowhere_else() -> None:
    named = {"requestContext": {"http": {"method": "POST"}}, "headers": {"x-sexton-actor": f" {ADA} "}}
    assert caller_of(named, trusting=False) is None
    assert caller_of(named, trusting=True) == Caller(ADA, verified=False)


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"headers": None},
        {"headers": {"x-sexton-actor": " "}},
        {"headers": {"x-sexton-actor": "\u200b\u202e"}},
        {"requestContext": None},
        {"requestContext": {"authorizer": None}},
        {"requestContext": {"authorizer": {"iam": None}}},
        {"requestContext": {"authorizer": {"iam": {"userArn": None}}}},
        {"requestContext": {"authorizer": {"jwt": {"claims": {"sub": ADA}}}}},
    ],
)
def test_nobody_is_nobody(event: dict[str, Any]) -> None:
    assert caller_of(event, trusting=True) is None


def test_a_body_in_base64_is_the_same_body() -> None:
    body = '{"reason": "größer"}'
    coded = base64.b64encode(body.encode()).decode()
    assert body_of({"body": body}) == body_of({"body": coded, "isBase64Encoded": True}) == body.encode()


@pytest.mark.parametrize("event", [{}, {"body": None}, {"body": "", "isBase64Encoded": True}])
def test_no_body_is_an_empty_one(event: dict[str, Any]) -> None:
    assert body_of(event) == b""


def test_a_body_that_cannot_be_decoded_is_handed_on_to_be_refused() -> None:
    assert body_of({"body": "%%%", "isBase64Encoded": True}) == b"%%%"
    assert body_of({"body": "größer", "isBase64Encoded": True}) == "größer".encode()
    assert body_of({"body": "\ud800"})


def test_an_answer_is_json_that_nobody_keeps() -> None:
    made = answered(Answer(409, {"error": {"code": "paused"}}))
    assert (made["statusCode"], json.loads(str(made["body"]))) == (409, {"error": {"code": "paused"}})
    assert made["headers"] == {"content-type": "application/json", "cache-control": "no-store"}
