"""The demo as a whole, its ways to end, and the parts that the whole cannot show."""

from __future__ import annotations

import http.client
import os
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from sexton.attributes import canonical
from sexton.item import ItemId
from sexton.policy import load_policies

from infra.local import emulator as emulators
from infra.local.demo import __main__ as demo
from infra.local.demo import application as applications
from infra.local.demo import checking, gate, serving
from infra.local.demo import policies as examples
from infra.local.demo.application import TOKEN, Application, Heard, Mood
from infra.local.demo.hands import DemoError
from infra.local.demo.records import MOODS, QUOTES, records
from infra.local.demo.seeds import LOGS, MEDDLED, RECORDS, SEALED, SEVERAL_A_KEY, Fate, Kind, Meddling, Seed, seeds
from infra.local.demo.story import Story
from infra.local.stage import ROOT, client

WHOLE_SECONDS = 600  # a shared machine can be slow; alone it takes about one minute
INTERRUPTED_SECONDS = 60
COMMAND = [sys.executable, "-m", "infra.local.demo"]

# It has a stage of its own, so it need not wait for the other tests', nor they for it.
pytestmark = pytest.mark.xdist_group("demo")


# The whole


@pytest.fixture
def work() -> Iterator[Path]:
    """The folder for temporary files, by which the demo's processes are known."""
    with tempfile.TemporaryDirectory(prefix="demo-test-", dir=demo.scratch()) as folder:
        yield Path(folder)


def left_behind(work: Path) -> list[str]:
    """The live processes that have our folder in their environment: emulators, functions, tools of the demo."""
    if not Path("/proc/self/environ").exists():
        pytest.skip("only Linux shows what environment a process has")
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment, command = (process / "environ").read_bytes(), (process / "cmdline").read_bytes()
        except (PermissionError, FileNotFoundError, ProcessLookupError):
            continue
        if os.fsencode(work) in environment:
            found.append(command.replace(b"\0", b" ").decode())
    return found


@pytest.mark.timeout(WHOLE_SECONDS)
def test_every_object_ends_as_expected_and_nothing_stays(work: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, f"--folder={tmp_path / 'kept'}"],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(work)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    for said in (
        "Every object and record ended as expected",
        "1,416 planned = 1,412 deleted + 3 skipped + 1 dead + 0 cancelled, each item exactly once.",
        "82 planned = 81 deleted + 1 skipped + 0 dead + 0 cancelled, each item exactly once.",
        "41 planned = 40 deleted + 1 skipped + 0 dead + 0 cancelled, each item exactly once.",
        "kept: of no canary, so only reported",
        "10 runs, and as many duplicates that found theirs",
        "21 planned = 20 deleted + 1 skipped + 0 dead + 0 cancelled, each item exactly once.",
        "153 planned = 150 deleted + 3 skipped + 0 dead + 0 cancelled, each item exactly once.",
        "120 planned = 120 deleted + 0 skipped + 0 dead + 0 cancelled, each item exactly once.",
        "app/worker/sealed.log",
        "AccessDenied (permanent)",
        "31 planned = 30 deleted + 1 skipped + 0 dead + 0 cancelled, each item exactly once.",
        "12 planned = 11 deleted + 0 skipped + 1 dead + 0 cancelled, each item exactly once.",
        "http_422 (permanent)",
        "$ sexton explain s3://sexton-demo-logs/app/web/rewritten.log",
        "$ sexton verify logs-expire.",
    ):
        assert said in done.stdout
    assert list((tmp_path / "kept" / "evidence" / "outcomes").glob("logs-expire.*/*.ndjson.gz"))
    assert left_behind(work) == []
    assert list(work.iterdir()) == []


@pytest.mark.timeout(WHOLE_SECONDS)
@pytest.mark.parametrize(("number", "at"), [(signal.SIGINT, "cdk deploy: ..."), (signal.SIGTERM, " of 2,")])
def test_a_signal_ends_it_and_nothing_stays(number: signal.Signals, at: str, work: Path, tmp_path: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, f"--folder={tmp_path / 'kept'}"],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(work), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert any(at in line for line in process.stdout), "it ended before it came so far"
        time.sleep(1)
        assert left_behind(work)
        process.send_signal(number)
        said, _ = process.communicate(timeout=INTERRUPTED_SECONDS)

    assert process.returncode == 128 + number
    assert "interrupted; everything was stopped" in said
    assert left_behind(work) == []
    assert list(work.iterdir()) == []


HANGS = """
import os, signal, threading
from infra.local.demo import __main__ as demo
demo.STOPPING_SECONDS = 0.5
signal.signal(signal.SIGTERM, demo._interrupt)
try:
    os.kill(os.getpid(), signal.SIGTERM)
except demo.Interrupted:
    threading.Event().wait()
"""


def test_a_stopping_that_hangs_ends_all_the_same() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", HANGS], cwd=ROOT, env=environment, timeout=60, check=False)
    assert done.returncode == 128 + signal.SIGTERM


def test_what_the_user_has_set_for_aws_and_for_the_network_changes_nothing(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work / "config").write_text("[default]\ns3 =\n  addressing_style = virtual\n")
    for name, value in {
        "AWS_PROFILE": "nobody",
        "AWS_CONFIG_FILE": str(work / "config"),
        "AWS_SESSION_TOKEN": "of another account",
        "HTTP_PROXY": "http://127.0.0.1:9",
        "http_proxy": "http://127.0.0.1:9",
        "no_proxy": "",
    }.items():
        monkeypatch.setenv(name, value)

    with emulators.running(work) as emulator:
        assert client(emulator, "s3").list_buckets()["Buckets"] == []
        assert emulators.surroundings()["no_proxy"] == emulators.HOST


# How it ends


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["demo", f"--folder={tmp_path / 'kept'}"])
    monkeypatch.setattr(signal, "signal", lambda *_: None)


def test_a_surprise_is_told_and_fails(
    quiet: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextmanager
    def told(self: Story) -> Iterator[tuple[SimpleNamespace, str, list[str]]]:
        stage = SimpleNamespace(outputs={"EvidenceBucketName": "evidence"})
        yield stage, "logs-expire.20261130T020000Z.1", ["objects in a bucket: 1 missing"]

    monkeypatch.setattr(Story, "told", told)

    assert demo.main() == 1
    assert "NOT AS EXPECTED  objects in a bucket: 1 missing" in capsys.readouterr().out


def test_a_failure_is_told_with_the_log_that_explains_it(
    quiet: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    @contextmanager
    def told(self: Story) -> Iterator[tuple[SimpleNamespace, str, list[str]]]:
        Path(self.work, "emulator.log").write_text("what happened")
        raise DemoError("the run did not end")
        yield

    monkeypatch.setattr(Story, "told", told)

    assert demo.main() == 1
    assert "error: the run did not end" in capsys.readouterr().out
    assert (tmp_path / "kept" / "emulator.log").read_text() == "what happened"


# What is expected


def everything() -> list[Seed]:
    """All that the demo puts in."""
    now = datetime.now(UTC)
    return [*seeds(now.date()), *records(now)]


def test_each_fate_is_shown_by_something() -> None:
    assert {seed.fate for seed in everything()} == set(Fate)


def test_each_meddling_is_done_to_something() -> None:
    assert {seed.meddling for seed in everything()} == {None, *Meddling}


def test_no_two_share_a_key_but_versions_and_uploads() -> None:
    found = [(seed.store, seed.key) for seed in everything() if seed.store not in SEVERAL_A_KEY]

    assert len(set(found)) == len(found)
    assert max(len(key.encode()) for _, key in found) == 1024


def test_what_the_demo_enforces_waits_for_a_person_in_the_examples(tmp_path: Path) -> None:
    """Whoever deploys the examples as they are loses nothing that nobody had looked at, but for the plainest."""
    files = {policy.id: policy for policy in load_policies(examples.EXAMPLES)}
    deployed = {policy.id: policy for policy in load_policies(examples.write(tmp_path / "policies", "localhost:4443"))}

    assert set(deployed) == set(files) == set(checking.POLICIES.values())
    changed = {name for name, policy in deployed.items() if policy.version != files[name].version}
    assert changed == set(examples.ENFORCED)
    unattended = {name for name, policy in files.items() if (policy.mode, policy.approval) == ("enforce", "none")}
    assert unattended == {"logs-expire"}


@pytest.mark.parametrize(
    ("bucket", "outcomes", "expected"),
    [
        ({"kept", "changed"}, [("gone", "deleted"), ("changed", "skipped:changed")], 0),
        ({"changed"}, [("gone", "deleted"), ("changed", "skipped:changed")], 1),
        ({"kept", "changed", "gone"}, [("gone", "deleted"), ("changed", "skipped:changed")], 1),
        ({"kept", "changed"}, [("gone", "deleted"), ("gone", "deleted"), ("changed", "skipped:changed")], 1),
        ({"kept", "changed"}, [("gone", "deleted")], 1),
        ({"kept", "changed"}, [("gone", "deleted"), ("changed", "deleted")], 2),
    ],
)
def test_one_wrong_object_is_noticed(bucket: set[str], outcomes: list[tuple[str, str]], expected: int) -> None:
    fates = {"kept": Fate.YOUNGER, "changed": Fate.CHANGED, "gone": Fate.DELETED}
    meant = [Seed(LOGS, key, 1, fate) for key, fate in fates.items()]
    ended = [((key, None), outcome) for key, outcome in outcomes]

    found = [
        *checking.about_contents([(key, None) for key in bucket], meant, LOGS),
        *checking.about_outcomes(ended, meant, "logs-expire"),
    ]

    assert len(found) == expected


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ([("a", "2"), ("a", "3")], 0),
        ([("a", "1"), ("a", "3")], 2),  # the wrong version went
        ([("a", "3")], 1),
        ([("a", "2"), ("a", "3"), ("a", "4")], 1),  # such as a delete marker that nobody wanted
    ],
)
def test_one_wrong_version_is_noticed(there: list[ItemId], expected: int) -> None:
    fates = {"1": Fate.DELETED, "2": Fate.KEPT_LATEST, "3": Fate.CURRENT}
    meant = [Seed(RECORDS, "a", 1, fate, version_id=version_id) for version_id, fate in fates.items()]

    assert len([*checking.about_contents(there, meant, RECORDS)]) == expected


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ({"valid_until": {"S": "2026-01-01T00:00:00Z"}}, 0),
        ({"valid_until": {"S": "2026-01-01T00:00:00Z"}, "state": {"S": "open"}}, 2),  # somebody wrote to it
        (None, 1),
    ],
)
def test_one_wrong_record_is_noticed(there: dict[str, dict[str, str]] | None, expected: int) -> None:
    record = {"valid_until": {"S": "2026-01-01T00:00:00Z"}}
    kept = Seed(QUOTES, "a", 1, Fate.YOUNGER, kind=Kind.RECORD, record=record)
    found = [("a", canonical(there))] if there else []

    assert len([*checking.about_contents(found, [kept], QUOTES)]) == expected


@pytest.mark.parametrize(("found", "expected"), [(["left"], 0), ([], 1), (["left", "gone"], 1), (["left", "left"], 1)])
def test_one_wrong_item_of_what_is_only_reported_is_noticed(found: list[str], expected: int) -> None:
    meant = [Seed(LOGS, "left", 1, Fate.REPORT_ONLY), Seed(LOGS, "gone", 1, Fate.DELETED)]
    listed = Counter((key, None) for key in found)
    assert len(list(checking.about_only_reported(listed, meant, "scratch-tags"))) == expected


def test_an_upload_that_was_completed_is_looked_for_as_an_object() -> None:
    upload = Seed(LOGS, "a", 1, Fate.ABSENT, Meddling.COMPLETE, Kind.UPLOAD, version_id="1")

    assert [*checking.about_contents([("a", None)], [upload], LOGS)] == []
    assert len([*checking.about_contents([], [upload], LOGS)]) == 1
    assert len([*checking.about_contents([("a", None), ("a", "1")], [upload], LOGS)]) == 1


# The gate


class Upstream(BaseHTTPRequestHandler):
    """Remembers what reached it, and removes whatever it is told to."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        keys = [each.text or "" for each in ElementTree.fromstring(body).iter(f"{{{gate.NAMESPACE}}}Key")]
        self.server.removed += keys  # type: ignore[attr-defined]
        entries = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        self._answer(f'<DeleteResult xmlns="{gate.NAMESPACE}">{entries}</DeleteResult>'.encode())

    def do_GET(self) -> None:
        uploads = "".join(
            f"<Upload><Key>{name}</Key><UploadId>{name}</UploadId><Initiated>today</Initiated></Upload>"
            for name in ("old", "new")
        )
        self._answer(
            f'<ListMultipartUploadsResult xmlns="{gate.NAMESPACE}">{uploads}</ListMultipartUploadsResult>'.encode()
        )

    def do_DELETE(self) -> None:
        self.server.removed.append(self.path)  # type: ignore[attr-defined]
        self._answer(b"")

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def guarded() -> Iterator[SimpleNamespace]:
    """A gate before an upstream, and what the upstream removed."""
    with ThreadingHTTPServer((emulators.HOST, 0), Upstream) as server, gate.running(LOGS, SEALED.key) as opened:
        server.daemon_threads = True
        server.removed = []  # type: ignore[attr-defined]
        opened.upstream = server.server_address[1]
        threading.Thread(target=server.serve_forever, args=(serving.POLL,), daemon=True).start()
        yield SimpleNamespace(port=opened.port, begun=opened.begun, removed=server.removed)  # type: ignore[attr-defined]
        server.shutdown()


def delete(port: int, *keys: str) -> ElementTree.Element:
    """DeleteObjects through the gate."""
    entries = "".join(f"<Object><Key>{key}</Key></Object>" for key in keys)
    connection = http.client.HTTPConnection(emulators.HOST, port)
    connection.request("POST", f"/{LOGS}?delete", f'<Delete xmlns="{gate.NAMESPACE}">{entries}</Delete>')
    answer = ElementTree.fromstring(connection.getresponse().read())
    connection.close()
    return answer


def test_the_gate_denies_one_key_inside_an_answer_that_removed_the_others(guarded: SimpleNamespace) -> None:
    answer = delete(guarded.port, "a", SEALED.key, "b")

    assert guarded.removed == ["a", "b"]
    assert [each.text for each in answer.iter(f"{{{gate.NAMESPACE}}}Code")] == ["AccessDenied"]
    assert {each.text for each in answer.iter(f"{{{gate.NAMESPACE}}}Key")} == {"a", "b", SEALED.key}


def test_the_gate_denies_the_key_alone_without_asking(guarded: SimpleNamespace) -> None:
    answer = delete(guarded.port, SEALED.key)

    assert guarded.removed == []
    assert answer.findtext(f"{{{gate.NAMESPACE}}}Error/{{{gate.NAMESPACE}}}Key") == SEALED.key


@pytest.mark.parametrize(("key", "status"), [(SEALED.key, 403), (MEDDLED[0].key, 200), ("a%2Fb", 200)])
def test_the_gate_hands_on_every_other_single_deletion_as_it_came(
    guarded: SimpleNamespace, key: str, status: int
) -> None:
    connection = http.client.HTTPConnection(emulators.HOST, guarded.port)
    connection.request("DELETE", f"/{LOGS}/{key}")

    assert connection.getresponse().status == status
    connection.close()
    assert guarded.removed == ([] if status == 403 else [f"/{LOGS}/{key}"])


def test_the_gate_says_of_an_upload_when_it_was_begun(guarded: SimpleNamespace) -> None:
    guarded.begun["old"] = "2026-01-31T00:00:00Z"
    connection = http.client.HTTPConnection(emulators.HOST, guarded.port)
    connection.request("GET", f"/{LOGS}?uploads&prefix=app%2F")
    answer = ElementTree.fromstring(connection.getresponse().read())
    connection.close()

    tags = [f"{{{gate.NAMESPACE}}}{name}" for name in ("Key", "Initiated")]
    found = [tuple(upload.findtext(tag) for tag in tags) for upload in answer.iter(f"{{{gate.NAMESPACE}}}Upload")]
    assert found == [("old", "2026-01-31T00:00:00Z"), ("new", "today")]


@pytest.mark.parametrize(("archived", "expected"), [(["a"], 0), ([], 1), (["a", "a"], 1), (["a", "b"], 1)])
def test_one_wrong_record_in_the_archive_is_noticed(archived: list[str], expected: int) -> None:
    gone = Seed(QUOTES, "a", 1, Fate.DELETED, kind=Kind.RECORD, record={"id": {"S": "a"}})
    kept = Seed(QUOTES, "c", 1, Fate.YOUNGER, kind=Kind.RECORD, record={"id": {"S": "c"}})
    found = [canonical({"id": {"S": name}}) for name in archived]

    assert len([*checking.about_archive(found, [gone, kept])]) == expected


# The application


@pytest.fixture
def application(tmp_path: Path) -> Iterator[Application]:
    with applications.running(tmp_path, MOODS) as running:
        running.cancel = lambda booking: None
        yield running


def call(application: Application, booking: str, key: str, token: str = TOKEN) -> int | None:
    """The status of one call; None where there was no answer."""
    context = ssl.create_default_context(cafile=application.authority)
    connection = http.client.HTTPSConnection(applications.NAME, application.port, context=context, timeout=10)
    with closing(connection):
        headers = {"Idempotency-Key": key, "Authorization": token}
        connection.request("POST", f"/carriers/c/bookings/{booking}/cancel", b"{}", headers)
        try:
            return connection.getresponse().status
        except (http.client.HTTPException, OSError):
            return None


@pytest.mark.parametrize(
    ("booking", "statuses", "done"),
    [
        ("booking-0000", [204, 200, 200], 1),
        ("booking-reply-lost", [None, 200, 200], 1),
        ("booking-at-noon", [503, 204, 200], 1),
        ("booking-shipped", [422, 422, 422], 0),
    ],
)
def test_the_application_does_nothing_twice_for_one_key(
    application: Application, booking: str, statuses: list[int | None], done: int
) -> None:
    assert [call(application, booking, "a key") for _ in range(3)] == statuses
    assert application.heard[booking].done == done


def test_the_application_does_it_again_for_another_key(application: Application) -> None:
    """So that a key that does not stay the same is noticed."""
    for key in ("one", "another"):
        assert call(application, "booking-0000", key) == 204
    assert application.heard["booking-0000"].done == 2


def test_the_application_does_nothing_for_a_stranger(application: Application) -> None:
    assert call(application, "booking-0000", "a key", "Bearer somebody") == 401
    assert application.heard == {}


WELL = {booking: Heard(["204"], {booking}, 0 if mood is Mood.REFUSES else 1) for booking, mood in MOODS.items()}
AGAIN = {name: Heard(["?", "200"], {name}, 1) for name in ("booking-reply-lost", "booking-at-noon")}


@pytest.mark.parametrize(
    ("heard", "expected"),
    [
        (WELL | AGAIN, 0),
        (WELL, 2),  # nobody came again
        (WELL | AGAIN | {"booking-0000": Heard(["204", "204"], {"one", "another"}, 2)}, 2),
        (WELL | AGAIN | {"booking-0000": Heard(["204"], {"booking-0001"}, 1)}, 1),
        (WELL | AGAIN | {"booking-shipped": Heard(["204"], {"booking-shipped"}, 1)}, 1),
        ({name: came for name, came in (WELL | AGAIN).items() if name != "booking-0000"}, 1),
    ],
)
def test_one_wrong_call_is_noticed(heard: dict[str, Heard], expected: int) -> None:
    assert len([*checking.about_calls(heard)]) == expected
