"""The demo from beginning to end."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sexton.job import JobState
from sexton.run import AT_WORK
from sexton.showing import RunView

from infra.local import emulator as emulators
from infra.local import stage as stages
from infra.local.demo import checking, evidence, filling, results
from infra.local.demo import gate as gates
from infra.local.demo.checking import POLICIES, Ended
from infra.local.demo.gate import Gate
from infra.local.demo.hands import DemoError, Hands
from infra.local.demo.screen import Screen
from infra.local.demo.seeds import MEDDLED, SEALED, Fate, Seed, seeds
from infra.local.emulator import Emulator
from infra.local.stage import BIN, ROOT, Stage

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
        objects = seeds(self.now.date())
        account = self._fill(objects)
        with self._emulator(account) as (emulator, gate):
            stage = self._deploy(emulator, objects)
            ended = self._run(Hands(stage), stage, gate)
            results.show(self.screen.console, ended, objects)
            run_id = ended.views[ENFORCING].run_id
            yield stage, run_id, checking.surprises(ended, objects) + self._ask(stage, run_id)

    def _fill(self, objects: Sequence[Seed]) -> str:
        with self.screen.step(f"Fill {len(POLICIES)} buckets through the S3 API") as step:
            done = iter(range(1, len(objects) + 1))
            account = filling.fill(self.work, objects, self.now, lambda: step.at(next(done), len(objects)))
            step.says(f"{len(objects):,} objects, up to {max(seed.days for seed in objects)} days old")
        return account

    @contextlib.contextmanager
    def _emulator(self, account: str) -> Iterator[tuple[Emulator, Gate]]:
        """The demo's own emulator, its S3 behind the gate for the functions."""
        with gates.running(SEALED.bucket, SEALED.key) as gate:
            extra = {**filling.KEEPING, "AWS_ENDPOINT_URL_S3": gate.endpoint}
            with emulators.running(self.work, extra, account) as emulator:
                gate.upstream = emulator.port
                yield emulator, gate

    def _deploy(self, emulator: Emulator, objects: Sequence[Seed]) -> Stage:
        filling.check(emulator, objects, self.now)
        filling.version(emulator)
        with self.screen.step("cdk bootstrap") as step:
            stages.bootstrap(emulator)
            step.says(f"MiniStack at {emulator.endpoint}")
        with self.screen.step("cdk deploy") as step:
            stage = stages.deploy(emulator, policies=ROOT / "policies")
            step.says(f"stack {stage.stack}")
        return stage

    def _run(self, hands: Hands, stage: Stage, gate: Gate) -> Ended:
        with hands.worker_held_back():
            runs = self._start(hands)
            self._meddle(hands, gate)
        views = {policy: self._watch(hands, run_id) for policy, run_id in runs.items()}
        with self.screen.step("Wait for SQS to move the dead letter") as step:
            dead_letters = hands.wait_for_dead_letters(sum(seed.fate is Fate.DEAD for seed in MEDDLED))
            step.says(f"in the dead-letter queue: {dead_letters}")
        evidence.keep(stage, self.kept / "evidence")
        return Ended(
            views=views,
            keys={bucket: hands.keys(bucket) for bucket in POLICIES},
            dead=[job for job in hands.ledger.jobs(runs[ENFORCING]) if job.state is JobState.DEAD],
            dead_letters=dead_letters,
            evidence=self.kept / "evidence",
        )

    def _start(self, hands: Hands) -> Mapping[str, str]:
        """The schedules' events of the last full minute."""
        with self.screen.step("Start runs with the schedules' own events") as step:
            runs = hands.start_all(self.now.replace(second=0, microsecond=0))
            step.says(", ".join(sorted(runs)))
        if set(runs) != set(POLICIES.values()):
            raise DemoError(f"runs of {sorted(runs)} were started, expected were those of {sorted(POLICIES.values())}")
        return runs

    def _meddle(self, hands: Hands, gate: Gate) -> None:
        with self.screen.step("Change the world between plan and deletion") as step:
            hands.meddle(MEDDLED, gate)
            step.says(", ".join(str(seed.meddling) for seed in MEDDLED))

    def _watch(self, hands: Hands, run_id: str) -> RunView:
        with self.screen.step(f"Run {run_id}") as step:

            def looked(view: RunView) -> None:
                if view.state in AT_WORK:
                    step.at(view.finished, view.planned)

            view = hands.watch(run_id, looked)
            step.says(f"{view.state}; planned {view.planned:,} of {view.scanned:,} objects")
            return view

    def _ask(self, stage: Stage, run_id: str) -> list[str]:
        """Ask the command line what it knows; returns the commands that failed."""
        rewritten = next(seed for seed in MEDDLED if seed.fate is Fate.CHANGED)
        asked = (("explain", f"s3://{rewritten.bucket}/{rewritten.key}"), ("verify", run_id))
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
