"""The access log: the same fields on both targets, the right pool, lines that others' parsers read."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from integration.edge import Ask, started
from integration.fleets import TRIED
from integration.forms import PARTS, form, part
from integration.waiting import eventually

if TYPE_CHECKING:
    from integration.edge import Edge
    from lbgen.lab.boxes import Balancer, MockBox
    from lbgen.lab.rig import Rig

MODELS, PLAIN = 8080, 8081
POOLS: dict[str, Any] = {
    "chat": {"engine": "vllm", "models": ["model-a"], "servers": ["gpu-0:8000"]},
    "audio": {"engine": "vllm", "models": ["whisper-1"], "servers": ["gpu-1:8000"]},
}
FLEET: dict[str, Any] = {
    "pools": POOLS,
    "listeners": {
        "models": {"bind": str(MODELS)},
        "plain": {"bind": str(PLAIN), "routes": [{"pool": "chat"}]},
    },
    "logs": {
        "fields": {
            "model": "model",
            "peer": "client_address",
            "bytes": "prompt_bytes",
            "tokens": "max_tokens",
            "app": "header:X-App",
            "region": "eu-1",
        }
    },
}
OWN = tuple(FLEET["logs"]["fields"])
BODY = json.dumps({"model": "model-a", "max_tokens": 7}).encode()
SPEECH = form(part("model", "whisper-1"), part("file", bytes(2_000_000), "a.wav"))


def lines_of(edge: Edge, path: str) -> dict[str, dict[str, Any]]:
    """Return both targets' lines about a path."""
    found: dict[str, dict[str, Any]] = {}

    def seen() -> bool:
        for name, balancer in edge.balancers.items():
            for line in balancer.logs().splitlines():
                if line.startswith("{") and f'{path}"' in line.replace("\\/", "/"):
                    found[name] = json.loads(line)
        return len(found) == len(edge.balancers)

    eventually(seen, 10, f"both log {path}")
    return found


@pytest.mark.parametrize(
    ("port", "path", "ask", "wanted"),
    [
        (MODELS, "/l/json", Ask("", "POST", {"X-App": 'my "app"'}, BODY), ("chat", "model-a", 7, 'my "app"')),
        (MODELS, "/l/form", Ask("", "POST", PARTS, SPEECH), ("audio", "whisper-1", None, "")),
        (MODELS, "/l/none", Ask(""), ("", "", None, "")),
        (PLAIN, "/l/plain", Ask("", "POST", {"X-App": "a"}, BODY), ("chat", "model-a", 7, "a")),
        (PLAIN, "/l/get", Ask(""), ("chat", "", None, "")),
    ],
)
def test_fields_are_the_same_on_both(
    edge: Edge, port: int, path: str, ask: Ask, wanted: tuple[object, ...]
) -> None:
    edge.each(ask._replace(path=path), port)
    lines = lines_of(edge, path)
    nginx, haproxy = lines["nginx"], lines["haproxy"]
    assert list(nginx) == list(haproxy)
    assert [nginx[name] for name in ("pool", *OWN)] == [haproxy[name] for name in ("pool", *OWN)]
    assert (nginx["pool"], nginx["model"], nginx["tokens"], nginx["app"]) == wanted
    assert nginx["bytes"] == (len(ask.body) or None)
    assert (nginx["region"], nginx["decision"]) == ("eu-1", "")
    assert re.fullmatch(r"[0-9.]+", nginx["peer"])


COMBINED = re.compile(
    r"(?P<host>\S+) - (?P<user>\S+) \[(?P<time>\d{2}/[A-Z][a-z]{2}/\d{4}:\d{2}:\d{2}:\d{2} [+-]\d{4})\] "
    r'"(?P<request>(?:[^"\\]|\\.)*)" (?P<status>\d{3}) (?P<size>\d+|-) "(?P<referrer>[^"]*)" '
    r'"(?P<agent>(?:[^"\\]|\\.)*)"'
)
"""As GoAccess, Logstash's COMBINEDAPACHELOG and their like have it."""


def four_lines(balancer: Balancer) -> list[str]:
    def lines() -> list[str]:
        return [line for line in balancer.logs().splitlines() if "/combined" in line]

    eventually(lambda: len(lines()) == 4, 10, "four lines")
    return lines()


@pytest.mark.parametrize("generation", TRIED)
def test_parsers_of_combined_read_every_line(rig: Rig, running_mocks: list[MockBox], generation: str) -> None:
    del running_mocks  # they have to run
    fleet = {"pools": {"chat": POOLS["chat"]}, "logs": {"format": "combined"}}
    with started(rig, fleet, generation) as edge:
        for agent in ("curl/8", 'a "quoted" agent', "back\\slash", ""):
            edge.each(Ask("/combined", headers={"User-Agent": agent}))
        for balancer in edge.balancers.values():
            for line in four_lines(balancer):
                found = COMBINED.fullmatch(line)
                assert found, line
                assert (found["request"], found["status"]) == ("GET /combined HTTP/1.1", "200")
