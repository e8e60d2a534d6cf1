"""The application whose endpoint the demo calls: it cancels bookings, each once, and has its bad moments.

It lives in threads of this process, on the loopback address, and knows a call that comes again by its Idempotency-Key.
"""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from infra.local.authority import issue
from infra.local.demo.serving import serving

NAME = "localhost"  # what its certificate is for
SECRET, TOKEN = "sexton/carriers", "Bearer of-the-demo"
RETRY_AFTER = "2"  # seconds
CALL_SECONDS = 10.0  # for all of one call


class Mood(Enum):
    """How it takes the calls for one booking."""

    WELL = "cancels it"
    LOSES_REPLY = "cancels it, and its reply is lost"
    BUSY = f"has no time: come again after {RETRY_AFTER} s"
    REFUSES = "will not cancel it, ever"


@dataclass
class Heard:
    """What came for one booking: the answers that it gave, in order, the keys that it saw, and how often it did it."""

    answers: list[str] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    done: int = 0


@dataclass
class Application:
    """`cancel` is what it does to a booking; `authority` signed its certificate."""

    moods: dict[str, Mood]
    authority: Path
    port: int = 0
    cancel: Callable[[str], object] = lambda booking: None
    heard: dict[str, Heard] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def host(self) -> str:
        """Where it is, as a policy names it."""
        return f"{NAME}:{self.port}"

    def answer(self, booking: str, key: str) -> HTTPStatus | None:
        """Take one call; None: there is no answer."""
        with self.lock:
            heard = self.heard.setdefault(booking, Heard())
            mood, again = self.moods[booking], key in heard.keys
            heard.keys.add(key)
            status = self._answer(booking, mood, heard, again)
            heard.answers.append(str(status.value) if status else "no answer")
            return status

    def _answer(self, booking: str, mood: Mood, heard: Heard, again: bool) -> HTTPStatus | None:
        if mood is Mood.REFUSES:
            return HTTPStatus.UNPROCESSABLE_ENTITY
        if mood is Mood.BUSY and not again:
            return HTTPStatus.SERVICE_UNAVAILABLE
        if heard.done and again:
            return HTTPStatus.OK  # it was done for this key: nothing more happens
        heard.done += 1
        self.cancel(booking)
        return None if mood is Mood.LOSES_REPLY else HTTPStatus.NO_CONTENT


@contextlib.contextmanager
def running(folder: Path, moods: dict[str, Mood]) -> Iterator[Application]:
    """An application for as long as the block lasts, its certificate in a folder."""
    issued = issue(folder, NAME)
    application = Application(moods, issued.authority)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.certificate, issued.key)
    handler = type("Handler", (_Handler,), {"application": application, "context": context})
    with serving(handler) as application.port:
        yield application


class _Handler(BaseHTTPRequestHandler):
    application: Application
    context: ssl.SSLContext
    timeout = CALL_SECONDS

    def setup(self) -> None:
        """The handshake is the connection's own affair: one that hangs holds up no other."""
        self.request.settimeout(CALL_SECONDS)
        self.request = self.context.wrap_socket(self.request, server_side=True)
        super().setup()

    def finish(self) -> None:
        super().finish()
        self.request.close()  # the server closes the socket that it accepted, which the secured one has taken over

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        *_, booking, verb = self.path.split("/")
        if self.headers.get("Authorization") != TOKEN:
            return self._say(HTTPStatus.UNAUTHORIZED)
        if verb != "cancel" or booking not in self.application.moods:
            return self._say(HTTPStatus.NOT_FOUND)
        status = self.application.answer(booking, self.headers["Idempotency-Key"])
        if status is None:
            self.close_connection = True
            return None
        return self._say(status)

    def _say(self, status: HTTPStatus) -> None:
        body = b"" if status is HTTPStatus.NO_CONTENT else json.dumps({"message": status.phrase}).encode()
        self.send_response(status)
        if status is HTTPStatus.SERVICE_UNAVAILABLE:
            self.send_header("Retry-After", RETRY_AFTER)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the screen is the demo's."""
