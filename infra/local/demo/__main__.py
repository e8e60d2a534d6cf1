"""`python -m infra.local.demo`: exit code 0 when everything ended as expected, 1 when not, 128 + n on a signal n."""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import types
from pathlib import Path

from sexton.errors import SextonError
from sexton.policy import PolicyError

from infra.local.demo import results
from infra.local.demo.filling import FillingError
from infra.local.demo.hands import DemoError
from infra.local.demo.screen import Screen
from infra.local.demo.story import Story, now
from infra.local.emulator import EmulatorError
from infra.local.stage import FOLDER, Stage, StageError, write_exports

FAILURES = (
    DemoError,
    FillingError,
    EmulatorError,
    StageError,
    PolicyError,
    SextonError,
    subprocess.TimeoutExpired,
)
MEMORY = Path("/dev/shm")
ROOM = 1 << 30  # bytes; it takes about a quarter of that
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STOPPING_SECONDS = 45.0  # stopping the emulator takes a few, removing its files on a slow disk half a minute


class Interrupted(BaseException):
    """A signal asks to end; whatever was started is stopped on the way out."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def main() -> int:
    """Tell the story; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m infra.local.demo", description=__doc__)
    parser.add_argument("--stay", action="store_true", help="keep the stack running at the end, until Ctrl-C")
    parser.add_argument("--folder", type=Path, default=FOLDER / "demo", help="for the evidence and the log")
    arguments = parser.parse_args()
    for ending in ENDINGS:
        signal.signal(ending, _interrupt)
    screen = Screen()
    try:
        return _tell(screen, arguments.folder.resolve(), arguments.stay)
    except Interrupted as interrupted:
        screen.console.print("interrupted; everything was stopped")
        return 128 + interrupted.number
    finally:
        screen.console.print(f"{screen.seconds:.0f} s, {_cpu_seconds():.0f} s of processor time", style="dim")


def _tell(screen: Screen, folder: Path, stay: bool) -> int:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="sexton-demo-", dir=scratch(), ignore_cleanup_errors=True) as work:
        story = Story(screen, Path(work), folder, now())
        try:
            with story.told() as (stage, run_id, surprises):
                _end(screen, folder, stage, run_id, surprises, stay)
        except FAILURES as error:
            screen.console.print(f"error: {error}", style="bold red", markup=False)
            screen.console.print(f"hint: what the emulator and the functions wrote is in {folder / 'emulator.log'}")
            return 1
        finally:
            with contextlib.suppress(FileNotFoundError):  # it ended before the emulator began
                shutil.copyfile(Path(work, "emulator.log"), folder / "emulator.log")
    return 1 if surprises else 0


def scratch() -> Path | None:
    """Memory to work in, where it has room and may hold programs; None: the system's folder for temporary files.

    Ten thousand small files are written and removed again, which takes some disks half a minute.
    """
    if "TMPDIR" in os.environ or not MEMORY.is_dir():
        return None
    system = os.statvfs(MEMORY)
    roomy = system.f_bavail * system.f_frsize >= ROOM
    return MEMORY if roomy and not system.f_flag & getattr(os, "ST_NOEXEC", 0) else None


def _end(screen: Screen, folder: Path, stage: Stage, run_id: str, surprises: list[str], stay: bool) -> None:
    results.show_surprises(screen.console, surprises)
    if stay:
        write_exports(stage, folder / "env")
    results.show_ways_on(screen.console, folder, stage.outputs["EvidenceBucketName"], run_id, stay)
    if stay:
        screen.console.print("\nThe stack runs until you press Ctrl-C.")
        with contextlib.suppress(Interrupted):
            signal.pause()


def _interrupt(number: int, _frame: types.FrameType | None) -> None:
    """Once is enough: a second Ctrl-C must not cut the stopping short.

    An exception out of nowhere can leave a lock held that the stopping needs. So the process ends after a while
    whatever hangs, and the emulator with it, which outlives nobody who started it.
    """
    for ending in ENDINGS:
        signal.signal(ending, signal.SIG_IGN)
    last_resort = threading.Timer(STOPPING_SECONDS, os._exit, (128 + number,))
    last_resort.daemon = True
    last_resort.start()
    raise Interrupted(number)


def _cpu_seconds() -> float:
    """Of this process and of all that it started and waited for."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


if __name__ == "__main__":
    sys.exit(main())
