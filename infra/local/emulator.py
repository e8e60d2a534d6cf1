"""MiniStack, an emulator of AWS, as a process of our own on a free loopback port."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

HOST = "127.0.0.1"  # an address and not a name, so that S3 clients put the bucket into the path
REGION = "eu-central-1"
SECRET = "local"
LOG = "emulator.log"
TETHER = Path(__file__).with_name("tether.py")
START_SECONDS = 60.0
STOP_SECONDS = 10.0
# Of the surrounding environment only this reaches an emulator or a deployment: no profile and no account of the user.
KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "JSII_NODE", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS")
# And what pip needs to reach its index, for the bundle; nothing of ours goes through a proxy.
KEPT_FOR_PIP = re.compile(r"PIP_\w+|REQUESTS_CA_BUNDLE|(https?|all|no)_proxy", re.IGNORECASE)


class EmulatorError(Exception):
    """The emulator did not start; the message has the end of its log."""


@dataclass(frozen=True)
class Tls:
    """A self-signed certificate for the emulator's address, and its key."""

    certificate: Path
    key: Path

    @property
    def trust(self) -> dict[str, str]:
        """What makes boto3 and Node believe it."""
        return {"AWS_CA_BUNDLE": str(self.certificate), "NODE_EXTRA_CA_CERTS": str(self.certificate)}


@dataclass(frozen=True)
class Emulator:
    """A running emulator. Its process leads a group to which the functions' processes belong."""

    port: int
    pid: int
    account: str
    folder: Path
    tls: Tls | None = None
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False, compare=False)  # when it is our child

    @property
    def endpoint(self) -> str:
        """The one URL of all services."""
        return f"{'https' if self.tls else 'http'}://{HOST}:{self.port}"

    @property
    def log(self) -> Path:
        """What the emulator and the functions wrote."""
        return self.folder / LOG

    @property
    def environment(self) -> dict[str, str]:
        """What clients need. The access key is the account: the CDK remembers an account by its key."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.account,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            **(self.tls.trust if self.tls else {}),
        }

    def running(self) -> bool:
        """Whether the process is there and answers, and is not a later one with its id."""
        try:
            return os.getpgid(self.pid) == self.pid and self._answers()
        except OSError:
            return False

    def stop(self) -> None:
        """End the emulator and every function's process, and wait until they are gone."""
        for ending in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, ending)
            if self._ended(STOP_SECONDS):
                break
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()

    def wait(self) -> None:
        """Wait until it answers. Raises EmulatorError if it ends first, or does not answer in time."""
        give_up = time.monotonic() + START_SECONDS
        while time.monotonic() < give_up:
            if self._reaped():
                break
            with contextlib.suppress(OSError):
                if self._answers():
                    return
            time.sleep(0.1)
        raise EmulatorError(f"the emulator did not start; its log ends with:\n{self.log.read_text()[-2000:]}")

    def _ended(self, within: float) -> bool:
        """Whether the whole process group is gone in time."""
        give_up = time.monotonic() + within
        while time.monotonic() < give_up:
            self._reaped()
            try:
                os.killpg(self.pid, 0)
            except ProcessLookupError:
                return True
            time.sleep(0.05)
        return False

    def _reaped(self) -> bool:
        """Whether our child has ended; False for a process that is not our child."""
        return self.process is not None and self.process.poll() is not None

    def _answers(self) -> bool:
        context = ssl.create_default_context(cafile=self.tls.certificate) if self.tls else None
        no_proxy, https = urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        with urllib.request.build_opener(no_proxy, https).open(f"{self.endpoint}/_ministack/ready", timeout=2) as reply:
            return bool(reply.status == 200)


def start(
    folder: Path,
    extra: Mapping[str, str] | None = None,
    account: str | None = None,
    tls: Tls | None = None,
    *,
    outlive: bool = False,
) -> Emulator:
    """Start an emulator that keeps its state and log in a folder, and wait until it answers.

    `extra` is more environment for it and for the functions; without an `account` it gets one of its own. It speaks
    plain HTTP, or `tls`. It ends when this process ends, even by a kill, unless it is to `outlive` it.
    """
    scratch = folder / "tmp"
    scratch.mkdir(parents=True, exist_ok=True)
    port = _free_port()
    account = account or "".join(random.choices("123456789", k=12))
    environment = _environment(port, account, folder, {**_tls_variables(tls, port), **(extra or {})})
    process = _spawn(environment, folder, outlive)
    emulator = Emulator(port=port, pid=process.pid, account=account, folder=folder, tls=tls, process=process)
    try:
        emulator.wait()
    except BaseException:
        emulator.stop()
        raise
    return emulator


@contextlib.contextmanager
def running(
    folder: Path, extra: Mapping[str, str] | None = None, account: str | None = None, tls: Tls | None = None
) -> Iterator[Emulator]:
    """An emulator for as long as the block lasts."""
    emulator = start(folder, extra, account, tls)
    try:
        yield emulator
    finally:
        emulator.stop()


def surroundings() -> dict[str, str]:
    """The part of our environment that tools need."""
    kept = {name: value for name, value in os.environ.items() if name in KEPT or KEPT_FOR_PIP.fullmatch(name)}
    direct = ",".join(filter(None, (kept.get("no_proxy") or kept.get("NO_PROXY"), HOST)))
    return {**kept, "no_proxy": direct, "NO_PROXY": direct}


def _environment(port: int, account: str, folder: Path, extra: Mapping[str, str]) -> dict[str, str]:
    return {
        **surroundings(),
        "BIND_HOST": HOST,
        "GATEWAY_PORT": str(port),
        "STATE_DIR": str(folder / "state"),
        "S3_DATA_DIR": str(folder / "s3"),
        "TMPDIR": str(folder / "tmp"),
        "MINISTACK_ACCOUNT_ID": account,
        "MINISTACK_REGION": REGION,
        "MINISTACK_HOST": HOST,
        "AWS_ENDPOINT_URL": f"http://{HOST}:{port}",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "IOT_MTLS_ENABLED": "0",  # these two would listen on ports of their own
        "SFTP_ENABLED": "0",
        "LOG_LEVEL": "INFO",
        "PYTHONUNBUFFERED": "1",
        **extra,
    }


def _spawn(environment: Mapping[str, str], folder: Path, outlive: bool) -> subprocess.Popen[bytes]:
    # -P: the modules beside the tether are not for MiniStack to find.
    program = ["-m", "ministack"] if outlive else ["-P", str(TETHER)]
    with (folder / LOG).open("ab") as output:
        return subprocess.Popen(
            [sys.executable, *program],
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL if outlive else subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def _tls_variables(tls: Tls | None, port: int) -> dict[str, str]:
    if tls is None:
        return {}
    ours = {"USE_SSL": "1", "MINISTACK_SSL_CERT": str(tls.certificate), "MINISTACK_SSL_KEY": str(tls.key)}
    return {**ours, **tls.trust, "AWS_ENDPOINT_URL": f"https://{HOST}:{port}"}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
