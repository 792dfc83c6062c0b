"""LiteLLM's proxy in front of every balancer: ``pytest integration/large_litellm.py``, 750 MB from PyPI."""

from __future__ import annotations

import os
import subprocess
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import openai
import pytest
import yaml

from integration.environments import environment
from integration.fronts import FRONTS, SECRETS, front
from integration.openai_server import OpenAiServer
from integration.waiting import eventually
from lbgen.lab.boxes import fetch
from tests.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lbgen.lab.rig import Rig

pytestmark = pytest.mark.timeout(1800)
VERSION = "1.106.12"
"""The newest whose extra `proxy` can be installed: those after it want packages that PyPI has not."""
MASTER = "sk-master"
HI: Any = [{"role": "user", "content": "hi"}]
UPLOAD = bytes(2 * 1024**2)


class Site(NamedTuple):
    """LiteLLM in front of a balancer in front of three servers."""

    url: str
    servers: list[OpenAiServer]

    @property
    def client(self) -> openai.OpenAI:
        """Return OpenAI's client, which asks LiteLLM once."""
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=MASTER, max_retries=0, timeout=60)


def settings(url: str) -> dict[str, Any]:
    """Return LiteLLM's: each model is one of the balancer's, the last with a key that may hardly ask."""
    keys = {"chat": "A", "whisper": "A", "slow": "P"}
    models = [
        {
            "model_name": name,
            "litellm_params": {
                "model": f"openai/{'chat' if name == 'slow' else name}",
                "api_base": f"{url}/v1",
                "api_key": SECRETS[key],
                "max_retries": 0,
            },
        }
        for name, key in keys.items()
    ]
    return {
        "model_list": models,
        "general_settings": {"master_key": MASTER},
        "litellm_settings": {"num_retries": 0, "telemetry": False},
        "router_settings": {"disable_cooldowns": True},
    }


@pytest.fixture(scope="module")
def program() -> Path:
    """LiteLLM's command."""
    return environment("litellm", VERSION, extra="proxy") / "litellm"


@pytest.fixture(scope="module", params=FRONTS, ids=str)
def site(
    request: pytest.FixtureRequest, program: Path, rig: Rig, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("litellm")
    with ExitStack() as stack:
        servers = [stack.enter_context(OpenAiServer(rig.gateway, f"s{number}")) for number in range(3)]
        places = [one.address for one in servers]
        pool = {"engine": "vllm", "health": False}
        fleet: dict[str, Any] = {
            "pools": {"chat": {**pool, "servers": places[:2]}, "audio": {**pool, "servers": places[2:]}},
            "clients": {"team": {"key": "env:A"}, "slow": {"key": "env:P", "rate": "1/h", "burst": 0}},
            "listeners": {
                "public": {
                    "auth": {"clients": "all"},
                    "routes": [{"path": "/v1/audio", "pool": "audio"}, {"path": "/v1", "pool": "chat"}],
                }
            },
        }
        url = stack.enter_context(front(rig, request.param, fleet, folder / "front")).url
        file, port = folder / "litellm.yaml", free_port()
        file.write_text(yaml.safe_dump(settings(url)))
        # Without it LiteLLM asks GitHub for its table of prices.
        environ = os.environ | {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        words = [str(program), "--config", str(file), "--host", "127.0.0.1", "--port", str(port)]
        log = stack.enter_context((folder / "litellm.log").open("w"))
        process = stack.enter_context(subprocess.Popen(words, env=environ, stdout=log, stderr=log))
        stack.callback(process.kill)
        eventually(lambda: lives(port), 300, "LiteLLM serves")
        yield Site(f"http://127.0.0.1:{port}", servers)


def lives(port: int) -> bool:
    try:
        return fetch(f"http://127.0.0.1:{port}/health/liveliness").status == 200
    except OSError:
        return False


def test_chats_are_spread(site: Site) -> None:
    with site.client as client:
        said = {
            client.chat.completions.create(model="chat", messages=HI).choices[0].message.content
            for _ in range(8)
        }
    assert said == {"It is s0", "It is s1"}


def test_streams(site: Site) -> None:
    with (
        site.client as client,
        client.chat.completions.create(model="chat", messages=HI, stream=True) as stream,
    ):
        pieces = [chunk.choices[0].delta.content for chunk in stream if chunk.choices]
    assert "".join(piece or "" for piece in pieces) in {"It is s0", "It is s1"}
    assert len(pieces) >= 3


def test_responses_and_embeddings(site: Site) -> None:
    with site.client as client:
        assert client.responses.create(model="chat", input="hi").output_text in {"s0", "s1"}
        made = client.embeddings.create(model="chat", input="hi", encoding_format="float")
        assert made.data[0].embedding == [0.5, 0.25]


def test_audio(site: Site) -> None:
    with site.client as client:
        heard = client.audio.transcriptions.create(model="whisper", file=("a.wav", UPLOAD))
    assert heard.text == f"s2 {len(UPLOAD)}"


def test_too_many_requests_stay_a_rate_limit_error(site: Site) -> None:
    def ask_four_times(client: openai.OpenAI) -> None:
        for _ in range(4):
            client.chat.completions.create(model="slow", messages=HI)

    with site.client as client, pytest.raises(openai.RateLimitError) as caught:
        ask_four_times(client)
    assert "slow down" in str(caught.value)
