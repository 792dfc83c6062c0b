"""Public reports about addresses, names and DNS, as fleet files."""

from __future__ import annotations

import pytest

from tests.reports.reading import chat, codes, errors, fleet_text, problems, verdicts


@pytest.mark.parametrize(
    "address",
    [
        "http://10.0.0.1:8000",
        "10.0.0.1:8000/v1",
        "10.0.0.1",
        "10.0.0.1:+80",
        "10.10.188:80",
        "10.0.0.1:08000",
        "10.0.0.1:70000",
        "10.0.0.1:0",
        "fd00::1:8000",
        "[fe80::1%eth0]:8000",
        "gpu 0:8000",
        "gpu_0;x:8000",
    ],
)
def test_what_is_no_address(address: str) -> None:
    """HAProxy drops a path, takes +80 as an offset and 10.10.188 as 10.10.0.188, without a word."""
    text = fleet_text(servers=f'servers:\n  - "{address}"')
    assert errors(text) == [f'- "{address}"']


def test_an_address_of_ipv6() -> None:
    server = chat(fleet_text(servers='servers: ["[fd00::1]:8000"]')).servers[0]
    assert str(server.address) == "[fd00::1]:8000"
    mapped = chat(fleet_text(servers='servers: ["[::ffff:10.0.0.1]:8000"]')).servers[0]
    assert str(mapped.address) == "10.0.0.1:8000"


@pytest.mark.parametrize("text", ["servers: [gpu-[0-3]:8000]", "servers: [[fd00::1]:8000]"])
def test_brackets_bite(text: str) -> None:
    """YAML takes them for a list in the list: one error, with a hint."""
    (problem,) = problems(fleet_text(servers=text))
    assert problem.is_error
    assert problem.location
    assert problem.location.line == 3
    assert problem.hint


def test_names_that_are_followed_need_somebody_to_ask() -> None:
    """NGINX passes the test, and fails at run time: no resolver defined."""
    text = fleet_text("dns:\n  mode: runtime", target='nginx: {version: "1.30"}')
    assert [problem.code for problem in verdicts(text)] == ["target-refused"]
    named = fleet_text("dns: {mode: runtime, resolver: 10.0.0.10}", target='nginx: {version: "1.30"}')
    assert verdicts(named) == []


def test_names_are_followed_by_new_versions_only() -> None:
    """`resolve` killed an older NGINX (deer-flow PR#1837)."""
    text = fleet_text("dns: {mode: runtime, resolver: 10.0.0.10}", target='nginx: {version: "1.22"}')
    assert [problem.code for problem in verdicts(text)] == ["target-refused"]


def test_ollama_behind_a_foreign_host() -> None:
    """403 to every request (ollama#3269)."""
    text = fleet_text("engine: ollama", servers="servers: [127.0.0.1:11434]")
    assert codes(text) == ["ollama-host"]
    assert codes(fleet_text("engine: ollama", servers="servers: [10.0.0.5:11434]")) == []


def test_tls_and_plain_in_one_pool() -> None:
    """NGINX has one scheme for a whole upstream."""
    mixed = fleet_text(servers="servers: [gpu-0:8000, gpu-1:443]")
    assert codes(mixed) == ["port-without-tls"]
    per_server = fleet_text(servers="servers:\n  - {address: gpu-0:8000, tls: true}")
    assert codes(per_server) == ["unknown-key"]


@pytest.mark.parametrize(
    ("servers", "code"),
    [
        ("127.0.0.1:8080", "loop"),
        ("localhost:8000", "localhost"),
        ("localhost:8080", "loop"),
        ("127.0.0.1:8081", ""),
        ("10.0.0.1:8080", ""),
    ],
)
def test_servers_on_this_machine(servers: str, code: str) -> None:
    found = codes(fleet_text(servers=f'servers: ["{servers}"]'))
    assert code in found if code else found == []
