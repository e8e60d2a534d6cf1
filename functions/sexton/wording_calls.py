"""What a policy that calls an endpoint does, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sexton.duration import to_text
from sexton.endpoint_action import HttpAction
from sexton.policy import Policy


def verb(policy: Policy) -> str:
    """What is done with each record: `Calls carriers.example.com for`. Of a policy that reports, what is not."""
    assert isinstance(policy.action, HttpAction)
    hosts = " or ".join(policy.action.hosts)
    return f"Calls {hosts} for" if policy.mode == "enforce" else f"Reports, and does not call {hosts} for,"


def sentences(action: HttpAction, judged: str) -> Iterator[str]:
    """What a call is and what its answers mean; `judged` names what must not change."""
    yield (
        f"A call is a {action.method} of {action.url}, with one Idempotency-Key over all attempts and replays; the"
        f" record itself is left alone. One whose {_any([judged, *action.fields])} has changed since it was planned is"
        " not called for."
    )
    for header, secret in sorted(action.headers.items()):
        yield f"Its header {header} is the secret {secret}."
    gone = f", and {_any(action.gone)} that there was nothing to do" if action.gone else ""
    yield f"An answer {_any(action.success)} says that it was done{gone}; nothing else does."
    yield (
        "A call that may have been carried out is made again."
        if action.idempotent
        else "A call that may have been carried out is not made again: its job is dead, and a person must find out."
    )
    yield f"Each worker makes {action.rate:g} calls a second at most; one takes {to_text(action.timeout)} at most."


def _any(values: Iterable[object]) -> str:
    return " or ".join(map(str, values))
