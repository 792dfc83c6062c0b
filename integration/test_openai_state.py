"""OpenAI's client through every balancer to servers that keep what they made: follow-ups find it there."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import openai
import pytest

from integration.fronts import FRONTS, front
from integration.openai_server import OpenAiServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lbgen.lab.rig import Rig

pytestmark = pytest.mark.slow
TALKS, TURNS, AT_ONCE = 25, 8, 8
"""200 follow-ups."""
MODEL = "gpt-local"
STRATEGIES = {
    "header": {"name": "session", "header": "X-Session-Id", "strict": True},
    "cookie": {"name": "session", "insert": "lb_openai"},
    "body": {"name": "session", "body": "$.prompt_cache_key", "strict": True},
}
WHOLE = ("header", "cookie")
"""Those that every request names, also one without a body."""


class Site(NamedTuple):
    """A running balancer."""

    url: str

    def client(self, pool: str) -> openai.OpenAI:
        """Return a client for one session: it names it in a header, and keeps cookies."""
        return openai.OpenAI(
            base_url=f"{self.url}/{pool}/v1", api_key="-", max_retries=0, timeout=30,
            default_headers={"X-Session-Id": uuid.uuid4().hex},
        )  # fmt: skip


@pytest.fixture(scope="module", params=FRONTS, ids=str)
def site(
    request: pytest.FixtureRequest, rig: Rig, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    with ExitStack() as stack:
        servers = [stack.enter_context(OpenAiServer(rig.gateway, f"s{number}")) for number in range(4)]
        pool = {"engine": "vllm", "health": False, "servers": [one.address for one in servers]}
        fleet: dict[str, Any] = {
            "pools": {name: {**pool, "strategy": strategy} for name, strategy in STRATEGIES.items()},
            "listeners": {
                "public": {
                    "routes": [
                        {"path": f"/{name}", "strip_prefix": True, "pool": name} for name in STRATEGIES
                    ]
                }
            },
        }
        folder = tmp_path_factory.mktemp("front")
        yield Site(stack.enter_context(front(rig, request.param, fleet, folder)).url)


def at_once(talk: Callable[[int], str], count: int = AT_ONCE) -> set[str]:
    """Talk many times, eight at once; return the homes."""
    with ThreadPoolExecutor(AT_ONCE) as threads:
        return set(threads.map(talk, range(count)))


@pytest.mark.parametrize("pool", STRATEGIES)
def test_every_response_finds_the_one_before(site: Site, pool: str) -> None:
    def talk(number: int) -> str:
        with site.client(pool) as client:
            named: dict[str, Any] = {"prompt_cache_key": uuid.uuid4().hex} if pool == "body" else {}
            first = last = client.responses.create(model=MODEL, input="hi", **named)
            for turn in range(TURNS):
                asked: Any = {"model": MODEL, "input": "go on", "previous_response_id": last.id, **named}
                if (number + turn) % 2:
                    with client.responses.create(stream=True, **asked) as stream:
                        *_, end = list(stream)
                    last = end.response
                else:
                    last = client.responses.create(**asked)
                assert last.output_text == first.output_text
            return str(first.output_text)

    assert len(at_once(talk, TALKS)) >= 3


@pytest.mark.parametrize("pool", WHOLE)
def test_responses_are_found_again_by_their_id(site: Site, pool: str) -> None:
    def talk(_: int) -> str:
        with site.client(pool) as client:
            made = [client.responses.create(model=MODEL, input="hi") for _ in range(TURNS // 2)]
            for one in made:
                assert client.responses.retrieve(one.id).output_text == one.output_text
                assert client.responses.input_items.list(one.id).data == []
            client.responses.cancel(made[0].id)
            client.responses.delete(made[0].id)
            with pytest.raises(openai.NotFoundError):
                client.responses.retrieve(made[0].id)
            return made[0].output_text

    assert len(at_once(talk, TALKS)) >= 2


@pytest.mark.parametrize("pool", WHOLE)
def test_conversations_are_kept(site: Site, pool: str) -> None:
    def talk(_: int) -> str:
        with site.client(pool) as client:
            conversation = client.conversations.create()
            said = {
                client.responses.create(model=MODEL, input="hi", conversation=conversation.id).output_text
                for _ in range(TURNS)
            }
            assert client.conversations.retrieve(conversation.id).id == conversation.id
            (home,) = said
            return home

    assert len(at_once(talk, TALKS)) >= 2


@pytest.mark.parametrize("pool", WHOLE)
def test_a_batch_finds_its_file(site: Site, pool: str) -> None:
    lines = b'{"custom_id": "1"}\n' * 60_000

    def talk(_: int) -> str:
        with site.client(pool) as client:
            file = client.files.create(file=("batch.jsonl", lines), purpose="batch")
            assert file.bytes == len(lines)
            batch = client.batches.create(
                input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h"
            )
            assert client.batches.retrieve(batch.id).input_file_id == file.id
            assert client.batches.cancel(batch.id).id == batch.id
            assert client.files.content(file.id).read() == lines
            assert client.files.delete(file.id).deleted
            return file.filename

    assert len(at_once(talk, TALKS)) >= 2
