"""The operator's command line: data on stdout, messages on stderr; exit 0 done, 1 refused or failed, 2 wrong usage.

What a command computes is in the core; here it is asked for and shown. Modules are imported by the commands that
need them, so that `sexton --help` is quick.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sexton import cli_change, cli_dlq, cli_rehearse
from sexton.cli_options import Json, RunArgument, Stack

if TYPE_CHECKING:
    from rich.console import RenderableType

    from sexton.deployment import Deployment
    from sexton.doctor import Diagnosis
    from sexton.policy import Policy

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Retention on AWS that can be proven: what a policy says has had its time is removed, and accounted for.",
)
policy_app, run_app, plan_app, dlq_app = (typer.Typer(no_args_is_help=True, rich_markup_mode=None) for _ in range(4))
app.add_typer(policy_app, name="policy", help="Policies in files.")
app.add_typer(run_app, name="run", help="Runs: start them, look at them, stop them, take them back.")
run_app.add_typer(cli_change.run_app)
app.add_typer(cli_change.app)
app.add_typer(cli_change.hold_app, name="hold", help="Holds: what must stay, whatever a policy says.")
dlq_app.add_typer(cli_dlq.app)
app.add_typer(cli_rehearse.app)
app.add_typer(plan_app, name="plan", help="What a run planned.")
app.add_typer(dlq_app, name="dlq", help="Dead letters.")


def connect(stack: str) -> Deployment:
    """The deployment that a command works on; tests put their own in its place."""
    from sexton.aws.stack import connect

    return connect(stack)


def examine(stack: str, policies: Sequence[str], folder: Path) -> Diagnosis:
    """What the doctor finds; tests put their own in its place."""
    from sexton.aws.doctor import examine

    return examine(stack, policies, folder)


def roles(stack: str) -> Mapping[str, str]:
    """The ARNs of the functions' roles by the functions' names; tests put their own in its place."""
    from sexton.aws.stack import roles

    return roles(stack)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"sexton {version('sexton')}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    """Options that stand before any command."""


@policy_app.command("check")
def policy_check(
    path: Annotated[Path, typer.Argument(help="A folder of policies, or one file.")] = Path("policies"),
    grants: Annotated[
        bool, typer.Option("--grants", help="The bucket policies that other accounts must set, instead.")
    ] = False,
    as_json: Json = False,
    stack: Annotated[str, typer.Option("--stack", help="With --grants: the stack whose roles they name.")] = "",
) -> None:
    """Check policies, and say in words what each means. Needs no AWS, unless a stack is named."""
    from sexton import cli_policies
    from sexton.cli_output import put_json
    from sexton.policy import load_policies
    from sexton.wording import Described

    found = load_policies(path)
    if grants:
        _grants(found, stack, as_json=as_json)
    elif as_json:
        put_json([Described.of(policy) for policy in found])
    else:
        _show(cli_policies.checked(found))


def _grants(policies: Sequence[Policy], stack: str, *, as_json: bool) -> None:
    from sexton import bucket_policy, cli_policies, table_role
    from sexton.cli_output import put_json, say

    own = roles(stack) if stack else bucket_policy.PLACEHOLDERS
    buckets, tables = (each.for_other_accounts(policies, own) for each in (bucket_policy, table_role))
    if as_json:
        put_json([*buckets, *tables])
    elif buckets or tables:
        _show(cli_policies.bucket_policies(buckets))
        _show(cli_policies.table_roles(tables))
    else:
        say("no policy is about a bucket or table elsewhere: the rights of the stack's own roles are enough")


@run_app.command("list")
def run_list(
    policy: Annotated[str | None, typer.Option(help="Only runs of this policy.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many, the latest scheduled first.")] = 20,
    as_json: Json = False,
    stack: Stack = "Sexton",
) -> None:
    """List runs, the latest scheduled time first."""
    from itertools import islice

    from sexton import cli_tables, showing
    from sexton.cli_output import put_json, say

    found = [showing.line(run) for run in islice(showing.runs(connect(stack).ledger, policy), limit)]
    if as_json:
        put_json(found)
    elif found:
        _show(cli_tables.run_list(found))
    else:
        say("there is no run")


@run_app.command("show")
def run_show(run: RunArgument, as_json: Json = False, stack: Stack = "Sexton") -> None:
    """Show a run with what became of its items."""
    from sexton import cli_cohorts, cli_tables, showing
    from sexton.cli_output import put_json

    deployment = connect(stack)
    view = cli_cohorts.with_cohorts(deployment, showing.show(deployment.ledger, run))
    if as_json:
        put_json(view)
    else:
        _show(cli_tables.run(view))


@run_app.command("watch")
def run_watch(
    run: RunArgument,
    timeout: Annotated[float | None, typer.Option(min=0, help="Seconds to wait at most; for ever if left out.")] = None,
    as_json: Json = False,
    stack: Stack = "Sexton",
) -> None:
    """Wait until a run has ended, then show it.

    Exit 0: completed, balanced and nothing dead, or reported. 1: ended otherwise. 3: awaits approval. 4: timeout.
    """
    from sexton import cli_cohorts, cli_tables
    from sexton.cli_output import put_json, say
    from sexton.cli_watch import AWAITING_APPROVAL, watch
    from sexton.waiting import to_approve

    deployment = connect(stack)
    view, code = watch(deployment, run, timeout)
    view = cli_cohorts.with_cohorts(deployment, view)
    if as_json:
        put_json(view)
    else:
        _show(cli_tables.run(view))
    if code == AWAITING_APPROVAL:
        say(f"next action: {to_approve(view.run_id, view.digest)}")
    raise typer.Exit(code)


@plan_app.command("show")
def plan_show(
    run: RunArgument,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many items.")] = None,
    sample: Annotated[int | None, typer.Option(min=1, help="So many items by chance, each as likely.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the sample: the same seed, the same items.")] = None,
    as_json: Json = False,
    stack: Stack = "Sexton",
) -> None:
    """Write the items of a run's plan, in order, read from evidence and checked against their hashes."""
    from sexton import cli_plan

    if sample is not None and limit is not None:
        raise typer.BadParameter("--limit and --sample do not go together")
    if seed is not None and sample is None:
        raise typer.BadParameter("--seed is of --sample")
    cli_plan.show(connect(stack), run, limit=limit, sample=sample, seed=seed, as_json=as_json)


@plan_app.command("money")
def plan_money(run: RunArgument, as_json: Json = False, stack: Stack = "Sexton") -> None:
    """Show what carrying out a run's plan comes to: bytes by class, charges, and the month's saving at list price."""
    from sexton import cli_plan

    cli_plan.money(connect(stack), run, as_json=as_json)


@plan_app.command("cohorts")
def plan_cohorts(run: RunArgument, as_json: Json = False, stack: Stack = "Sexton") -> None:
    """Show what is planned of each cohort, and what is only reported of those that are no canaries."""
    from sexton import cli_cohorts

    cli_cohorts.of_plan(connect(stack), run, as_json=as_json)


@plan_app.command("reported")
def plan_reported(
    run: RunArgument,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many items.")] = None,
    as_json: Json = False,
    stack: Stack = "Sexton",
) -> None:
    """Write what a run only reports, since its cohort is no canary, item by item."""
    from sexton import cli_cohorts

    cli_cohorts.reported_only(connect(stack), run, limit=limit, as_json=as_json)


@app.command("explain")
def explain(
    address: Annotated[str, typer.Argument(metavar="S3://BUCKET/KEY", help="The object's address.")],
    as_json: Json = False,
    stack: Stack = "Sexton",
) -> None:
    """Say what every run did with an object, and what the deployed policies would do with it now."""
    from sexton import cli_tables
    from sexton.cli_output import put_json
    from sexton.explaining import Explaining

    deployment = connect(stack)
    found = Explaining(deployment.ledger, deployment.evidence, deployment.stores, deployment.clock).explain(address)
    if as_json:
        put_json(found)
    else:
        _show(cli_tables.explanation(found))


@app.command("status")
def status_command(as_json: Json = False, stack: Stack = "Sexton") -> None:
    """Say what is unfinished and why, what is dead, what waits for a person, and what to do next."""
    from sexton import cli_tables
    from sexton.cli_output import put_json
    from sexton.status import status

    deployment = connect(stack)
    found = status(deployment.ledger, deployment.clock())
    if as_json:
        put_json(found)
    else:
        _show(cli_tables.status(found))


@app.command("view")
def view_command(
    output: Annotated[
        Path, typer.Option("--output", metavar="FILE", help="Where to write the page; over what is there.")
    ] = Path("sexton-view.html"),
    browse: Annotated[bool, typer.Option("--open", help="Open it in the browser, too.")] = False,
    as_json: Json = False,
    stack: Stack = "Sexton",
) -> None:
    """Write the page that says what is stuck, why, and what happens if it is replayed; and its name."""
    import webbrowser

    from sexton.cli_output import put, put_json
    from sexton.view import page, view

    deployment = connect(stack)
    seen = view(deployment.ledger, deployment.preview, deployment.clock())
    if as_json:
        put_json(seen)
        return
    output.write_bytes(page(stack, seen))
    put([str(output)])
    if browse:
        webbrowser.open(output.resolve().as_uri())


@app.command("tick")
def tick(as_json: Json = False, stack: Stack = "Sexton") -> None:
    """Run the reconciler now, and wait until it is through."""
    from sexton.cli_output import put_json, say
    from sexton.item import rfc3339

    deployment = connect(stack)
    at = rfc3339(deployment.clock().replace(microsecond=0))
    deployment.functions.tick({"tick": at})
    if as_json:
        put_json({"ticked": True, "at": at})
    else:
        say("the reconciler is through")


@app.command("verify")
def verify(run: RunArgument, as_json: Json = False, stack: Stack = "Sexton") -> None:
    """Recompute a run's digest and books from evidence alone, and say what differs. Exit 1 if anything does."""
    from sexton import cli_tables, verifying
    from sexton.cli_output import put_json

    found = verifying.verify(connect(stack).evidence, run)
    if as_json:
        put_json(found)
    else:
        _show(cli_tables.verdict(found))
    raise typer.Exit(0 if found.holds else 1)


@app.command("doctor")
def doctor(
    policies: Annotated[
        list[str] | None, typer.Argument(metavar="[POLICY]...", help="Policies to look at; all if left out.")
    ] = None,
    folder: Annotated[
        Path, typer.Option("--policies", help="A folder of policies to compare with, if it is there.")
    ] = Path("policies"),
    as_json: Json = False,
    stack: Stack = "Sexton",
) -> None:
    """Check that stack and store are as Sexton relies on, and say what to mend. Exit 1 if anything failed."""
    from sexton import cli_doctor
    from sexton.cli_output import put_json

    found = examine(stack, policies or (), folder)
    if as_json:
        put_json(found)
    else:
        _show(cli_doctor.diagnosis(found))
    raise typer.Exit(0 if found.holds else 1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code; what can be expected to go wrong is told without a traceback."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not _writable():
        print("error: stdout is closed, and nothing was done: the answer would be lost", file=sys.stderr)
        return 1
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that is not UTF-8 shows a code instead
    try:
        code = _command(given)
        sys.stdout.flush()
    except OSError as error:
        return _unwritten(error)
    return code


# Commands write nothing but stdout and stderr, and no reading ends so.
OF_WRITING = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EBADF}


def _writable() -> bool:
    """Whether there is a stdout. Where there is no stderr, messages go nowhere, and not among the data."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - it is open as long as the program runs
    return sys.stdout is not None


def _unwritten(error: OSError) -> int:
    """Stdout took not all. What it still has is given up, or the interpreter would complain of it at its own end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    if not isinstance(error, BrokenPipeError):  # who closes a pipe has read enough
        print(
            f"error: stdout could not be written, and the command may have been carried out: {error}", file=sys.stderr
        )
    return 1


def _command(given: Sequence[str]) -> int:
    """Carry out one command. Raises OSError where stdout cannot be written."""
    from sexton.errors import SextonError

    try:
        return int(app(given, prog_name="sexton", standalone_mode=False) or 0)
    except typer.TyperException as error:
        return _wrong_usage(error, as_json="--json" in given)
    except (SextonError, ValueError, OSError) as error:
        from sexton.cli_errors import trouble

        if isinstance(error, OSError):
            if error.errno in OF_WRITING:
                raise
            sys.stdout.flush()  # raises again if it is stdout that failed
        trouble(error).tell(as_json="--json" in given)
        return 1


def _wrong_usage(error: typer.TyperException, *, as_json: bool) -> int:
    from sexton.cli_errors import Trouble

    if type(error).__name__ == "NoArgsIsHelpError":  # its text is the help itself; typer exports no name for it
        print(error.format_message(), file=sys.stderr)
        return error.exit_code
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "sexton"
    Trouble("usage", error.format_message(), f"`{command} --help` shows what can be said").tell(as_json=as_json)
    return error.exit_code


def _show(parts: Iterable[RenderableType]) -> None:
    from sexton.cli_output import put

    put(parts)


if __name__ == "__main__":
    sys.exit(main())
