"""gRPC streams through the balancers with grpcio, which clients use: long, quiet, and of any size."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from integration import test_edge_tls as certificates
from integration.edge import HOST
from integration.fleets import THREE, Proxy, files
from lbgen.render import RenderedFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.lab.boxes import Balancer
    from lbgen.lab.rig import Rig

pytestmark = pytest.mark.slow
TRIES = THREE

PORT = 8443
TOKENS, UPLOAD, TALK = "/v1.Speech/Tokens", "/v1.Speech/Upload", "/v1.Speech/Talk"
MIB = 1024**2


class _Speech(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpcio has no types
    """Streams in each direction, of plain bytes."""

    def service(self, details: Any) -> Any:
        return {
            TOKENS: grpc.unary_stream_rpc_method_handler(_tokens),
            UPLOAD: grpc.stream_unary_rpc_method_handler(_upload),
            TALK: grpc.stream_stream_rpc_method_handler(_talk),
        }.get(details.method)


def _tokens(request: bytes, context: Any) -> Iterator[bytes]:
    del context
    count, pause = request.split()
    for number in range(int(count)):
        yield b"%d" % number
        time.sleep(float(pause))


def _upload(pieces: Iterator[bytes], context: Any) -> bytes:
    del context
    return b"%d" % sum(map(len, pieces))


def _talk(pieces: Iterator[bytes], context: Any) -> Iterator[bytes]:
    del context
    for piece in pieces:
        count, pause = piece.split()
        for number in range(int(count)):
            yield b"%d" % number
            time.sleep(float(pause))


@pytest.fixture(scope="module")
def speech(rig: Rig) -> Iterator[str]:
    """The address of a server on this machine."""
    server = grpc.server(ThreadPoolExecutor(8), handlers=[_Speech()])
    port = server.add_insecure_port(f"{rig.gateway}:0")
    server.start()
    try:
        yield f"{rig.gateway}:{port}"
    finally:
        server.stop(None)


@contextmanager
def channel(rig: Rig, proxy: Proxy, server: str, **pool: Any) -> Iterator[Any]:
    """Start a balancer whose bodies are short and whose clients are quick, but for gRPC."""
    fleet = {
        "pools": {
            "speech": {"engine": "http", "protocol": "grpc", "health": False, "servers": [server], **pool}
        },
        "listeners": {
            "asked": {"bind": "8080", "routes": [{"respond": {"status": 204}}]},
            "secure": {
                "bind": str(PORT),
                "tls": {"bundle": "server.pem"},
                "max_body": "1MiB",
                "timeouts": {"body": "2s"},
                "routes": [{"pool": "speech"}],
            },
        },
    }
    place = certificates.folder()
    bundle = RenderedFile("server.pem", (place / "server.pem").read_text())
    balancer: Balancer = rig.balancer(proxy.target, proxy.image, (*files(fleet, proxy), bundle))
    trust = grpc.ssl_channel_credentials((place / "ca.pem").read_bytes())
    options = [("grpc.ssl_target_name_override", HOST)]
    made = grpc.secure_channel(f"{balancer.address}:{PORT}", trust, options)
    try:
        yield made
    finally:
        made.close()
        balancer.remove()


def slowly(pieces: list[bytes], pause: float, end: float = 0) -> Iterator[bytes]:
    for piece in pieces:
        yield piece
        time.sleep(pause)
    time.sleep(end)


@pytest.fixture(scope="module")
def speaking(rig: Rig, module_proxy: Proxy, speech: str) -> Iterator[Any]:
    with channel(
        rig, module_proxy, speech, timeouts={"first_byte": "6s", "idle": "6s", "send": "4s"}
    ) as made:
        yield made


def test_more_than_max_body_goes_up_in_small_messages(speaking: Any) -> None:
    sent = speaking.stream_unary(UPLOAD)(iter([b"x" * 100_000] * 40), timeout=30)
    assert sent == b"4000000"


def test_an_upload_may_pause_longer_than_other_bodies(speaking: Any) -> None:
    pieces = slowly([b"x" * 1_000] * 4, 3)
    assert speaking.stream_unary(UPLOAD)(pieces, timeout=30) == b"4000"


def test_a_stream_to_a_client_that_says_nothing_more_goes_on(speaking: Any) -> None:
    got = list(speaking.unary_stream(TOKENS)(b"9 1", timeout=30))
    assert got == [b"%d" % number for number in range(9)]


def test_a_stream_both_ways_lasts_while_one_side_talks(speaking: Any) -> None:
    # The client keeps its side open and is silent for longer than any timer; the server talks.
    got = list(speaking.stream_stream(TALK)(slowly([b"9 1"], 0, end=9), timeout=40))
    assert len(got) == 9
    # Now the client talks, and the server has nothing to say until the end.
    got = list(speaking.stream_stream(TALK)(slowly([b"0 0"] * 9 + [b"1 0"], 1), timeout=40))
    assert got == [b"0"]


def test_silence_on_both_sides_ends_a_stream(speaking: Any) -> None:
    begun = time.monotonic()
    with pytest.raises(grpc.RpcError):
        list(speaking.stream_stream(TALK)(slowly([b"1 0"], 20), timeout=25))
    assert 4 <= time.monotonic() - begun <= 15
