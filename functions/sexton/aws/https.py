"""Calls of endpoints over HTTPS: to an address that was checked, once, within a time, and nothing of it is kept.

Python's own client is used below urllib3, which logs what it cannot read of an answer's headers.
"""

from __future__ import annotations

import re
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import cached_property
from http.client import HTTPConnection, HTTPException, HTTPResponse, parse_headers
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread, Timer
from typing import Any
from urllib.parse import urlsplit

from botocore.httpsession import get_cert_path

from sexton.aws.secrets import Secret, Secrets
from sexton.errors import CallFailed, Failure, ReasonClass
from sexton.http_call import HttpAnswer, HttpCall, idempotency_key, wait_asked
from sexton.public_address import why_refused
from sexton.redact import HIDDEN, redact

CONNECT = 5.0  # seconds
READ_AWAY = 65_536  # bytes of a body, read so that the server need not see its answer refused
READ_AWAY_FOR = 1.0  # seconds without a byte
LONGEST_REASON = 100  # characters
SHORTEST_SECRET = 4  # characters of it that are looked for in a reason
UNAUTHORIZED = 401
ANNOUNCING = frozenset(range(102, 200))

Resolve = Callable[[str, int], Sequence[str]]


def resolve(host: str, port: int) -> list[str]:
    """The addresses of a name. Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class HttpsEndpoints:
    """Endpoints, called as policies say. It keeps their pace, so that one is to be kept as long as calls are made.

    `stack` tells its jobs from those of every other stack. `longest`: what one call may take, whatever a policy says.
    `local_ca`: on the emulator, the only authority that is believed; then loopback is the only address that is called.
    """

    def __init__(
        self,
        secrets: Secrets,
        stack: str,
        longest: timedelta = timedelta(seconds=23),
        local_ca: Path | None = None,
        resolve: Resolve = resolve,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._secrets = secrets
        self._stack = stack
        self._longest = longest
        self._local_ca = local_ca
        self._resolve = resolve
        self._sleep = sleep
        self._monotonic = monotonic
        self._next: dict[str, float] = {}  # when each policy's next call may be made

    @cached_property
    def _context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self._local_ca or get_cert_path(True))
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context

    def request_timeout(self) -> timedelta:
        """The longest that one call may take."""
        return self._longest

    def await_turn(self, policy: str, pause: timedelta) -> None:
        """Wait until the pause since the policy's last turn is over."""
        now = self._monotonic()
        turn = max(now, self._next.get(policy, now))
        self._next[policy] = turn + pause.total_seconds()
        if turn > now:
            self._sleep(turn - now)

    def call(self, call: HttpCall) -> HttpAnswer:
        """One call, never repeated."""
        deadline = self._monotonic() + min(call.timeout, self._longest).total_seconds()
        host, port, path = _parts(call)
        secrets = {header: self._secrets.read(name) for header, name in call.secrets.items()}
        addresses = self._addresses(host, port, deadline)
        with _Connection(host, port) as connection:
            connection.sock = sock = self._connected(host, addresses, port, deadline)
            with self._within(sock, deadline):
                connection.request(call.method, path, call.body, self._headers(call, secrets))
                with connection.getresponse() as answer:
                    kept = self._kept(answer, secrets)
                    _read_away(sock, answer)
        if kept.status == UNAUTHORIZED:
            return self._unauthorized(call, kept, secrets)
        return kept

    def _unauthorized(self, call: HttpCall, answer: HttpAnswer, secrets: dict[str, Secret]) -> HttpAnswer:
        """A secret that was kept may have been changed since: it is read again, and the call made again later."""
        if all(secret.fresh for secret in secrets.values()):
            return answer
        for name in call.secrets.values():
            self._secrets.forget(name)
        raise CallFailed(Failure(ReasonClass.TRANSIENT, "secret_outdated", "401: the secret is read anew"))

    # where to

    def _addresses(self, host: str, port: int, deadline: float) -> Sequence[str]:
        """What a name resolves to, asked for once: all of it must be allowed, or none is."""
        addresses = self._resolved(host, port, deadline)
        for address in addresses:
            refused = why_refused(address, local=self._local_ca is not None)
            if refused:
                raise _refused("address_refused", f"{host}: {refused}")
        if not addresses:
            raise _not_sent("name_unresolved", f"{host} has no address")
        return addresses

    def _resolved(self, host: str, port: int, deadline: float) -> Sequence[str]:
        """The system's resolver knows no time limit: it is left behind where it takes too long."""
        found: SimpleQueue[Sequence[str] | OSError] = SimpleQueue()

        def ask() -> None:
            try:
                found.put(self._resolve(host, port))
            except (OSError, UnicodeError) as error:
                found.put(OSError(type(error).__name__))

        Thread(target=ask, daemon=True).start()
        try:
            answer = found.get(timeout=max(0.0, min(CONNECT, deadline - self._monotonic())))
        except Empty:
            raise _not_sent("name_unresolved", f"no answer about {host} came in time") from None
        if isinstance(answer, OSError):
            raise _not_sent("name_unresolved", f"{host}: {answer}")
        return answer

    def _connected(self, host: str, addresses: Sequence[str], port: int, deadline: float) -> ssl.SSLSocket:
        """Connected to the first of exactly these addresses that answers; its certificate is one of the host's."""
        failed = ""
        for address in addresses:
            try:
                return self._secured(socket.create_connection((address, port), self._left(deadline)), host, deadline)
            except ssl.SSLCertVerificationError as error:
                raise _refused("certificate_refused", f"{host}: {redact(error.verify_message)}") from None
            except OSError as error:
                failed = type(error).__name__
        raise _not_sent("not_connected", f"{host}: {failed}")

    def _secured(self, sock: socket.socket, host: str, deadline: float) -> ssl.SSLSocket:
        try:
            sock.settimeout(self._left(deadline))
            return self._context.wrap_socket(sock, server_hostname=host)
        except BaseException:
            sock.close()
            raise

    def _left(self, deadline: float) -> float:
        return max(0.001, min(CONNECT, deadline - self._monotonic()))

    # what is sent, and what comes back

    @contextmanager
    def _within(self, sock: ssl.SSLSocket, deadline: float) -> Iterator[None]:
        """Whatever goes wrong in here, the call may have been carried out. At the deadline the connection is cut."""
        left = max(0.001, deadline - self._monotonic())
        sock.settimeout(left)
        cut = Timer(left, _cut, [sock])
        cut.daemon = True
        cut.start()
        try:
            yield
        except (OSError, HTTPException, ValueError) as error:
            late = isinstance(error, TimeoutError) or self._monotonic() >= deadline
            code = "timeout" if late else "reply_lost"
            what = f"no answer came in time ({type(error).__name__})" if late else type(error).__name__
            raise CallFailed(Failure(ReasonClass.TRANSIENT, code, what, unknown_effect=True)) from None
        finally:
            cut.cancel()

    def _headers(self, call: HttpCall, secrets: dict[str, Secret]) -> dict[str, str]:
        headers = {
            "Accept": "*/*",
            "Connection": "close",
            "Idempotency-Key": idempotency_key(self._stack, call.job_id),
            "User-Agent": "sexton",
        }
        if call.body is not None:
            headers["Content-Type"] = "application/json"
        return {**headers, **{header: secret.value for header, secret in secrets.items()}}

    def _kept(self, answer: HTTPResponse, secrets: dict[str, Secret]) -> HttpAnswer:
        wait = wait_asked(answer.headers.get("Retry-After", ""), datetime.now(UTC))
        return HttpAnswer(answer.status, _reason(answer.reason, list(secrets.values())), wait)


class _Lines:
    """What an answer is read from; `cut`: it ended within a line, or before the line that ends a head."""

    def __init__(self, given: Any) -> None:
        self._given = given
        self.cut = False

    def readline(self, limit: int = -1) -> bytes:
        line: bytes = self._given.readline(limit)
        self.cut = self.cut or not line.endswith(b"\n")
        return line

    def __getattr__(self, name: str) -> Any:
        return getattr(self._given, name)


class _WholeHead(HTTPResponse):
    """An answer whose head came to its end: Python takes one that was cut short for whole."""

    def begin(self) -> None:
        self.fp = lines = _Lines(self.fp)  # type: ignore[assignment]
        super().begin()
        if lines.cut:
            raise HTTPException("the answer was cut short")

    def _read_status(self) -> tuple[str, int, str]:
        """Answers that announce another one (103 Early Hints, for example) are none yet; Python knows of 100 alone."""
        read: Callable[[], tuple[str, int, str]] = super()._read_status  # type: ignore[misc]
        found = read()
        while found[1] in ANNOUNCING:
            parse_headers(self.fp)
            found = read()
        return found


class _Connection(HTTPConnection):
    """Over a socket that it is given, and closed with it."""

    auto_open = 0
    default_port = 443  # of the scheme, else the port would stand in Host, which some servers route by
    response_class = _WholeHead

    def __enter__(self) -> _Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _parts(call: HttpCall) -> tuple[str, int, str]:
    """Host, port and path with query; refused where the URL leads elsewhere than the policy allows."""
    try:
        url = urlsplit(call.url)
        host, port = url.hostname or "", url.port or 443
    except ValueError:
        raise _refused("url_refused", "the URL is none") from None
    named = host if port == 443 else f"{host}:{port}"
    if url.scheme != "https" or url.username or url.password or url.fragment or named not in call.hosts:
        raise _refused("url_refused", f"the URL leads to {redact(named)}, which the policy does not allow")
    return host, port, f"{url.path or '/'}{'?' + url.query if url.query else ''}"


def _read_away(sock: ssl.SSLSocket, answer: HTTPResponse) -> None:
    """The status has come; a body that is too long, too slow or cut short changes nothing about that."""
    with suppress(OSError, HTTPException, ValueError):
        sock.settimeout(READ_AWAY_FOR)
        answer.read(READ_AWAY)


def _reason(given: str, secrets: Sequence[Secret]) -> str:
    """The status line's own words, short, and without any word of a secret in them: in capitals, encoded or in part.

    Longer parts go first, so that little is left of what is repeated as it is.
    """
    splits = (r"[\s,;:=\"']+", r"[^A-Za-z0-9]+")
    parts = {part for secret in secrets for split in splits for part in (secret.value, *re.split(split, secret.value))}
    looked_for = sorted((part for part in parts if len(part) >= SHORTEST_SECRET), key=len, reverse=True)
    if not looked_for:
        return redact(given, LONGEST_REASON)
    words = "|".join(map(re.escape, looked_for))
    return redact(re.sub(words, HIDDEN, given, flags=re.IGNORECASE), LONGEST_REASON)


def _cut(sock: ssl.SSLSocket) -> None:
    """End both directions, which wakes whoever reads; the connection may be closed by now."""
    with suppress(OSError):
        socket.socket.shutdown(sock, socket.SHUT_RDWR)


def _refused(code: str, summary: str) -> CallFailed:
    return CallFailed(Failure(ReasonClass.PERMANENT, code, summary))


def _not_sent(code: str, summary: str) -> CallFailed:
    return CallFailed(Failure(ReasonClass.TRANSIENT, code, summary))
