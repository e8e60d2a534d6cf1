"""A world that lives through a crash, and the places in the code where it can crash."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import sexton
from sexton import message
from sexton.approving import Approving
from sexton.errors import CallFailed, Failure, NotAllowed, SextonError
from sexton.item import Item, ItemId
from sexton.job import JobState
from sexton.ledger import Ledger
from sexton.ports import Listing, Removed, TimeLeft
from sexton.replaying import Replaying
from sexton.run import RunId
from sexton.undoing import Undoing
from sexton.working import Answer

from tests.fakes.bucket import FakeBucket
from tests.fakes.queue import Message
from tests.fakes.recorder import NO_CALL, PORTS, Call, Crash, Trace
from tests.fakes.time import FakeClock
from tests.fakes.world import World

CORE = Path(sexton.__file__).parent
ENTRIES = {"discovering", "working", "reconcile", "approving", "undoing"}  # what the functions run
FLOWS = (
    *("discovering", "starting", "planning", "plan", "dispatch", "working", "reconcile", "closing"),
    *("approving", "replaying", "undoing"),
)


class Site(NamedTuple):
    """A place in the code that calls a port; the lines are those of its whole expression."""

    module: str
    first_line: int
    last_line: int
    call: str

    def __str__(self) -> str:
        return f"{self.call} in {self.module}.py, line {self.first_line}"


@cache
def sites() -> frozenset[Site]:
    """Every call of a port in the code that the three functions run."""
    return frozenset(site for module in _reached() for site in _sites_in(module))


def _reached() -> set[str]:
    reached: set[str] = set()
    to_read = set(ENTRIES)
    while to_read:
        module = to_read.pop()
        reached.add(module)
        to_read |= _imports(module) - reached
    return reached


def _tree(module: str) -> ast.Module:
    return ast.parse((CORE / f"{module}.py").read_text())


def _imports(module: str) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.ImportFrom) and node.module == "sexton":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sexton."):
            found.add(str(node.module).split(".")[1])
    return {name for name in found if (CORE / f"{name}.py").exists()}


def _sites_in(module: str) -> Iterator[Site]:
    for statement in ast.walk(_tree(module)):
        if not isinstance(statement, ast.stmt):
            continue
        for whole in ast.iter_child_nodes(statement):
            if isinstance(whole, ast.expr):
                yield from (
                    Site(module, whole.lineno, whole.end_lineno or whole.lineno, call)
                    for node in ast.walk(whole)
                    if isinstance(node, ast.Attribute) and (call := _call_of_port(node))
                )


def _call_of_port(node: ast.Attribute) -> str | None:
    """`port.method` where the attribute is a method of a port on something that bears the port's name."""
    receiver = ast.unparse(node.value)
    for port, protocol in PORTS.items():
        methods = {name for name in vars(protocol) if name[0] != "_"} - NO_CALL
        if node.attr in methods and re.search(rf"(^|\._?){port}(\(.*\))?$", receiver):
            return f"{port}.{node.attr}"
    return None


Place = tuple[str, int]  # a module of the core and a line in it


@dataclass
class SitedTrace(Trace):
    """A trace that knows where in the code each call was made, and on which path."""

    sites: list[Site] = field(default_factory=list)
    paths: list[tuple[Place, ...]] = field(default_factory=list)

    def calm(self) -> None:
        super().calm()
        self.sites.clear()
        self.paths.clear()

    def run(self, call: Call, real: Callable[..., object]) -> object:
        path = tuple(_path())
        self.sites.append(_site_of(str(call), path))
        self.paths.append(path)
        return super().run(call, real)

    def flow(self, nth: int) -> str:
        """The flow that the n-th call belongs to (counted from 1)."""
        return next(module for module, _ in self.paths[nth - 1] if module in FLOWS)


def _path() -> Iterator[Place]:
    """The core's frames, from the caller of the port outwards."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        module = _module_of(frame.f_code.co_filename)
        if module:
            yield module, frame.f_lineno
        frame = frame.f_back


@cache
def _module_of(file: str) -> str | None:
    path = Path(file)
    return path.stem if path.parent == CORE else None


@cache
def _site_of(call: str, path: tuple[Place, ...]) -> Site:
    for module, line in path:
        for site in sites():
            if site.module == module and site.call == call and site.first_line <= line <= site.last_line:
                return site
    raise AssertionError(f"{call} was called from a place that is not known: {path}")


class TroubledBucket(FakeBucket):
    """Some keys fail a few times, some end the process that removes them; some listings take long."""

    def __init__(self, clock: FakeClock, versioning: str) -> None:
        super().__init__(clock, versioning)
        self.flaky: dict[str, list[Failure]] = {}
        self.poison: set[str] = set()
        self.slow: list[timedelta] = []

    def list(self, prefix: str, start_after: str = "", limit: int = 1000) -> Listing:
        page = super().list(prefix, start_after, limit)
        if self.slow:
            self.clock.advance(self.slow.pop(0))
        return page

    def remove(self, items: Sequence[Item]) -> Mapping[str, Removed | Failure]:
        if self.poison & {item.key for item in items}:
            raise Crash("poison")
        failing = {item.key: self.flaky[item.key].pop(0) for item in items if self.flaky.get(item.key)}
        return {**super().remove([item for item in items if item.key not in failing]), **failing}

    def remove_versions(self, items: Sequence[Item]) -> Mapping[ItemId, Removed | Failure]:
        failing = {item.id: self.flaky[item.key].pop(0) for item in items if self.flaky.get(item.key)}
        return {**super().remove_versions([item for item in items if item.id not in failing]), **failing}

    def abort_upload(self, item: Item) -> Removed | Failure:
        return self.flaky[item.key].pop(0) if self.flaky.get(item.key) else super().abort_upload(item)


class LastingWorld(World):
    """A world where a crash ends one invocation and an error is what the handlers make of it."""

    run_id: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.queue.max_receive_count = 7
        self.troubled = TroubledBucket(self.clock, self.versioning)
        self.buckets["logs"] = self.troubled

    def discover(self, event: dict[str, object], time_left: TimeLeft | None = None) -> dict[str, object]:
        try:
            return super().discover(event, time_left)
        except (Crash, SextonError) as error:
            return {"ended": repr(error)}

    def work(self, limit: int = 10, time_left: TimeLeft | None = None) -> dict[str, Answer]:
        try:
            return super().work(limit, time_left)
        except Crash:
            return {"batch": Answer.KEEP}

    def drain(self) -> None:
        """Let every message that is left come again, until it is acknowledged or a dead letter."""
        for _ in range(10):
            while self.work():
                pass
            self.clock.advance(self.queue.visibility)
        assert not self.queue.messages

    def work_one(self, received: Message, time_left: TimeLeft | None = None) -> Answer:
        try:
            answer = super().work_one(received, time_left)
        except SextonError:
            return Answer.KEEP
        if answer is Answer.ACK:
            self._assert_durable(received)
        return answer

    def ask(self, change: Callable[[Ledger], object], *done: str) -> None:
        """A person asks for a change until it is made; one that is refused as `done` was made, and its answer lost."""
        for _ in range(3):
            try:
                change(Ledger(self._wrapped_table()))
            except (Crash, CallFailed):
                continue
            except NotAllowed as refused:
                if refused.code not in done:
                    raise
            return
        raise AssertionError("nobody asks a fourth time")

    def approve(self, run_id: str) -> None:
        """A person approves the plan of a run."""
        run = self.ledger.run(RunId.parse(run_id))
        assert run is not None
        self.ask(
            lambda ledger: Approving(ledger, self.policies, self.clock, self.tokens, self._log).approve(
                run_id, str(run.digest), "looked at it", "ann"
            ),
            "not_waiting",
        )

    def replay(self, job_id: str) -> None:
        """A person replays a dead job."""
        self.ask(lambda ledger: self._replaying(ledger).replay(job_id, "mended", "ann"), "not_dead")

    def resolve(self, job_id: str) -> None:
        """A person closes a dead job."""
        self.ask(lambda ledger: self._replaying(ledger).resolve(job_id, "it may stay", "ann"), "resolved")

    def undo(self, run_id: str) -> None:
        """A person takes back what a run did."""
        evidence = self.trace.wrap("evidence", self.evidence)
        self.ask(
            lambda ledger: Undoing(ledger, evidence, self.policies, self.clock, self.tokens, self._log).undo(
                run_id, "it was wrong", "ann"
            ),
            "undo_open",
        )

    def _replaying(self, ledger: Ledger) -> Replaying:
        return Replaying(ledger, self.policies, self.clock, self.tokens, self._log)

    def _assert_durable(self, acknowledged: Message) -> None:
        job = self.ledger.job(message.read(acknowledged.body).job_key)
        assert job is not None
        settled = job.state in (JobState.SUCCEEDED, JobState.CANCELLED)
        assert settled or (job.state is JobState.READY and job.dispatch_due), "acknowledged before it was durable"

    def tick(self) -> None:
        try:
            super().tick()
        except (Crash, SextonError):
            self._carry_on_asked()
        waiting = [row for row in self.table.rows.values() if row.get("state") == JobState.READY and "job_id" in row]
        assert all("dispatch_due" in row for row in waiting), "no ready row without a dispatch due"

    def _carry_on_asked(self) -> None:
        """What a tick asked for before it ended is under way all the same."""
        asked, self.resumed = self.resumed, []
        for run_id in asked:
            self.discover({"resume": run_id})
