"""What the pages say is what the code says, where that is cheap to check."""

from __future__ import annotations

import ast
import gzip
import inspect
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import pytest
import typer.main
from sexton import approving, item, outcome, replaying
from sexton.aws import errors as aws_errors
from sexton.aws.settings import PREFIX, Settings
from sexton.books import Entry
from sexton.cli import app
from sexton.decision import Reason, judge
from sexton.errors import ReasonClass
from sexton.item import Item
from sexton.job import Job
from sexton.job_transitions import TRANSITIONS as JOB_TRANSITIONS
from sexton.message import Message
from sexton.policy import Policy, load_policies
from sexton.retain import cutoff
from sexton.run import Run, RunState
from sexton.run_transitions import TRANSITIONS as RUN_TRANSITIONS
from sexton.settling import Kind

from tests.fakes.world import World, policy

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")

Cells = tuple[str, ...]


@cache
def page(name: str) -> str:
    return (ROOT / name).read_text()


def table(name: str, *header: str) -> list[Cells]:
    """The rows of the one table of a page that has this header."""
    lines = page(name).splitlines()
    heads = [at for at, line in enumerate(lines) if line.startswith("|") and cells(line) == header]
    assert len(heads) == 1, f"{name} has {len(heads)} tables with the header {header}"
    rows = []
    for line in lines[heads[0] + 2 :]:
        if not line.startswith("|"):
            break
        rows.append(cells(line))
    return rows


def cells(line: str) -> Cells:
    return tuple(cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|"))


def codes(text: str) -> list[str]:
    """What stands in backticks."""
    return CODE.findall(text)


def first_codes(rows: list[Cells]) -> set[str]:
    return {code for row in rows for code in codes(row[0])}


def prose(text: str) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


# states


def test_the_table_of_runs_is_the_one_in_the_code() -> None:
    assert table("docs/states.md", "from", "to", "when") == list(RUN_TRANSITIONS)


def test_the_table_of_jobs_is_the_one_in_the_code() -> None:
    assert table("docs/states.md", "from", "to", "when", "guard") == list(JOB_TRANSITIONS)


def test_every_state_of_a_run_is_explained() -> None:
    assert first_codes(table("docs/states.md", "state", "what it means", "what comes next")) == {
        state.value for state in RunState
    }


def test_the_drawing_of_runs_has_the_table_s_edges() -> None:
    drawn = re.findall(r"^  (\S+) --> (\w+)$", page("docs/states.md"), re.MULTILINE)
    meant = [
        (source.replace("-", "[*]"), target)
        for sources, targets, _ in RUN_TRANSITIONS
        if not sources.startswith("every state")
        for source in sources.split(", ")
        for target in targets.split(", ")
    ]
    assert sorted(drawn) == sorted(meant)


# failures


def test_the_table_of_error_codes_is_the_one_in_the_code() -> None:
    documented = {
        code: (ReasonClass(reason_class), unknown == "yes")
        for reason_class, unknown, listed in table("docs/failures.md", "class", "effect unknown", "codes")
        for code in codes(listed)
    }
    assert documented == dict(aws_errors.CODES)


def test_every_reason_class_is_explained() -> None:
    explained = table("docs/failures.md", "class", "what it is", "what happens", "what a person does")
    assert first_codes(explained) == {each.value for each in ReasonClass}


def test_every_way_that_an_item_ends_is_explained() -> None:
    rows = table("docs/failures.md", "outcome", "reason", "what it means", "what to do")
    documented = {tuple(codes(row[0]) + codes(row[1])) for row in rows}
    skips = {outcome.ABSENT, outcome.CHANGED, outcome.CHANGED_AFTER_ATTEMPT, outcome.LOCKED, outcome.HELD}
    skips.add(outcome.CALLED_BEFORE)
    skips |= set(get_args(Reason)) - {"expired", "placed", "archived", "tags_needed"}  # which are no ending
    assert documented == {
        ("deleted",),
        ("deleted", outcome.ABSENT_AFTER_ATTEMPT),
        ("dead",),
        ("cancelled",),
        *(("skipped", reason) for reason in skips),
    }


def test_every_reason_to_wait_or_to_invalidate_is_explained() -> None:
    documented = first_codes(table("docs/failures.md", "reason", "what it says of the run", "what to do"))
    core = ROOT / "functions" / "sexton"
    planning, targets, receipts, reconcile, approval = (
        (core / f"{name}.py").read_text() for name in ("planning", "targets", "receipts", "reconcile", "approval")
    )
    found = set(re.findall(r"SourceRefused\(\s*\"(\w+)\"", planning + targets + receipts))
    found |= set(re.findall(r"return \"(\w+)\",", reconcile))
    found |= set(re.findall(r"append\(f?\"(\w+):", approval))
    assert found
    assert found <= documented


@pytest.mark.parametrize(
    ("module", "name", "why"),
    [(replaying, "dead-letters", "why"), (approving, "approving", "why it is refused")],
)
def test_every_rule_that_forbids_a_change_is_explained(module: ModuleType, name: str, why: str) -> None:
    refusals = re.findall(r"NotAllowed\(\s*(?:\"(\w+)\"|([A-Z_]+))", inspect.getsource(module))
    rules = {code or getattr(module, constant) for code, constant in refusals}
    assert rules - {"paused"} == first_codes(table(f"docs/{name}.md", "code", why, "what to do"))  # of a redrive only


# rows, messages, files

KEYS = {"pk", "sk", "open_pk", "open_sk", "write_id"}


@cache
def world() -> World:
    """A run in which one object is deleted, one is skipped, and one dies."""
    made = World(policies={"logs-expire": policy()})
    made.fill([f"app/{name}.log" for name in ("one", "two", "three")])
    made.trigger()
    made.bucket().put("app/two.log", b"written again")
    made.bucket().failures["app/three.log"] = aws_errors.failure("AccessDenied", "no")
    made.settle()
    return made


def rows(of: str) -> list[dict[str, Any]]:
    """The rows of the world's table whose sort key starts so."""
    return [row for row in world().table.rows.values() if str(row["sk"]).startswith(of)]


@pytest.mark.parametrize(
    ("kind", "sort_key", "fields"),
    [
        ("policy", "POLICY", frozenset[str]()),
        ("run", "RUN#", frozenset(Run.model_fields)),
        ("job", "JOB#", frozenset(Job.model_fields)),
    ],
)
def test_every_attribute_of_a_row_is_documented(kind: str, sort_key: str, fields: frozenset[str]) -> None:
    documented = first_codes(table("docs/ledger.md", f"{kind} attribute", "what it is"))
    assert rows(sort_key)
    written = {attribute for row in rows(sort_key) for attribute in row}
    assert written - KEYS <= documented
    assert fields <= documented | {"drained_from", "resumed_at"}  # of the two nothing is written in this version


def test_the_fields_of_a_message_are_documented() -> None:
    documented = first_codes(table("docs/ledger.md", "message field", "what it is"))
    assert documented == {field.alias or name for name, field in Message.model_fields.items()}


def test_every_field_of_evidence_is_documented() -> None:
    found = {kind: set[str]() for kind in ("part", "plan", "outcome", "books", "report")}
    for key, content in world().evidence.files.items():
        kind = kind_of(key)
        if kind in found and not key.endswith((".csv", ".html")):
            lines = content.splitlines() if ".ndjson" in key else [content]
            found[kind] |= {field for line in lines for field in json.loads(line)}
    for kind, fields in found.items():
        documented = first_codes(table("docs/evidence.md", f"{kind} field", "what it is"))
        # Of versions, of tags, of lost replies, and of records.
        rare = {
            "effect",
            "archive",
            "version_id",
            "marker_version_id",
            "unproven",
            "noncurrent_since",
            "rank",
            "delete_marker",
            "tags",
        }
        rare |= {"undoes", "unreadable", "cohorts"} if kind == "plan" else set()
        assert documented - rare == fields, kind


def kind_of(key: str) -> str:
    folder, name = key.split("/", 1)[0], key.rsplit("/", 1)[-1]
    return {"plans": "part", "outcomes": "outcome"}.get(folder, re.split("[-.]", name)[0])


def test_the_examples_of_evidence_are_read_by_the_code() -> None:
    examples = re.findall(r"^```json\n(.*?)\n```$", page("docs/evidence.md"), re.DOTALL | re.MULTILINE)
    canonical, planned, ended, book = examples
    assert Policy.from_canonical(canonical).canonical() == canonical
    assert item.to_line(item.from_line(planned)) == planned
    assert outcome.read_lines(ended.encode())[0].name == "skipped:changed"
    assert Entry.from_line(book.encode()).to_line() == book


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not on this machine")
def test_the_recipe_to_verify_by_hand_works(tmp_path: Path) -> None:
    for key, content in world().evidence.files.items():
        file = tmp_path / key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(gzip.compress(content) if key.endswith(".gz") else content)
    recipe = page("docs/evidence.md").split("<!-- recipe -->\n```sh\n")[1].split("```")[0]
    run_id = rows("RUN#")[0]["run_id"]
    done = subprocess.run(
        ["sh", "-c", recipe],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "RUN": run_id},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    digests, versions, rest = done.stdout.split()[:2], done.stdout.split()[2:4], done.stdout.splitlines()[4:]
    assert len(set(digests)) == len(set(versions)) == 1
    assert rest == ["2d1", '< "app/three.log"']  # the dead one


# policies


def test_the_policies_in_the_pages_are_good(tmp_path: Path) -> None:
    """Those that are whole: a part of one has no id."""
    for name in ("README.md", "docs/policies.md"):
        blocks = re.findall(r"^```yaml\n(.*?)^```$", page(name), re.DOTALL | re.MULTILINE)
        whole = [block for block in blocks if block.startswith("id:")]
        assert whole
        for place, block in enumerate(whole):
            (tmp_path / "policy.yaml").write_text(block)
            assert load_policies(tmp_path / "policy.yaml"), f"{name}, policy {place}"


# settings and infrastructure


def test_the_settings_are_documented() -> None:
    documented = first_codes(table("docs/architecture.md", "variable", "what it is"))
    assert documented == {PREFIX + name.upper() for name in Settings.model_fields}


def test_the_context_values_are_documented() -> None:
    """Read as text: the CDK takes seconds to import."""
    tree = ast.parse((ROOT / "infra" / "config.py").read_text())
    config = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Config")
    fields = {
        node.target.id for node in config.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    assert first_codes(table("README.md", "context value", "what it is", "if left out")) == fields


def test_the_alarms_are_documented() -> None:
    made = re.findall(r"self\._alarm\(\s*f?\"([^\"]+)\"", (ROOT / "infra" / "alarms.py").read_text())
    known = {name.replace("{policy.id}", "<policy>").replace("{name}", "<Function>") for name in made}
    assert first_codes(table("README.md", "alarm", "what it says", "what to do")) == known


def test_the_outputs_are_documented() -> None:
    made = re.search(r"outputs = \{(.*?)\}", (ROOT / "infra" / "stack.py").read_text(), re.DOTALL)
    assert made is not None
    assert first_codes(table("docs/architecture.md", "output", "what it is")) == set(re.findall(r'"(\w+)":', made[1]))


def test_the_log_events_are_documented() -> None:
    written = {name for source in sources() for name in re.findall(r"(?:self\.log|exception)\(\"(\w+)\"", source)}
    documented = {code for row in table("docs/architecture.md", "function", "events") for code in codes(row[1])}
    assert written <= documented
    computed = {f"job_{kind}" for kind in (*Kind, "dead")}  # of a settlement, and of the reconciler's
    assert documented - written <= computed


def sources() -> Iterator[str]:
    return (
        file.read_text() for folder in ("sexton", "handlers") for file in (ROOT / "functions" / folder).rglob("*.py")
    )


# links, commands, targets


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for text, target in LINK.findall(prose(path.read_text())):
        file, _, anchor = target.partition("#")
        if file.startswith(("http://", "https://")):
            continue
        there = (path.parent / file).resolve() if file else path
        assert there.exists(), target
        assert not anchor or anchor in anchors(there.read_text()), target
        if there.suffix == ".py" and re.fullmatch(r"`\w+`", text):
            assert re.search(rf"^\s*(def|class) {text.strip('`')}\b", there.read_text(), re.MULTILINE), text


def anchors(text: str) -> set[str]:
    heads = re.findall(r"^#+ (.*)$", prose(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_commands_exist_with_their_options(path: Path) -> None:
    for line in commands_in(path.read_text()):
        command: Any = typer.main.get_command(app)
        words = line.split()[1:]
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        assert not hasattr(command, "commands") or not words or words[0].startswith("-"), f"no such command: {line}"
        known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
        asked = set(re.findall(r"(?<=\s)--[\w-]+", line))
        assert asked <= known, f"no such option: {line}"


def test_the_commands_to_copy_have_the_options_that_they_need() -> None:
    for line in (line for path in PAGES for block in shell_in(path.read_text()) for line in block.splitlines()):
        for found in re.findall(r"(?:^|\$\()(sexton [a-z-][^#)|]*)", line):
            command: Any = typer.main.get_command(app)
            words = found.split()[1:]
            while words and words[0] in getattr(command, "commands", {}):
                command = command.commands[words.pop(0)]
            needed = {each.opts[0] for each in command.params if each.required and each.param_type_name == "option"}
            assert all(f" {option} " in line for option in needed), line


def shell_in(text: str) -> list[str]:
    return re.findall(r"^```(?:sh|console)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def commands_in(text: str) -> Iterator[str]:
    """`sexton ...`, in backticks and in blocks of shell; the name alone is none."""
    for piece in [*codes(prose(text)), *(line for block in shell_in(text) for line in block.splitlines())]:
        found = re.search(r"(?:^|\$\(|\$ )(sexton [a-z-][^#)\"|]*)", piece.strip())
        if found:
            yield found[1]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_make_targets_exist(path: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = re.findall(r"(?:`|^|\$ )make ([a-z][a-z-]*)", path.read_text(), re.MULTILINE)
    assert set(named) <= targets


# the changelog


def test_the_changelog_has_its_form() -> None:
    text = page("CHANGELOG.md")
    versions = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert versions[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d{2}-\d{2}", version) for version in versions[1:])
    kinds = set(re.findall(r"^### (.*)$", text, re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_the_policy_to_try_is_as_the_readme_tells_it() -> None:
    """Its names in the commands, and that three of the four objects go."""
    (tried,) = load_policies(ROOT / "docs" / "try")
    told = (ROOT / "README.md").read_text().partition("make local POLICIES=docs/try")[2].partition("```")[0]

    assert f"run start {tried.id}" in told
    (names,) = re.findall(r"for name in ([^;]*); do", told)
    where = re.search(r"\$AWS_ENDPOINT_URL/([^/]+)/(.*)\$name(.*)\"; done", told)
    assert where is not None
    assert where[1] == tried.source.bucket
    written = datetime(2026, 11, 30, tzinfo=UTC)
    items = [Item(f"{where[2]}{name}{where[3]}", "e", 1, "STANDARD", written) for name in names.split()]
    (waited,) = re.findall(r"sleep (\d+)", told)
    decided = judge(tried, cutoff(written + timedelta(seconds=int(waited)), tried.retain))
    assert [decided(item).action for item in items] == ["remove", "remove", "remove", "keep"]
