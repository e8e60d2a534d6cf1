"""`sexton rehearse`: the rehearsals on a deployed stack, told as they go on, and a table at the end."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.cli_change import connect
from sexton.cli_options import Json, Reason, Stack
from sexton.escaping import harmless

if TYPE_CHECKING:
    from rich.console import RenderableType

    from sexton.backstage import Backstage
    from sexton.rehearsing import Rehearsals, Tidied

app = typer.Typer()


def backstage(stack: str) -> Backstage:
    """What rehearsals need of a stack besides; tests put their own in its place."""
    from sexton.aws.backstage import connect

    return connect(stack)


@app.command("rehearse")
def rehearse(
    reason: Reason,
    policy: Annotated[
        str | None, typer.Argument(metavar="POLICY", help="A policy made for it; the one there is if left out.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="NAME", help="Only this one; may be said several times.")
    ] = None,
    backlog: Annotated[
        int, typer.Option(min=1, max=3600, help="Seconds that a backlog must grow old while its policy is paused.")
    ] = 30,
    tidy: Annotated[
        bool, typer.Option("--tidy", help="Instead, put back what a rehearsal left that was killed.")
    ] = False,
    as_json: Json = False,
    stack: Stack = "Sexton",
) -> None:
    """Provoke what can go wrong, on decoys of its own, and see that nothing is lost. Exit 1 if anything failed."""
    from datetime import timedelta
    from uuid import uuid4

    from sexton.cli_output import put, put_json, say
    from sexton.rehearsing import Rehearsals, Rehearsing

    rehearsing, rehearsal_id = Rehearsing(connect(stack), backstage(stack), _teller()), uuid4().hex[:12]
    found: Rehearsals | Tidied
    with _stopped_like_by_hand():
        if tidy:
            found = rehearsing.tidy(policy, reason, rehearsal_id)
        else:
            found = rehearsing.rehearse(policy, only or (), reason, rehearsal_id, timedelta(seconds=backlog))
    if found.unverified:
        say("nobody verified who you are: this stage takes your word for it")
    if as_json:
        put_json(found)
    else:
        put([*(_table(found) if isinstance(found, Rehearsals) else ()), *_left_behind(found)])
    raise typer.Exit(0 if found.passed else 1)


def _teller() -> Callable[[str], None]:
    """Says each thing with the seconds since the beginning."""
    from time import monotonic

    from sexton.cli_output import say

    begun = monotonic()
    return lambda what: say(f"{monotonic() - begun:5.0f} s  {what}")


@contextmanager
def _stopped_like_by_hand() -> Iterator[None]:
    """A request to terminate is as a Ctrl-C while the block lasts: everything is put back first."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _table(found: Rehearsals) -> Iterator[RenderableType]:
    from sexton.cli_output import table

    rows = [(each.name, each.verdict, f"{each.seconds:.0f} s", _found(each.why, each.did)) for each in found.rehearsals]
    yield table(("rehearsal", "verdict", "took", "found"), rows)
    yield ""


def _left_behind(found: Rehearsals | Tidied) -> Iterator[str]:
    left = found.everything_left
    if not left:
        yield "Everything was put back: no decoy, pause, hold or open run is left, and the worker has its own handler."
        return
    yield "LEFT BEHIND:"
    yield from map(harmless, left)


def _found(why: str | None, did: tuple[str, ...]) -> str:
    """Why it failed; else the last thing that it saw."""
    return why or (did[-1] if did else "")
