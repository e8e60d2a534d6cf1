"""The functions, as others call them: waiting for an answer, or not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from sexton.aws.errors import calls
from sexton.deployment import FunctionFailed
from sexton.redact import redact

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient


class LambdaDiscovery:
    """Discovery. To resume is an asynchronous invocation: nobody waits for it, and asking twice does no harm.

    `waiting` is a client that waits long enough for an answer and never repeats a call.
    """

    def __init__(self, client: LambdaClient, waiting: LambdaClient, function: str) -> None:
        self._client = client
        self._waiting = waiting
        self._function = function

    def discover(self, event: Mapping[str, object]) -> Mapping[str, object]:
        """Hand it an event and wait for its answer."""
        answer = called(self._waiting, self._function, event)
        if not isinstance(answer, dict):
            raise FunctionFailed(f"{self._function} gave no answer that can be read")
        return answer

    def resume(self, run_id: str) -> None:
        """Ask for planning or dispatch of the run to go on."""
        with calls():
            self._client.invoke(
                FunctionName=self._function,
                InvocationType="Event",
                Payload=json.dumps({"resume": run_id}).encode("ascii"),
            )


def called(client: LambdaClient, function: str, event: Mapping[str, object]) -> object:
    """What a function answers to an event. Raises FunctionFailed when it broke off, or its answer is no JSON.

    `client` never repeats a call.
    """
    with calls(only_attempt=True):
        reply = client.invoke(FunctionName=function, Payload=json.dumps(event).encode("ascii"))
        payload = reply["Payload"].read()
    try:
        answer: object = json.loads(payload or b"null")
    except ValueError as error:
        raise FunctionFailed(f"{function} gave no answer that can be read") from error
    if reply.get("FunctionError"):
        raise FunctionFailed(f"{function}: {_error_of(answer)}")
    return answer


def _error_of(answer: object) -> str:
    fields = answer if isinstance(answer, dict) else {}
    return redact(f"{fields.get('errorType', 'Error')}: {fields.get('errorMessage', 'it gave no message')}")
