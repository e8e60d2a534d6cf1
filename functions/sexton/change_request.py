"""What a person can ask of the control functions: one request, one change, always with a reason."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from sexton.errors import Refused
from sexton.redact import redact
from sexton.run import Mode

MOST_JOBS = 50  # of one request: each takes a few calls to the ledger, and a person waits for the answer
MOST_SWEPT = 100  # messages that one request looks at
LONGEST_REASON = 500
FASTEST_REDRIVE = 500  # messages a second: SQS's own bound

# No id is changed by redaction; what is none is repeated in answers, and must not bring along what it holds.
Text = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(redact)]


def fit_to_keep(reason: str) -> str:
    """The reason as it is kept, for years, and shown to many. Invisible characters alone are none.

    Raises ValueError with what to do about it.
    """
    if len(reason) > LONGEST_REASON:
        raise ValueError(f"it has {len(reason):,} characters; {LONGEST_REASON} are the most")
    kept = redact(reason, LONGEST_REASON)
    if not kept:
        raise ValueError("say why")
    return kept


Reason = Annotated[str, StringConstraints(strip_whitespace=True), AfterValidator(fit_to_keep)]
Address = Annotated[str, StringConstraints(min_length=1, max_length=1200)]  # a bucket, and a key of 1,024 bytes
Jobs = Annotated[list[Text], Field(min_length=1, max_length=MOST_JOBS)]


class Door(StrEnum):
    """Which of the two control functions a change goes through: who may approve need not be who operates."""

    OPERATOR = "operator"
    APPROVER = "approver"


class BadRequest(Refused):
    """The request is no change that this version knows."""

    code = "bad_request"


class _Asked(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    reason: Reason


class RunStart(_Asked):
    """Start a run; `scheduled_time` is judged by discovery, and is now if left out."""

    change: Literal["run_start"]
    policy: Text
    scheduled_time: Text | None = None
    mode: Mode | None = None
    reissue: bool = False


class RunApprove(_Asked):
    """Let the plan with this digest be carried out."""

    change: Literal["run_approve"]
    run_id: Text
    digest: Text


class RunHalt(_Asked):
    """Stop a run."""

    change: Literal["run_halt"]
    run_id: Text


class RunResume(_Asked):
    """Go on with a halted run."""

    change: Literal["run_resume"]
    run_id: Text


class RunInvalidate(_Asked):
    """End a run for good."""

    change: Literal["run_invalidate"]
    run_id: Text


class RunUndo(_Asked):
    """Take back what a run did."""

    change: Literal["run_undo"]
    run_id: Text


class PauseScope(_Asked):
    """Pause a policy, or all."""

    change: Literal["pause"]
    scope: Text


class ResumeScope(_Asked):
    """End a pause."""

    change: Literal["resume"]
    scope: Text


class HoldAdd(_Asked):
    """Keep what stands under an address."""

    change: Literal["hold_add"]
    scope: Address


class HoldRelease(_Asked):
    """End a hold."""

    change: Literal["hold_release"]
    scope: Address


class DlqReplay(_Asked):
    """Try dead jobs again."""

    change: Literal["dlq_replay"]
    jobs: Jobs


class DlqResolve(_Asked):
    """Close dead jobs without trying again."""

    change: Literal["dlq_resolve"]
    jobs: Jobs


class DlqSweep(_Asked):
    """Remove strays from the dead-letter queue."""

    change: Literal["dlq_sweep"]
    limit: int = Field(default=MOST_SWEPT, ge=1, le=MOST_SWEPT)


class DlqRedrive(_Asked):
    """Let SQS move the dead-letter queue's messages back to the jobs queue."""

    change: Literal["dlq_redrive"]
    max_rate: int | None = Field(default=None, ge=1, le=FASTEST_REDRIVE)


class DlqRedriveCancel(_Asked):
    """Stop that."""

    change: Literal["dlq_redrive_cancel"]


ChangeRequest = (
    RunStart
    | RunApprove
    | RunHalt
    | RunResume
    | RunInvalidate
    | RunUndo
    | PauseScope
    | ResumeScope
    | HoldAdd
    | HoldRelease
    | DlqReplay
    | DlqResolve
    | DlqSweep
    | DlqRedrive
    | DlqRedriveCancel
)
_ADAPTER: TypeAdapter[ChangeRequest] = TypeAdapter(Annotated[ChangeRequest, Field(discriminator="change")])


def _name(model: type[BaseModel]) -> str:
    return str(get_args(model.model_fields["change"].annotation)[0])


CHANGES = tuple(_name(model) for model in get_args(ChangeRequest))
# Each takes back protection, or lets objects go: a second role can be asked for it.
FOR_APPROVERS = frozenset({"run_approve", "run_undo", "hold_release"})


def door_of(change: str) -> Door:
    """The door that a change goes through."""
    return Door.APPROVER if change in FOR_APPROVERS else Door.OPERATOR


def read_request(body: bytes) -> ChangeRequest:
    """The request of a body in JSON. Raises BadRequest with what is wrong, or with the changes that there are."""
    try:
        return _ADAPTER.validate_json(body)
    except ValidationError as error:
        raise BadRequest("; ".join(_told(each) for each in error.errors(include_input=False))) from error


def _told(error: Any) -> str:
    """One thing that is wrong; what was sent is not repeated."""
    if error["type"] == "json_invalid":
        return "the body is no JSON"
    if error["type"] in ("union_tag_invalid", "union_tag_not_found"):
        return f"there is no such change; known are {', '.join(CHANGES)}"
    where = ".".join(map(str, error["loc"][1:]))
    return f"{where}: {_in_words(error)}" if where else "the body is no JSON object"


def _in_words(error: Any) -> str:
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    return "it is empty" if error["type"] == "string_too_short" else str(error["msg"])
