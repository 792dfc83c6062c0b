"""What messages say: the thing that is wrong, in words of the fleet file."""

from __future__ import annotations

import pytest

from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source

POOL = "pools: {chat: {servers: [a:1], %s}}"
SERVERS = "pools: {chat: {servers: [%s]}}"
SMALL = "pools: {chat: {servers: [a:1]}}\n"


@pytest.mark.parametrize(
    ("text", "says", "never"),
    [
        (POOL % "health: {path: '/a b'}", "contains a blank", "begins with"),
        (POOL % "health: {path: '/a{b'}", "the character '{'", "begins with"),
        (POOL % "health: {path: a}", "begins with '/'", "blank"),
        (SMALL + "targets: {nginx: {version: 1}}", '"1.26"', 'quote it: "1"'),
        (SMALL + "targets: {nginx: {version: 1.26}}", 'quote it: "1.26"', "two numbers"),
        (SMALL + "targets: {haproxy: {version: 3}}", '"3.0"', 'quote it: "3"'),
        (POOL % "max_in_flight: 99999999999", "from 1 to 2147483647", "or more"),
        (POOL % "max_in_flight: 0", "from 1 to 2147483647", "or more"),
        (SERVERS % "22:30", "four numbers from 0 to 255", "octets"),
        (SERVERS % "'999.1.1.1:80'", "four numbers from 0 to 255", "Octet"),
        (SERVERS % "'[fd::1::2]:80'", "'::' may once", "At most"),
        ("pools: {a: {servers: [a:1]}, a: {servers: [b:1]}}", "columns 9 and 30", "lines 1 and 1"),
        (SMALL + "x-a: 1\nx-b: 1\nx-a: 2", "lines 2 and 4", "columns"),
        (SMALL + "x-a: {b: &b 1, c: &b 2}", "columns 10 and 19 of this line", "lines"),
    ],
)
def test_message_says_what_is_wrong(text, says, never) -> None:
    problem = load([Source("fleet.yaml", text)], environ={}).problems[0]
    said = f"{problem.message} {problem.hint}"
    assert says in said
    assert never not in said
