"""Writing items one by one, of which there can be millions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import typer
from pydantic import BaseModel

from sexton.cli_errors import trouble
from sexton.cli_output import stream_json
from sexton.errors import SextonError

M = TypeVar("M", bound=BaseModel)


def write(items: Iterable[M], line: Callable[[M], str], *, as_json: bool) -> None:
    """Write items one by one, since there can be millions, until one cannot be read: then exit 1.

    So they are lines and no table, whose widths would be known at its end.
    """
    try:
        if as_json:
            stream_json(items)
        else:
            for item in items:
                print(line(item))
    except SextonError as error:
        # What stands on stdout is a document without its end, which no reader takes for a whole one.
        trouble(error).tell(as_json=as_json, data_begun=True)
        raise typer.Exit(1) from error
