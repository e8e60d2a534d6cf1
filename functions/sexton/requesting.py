"""Asking for a run, as a person: discovery creates it and answers, then plans it while nobody waits."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict

from sexton.deployment import Deployment, FunctionFailed
from sexton.errors import Refused
from sexton.item import rfc3339


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


def request(deployment: Deployment, policy: str, at: datetime, mode: str | None, reissue: bool) -> RunStarted:
    """Start the run of a policy for a scheduled time. Raises NotStarted, FunctionFailed or CallFailed."""
    event: dict[str, object] = {
        "policy": policy,
        "scheduled_time": rfc3339(at.replace(microsecond=0)),
        "reissue": reissue,
        "plan": False,
        "started_by": deployment.caller(),
    }
    answer = deployment.functions.discover(event | ({"mode": mode} if mode else {}))
    error = answer.get("error")
    if isinstance(error, dict):
        raise NotStarted(str(error.get("code", "refused")), str(error.get("message", "discovery refused it")))
    if "run_id" not in answer:
        raise FunctionFailed("discovery gave an answer without a run")
    if answer.get("skipped"):
        raise NotStarted("another_run_open", f"run {answer['run_id']} of the policy is open; one runs at a time")
    started = RunStarted(run_id=str(answer["run_id"]), state=str(answer["state"]), created=bool(answer["created"]))
    deployment.functions.resume(started.run_id)
    return started
