"""A run by cohort, for people: the largest on lines of their own, all others on one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from pydantic import AwareDatetime, BaseModel, ConfigDict

from sexton import by_cohort, cli_items, plan, reading_reported, showing_cohorts
from sexton.by_cohort import ENDINGS, ByCohort, OthersByCohort, RunByCohort
from sexton.cli_output import put, put_json, say, table
from sexton.cohort import name_of
from sexton.deployment import Deployment
from sexton.errors import EvidenceAltered
from sexton.escaping import escaped
from sexton.item import Item, rfc3339
from sexton.plan import NoPlan
from sexton.reading import kept_policy
from sexton.report import readable_bytes
from sexton.showing import RunView

if TYPE_CHECKING:
    from rich.console import RenderableType

SHOWN = 20  # as many as fit a screen; `--json` has up to 100


def with_cohorts(deployment: Deployment, view: RunView) -> RunView:
    """The run with its counts by cohort, if its policy names cohorts. What evidence cannot tell is said."""
    run = deployment.ledger.find(view.run_id)
    try:
        return view.model_copy(update={"cohorts": showing_cohorts.of_run(deployment.evidence, run)})
    except NoPlan:
        return view
    except EvidenceAltered as altered:
        say(f"the counts by cohort cannot be shown: {altered}")
        return view


def of_plan(deployment: Deployment, run_id: str, *, as_json: bool) -> None:
    """Write what a plan has of each cohort. Raises NoPlan, EvidenceAltered."""
    planned = plan.read(deployment.evidence, run_id).cohorts
    found = by_cohort.of_plan(planned) if planned else RunByCohort(largest=(), others=None)
    if as_json:
        put_json(found)
    elif planned:
        put([lines(found)])
    else:
        say("its policy names no cohorts")


class ReportedItem(BaseModel):
    """One item that had its time, and is left alone because its cohort is no canary."""

    model_config = ConfigDict(frozen=True)

    cohort: str
    key: str
    size: int
    storage_class: str
    last_modified: AwareDatetime | None
    version_id: str | None


def reported_only(deployment: Deployment, run_id: str, *, limit: int | None, as_json: bool) -> None:
    """Write what a plan only reports, until a file is not what was written: then exit 1. Raises NoPlan."""
    planned = plan.read(deployment.evidence, run_id)
    policy = kept_policy(deployment.evidence, planned.policy, planned.policy_version)
    written = planned.cohorts.reported if planned.cohorts else None
    named = name_of(policy.cohort) if policy.cohort else lambda _: ""
    found = (_reported(named(item), item) for item in reading_reported.items(deployment.evidence, run_id, written))
    cli_items.write(islice(found, limit), _line, as_json=as_json)


def _reported(cohort: str, item: Item) -> ReportedItem:
    return ReportedItem(
        cohort=cohort,
        key=item.key,
        size=item.size,
        storage_class=item.storage_class,
        last_modified=item.last_modified,
        version_id=item.version_id,
    )


def _line(item: ReportedItem) -> str:
    at = rfc3339(item.last_modified) if item.last_modified else "-"
    texts = (escaped(text) for text in (item.cohort, item.key, item.version_id or ""))
    return f"{at}  {item.size:>12,}  {'  '.join(texts)}".rstrip()


def lines(found: RunByCohort) -> RenderableType:
    """The table. It has endings once there are some, and what was only reported if anything was."""
    shown = found.first(SHOWN)
    every = [*shown.largest, *([shown.others] if shown.others else [])]
    ended = any(line.deleted is not None for line in every)
    reported = any(line.report_only for line in every)
    headers = [
        *("cohort", "scanned", "planned", "size"),
        *(ENDINGS if ended else ()),
        *(("reported only", "size of these") if reported else ()),
    ]
    rows = (tuple(_cells(line, ended=ended, reported=reported)) for line in every)
    return table(tuple(headers), rows, right=tuple(headers[1:]))


def _cells(line: ByCohort, *, ended: bool, reported: bool) -> Iterator[object]:
    yield _name(line)
    yield line.scanned
    yield line.planned
    yield readable_bytes(line.planned_bytes)
    if ended:
        yield from (getattr(line, ending) for ending in ENDINGS)
    if reported:
        yield line.report_only or 0
        yield readable_bytes(line.report_only_bytes or 0)


def _name(line: ByCohort) -> str:
    if not isinstance(line, OthersByCohort):
        return line.cohort
    return f"({'more than ' if line.at_least else ''}{line.cohorts:,} others)"
