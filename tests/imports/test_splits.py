"""Shares of pools, prefixes that two conditions test, and answers that the request makes."""

from __future__ import annotations

import pytest

from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.imports.ledger import Fate
from lbgen.imports.whole import import_configurations

SPLIT = """\
split_clients KEY $variant { 0.5% canary; * stable; }
upstream canary { server 10.0.0.1:8000; }
upstream stable { server 10.0.0.2:8000; }
server { listen 80; location / { proxy_pass http://$variant; proxy_read_timeout 30m; GUARD } }
"""
PREFIX = """\
frontend in
    bind :8000
    mode http
    acl app path_beg /llm/
    acl app path /llm
    use_backend llm if app
    default_backend nothing
backend nothing
    mode http
    http-request return status 404 content-type text/plain lf-string "Path %[path] not found"
backend llm
    mode http
    http-request set-path %[path,regsub(^/llm/?,/)]
    server a 10.0.0.1:8000
"""


def imported(tmp_path, text):
    (tmp_path / "lb.conf").write_text(text)
    found = import_configurations([str(tmp_path / "lb.conf")])
    loaded = load([Source("fleet.yaml", found.text(comments=False))], environ={"EVERYBODY_KEY": "k" * 16})
    assert [one for one in loaded.problems if one.is_error] == []
    return found, loaded.fleet


@pytest.mark.parametrize(
    ("key", "by"),
    [("$request_id", ""), ('"${remote_addr}x"', ""), ("$http_x_user", ", by: {header: X-User}")],
)
def test_split_clients_is_a_split(tmp_path, key, by):
    found, _ = imported(tmp_path, SPLIT.replace("KEY", key).replace("GUARD", ""))
    text = found.text(comments=False)
    assert f"{{split: {{canary: 1, stable: 199}}{by}}}" in text
    assert text.count("timeouts: {first_byte: 30m, idle: 30m}") == 2
    assert any("dealt out anew" in str(one) for one in found.entries) == ("remote_addr" in key)
    assert not [one for one in found.entries if one.fate is Fate.LEFT]


def test_a_guard_of_a_split_closes(tmp_path):
    guard = "auth_basic x; auth_basic_user_file y;"
    found, _ = imported(tmp_path, SPLIT.replace("KEY", "$request_id").replace("GUARD", guard))
    assert "auth: {clients: [everybody]" in found.text(comments=False)


def test_a_prefix_that_two_conditions_test_is_taken_off(tmp_path):
    found, fleet = imported(tmp_path, PREFIX)
    first, rest = fleet.listeners[0].routes
    assert (first.pool, first.strip_prefix) == ("llm", True)
    assert rest.respond.status == 404
    assert not [one for one in found.entries if one.fate is Fate.LEFT]
