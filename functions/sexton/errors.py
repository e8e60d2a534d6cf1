"""What can end a call early, and what the caller must do.

SextonError
├── Refused            the request is wrong or not allowed now: tell the person, change nothing
│   ├── UnknownPolicy
│   ├── UnknownRun
│   ├── UnknownJob
│   ├── BadRunId
│   ├── BadJobId
│   ├── BadEvent       an event that is not one of ours
│   ├── NotAllowed     a rule forbids it as things stand; its code names the rule
│   └── SourceRefused  the source cannot be planned as the policy says: the run is invalidated
├── EvidenceAltered    what was read is not what was written: stop, nothing may be removed on its word
├── LeaseLost          somebody else holds the right to go on: stop at once, write nothing
└── CallFailed         an AWS call failed as a whole: retry, release or give up, as its failure says
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ReasonClass(StrEnum):
    """What kind of trouble a failure is; it decides what happens next."""

    TRANSIENT = "transient"
    THROTTLED = "throttled"
    PERMANENT = "permanent"
    GONE = "gone"
    CHANGED = "changed"
    LOCKED = "locked"


NEXT_ACTION = {
    ReasonClass.TRANSIENT: "it is tried again by itself; if it dies, see to the service, then replay it",
    ReasonClass.THROTTLED: "it is tried again by itself, later; if this lasts, lower the policy's pace",
    ReasonClass.PERMANENT: ("mend what the code names (a permission, bucket, policy, application), then replay it"),
    ReasonClass.GONE: "nothing to do: the item is no longer there",
    ReasonClass.CHANGED: "nothing to do: the item is newer than the plan",
    ReasonClass.LOCKED: "nothing to do now: the lock ends by itself or by whoever placed it",
}

EFFECT_UNKNOWN = "effect_unknown"  # the code of what may have been done, and nobody can tell
FIND_OUT = "find out whether it was done: resolve it where it was, replay it where it was not"


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure, of a call or of one key in it.

    `code` is the service's stable code, `summary` short and redacted. `unknown_effect` says that the effect
    may have happened all the same (a lost reply, a server error).
    """

    reason_class: ReasonClass
    code: str
    summary: str
    unknown_effect: bool = False
    retry_after: float | None = None

    @property
    def next_action(self) -> str:
        """What a person does about it, or what happens by itself."""
        return FIND_OUT if self.code == EFFECT_UNKNOWN else NEXT_ACTION[self.reason_class]

    @property
    def may_pass(self) -> bool:
        """Whether the same call may go through a moment later."""
        return self.reason_class in (ReasonClass.TRANSIENT, ReasonClass.THROTTLED)


class SextonError(Exception):
    """Everything Sexton raises on purpose."""


class Refused(SextonError):
    """The request is wrong or not allowed now. `code` is stable; the text says what to do."""

    code = "refused"


class UnknownPolicy(Refused):
    """No deployed policy has this id."""

    code = "unknown_policy"


class UnknownRun(Refused):
    """The ledger holds no such run."""

    code = "unknown_run"


class UnknownJob(Refused):
    """The ledger holds no such job."""

    code = "unknown_job"


class BadRunId(Refused):
    """The text is no run id."""

    code = "bad_run_id"


class BadJobId(Refused):
    """The text is no job id."""

    code = "bad_job_id"


class NotAllowed(Refused):
    """As things stand a rule forbids it; `code` names the rule."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class BadEvent(Refused):
    """The event is none that Sexton understands."""

    code = "bad_event"


class SourceRefused(Refused):
    """The source cannot be planned as the policy says; `reason` becomes the run's reason."""

    code = "source_refused"

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class EvidenceAltered(SextonError):
    """What was read from evidence is not what was written."""


class LeaseLost(SextonError):
    """Another planner or worker holds the lease now."""


class CallFailed(SextonError):
    """An AWS call failed as a whole."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"{failure.code}: {failure.summary}")
        self.failure = failure
