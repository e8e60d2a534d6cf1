"""Asking for a run, as a person: discovery creates it and answers, then plans it while nobody waits."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from sexton.deployment import FunctionFailed
from sexton.errors import Refused
from sexton.ports import Discovery
from sexton.run import RunState


class NotStarted(Refused):
    """Discovery refused the request; `code` is discovery's."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class RunStarted(BaseModel):
    """The run that was asked for. Not `created`: it was there already, and was only asked to go on."""

    model_config = ConfigDict(frozen=True)

    run_id: str
    state: str
    created: bool


def request(discovery: Discovery, trigger: Mapping[str, object]) -> RunStarted:
    """Start the run of a trigger; what is in it, discovery judges. Raises NotStarted, FunctionFailed or CallFailed.

    A run that is there already is asked to go on, which one that was invalidated never will.
    """
    answer = discovery.discover({**trigger, "plan": False})
    error = answer.get("error")
    if isinstance(error, dict):
        raise NotStarted(str(error.get("code", "refused")), str(error.get("message", "discovery refused it")))
    if "run_id" not in answer:
        raise FunctionFailed("discovery gave an answer without a run")
    if answer.get("skipped"):
        raise NotStarted("another_run_open", f"run {answer['run_id']} of the policy is open; one runs at a time")
    started = RunStarted(run_id=str(answer["run_id"]), state=str(answer["state"]), created=bool(answer["created"]))
    if started.state == RunState.INVALIDATED:
        raise NotStarted("already_invalidated", f"{started.run_id} is there already, and was invalidated")
    discovery.resume(started.run_id)
    return started
