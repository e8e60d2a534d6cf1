"""Probes of the two control functions, and of which handler each function has."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from sexton.aws.probe import DEPLOY, Probe, Site
from sexton.aws.probe_functions import CONFIGURATION, ONLY_LOCAL, settings_of
from sexton.control_grants import CONTROL, DOORS
from sexton.doctor import Check, CheckName
from sexton.grants import FUNCTIONS, WORKER
from sexton.rehearsing_acts import FAULTY_WORKER

OWN = {"SEXTON_LEDGER_TABLE": "LedgerTableName", "SEXTON_DISCOVERY_FUNCTION": "DiscoveryFunctionName"}


def probes(site: Site) -> Iterator[Probe]:
    """Of what each door was told, and of the handler of every function."""
    for name in CONTROL:
        yield Probe(CheckName.FUNCTION_SETTINGS, name, CONFIGURATION, partial(_settings, site, name))
    for name in (*FUNCTIONS, *CONTROL):
        yield Probe(CheckName.FUNCTION_HANDLER, name, CONFIGURATION, partial(_handler, site, name))


def _settings(site: Site, of: str) -> Iterator[Check]:
    name, environment, told = CheckName.FUNCTION_SETTINGS, site.environment(of), settings_of(site, of)
    if isinstance(told, Check):
        yield told
        return
    other = [variable for variable, output in OWN.items() if environment.get(variable) != site.outputs[output]]
    if told.door != DOORS[of]:
        yield Check.failed(name, of, f"it takes itself for the door of the {told.door or 'nobody'}", DEPLOY)
    elif other:
        yield Check.failed(name, of, f"not the stack's own: {', '.join(other)}", DEPLOY)
    elif told.trust_caller:
        yield Check.warning(name, of, "it believes whoever asks, as on the local stage", f"{ONLY_LOCAL} local")
    else:
        yield Check.ok(name, of, "complete, and of this stack")


def _handler(site: Site, of: str) -> Iterator[Check]:
    name, found = CheckName.FUNCTION_HANDLER, str(site.function(of).get("Handler", ""))
    expected = f"handlers.{'control' if of in CONTROL else of}.handler"
    if found == expected:
        yield Check.ok(name, of, found)
    elif of == WORKER and found == FAULTY_WORKER:
        what = f"{found}: a rehearsal changed it, and was killed unless it is still at work"
        yield Check.failed(name, of, what, 'if none is at work: sexton rehearse --tidy --reason "..."')
    else:
        yield Check.failed(name, of, f"{found or 'none'}, and not {expected}", DEPLOY)
