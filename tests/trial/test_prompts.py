"""What is sent: as long and as alike as the workload says, and marked as the strategy looks for it."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from lbgen.fleet.load import load
from lbgen.fleet.source import Source
from lbgen.lab.load import Planned, Result
from lbgen.lab.openai_api import read
from lbgen.lab.trial.mapping import CHAT, COMPLETIONS, undivided, way_to
from lbgen.lab.trial.sending import Sender, client_keys
from lbgen.model import Fleet
from lbgen.problems import LbgenError
from lbgen.simulate.named import workload
from lbgen.simulate.request import Request


def _fleet(text: str) -> Fleet:
    loaded = load([Source("fleet.yaml", text)], environ={"A": "key-a"})
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


@pytest.mark.parametrize("name", ["shared", "chat", "shared:prefixes=3,prefix_tokens=512,prompt=20"])
def test_the_mock_counts_as_many_tokens_as_the_workload_has(name: str) -> None:
    for one in _sent(name):
        body = json.dumps({"messages": _messages(one)}).encode()
        assert isinstance(one.origin, Request)
        assert read(one.path, body, "m").prompt_tokens == one.origin.prompt_tokens


def test_prompts_are_alike_as_far_as_the_workload_says_and_no_further() -> None:
    sent = _sent("shared:prefixes=2,prefix_tokens=1024,skew=0.1,prompt=400")
    # The JSON around the texts is part of the prompt, so that very short ones end within what is shared.
    sent = [one for one in sent if isinstance(one.origin, Request) and one.origin.prompt_tokens > 1100]
    assert len(sent) > 30
    first = {str(one.origin.prefix): one for one in sent if isinstance(one.origin, Request)}
    assert len(first) == 2
    for one in sent:
        assert isinstance(one.origin, Request)
        begin, rest = (message["content"] for message in _messages(one))
        like, its_rest = (message["content"] for message in _messages(first[str(one.origin.prefix)]))
        assert begin == like
        assert len(begin) >= 2048
        shared = 2 * 512 * 4 - 2048
        assert rest[:shared] == its_rest[:shared]
        assert (
            one is first[str(one.origin.prefix)]
            or rest[shared : shared + 64] != its_rest[shared : shared + 64]
        )
    begins = {_messages(one)[0]["content"] for one in first.values()}
    assert len(begins) == 2


def test_a_conversation_goes_on_with_all_that_was_said() -> None:
    fleet = _fleet("pools: {chat: {servers: [a:1]}}\n")
    made = workload("chat:turns=3,think_s=5")
    sender = Sender(made, way_to(fleet, fleet.pools[0], chat=True), fleet.pools[0], [])
    (turn,) = sender.planned(made.requests(1, 1.0, 3), 2.0)
    turns = [turn]
    while turn := sender.follow(Result(turn, ended_s=turn.at_s + 1, status=200, tail=b"data: [DONE]\n\n")):
        turns.append(turn)
    assert len(turns) == 3
    for before, after in pairwise(turns):
        assert after.at_s > before.at_s + 1
        assert after.headers["X-Session-Id"] == before.headers["X-Session-Id"]
        whole = "".join(message["content"] for message in _messages(before))
        kept = (len(whole) // 2048 - 1) * 2048
        assert "".join(message["content"] for message in _messages(after)).startswith(whole[:kept])
        assert len(_messages(after)[1]["content"]) > len(_messages(before)[1]["content"])


def test_a_failed_turn_ends_its_conversation() -> None:
    fleet = _fleet("pools: {chat: {servers: [a:1]}}\n")
    made = workload("chat:turns=3")
    sender = Sender(made, way_to(fleet, fleet.pools[0], chat=True), fleet.pools[0], [])
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
