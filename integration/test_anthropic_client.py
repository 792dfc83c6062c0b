"""Anthropic's own client through every balancer: messages, streams, counts, and errors of both sides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import anthropic
import pytest

from integration.anthropic_server import WORDS, AnthropicServer
from integration.fronts import FRONTS, SECRETS, Front, front

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.lab.rig import Rig

MODEL = "claude-local"
HI: Any = [{"role": "user", "content": "hi there"}]


class Site(NamedTuple):
    """A balancer and the server behind it."""

    front: Front
    server: AnthropicServer

    def client(self, secret: str = "A") -> anthropic.Anthropic:
        """Return a client with a key, which asks once."""
        return anthropic.Anthropic(
            base_url=self.front.url, api_key=SECRETS.get(secret, secret), max_retries=0, timeout=30
        )


@pytest.fixture(scope="module", params=FRONTS, ids=str)
def site(
    request: pytest.FixtureRequest, rig: Rig, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    with AnthropicServer(rig.gateway) as server:
        fleet = {
            "pools": {
                "chat": {
                    "engine": "vllm", "models": [MODEL], "servers": [server.address], "health": False,
                },
                "gone": {"engine": "vllm", "models": ["nobody"], "servers": [], "allow_empty": True},
            },
            "clients": {
                "team": {"key": "env:A"},
                "slow": {"key": "env:P", "rate": "1/h", "burst": 0},
            },
            "listeners": {"public": {"auth": {"clients": "all"}, "max_body": "1MiB"}},
        }  # fmt: skip
        with front(rig, request.param, fleet, tmp_path_factory.mktemp("front")) as running:
            yield Site(running, server)


def test_a_message(site: Site) -> None:
    with site.client() as client:
        said = client.messages.create(model=MODEL, messages=HI, max_tokens=9)
    assert said.content[0].type == "text"
    assert said.content[0].text == "".join(WORDS)
    seen = site.server.seen[-1]
    assert "anthropic-version" in seen
    assert "x-api-key" not in seen
    assert SECRETS["A"] not in str(seen)


def test_a_stream_comes_in_pieces(site: Site) -> None:
    site.server.go_on.clear()
    with site.client() as client, client.messages.stream(model=MODEL, messages=HI, max_tokens=9) as stream:
        pieces = []
        for piece in stream.text_stream:
            pieces.append(piece)
            site.server.go_on.set()  # without it the server keeps the other words to itself
        assert pieces == list(WORDS)
        assert stream.get_final_message().usage.output_tokens == len(WORDS)


def test_tokens_are_counted(site: Site) -> None:
    with site.client() as client:
        assert client.messages.count_tokens(model=MODEL, messages=HI).input_tokens == 2


def test_a_servers_error_passes_as_it_is(site: Site) -> None:
    asked: Any = [{"role": "user", "content": "overloaded"}]
    with site.client() as client, pytest.raises(anthropic.APIStatusError) as caught:
        client.messages.create(model=MODEL, messages=asked, max_tokens=9)
    error = caught.value
    assert (error.status_code, error.type, error.api_message) == (529, "overloaded_error", "Overloaded")
    assert error.request_id == "req_1"


@pytest.mark.parametrize(
    ("secret", "model", "kind", "said"),
    [
        ("sk-wrong", MODEL, anthropic.AuthenticationError, "API key"),
        ("A", "gpt", anthropic.NotFoundError, "model does not exist"),
        ("A", "nobody", anthropic.InternalServerError, "No inference server"),
    ],
)
def test_the_balancers_own_errors_are_the_right_exceptions(
    site: Site, secret: str, model: str, kind: type[anthropic.APIStatusError], said: str
) -> None:
    with site.client(secret) as client, pytest.raises(kind) as caught:
        client.messages.create(model=model, messages=HI, max_tokens=9)
    assert said in (caught.value.api_message or "")
    assert caught.value.type


def test_a_path_that_administers_the_server_is_closed(site: Site) -> None:
    with site.client() as client, pytest.raises(anthropic.PermissionDeniedError) as caught:
        client.post("/v1/load_lora_adapter", body={"model": MODEL}, cast_to=object)
    assert "administers" in (caught.value.api_message or "")


def test_too_many_requests_are_a_rate_limit_error(site: Site) -> None:
    def ask_four_times(client: anthropic.Anthropic) -> None:
        for _ in range(4):
            client.messages.create(model=MODEL, messages=HI, max_tokens=9)

    with site.client("P") as client, pytest.raises(anthropic.RateLimitError) as caught:
        ask_four_times(client)
    assert caught.value.type == "rate_limit_error"
    assert int(caught.value.response.headers["retry-after"]) >= 1


def test_a_body_that_is_too_large_says_so(site: Site) -> None:
    long: Any = [{"role": "user", "content": "x" * 2**21}]
    with site.client() as client, pytest.raises(anthropic.APIStatusError) as caught:
        client.messages.create(model=MODEL, messages=long, max_tokens=9)
    assert caught.value.status_code == 413
