"""What a policy does with what has had its time: a word, or a mapping with its `kind`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, StrictBool, StrictInt, StrictStr, Tag

from sexton.endpoint_action import HttpAction
from sexton.problem import refused
from sexton.record_source import RecordSource
from sexton.source import S3Source
from sexton.timestamp import Name

Word = Literal["expire", "purge", "abort", "delete", "archive"]
WORD = "word"

# What each kind of source can have done to its items.
FITTING = {"s3": ("expire", "purge"), "s3_uploads": ("abort",), "dynamodb": ("delete", "http")}


class Mark(BaseModel):
    """The record stays, and this attribute of it gets this value: text, a whole number, or true or false."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["mark"]
    attribute: Name
    value: StrictBool | StrictInt | StrictStr


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
    return action
