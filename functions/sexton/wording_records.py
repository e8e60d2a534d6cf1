"""What a policy does with records, in words."""

from __future__ import annotations

from collections.abc import Iterator

from sexton.action import Mark
from sexton.policy import Policy

_VERBS = {"archive": "Archives and removes"}
_PASSIVES = {"mark": "is marked"}
_NOUNS = {"mark": "mark", "http": "call"}
ERASURE = (
    "The whole record is written to evidence before it goes, and stays there: where it must be erased, as personal data"
    " may have to be, an archive defeats that."
)


def verb(policy: Policy) -> str:
    """What is done with each record: `Sets retired to true on`. Of a policy that reports, that it is not done."""
    if policy.mode != "enforce":
        return f"Reports, and does not {policy.does if policy.does in ('mark', 'archive') else 'remove'},"
    if isinstance(policy.action, Mark):
        value = policy.action.value
        shown = str(value).lower() if isinstance(value, bool) else repr(value)
        return f"Sets {policy.action.attribute} to {shown} on"
    return _VERBS.get(policy.does, "Removes")


def together(policy: Policy, judged: str) -> Iterator[str]:
    """How effect and outcome are one, where the table lies beside the ledger; `judged` names what must not change."""
    yield (
        f"A record {_PASSIVES.get(policy.does, 'goes')} in one transaction with its outcome;"
        f" one whose {judged} has changed since it was planned stays."
    )
    if isinstance(policy.action, Mark):
        yield "One that bears the mark already is left alone."
    if policy.does == "archive":
        yield ERASURE


def noun(policy: Policy) -> str:
    """What is to be taken back: a deletion, a mark, or a call."""
    return _NOUNS.get(policy.does, "deletion")
