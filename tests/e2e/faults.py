"""microburst between the proxy and the emulator: the faults of the network and of AWS itself, in AWS's own form.

Here and not on every call's way, because it tidies the paths that it passes on: keys such as `a/../b` would not
arrive as they are. The proxy sends it the calls of a fault's own policies, each with the mark that its rules go by.

Its HTTP side answers with errors, delays and broken connections. It cannot lose a reply that has no body, such as
that of PutObject: for that there is its TCP side, which knows bytes only.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import urlsplit

from aiohttp import web
from microburst.app import make_app
from microburst.core.pipeline import Microburst
from microburst.rules import Rule
from microburst.tcp.server import TcpProxy, handle_client

from infra.local.emulator import HOST
from tests.e2e.proxy import MARK, Proxy

T = TypeVar("T")

STOP_SECONDS = 1.0  # for answers that are still held back


class Faults:
    """Both sides of microburst, each on a port of its own, in a thread of this process."""

    def __init__(self, endpoint: str, proxy: Proxy) -> None:
        there = urlsplit(endpoint)
        assert there.hostname
        assert there.port
        self._proxy = proxy
        self._http = Microburst(endpoint)
        self._tcp = TcpProxy(there.hostname, there.port)
        self._ports: dict[str, int] = {}
        self.made: dict[str, Rule] = {}  # by mark
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="microburst")

    def strike(self, mark: str, **rule: Any) -> Rule:
        """A rule, as microburst writes it, for the calls that hold a mark; it counts in `fired_count`.

        One that cuts the reply is for the TCP side: its `payload` is a pattern of the request's first line.
        """
        side, engine = ("tcp", self._tcp.engine) if "cut_reply" in rule else ("http", self._http.engine)
        if side == "tcp":
            given = rule | {"payload": rf"(?s)^{rule['payload']}.*\r\n{MARK}: {mark}\r\n"}
        else:
            given = rule | {"headers": {MARK: mark}}
        (self.made[mark],) = engine.add_rules([given])
        self._proxy.detour(mark, self._ports[side])
        return self.made[mark]

    @contextmanager
    def serving(self) -> Iterator[Faults]:
        """Serve for as long as the block lasts."""
        self._thread.start()
        try:
            runner, server = self._run(self._listen())
            try:
                yield self
            finally:
                self._proxy.no_detours()
                self._run(self._close(runner, server))
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _listen(self) -> tuple[web.AppRunner, asyncio.Server]:
        runner = web.AppRunner(make_app(self._http), access_log=None, shutdown_timeout=STOP_SECONDS)
        await runner.setup()
        await web.TCPSite(runner, HOST, 0).start()
        server = await asyncio.start_server(lambda reader, writer: handle_client(self._tcp, reader, writer), HOST, 0)
        self._ports = {"http": runner.addresses[0][1], "tcp": server.sockets[0].getsockname()[1]}
        return runner, server

    async def _close(self, runner: web.AppRunner, server: asyncio.Server) -> None:
        server.close()
        await runner.cleanup()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
