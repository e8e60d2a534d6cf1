"""Commands that change something: each goes through control, once, with a reason."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from sexton.cli_options import Json, Reason, RunArgument, Stack, needed

if TYPE_CHECKING:
    from pydantic import BaseModel

    from sexton.deployment import Deployment
    from sexton.stopping import HoldChanged, RunChanged

M = TypeVar("M", bound="BaseModel")

app, run_app, hold_app = typer.Typer(), typer.Typer(), typer.Typer(no_args_is_help=True, rich_markup_mode=None)
Place = Annotated[str, typer.Argument(metavar="S3://BUCKET/PREFIX", help="A bucket, or what keys in it begin with.")]


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


@run_app.command("approve")
def run_approve(
    run: RunArgument,
    digest: Annotated[str, typer.Option(metavar="DIGEST", help="The digest of the plan that you looked at.")],
    reason: Reason,
    as_json: Json = False,
    stack: Stack = "Sexton",
) -> None:
    """Let a plan be carried out that waits for a person: exactly the one with this digest."""
    from sexton.approving import Approved
    from sexton.cli_output import many, put_json, say

    approved = ask(connect(stack), Approved, "run_approve", {"run_id": run, "digest": digest}, reason)
    if as_json:
        put_json(approved)
        return
    say(f"approved: {many(approved.planned, 'item')} of {approved.run_id}; the next tick sends its jobs")


@run_app.command("halt")
def run_halt(run: RunArgument, reason: Reason, as_json: Json = False, stack: Stack = "Sexton") -> None:
    """Stop a run. Its jobs are kept, and go on when it is resumed."""
    changed = _change_run("run_halt", run, reason, stack)
    _tell(changed, as_json, _now(changed), f"to go on: sexton run resume {run}")


@run_app.command("resume")
def run_resume(run: RunArgument, reason: Reason, as_json: Json = False, stack: Stack = "Sexton") -> None:
    """Go on with a halted run."""
    changed = _change_run("run_resume", run, reason, stack)
    _tell(changed, as_json, _now(changed))


@run_app.command("invalidate")
def run_invalidate(run: RunArgument, reason: Reason, as_json: Json = False, stack: Stack = "Sexton") -> None:
    """End a run for good: what it has not done yet it will not do."""
    changed = _change_run("run_invalidate", run, reason, stack)
    _tell(changed, as_json, _now(changed), "its open jobs are cancelled with the next ticks")


@run_app.command("undo")
def run_undo(
    run: RunArgument,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; not needed with --dry-run.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be brought back.")] = False,
    as_json: Json = False,
    stack: Stack = "Sexton",
) -> None:
    """Bring back what a run hid behind delete markers, by a run of its own; holds keep later runs off it."""
    from sexton.cli_output import put_json, say
    from sexton.undoing import UndoStarted

    if dry_run:
        _preview(connect(stack), run, as_json=as_json)
        return
    needed(reason)
    started = ask(connect(stack), UndoStarted, "run_undo", {"run_id": run}, reason)
    if as_json:
        put_json(started)
        return
    print(started.run_id)
    for place in started.held:
        say(f"held until you release it: {place}")
    if started.paused:
        say(f"it waits for the end of the pause of {started.paused}")
    say(f"to follow it: sexton run watch {started.run_id}")


def _preview(deployment: Deployment, run: str, *, as_json: bool) -> None:
    from sexton import cli_change_tables
    from sexton.cli_output import put, put_json
    from sexton.previewing import Previewing

    ports = deployment.ledger, deployment.evidence, deployment.stores, deployment.clock
    found = Previewing(*ports).preview(run)
    if as_json:
        put_json(found)
    else:
        put(cli_change_tables.undo(found))


@app.command("pause")
def pause(
    reason: Reason,
    policy: Annotated[str, typer.Argument(metavar="POLICY", help="The policy; all if left out.")] = "all",
    as_json: Json = False,
    stack: Stack = "Sexton",
) -> None:
    """Pause a policy, or all: within 30 seconds nothing more is planned, sent or removed. Nothing is lost."""
    _change_pause("pause", policy, reason, stack, as_json=as_json)


@app.command("resume")
def resume(
    reason: Reason,
    policy: Annotated[str, typer.Argument(metavar="POLICY", help="The policy; all if left out.")] = "all",
    as_json: Json = False,
    stack: Stack = "Sexton",
) -> None:
    """End the pause of a policy, or of all."""
    _change_pause("resume", policy, reason, stack, as_json=as_json)


@hold_app.command("add")
def hold_add(place: Place, reason: Reason, as_json: Json = False, stack: Stack = "Sexton") -> None:
    """Keep everything whose address begins so, whatever is planned; it is read just before each removal."""
    from sexton.cli_output import say

    changed = _change_hold("hold_add", place, reason, stack)
    if changed.warning:
        say(f"warning: {changed.warning}")
    _tell(changed, as_json, f"held: {changed.scope}" if changed.changed else f"it was held already: {changed.scope}")


@hold_app.command("release")
def hold_release(place: Place, reason: Reason, as_json: Json = False, stack: Stack = "Sexton") -> None:
    """End a hold, by exactly the place that `hold list` shows."""
    changed = _change_hold("hold_release", place, reason, stack)
    told = "released" if changed.changed else "it was released already"
    _tell(changed, as_json, f"{told}: {changed.scope}")


@hold_app.command("list")
def hold_list(as_json: Json = False, stack: Stack = "Sexton") -> None:
    """List the holds that stand, and who placed each."""
    from sexton import cli_change_tables
    from sexton.cli_output import put, put_json, say

    found = [each for each in connect(stack).ledger.controls().holds if each.active]
    if as_json:
        put_json(found)
    elif found:
        put(cli_change_tables.holds(found))
    else:
        say("nothing is held")


def _change_run(change: str, run: str, reason: str, stack: str) -> RunChanged:
    from sexton.stopping import RunChanged

    return ask(connect(stack), RunChanged, change, {"run_id": run}, reason)


def _now(changed: RunChanged) -> str:
    """How a run stands after a change, and whether it stood so before."""
    return f"{changed.run_id} is {changed.state}{'' if changed.changed else ' already'}"


def _change_hold(change: str, place: str, reason: str, stack: str) -> HoldChanged:
    from sexton.stopping import HoldChanged

    return ask(connect(stack), HoldChanged, change, {"scope": place}, reason)


def _change_pause(change: str, policy: str, reason: str, stack: str, *, as_json: bool) -> None:
    from sexton.pausing import PauseChanged

    changed = ask(connect(stack), PauseChanged, change, {"scope": policy}, reason)
    of = "all policies" if policy == "all" else policy
    said = [f"{of} {'are' if policy == 'all' else 'is'} {changed.state}{'' if changed.changed else ' already'}"]
    if changed.trouble:
        said.append(f"schedules or the worker's feed could not follow ({changed.trouble}): ask for it again")
    _tell(changed, as_json, *said)


def _tell(changed: BaseModel, as_json: bool, *messages: str) -> None:
    from sexton.cli_output import put_json, say

    if as_json:
        put_json(changed)
        return
    for message in messages:
        say(message)


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
