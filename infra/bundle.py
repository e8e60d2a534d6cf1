"""The functions' asset, put together by pip alone: no Docker, no account, no git.

It holds the pinned packages, `sexton` and `handlers`, and the policies as `policies/`. Each step is kept under
`build/` by a digest of what went into it, and appears there whole or not at all.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from aws_cdk import AssetHashType
from aws_cdk import aws_lambda as lambda_

from infra.config import ROOT

BUILD = ROOT / "build"
SOURCES = ROOT / "functions"
REQUIREMENTS = SOURCES / "requirements.txt"
# What Lambda runs: Python 3.13 on arm64. The local target is bundled for this interpreter instead.
LAMBDA_TARGET = (
    "--platform=manylinux2014_aarch64",
    "--python-version=3.13",
    "--implementation=cp",
    "--only-binary=:all:",
)
# The service models that botocore keeps: all others are two thirds of the asset, and a cold start reads none of them.
SERVICES = frozenset({"dynamodb", "events", "lambda", "s3", "scheduler", "secretsmanager", "sqs", "sts"})
UNUSED = ("boto3/examples", "boto3/data", "bin")


class BundleError(Exception):
    """The packages could not be installed; the message is pip's."""


def code(policies: Path, *, local: bool) -> lambda_.Code:
    """The asset with the policies of a folder, for Lambda or for this machine."""
    folder = bundle(policies, local=local)
    return lambda_.Code.from_asset(str(folder), asset_hash=folder.name, asset_hash_type=AssetHashType.CUSTOM)


def bundle(policies: Path, *, local: bool) -> Path:
    """The asset's folder, named by the digest of its content."""
    target = () if local else LAMBDA_TARGET
    packages = _packages(target)
    files = {**_code(), **_policies(policies)}
    digest = _digest(packages.name, *(part for name in sorted(files) for part in (name, files[name])))

    def fill(folder: Path) -> None:
        shutil.copytree(packages, folder, copy_function=_link, dirs_exist_ok=True)
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)

    return _once(BUILD / "bundle" / digest, fill)


def _link(source: str, target: str) -> None:
    """A second name of a file, or a copy where the file system has no such thing."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _packages(target: Iterable[str]) -> Path:
    """The installed run-time packages, for one target."""
    for_what = [*target] or [sys.implementation.cache_tag, sys.platform, os.uname().machine]
    digest = _digest(REQUIREMENTS.read_bytes(), *for_what, *sorted(SERVICES))

    def fill(folder: Path) -> None:
        _install(folder, target)
        _prune(folder)

    return _once(BUILD / "packages" / digest, fill)


def _install(folder: Path, target: Iterable[str]) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--no-input"]
    command = [*pip, "--disable-pip-version-check", *target, f"--target={folder}", f"--requirement={REQUIREMENTS}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BundleError(f"the functions' packages could not be installed:\n{done.stderr.strip()}")


def _prune(folder: Path) -> None:
    for model in (folder / "botocore" / "data").iterdir():
        if model.is_dir() and model.name not in SERVICES:
            shutil.rmtree(model)
    for unused in UNUSED:
        shutil.rmtree(folder / unused, ignore_errors=True)


def _policies(folder: Path) -> dict[str, bytes]:
    """The policies under the names that they have in the asset."""
    paths = (p for p in folder.iterdir() if p.suffix.lower() in (".yaml", ".yml") and p.is_file())
    return {f"policies/{p.name}": p.read_bytes() for p in paths}


def _code() -> dict[str, bytes]:
    """Our own modules, and the data they read, under the names that they have in the asset.

    The operator's command line stays out of it.
    """
    folders = (SOURCES / "sexton", SOURCES / "handlers")
    paths = (p for folder in folders for p in folder.rglob("*") if p.suffix in (".py", ".json"))
    named = {str(p.relative_to(SOURCES)): p for p in paths}
    return {name: p.read_bytes() for name, p in named.items() if not name.startswith("sexton/cli")}


def _digest(*parts: str | bytes) -> str:
    """A digest of parts, each told apart from its neighbours."""
    whole = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        whole.update(len(data).to_bytes(8, "big") + data)
    return whole.hexdigest()


def _once(folder: Path, fill: Callable[[Path], None]) -> Path:
    """The folder, filled if it is not there yet; of two that fill it at once, one wins and both are right."""
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        fresh = Path(temporary) / "fresh"
        fresh.mkdir()
        fill(fresh)
        try:
            fresh.rename(folder)
        except OSError:
            if not folder.exists():
                raise
    return folder
