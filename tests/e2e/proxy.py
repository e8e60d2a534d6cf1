"""Between the functions and the emulator: records every call, and strikes at chosen ones.

A rule names a call by its operation and by texts that it holds. When such a call arrives, the calling process is
killed before the call is passed on or after it was carried out. What else can happen to a call is microburst's to do,
which knows AWS's errors but no processes, and records no call that it lets through: calls that hold a mark take a
detour past it.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import signal
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from infra.local.emulator import HOST, Emulator

HOOK = Path(__file__).parent / "hook"
CALLER = re.compile(r"exec-env/(?P<function>[\w-]+)\.(?P<pid>\d+)")
TARGETS = {
    "DynamoDB_20120810": "dynamodb",
    "AmazonSQS": "sqs",
    "AWSEvents": "events",
    "secretsmanager": "secretsmanager",
}
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "expect"}
UPSTREAM_SECONDS = 60
MARK = "X-Mark"  # the header with the mark of a call that takes a detour
UNDOTTED = "Host: localhost"  # in any other name microburst looks for a service, and reads the models of them all first
AT_ONCE = struct.pack("ii", 1, 0)  # linger: a closed connection is reset


class Strike(Enum):
    """What is done to a call that a rule names."""

    KILL_BEFORE = "the caller is killed before the call is carried out"
    KILL_AFTER = "the call is carried out, then the caller is killed"


@dataclass(frozen=True)
class Call:
    """One call of a function: its operation is named as `s3:PutObject`."""

    function: str
    pid: int
    operation: str
    path: str
    body: bytes

    def holds(self, text: str) -> bool:
        """Whether path or body hold a text, or the operation is it."""
        return text in self.path or text.encode() in self.body or text == self.operation


@dataclass
class Rule:
    """Strikes at the first `times` calls of an operation that hold all the texts."""

    operation: str
    holding: tuple[str, ...]
    strike: Strike
    times: int = 1
    struck: list[Call] = field(default_factory=list)
    hit: threading.Event = field(default_factory=threading.Event)

    def names(self, call: Call) -> bool:
        """Whether this call is to be struck."""
        wanted = len(self.struck) < self.times and call.operation == self.operation
        return wanted and all(call.holds(text) for text in self.holding)


class Proxy:
    """Listens on a loopback port of its own; `forward_to` says which emulator is behind it."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._rules: list[Rule] = []
        self._detours: dict[str, int] = {}
        self._lock = threading.Lock()
        self._emulator: Emulator | None = None
        self._server = _Server((HOST, 0), _Handler)
        self._server.proxy = self
        self._thread = threading.Thread(target=self._server.serve_forever, name="proxy")

    @property
    def environment(self) -> dict[str, str]:
        """What an emulator needs so that its functions call through here, each call with its caller's name."""
        return {
            "AWS_ENDPOINT_URL": f"http://{HOST}:{self._server.server_port}",
            "PYTHONPATH": str(HOOK),
            "PYTHONDONTWRITEBYTECODE": "1",  # every process unpacks its code afresh, and many here live short
        }

    def forward_to(self, emulator: Emulator) -> None:
        """The emulator that answers, and whose processes may be killed."""
        self._emulator = emulator

    def add(self, rule: Rule) -> Rule:
        """Strike by this rule from now on."""
        with self._lock:
            self._rules.append(rule)
        return rule

    def detour(self, mark: str, port: int) -> None:
        """Send the calls that hold a mark to this port from now on; who listens there passes them on."""
        with self._lock:
            self._detours = {**self._detours, mark: port}

    def no_detours(self) -> None:
        """Send every call straight to the emulator again."""
        with self._lock:
            self._detours = {}

    def detour_of(self, call: Call) -> tuple[str, int] | None:
        """The mark that a call holds, and the port where it goes."""
        return next(((mark, port) for mark, port in self._detours.items() if call.holds(mark)), None)

    def made(self, function: str, *, since: int = 0) -> list[Call]:
        """The calls that a function made, from the call numbered `since` on."""
        return [call for call in self.calls[since:] if call.function == function]

    @contextmanager
    def serving(self) -> Iterator[Proxy]:
        """Serve for as long as the block lasts."""
        self._thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()

    def noted(self, call: Call) -> Rule | None:
        """Record a call; the rule that strikes it, if one does."""
        with self._lock:
            self.calls.append(call)
            rule = next((each for each in self._rules if each.names(call)), None)
            if rule:
                rule.struck.append(call)
            return rule

    def kill(self, pid: int) -> None:
        """Kill a function's process; only one of our own emulator's."""
        assert self._emulator
        assert os.getpgid(pid) == self._emulator.pid, f"process {pid} is none of the emulator's"
        os.kill(pid, signal.SIGKILL)

    def connect(self) -> http.client.HTTPConnection:
        """A connection to the emulator."""
        assert self._emulator
        return http.client.HTTPConnection(HOST, self._emulator.port, timeout=UPSTREAM_SECONDS)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    proxy: Proxy

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A killed caller's connection breaks, which is what was wanted; anything else is told."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def serve(self) -> None:
        call = self._call()
        rule = self.server.proxy.noted(call)
        strike = rule.strike if rule else None
        detour = self.server.proxy.detour_of(call) if rule is None else None
        if detour:
            self._relay(call, *detour)
        elif strike is Strike.KILL_BEFORE:
            self.server.proxy.kill(call.pid)
        else:
            status, headers, content = self._forwarded(call)
            if strike is Strike.KILL_AFTER:
                self.server.proxy.kill(call.pid)
            else:
                self._reply(status, headers, content)
        self.close_connection = self.close_connection or strike is not None
        if rule:
            rule.hit.set()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = serve

    def _call(self) -> Call:
        assert "Transfer-Encoding" not in self.headers, "no function sends chunks"
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        caller = CALLER.search(self.headers.get("User-Agent", ""))
        function, pid = (caller["function"], int(caller["pid"])) if caller else ("", 0)
        return Call(function, pid, self._operation(), self.path, body)

    def _operation(self) -> str:
        prefix, _, action = self.headers.get("X-Amz-Target", "").partition(".")
        if action:
            return f"{TARGETS[prefix]}:{action}"
        if "/functions/" in self.path:
            return "lambda:Invoke"
        return f"s3:{_s3_operation(self.command, self.path)}"

    def _forwarded(self, call: Call) -> tuple[int, list[tuple[str, str]], bytes]:
        """Pass the call on byte for byte, keys that look like paths included."""
        upstream = self.server.proxy.connect()
        try:
            upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in HOP_BY_HOP:
                    upstream.putheader(name, value)
            upstream.endheaders(call.body)
            answer = upstream.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            upstream.close()

    def _relay(self, call: Call, mark: str, port: int) -> None:
        """Let a detour answer, byte for byte; a connection that it breaks off before any answer is reset."""
        left_out = HOP_BY_HOP | {"host"}
        given = [f"{name}: {value}" for name, value in self.headers.items() if name.lower() not in left_out]
        ours = [UNDOTTED, f"{MARK}: {mark}", "Connection: close"]
        head = "\r\n".join([f"{self.command} {self.path} HTTP/1.1", *given, *ours, "", ""]).encode("latin-1")
        self.close_connection = True
        with socket.create_connection((HOST, port), UPSTREAM_SECONDS) as beyond:
            beyond.sendall(head + call.body)
            if not self._copied(beyond):
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
                os.close(self.connection.detach())

    def _copied(self, beyond: socket.socket) -> int:
        """Pass an answer on up to its end; returns its length."""
        length = 0
        with contextlib.suppress(ConnectionResetError):
            while chunk := beyond.recv(65536):
                self.wfile.write(chunk)
                length += len(chunk)
        return length

    def _reply(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in HOP_BY_HOP | {"content-length"} or (
                name.lower() == "content-length" and self.command == "HEAD"
            ):
                self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        """The record of calls is the log."""


def _s3_operation(method: str, path: str) -> str:
    parts = urlsplit(path)
    query = parse_qs(parts.query, keep_blank_values=True)
    if method == "POST" and "delete" in query:
        return "DeleteObjects"
    if method == "GET" and "list-type" in query:
        return "ListObjectsV2"
    if method == "GET" and "versioning" in query:
        return "GetBucketVersioning"
    return f"{method.capitalize()}Object"
