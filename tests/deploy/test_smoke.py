"""One small request through a listener: what is sent, and what is a good answer."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from typing import TYPE_CHECKING, Any, Self

import pytest

from lbgen.checker.certificate import throwaway_bundle
from lbgen.deploy.smoke import Smoke, smoke, smoke_for
from lbgen.model import ListenerTls
from lbgen.problems import LbgenError
from lbgen.units import Address
from tests import factory

if TYPE_CHECKING:
    from pathlib import Path

    from lbgen.model import Fleet, Secret

STREAM = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    b'data: {"choices": [{"text": "ok"}]}\n\ndata: [DONE]\n\n'
)


class Door:
    """A listener that gives one answer, and remembers what it was sent."""

    def __init__(self, answer: bytes, tls: ssl.SSLContext | None = None) -> None:
        self.asked = b""
        self._answer, self._tls = answer, tls
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve)

    @property
    def address(self) -> Address:
        return Address("127.0.0.1", self._socket.getsockname()[1])

    def _serve(self) -> None:
        connection, _ = self._socket.accept()
        with (
            connection if self._tls is None else self._tls.wrap_socket(connection, server_side=True) as stream
        ):
            while not self._whole():
                self.asked += stream.recv(65_536)
            stream.sendall(self._answer)

    def _whole(self) -> bool:
        head, end, body = self.asked.partition(b"\r\n\r\n")
        length = [line.split(b":")[1] for line in head.split(b"\r\n") if line.startswith(b"Content-Length:")]
        return bool(end) and len(body) >= int(length[0] if length else 0)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        self._socket.close()

    @property
    def head(self) -> str:
        return self.asked.partition(b"\r\n\r\n")[0].decode()

    @property
    def body(self) -> Any:
        return json.loads(self.asked.partition(b"\r\n\r\n")[2])


def fleet(door: Door, **values: Any) -> Fleet:
    pool = factory.pool(models=("llama-*", "llama-70b"))
    return factory.fleet(pool, listeners=(factory.listener(binds=(door.address,), **values),))


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/v1/chat/completions", "messages"),
        ("/v1/completions", "prompt"),
        ("/gpt/v1/completions?x=1", "prompt"),
    ],
)
def test_a_stream_is_asked_for_and_read_to_its_end(path: str, key: str) -> None:
    with Door(STREAM) as door:
        said = smoke(fleet(door), "nginx", Smoke(path, "llama-70b", ""))
    assert f"smoke request to {path}: a stream of 2 events, the first after 0." in said
    assert door.head.startswith(f"POST {path} HTTP/1.1\r\n")
    assert door.body["model"] == "llama-70b"
    assert door.body["stream"] is True
    assert key in door.body


def test_another_path_is_asked_with_get() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
    with Door(answer) as door:
        assert smoke(fleet(door), "nginx", Smoke("/v1/models", "m", "")).endswith("200 with 2 bytes")
    assert door.head.startswith("GET /v1/models ")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 503 No\r\nContent-Length: 4\r\n\r\nbusy", "got 503: busy"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", "a stream without events"),
        (STREAM.replace(b'{"choices"', b'{"error"'), "streamed an error"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 99\r\n\r\ndata: {}\n",
            "an incomplete stream",
        ),
        (b"", "got no response"),
    ],
)
def test_what_is_no_good_answer(answer: bytes, words: str) -> None:
    with Door(answer) as door, pytest.raises(LbgenError, match=words):
        smoke(fleet(door), "nginx", Smoke("/v1/completions", "m", ""))


class Secrets:
    def resolve(self, secret: Secret) -> str:
        return f"value-of-{secret.reference}"


@pytest.mark.parametrize(
    ("header", "line"),
    [
        ("Authorization", "Authorization: Bearer value-of-TEAM_A_KEY"),
        ("X-Api-Key", "X-Api-Key: value-of-TEAM_A_KEY"),
    ],
)
def test_the_first_client_of_the_listener_asks_with_its_key(header: str, line: str) -> None:
    auth = factory.listener().auth._replace(clients=("team-a",), header=header, required=True)
    with Door(STREAM) as door:
        wanted = fleet(door, auth=auth)._replace(clients=(factory.client("other"), factory.client()))
        request = smoke_for(wanted, "/v1/completions", None, Secrets())
        smoke(wanted, "nginx", request)
    assert request.model == "llama-70b", "the first that is no pattern"
    assert line in door.head.split("\r\n")


def test_no_key_is_sent_where_nobody_asks_for_one() -> None:
    open_fleet = factory.fleet(clients=(factory.client(),))
    assert not smoke_for(open_fleet, "/v1/completions", "mine", Secrets()).key
    assert smoke_for(open_fleet, "/v1/completions", "mine", Secrets()).model == "mine"


def tls(**values: Any) -> ListenerTls:
    return ListenerTls(None, None, "site.pem", None, "intermediate", hsts=False, client_ca=None)._replace(
        **values
    )


def test_tls_with_the_listeners_name(tmp_path: Path) -> None:
    bundle = tmp_path / "site.pem"
    bundle.write_text(throwaway_bundle())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(bundle)
    names: list[str | None] = []
    context.sni_callback = lambda _socket, name, _context: names.append(name)
    with Door(STREAM, context) as door:
        smoke(fleet(door, tls=tls(), hosts=("*.example.org",)), "nginx", Smoke("/v1/completions", "m", ""))
    assert names == ["lbgen.example.org"]
    assert "Host: lbgen.example.org" in door.head


def test_a_listener_for_client_certificates_is_not_for_us() -> None:
    closed = factory.fleet(listeners=(factory.listener(tls=tls(client_ca="ca.pem")),))
    with pytest.raises(LbgenError, match="requires client certificates"):
        smoke_for(closed, "/v1/completions", None, Secrets())


@pytest.mark.parametrize(
    ("target", "trusted", "says"),
    [
        ("nginx", (), True), ("nginx", ("10.0.0.0/8",), True),
        ("haproxy", (), True), ("haproxy", ("10.0.0.0/8",), False), ("haproxy", ("127.0.0.0/8",), True),
    ],
)  # fmt: skip
def test_the_proxy_protocol_is_spoken_where_it_is_expected(
    target: str, trusted: tuple[str, ...], says: bool
) -> None:
    with Door(STREAM) as door:
        wanted = fleet(door, accept_proxy=True, trusted_proxies=trusted)
        smoke(wanted, target, Smoke("/v1/completions", "m", ""))
    assert door.head.startswith("PROXY UNKNOWN\r\nPOST ") == says
