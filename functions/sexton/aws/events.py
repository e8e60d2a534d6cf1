"""The event bus on EventBridge."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from sexton.aws.errors import calls, failure
from sexton.errors import CallFailed

if TYPE_CHECKING:
    from mypy_boto3_events import EventBridgeClient

SOURCE = "sexton"


class EventBridgeEvents:
    """Events of source `sexton` on one bus."""

    def __init__(self, client: EventBridgeClient, bus: str) -> None:
        self._client = client
        self._bus = bus

    def put(self, kind: str, detail: Mapping[str, object]) -> None:
        """Publish one event (at least once): `kind` is its detail type."""
        with calls():
            answer = self._client.put_events(
                Entries=[
                    {
                        "EventBusName": self._bus,
                        "Source": SOURCE,
                        "DetailType": kind,
                        "Detail": json.dumps(detail),
                    }
                ]
            )
        if answer["FailedEntryCount"]:
            failed = answer["Entries"][0]
            raise CallFailed(failure(failed.get("ErrorCode", "Unknown"), failed.get("ErrorMessage", "")))
