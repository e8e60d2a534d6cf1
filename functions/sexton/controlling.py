"""Control: one request of a known person, one change, one answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, assert_never

from pydantic import BaseModel, ConfigDict

from sexton.approving import Approving
from sexton.change_request import (
    ChangeRequest,
    DlqRedrive,
    DlqRedriveCancel,
    DlqReplay,
    DlqResolve,
    DlqSweep,
    Door,
    HoldAdd,
    HoldRelease,
    PauseScope,
    ResumeScope,
    RunApprove,
    RunHalt,
    RunInvalidate,
    RunResume,
    RunStart,
    RunUndo,
    door_of,
    read_request,
)
from sexton.errors import CallFailed, EvidenceAltered, LeaseLost, Refused, SextonError
from sexton.item import rfc3339
from sexton.pausing import Pausing
from sexton.ports import Clock, Discovery, Log, Token
from sexton.redact import redact
from sexton.redriving import Redriving
from sexton.replaying import Replaying
from sexton.requesting import request
from sexton.stopping import Stopping
from sexton.strays import Straying
from sexton.undoing import Undoing

LONGEST_BODY = 64 * 1024  # bytes; the largest request, of fifty jobs, has some 10,000
LONGEST_TOLD = 1000  # characters of a message


class Caller(NamedTuple):
    """Who asks. Not `verified`: nobody but they themselves says so, which only the local stage takes."""

    actor: str
    verified: bool


class WrongDoor(Refused):
    """The change goes through the other function."""

    code = "wrong_door"


class NoIdentity(Refused):
    """Nobody says who asks."""

    code = "no_identity"


class TooLarge(Refused):
    """The request is longer than any that could be meant."""

    code = "bad_request"


class JobRefused(BaseModel):
    """A job of a request that was not changed, or not known to be."""

    model_config = ConfigDict(frozen=True)

    job_id: str
    code: str
    message: str


class JobsChanged(BaseModel):
    """What became of each job of a request. `not_tried`: a call failed before their turn came."""

    model_config = ConfigDict(frozen=True)

    done: tuple[str, ...]
    refused: tuple[JobRefused, ...]
    not_tried: tuple[str, ...]

    def plus(self, other: JobsChanged) -> JobsChanged:
        """Both together."""
        return JobsChanged(
            done=self.done + other.done,
            refused=self.refused + other.refused,
            not_tried=self.not_tried + other.not_tried,
        )


class Answer(NamedTuple):
    """An HTTP status, and what the body holds."""

    status: int
    body: Mapping[str, object]


_STATUS = {
    "bad_request": 400,
    "bad_event": 400,
    "bad_run_id": 400,
    "bad_job_id": 400,
    "bad_scope": 400,
    "no_identity": 403,
    "wrong_door": 403,
    "unknown_policy": 404,
    "unknown_run": 404,
    "unknown_job": 404,
}
NOT_ALLOWED_NOW = 409
NOTHING_CHANGED = 424  # what it stands on failed before anything was asked to change
BROKE_OFF = 502  # what it stands on failed, and how far the change came is not known

_HINTS = {
    400: "`sexton --help` shows what can be asked for",
    403: "SextonOperator and SextonApprover name the doors: docs/access.md",
    404: "`sexton run list` and `sexton dlq list` show what there is",
    409: "`sexton status` says where things stand",
    424: "nothing was changed: see to what the message names, and ask again",
    502: "look before you ask again: `sexton status`",
}


@dataclass(frozen=True)
class Controlling:
    """The changes that go through one door.

    `changes_sent` counts the requests that may have changed something: where it stands still, nothing was changed.
    """

    door: Door
    discovery: Discovery
    stopping: Stopping
    pausing: Pausing
    approving: Approving
    replaying: Replaying
    undoing: Undoing
    straying: Straying
    redriving: Redriving
    clock: Clock
    token: Token
    log: Log
    changes_sent: Callable[[], int]

    def answer(self, caller: Caller | None, body: bytes) -> Answer:
        """Carry out a request. What is refused, or fails on the way, is answered with its code; mistakes are raised."""
        before = self.changes_sent()
        try:
            if caller is None:
                raise NoIdentity("the request names nobody: it must be signed by an identity of IAM")
            return Answer(200, _marked(caller, {"result": self._carry_out(caller, body)}))
        except Refused as refused:
            self.log("change_refused", actor=caller and caller.actor, code=refused.code, error=_told(refused))
            return _error(caller, _STATUS.get(refused.code, NOT_ALLOWED_NOW), refused.code, _told(refused))
        except SextonError as error:
            self.log("change_broke_off", actor=caller and caller.actor, error=_told(error))
            status = BROKE_OFF if self.changes_sent() != before else NOTHING_CHANGED
            return _error(caller, status, _code(error), _told(error))

    def _carry_out(self, caller: Caller, body: bytes) -> Mapping[str, object]:
        if len(body) > LONGEST_BODY:
            raise TooLarge(f"a request has at most {LONGEST_BODY} bytes")
        asked = read_request(body)
        due = door_of(asked.change)
        if due is not self.door:
            raise WrongDoor(f"{asked.change} goes through the {due}'s door, and this is the {self.door}'s")
        result = self._change(asked, caller.actor)
        self.log("changed", change=asked.change, actor=caller.actor, verified=caller.verified, reason=asked.reason)
        return result.model_dump(mode="json")

    def _change(self, asked: ChangeRequest, actor: str) -> BaseModel:
        stopping, why = self.stopping, (asked.reason, actor)
        match asked:
            case RunStart():
                return request(self.discovery, self._trigger(asked, actor))
            case RunHalt():
                return stopping.halt(asked.run_id, *why)
            case RunResume():
                return stopping.resume_run(asked.run_id, *why)
            case RunInvalidate():
                return stopping.invalidate(asked.run_id, *why)
            case PauseScope():
                return self.pausing.pause(asked.scope, *why)
            case ResumeScope():
                return self.pausing.resume(asked.scope, *why)
            case HoldAdd():
                return stopping.hold(asked.scope, *why)
            case HoldRelease():
                return stopping.release(asked.scope, *why)
            case RunApprove():
                return self.approving.approve(asked.run_id, asked.digest, *why)
            case RunUndo():
                return self.undoing.undo(asked.run_id, *why)
            case DlqReplay() | DlqResolve():
                return self._each(asked, actor)
            case DlqSweep():
                return self.straying.sweep(asked.limit)
            case DlqRedrive():
                return self.redriving.start(asked.max_rate)
            case DlqRedriveCancel():
                return self.redriving.cancel()
        assert_never(asked)

    def _each(self, asked: DlqReplay | DlqResolve, actor: str) -> JobsChanged:
        """Each job by itself: one that is refused stands in nobody's way. A call that fails ends it."""
        change = self.replaying.replay if isinstance(asked, DlqReplay) else self.replaying.resolve
        jobs, with_one, done, refused = list(dict.fromkeys(asked.jobs)), self.token(), list[str](), list[JobRefused]()
        for job_id in jobs:
            before = self.changes_sent()
            try:
                change(job_id, asked.reason, actor, with_one)
                done.append(job_id)
            except Refused as error:
                refused.append(JobRefused(job_id=job_id, code=error.code, message=_told(error)))
            except SextonError as error:
                self.log("change_broke_off", change=asked.change, actor=actor, error=_told(error))
                how = "not known to be done" if self.changes_sent() != before else "not done"
                told = f"{how}: {_told(error)}"
                refused.append(JobRefused(job_id=job_id, code=_code(error), message=told))
                break
        seen = {*done, *(each.job_id for each in refused)}
        return JobsChanged(
            done=tuple(done), refused=tuple(refused), not_tried=tuple(each for each in jobs if each not in seen)
        )

    def _trigger(self, asked: RunStart, actor: str) -> Mapping[str, object]:
        given = asked.model_dump(include={"policy", "mode", "reissue"}, exclude_none=True)
        at = asked.scheduled_time or rfc3339(self.clock().replace(microsecond=0))
        return {**given, "scheduled_time": at, "started_by": actor, "reason": asked.reason}


def _marked(caller: Caller | None, body: Mapping[str, object]) -> Mapping[str, object]:
    """Every answer to a caller whom nobody verified says so."""
    return body if caller is None or caller.verified else {**body, "unverified": True}


def _error(caller: Caller | None, status: int, code: str, message: str) -> Answer:
    return Answer(status, _marked(caller, {"error": {"code": code, "message": message, "hint": _HINTS[status]}}))


def _told(error: SextonError) -> str:
    """What an error says; it may quote what was asked for, which may hold anything."""
    return redact(str(error), LONGEST_TOLD)


def _code(error: SextonError) -> str:
    if isinstance(error, CallFailed):
        return "call_failed"
    if isinstance(error, LeaseLost):
        return "moved"
    return "evidence_altered" if isinstance(error, EvidenceAltered) else "function_failed"
