"""What is sent: as long and as alike as the workload says, and marked as the strategy looks for it."""

from __future__ import annotations

import json
from itertools import pairwise, permutations
from typing import TYPE_CHECKING

import pytest

from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.lab.load import Planned, Result
from lbgen.lab.mock.openai_api import read, text
from lbgen.lab.trial.load.sending import Sender, client_keys
from lbgen.lab.trial.stage.mapping import CHAT, COMPLETIONS, undivided, way_to
from lbgen.model import Fleet
from lbgen.problems import LbgenError
from lbgen.simulate.load.named import workload
from lbgen.simulate.load.request import Request
from lbgen.simulate.servers.keyed import chunks_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from lbgen.simulate.load.workload import Workload


def _fleet(written: str) -> Fleet:
    loaded = load([Source("fleet.yaml", written)], environ={"A": "key-a"})
    assert loaded.fleet is not None, loaded.problems
    return loaded.fleet


def _sent(load_name: str, strategy: str = "least_conn", count: int = 40) -> list[Planned]:
    fleet = _fleet(f"pools: {{chat: {{servers: [a:1], strategy: {strategy}}}}}\n")
    made = workload(load_name)
    way = way_to(fleet, fleet.pools[0], chat=True)
    return Sender(made, way, fleet.pools[0], []).planned(made.requests(1, 10.0, count), 2.0)


def _messages(one: Planned) -> list[dict[str, str]]:
    assert not isinstance(one.prompt, str)
    return [dict(message) for message in one.prompt]


@pytest.mark.parametrize(
    "name", ["shared", "tenants", "chat", "agents", "shared:prefixes=3,prefix_tokens=512,prompt=20"]
)
def test_the_mock_counts_as_many_tokens_as_the_workload_has(name: str) -> None:
    for one in _sent(name):
        body = json.dumps({"messages": _messages(one)}).encode()
        assert isinstance(one.origin, Request)
        assert read(one.path, body, "m").prompt_tokens == one.origin.prompt_tokens


def test_prompts_are_alike_as_far_as_the_workload_says_and_no_further() -> None:
    sent = _sent("shared:prefixes=2,prefix_tokens=1024,skew=0.1,prompt=400")
    begins = {
        (one.origin.prefix, _messages(one)[0]["content"]) for one in sent if isinstance(one.origin, Request)
    }
    assert len(begins) == len({text for _, text in begins}) == 2
    assert {len(text) for _, text in begins} == {1024 * 4 - len('[{"role":"system","content":""},')}
    asked = [_messages(one)[1]["content"] for one in sent]
    assert len({text[:16] for text in asked}) == len(sent)


def _answered(sender: Sender, first: list[Planned]) -> list[Planned]:
    """All turns of some conversations, whose answers come after a second."""
    sent, open_ = list(first), list(first)
    while open_:
        turn = open_.pop()
        done = Result(turn, ended_s=turn.at_s + 1, status=200, tail=b"data: [DONE]\n\n")
        if following := sender.follow(done):
            sent.append(following)
            open_.append(following)
    return sent


def _sender(load_name: str, strategy: str = "least_conn") -> tuple[Sender, Workload]:
    fleet = _fleet(f"pools: {{chat: {{servers: [a:1], strategy: {strategy}}}}}\n")
    made = workload(load_name)
    return Sender(made, way_to(fleet, fleet.pools[0], chat=True), fleet.pools[0], []), made


def _alike(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    return next(
        (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


@pytest.mark.parametrize(
    "name",
    [
        "agents:sessions=6,turns=4,systems=2,system_tokens=700",
        "agents:sessions=4,turns=5,compact_tokens=6000",
        "chat:turns=4,systems=2",
        "tenants:prefixes=3",
    ],
)
def test_a_mock_finds_of_a_prompt_what_the_model_finds(name: str) -> None:
    """What two requests share is as many chunks in the model as in the bytes that are sent."""
    sender, made = _sender(name)
    sent = _answered(sender, sender.planned(made.requests(1, 1.0, 24), 1.0))
    assert len(sent) > 20
    seen = []
    for one in sent:
        assert isinstance(one.origin, Request)
        body = json.dumps({"messages": _messages(one), "max_tokens": one.output_tokens, "stream": True})
        ask = read(one.path, body.encode(), "m")
        assert ask.prompt_tokens == one.origin.prompt_tokens
        whole = one.origin.prompt_tokens // 64
        seen.append((one.origin.chunks, whole, chunks_of(ask.continued)))
    for (chunks, _, bytes_), (others, whole, other_bytes) in permutations(seen, 2):
        # Markup is alike, too: some bytes beyond what is shared may fill a chunk.
        assert abs(min(whole, _alike(chunks, others)) - min(whole, _alike(bytes_, other_bytes))) <= 1


def test_nobody_names_a_session_in_a_header_unless_it_is_needed_or_asked_for() -> None:
    for name in ("chat", "agents"):
        assert "X-Session-Id" not in _sent(name)[0].headers
        assert _sent(f"{name}:named=1")[0].headers["X-Session-Id"] == "s0"
        assert _sent(name, "session")[0].headers["X-Session-Id"] == "s0"


def test_no_session_stands_before_what_it_shares_with_others() -> None:
    sent = _sent("agents:systems=1")
    assert len({_messages(one)[0]["content"] for one in sent}) == 1
    assert len({_messages(one)[1]["content"] for one in sent}) == len(sent)


def test_a_conversation_goes_on_with_all_that_was_said() -> None:
    sender, made = _sender("chat:turns=3,think_s=5", "session")
    turns = _answered(sender, sender.planned(made.requests(1, 1.0, 3), 2.0))
    assert len(turns) == 3
    for before, after in pairwise(turns):
        assert after.at_s > before.at_s + 1
        assert after.headers["X-Session-Id"] == before.headers["X-Session-Id"]
        assert _messages(after)[: len(_messages(before))] == _messages(before)
        answer, said = _messages(after)[-2:]
        assert answer == {"role": "assistant", "content": text(0, before.output_tokens)}
        assert said["role"] == "user"


def test_a_failed_turn_ends_its_conversation() -> None:
    sender, made = _sender("chat:turns=3")
    (turn,) = sender.planned(made.requests(1, 1.0, 3), 2.0)
    assert sender.follow(Result(turn, ended_s=turn.at_s + 1, status=503)) is None


def test_sessions_are_marked_as_the_strategy_looks_for_them() -> None:
    assert _sent("chat", "{name: session, header: X-Foo}")[0].headers["X-Foo"] == "s0"
    assert _sent("chat", "{name: session, cookie: sid}")[0].headers["Cookie"] == "sid=s0"
    assert _sent("chat", "{name: session, query: sid}")[0].path == f"{CHAT}?sid=s0"
    sources = {one.source for one in _sent("chat:turns=1", "{name: session, ip: true}")}
    assert len(sources) > 10
    assert all(source and source.startswith("127.0.1.") for source in sources)
    assert _sent("chat")[0].source is None


KEYS = """
pools: {chat: {servers: [a:1]}, other: {servers: [b:1]}}
clients:
  a: {key: env:LBGEN_TEST_NO_SUCH_A}
  b: {key: env:LBGEN_TEST_NO_SUCH_B, pools: [other]}
  c: {key: env:LBGEN_TEST_NO_SUCH_C}
listeners:
  in:
    bind: "127.0.0.1:1"
    auth: {clients: [%s], header: %s}
    routes: [{path: /v1, pool: chat}, {pool: other}]
"""


def test_every_client_that_may_use_the_pool_sends() -> None:
    fleet = _fleet(KEYS % ("a, b, c", "Authorization"))
    way = way_to(fleet, fleet.pools[0])
    keys, absent = client_keys(fleet, way, fleet.pools[0])
    assert [key["Authorization"][:16] for key in keys] == ["Bearer stand-in-"] * 2
    assert absent == ["env:LBGEN_TEST_NO_SUCH_A", "env:LBGEN_TEST_NO_SUCH_C"]
    made = workload("fixed")
    sent = Sender(made, way, fleet.pools[0], keys).planned(made.requests(1, 1.0, 4), 1.0)
    assert [one.headers["Authorization"] for one in sent] == [key["Authorization"] for key in keys] * 2


def test_a_pool_that_no_client_may_use_is_named() -> None:
    fleet = _fleet(KEYS % ("b", "X-Key"))
    way = way_to(fleet, fleet.pools[0])
    with pytest.raises(LbgenError, match="no client of the listener in may use the pool chat"):
        client_keys(fleet, way, fleet.pools[0])


ROUTES = """
pools: {{a: {{servers: [a:1]}}, b: {{servers: [b:1]}}}}
listeners: {{in: {{bind: "127.0.0.1:1", routes: [{route}]}}}}
"""


@pytest.mark.parametrize(
    ("route", "path"),
    [
        ("{pool: a}", COMPLETIONS),
        ("{path_exact: /v1/chat/completions, pool: a}", CHAT),
        ("{path: /v1/chat, pool: a}", CHAT),
        ("{path: /gpt, strip_prefix: true, add_prefix: /v1, pool: a}", "/gpt/completions"),
        ("{path: /gpt, strip_prefix: true, add_prefix: /api/v1, pool: a}", "/gpt/completions"),
        ("{path: /v1, strip_prefix: true, pool: a}", "/v1/v1/completions"),
        ("{pool: a}, {path: /v1/completions, pool: b}", CHAT),
        ("{path: /v1, pool: a}, {path_exact: /v1/completions, respond: {body: x}}", CHAT),
    ],
)
def test_the_way_is_what_a_route_takes(route: str, path: str) -> None:
    fleet = _fleet(ROUTES.format(route=route))
    way = way_to(fleet, fleet.pools[0])
    assert (way.path, way.chat) == (path, path == CHAT)


def test_a_pool_that_others_shadow_cannot_be_reached() -> None:
    fleet = _fleet(ROUTES.format(route="{pool: a}, {path: /v1, pool: b}"))
    with pytest.raises(LbgenError, match="no route that a completion can take leads to the pool a"):
        way_to(fleet, fleet.pools[0])


def test_a_split_is_led_to_the_pool_that_is_tried() -> None:
    fleet = _fleet(ROUTES.format(route="{name: main, split: {a: 1, b: 9}, when_down: b}"))
    moved, names = undivided(fleet, fleet.pools[0])
    assert names == ["main"]
    assert way_to(moved, moved.pools[0]).path == COMPLETIONS
    assert moved.listeners[0].routes[0].pools == ("a",)
