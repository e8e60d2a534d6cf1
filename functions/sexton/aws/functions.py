"""The discovery function, as the reconciler and the command line call it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sexton.aws.errors import calls

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient


class LambdaDiscovery:
    """Asks by asynchronous invocation: nobody waits for the answer, and asking twice does no harm."""

    def __init__(self, client: LambdaClient, function: str) -> None:
        self._client = client
        self._function = function

    def resume(self, run_id: str) -> None:
        """Ask for planning or dispatch of the run to go on."""
        with calls():
            self._client.invoke(
                FunctionName=self._function,
                InvocationType="Event",
                Payload=json.dumps({"resume": run_id}).encode("ascii"),
            )
