"""A server that an agent speaks for stays drained, though the agent says 'ready' every second."""

from __future__ import annotations

import socketserver
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from integration.fleets import on_queueing
from integration.runtime_site import Load, Runtime, begun_after, now, runtime
from integration.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from integration.fleets import Proxy
    from lbgen.lab.boxes import MockBox


@contextmanager
def agent() -> Iterator[int]:
    """Give the port of an agent that wants every server in rotation, as `lbgen agent` does."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.rfile.readline()
            self.wfile.write(b"ready up 100%\n")

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()


@on_queueing
def test_the_agents_word_does_not_end_it(proxy: Proxy, mocks: list[MockBox]) -> None:
    with agent() as port:
        pool: dict[str, Any] = {
            "strategy": {"name": "kv_cache", "agent_host": "127.0.0.1", "agent_port": port},
        }
        with runtime(proxy, mocks, **pool) as site, Load(site, parallel=8, tokens=3) as running:
            _drained_through_a_reload(site, pool)
        assert running.lost == []


def _drained_through_a_reload(site: Runtime, pool: dict[str, Any]) -> None:
    fleet = site.fleet(**pool)
    assert site.lbgen("drain", fleet, "chat/gpu-1").returncode == 0
    drained = now()
    time.sleep(2.5)  # the agent is asked every second
    assert site.running()["gpu-1"].held == "drain"
    done = site.apply(fleet | {"logs": {"level": "warning"}})
    assert done.returncode == 0, done.stderr
    assert "in rotation for a moment" not in done.stderr
    time.sleep(2.5)
    assert site.running()["gpu-1"].held == "drain"
    assert begun_after(site.mocks[1], drained) == []
    assert site.lbgen("undrain", fleet, "chat/gpu-1").returncode == 0
    eventually(lambda: bool(begun_after(site.mocks[1], drained)), 20, "it gets requests again")
