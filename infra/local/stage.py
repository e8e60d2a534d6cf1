"""The stack, deployed by the real `cdk bootstrap` and `cdk deploy` to an emulator.

As a program it keeps one stage for this checkout, under `.local/`:
`python -m infra.local.stage up --policies DIR` and `python -m infra.local.stage down`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3.session
import botocore.session
from botocore.config import Config
from sexton.policy import Policy, PolicyError, load_policies

from infra.local import emulator as emulators
from infra.local import tables
from infra.local.emulator import Emulator, EmulatorError

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
CDK = ROOT / "infra" / "cdk" / "node_modules" / ".bin" / "cdk"
FOLDER = ROOT / ".local"
COMMAND_SECONDS = 300
# For botocore: no profile, which may name one that is not there, and no files of settings.
NOTHING_OF_THE_USER = {
    "profile": (None, None, None, None),
    "config_file": (None, None, os.devnull, None),
    "credentials_file": (None, None, os.devnull, None),
}


class StageError(Exception):
    """A step of the deployment failed; the message has the end of what it wrote."""


@dataclass(frozen=True)
class Stage:
    """A deployed stack and the emulator that it lives in."""

    emulator: Emulator
    stack: str
    outputs: Mapping[str, str]

    @property
    def environment(self) -> dict[str, str]:
        """What a client of the stack needs, such as the `sexton` command."""
        return {**self.emulator.environment, "SEXTON_STACK": self.stack}

    def client(self, service: str, **options: Any) -> Any:
        """A boto3 client of one service."""
        return client(self.emulator, service, **options)


def client(emulator: Emulator, service: str, **options: Any) -> Any:
    """A boto3 client of one service of an emulator, whatever our own environment says."""
    given = emulator.environment
    session = botocore.session.Session(NOTHING_OF_THE_USER)
    make: Any = boto3.session.Session(botocore_session=session).client  # its types want the service as a literal
    return make(
        service,
        endpoint_url=emulator.endpoint,
        region_name=given["AWS_REGION"],
        aws_access_key_id=given["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=given["AWS_SECRET_ACCESS_KEY"],
        verify=given.get("AWS_CA_BUNDLE"),
        **{**options, "config": Config(proxies={}).merge(options.get("config", Config()))},
    )


@contextlib.contextmanager
def running(folder: Path, *, policies: Path, **context: object) -> Iterator[Stage]:
    """A stage for as long as the block lasts; `context` are more values for the CDK."""
    with emulators.running(folder) as emulator:
        bootstrap(emulator)
        yield deploy(emulator, policies=policies, **context)


def bootstrap(emulator: Emulator) -> None:
    """Prepare the emulator's account for the CDK."""
    where = f"aws://{emulator.account}/{emulators.REGION}"
    _cdk(emulator, "bootstrap", where, folder=emulator.folder)  # not the checkout, where it would synthesize first


def deploy(emulator: Emulator, *, policies: Path, **context: object) -> Stage:
    """Deploy a folder of policies, and create the buckets and tables that they name where there are none.

    Deploying again updates the stack. Raises PolicyError or StageError.
    """
    loaded = load_policies(policies)
    _make_buckets(emulator, loaded)
    tables.create(client(emulator, "dynamodb"), loaded)
    written = emulator.folder / "outputs.json"
    values = {**context, "policies": policies.resolve(), "local": "true"}
    pairs = [part for name, value in values.items() for part in ("-c", f"{name}={value}")]
    out = f"--output={emulator.folder / 'cdk.out'}"
    app = f"--app={shlex.join([sys.executable, 'app.py'])}"
    _cdk(emulator, "deploy", app, out, "--require-approval=never", f"--outputs-file={written}", *pairs, folder=ROOT)
    ((stack, outputs),) = json.loads(written.read_text()).items()
    return Stage(emulator=emulator, stack=stack, outputs=outputs)


def _cdk(emulator: Emulator, command: str, *arguments: str, folder: Path) -> None:
    environment = {
        **emulators.surroundings(),
        **emulator.environment,
        "JSII_NODE": str(BIN / "node"),
        "CDK_DISABLE_CLI_TELEMETRY": "true",
        "CDK_HOME": str(emulator.folder / "cdk"),
        "NODE_COMPILE_CACHE": str(ROOT / "build" / "node"),
        "CDK_VALIDATION": "false",  # seconds for each synth; the infra tests and a real deploy validate
    }
    environment["PATH"] = f"{BIN}:{environment.get('PATH', '')}"
    said = _run_alone([str(CDK), command, *arguments], folder, environment)
    if said is not None:
        raise StageError(f"cdk {command} failed:\n{said[-4000:]}")


def _run_alone(command: list[str], folder: Path, environment: Mapping[str, str]) -> str | None:
    """Run a program in a process group of its own, which ends with us; None, or what it said if it failed."""
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as program:
        try:
            said, _ = program.communicate(timeout=COMMAND_SECONDS)
        except BaseException:
            os.killpg(program.pid, signal.SIGKILL)  # it starts others, such as the app, that must not outlive it
            raise
    return said if program.returncode else None


def _make_buckets(emulator: Emulator, policies: tuple[Policy, ...]) -> None:
    s3 = client(emulator, "s3")
    there = {bucket["Name"] for bucket in s3.list_buckets()["Buckets"]}
    for policy in (each for each in policies if each.of_bucket):
        bucket = policy.s3.bucket
        if bucket in there:
            continue
        there.add(bucket)
        s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": emulators.REGION})
        if policy.recovery == "versioning" or policy.s3.versions == "noncurrent":
            s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})


def up(policies: Path) -> Stage:
    """Deploy to this checkout's emulator, which is started if it does not run; write `.local/env`."""
    load_policies(policies)  # a broken one is told before anything is started
    stage = deploy(_found() or _begin(), policies=policies)
    write_exports(stage, FOLDER / "env")
    return stage


def write_exports(stage: Stage, file: Path) -> None:
    """Write the stage's environment for a shell to read."""
    exports = (f"export {name}={shlex.quote(value)}\n" for name, value in stage.environment.items())
    path = f"export PATH={shlex.quote(str(BIN))}:$PATH\n"
    file.write_text("unset AWS_PROFILE AWS_SESSION_TOKEN\n" + path + "".join(exports))


def down() -> bool:
    """Stop this checkout's emulator and forget it; False if none runs."""
    emulator = _found()
    if emulator is not None:
        emulator.stop()
    for left in ("env", "emulator.json"):
        (FOLDER / left).unlink(missing_ok=True)
    shutil.rmtree(FOLDER / "emulator", ignore_errors=True)
    return emulator is not None


def _begin() -> Emulator:
    """Start this checkout's emulator and prepare it; what is not prepared is not left behind."""
    shutil.rmtree(FOLDER / "emulator", ignore_errors=True)
    emulator = emulators.start(FOLDER / "emulator", outlive=True)
    try:
        bootstrap(emulator)
        _remember(emulator)
    except BaseException:
        emulator.stop()
        raise
    return emulator


def _remember(emulator: Emulator) -> None:
    noted = {name: getattr(emulator, name) for name in ("port", "pid", "account")}
    (FOLDER / "emulator.json").write_text(json.dumps({**noted, "folder": str(emulator.folder)}))


def _found() -> Emulator | None:
    """The emulator that `up` started, if it still runs."""
    noted = FOLDER / "emulator.json"
    if not noted.exists():
        return None
    fields = json.loads(noted.read_text())
    emulator = Emulator(**{**fields, "folder": Path(fields["folder"])})
    return emulator if emulator.running() else None


def main() -> None:
    """`up` or `down`."""
    parser = argparse.ArgumentParser(prog="python -m infra.local.stage", description=main.__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    up_command = commands.add_parser("up", help="deploy to an emulator that keeps running")
    up_command.add_argument("--policies", type=Path, default=ROOT / "policies", help="the folder of policies")
    commands.add_parser("down", help="stop it")
    arguments = parser.parse_args()
    if arguments.command == "down":
        print("stopped" if down() else "nothing runs")
        return
    try:
        stage = up(arguments.policies)
    except (PolicyError, EmulatorError, StageError) as error:
        sys.exit(f"error: {error}")
    print(f"{stage.stack} runs at {stage.emulator.endpoint}; to use it: . .local/env; sexton status")


if __name__ == "__main__":
    main()
