"""WebSockets as clients of the Realtime API open them: by route, by model, with a browser's key."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import openai
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.sync.server import serve

from integration.debian import ImageError
from integration.edge import Ask, started
from integration.fleets import TARGETS, TRIED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from websockets.sync.server import ServerConnection
    from websockets.typing import Subprotocol

    from integration.edge import Edge
    from lbgen.lab.boxes import MockBox
    from lbgen.lab.rig import Rig

SECRETS = {"TEAM": "sk-team-0001"}
PROTOCOL = "openai-insecure-api-key"
HANDSHAKE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
}


def realtime(connection: ServerConnection) -> None:
    """Say in the first event what the handshake was, and send events back."""
    assert connection.request is not None
    asked = connection.request
    session = {
        "path": asked.path,
        "headers": [[key.lower(), value] for key, value in asked.headers.raw_items()],
    }
    connection.send(json.dumps({"type": "session.created", "event_id": "1", "session": session}))
    for message in connection:
        connection.send(message)


def chosen(_: ServerConnection, offered: Sequence[Subprotocol]) -> Subprotocol | None:
    return offered[0] if offered else None


@pytest.fixture(scope="module", params=TRIED)
def sockets(request: pytest.FixtureRequest, rig: Rig, running_mocks: list[MockBox]) -> Iterator[Edge]:
    del running_mocks  # they have to run
    with serve(realtime, rig.gateway, 0, select_subprotocol=chosen) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"{rig.gateway}:{server.socket.getsockname()[1]}"
        fleet: dict[str, Any] = {
            "pools": {
                "voice": {"engine": "http", "models": ["voxtral*"], "servers": [address]},
                "rest": {"engine": "http", "servers": ["gpu-0:8000"]},
            },
            "clients": {"team": {"key": "env:TEAM"}},
            "listeners": {
                "public": {
                    "bind": "8080",
                    "auth": {"clients": "all", "websocket_protocol": PROTOCOL},
                    "routes": [
                        {"path": "/v1/realtime", "model": "voxtral*", "websocket": True, "pool": "voice"},
                        {"name": "rest", "pool": "rest"},
                    ],
                }
            },
        }
        try:
            with started(rig, fleet, request.param, SECRETS) as edge:
                yield edge
        except ImageError as error:
            pytest.skip(str(error))


def header(session: dict[str, Any], name: str) -> list[str]:
    return [value for key, value in session["headers"] if key == name]


# openai 3.57 opens it in the way that websockets 17 calls old.
@pytest.mark.filterwarnings("ignore:connect:DeprecationWarning")
@pytest.mark.parametrize("target", TARGETS)
def test_openais_client_talks(sockets: Edge, target: str) -> None:
    url = f"{sockets.balancers[target].url}/v1"
    with (
        openai.OpenAI(base_url=url, api_key=SECRETS["TEAM"], max_retries=0) as client,
        client.realtime.connect(model="voxtral-mini") as connection,
    ):
        created: Any = connection.recv()
        assert created.type == "session.created"
        session = created.session if isinstance(created.session, dict) else created.session.to_dict()
        assert session["path"] == "/v1/realtime?model=voxtral-mini"
        assert header(session, "authorization") == []
        connection.send({"type": "response.create"})
        back: Any = connection.recv()
        assert back.type == "response.create"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "offered",
    [["realtime", f"{PROTOCOL}.sk-team-0001", "beta"], [f"{PROTOCOL}.sk-team-0001", "realtime", "beta"]],
)
def test_a_browsers_key_is_read_and_taken_off(sockets: Edge, target: str, offered: list[Subprotocol]) -> None:
    url = sockets.balancers[target].url.replace("http", "ws", 1)
    with connect(f"{url}/v1/realtime?model=voxtral-mini", subprotocols=offered) as connection:
        session = json.loads(connection.recv())["session"]
        assert connection.subprotocol == "realtime"
        assert header(session, "sec-websocket-protocol") == ["realtime, beta"]
        assert "sk-team" not in json.dumps(session)


@pytest.mark.parametrize("target", TARGETS)
def test_a_key_alone_leaves_no_subprotocol(sockets: Edge, target: str) -> None:
    """No server can choose one then, and clients who asked for one hang up: browsers offer two."""
    ask = Ask("/v1/x", headers={**HANDSHAKE, "Sec-WebSocket-Protocol": f"{PROTOCOL}.sk-team-0001"})
    got = sockets.each(ask)[target]
    assert (got.status, got.sent("sec-websocket-protocol")) == (200, None)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("offered", [["realtime"], ["realtime", f"{PROTOCOL}.sk-wrong"]])
def test_nobody_comes_in_without_a_key(sockets: Edge, target: str, offered: list[Subprotocol]) -> None:
    url = sockets.balancers[target].url.replace("http", "ws", 1)
    with (
        pytest.raises(InvalidStatus) as caught,
        connect(f"{url}/v1/realtime?model=voxtral", subprotocols=offered),
    ):
        pass
    assert caught.value.response.status_code == 401


def test_a_key_in_a_plain_request_is_none(sockets: Edge) -> None:
    got = sockets.same(Ask("/v1/x", headers={"Sec-WebSocket-Protocol": f"{PROTOCOL}.sk-team-0001"}))
    assert (got.status, got.code) == (401, "invalid_api_key")


def test_two_keys_are_refused(sockets: Edge) -> None:
    two = f"{PROTOCOL}.sk-team-0001, {PROTOCOL}.sk-team-0001"
    got = sockets.same(Ask("/v1/x", headers={**HANDSHAKE, "Sec-WebSocket-Protocol": two}))
    assert (got.status, got.code) == (400, "bad_request")


def test_other_routes_pass_no_websocket_on(sockets: Edge) -> None:
    key = {"Authorization": f"Bearer {SECRETS['TEAM']}"}
    for path in ("/v1/x", "/v1/realtime?model=other"):
        got = sockets.same(Ask(path, headers={**HANDSHAKE, **key}))
        assert (got.status, got.sent("upgrade")) == (200, None)
