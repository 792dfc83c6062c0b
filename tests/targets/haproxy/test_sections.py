"""What stands where in a HAProxy file: answers of its own, numbers of routes, parts, and what it learns."""

from __future__ import annotations

import json
import re

import pytest

from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.render import render
from lbgen.secret_values import StandInSecrets
from tests.targets.loaded import CHAT, files, loaded, refused, sections

SERVERS = ["gpu-0:8000", "gpu-1:8000"]
BIND = "listeners: {l: {bind: '8080', %s}}"


def pool(**keys: object) -> str:
    return json.dumps({"pools": {"chat": {"engine": "vllm", "servers": SERVERS, **keys}}})


def test_every_error_that_haproxy_finds_itself_is_json() -> None:
    """What is not among them it answers as HTML; what no rule can refuse is not among them."""
    always = {"400", "405", "408", "413", "500", "502", "503", "504"}
    assert set(_errors(CHAT)) == always
    keyed = "auth: {clients: [a]}, limits: [{rate: 5/s, per: ip}], routes: [{path: /v1, pool: chat}]"
    pools = CHAT.replace("pools: {", "pools: {b: {servers: ['b:1']}, ", 1)
    clients = "clients: {a: {key: 'env:A', pools: [b]}}"
    answered = _errors(f"{pools}{clients}\nlisteners: {{l: {{bind: '8080', {keyed}}}}}")
    found = list(answered.values())
    assert set(answered) == always | {"401", "403", "404", "429"}
    assert all(words[4] == "application/json" for words in found)
    assert [status for status, words in answered.items() if "Allow" in words] == ["405"]
    assert [status for status, words in answered.items() if "WWW-Authenticate" in words] == ["401"]
    assert [status for status, words in answered.items() if "Retry-After" in words] == ["429", "503"]


def _errors(text: str) -> dict[str, list[str]]:
    lines = [line.split() for line in sections(text)["defaults lbgen"] if line.startswith("http-error")]
    return {words[2]: words for words in lines}


def test_no_two_routes_have_one_number() -> None:
    """A backend asks by which route a request came, whatever the listener."""
    routes = "routes: [{path: /a, pool: chat}, {path: /b, pool: chat}, {pool: chat}]"
    text = CHAT + f"listeners: {{l: {{bind: '8080', {routes}}}, m: {{bind: '8081', {routes}}}}}"
    numbers = [
        int(found[1])
        for head, lines in sections(text).items()
        if head.startswith("frontend listener:")
        for line in lines
        if (found := re.match(r"use_backend chat if \{ var\(txn.lb_route\) -m int (\d+) \}", line))
    ]
    assert sorted(numbers) == sorted(set(numbers))
    assert len(numbers) == 6
    assert min(numbers) > 0, "0 is no route"


def test_a_longer_prefix_is_taken_off_before_a_shorter_one() -> None:
    text = CHAT + BIND % "routes: [{path: [/v7, /v7/chat], strip_prefix: true, pool: chat}]"
    (line,) = [
        line
        for line in sections(text)["frontend listener:l"]
        if "deny_status 404" in line and "path -m reg" in line
    ]
    assert "(?:/v7/chat|/v7)" in line


@pytest.mark.parametrize(("most", "codes"), [(99, 1), (100, 0), (2_000_000, 0), (2_000_001, 1)])
def test_connections_are_within_what_the_reference_says(most: int, codes: int) -> None:
    found = loaded(CHAT + f"targets: {{haproxy: {{max_connections: {most}}}}}", "haproxy", "2.6")
    wrong = [problem for problem in found.problems if problem.is_error]
    assert len(wrong) == codes
    assert all(problem.location and problem.location.line == 2 for problem in wrong)


@pytest.mark.parametrize(("key", "joined"), [("k.pem", True), ("c.pem", False), ("c.pem.key", False)])
def test_a_certificate_for_servers_is_one_file_with_its_key(key: str, joined: bool) -> None:
    """HAProxy finds the key inside, or beside it under the name with `.key`; else lbgen joins the two."""
    text = pool(tls={"verify": False, "certificate": "c.pem", "key": key}, health=False)
    made = files(text, "haproxy", "2.6")
    line = next(line for line in sections(text)["backend chat"] if line.startswith("server "))
    place = line.split(" crt ")[1].split()[0].removeprefix("/etc/haproxy/")
    assert (place in made, place == "c.pem") == (joined, not joined)


def test_another_service_cannot_be_asked_who_comes_in() -> None:
    text = f"{CHAT}listeners:\n  l:\n    bind: '8080'\n    auth:\n      external: {{url: 'http://10.0.0.9:80/a'}}\n"
    assert [(one.code, one.line) for one in refused(text, "haproxy", "2.6")] == [("target-refused", 6)]


def test_what_is_sent_again_fits_the_buffer() -> None:
    """`retry.replay_posts` says how long a request may be: the buffer without what is kept for headers."""
    text = pool(retry={"attempts": 1, "on": ["connect", "503"], "replay_posts": True})
    (said,) = [one for one in refused(text, "haproxy", "2.6") if "sends again" in one.message]
    lines = dict(line.split(" ", 1) for line in sections(text)["global"] if line.startswith("tune."))
    kib = (int(lines["tune.bufsize"]) - int(lines["tune.maxrewrite"])) // 1024
    assert f"less than {kib} KiB" in said.message


def test_ollamas_own_paths_name_a_model_otherwise() -> None:
    """Ollama takes `name` for `model` on some of its paths."""
    routes = "listeners: {l: {bind: '8080', routes: [{model: x, pool: chat}]}}"
    asked = {}
    for engine in ("ollama", "vllm"):
        text = f"pools: {{chat: {{engine: {engine}, servers: ['gpu-0:8000']}}}}\n{routes}"
        (asked[engine],) = [
            line.split()[3] for line in sections(text)["frontend listener:l"] if "lua.lbgen-body" in line
        ]
    assert asked == {"ollama": "model,name", "vllm": "model"}


@pytest.mark.parametrize(
    ("rate", "burst", "most", "period"),
    [("15/s", 0, 1, "100ms"), ("25/s", 0, 2, "100ms"), ("10/s", 0, 1, "100ms"), ("1/s", 2, 3, "3s")],
)
def test_a_rate_counts_at_least_one_request(rate: str, burst: int, most: int, period: str) -> None:
    limits = f"limits: [{{rate: {rate}, burst: {burst}, per: ip}}]"
    found = sections(CHAT + BIND % limits)
    (table,) = [lines for head, lines in found.items() if head.startswith("backend limit:l:1")]
    assert f"gpc0_rate({period})" in table[0]
    assert any(f"{{ sc_gpc0_rate(0,limit:l:1) ge {most} }}" in line for line in found["frontend listener:l"])


def test_a_plain_request_is_framed_before_it_is_sent_on() -> None:
    text = CHAT + "listeners: {l: {bind: '443', redirect_from: '80', tls: {bundle: b.pem}}}"
    lines = sections(text)["frontend redirect:1"]
    (sent,) = [number for number, line in enumerate(lines) if "redirect code 308" in line]
    for words in (
        "set-var(txn.lb_path) path",
        "method CONNECT TRACE",
        "req.fhdr_cnt(Host)",
        "set-header X-Request-Id",
    ):
        found = [number for number, line in enumerate(lines) if words in line]
        assert found, words
        assert found[0] < sent, words


def test_names_are_asked_for_several_times() -> None:
    text = "pools: {chat: {engine: vllm, servers: ['a:1'], dns: {mode: runtime}}}"
    lines = dict(line.rsplit(" ", 1) for line in sections(text)["resolvers dns:chat"] if line.count(" "))
    assert int(lines["resolve_retries"]) >= 2
    assert int(lines["accepted_payload_size"]) == 8192, "a list of a fleet in one answer"


def rendered(text: str, part: str) -> dict[str, str]:
    fleet = load([Source("f.yaml", text)], environ={}, targets=("haproxy",)).fleet
    assert fleet is not None
    return {file.path: file.text for file in render(fleet, "haproxy", part, secrets=StandInSecrets())}


def test_each_part_loads_the_script_once() -> None:
    text = CHAT + BIND % "routes: [{model: x, pool: chat}]"
    assert sum(one.count("lua-load") for one in files(text, "haproxy", "2.6").values()) == 1
    assert sum(one.count("lua-load") for one in rendered(text, "http").values()) == 1


def test_a_home_without_room_is_left_and_the_conversation_is_counted() -> None:
    lines = sections(pool(strategy="prefix"))["backend chat"]
    moved = [number for number, line in enumerate(lines) if "set-var(txn.lb_decision) str(moved)" in line]
    left = [
        number
        for number, line in enumerate(lines)
        if "str(least) if { var(txn.lb_decision) -m str prompt }" in line
    ]
    room = [number for number, line in enumerate(lines) if "add(txn.lb_excess)" in line and "lb_room" in line]
    assert len(moved) == len(left) == 1
    assert room[0] < left[0] < room[1] < moved[0], "a prompt's home is left sooner than a conversation's"
    assert any(re.search(r"track-sc\d .* table chat$", line) for line in lines)


def test_a_name_that_stands_for_servers_is_asked_for_again_and_again() -> None:
    text = "pools: {chat: {engine: vllm, discover: {dns: vllm.example.org, port: 8000}}}"
    found = sections(text)
    assert "hold valid 10s" in found["resolvers dns:chat"]
    assert any("resolvers dns:chat" in line for line in found["backend chat"])


def test_a_balancer_that_learns_knows_itself() -> None:
    """HAProxy takes the machine's name for its own otherwise, and no peer has that."""
    found = sections(pool(strategy="prefix"))
    (own,) = [line.split()[1] for line in found["global"] if line.startswith("localpeer")]
    peers = next(lines for head, lines in found.items() if head.startswith("peers "))
    assert [line.split()[1] for line in peers if line.startswith("peer ")] == [own]
