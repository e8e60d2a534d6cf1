"""Writing a plan: item by item, as evidence is read."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from itertools import islice

import typer

from sexton import plan
from sexton.cli_errors import trouble
from sexton.cli_output import cell, say, stream_json
from sexton.cli_tables import when
from sexton.deployment import Deployment
from sexton.errors import SextonError
from sexton.escaping import escaped
from sexton.plan import PlannedItem


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
    try:
        stream_json(items) if as_json else _write_lines(items)
    except SextonError as error:
        # What stands on stdout is a document without its end, which no reader takes for a whole plan.
        trouble(error).tell(as_json=as_json, data_begun=True)
        raise typer.Exit(1) from error


def _write_lines(items: Iterable[PlannedItem]) -> None:
    """Lines and no table: a plan can have millions of items, and the widths would be known at its end."""
    for item in items:
        print("  ".join(_columns(item)))


def _columns(item: PlannedItem) -> Iterator[str]:
    yield f"{item.part}:{item.index:04d}"
    yield cell(when(item.last_modified))
    yield f"{item.size:>12,}"
    yield escaped("delete marker" if item.is_marker else item.storage_class)
    yield escaped(item.key)
    if item.version_id is not None:
        yield escaped(item.version_id)
