"""A header that is set to nothing is removed, on both targets; else it is refused."""

from __future__ import annotations

import pytest

from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.render import render

LISTENER = "listeners: {l: {bind: '127.0.0.1:8080', routes: [%s]}}\n"


def test_a_header_that_is_set_to_nothing_is_removed() -> None:
    text = "pools: {chat: {servers: [gpu-0:8000], headers: {set: {X-I: '', X-A: b}}}}\n"
    text += LISTENER % "{path: /x, pool: chat, headers: {set: {X-J: ''}}}, {pool: chat}"
    fleet = load([Source("fleet.yaml", text)], environ={}).fleet
    assert fleet is not None
    haproxy, nginx = (render(fleet, target)[0].text for target in ("haproxy", "nginx"))
    assert "http-request del-header X-I\n" in haproxy
    assert "http-request del-header X-J if" in haproxy
    assert "set-header X-A b\n" in haproxy
    assert 'proxy_set_header X-I "";' in nginx
    assert 'proxy_set_header X-J "";' in nginx


@pytest.mark.parametrize(
    "text",
    [
        "pools: {chat: {servers: [gpu-0:8000], health: {path: /health, headers: {X-H: ''}}}}\n",
        "pools: {chat: {servers: [gpu-0:8000]}}\n"
        + LISTENER % "{header: {X-R: ''}, pool: chat}, {path: /, pool: chat}",
    ],
)
def test_an_empty_value_that_means_nothing_is_refused(text: str) -> None:
    found = [problem.code for problem in load([Source("fleet.yaml", text)], environ={}).problems]
    assert "bad-value" in found
