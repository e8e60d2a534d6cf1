"""What a policy does with what has had its time: a word, or a mapping with its `kind`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, StrictBool, StrictInt, StrictStr, Tag

from sexton.attributes import LARGEST
from sexton.endpoint_action import HttpAction
from sexton.problem import refused
from sexton.record_source import RecordSource
from sexton.source import S3Source
from sexton.timestamp import Name

Word = Literal["expire", "purge", "abort", "delete", "archive"]
WORD = "word"

# What each kind of source can have done to its items.
FITTING = {"s3": ("expire", "purge"), "s3_uploads": ("abort",), "dynamodb": ("delete", "archive", "mark", "http")}

MarkText = Annotated[StrictStr, Field(max_length=1024)]


class Mark(BaseModel):
    """The record stays, and this attribute of it gets this value: text, a whole number, or true or false."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["mark"]
    attribute: Name
    value: StrictBool | Annotated[StrictInt, Field(ge=-LARGEST, le=LARGEST)] | MarkText


MAPPINGS: Mapping[str, type[BaseModel]] = {"mark": Mark, "http": HttpAction}  # by their `kind`


def _tag(given: object) -> str:
    """Which of the union a given `action` means; what is no mapping is a word, or refused as one."""
    if isinstance(given, BaseModel):
        return str(getattr(given, "kind", WORD))
    return str(given.get("kind")) if isinstance(given, Mapping) else WORD


def _of_a_known_kind(given: Any) -> Any:
    if isinstance(given, Mapping) and given.get("kind") not in MAPPINGS:
        what = f"action.kind cannot be {given['kind']!r}" if "kind" in given else "action.kind is missing"
        raise refused(what, f"kind: {' or '.join(MAPPINGS)}, or a word such as delete")
    return given


Action = Annotated[
    Annotated[Word, Tag(WORD)] | Annotated[Mark, Tag("mark")] | Annotated[HttpAction, Tag("http")],
    Discriminator(_tag),
    BeforeValidator(_of_a_known_kind),
]


def is_call(given: object) -> bool:
    """Whether an action, as given or checked, is the call of an endpoint."""
    return isinstance(given, HttpAction) or (isinstance(given, Mapping) and given.get("kind") == "http")


def name_of(action: Word | Mark | HttpAction) -> str:
    """The action's name in every case: the word, or the kind of the mapping."""
    return action if isinstance(action, str) else action.kind


def check_action(action: Word | Mark | HttpAction, source: S3Source | RecordSource) -> Word | Mark | HttpAction:
    """Give the action back, or raise PydanticCustomError where it is not for such a source."""
    noncurrent = isinstance(source, S3Source) and source.versions == "noncurrent"
    fitting = ("purge",) if noncurrent else FITTING[source.kind]
    if name_of(action) not in fitting:
        what = "noncurrent versions" if noncurrent else f"source kind {source.kind}"
        raise refused(f"action {name_of(action)} is not for {what}", " or ".join(fitting))
    if isinstance(source, RecordSource) and source.elsewhere and action == "archive":
        what = f"action archive takes a transaction with the ledger, and {source.place} lies elsewhere"
        raise refused(what, "action: delete, or a table beside the ledger")
    if isinstance(action, Mark) and isinstance(source, RecordSource):
        _refuse_mark(action, source)
    if action == "archive" and isinstance(source, RecordSource) and source.version_attribute is None:
        what = "without source.version_attribute nothing tells whether what goes is what was archived"
        raise refused(what, "version_attribute: what the application changes with each write", at="..source")
    return action


def _refuse_mark(mark: Mark, source: RecordSource) -> None:
    """Raise PydanticCustomError where a mark would change what records are judged by."""
    if mark.attribute in source.guarded:
        raise refused(
            f"{mark.attribute} is what a record is judged by, so a mark would change which are found",
            "an attribute that neither timestamp, filter nor version_attribute names",
            at="attribute",
        )


def taken_back_by(action: Word | Mark | HttpAction) -> str:
    """The `recovery` under which an undo takes back what the action does; empty where none does."""
    return {"expire": "versioning", "archive": "archive"}.get(name_of(action), "")


def recoveries(action: Word | Mark | HttpAction) -> str:
    """What a policy may say of taking the action back, in words."""
    return f"recovery: {', '.join(filter(None, (taken_back_by(action), 'backup')))} or none"


def check_recovery(recovery: str | None, action: Word | Mark | HttpAction) -> None:
    """Raise PydanticCustomError where nothing stands behind what is to be taken back."""
    if recovery in ("versioning", "archive") and recovery != taken_back_by(action):
        behind = "version" if recovery == "versioning" else "archive"
        what = f"what action {name_of(action)} removes has no {behind} behind it that could come back"
        raise refused(what, recoveries(action))
