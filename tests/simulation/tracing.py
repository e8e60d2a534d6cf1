"""The story of a history, for people: when, who, what, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sexton.attributes import canonical
from sexton.errors import CallFailed, Failure
from sexton.ports import Listing, Removed, Rows, Send, Versions
from sexton.table import Applied, Check, Delete, Key, Refused, Write

from tests.fakes.recorder import Call
from tests.simulation.scheduling import Ended, Task

NAMED = ("state", "attempt", "open_run", "maybe_done", "dispatch_due", "not_before", "paused", "active", "reason")


class Story:
    """Lines of what happened; told only where somebody asks, since that is slow."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.now: Callable[[], float] = lambda: 0.0
        self.name_of: Callable[[object], str] = lambda service: ""  # of a bucket

    def tell(self, who: str, what: str) -> None:
        minutes, seconds = divmod(self.now(), 60)
        self.lines.append(f"{minutes:4.0f}:{seconds:06.3f}  {who:<14}{what}")

    def called(self, task: Task, call: Call, service: object, answer: object) -> None:
        """A call has its answer."""
        name = f"{self.name_of(service)}.{call.method}".removeprefix(".") if call.port == "bucket" else str(call)
        self.tell(task.name, f"{name:<20} {_arguments(call)} -> {_answer(answer)}")

    def ended(self, task: Task, how: Ended) -> None:
        """An invocation is over."""
        came = "killed" if how.killed else f"failed: {how.error}" if how.error else _short(how.result)
        self.tell(task.name, f"ended: {came}")

    def last(self, lines: int) -> str:
        """The end of the story."""
        left_out = len(self.lines) - lines
        head = [f"... {left_out} lines before"] if left_out > 0 else []
        return "\n".join([*head, *self.lines[-lines:]])


def _arguments(call: Call) -> str:
    return ", ".join(_short(each) for each in call.args)


def _short(value: object) -> str:
    """A value in few words."""
    if isinstance(value, Write):
        return f"{_key(value.key)} {_changes(value)}"
    if isinstance(value, Delete):
        return f"delete {canonical(value.key)} if {canonical(value.expected)}"
    if isinstance(value, Check):
        return f"check {_key(value.key)}"
    if isinstance(value, Key):
        return _key(value)
    if isinstance(value, Send):
        return f"message {value.id}"
    if isinstance(value, str):
        return value if len(value) < 90 else f"{value[:60]}...{value[-20:]}"
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, tuple) and hasattr(value, "key"):
        return repr(value.key) + (f"?{value.version_id}" if getattr(value, "version_id", None) else "")
    if isinstance(value, Sequence):
        return "[" + ", ".join(_short(each) for each in value) + "]"
    return str(value)


def _key(key: Key) -> str:
    return f"{key.pk.partition('#')[2] or key.pk} {key.sk}"


def _changes(write: Write) -> str:
    named = {name: write.set[name] for name in NAMED if name in write.set}
    named |= {name: f"+{by}" for name, by in write.add.items() if name in NAMED}
    return str(named) if named else f"sets {', '.join([*write.set, *write.remove][:4])}"


def _answer(answer: object) -> str:
    if isinstance(answer, Applied):
        return f"applied{_state(answer.row)}"
    if isinstance(answer, Refused):
        return f"refused{_state(answer.old)}"
    if isinstance(answer, Rows):
        return f"{len(answer.rows)} rows"
    if isinstance(answer, Listing | Versions):
        return _short(list(answer.items))
    if isinstance(answer, CallFailed):
        return f"FAILED {answer.failure.code}" + (" (may have acted)" if answer.failure.unknown_effect else "")
    if isinstance(answer, Mapping) and "pk" in answer:
        return f"row{_state(answer)}"
    if isinstance(answer, Mapping):
        return str({_short(name): _answer(each) for name, each in answer.items()})
    if isinstance(answer, Removed):
        return "removed" + (f" by marker {answer.marker_version_id}" if answer.marker_version_id else "")
    return answer.code if isinstance(answer, Failure) else _short(answer)


def _state(row: Mapping[str, object] | None) -> str:
    if row is None:
        return ""
    shown = {name: row[name] for name in ("state", "rev", "attempt", "lease_token") if name in row}
    return f" {shown}"
