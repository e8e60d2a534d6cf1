"""The policies' schedules on EventBridge Scheduler, and what feeds the worker: both follow a pause."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from botocore.exceptions import ClientError

from sexton.aws.errors import calls, code_of

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_scheduler import EventBridgeSchedulerClient

State = Literal["ENABLED", "DISABLED"]


def schedule_name(policy: str) -> str:
    """The name of a policy's schedule in the stack's group."""
    return f"policy-{policy}"


class AwsSchedules:
    """The schedules of one group, and one event source mapping. All calls can be repeated."""

    def __init__(
        self, scheduler: EventBridgeSchedulerClient, functions: LambdaClient, group: str, mapping: str
    ) -> None:
        self._scheduler = scheduler
        self._functions = functions
        self._group = group
        self._mapping = mapping

    def disable(self, policy: str) -> bool:
        """Switch a policy's schedule off; False when it has none."""
        return self._switch(policy, "DISABLED")

    def enable(self, policy: str) -> bool:
        """Switch a policy's schedule on; False when it has none."""
        return self._switch(policy, "ENABLED")

    def stop_all(self) -> None:
        """Let the worker get no more messages."""
        self._feed(False)

    def start_all(self) -> None:
        """Let the worker get messages again."""
        self._feed(True)

    def _switch(self, policy: str, state: State) -> bool:
        """Give every field back with the new state: what UpdateSchedule does not get, it sets to a default."""
        named = {"GroupName": self._group, "Name": schedule_name(policy)}
        with calls():
            found = self._found(named)
            if found is not None and found["State"] != state:
                self._scheduler.update_schedule(**{**self._to_give_back(found), **named, "State": state})
        return found is not None

    def _found(self, named: dict[str, str]) -> dict[str, Any] | None:
        get: Any = self._scheduler.get_schedule  # its answer as a plain dict: it is given back, not looked into
        try:
            answer: dict[str, Any] = get(**named)
        except ClientError as error:
            if code_of(error) == "ResourceNotFoundException":
                return None
            raise
        return answer

    def _to_give_back(self, found: dict[str, Any]) -> dict[str, Any]:
        """What the service's model lets UpdateSchedule take, so that a field it gains is kept too."""
        taken = self._scheduler.meta.service_model.operation_model("UpdateSchedule").input_shape
        assert taken is not None, "UpdateSchedule takes something"
        return {name: value for name, value in found.items() if name in taken.members}

    def _feed(self, on: bool) -> None:
        with calls():
            self._functions.update_event_source_mapping(UUID=self._mapping, Enabled=on)
