"""The demo from beginning to end."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from sexton.item import rfc3339
from sexton.job import JobState
from sexton.run import AT_WORK
from sexton.showing import RunView

from infra.local import emulator as emulators
from infra.local import stage as stages
from infra.local.demo import application as applications
from infra.local.demo import checking, evidence, filling, results
from infra.local.demo import gate as gates
from infra.local.demo import policies as examples
from infra.local.demo.application import Application
from infra.local.demo.checking import POLICIES, Ended
from infra.local.demo.gate import Gate
from infra.local.demo.hands import DemoError, Hands
from infra.local.demo.records import MOODS, TABLES, records
from infra.local.demo.screen import Screen
from infra.local.demo.seeds import SEALED, Fate, Kind, Seed, seeds
from infra.local.emulator import Emulator
from infra.local.stage import BIN, Stage

ENFORCING = "logs-expire"
CLI_SECONDS = 60


@dataclass(frozen=True)
class Story:
    """`work` is the emulator's folder, `kept` takes the evidence; objects are as old as they look at `now`."""

    screen: Screen
    work: Path
    kept: Path
    now: datetime

    @contextlib.contextmanager
    def told(self) -> Iterator[tuple[Stage, str, list[str]]]:
        """Everything; then, for as long as the block lasts, the stage, the run that deleted, and what surprised."""
        account, objects = self._fill(seeds(self.now.date()))
        with (
            applications.running(self.work, MOODS) as application,
            self._emulator(account) as (emulator, gate),
        ):
            objects = self._restore(emulator, gate, objects)
            stage = self._deploy(emulator, application)
            hands = Hands(stage)
            application.cancel = hands.cancel
            everything = [*objects, *self._fill_tables(hands)]
            ended = replace(self._run(hands, stage, gate, everything), heard=application.heard)
            results.show(self.screen.console, ended, everything)
            run_id = ended.views[ENFORCING].run_id
            yield stage, run_id, checking.surprises(ended, everything) + self._ask(stage, run_id, objects)

    def _fill(self, objects: Sequence[Seed]) -> tuple[str, list[Seed]]:
        total = sum(seed.kind is not Kind.UPLOAD for seed in objects)
        buckets = {seed.store for seed in objects}
        with self.screen.step(f"Fill {len(buckets)} buckets through the S3 API") as step:
            done = iter(range(1, total + 1))
            filled = filling.fill(self.work, objects, self.now, lambda: step.at(next(done), total))
            step.says(f"{total:,} objects, up to {max(seed.days for seed in objects)} days old")
        return filled

    def _restore(self, emulator: Emulator, gate: Gate, objects: Sequence[Seed]) -> list[Seed]:
        """Begin the uploads, and see through the gate that everything is there and as old as it should be."""
        restored = filling.restore(emulator, objects)
        uploads = (seed for seed in restored if seed.kind is Kind.UPLOAD)
        gate.begun.update((seed.version_id or "", rfc3339(filling.date_of(seed, self.now))) for seed in uploads)
        filling.check(replace(emulator, port=gate.port), restored, self.now)
        return restored

    @contextlib.contextmanager
    def _emulator(self, account: str) -> Iterator[tuple[Emulator, Gate]]:
        """The demo's own emulator, its S3 behind the gate for the functions."""
        with gates.running(SEALED.store, SEALED.key) as gate:
            extra = {**filling.KEEPING, "AWS_ENDPOINT_URL_S3": gate.endpoint}
            with emulators.running(self.work, extra, account) as emulator:
                gate.upstream = emulator.port
                yield emulator, gate

    def _deploy(self, emulator: Emulator, application: Application) -> Stage:
        with self.screen.step("cdk bootstrap") as step:
            stages.bootstrap(emulator)
            step.says(f"MiniStack at {emulator.endpoint}")
        with self.screen.step("cdk deploy") as step:
            policies = examples.write(self.work / "policies", application.host)
            stage = stages.deploy(emulator, policies=policies, local_ca=application.authority)
            step.says(f"stack {stage.stack}; enforced without a person: {', '.join(examples.ENFORCED)}")
        return stage

    def _fill_tables(self, hands: Hands) -> Sequence[Seed]:
        found = records(self.now)
        with self.screen.step(f"Fill {len(TABLES)} tables") as step:
            hands.put_records(found)
            hands.put_secret()
            step.says(f"{len(found):,} records")
        return found

    def _run(self, hands: Hands, stage: Stage, gate: Gate, objects: Sequence[Seed]) -> Ended:
        with hands.worker_held_back():
            runs = self._start(hands)
            self._meddle(hands, gate, objects)
        views = {policy: self._watch(hands, run_id) for policy, run_id in runs.items()}
        with self.screen.step("Wait for SQS to move the dead letters") as step:
            dead_letters = hands.wait_for_dead_letters(sum(seed.fate.dead for seed in objects))
            step.says(f"in the dead-letter queue: {dead_letters}")
        evidence.keep(stage, self.kept / "evidence")
        return Ended(
            views=views,
            contents={store: hands.contents(store) for store in POLICIES},
            dead=[job for run_id in runs.values() for job in hands.ledger.jobs(run_id) if job.state is JobState.DEAD],
            dead_letters=dead_letters,
            evidence=self.kept / "evidence",
        )

    def _start(self, hands: Hands) -> Mapping[str, str]:
        """The schedules' events of the last full minute. Each comes twice, as EventBridge may deliver it."""
        at = self.now.replace(second=0, microsecond=0)
        with self.screen.step("Start runs with the schedules' own events, each twice") as step:
            runs = hands.start_all(at)
            again = hands.start_all(at)
            step.says(f"{len(runs)} runs, and as many duplicates that found theirs: {', '.join(sorted(runs))}")
        if again != runs:
            raise DemoError(f"a duplicate of an event did not find its run: {again}, expected {runs}")
        if set(runs) != set(POLICIES.values()):
            raise DemoError(f"runs of {sorted(runs)} were started, expected were those of {sorted(POLICIES.values())}")
        return runs

    def _meddle(self, hands: Hands, gate: Gate, objects: Sequence[Seed]) -> None:
        with self.screen.step("Change the world between plan and deletion") as step:
            meddled = [seed for seed in objects if seed.meddling]
            hands.meddle(meddled, gate)
            step.says(", ".join(str(seed.meddling) for seed in meddled))

    def _watch(self, hands: Hands, run_id: str) -> RunView:
        with self.screen.step(f"Run {run_id}") as step:

            def looked(view: RunView) -> None:
                if view.state in AT_WORK:
                    step.at(view.finished, view.planned)

            view = hands.watch(run_id, looked)
            step.says(f"{view.state}; planned {view.planned:,} of {view.scanned:,}")
            return view

    def _ask(self, stage: Stage, run_id: str, objects: Sequence[Seed]) -> list[str]:
        """Ask the command line what it knows; returns the commands that failed."""
        rewritten = next(seed for seed in objects if seed.fate is Fate.CHANGED)
        asked = (("explain", f"s3://{rewritten.store}/{rewritten.key}"), ("verify", run_id))
        return [failed for words in asked if (failed := self._sexton(stage, *words))]

    def _sexton(self, stage: Stage, *words: str) -> str | None:
        command = " ".join(("sexton", *words))
        self.screen.console.print(f"\n$ {command}", style="bold", highlight=False, soft_wrap=True)
        environment = {**emulators.surroundings(), **stage.environment, "COLUMNS": str(self.screen.console.width)}
        done = subprocess.run(
            [BIN / "sexton", *words], env=environment, timeout=CLI_SECONDS, capture_output=True, text=True, check=False
        )
        self.screen.console.out(done.stdout.rstrip() + done.stderr, highlight=False)
        return f"{command}: exit code {done.returncode}" if done.returncode else None


def now() -> datetime:
    """The demo's one look at the clock."""
    return datetime.now(UTC).replace(microsecond=0)
