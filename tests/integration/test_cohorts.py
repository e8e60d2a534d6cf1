"""Cohorts through the whole line: counted whatever interrupts planning, and never emptied unasked; and canaries."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sexton import cli, keys, plan, reading_reported, reported, verifying
from sexton.approval import reasons_to_wait
from sexton.cohort import NO_COHORT, name_of
from sexton.cohort_counts import MOST_TEXT, CohortCounts, Count
from sexton.decision import EXPIRED, REPORT_ONLY, YOUNGER, Decision
from sexton.errors import EvidenceAltered
from sexton.item import Item
from sexton.lifecycle import LifecycleRules, NoLifecycleRule, rule_for
from sexton.policy import Policy, load_policies
from sexton.ports import KeyShape, TableShape
from sexton.run import Run
from sexton.wording import in_words

from tests.fakes.deployment import FakeFunctions, deployment
from tests.fakes.evidence import FakeEvidence
from tests.fakes.recorder import Crash
from tests.fakes.records import REMINDERS, FakeRecords
from tests.fakes.time import START
from tests.fakes.world import World, calls_policy, policy, records_policy, uploads_policy
from tests.integration.test_planning import Pages

YOUNG = timedelta(days=1)
PATTERN = "app/{tenant}/..."
DOCS = Path(__file__).resolve().parents[2] / "docs"
MANY = 1_000


def tenants(*, canary: Iterable[str] = (), empty: bool = False, size: int = 2, **changes: object) -> Policy:
    more = {"canary": {"cohorts": list(canary)}} if canary else {}
    limits = {"max_items": MANY, "empty_cohort": empty}
    return policy(**{"cohort": PATTERN, "limits": limits, "job_size": size, **more, **changes})


def a_world(rule: Policy) -> World:
    """Tenant a: 3 old, 1 young. b: 2 old, 1 young. c: 4 old. And one old object of nobody, one young."""
    world = World({rule.id: rule}, versioning="Enabled")
    world.fill([f"app/{key}" for key in ("a/1", "a/2", "a/3", "b/1", "b/2", "c/1", "c/2", "c/3", "c/4", "nobody")])
    world.fill(["app/a/young", "app/b/young", "app/nobody-young"], age=YOUNG)
    return world


def carried_out(world: World, policy_id: str = "logs-expire") -> Run:
    return world.carried_out(policy_id)


def planned_over_a_crash(rule: Policy, nth: int) -> tuple[World, Run]:
    """A run whose first planner died after its n-th call, at its end."""
    world = a_world(rule)
    world.trace.crash_after(nth)
    with pytest.raises(Crash):
        world.trigger()
    world.clock.advance(300)
    world.trigger(at=START)
    world.settle()
    (run,) = world.ledger.runs("logs-expire")
    return world, run


def plan_of(world: World, run: Run) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(world.evidence.files[keys.plan(run.run_id)])
    return found


def report_of(world: World, run: Run) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(world.evidence.files[keys.report(run.run_id, run.report_revision)])
    return found


def by_name(found: dict[str, Any], *fields: str) -> dict[str, tuple[int, ...]]:
    return {line["cohort"]: tuple(line[name] for name in fields) for line in found["cohorts"]["largest"]}


# counting


def test_a_plan_and_its_report_count_by_cohort() -> None:
    world = a_world(tenants(empty=True))
    run = carried_out(world)
    assert by_name(plan_of(world, run), "scanned", "planned") == {
        "a": (4, 3),
        "b": (3, 2),
        "c": (4, 4),
        NO_COHORT: (2, 1),
    }
    report = report_of(world, run)
    assert by_name(report, "scanned", "planned", "deleted", "report_only") == {
        "a": (4, 3, 3, 0),
        "b": (3, 2, 2, 0),
        "c": (4, 4, 4, 0),
        NO_COHORT: (2, 1, 1, 0),
    }
    assert report["cohorts"]["others"] is None
    assert verifying.verify(world.evidence, run.run_id).holds


def test_what_became_of_items_is_counted_by_cohort() -> None:
    world = a_world(tenants(empty=True))
    answer = world.trigger()
    world.bucket().rewrite("app/a/2")
    world.stopping().hold("s3://logs/app/c/3", "a lawsuit", "ann")
    world.settle()
    run = world.run(answer)
    found = by_name(report_of(world, run), "planned", "deleted", "skipped", "dead", "cancelled")
    assert found == {"a": (3, 2, 1, 0, 0), "b": (2, 2, 0, 0, 0), "c": (4, 3, 1, 0, 0), NO_COHORT: (1, 1, 0, 0, 0)}


@pytest.mark.parametrize("pages", range(1, 8))
def test_counting_goes_on_where_time_was_over(pages: int) -> None:
    world = a_world(tenants(empty=True))
    world.bucket().most = 2
    answer = world.discover({"policy": "logs-expire", "scheduled_time": START.isoformat()}, Pages(pages))
    while world.run(answer).state == "planning":
        world.discover({"resume": answer["run_id"]}, Pages(pages))
    calm = a_world(tenants(empty=True))
    assert plan_of(world, world.run(answer))["cohorts"] == plan_of(calm, calm.run(calm.trigger()))["cohorts"]


def test_counting_goes_on_wherever_a_planner_died() -> None:
    calm = a_world(tenants(empty=True))
    expected = plan_of(calm, calm.run(calm.trigger()))["cohorts"]
    calls = len(calm.trace.names)
    for nth in range(1, calls + 1):
        world, run = planned_over_a_crash(tenants(empty=True), nth)
        assert plan_of(world, run)["cohorts"] == expected, f"after call {nth}"
        assert verifying.verify(world.evidence, run.run_id).holds


def test_counts_that_are_gone_end_a_plan_that_needs_them() -> None:
    world = a_world(tenants())
    world.bucket().most = 2
    answer = world.discover({"policy": "logs-expire", "scheduled_time": START.isoformat()}, Pages(2))
    (file,) = (key for key in world.evidence.files if str(world.run(answer).cohorts) in key)
    del world.evidence.files[file]
    world.discover({"resume": answer["run_id"]})
    run = world.run(answer)
    assert (run.state, run.reason) == ("invalidated", "cohorts_lost")
    world.settle()
    assert world.run(answer).closed, "it closes all the same"


def test_a_complete_plan_whose_counts_are_gone_waits_for_a_person() -> None:
    world = a_world(tenants(empty=True))
    calls = a_world_planned().trace.names
    world.trace.crash_before(len(calls) - calls[::-1].index("evidence.put_once"))  # plan.json is the last of them
    with pytest.raises(Crash):
        world.trigger()
    (run,) = world.ledger.runs("logs-expire")
    assert run.state == "planned"
    for key in [key for key in world.evidence.files if str(run.cohorts) in key]:
        del world.evidence.files[key]
    world.discover({"resume": run.run_id})
    (run,) = world.ledger.runs("logs-expire")
    assert (run.state, run.held_because) == (
        "awaiting_approval",
        ("cohorts_lost: the counts by cohort are gone, or not what was written",),
    )


def a_world_planned() -> World:
    world = a_world(tenants(empty=True))
    world.trigger()
    return world


# canaries


def test_only_canaries_are_planned_and_removed() -> None:
    world = a_world(tenants(canary=["b"]))
    run = carried_out(world)
    assert run.planned == 2
    assert run.scanned == {"expired": 2, "report_only": 8, "younger": 3}
    gone = {"app/b/1", "app/b/2"}
    assert set(world.bucket().keys()).isdisjoint(gone)
    assert len(world.bucket().keys()) == 11
    report = report_of(world, run)
    assert report["deleted"] == 2
    assert by_name(report, "scanned", "planned", "deleted", "report_only") == {
        "b": (3, 2, 2, 0),
        "c": (4, 0, 0, 4),
        "a": (4, 0, 0, 3),
        NO_COHORT: (2, 0, 0, 1),
    }
    assert verifying.verify(world.evidence, run.run_id).holds


LEFT = ["a/1", "a/2", "a/3", "c/1", "c/2", "c/3", "c/4", "nobody"]


def listed(world: World, run: Run) -> list[str]:
    written = plan.read(world.evidence, run.run_id).cohorts
    assert written is not None
    return [
        item.key.removeprefix("app/") for item in reading_reported.items(world.evidence, run.run_id, written.reported)
    ]


@pytest.mark.parametrize("pages", [1, 2, 3, 100])
def test_what_is_left_alone_is_listed_whoever_went_on(pages: int) -> None:
    world = a_world(tenants(canary=["b"], size=1))
    world.bucket().most = 2
    answer = world.discover({"policy": "logs-expire", "scheduled_time": START.isoformat()}, Pages(pages))
    while world.run(answer).state == "planning":
        world.discover({"resume": answer["run_id"]}, Pages(pages))
    assert listed(world, world.run(answer)) == LEFT
    assert verifying.verify(world.evidence, str(answer["run_id"])).holds


def test_what_is_left_alone_is_listed_wherever_a_planner_died() -> None:
    rule = tenants(canary=["b"], size=1)
    calm = a_world(rule)
    calm.trigger()
    for nth in range(1, len(calm.trace.names) + 1):
        world, run = planned_over_a_crash(rule, nth)
        assert listed(world, run) == LEFT, f"after call {nth}"
        assert verifying.verify(world.evidence, run.run_id).holds


def test_so_much_that_is_only_reported_is_in_memory_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reported.ReportedItems, "full", property(lambda self: len(self.pending) >= 3))
    world = a_world(tenants(canary=["b"]))
    world.bucket().most = 2
    run = carried_out(world)
    assert listed(world, run) == LEFT
    written = plan.read(world.evidence, run.run_id).cohorts
    assert written is not None
    assert written.reported is not None
    assert written.reported.files > 1
    assert verifying.verify(world.evidence, run.run_id).holds


@pytest.mark.parametrize("how", ["gone", "altered", "dropped"])
def test_a_list_that_was_altered_is_found_by_verifying(how: str, told: Any) -> None:
    world = a_world(tenants(canary=["b"], size=1))
    run = carried_out(world)
    key = next(key for key in world.evidence.files if "/reported-00001-" in key)
    if how == "gone":
        del world.evidence.files[key]
    elif how == "altered":
        world.evidence.files[key] = world.evidence.files[key].replace(b"app/a/1", b"app/a/9")
    else:
        planned = json.loads(world.evidence.files[keys.plan(run.run_id)])
        planned["cohorts"]["reported"] = None
        world.evidence.files[keys.plan(run.run_id)] = json.dumps(planned).encode()
    found = verifying.verify(world.evidence, run.run_id)
    assert not found.holds
    assert any("reported" in difference for difference in found.differences)
    if how != "dropped":
        assert told(world, "plan", "reported", run.run_id) == ""


def test_what_is_left_alone_is_shown_item_by_item(told: Any) -> None:
    world = a_world(tenants(canary=["b"]))
    run = carried_out(world)
    found = json.loads(told(world, "plan", "reported", run.run_id, "--json"))
    assert [(each["cohort"], each["key"]) for each in found[:1] + found[-1:]] == [
        ("a", "app/a/1"),
        (NO_COHORT, "app/nobody"),
    ]
    assert len(told(world, "plan", "reported", run.run_id, "--limit", "2").splitlines()) == 2
    none = a_world(policy())
    assert told(none, "plan", "reported", carried_out(none).run_id) == ""


def test_other_canaries_are_planned_anew_and_approved_anew() -> None:
    world = a_world(tenants(canary=["b"], approval="first"))
    first = world.run(world.trigger())
    assert first.state == "awaiting_approval"
    world.policies["logs-expire"] = tenants(canary=["a", "b"], approval="first")
    for _ in range(8):
        world.tick()
        world.clock.advance(60)
    assert (world.run({"run_id": first.run_id}).state, world.run({"run_id": first.run_id}).reason) == (
        "invalidated",
        "policy_changed",
    )
    second = world.run(world.trigger())
    assert (second.state, second.planned) == ("awaiting_approval", 5)
    assert second.digest != first.digest


def test_a_record_that_comes_to_belong_to_another_is_skipped() -> None:
    rule = records_policy(
        cohort={"attribute": "tenant"}, canary={"cohorts": ["acme"]}, index=None, partitions=None, scan={"segments": 1}
    )
    world = World({rule.id: rule})
    due = int((START - timedelta(days=60)).timestamp())
    for name, tenant in (("1", "acme"), ("2", "acme"), ("3", "globex"), ("4", "acme")):
        world.records().put(id=name, deadline=due if name != "4" else int(START.timestamp()), tenant=tenant)
    world.records().put(id="5", deadline=due, tenant=7)
    answer = world.trigger(rule.id)
    world.records().put(id="1", deadline=due, tenant="globex")
    world.settle()
    run = world.run(answer)
    report = report_of(world, run)
    assert (report["deleted"], report["skipped"]) == (1, {"changed": 1})
    assert by_name(report, "scanned", "planned", "deleted", "report_only") == {
        "acme": (3, 2, 1, 0),
        "7": (1, 0, 0, 1),
        "globex": (1, 0, 0, 1),
    }
    assert verifying.verify(world.evidence, run.run_id).holds


SCAN = {"index": None, "partitions": None, "scan": {"segments": 2}}
MARK = {"kind": "mark", "attribute": "retired", "value": True}


def remind(world: World, name: str, tenant: str) -> str:
    due = int((START - timedelta(days=60)).timestamp())
    return world.records().put(id=name, deadline=due, tenant=tenant, status="open", carrier="dhl", version=1)


@pytest.mark.parametrize(
    ("by", "more"),
    [
        (records_policy, {}),
        (records_policy, {"action": MARK}),
        (records_policy, {"action": "archive", "recovery": "archive", "version_attribute": "version"}),
        (calls_policy, {}),
    ],
    ids=["delete", "mark", "archive", "http"],
)
def test_whatever_is_done_with_records_is_done_for_canaries_alone(by: Any, more: dict[str, object]) -> None:
    limits = {"max_items": MANY, "empty_cohort": True}
    rule = by(cohort={"attribute": "tenant"}, canary={"cohorts": ["acme"]}, limits=limits, **SCAN, **more)
    world = World({rule.id: rule})
    for number in range(5):
        remind(world, f"a{number}", "acme")
        remind(world, f"g{number}", "globex")
    before = dict(world.records().records)
    run = carried_out(world, rule.id)
    assert by_name(report_of(world, run), "planned", "deleted", "report_only") == {
        "acme": (5, 5, 0),
        "globex": (0, 0, 5),
    }
    assert {key for key, record in before.items() if world.records().records.get(key) == record} >= {
        key for key, record in before.items() if record["tenant"] == {"S": "globex"}
    }
    assert not [call for call in world.endpoints.calls if "/g" in call.url]
    assert verifying.verify(world.evidence, run.run_id).holds


def test_an_undo_of_archived_records_counts_what_their_keys_tell() -> None:
    archive = {"action": "archive", "recovery": "archive", "version_attribute": "version"}
    more: dict[str, Any] = {"limits": {"empty_cohort": True}, **archive, **SCAN}
    for attribute, names in (("id", {"a0": (1, 1)}), ("tenant", {NO_COHORT: (1, 1)})):
        rule = records_policy(cohort={"attribute": attribute}, **more)
        world = World({rule.id: rule})
        remind(world, "a0", "acme")
        undone = world.undoing().undo(carried_out(world, rule.id).run_id, "it was wrong", "ann")
        world.settle()
        undo = world.run({"run_id": undone.run_id})
        assert by_name(report_of(world, undo), "planned", "deleted") == names
        assert verifying.verify(world.evidence, undo.run_id).holds


def test_an_index_that_does_not_show_whose_a_record_is_is_refused() -> None:
    rule = records_policy(cohort={"attribute": "tenant"}, limits={"empty_cohort": True})
    world = World({rule.id: rule})
    indexes = {"by-status": KeyShape("status", "deadline", frozenset({"id", "status", "deadline"}))}
    world.table.tables["reminders"] = FakeRecords(TableShape(REMINDERS.keys, indexes, REMINDERS.types))
    run = world.run(world.trigger(rule.id))
    assert (run.state, run.reason) == ("invalidated", "index_unfit")
    assert "does not show tenant" in str(run.message)


@pytest.mark.parametrize(
    ("canary", "waits"),
    [(["nope"], "empty_canary: nothing was found of nope;"), (["nope", "b"], None), (["no\x1bpe"], r"of no\x1bpe;")],
)
def test_canaries_that_match_nothing_are_told(canary: list[str], waits: str | None) -> None:
    world = a_world(tenants(canary=canary))
    run = world.run(world.trigger())
    assert by_name(plan_of(world, run), "scanned")[canary[0]] == (0,)
    if waits is None:
        assert (run.state, run.held_because) == ("draining", ())
    else:
        (because,) = run.held_because
        assert (run.state, waits in because) == ("awaiting_approval", True), because


# emptying a whole cohort


def test_a_run_that_would_empty_a_cohort_waits_and_names_it() -> None:
    world = a_world(tenants())
    run = world.run(world.trigger())
    assert run.state == "awaiting_approval"
    assert run.held_because == (
        "empty_cohort: all that was scanned of 1 cohort is planned: c; limits.empty_cohort would permit it",
    )


def test_a_report_says_so_and_is_not_stopped() -> None:
    run = (world := a_world(tenants(mode="report"))).run(world.trigger())
    assert run.state == "reported"
    assert run.held_because[0].startswith("empty_cohort: ")


def test_what_stays_for_whatever_reason_is_enough() -> None:
    source = {"kind": "s3", "bucket": "logs", "prefixes": ["app/"], "exclude": {"suffixes": ["/4"]}}
    carried_out(a_world(tenants(source=source)))


def test_of_another_cohort_than_the_canaries_nothing_is_emptied() -> None:
    carried_out(a_world(tenants(canary=["a"])))


def test_a_pattern_that_fits_nothing_is_told() -> None:
    rule = tenants(cohort="app/x-{tenant}/...", empty=True)
    run = (world := a_world(rule)).run(world.trigger())
    assert run.state == "awaiting_approval"
    assert run.held_because[0].startswith("unread_cohorts: ")


def test_uploads_of_a_cohort_are_all_that_there_is() -> None:
    rule = uploads_policy(cohort=PATTERN)
    world = World({rule.id: rule})
    world.clock.move_to(START - timedelta(days=60))
    world.bucket().begin_upload("app/a/1")
    world.clock.move_to(START)
    run = world.run(world.trigger(rule.id))
    assert run.held_because[0].startswith("empty_cohort: ")


# undo


def test_an_undo_counts_by_cohort_too() -> None:
    world = a_world(tenants(canary=["b", "c"], empty=True, recovery="versioning"))
    run = carried_out(world)
    undone = world.undoing().undo(run.run_id, "it was wrong", "ann")
    world.settle()
    undo = world.run({"run_id": undone.run_id})
    assert (undo.state, undo.balanced) == ("completed", True)
    assert by_name(report_of(world, undo), "planned", "deleted") == {"b": (2, 2), "c": (4, 4)}
    assert verifying.verify(world.evidence, undo.run_id).holds


# however many there are


def item(name: str, size: int = 1) -> Item:
    return Item(f"app/{name}/x", '"e"', size, "STANDARD", START)


def counts(most: int = 5_000, *canaries: str) -> CohortCounts:
    return CohortCounts(name_of(PATTERN), frozenset(canaries), most)


judgements = st.sampled_from([EXPIRED, YOUNGER, REPORT_ONLY])
drawn = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 9), judgements), max_size=80)


@settings(max_examples=300)
@given(drawn, st.integers(1, 6), st.sets(st.integers(0, 12), max_size=3), st.integers(0, 79), st.integers(1, 5))
def test_counts_agree_with_a_plain_count(
    items: list[tuple[int, int, Decision]], most: int, canaries: set[int], at: int, shown: int
) -> None:
    """Whatever the bounds, and wherever another planner goes on: what is counted apart is exact, the rest the rest."""
    kept, evidence = counts(most, *map(str, canaries)), FakeEvidence()
    plain: dict[str, Count] = {}
    for index, (name, size, decision) in enumerate(items):
        if index == at:
            sha256 = kept.keep(evidence, "run", None)
            kept = counts(most, *map(str, canaries))
            kept.restore(evidence, "run", sha256)
        kept.add(item(str(name), size), decision)
        plain.setdefault(str(name), Count()).add(size, decision)
    for name, count in kept.counts.items():
        assert count == plain.get(name, Count())
    assert len(kept.counts) <= most + len(canaries)
    beyond = plain.keys() - kept.counts.keys()
    assert kept.others == _together(plain[name] for name in beyond)
    really = {name for name, count in plain.items() if count.emptied}
    assert set(kept.emptied()) == really & kept.counts.keys()
    assert really <= kept.counts.keys() or kept.others.planned, "what cannot be told apart holds the run"
    found = kept.shown(shown)
    assert len(found.largest) <= max(shown, len(canaries))
    assert {str(name) for name in canaries} <= {line.cohort for line in found.largest}
    sums = Counter[str]()
    for line in (*found.largest, *([found.others] if found.others else [])):
        sums.update({name: getattr(line, name) for name in Count.__slots__})
    whole = _together(plain.values())
    assert all(sums[name] == getattr(whole, name) for name in Count.__slots__)


def _together(found: Iterable[Count]) -> Count:
    whole = Count()
    for count in found:
        whole.merge(count)
    return whole


def test_a_hundred_thousand_cohorts_take_no_more_memory_and_no_more_bytes() -> None:
    few, many = counts(), counts()
    for number in range(100_000):
        for kept in (few, many) if number < 5_000 else (many,):
            kept.add(item(f"tenant-{number:06d}"), EXPIRED)
    evidence = FakeEvidence()
    few.keep(evidence, "few", None)
    many.keep(evidence, "many", None)
    sizes = sorted(len(content) for content in evidence.files.values())
    assert sizes[1] - sizes[0] < 20
    assert (len(many.counts), many.others.planned) == (5_000, 95_000)
    found = many.shown()
    assert found.others is not None
    assert (len(found.largest), found.others.cohorts, found.others.at_least) == (100, 4_900, True)
    reasons = reasons_to_wait(tenants(approval="none"), a_run(), (), many)
    assert [reason.split(":")[0] for reason in reasons] == ["empty_cohort", "uncounted_cohorts"]
    assert all(len(reason) < 600 for reason in reasons)
    assert reasons_to_wait(tenants(approval="none", empty=True), a_run(), (), many) == ()


def a_run() -> Run:
    world = a_world(tenants())
    return world.run(world.trigger())


def test_names_together_are_bounded_too() -> None:
    kept = counts()
    for number in range(4_000):
        kept.add(item(f"{number:06d}" * 40), YOUNGER)
    assert sum(map(len, kept.counts)) <= MOST_TEXT
    assert kept.others.scanned == 4_000 - len(kept.counts) > 0


def test_counts_that_were_altered_are_not_believed() -> None:
    evidence, kept = FakeEvidence(), counts()
    kept.add(item("a"), EXPIRED)
    sha256 = kept.keep(evidence, "run", None)
    (file,) = evidence.files
    evidence.files[file] = evidence.files[file].replace(b"1", b"2")
    with pytest.raises(EvidenceAltered, match="not what was written"):
        counts().restore(evidence, "run", sha256)


# what people see


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Says what a command writes, of a world."""

    def tell(world: World, *arguments: str) -> str:
        monkeypatch.setattr(cli, "connect", lambda _: deployment(world, FakeFunctions(world)))
        cli.main(list(arguments))
        return capsys.readouterr().out

    return tell


def test_a_run_is_shown_by_cohort(told: Any) -> None:
    world = a_world(tenants(canary=["b"]))
    answer = world.trigger()
    run_id = str(answer["run_id"])
    before = json.loads(told(world, "run", "show", run_id, "--json"))
    assert by_name(before, "planned", "deleted", "report_only")["b"] == (2, None, 0)
    world.settle()
    after = json.loads(told(world, "run", "show", run_id, "--json"))
    assert by_name(after, "planned", "deleted", "report_only")["b"] == (2, 2, 0)
    shown = told(world, "run", "show", run_id)
    assert "reported only" in shown
    assert "deleted" in shown
    assert told(world, "run", "watch", run_id).count("reported only") == 1
    planned = json.loads(told(world, "plan", "cohorts", run_id, "--json"))
    assert by_name({"cohorts": planned}, "scanned", "planned", "report_only")["c"] == (4, 0, 4)
    assert "no_cohort" in told(world, "plan", "cohorts", run_id)


def test_people_see_twenty_cohorts_and_scripts_a_hundred(told: Any) -> None:
    world = World({"logs-expire": tenants(empty=True, size=1000)})
    world.fill(f"app/tenant-{number:03d}/x" for number in range(150))
    run = carried_out(world)
    shown = told(world, "run", "show", run.run_id)
    assert "(130 others)" in shown
    assert shown.count("tenant-") == 20
    found = json.loads(told(world, "run", "show", run.run_id, "--json"))["cohorts"]
    assert (len(found["largest"]), found["others"]["cohorts"], found["others"]["deleted"]) == (100, 50, 50)
    assert verifying.verify(world.evidence, run.run_id).holds


def test_the_reports_for_people_tell_what_is_left_alone() -> None:
    world = a_world(tenants(canary=["b"]))
    run = carried_out(world)
    rows = world.evidence.files[keys.report_csv(run.run_id, run.report_revision)].decode("utf-8-sig").splitlines()
    assert [row.rsplit(",", 1)[0] for row in rows if row.startswith("report_only")] == [
        "report_only,a,,,,3",
        "report_only,c,,,,4",
        "report_only,no_cohort,,,,1",
    ]
    page = world.evidence.files[keys.report_html(run.run_id, run.report_revision)].decode()
    assert "Whose they were" in page
    assert "Reported only" in page
    assert "Reported only" not in _page_of(a_world(policy()))


def _page_of(world: World) -> str:
    run = carried_out(world)
    return world.evidence.files[keys.report_html(run.run_id, run.report_revision)].decode()


def test_a_run_without_cohorts_has_none_and_its_report_counts_folders(told: Any) -> None:
    world = a_world(policy())
    run = carried_out(world)
    assert json.loads(told(world, "run", "show", run.run_id, "--json"))["cohorts"] is None
    assert by_name(report_of(world, run), "deleted", "scanned")["app/c/"] == (4, None)
    assert run.cohorts is None
    assert "cohorts" not in plan_of(world, run)


def test_an_object_of_no_canary_is_explained_as_reported_only(told: Any) -> None:
    world = a_world(tenants(canary=["b"]))
    carried_out(world)
    assert "only report it" in told(world, "explain", "s3://logs/app/a/1")
    (verdict,) = json.loads(told(world, "explain", "s3://logs/app/a/1", "--json"))["policies"]
    assert (verdict["action"], verdict["reason"], verdict["cohort"]) == ("keep", "report_only", "a")


@pytest.mark.parametrize(
    ("where", "change", "differs"),
    [
        ("plan", {"planned": 9}, "planned of cohort 'c'"),
        ("plan", {"scanned": 99}, "scanned of all cohorts"),
        ("plan", {"report_only": 9}, "reported only of all cohorts"),
        ("report", {"deleted": 9}, ": cohorts"),
    ],
)
def test_counts_that_were_altered_are_found_by_verifying(where: str, change: dict[str, int], differs: str) -> None:
    world = a_world(tenants(empty=True))
    run = carried_out(world)
    key = keys.plan(run.run_id) if where == "plan" else keys.report(run.run_id, run.report_revision)
    written = json.loads(world.evidence.files[key])
    assert written["cohorts"]["largest"][0]["cohort"] == "c"
    written["cohorts"]["largest"][0].update(change)
    world.evidence.files[key] = json.dumps(written).encode()
    found = verifying.verify(world.evidence, run.run_id)
    assert not found.holds
    assert any(differs in difference for difference in found.differences)


def test_a_policy_says_in_words_whose_items_are_and_for_whom_it_enforces() -> None:
    said = in_words(tenants(canary=["a", "b"]))
    assert "By the pattern app/{tenant}/... a key tells whose an item is." in said
    assert "Does so for a, b alone; what is due of all others is only reported." in said
    assert "A plan of all that was found of somebody waits for a person too." in said
    assert "May remove all that there is of somebody." in in_words(tenants(empty=True))


def test_no_lifecycle_rule_asks_before_it_empties_a_cohort_or_begins_with_a_few() -> None:
    for rule, obstacle in ((tenants(), "cohort: "), (tenants(canary=["a"], empty=True), "canary: ")):
        found = rule_for(rule)
        assert isinstance(found, NoLifecycleRule)
        assert any(reason.startswith(obstacle) for reason in found.reasons)
    assert isinstance(rule_for(tenants(empty=True)), LifecycleRules)


def test_the_example_is_the_one_of_the_page_and_is_a_policy() -> None:
    (example,) = load_policies(DOCS / "cohorts")
    told = (DOCS / "cohorts.md").read_text().partition("```yaml\n")[2].partition("```")[0]
    assert told == (DOCS / "cohorts" / "tenant-files-expire.yaml").read_text()
    assert example.canary is not None
    assert example.canary.cohorts == ("acme", "globex")
