"""Options and arguments that many commands take."""

from __future__ import annotations

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Write JSON, for scripts.")]
Stack = Annotated[str, typer.Option("--stack", envvar="SEXTON_STACK", help="The stack's name.")]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.")]


def needed(reason: str) -> str:
    """A reason that control will take, before anything is asked of it. Raises BadParameter."""
    from sexton.change_request import fit_to_keep

    try:
        fit_to_keep(reason.strip())
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--reason") from error
    return reason


Reason = Annotated[
    str,
    typer.Option(
        "--reason", metavar="TEXT", callback=needed, help="Why, for those who ask later: it is kept with the change."
    ),
]
