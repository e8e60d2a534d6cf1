"""Roles of other accounts: assumed with the first call, and again before their credentials run out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from boto3.session import Session
from botocore.exceptions import ClientError
from sexton.aws.assumed import session_elsewhere
from sexton.elsewhere import Elsewhere

THERE = Elsewhere("eu-west-1", "arn:aws:iam::210987654321:role/sexton-reminders", "our-stage")
OWN = Session("own", "secret", region_name="eu-central-1")


class Sts:
    """Gives credentials that are good for so long, each under a number of its own."""

    def __init__(self, *lasting: timedelta) -> None:
        self.lasting = list(lasting)
        self.asked: list[dict[str, Any]] = []

    def assume_role(self, **asked: Any) -> Any:
        self.asked.append(asked)
        if not self.lasting:
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "not you"}}, "AssumeRole")
        ends = datetime.now(UTC) + self.lasting.pop(0)
        key = f"key-{len(self.asked)}"
        return {"Credentials": {"AccessKeyId": key, "SecretAccessKey": "s", "SessionToken": "t", "Expiration": ends}}


def session(sts: Sts, place: Elsewhere = THERE) -> Session:
    return session_elsewhere(place, "sexton-worker.run", OWN, lambda: sts)  # type: ignore[arg-type,return-value]


def key(found: Session) -> str:
    credentials = found.get_credentials()
    assert credentials is not None
    return str(credentials.get_frozen_credentials().access_key)


def test_nothing_is_asked_before_it_is_needed_and_then_once() -> None:
    sts = Sts(timedelta(hours=1))
    found = session(sts)
    assert sts.asked == []
    assert [key(found), key(found)] == ["key-1", "key-1"]
    assert sts.asked == [{"RoleArn": THERE.role_arn, "RoleSessionName": "sexton-worker.run", "ExternalId": "our-stage"}]
    assert found.region_name == "eu-west-1"


def test_a_role_without_an_external_id_is_asked_for_without() -> None:
    sts = Sts(timedelta(hours=1))
    key(session(sts, Elsewhere("eu-west-1", THERE.role_arn)))
    assert "ExternalId" not in sts.asked[0]


def test_credentials_are_renewed_while_they_are_still_good() -> None:
    found = session(Sts(timedelta(minutes=14), timedelta(hours=1)))
    assert [key(found), key(found), key(found)] == ["key-1", "key-2", "key-2"]


def test_a_renewal_that_is_refused_lets_them_be_used_to_their_end() -> None:
    found = session(Sts(timedelta(minutes=14)))
    assert [key(found), key(found)] == ["key-1", "key-1"]


def test_close_to_the_end_a_refusal_is_one() -> None:
    found = session(Sts(timedelta(minutes=5)))
    key(found)
    with pytest.raises(ClientError, match="not you"):
        key(found)


def test_another_region_of_the_own_account_takes_the_own_credentials() -> None:
    sts = Sts()
    found = session(sts, Elsewhere("us-east-1"))
    assert (key(found), found.region_name, sts.asked) == ("own", "us-east-1", [])
