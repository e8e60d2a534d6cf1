"""Commands that change something: each goes through control, once, with a reason."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from sexton.cli_options import Json, Reason, Stack

if TYPE_CHECKING:
    from pydantic import BaseModel

    from sexton.deployment import Deployment

M = TypeVar("M", bound="BaseModel")

run_app = typer.Typer()


class Mode(StrEnum):
    """How a run can be narrowed."""

    REPORT = "report"


def connect(stack: str) -> Deployment:
    """The deployment that a command works on."""
    from sexton import cli

    return cli.connect(stack)


def ask(deployment: Deployment, answered: type[M], change: str, fields: Mapping[str, object], reason: str) -> M:
    """Ask for one change, and read what was answered. Says on stderr if nobody verified who asks."""
    from sexton.cli_output import say

    answer = deployment.control.change(change, fields, reason)
    if answer.get("unverified"):
        say("nobody verified who you are: this stage takes your word for it")
    return answered.model_validate(answer["result"])


@run_app.command("start")
def run_start(
    policy: Annotated[str, typer.Argument(help="The policy's id.")],
    reason: Reason,
    at: Annotated[str, typer.Option(help="The scheduled time, in RFC 3339; now if left out.")] = "",
    mode: Annotated[Mode | None, typer.Option(help="Narrow an enforcing policy to a report.")] = None,
    reissue: Annotated[
        bool, typer.Option("--reissue", help="With --at: once more, after an invalidated or reported run.")
    ] = False,
    as_json: Json = False,
    stack: Stack = "Sexton",
) -> None:
    """Start a run of a policy, and write its id. Starting one that is there already only asks it to go on."""
    from sexton.cli_output import put_json, say
    from sexton.item import rfc3339
    from sexton.requesting import RunStarted

    if reissue and not at:
        raise typer.BadParameter(
            "--reissue goes with --at: the scheduled time of the run that is issued once more (sexton run list)"
        )
    given = {"scheduled_time": rfc3339(_instant(at)) if at else None, "mode": mode and mode.value}
    fields = {"policy": policy, "reissue": reissue, **{name: value for name, value in given.items() if value}}
    started = ask(connect(stack), RunStarted, "run_start", fields, reason)
    if as_json:
        put_json(started)
        return
    print(started.run_id)
    say("it is being planned" if started.created else f"it was there already, and is {started.state}")
    say(f"to follow it: sexton run watch {started.run_id}")


def _instant(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(
            f"{text!r} is no time; one looks like 2026-11-30T02:00:00Z", param_hint="--at"
        ) from error
    if at.utcoffset() is None:
        raise typer.BadParameter(f"{text!r} names no zone; write {text}Z for UTC", param_hint="--at")
    return at.astimezone(UTC).replace(microsecond=0)
