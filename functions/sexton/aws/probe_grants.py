"""Probes of what the functions' roles may do: all that they need, and nothing that they must not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from sexton import control_grants, grants
from sexton.aws import simulation
from sexton.aws.probe import DEPLOY, Probe, Site
from sexton.control_grants import CONTROL, ControlArns
from sexton.doctor import Check, CheckName, listed
from sexton.grants import FUNCTIONS, Arns, Grant
from sexton.policy import Policy

UNJUDGED = "this endpoint's simulation does not judge by their conditions"
ASK_AWS = "ask an endpoint that judges them: AWS does"

OfControl = Callable[[Arns, ControlArns], Iterable[Grant]]


def probes(site: Site, policies: Sequence[Policy]) -> Iterator[Probe]:
    """Two for each function."""
    for function in (*FUNCTIONS, *CONTROL):
        yield _probe(site, policies, CheckName.GRANTS, function, _needed)
        yield _probe(site, policies, CheckName.EXCESS, function, _excess)


def _probe(
    site: Site,
    policies: Sequence[Policy],
    name: CheckName,
    function: str,
    judge: Callable[[Site, Sequence[Policy], str], Iterable[Check]],
) -> Probe:
    return Probe(name, function, simulation.NEEDS, lambda: judge(site, policies, function))


def _needed(site: Site, policies: Sequence[Policy], of: str) -> Iterator[Check]:
    asked = _asked(site, of, grants.needed(site.arns, policies), control_grants.needed)
    missing, unjudged = _refusals(site, asked)
    if missing:
        to_do = f"{DEPLOY}: the rights follow from the policies; if they are refused then, a boundary takes them away"
        yield Check.failed(CheckName.GRANTS, of, f"it may not {listed(missing)}", to_do)
    if unjudged:
        yield Check.unknown(CheckName.GRANTS, of, f"{UNJUDGED}: {listed(unjudged)}", ASK_AWS)
    if not missing and not unjudged:
        found = f"allowed: {sum(len(grant.actions) for grant in asked)} rights on {len(_resources(asked))} resources"
        yield Check.ok(CheckName.GRANTS, of, f"{found}, as far as its own policies go")


def _refusals(site: Site, asked: Sequence[Grant]) -> tuple[list[str], list[str]]:
    """What is denied; and what is refused only because a simulation does not heed the condition of its grant."""
    refused = [(grant, actions) for grant in asked if (actions := _refused(site, grant))]
    heeded = not any(grant.context for grant, _ in refused) or simulation.heeds_context(_iam(site))
    missing, unjudged = list[str](), list[str]()
    for grant, actions in refused:
        (missing if heeded or not grant.context else unjudged).extend(_texts(grant, actions))
    return missing, unjudged


def _excess(site: Site, policies: Sequence[Policy], of: str) -> Iterator[Check]:
    asked = _asked(site, of, grants.excessive(site.arns, policies), control_grants.excessive)
    allowed, unjudged = _allowances(site, asked)
    if allowed:
        to_do = f"take it away from {site.role(of)}: least privilege is one of the promises"
        yield Check.failed(CheckName.EXCESS, of, f"it may {listed(allowed)}", to_do)
    if unjudged:
        yield Check.unknown(CheckName.EXCESS, of, f"{UNJUDGED}: {listed(unjudged)}", ASK_AWS)
    if not allowed and not unjudged:
        yield Check.ok(CheckName.EXCESS, of, "it may neither delete evidence nor do what is another function's")


def _allowances(site: Site, asked: Sequence[Grant]) -> tuple[list[str], list[str]]:
    """What is allowed; and what is only because a simulation does not heed the condition of its grant."""
    found = [(grant, actions) for grant in asked if (actions := set(grant.actions) - set(_refused(site, grant)))]
    heeded = not any(grant.context for grant, _ in found) or simulation.heeds_context(_iam(site))
    allowed, unjudged = list[str](), list[str]()
    for grant, actions in found:
        (allowed if heeded or not grant.context else unjudged).extend(_texts(grant, actions))
    return allowed, unjudged


def _asked(site: Site, of: str, listed: Iterable[Grant], of_control: OfControl) -> list[Grant]:
    """Those of one function."""
    asked = of_control(site.arns, site.control_arns) if of in CONTROL else listed
    return [grant for grant in asked if grant.function == of]


def _refused(site: Site, grant: Grant) -> list[str]:
    role = site.role(grant.function)
    return simulation.refused(_iam(site), role, grant.actions, grant.resource, grant.context)


def _iam(site: Site) -> Any:
    return site.client("iam", attempts=5)  # dozens of calls in a row, to a service that throttles early


def _texts(grant: Grant, actions: Iterable[str]) -> list[str]:
    return [f"{action} on {grant.resource}" for action in sorted(actions)]


def _resources(asked: Sequence[Grant]) -> set[str]:
    return {grant.resource for grant in asked}
