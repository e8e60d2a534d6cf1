"""Stopping, and going on: what a person does to runs, policies and places, each as one conditional transition."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict

from sexton import control_transitions, run_transitions
from sexton.controls import ALL, hold_key, pause_key
from sexton.errors import NotAllowed, UnknownPolicy
from sexton.ledger import Ledger
from sexton.ports import Clock, Log, Token
from sexton.run import AT_WORK, Change, Run, RunState
from sexton.starting import Policies
from sexton.table import Applied, Write

PLACES = {  # by their schemes: what a place can be called
    "s3://": ("bucket", re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")),
    "dynamodb://": ("table", re.compile(r"((\d{12}:)?[a-z0-9-]+:)?[A-Za-z0-9_.-]{3,255}", re.ASCII)),
}
LONGEST_SCOPE = 1200  # bytes: the scheme, a bucket's name and its longest key
UNREACHED = "no deployed policy reaches that place, so for now this keeps nothing; is it spelled right?"
BY_A_PERSON = "invalidated_by_person"


class RunChanged(BaseModel):
    """A run after a change. `changed` is false where it was so already."""

    model_config = ConfigDict(frozen=True)

    run_id: str
    state: RunState
    changed: bool = True


class ScopeChanged(BaseModel):
    """A pause or a hold after a change. `changed` is false where it was so already."""

    model_config = ConfigDict(frozen=True)

    scope: str
    state: Literal["paused", "resumed", "held", "released"]
    changed: bool = True


class HoldChanged(ScopeChanged):
    """A hold after a change. `warning`: why it keeps nothing from any deployed policy."""

    warning: str | None = None


@dataclass(frozen=True)
class Stopping:
    """Halts, resumes and invalidates runs; pauses and resumes policies; places and releases holds."""

    ledger: Ledger
    policies: Policies
    clock: Clock
    token: Token
    log: Log

    def halt(self, run_id: str, reason: str, actor: str) -> RunChanged:
        """dispatching, draining -> halted: workers park its jobs. Raises UnknownRun, BadRunId, NotAllowed."""
        run = self.ledger.find(run_id)
        if run.state is RunState.HALTED:
            return RunChanged(run_id=run.run_id, state=run.state, changed=False)
        if run.state not in AT_WORK:
            raise NotAllowed(
                "not_at_work", f"{run_id} is {run.state}, so nothing of it is being removed{_instead(run)}"
            )
        self._write_run(run, run_transitions.halt(run, self._change("halted", reason, actor), self.token()))
        return self._changed(run, "halted", actor, RunState.HALTED)

    def resume_run(self, run_id: str, reason: str, actor: str) -> RunChanged:
        """halted -> what it was; its parked jobs are due. Raises UnknownRun, BadRunId, NotAllowed."""
        run = self.ledger.find(run_id)
        if run.state in AT_WORK:
            return RunChanged(run_id=run.run_id, state=run.state, changed=False)
        if run.state is not RunState.HALTED:
            raise NotAllowed("not_halted", f"{run_id} is {run.state}; only a halted run is resumed")
        self._write_run(run, run_transitions.resume(run, self._change("resumed", reason, actor), self.token()))
        return self._changed(run, "resumed", actor, run.halted_from or RunState.DRAINING)

    def invalidate(self, run_id: str, reason: str, actor: str) -> RunChanged:
        """Every state but completed -> invalidated: its open jobs end cancelled, and its time can be issued again.

        Raises UnknownRun, BadRunId, NotAllowed.
        """
        run = self.ledger.find(run_id)
        if run.state is RunState.INVALIDATED:
            return RunChanged(run_id=run.run_id, state=run.state, changed=False)
        if run.state is RunState.COMPLETED:
            raise NotAllowed(
                "completed", f"{run_id} is completed: there is nothing left to stop; `sexton run undo` takes it back"
            )
        change = self._change("invalidated", reason, actor)
        write = run_transitions.invalidate(run, BY_A_PERSON, reason, self.clock(), self.token(), change)
        self._write_run(run, write)
        return self._changed(run, "invalidated", actor, RunState.INVALIDATED)

    def pause(self, scope: str, reason: str, actor: str) -> ScopeChanged:
        """Pause a policy, or `all`: discovery and workers obey within 30 seconds. Raises UnknownPolicy."""
        self._known(scope)
        told = (self.ledger.table.get(pause_key(scope)) or {}).get("history", [])
        write = control_transitions.pause(scope, self._change("paused", reason, actor), self.token(), told)
        return self._control(write, scope, "paused", actor)

    def resume(self, scope: str, reason: str, actor: str) -> ScopeChanged:
        """End the pause of a policy, or of all: one of them leaves the other as it is. Raises UnknownPolicy."""
        row = self.ledger.table.get(pause_key(scope))
        if row is None:
            self._known(scope)
        told = (row or {}).get("history", [])
        write = control_transitions.resume(scope, self._change("resumed", reason, actor), self.token(), told)
        return self._control(write, scope, "resumed", actor)

    def hold(self, scope: str, reason: str, actor: str) -> HoldChanged:
        """Keep everything whose address begins with the scope. Raises NotAllowed when it is no such address.

        A place that no deployed policy reaches is held all the same, for one that is yet to come, with a warning.
        """
        scope = _in_a_place(hold_scope(scope))
        write = control_transitions.hold(scope, self._change("held", reason, actor), self.token())
        changed = self._control(write, scope, "held", actor)
        return HoldChanged(**dict(changed), warning=None if self._reached(scope) else UNREACHED)

    def release(self, scope: str, reason: str, actor: str) -> ScopeChanged:
        """Release a hold, by exactly its scope. Raises NotAllowed when there never was one."""
        scope = hold_scope(scope)
        if self.ledger.table.get(hold_key(scope)) is None:
            raise NotAllowed("no_such_hold", f"there is no hold on {scope}; `sexton hold list` names each")
        write = control_transitions.release(scope, self._change("released", reason, actor), self.token())
        return self._control(write, scope, "released", actor)

    def _reached(self, scope: str) -> bool:
        """Whether a deployed policy looks at addresses that begin with the scope."""
        places = (place for policy in self.policies.values() for place in policy.source.scopes)
        return any(place.startswith(scope) or scope.startswith(place) for place in places)

    def _known(self, scope: str) -> None:
        if scope != ALL and scope not in self.policies:
            known = ", ".join(sorted(self.policies)) or "none"
            raise UnknownPolicy(f"no policy {scope!r} is deployed; deployed are: {known}")

    def _change(self, change: str, reason: str, actor: str) -> Change:
        return Change(at=self.clock(), actor=actor, change=change, reason=reason)

    def _write_run(self, run: Run, write: Write) -> None:
        if not isinstance(self.ledger.table.write(write), Applied):
            raise NotAllowed("moved", f"{run.run_id} was changed at the same moment; look at it, then ask again")

    def _changed(self, run: Run, change: str, actor: str, state: RunState) -> RunChanged:
        self.log(f"run_{change}", run_id=run.run_id, policy=run.policy, actor=actor)
        return RunChanged(run_id=run.run_id, state=state)

    def _control(
        self, write: Write, scope: str, state: Literal["paused", "resumed", "held", "released"], actor: str
    ) -> ScopeChanged:
        changed = isinstance(self.ledger.table.write(write), Applied)
        if changed:
            self.log(f"scope_{state}", scope=scope, actor=actor)
        return ScopeChanged(scope=scope, state=state, changed=changed)


def _instead(run: Run) -> str:
    if run.state in (RunState.COMPLETED, RunState.INVALIDATED):
        return ""
    return f"; `sexton pause {run.policy}` keeps it from going on, `sexton run invalidate` ends it"


def _in_a_place(scope: str) -> str:
    """A hold on what no bucket or table can be named would be placed, and keep nothing. Raises NotAllowed."""
    scheme = next(each for each in PLACES if scope.startswith(each))
    kind, names = PLACES[scheme]
    name = scope.removeprefix(scheme).partition("/")[0]
    if not names.fullmatch(name):
        raise NotAllowed("bad_scope", f"{name[:100]!r} cannot be the name of a {kind}, so this would keep nothing")
    return scope


def hold_scope(text: str) -> str:
    """A hold's scope as it is compared: `s3://bucket/`, `dynamodb://table/`, and what keys begin with.

    Raises NotAllowed.
    """
    scheme = next((each for each in PLACES if text.startswith(each)), "")
    place, slash, prefix = text.removeprefix(scheme).partition("/")
    if not scheme or not place or len(text.encode()) > LONGEST_SCOPE:
        what = "one looks like s3://bucket/prefix/ or dynamodb://table/"
        raise NotAllowed("bad_scope", f"{text[:100]!r} is no place; {what}")
    return f"{scheme}{place}{slash or '/'}{prefix}"
