"""A pydantic error, told to the person who wrote the file: where, what is wrong, what to write instead."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from difflib import get_close_matches
from itertools import zip_longest

from pydantic import BaseModel, Tag
from pydantic_core import ErrorDetails

from sexton.policy_file import Place, PolicyFile
from sexton.problem import Problem, shown, wanted

EXAMPLES: Mapping[str, str] = {
    "id": "logs-expire",
    "description": "what goes, and why it may",
    "owner": "the team that answers for it",
    "schedule": "cron(30 2 * * ? *)",
    "source": "with kind, bucket and prefixes below it",
    "kind": "s3",
    "bucket": "the-buckets-name",
    "prefixes": "['app/']",
    "table": "the-tables-name",
    "timestamp": "{attribute: due_at, format: epoch_s}",
    "attribute": "due_at",
    "format": "epoch_s, epoch_ms or iso8601",
    "date": "'due#%Y-%m-%d'",
    "since": "'2026-01-01'",
    "retain": "P30D",
    "key_date": "'dt=%Y-%m-%d'",
}
_EXAMPLES_OF_TYPES = {
    "string_type": "text, in quotes if it is a single word or number",
    "int_type": "digits only",
    "float_type": "a number such as 0.2",
    "bool_type": "true or false",
    "tuple_type": "a list, such as ['one', 'two']",
    "model_type": "fields on lines of their own, indented below it",
}
_ID_RULE = "a lower-case letter, then 1 to 47 of a-z, 0-9 and '-'"


def missing(file: PolicyFile, place: Place) -> Problem:
    """The problem of a field that is not there, or is empty."""
    name = str(place[-1])
    return Problem(file.where(place), f"{_dotted(place)} is missing", f"{name}: {EXAMPLES.get(name, '...')}")


def explain(file: PolicyFile, model: type[BaseModel], error: ErrorDetails) -> Problem:
    """The problem that a pydantic error of `model` is."""
    kind, context = error["type"], error.get("ctx", {})
    if kind == "missing":
        return missing(file, (*file.found(error["loc"][:-1]), error["loc"][-1]))
    place = file.found(error["loc"])
    if kind == "policy":
        where = file.where(_meant(place, error["loc"], context["at"]), entry=context["entry"])
        return Problem(where, context["what"], context["instead"])
    what, instead = _told(file, model, place, error)
    return Problem(file.where(place), what, instead)


def _meant(place: Place, validated: Place, at: str) -> Place:
    """The place of the field that a refusal names from where it was raised."""
    if at.startswith(".."):
        place = place[:-1] if place[-1:] == validated[-1:] else place
    return (*place, *filter(None, at.split(".")))


def _told(file: PolicyFile, model: type[BaseModel], place: Place, error: ErrorDetails) -> tuple[str, str]:
    kind, context, name = error["type"], error.get("ctx", {}), _dotted(place)
    if kind == "extra_forbidden":
        return f"there is no field {name}", _near(str(place[-1]), field_names(model, error["loc"][:-1]))
    if kind == "literal_error":
        expected = context["expected"]
        return f"{name} cannot be {_input(file, place, error)}", f"{place[-1]}: {expected}".replace("'", "")
    if kind == "string_pattern_mismatch":
        return f"{name} {shown(error['input'])} is not well formed", _ID_RULE
    if kind in _EXAMPLES_OF_TYPES:
        return _wrong_type(file, place, error)
    return f"{name} cannot be {_input(file, place, error)}", wanted(error) or "what docs/policies.md says of this field"


def _wrong_type(file: PolicyFile, place: Place, error: ErrorDetails) -> tuple[str, str]:
    kind, name, misread = error["type"], _dotted(place), file.misread(place)
    if kind == "string_type" and misread and misread != "nothing":
        raw = file.raw(place)
        key = "" if isinstance(place[-1], int) else f"{place[-1]}: "
        return f"{name} must be text, but YAML reads {raw} as {misread}", f'{key}"{raw}"'
    return f"{name} must be {wanted(error)}", _EXAMPLES_OF_TYPES[kind]


def _input(file: PolicyFile, place: Place, error: ErrorDetails) -> str:
    return file.raw(place) or shown(error["input"])


def _near(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, n=1)
    return near[0] if near else f"one of {', '.join(known)}, or leave it out"


def field_names(model: type[BaseModel], place: Place) -> list[str]:
    """The names of the fields that a model has at a place inside it."""
    for step, tag in zip_longest(place, place[1:]):
        if step in model.model_fields:
            annotation = model.model_fields[str(step)].annotation
            model = _tagged(annotation, tag) or _model_in(annotation) or model
    return list(model.model_fields)


def _tagged(annotation: object, tag: object) -> type[BaseModel] | None:
    """The model of a union that a step of an error's place names by its tag."""
    for part in typing.get_args(annotation):
        if any(isinstance(each, Tag) and each.tag == tag for each in getattr(part, "__metadata__", ())):
            return _model_in(part)
    return None


def _model_in(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (_model_in(part) for part in typing.get_args(annotation))
    return next((model for model in found if model), None)


def _dotted(place: Place) -> str:
    return ".".join(map(str, place))
