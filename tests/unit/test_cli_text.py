"""What the command line writes, word by word: escaping, policies in words, reasons to wait, errors."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from sexton import cli, cli_output, cli_tables, plan
from sexton.cli_errors import trouble
from sexton.controls import Pause
from sexton.deployment import FunctionFailed
from sexton.errors import CallFailed, EvidenceAltered, Failure, ReasonClass, UnknownRun
from sexton.escaping import escaped, harmless
from sexton.job import Job
from sexton.run import Run
from sexton.waiting import why_unfinished
from sexton.wording import in_words, length

from tests.fakes.time import START
from tests.fakes.world import policy, purge_policy, uploads_policy

ROOT = Path(__file__).resolve().parents[2]

# escaping


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("app/ü/日本 x.log", "app/ü/日本 x.log"),
        ("\x1b[31m", r"\x1b[31m"),
        ("\x9b31m", r"\x9b31m"),
        ("a\u202eb", r"a\u202eb"),
        ("a\u2028\u200b\ufeff\xad", r"a\u2028\u200b\ufeff\xad"),
        ("a\nb\tc\rd\x00", r"a\nb\tc\rd\x00"),
        ("\xa0", r"\xa0"),
        ("\udc80", r"\udc80"),
        ("\U000e0001", r"\U000e0001"),
        (r"a\nb", r"a\\nb"),
        ("[bold]x[/bold] :smile:", "[bold]x[/bold] :smile:"),
        ("", ""),
    ],
)
def test_what_could_act_on_a_screen_is_a_code(text: str, shown: str) -> None:
    assert escaped(text) == shown


@given(st.text())
def test_an_escaped_text_is_printable_and_loses_nothing(text: str) -> None:
    shown = escaped(text)
    assert shown.isprintable()
    assert _unescaped(shown) == text
    assert harmless(text).isprintable()


def _unescaped(shown: str) -> str:
    """Backslash codes taken back, everything else as it is."""
    return "".join(
        piece.encode("latin-1", "backslashreplace").decode("unicode_escape") if piece.startswith("\\") else piece
        for piece in _pieces(shown)
    )


def _pieces(shown: str) -> list[str]:
    lengths, pieces, at = {"x": 4, "u": 6, "U": 10}, [], 0
    while at < len(shown):
        width = lengths.get(shown[at + 1], 2) if shown[at] == "\\" else 1
        pieces.append(shown[at : at + width])
        at += width
    return pieces


def test_a_cell_takes_markup_for_text(capsys: pytest.CaptureFixture[str]) -> None:
    cli_output.put([cli_output.table(("key",), [("[red]x[/red] :smile: \x1b[0m",)])])
    assert r"[red]x[/red] :smile: \x1b[0m" in capsys.readouterr().out


def test_a_pipe_gets_whole_lines(capsys: pytest.CaptureFixture[str]) -> None:
    long = "k" * 3000
    cli_output.put([cli_output.table(("key", "size"), [(long, 1)]), cli_output.facts([("key", long)])])
    out = capsys.readouterr().out
    assert out.count(long) == 2
    assert all(line == line.rstrip() for line in out.splitlines())


def printed(width: int, *parts: Any) -> list[str]:
    out = StringIO()
    console = Console(file=out, width=width, markup=False, emoji=False, highlight=False)
    for part in parts:
        console.print(part, crop=False)
    return out.getvalue().splitlines()


ID = "logs-expire.20260301T120000Z.1.00000001.0415"
SENTENCE = "mend what the code names (a permission, a bucket, a policy); the next run plans it anew"


def test_a_narrow_terminal_folds_sentences_and_breaks_no_word() -> None:
    lines = printed(80, cli_output.table(("job", "next action"), [(ID, SENTENCE), (ID, "nothing")]))
    assert all(len(line) <= 80 for line in lines)
    assert sum(ID in line for line in lines) == 2
    words = [word for line in lines[2:] for word in line.replace(ID, "").split()]
    assert words == [*SENTENCE.split(), "nothing"]


def test_a_table_without_room_for_its_words_is_told_row_by_row() -> None:
    table = cli_output.table(("job", "items", "why", "next action", "run"), [(ID, 1, "", SENTENCE, ID)] * 2)
    lines = printed(80, table)
    assert all(len(line) <= 80 for line in lines)
    assert lines[0].split() == ["job", ID]
    assert lines[1].split() == ["items", "1"]
    assert lines[-1].split() == ["run", ID]
    assert lines.count("") == 1
    assert len(printed(300, table)) == 4


@given(st.lists(st.tuples(st.text(), st.text(), st.integers()), min_size=1), st.integers(40, 200))
def test_no_width_cuts_a_cell(rows: list[tuple[str, str, int]], width: int) -> None:
    shown = "".join("".join(printed(width, cli_output.table(("a", "b", "c"), rows, right=("c",)))).split())
    for row in rows:
        assert Counter("".join(map(cli_output.cell, row)).replace(" ", "").replace("-", "")) <= Counter(shown)


# numbers and times


@pytest.mark.parametrize(
    ("seconds", "text"), [(-5, "0 min 0 s"), (61, "1 min 1 s"), (7260, "2 h 1 min"), (90_000, "1 d 1 h")]
)
def test_ages(seconds: int, text: str) -> None:
    assert cli_tables.ago(max(0, seconds)) == text


@pytest.mark.parametrize(
    ("of", "text"),
    [
        (timedelta(days=1), "1 day"),
        (timedelta(hours=36), "1 day and 12 hours"),
        (timedelta(seconds=61), "1 minute and 1 second"),
    ],
)
def test_lengths_in_words(of: timedelta, text: str) -> None:
    assert length(of) == text


# samples


@given(st.integers(0, 200), st.integers(1, 50), st.integers(0, 2**31))
def test_a_sample_is_of_different_places_in_order(of: int, size: int, seed: int) -> None:
    found = plan.chosen(of, size, seed)
    assert len(found) == min(of, size)
    assert found == sorted(set(found)) == plan.chosen(of, size, seed)
    assert all(0 <= place < of for place in found)


def test_every_place_is_as_likely() -> None:
    drawn = [place for seed in range(4000) for place in plan.chosen(10, 3, seed)]
    assert all(1000 < drawn.count(place) < 1400 for place in range(10))


def test_a_seed_means_the_same_sample_for_ever() -> None:
    assert plan.chosen(1_000_000, 3, 7) == [150_849, 323_832, 650_934]


# policies in words


def test_a_policy_in_words_says_all_that_it_means() -> None:
    words = " ".join(
        in_words(
            policy(
                schedule="cron(30 2 * * ? *)",
                timezone="Europe/Berlin",
                retain="P1Y6M",
                approval="first",
                recovery="versioning",
                source={
                    "kind": "s3",
                    "bucket": "logs",
                    "prefixes": ["app/", "web/"],
                    "include": {"suffixes": [".log"], "min_size": 1},
                    "exclude": {"prefixes": ["app/audit/"]},
                },
                limits={"max_items": 5000, "max_share": 0.25},
            )
        )
    )
    for part in (
        "s3://logs/app/ or s3://logs/web/",
        "ends in .log and has at least 1 bytes",
        "1 year and 6 months",
        "Spares what lies under app/audit/",
        "Europe/Berlin",
        "approval",
        "5,000 objects, or more than 25.0%",
        "versions",
        "6 hours",
    ):
        assert part in words


def test_a_report_promises_not_to_remove() -> None:
    words = in_words(policy(mode="report", age_from={"key_date": "dt=%Y-%m-%d"}))
    assert words[0].startswith("Reports, and does not remove,")
    assert "dt=%Y-%m-%d" in words[0]
    assert not any("taken back" in sentence for sentence in words)


def test_versions_tags_and_uploads_in_words() -> None:
    tags = {"include": {"tags": {"team": "a", "class": "scratch"}}, "exclude": {"tags": {"keep": "yes"}}}
    versions = " ".join(in_words(purge_policy(keep_latest=2, purge_markers=True, **tags)))
    for part in (
        "each noncurrent version under s3://logs/app/ that is tagged class=scratch and team=a",
        "once it has been noncurrent for more than 30 days",
        "Spares what is tagged keep=yes",
        "the 2 newest noncurrent versions of each key",
        "delete markers too",
    ):
        assert part in versions
    assert "each incomplete multipart upload" in in_words(uploads_policy())[0]
    assert "once it was begun more than 7 days ago" in in_words(uploads_policy())[0]
    assert "once the date in its tag created (%Y-%m-%d)" in in_words(policy(age_from={"tag": "created"}))[0]


def test_policy_check_needs_no_stack(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["policy", "check", str(ROOT / "policies")]) == 0
    people = capsys.readouterr().out
    assert cli.main(["policy", "check", str(ROOT / "policies"), "--json"]) == 0
    for found in json.loads(capsys.readouterr().out):
        assert found["version"] in people
        assert all(sentence in people for sentence in found["means"])


def test_policy_check_tells_every_problem(capsys: pytest.CaptureFixture[str]) -> None:
    broken = str(ROOT / "tests/fixtures/policies/broken/values.yaml")
    assert cli.main(["policy", "check", broken]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("error: ") > 10
    assert "values.yaml:1:" in err
    assert cli.main(["policy", "check", broken, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "broken_policy"


# why a run is not finished


def run(**fields: object) -> Run:
    row = {
        "run_id": "logs-expire.20260301T120000Z.1",
        "policy": "logs-expire",
        "policy_version": "v",
        "scheduled_time": START,
        "cutoff": START,
        "n": 1,
        "mode": "enforce",
        "state": "draining",
        "rev": 1,
        "created_at": START,
        "started_by": "schedule",
    }
    return Run.model_validate(row | fields)


def job(**fields: object) -> Job:
    row = {
        "job_id": "logs-expire.20260301T120000Z.1.00000000",
        "run_id": "logs-expire.20260301T120000Z.1",
        "policy": "logs-expire",
        "seq": "00000000",
        "state": "ready",
        "rev": 1,
        "part_key": "p",
        "part_sha256": "s",
        "start": 0,
        "end": 2,
        "count": 2,
        "open_items": 2,
        "span": 2,
        "first_key": "a",
        "last_key": "b",
        "attempt": 2,
    }
    return Job.model_validate(row | fields)


MINUTE = timedelta(minutes=1)
FAILED: dict[str, Any] = {"reason": "SlowDown", "reason_class": "throttled", "summary": "slow down"}


@pytest.mark.parametrize(
    ("of", "oldest", "because", "action"),
    [
        (run(state="planning", planner_until=START + MINUTE), None, "being planned", "nothing to do"),
        (run(state="planning"), None, "put down", "nothing to do"),
        (run(state="planning", created_at=START - 9 * MINUTE), None, "put down", "sexton tick"),
        (run(state="planned", planned_at=START), None, "limits are judged next", "nothing to do"),
        (run(state="awaiting_approval", held_because=["too_many_items: 9"]), None, "too_many_items: 9", "plan show"),
        (run(state="reported"), None, "report", "expires"),
        (run(state="halted", reason="breaker"), None, "breaker", "resume"),
        (run(state="invalidated", reason="policy_changed", message="new"), job(), "policy_changed: new", "nothing"),
        (run(mismatch_since=START), job(), "another policy version", "policy_changed"),
        (run(state="dispatching"), None, "being sent", "nothing to do"),
        (run(), None, "closes its books", "nothing to do"),
        (run(), job(state="leased", lease_expires_at=START + MINUTE), "with a worker (attempt 2)", "nothing to do"),
        (run(), job(state="leased", lease_expires_at=START - MINUTE), "no record", "nothing to do"),
        (run(), job(state="leased", lease_expires_at=START - 9 * MINUTE), "no record", "sexton tick"),
        (run(), job(not_before=START + MINUTE, **FAILED), "SlowDown: slow down; it is tried again", "pace"),
        (run(), job(dispatch_due=START - MINUTE), "waits to be sent", "nothing to do"),
        (run(), job(dispatch_due=START - 9 * MINUTE, **FAILED), "waits to be sent", "sexton tick"),
        (run(), job(dispatch_due=START + MINUTE), "is in the queue", "nothing to do"),
        (run(), job(dispatch_due=START + MINUTE, reason="stopped", reason_class="stopped"), "in the queue", "nothing"),
    ],
)
def test_every_state_has_a_reason_and_a_next_action(of: Run, oldest: Job | None, because: str, action: str) -> None:
    why = why_unfinished(of, oldest, START)
    assert because in why.because
    assert action in why.next_action


def test_a_paused_policys_run_says_who_paused_it_and_how_it_goes_on() -> None:
    pause = Pause(scope="all", paused=True, since=START, actor="me", reason="a wrong prefix")
    why = why_unfinished(run(), job(), START, pause)
    assert "every policy is paused since" in why.because
    assert "by me: a wrong prefix" in why.because
    assert "sexton resume --reason" in why.next_action
    assert why_unfinished(run(state="invalidated"), job(), START, pause).because.startswith("it was invalidated")


# errors


def call(code: str, reason_class: ReasonClass = ReasonClass.PERMANENT) -> CallFailed:
    return CallFailed(Failure(reason_class, code, "what the service said"))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (call("NoCredentialsError"), "no_credentials"),
        (call("ExpiredToken", ReasonClass.TRANSIENT), "no_credentials"),
        (call("NoRegionError"), "no_region"),
        (call("EndpointConnectionError", ReasonClass.TRANSIENT), "endpoint_down"),
        (call("AccessDenied"), "missing_permission"),
        (call("ThrottlingException", ReasonClass.THROTTLED), "throttled"),
        (call("NoSuchBucket"), "call_failed"),
        (EvidenceAltered("gone"), "evidence_altered"),
        (UnknownRun("none"), "unknown_run"),
        (FunctionFailed("broke"), "function_failed"),
    ],
)
def test_every_error_has_a_code_a_message_and_a_hint(error: Any, code: str) -> None:
    told = trouble(error)
    assert told.code == code
    assert told.message
    assert told.hint


# the program


@pytest.mark.parametrize(
    ("arguments", "shell", "told"),
    [
        ("--version", ">&-", "error: stdout is closed"),
        ("policy check --json", ">&-", "error: stdout is closed"),
        ("policy check nowhere --json", ">&-", "error: stdout is closed"),
        ("--version", "> /dev/full", "error: stdout could not be written"),
        ("policy check --json", "> /dev/full", "error: stdout could not be written"),
        ("policy check nowhere --json", "> /dev/full", "error: stdout could not be written"),
        ("--version", "2>&- > /dev/full", ""),
    ],
)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_stdout_that_takes_nothing_is_told_in_one_line(
    arguments: str, shell: str, told: str, unbuffered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    command = f"{sys.executable} -m sexton.cli {arguments} {shell}"
    ended = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr.startswith(told)
    assert len(ended.stderr.splitlines()) == bool(told)


def test_messages_do_not_get_among_the_data_where_there_is_no_stderr() -> None:
    command = f"{sys.executable} -m sexton.cli no-such-command 2>&-"
    ended = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("sexton ")
    assert cli.main(["--help"]) == 0
    assert "explain" in capsys.readouterr().out
    assert cli.main([]) == 2
    assert "Usage:" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["run"], ["run", "show"], ["run", "list", "--limit", "0"], ["--x"]]
)
def test_wrong_usage_is_two_and_on_stderr(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err
