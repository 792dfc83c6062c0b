"""Rendered NGINX files as crossplane reads them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import crossplane

from lbgen.render import render
from lbgen.secret_values import StandInSecrets
from lbgen.vocabulary import Version
from tests import factory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Fleet

Directive = dict[str, Any]


def parse(text: str) -> list[Directive]:
    """Return the directives of one file; raises what crossplane finds wrong."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "nginx.conf"
        path.write_text(text)
        result = crossplane.parse(str(path), single=True, strict=False, check_ctx=False, check_args=False)
    assert not result["errors"], result["errors"]
    return list(result["config"][0]["parsed"])


def files(fleet: Fleet, version: str = "1.22", part: str = "all") -> dict[str, str]:
    """Return path -> text for one version of NGINX."""
    settings = fleet.target("nginx")._replace(version=Version.parse(version))
    fleet = fleet._replace(targets=(settings,))
    return {file.path: file.text for file in render(fleet, "nginx", part, secrets=StandInSecrets())}


def conf(fleet: Fleet | None = None, version: str = "1.22") -> list[Directive]:
    """Return the directives of the main file."""
    return parse(files(fleet or factory.fleet(), version)["nginx.conf"])


def find(directives: list[Directive], *names: str) -> Iterator[Directive]:
    """Yield every directive of one of these names, at any depth."""
    for directive in directives:
        if directive["directive"] in names:
            yield directive
        yield from find(directive.get("block", []), *names)


def args(directives: list[Directive], name: str) -> list[list[str]]:
    """Return the arguments of every directive of this name."""
    return [directive["args"] for directive in find(directives, name)]


def locations(directives: list[Directive]) -> dict[str, list[Directive]]:
    """Return match -> content for every location."""
    return {" ".join(found["args"]): found["block"] for found in find(directives, "location")}


INHERITED = (
    "proxy_set_header", "proxy_hide_header", "proxy_http_version", "proxy_buffering", "proxy_cache",
    "proxy_buffer_size", "proxy_buffers", "proxy_busy_buffers_size",
)  # fmt: skip


def proxied(directives: list[Directive]) -> dict[str, list[Directive]]:
    """Return match -> content, with what a location inherits, for every location that leads to a pool."""
    found = {}
    for server in find(directives, "server"):
        block = server.get("block", [])
        for match, content in locations(block).items():
            if not args(content, "proxy_pass") and not args(content, "grpc_pass"):
                continue
            own = {directive["directive"] for directive in content}
            outer = [
                each for each in block if each["directive"] in INHERITED and each["directive"] not in own
            ]
            found[match] = outer + content
    return found
