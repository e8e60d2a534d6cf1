"""An HTTPS server on the loopback address that behaves as it is told, and remembers what it was asked."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from infra.local.authority import Issued, issue

NAME = "carriers.example.com"

Behaviour = Callable[[ssl.SSLSocket], None]  # what is done to a connection once the request was read


def answers(status: str = "204 No Content", body: bytes = b"", **headers: str) -> Behaviour:
    """A proper answer."""
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    head = "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *lines, "", ""])
    return says(head.encode("latin-1") + body)


def says(given: bytes) -> Behaviour:
    """These bytes, whatever they are."""
    return lambda connection: connection.sendall(given)


def stays_silent(until: threading.Event) -> Behaviour:
    """No byte, until then."""
    return lambda connection: _ignore(until.wait(30))


def drips(until: threading.Event, given: bytes = b"HTTP/1.1 204 No Content\r\n") -> Behaviour:
    """One byte after another, forever; each comes long before a reader gives up."""

    def drip(connection: ssl.SSLSocket) -> None:
        connection.sendall(given)
        while not until.wait(0.05):
            connection.sendall(b"x")

    return drip


def resets(connection: ssl.SSLSocket) -> None:
    """An abrupt end, without an answer."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def floods(until: threading.Event) -> Behaviour:
    """200, and a body without an end."""

    def flood(connection: ssl.SSLSocket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while not until.is_set():
            connection.sendall(b"x" * 65_536)

    return flood


@dataclass
class Server:
    """`behaves`: what is done to the connections to come, the last of it to all that follow."""

    issued: Issued
    behaves: list[Behaviour] = field(default_factory=lambda: [answers()])
    requests: list[bytes] = field(default_factory=list)
    names: list[str | None] = field(default_factory=list)  # that clients said they meant

    def __post_init__(self) -> None:
        self.over = threading.Event()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.issued.certificate, self.issued.key)
        context.sni_callback = lambda sock, name, _: self.names.append(name)
        self._context = context
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def host(self) -> str:
        return f"{NAME}:{self.port}"

    def stop(self) -> None:
        self.over.set()
        self._listening.shutdown(socket.SHUT_RDWR)  # which also ends the accept that is waiting
        self._listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                accepted, _ = self._listening.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=(accepted,), daemon=True).start()

    def _serve(self, accepted: socket.socket) -> None:
        accepted.settimeout(10)
        with contextlib.suppress(OSError), self._context.wrap_socket(accepted, server_side=True) as connection:
            request = _read(connection)
            if request:
                self.requests.append(request)
                behaviour = self.behaves.pop(0) if len(self.behaves) > 1 else self.behaves[0]
                behaviour(connection)


def _read(connection: ssl.SSLSocket) -> bytes:
    """One request: its head, and as much of a body as that announces."""
    found = b""
    while b"\r\n\r\n" not in found:
        more = connection.recv(65_536)
        if not more:
            return found
        found += more
    head, _, body = found.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
    while len(body) < length:
        body += connection.recv(65_536)
    return head + b"\r\n\r\n" + body


@contextlib.contextmanager
def serving(folder: Path, *names: str) -> Iterator[Server]:
    """A server with a certificate for these names, or else for its own."""
    server = Server(issue(folder, *(names or (NAME,))))
    try:
        yield server
    finally:
        if not server.over.is_set():
            server.stop()


def _ignore(_: object) -> None:
    """A behaviour has no answer."""
