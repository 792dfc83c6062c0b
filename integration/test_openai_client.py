"""OpenAI's own client through both balancers, with the keys of clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import openai
import pytest

from integration.fleets import TARGETS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from integration.edge import Edge

SECRETS = {"TEAM": "sk-team-0001", "SLOW": "sk-slow-0002", "NARROW": "sk-narrow-0003"}
FLEET: dict[str, Any] = {
    "pools": {
        "chat": {"engine": "vllm", "models": ["llama-8b", "llama*"], "servers": "gpu-[0-3]:8000"},
        "code": {"engine": "vllm", "models": ["coder"], "servers": "gpu-[0-3]:8000"},
    },
    "clients": {
        "team": {"key": "env:TEAM"},
        "narrow": {"key": "env:NARROW", "pools": ["chat"]},
        "slow": {"key": "env:SLOW", "rate": "1/m", "burst": 1},
    },
    "listeners": {
        "public": {
            "bind": "8080",
            "auth": {"clients": "all"},
            "routes": [{"model": "llama*", "pool": "chat"}, {"model": "coder", "pool": "code"}],
        }
    },
}
HI: Any = [{"role": "user", "content": "hi"}]


@pytest.fixture(params=TARGETS)
def client(request: pytest.FixtureRequest, edge: Edge) -> Iterator[openai.OpenAI]:
    """A client of each balancer."""
    url = f"{edge.balancers[request.param].url}/v1"
    with openai.OpenAI(base_url=url, api_key=SECRETS["TEAM"], max_retries=0, timeout=20) as made:
        yield made


def test_whole_answers(client: openai.OpenAI) -> None:
    chat = client.chat.completions.create(model="llama-8b", messages=HI, max_tokens=9, n=2)
    assert [len((one.message.content or "").split()) for one in chat.choices] == [9, 9]
    assert chat.usage is not None
    assert chat.usage.completion_tokens == 18
    text = client.completions.create(model="llama-8b", prompt="hi", max_tokens=3)
    assert len(text.choices[0].text.split()) == 3


def test_streams(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model="llama-8b", messages=HI, max_tokens=40, stream=True, stream_options={"include_usage": True}
    )
    *chunks, last = list(stream)
    assert len(chunks) > 3, "it comes in pieces"
    assert len("".join(chunk.choices[0].delta.content or "" for chunk in chunks).split()) == 40
    assert last.usage is not None
    assert last.usage.completion_tokens == 40


def test_the_models_of_the_fleet(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="gpt-5", messages=HI)
    assert caught.value.code == "model_not_found"


def test_a_key_sees_the_models_that_it_may_use(client: openai.OpenAI) -> None:
    assert {model.id for model in client.models.list()} == {"llama-8b", "coder"}
    narrow = client.with_options(api_key=SECRETS["NARROW"])
    assert [model.id for model in narrow.models.list()] == ["llama-8b"]
    with pytest.raises(openai.PermissionDeniedError):
        narrow.chat.completions.create(model="coder", messages=HI)


def test_a_wrong_key_is_an_authentication_error(client: openai.OpenAI) -> None:
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="sk-wrong").chat.completions.create(model="llama-8b", messages=HI)


def test_too_many_requests_are_a_rate_limit_error(client: openai.OpenAI) -> None:
    slow = client.with_options(api_key=SECRETS["SLOW"])

    def ask_ten_times() -> None:
        for _ in range(10):
            slow.chat.completions.create(model="llama-8b", messages=HI, max_tokens=1)

    with pytest.raises(openai.RateLimitError) as caught:
        ask_ten_times()
    assert int(caught.value.response.headers["retry-after"]) >= 1


@pytest.mark.parametrize(
    ("fault", "error"),
    [("status:429", openai.RateLimitError), ("status:503", openai.InternalServerError),
     ("status:400", openai.BadRequestError), ("close", openai.InternalServerError)],
)  # fmt: skip
def test_what_a_server_does_wrong_arrives_as_the_right_exception(
    client: openai.OpenAI, fault: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        client.chat.completions.create(
            model="llama-8b", messages=HI, extra_headers={"x-mock-fault": fault}, max_tokens=1
        )


def test_half_a_stream_is_told_from_a_whole_one(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model="llama-8b", messages=HI, max_tokens=100, stream=True, extra_headers={"x-mock-fault": "half"}
    )
    with pytest.raises(openai.APIConnectionError):
        list(stream)


def test_the_client_gives_up_in_time(client: openai.OpenAI) -> None:
    with pytest.raises(openai.APITimeoutError):
        client.with_options(timeout=0.5).chat.completions.create(
            model="llama-8b", messages=HI, extra_headers={"x-mock-fault": "hang"}
        )
