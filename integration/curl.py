"""Requests by curl inside a balancer's container: it speaks HTTP/2, with TLS and without."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from integration.edge import HOST

if TYPE_CHECKING:
    from lbgen.lab.boxes import Balancer


class Answer(NamedTuple):
    """What curl got."""

    version: str
    status: int
    headers: dict[str, str]
    """Trailers too."""
    body: str


def send_by_curl(balancer: Balancer, url: str, *words: str) -> Answer:
    """Send a body, from inside the container, where curl speaks HTTP/2."""
    given = ("-D", "/dev/stderr", "-H", f"Host: {HOST}", "-H", "X-Given: 1", "--data-binary", "question")
    script = 'curl -sk --max-time 10 "$@" 2>/tmp/head; printf "\\n--\\n"; cat /tmp/head'
    text = balancer.run("sh", "-c", script, "curl", *given, *words, url).replace("\r", "")
    body, _, head = text.partition("\n--\n")
    status, *lines = head.splitlines()
    pairs = (line.partition(": ") for line in lines if ": " in line)
    version, number = status.split()[:2]
    return Answer(version, int(number), {name.lower(): value for name, _, value in pairs}, body)
