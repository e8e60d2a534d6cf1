"""The message of a job: a claim of what the ledger says, never an authority."""

from __future__ import annotations

import json

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sexton.instant import Instant
from sexton.job import Job, job_key, split_id
from sexton.run import RunId
from sexton.table import Key

SCHEMA = 1
LAST_INDEX = 9999  # of an item in its part: a split's number has four digits


class Malformed(ValueError):
    """The text is no message of ours."""


class Message(BaseModel):
    """What dispatch sends, under 8 KB. `first_key` is for people; the worker believes the part."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)

    schema_version: int = Field(alias="schema", ge=1, le=SCHEMA)
    job_id: str = Field(max_length=200)
    run_id: str = Field(max_length=100)
    policy_version: str = Field(pattern=r"^[0-9a-f]{64}$")
    cutoff: Instant
    part_key: str = Field(max_length=1024)
    part_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    start: int = Field(ge=0, le=LAST_INDEX)
    end: int = Field(ge=1, le=LAST_INDEX + 1)
    count: int = Field(ge=1, le=LAST_INDEX + 1)
    first_key: str

    @property
    def job_key(self) -> Key:
        """The key of the row that the message speaks of."""
        return job_key(*split_id(self.job_id))

    @property
    def run(self) -> RunId:
        """The run that the message speaks of."""
        return RunId.parse(self.run_id)


def read(body: str) -> Message:
    """Read a message. Raises Malformed, with what is wrong and nothing of the message's text."""
    try:
        message = Message.model_validate_json(body)
        run_id, _ = split_id(message.job_id)
        RunId.parse(message.run_id)
    except ValidationError as error:
        raise Malformed(f"not a message of schema {SCHEMA}: {', '.join(_places(error))}") from error
    except ValueError as error:
        raise Malformed("its ids are not ids of a job and a run") from error
    if run_id != message.run_id:
        raise Malformed("its job is not of its run")
    return message


def _places(error: ValidationError) -> list[str]:
    """The fields that are wrong, by names of ours only."""
    known = {field.alias or name for name, field in Message.model_fields.items()}
    wrong = {str(found["loc"][0]) if found["loc"] else "body" for found in error.errors()}
    return sorted({name if name in known | {"body"} else "a field that is not ours" for name in wrong})


def write(job: Job, policy_version: str, cutoff: Instant) -> str:
    """The message for a job, in ASCII: SQS refuses characters that a key may have."""
    message = Message(
        schema=SCHEMA,
        job_id=job.job_id,
        run_id=job.run_id,
        policy_version=policy_version,
        cutoff=cutoff,
        part_key=job.part_key,
        part_sha256=job.part_sha256,
        start=job.start,
        end=job.end,
        count=job.count,
        first_key=job.first_key,
    )
    return json.dumps(message.model_dump(mode="json", by_alias=True), separators=(",", ":"))
