"""The control functions as the command line calls them: a signed request to a Function URL, once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from boto3.session import Session
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import NoCredentialsError
from botocore.httpsession import URLLib3Session
from botocore.utils import get_environ_proxies

from sexton.aws.clients import CONNECT
from sexton.aws.errors import calls
from sexton.aws.function_url import ACTOR
from sexton.change_request import Door, door_of
from sexton.deployment import ChangeRefused, ChangeUnsure
from sexton.errors import CallFailed, Failure, ReasonClass
from sexton.redact import redact

SERVICE = "lambda"  # whose signature a Function URL takes
PATIENCE = 70  # seconds: the function's own time is 60
OF_AWS = (".amazonaws.com", ".amazonaws.com.cn", ".api.aws")
LOCAL_PATH = "/_aws/lambda-url/"  # where the emulator serves what on AWS is a host of its own


class SignedControl:
    """Asks for changes, each through its door. `endpoint` is where the SDK finds Lambda.

    Of an emulator it is where the doors are too; there nobody verifies signatures, and `actor` says who asks.
    """

    def __init__(self, session: Session, urls: Mapping[Door, str], endpoint: str, actor: Callable[[], str]) -> None:
        self._session = session
        self._urls = urls
        self._endpoint = endpoint
        self._actor = actor

    def change(self, change: str, fields: Mapping[str, object], reason: str) -> Mapping[str, object]:
        """Ask for one change and wait; what was answered, with `unverified` if nobody verified who asked.

        Raises ChangeRefused; ChangeUnsure when it may have been done; CallFailed when it was not.
        """
        url = self._urls[door_of(change)]
        if not url:
            raise ChangeRefused("no_control", "the stack has no control functions", "deploy this version of Sexton")
        asked = json.dumps({"change": change, **fields, "reason": reason}).encode("ascii")
        status, answer = self._posted(self._where(url), asked)
        return _result(change, status, answer)

    def _where(self, url: str) -> str:
        if self._on_aws():
            return url
        url_id = str(urlsplit(url).hostname).partition(".")[0]
        return f"{self._endpoint.rstrip('/')}{LOCAL_PATH}{url_id}/"

    def _on_aws(self) -> bool:
        return str(urlsplit(self._endpoint).hostname).endswith(OF_AWS)

    def _posted(self, url: str, body: bytes) -> tuple[int, bytes]:
        try:
            with calls(only_attempt=True):
                reply = self._http(url).send(self._signed(url, body).prepare())
                return reply.status_code, reply.content
        except CallFailed as failed:
            if failed.failure.unknown_effect:
                raise ChangeUnsure(f"no answer came ({failed})") from failed
            raise

    def _signed(self, url: str, body: bytes) -> AWSRequest:
        headers = {"content-type": "application/json"}
        if not self._on_aws():
            headers[ACTOR] = self._actor()
        request = AWSRequest("POST", url, headers=headers, data=body)
        credentials = self._session.get_credentials()
        if credentials is None:
            raise NoCredentialsError
        SigV4Auth(credentials.get_frozen_credentials(), SERVICE, self._session.region_name).add_auth(request)
        return request

    def _http(self, url: str) -> URLLib3Session:
        """A connection that repeats nothing, trusts what the SDK trusts, and goes through the same proxy."""
        trusted = self._session._session.get_config_variable("ca_bundle")
        timeout: Any = (CONNECT, PATIENCE)  # its stubs know one number only
        return URLLib3Session(verify=trusted or True, proxies=get_environ_proxies(url), timeout=timeout)


def _result(change: str, status: int, body: bytes) -> Mapping[str, object]:
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise ChangeUnsure(f"the control function answered {status}, and not in a form that can be read")
    if status == 200 and isinstance(answer.get("result"), dict):
        return answer
    error = answer.get("error")
    if not isinstance(error, dict):
        raise _of_lambda(change, status, answer)
    if status >= 500:
        raise ChangeUnsure(f"{error.get('code')}: {error.get('message')}")
    raise ChangeRefused(str(error.get("code")), str(error.get("message")), str(error.get("hint", "")))


def _of_lambda(change: str, status: int, answer: Mapping[str, object]) -> Exception:
    """What Lambda answered in the function's place: with 403 it was never called, with the others it may have been."""
    said = redact(str(answer.get("Message") or answer.get("message") or "nothing"))
    if status == 403:
        door = door_of(change)
        what = f"the {door}'s door is closed to you (lambda:InvokeFunctionUrl and lambda:InvokeFunction): {said}"
        return CallFailed(Failure(ReasonClass.PERMANENT, "AccessDenied", what))
    if status == 429:
        return CallFailed(Failure(ReasonClass.THROTTLED, "TooManyRequestsException", said))
    return ChangeUnsure(f"the control function broke off ({status}: {said})")
