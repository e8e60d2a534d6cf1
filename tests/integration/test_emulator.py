"""The emulator's process: it is there when asked for, and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.local import emulator as emulators

ROOT = Path(__file__).resolve().parents[2]
STARTER = """
import sys, time
from pathlib import Path
from infra.local import emulator
started = emulator.start(Path(sys.argv[1]))
print(started.pid, flush=True)
time.sleep(600)
"""


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Whether a condition comes true in time."""
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        if condition():
            return True
        time.sleep(0.1)
    return False


def gone(group: int) -> bool:
    """Whether no process of a group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def test_it_answers_until_the_block_ends(tmp_path: Path) -> None:
    with emulators.running(tmp_path) as emulator:
        assert emulator.running()

    assert not emulator.running()
    assert gone(emulator.pid)


def test_it_ends_with_a_starter_that_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTER, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        assert not gone(pid)
        starter.kill()

    assert within(30, lambda: gone(pid))


def test_one_that_is_to_outlive_its_starter_is_stopped_by_its_id(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTER.replace("argv[1])", "argv[1]), outlive=True"), str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        starter.kill()
    time.sleep(1)
    assert not gone(pid)

    emulators.Emulator(port=0, pid=pid, account="1" * 12, folder=tmp_path).stop()

    assert gone(pid)


def test_one_that_cannot_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(emulators.EmulatorError, match="its log ends with"):
        emulators.start(tmp_path, {"GATEWAY_PORT": "none"})
