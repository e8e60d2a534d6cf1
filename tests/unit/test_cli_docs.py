"""The page about the command line says what the command line does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main
from sexton import cli_errors, replaying
from sexton.cli import app
from sexton.showing import RunView

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "cli.md").read_text()


def first_cells(header: str) -> set[str]:
    """What stands in backticks in the first column of each table with this first header."""
    found: set[str] = set()
    for table in re.findall(rf"^\| {header} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", PAGE, re.MULTILINE):
        for row in table.splitlines():
            found |= set(re.findall(r"`([^`]+)`", row.split("|")[1]))
    return found


def commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        yield name, command
        return
    for each, child in command.commands.items():
        yield from commands(child, f"{name} {each}")


def test_every_command_is_there() -> None:
    assert first_cells("command") == {name for name, _ in commands(typer.main.get_command(app), "sexton")}


def test_every_option_is_there() -> None:
    options = {
        option
        for _, command in commands(typer.main.get_command(app), "sexton")
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--")
    }
    assert options - {"--policy", "--help"} <= set(re.findall(r"--[a-z][a-z-]*", PAGE))


def test_every_reading_command_writes_json() -> None:
    for name, command in commands(typer.main.get_command(app), "sexton"):
        assert any("--json" in parameter.opts for parameter in command.params), name


def test_every_field_of_a_run_is_there() -> None:
    assert first_cells("field") == set(RunView.model_fields)


def test_every_refusal_is_there() -> None:
    core = "".join(file.read_text() for file in (ROOT / "functions/sexton").glob("*.py"))
    coded = set(re.findall(r"Not(?:Allowed|Rehearsed)\(\s*\"(\w+)\"", core)) | {replaying.NOT_DEAD, replaying.CLOSING}
    assert coded - set(cli_errors.HINTS) == first_cells("refusal")


def test_every_code_of_an_error_is_there() -> None:
    source = Path(cli_errors.__file__).read_text() + (ROOT / "functions/sexton/cli.py").read_text()
    told = set(cli_errors.HINTS) | set(re.findall(r"Trouble\(\"(\w+)\"", source))
    assert first_cells("code") == told
