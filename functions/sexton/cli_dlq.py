"""Commands about dead letters: look at them, try them again, close them, tidy their queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.cli_change import ask, connect
from sexton.cli_options import Json, Reason, Stack, needed
from sexton.errors import ReasonClass

if TYPE_CHECKING:
    from sexton.controlling import JobsChanged
    from sexton.dead_letters import DeadLetter
    from sexton.deployment import Deployment
    from sexton.job import Job
    from sexton.redriving import Redrive
    from sexton.strays import Strays

app = typer.Typer()

POLL = 2.0  # seconds between two looks at a redrive
NONE_MEANT = "no dead job is meant by that"
MOST_SWEEPS = 1000  # requests: as many as 100,000 messages take

JobArguments = Annotated[list[str] | None, typer.Argument(metavar="JOB", help="Ids of dead jobs.")]
OfRun = Annotated[str, typer.Option("--run", metavar="RUN", help="All dead jobs of this run.")]
OfClass = Annotated[
    ReasonClass | None,
    typer.Option("--reason-class", metavar="CLASS", help="All that died of this class of reason."),
]
ReasonIfDone = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; needed for what is changed.")]


@app.command("list")
def dlq_list(
    strays: Annotated[
        bool, typer.Option("--strays", help="Instead, the queue's copies of jobs that are dead no longer.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Without what a replay would do now, for which objects are looked at.")
    ] = False,
    as_json: Json = False,
    stack: Stack = "Sexton",
) -> None:
    """List the dead jobs, from the ledger: why each died, what to do, and what a replay would do now."""
    from sexton import cli_change_tables, cli_tables
    from sexton.cli_output import put, put_json, say

    deployment = connect(stack)
    if strays:
        _show_strays(_peek(deployment), as_json=as_json)
        return
    found = list(_letters(deployment, quick=quick))
    if as_json:
        put_json(found)
        return
    if found:
        put(cli_tables.dead_letters(found))
    else:
        say("nothing is dead")
    if found and not quick:
        put(["", *cli_change_tables.replays(found)])
    _mention_strays(deployment)


@app.command("show")
def dlq_show(
    job: Annotated[str, typer.Argument(metavar="JOB", help="The job's id.")],
    as_json: Json = False,
    stack: Stack = "Sexton",
) -> None:
    """Show a job with its whole history, and what a replay would do now."""
    from sexton import cli_change_tables
    from sexton.cli_output import put, put_json
    from sexton.job_history import job_history

    deployment = connect(stack)
    found = job_history(deployment.ledger, job, deployment.clock(), deployment.preview)
    if as_json:
        put_json(found)
    else:
        put(cli_change_tables.job(found))


@app.command("replay")
def dlq_replay(
    jobs: JobArguments = None,
    reason: ReasonIfDone = "",
    run: OfRun = "",
    reason_class: OfClass = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what a replay would do now.")] = False,
    as_json: Json = False,
    stack: Stack = "Sexton",
) -> None:
    """Try dead jobs again, as part of their runs. Exit 1 if one was refused or none meant."""
    from sexton import cli_change_tables
    from sexton.cli_output import put, put_json, say

    if dry_run:
        meant = _meant(jobs, run, reason_class)
        chosen = list(_letters(connect(stack), only=meant))
        if as_json:
            put_json(chosen)
        elif chosen:
            put(cli_change_tables.replays(chosen))
        else:
            say(NONE_MEANT)
        raise typer.Exit(0 if chosen else 1)
    _change_each(stack, "dlq_replay", "replayed", jobs, run, reason_class, reason, as_json=as_json)


@app.command("resolve")
def dlq_resolve(
    reason: Reason,
    jobs: JobArguments = None,
    run: OfRun = "",
    reason_class: OfClass = None,
    as_json: Json = False,
    stack: Stack = "Sexton",
) -> None:
    """Close dead jobs as they are: the next run plans anew what is left. Exit 1 if one was refused or none meant."""
    _change_each(stack, "dlq_resolve", "resolved", jobs, run, reason_class, reason, as_json=as_json)


@app.command("sweep")
def dlq_sweep(reason: Reason, as_json: Json = False, stack: Stack = "Sexton") -> None:
    """Remove from the queue what is no dead letter any more; dead letters stay."""
    from sexton.cli_output import many, put_json, say
    from sexton.strays import Swept

    deployment, done = connect(stack), Swept(looked_at=0, removed=0, left=0, failed=0, more=True)
    for _ in range(MOST_SWEEPS):
        part = ask(deployment, Swept, "dlq_sweep", {}, reason)
        done = done.plus(part)
        if not part.more:
            break
        say(f"{many(done.looked_at, 'message')} looked at")
    if as_json:
        put_json(done)
    else:
        say(f"{many(done.removed, 'stray')} removed, {many(done.left, 'message')} left, {done.failed:,} not removed")
    raise typer.Exit(1 if done.failed else 0)


@app.command("redrive")
def dlq_redrive(
    reason: ReasonIfDone = "",
    max_rate: Annotated[int | None, typer.Option(min=1, max=500, help="Messages a second at most.")] = None,
    status: Annotated[bool, typer.Option("--status", help="Only say how far it is.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Stop it; what was moved stays moved.")] = False,
    as_json: Json = False,
    stack: Stack = "Sexton",
) -> None:
    """Let SQS move all dead letters back to the jobs queue, where each replays its job; and follow it."""
    from sexton.redriving import Redrive

    if status and cancel:
        raise typer.BadParameter("--status and --cancel do not go together")
    if not status:
        needed(reason)
    deployment = connect(stack)
    if status:
        _show_redrive(_latest(deployment), as_json=as_json)
        return
    if cancel:
        _show_redrive(ask(deployment, Redrive, "dlq_redrive_cancel", {}, reason), as_json=as_json)
        return
    started = ask(deployment, Redrive, "dlq_redrive", {"max_rate": max_rate} if max_rate else {}, reason)
    _show_redrive(started if as_json else _followed(deployment, started), as_json=as_json)


def _letters(
    deployment: Deployment, *, quick: bool = False, only: Callable[[Job], bool] = lambda job: True
) -> Iterator[DeadLetter]:
    from sexton.dead_letters import dead_letters

    return dead_letters(deployment.ledger, deployment.clock(), None if quick else deployment.preview, only)


def _meant(jobs: Sequence[str] | None, run: str, reason_class: ReasonClass | None) -> Callable[[Job], bool]:
    """Which dead jobs are meant. Raises BadParameter where none or too much is said."""
    if bool(jobs) == bool(run or reason_class):
        raise typer.BadParameter("name jobs, or choose them with --run or --reason-class")
    if jobs:
        return lambda job: job.job_id in jobs
    return lambda job: run in ("", job.run_id) and reason_class in (None, job.reason_class)


def _change_each(
    stack: str,
    change: str,
    verb: str,
    jobs: list[str] | None,
    run: str,
    reason_class: ReasonClass | None,
    reason: str,
    *,
    as_json: bool,
) -> None:
    from sexton.cli_output import many, put, put_json, say, table

    needed(reason)
    meant = _meant(jobs, run, reason_class)
    deployment = connect(stack)
    chosen = jobs or [each.job_id for each in _letters(deployment, quick=True, only=meant)]
    done = _asked(deployment, change, chosen, reason)
    if as_json:
        put_json(done)
    else:
        say(f"{many(len(done.done), 'job')} {verb}" if chosen else NONE_MEANT)
        if done.refused:
            put([table(("job", "not " + verb, "why"), ((r.job_id, r.code, r.message) for r in done.refused))])
        if done.not_tried:
            say(f"{many(len(done.not_tried), 'job')} not tried: ask again, done ones are refused then")
    raise typer.Exit(1 if done.refused or done.not_tried or not chosen else 0)


def _asked(deployment: Deployment, change: str, jobs: Sequence[str], reason: str) -> JobsChanged:
    """One request for as many jobs as it may have. Says how far it came if an answer is lost."""
    from sexton.change_request import MOST_JOBS
    from sexton.cli_output import say
    from sexton.controlling import JobsChanged
    from sexton.deployment import ChangeUnsure

    done = JobsChanged(done=(), refused=(), not_tried=())
    for first in range(0, len(jobs), MOST_JOBS):
        batch = [*jobs[first : first + MOST_JOBS]]
        try:
            part = ask(deployment, JobsChanged, change, {"jobs": batch}, reason)
        except ChangeUnsure:
            say(f"{len(done.done):,} were done before; of the next {len(batch):,} it is not known")
            raise
        done = done.plus(part)
        if part.not_tried:
            return done.model_copy(update={"not_tried": (*part.not_tried, *jobs[first + MOST_JOBS :])})
        if len(jobs) > MOST_JOBS:
            say(f"{first + len(batch):,} of {len(jobs):,}")
    return done


def _peek(deployment: Deployment) -> Strays:
    from sexton.change_request import MOST_SWEPT
    from sexton.strays import Straying

    return Straying(deployment.ledger, deployment.dead_letters).peek(MOST_SWEPT)


def _mention_strays(deployment: Deployment) -> None:
    """Strays beside the list; who may not look into the queue is told so, and has the list all the same."""
    from sexton.cli_output import say
    from sexton.errors import CallFailed

    try:
        found = _peek(deployment)
    except CallFailed as failed:
        say(f"the queue was not searched for strays ({failed})")
        return
    if found.strays:
        _show_strays(found, as_json=False)


def _show_strays(found: Strays, *, as_json: bool) -> None:
    from sexton import cli_change_tables
    from sexton.cli_output import many, put, put_json, say

    if as_json:
        put_json(found)
    elif found.strays:
        put(cli_change_tables.strays(found))
    else:
        say(f"no stray among {many(found.looked_at, 'message')}")
    if found.more:
        say(f"only {found.looked_at:,} messages were looked at")


def _latest(deployment: Deployment) -> Redrive | None:
    from sexton.redriving import Redriving

    return Redriving(deployment.dead_letters).latest()


def _followed(deployment: Deployment, started: Redrive) -> Redrive:
    """How it ended; whoever stops following it does not stop it."""
    from sexton.cli_output import say
    from sexton.redriving import RUNNING

    say("it goes on if you leave; sexton dlq redrive --status follows it")
    latest = started
    while latest.status == RUNNING:
        deployment.sleep(POLL)
        latest = _latest(deployment) or latest
        say(f"about {latest.moved:,} moved")
    return latest


def _show_redrive(found: Redrive | None, *, as_json: bool) -> None:
    from sexton import cli_change_tables
    from sexton.cli_output import put, put_json, say

    if found is None:
        put_json({}) if as_json else say("there was no redrive in the last days")
    elif as_json:
        put_json(found)
    else:
        put(cli_change_tables.redrive(found))
