"""What make says and does where nothing is installed yet."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the project's Makefile in a folder of its own, which has what an installation reads."""
    (folder / "functions").mkdir()
    for name in ("Makefile", "requirements.txt", "functions/requirements.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, folder / name)
    return subprocess.run(["make", *arguments], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("target", ["local-down", "clean"])
def test_nothing_is_installed_to_throw_things_away(tmp_path: Path, target: str) -> None:
    done = make(tmp_path, target)

    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / ".venv").exists()


def test_a_stage_that_cannot_be_stopped_is_not_forgotten(tmp_path: Path) -> None:
    noted = tmp_path / ".local" / "emulator.json"
    noted.parent.mkdir()
    noted.touch()
    done = make(tmp_path, "clean")

    assert done.returncode == 2
    assert "a stage may still run" in done.stderr
    assert "hint:  make install" in done.stderr
    assert noted.exists()


def test_a_python_that_is_not_there_is_told(tmp_path: Path) -> None:
    done = make(tmp_path, "install", "PYTHON=nopython")

    assert done.returncode == 2
    assert done.stderr.startswith("error: there is no program nopython here.\nhint:  ")
    assert not (tmp_path / ".venv").exists()


def test_a_python_of_another_version_is_told(tmp_path: Path) -> None:
    old = tmp_path / "python2"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 2.7.18\n[ "$1" = --version ]\n')
    old.chmod(0o755)
    done = make(tmp_path, "install", f"PYTHON={old}")

    assert done.returncode == 2
    assert f"error: Sexton needs Python 3.11 to 3.13, and {old} is Python 2.7.18." in done.stderr


def test_a_virtual_environment_that_fails_leaves_nothing_half_made(tmp_path: Path) -> None:
    python = tmp_path / "python3"
    python.write_text('#!/bin/sh\n[ "$1" = -c ] && exit 0\nmkdir -p .venv/bin; touch .venv/bin/python made; exit 1\n')
    python.chmod(0o755)
    done = make(tmp_path, "install", f"PYTHON={python}")

    assert done.returncode == 2
    assert (tmp_path / "made").exists()
    assert not (tmp_path / ".venv").exists()
