from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from lbgen.cli.operate.status_text import text_of, value_of
from lbgen.deploy.runtime.running import RunningPool
from lbgen.deploy.status import CountedStatus, NoStatus, RuntimeStatus, counted_status, runtime_status
from lbgen.model import Metrics, Secret
from lbgen.render import render
from lbgen.secret_values import RealSecrets
from lbgen.targets.haproxy.reading.read import read
from lbgen.targets.inventory import Inventory
from lbgen.units import Address
from tests import factory
from tests.deploy.fake_haproxy import FakeHaproxy, Server

STUB = (
    "Active connections: 7 \nserver accepts handled requests\n 16 15 34 \nReading: 1 Writing: 4 Waiting: 2 \n"
)


def inventory(**values: object) -> Inventory:
    pool = factory.pool(servers=factory.servers("10.0.0.1:8000", **values))
    fleet = factory.fleet(pool, targets=(factory.settings("haproxy", "2.6"),))
    return read(render(fleet, "haproxy")[0].text)


def asked(tmp_path: Path, file: Inventory, **server: object) -> RuntimeStatus:
    with FakeHaproxy(tmp_path / "s", **{"10.0.0.1": Server(**server)}) as one:
        status = runtime_status("haproxy", str(one.path), file)
    assert isinstance(status, RuntimeStatus)
    return status


def test_a_server_in_text_and_json(tmp_path: Path) -> None:
    status = asked(tmp_path, inventory(max_in_flight=9), in_flight=4, cap="9")
    assert status.differences == ()
    [server] = status.servers.values()
    assert (server.state, server.in_flight, server.cap, server.rate, server.check) == (
        "up",
        4,
        9,
        3,
        "L7OK 200",
    )
    assert value_of(status)["uptime_s"] == 61


def test_a_server_that_is_never_checked_is_told(tmp_path: Path) -> None:
    status = asked(tmp_path, inventory(), check="UNK,")._replace(pools={"chat": RunningPool(0, 0, 0)})
    assert [server.name for server in status.unchecked] == ["10.0.0.1"]
    assert "10.0.0.1 has no finished health check" in text_of(status)
    assert value_of(status)["pools"][0]["servers"][0]["unchecked"] is True


def test_what_a_lying_socket_says_cannot_steer_the_terminal(tmp_path: Path) -> None:
    lying = "L7OK\x1b]0;owned\x07\x9b2J,200"
    status = asked(tmp_path, inventory(), check=lying)._replace(pools={"chat": RunningPool(0, 0, 0)})
    assert "owned" in text_of(status)
    assert text_of(status).replace("\n", "").isprintable()
    assert json.dumps(value_of(status), ensure_ascii=False).isprintable()


def test_the_table_and_what_differs(tmp_path: Path) -> None:
    with FakeHaproxy(tmp_path / "s", **{"10.0.0.1": Server(weight=5, admin=8), "x": Server()}) as one:
        status = runtime_status("haproxy", str(one.path), inventory(weight=2))
    assert isinstance(status, RuntimeStatus)
    found = [f"{one.server} {one.words}" for one in status.differences]
    assert found == [
        "10.0.0.1 runs with weight 5, in the file 2",
        "10.0.0.1 was drained at run time",
        "x is running, but not in the file",
    ]


def test_text_of_a_pool(tmp_path: Path) -> None:
    status = asked(tmp_path, inventory(), in_flight=4)._replace(pools={"chat": RunningPool(4, 1, 3)})
    lines = text_of(status).splitlines()
    assert lines[0].startswith("haproxy 3.0.11 at ")
    assert [line.split() for line in lines[2:]] == [
        ["state", "weight", "in", "flight", "queued", "req/s", "last", "check"],
        ["pool", "chat", "4", "1", "3"],
        ["10.0.0.1", "up", "for", "61s", "1", "4", "0", "3", "L7OK", "200"],
    ]


def test_empty_places_are_counted_and_not_listed(tmp_path: Path) -> None:
    with FakeHaproxy(tmp_path / "s", **{"10.0.0.1": Server(), "x": Server(admin=0x20)}) as one:
        status = runtime_status("haproxy", str(one.path), inventory())
    assert isinstance(status, RuntimeStatus)
    text = text_of(status._replace(pools={"chat": RunningPool(0, 0, 0)}))
    assert text.count("\n  x ") == 1, "as a difference only"
    assert "free slots for discovered servers: 1" in text


def test_a_place_where_nobody_answers(tmp_path: Path) -> None:
    status = runtime_status("haproxy", str(tmp_path / "nobody"), inventory())
    assert isinstance(status, NoStatus)
    assert "no answer on the runtime socket" in status.error
    assert value_of(status)["error"] == status.error


@contextmanager
def web(answer: Callable[[BaseHTTPRequestHandler], tuple[int, str]]) -> Iterator[Metrics]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code, text = answer(self)
            self.send_response(code)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            password = Secret("env", "PASSWORD")
            yield Metrics((Address("127.0.0.1", server.server_port),), (), "u", password, ("metrics",))
        finally:
            server.shutdown()
            thread.join()


def test_nginx_with_a_password() -> None:
    def answer(request: BaseHTTPRequestHandler) -> tuple[int, str]:
        known = request.headers["Authorization"] == "Basic dTpwdw=="
        return (200, STUB) if known and request.path == "/stub_status" else (401, "")

    with web(answer) as metrics:
        status = counted_status("nginx", metrics, RealSecrets({"PASSWORD": "pw"}))
        wrong = counted_status("nginx", metrics, RealSecrets({"PASSWORD": "other"}))
        none = counted_status("nginx", metrics, RealSecrets({}))
    assert isinstance(status, CountedStatus)
    assert status[2:] == (7, 16, 15, 34, 1, 4, 2)
    assert "3 requests in flight, 7 open connections (1 sending a request, 2 idle), 34 requests" in text_of(
        status
    )
    assert isinstance(wrong, NoStatus)
    assert "answers 401" in wrong.error
    assert isinstance(none, NoStatus)
    assert "PASSWORD" in none.error


def test_somebody_else_on_the_metrics_port() -> None:
    with web(lambda _: (200, "hello")) as metrics:
        status = counted_status("nginx", metrics, RealSecrets({"PASSWORD": "pw"}))
    assert isinstance(status, NoStatus)
    assert "does not answer with NGINX's stub_status" in status.error
