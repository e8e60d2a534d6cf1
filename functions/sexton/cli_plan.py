"""Writing a plan: item by item, as evidence is read."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from sexton import cli_items, plan
from sexton.cli_output import cell, put, put_json, say, table
from sexton.cli_tables import when
from sexton.deployment import Deployment
from sexton.errors import UnknownRun
from sexton.escaping import escaped
from sexton.item import RECORD
from sexton.ledger import parsed
from sexton.money import Money, in_words
from sexton.plan import PlannedItem
from sexton.reading import policy_of
from sexton.report_html import MARKERS, NO_PRICE, origin, sentences

if TYPE_CHECKING:
    from rich.console import RenderableType


def show(
    deployment: Deployment, run_id: str, *, limit: int | None, sample: int | None, seed: int | None, as_json: bool
) -> None:
    """Write the items asked for, until a part is not as planned: then exit 1. Raises NoPlan."""
    evidence = deployment.evidence
    planned = plan.read(evidence, run_id)
    if sample is not None:
        seed = secrets.randbelow(2**31) if seed is None else seed
        items = plan.sample(evidence, planned, sample, seed)
        say(f"{min(sample, planned.planned):,} of {planned.planned:,} items by chance; again with --seed {seed}")
    else:
        items = islice(plan.items(evidence, planned), limit)
        say(f"{min(limit or planned.planned, planned.planned):,} of {planned.planned:,} items")
    say(f"plan digest {planned.digest or '(the plan was never complete)'}")
    cli_items.write(items, _line, as_json=as_json)


def money(deployment: Deployment, run_id: str, *, as_json: bool) -> None:
    """Write what carrying out a plan comes to at list price. Raises NoPlan, UnknownRun, EvidenceAltered."""
    planned = plan.read(deployment.evidence, run_id)
    run = deployment.ledger.run(parsed(run_id))
    if run is None:
        raise UnknownRun(f"the ledger holds no run {run_id} any more; its report in evidence has what it came to")
    policy = policy_of(deployment.evidence, run, None)
    marked = run.versioned and policy.action == "expire"
    worth = plan.worth(deployment.evidence, planned, policy, deployment.clock(), deployment.region, marked)
    if as_json:
        put_json({"run_id": run_id, **worth.to_fields()})
        return
    if not policy.of_bucket:
        put([NO_PRICE])
        return
    put([*_money_table(worth), *sentences(worth), f"In {worth.region}. {origin(worth)}"])


def _money_table(worth: Money) -> Iterator[RenderableType]:
    if worth.lines:
        amounts = ("a month", "early deletion")
        yield table(
            ("storage class", "space", "objects", "bytes", *amounts),
            (
                (
                    MARKERS if line.of_markers else line.storage_class,
                    line.space.value,
                    line.items.count,
                    line.items.bytes,
                    "nothing stored" if line.of_markers else in_words(line.saving),
                    in_words(line.early_charge),
                )
                for line in worth.lines
            ),
            right=("objects", "bytes", *amounts),
        )


def _line(item: PlannedItem) -> str:
    return "  ".join(_columns(item))


def _columns(item: PlannedItem) -> Iterator[str]:
    yield f"{item.part}:{item.index:04d}"
    yield cell(when(item.last_modified))
    yield f"{item.size:>12,}"
    record = item.storage_class == RECORD
    yield escaped("delete marker" if item.is_marker else "record" if record else item.storage_class)
    yield escaped(item.key)
    if item.version_id is not None:
        yield escaped(item.version_id)
