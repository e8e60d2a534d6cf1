"""Options and arguments that many commands take."""

from __future__ import annotations

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Write JSON, for scripts.")]
Stack = Annotated[str, typer.Option("--stack", envvar="SEXTON_STACK", help="The stack's name.")]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.")]
Reason = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why, for those who ask later: it is kept with the change.")
]
