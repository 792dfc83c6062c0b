"""``lbgen init``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from lbgen.cli.describe.new_file import write_new
from lbgen.cli.options import Command, nearest, option, or_standard_output
from lbgen.engines import ENGINES
from lbgen.units import expand_ranges, parse_address

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lbgen.cli.console import Console

_FLEET = """\
# yaml-language-server: $schema=lbgen.schema.json
# Editors complete and check this file with that schema: lbgen schema > lbgen.schema.json
# What is wrong with it: lbgen check FILE. What it means in full: lbgen show FILE.
version: 1

pools:
  chat:
    # What runs on the servers; it decides the health check and how long idle connections are kept.
    # There are {engines}.
    engine: {engine}

    # Ranges expand: gpu-[0-3]:8000, "gpu-0:[8000-8007]". A server may say more:
    #   - {{address: "10.0.0.7:8000", weight: 4, max_in_flight: 128, backup: true}}
    servers:
{servers}

    # How requests are spread. least_conn fits LLM traffic, where one request costs a hundred times
    # another; round_robin, random_two, session and prefix are there as well.
    strategy: least_conn

    # Requests in flight that one server takes at most; further ones wait (HAProxy) or are turned away.
    # max_in_flight: 32
    # queue: {{size: 512, timeout: 60s}}

    # The longest wait for the first token, and between two tokens.
    # timeouts: {{first_byte: 10m, idle: 10m}}

listeners:
  public:
    # Only this host can call. "8080" alone is every address, IPv4 and IPv6: ask for keys there, with
    #   auth: {{clients: all}}
    # and, at the left edge, who has one:
    #   clients: {{team-a: {{key: "env:TEAM_A_KEY"}}}}
    bind: "127.0.0.1:8080"
    auth: none

# The versions that run here: lbgen uses what they can do, and says what they cannot.
targets:
  nginx: {{version: "1.22"}}
  haproxy:
    version: "2.6"
    # Over it lbgen drain, status and apply reach the running HAProxy, without a reload.
    # runtime_socket: /run/haproxy/admin.sock
"""


@click.command(cls=Command)
@option("--engine", metavar="ENGINE", help="The engine that runs on the servers. Default: vllm.")
@option(
    "--servers",
    multiple=True,
    metavar="ADDRESSES",
    help="Servers as host:port, separated by commas, with ranges such as gpu-[0-7]:8000; may be repeated.",
)
@option(
    "--from",
    "sources",
    multiple=True,
    metavar="PATH",
    type=click.Path(allow_dash=True),
    help="An nginx.conf or haproxy.cfg, as for import: each value says where it is from; may be repeated.",
)
@option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(allow_dash=True),
    callback=or_standard_output,
    help="File to create; an existing file is never overwritten.",
)
@click.pass_obj
def command(
    console: Console,
    engine: str | None,
    servers: tuple[str, ...],
    sources: tuple[str, ...],
    output: str | None,
) -> int:
    """Write a commented fleet file to start from.

    Written to standard output or to a new file. With --from, it is made from an existing configuration.
    """
    if sources:
        if servers or engine is not None:
            raise click.UsageError("--from takes servers from the files: leave --servers and --engine out")
        return _from_files(console, sources, output)
    engine = engine or "vllm"
    if engine not in ENGINES:
        raise click.UsageError(f"--engine: '{engine}' is not an engine: {nearest(engine.lower(), ENGINES)}")
    text = first_fleet(engine, _addresses(servers) or [f"gpu-[0-3]:{ENGINES[engine].port}"])
    if output is None:
        console.result(text)
        return 0
    write_new(output, text)
    console.note(f"written: {output}; next: lbgen check {output}")
    return 0


def _from_files(console: Console, sources: tuple[str, ...], output: str | None) -> int:
    from lbgen.cli.describe.import_fleet import deliver, exit_code  # noqa: PLC0415 - a plain init needs none of it
    from lbgen.imports.whole import import_configurations  # noqa: PLC0415 - it takes crossplane

    imported = import_configurations(sources)
    deliver(console, imported, output, comments=True)
    return exit_code(imported, strict=False)


def first_fleet(engine: str, servers: Sequence[str]) -> str:
    """Return a fleet file that explains itself."""
    lines = "\n".join(f"      - {_scalar(server)}" for server in servers)
    return _FLEET.format(engine=engine, engines=", ".join(ENGINES), servers=lines)


def _addresses(texts: Sequence[str]) -> list[str]:
    entries = [entry for text in texts for entry in text.replace(",", " ").split()]
    for entry in entries:
        try:
            for address in expand_ranges(entry):
                parse_address(address)
        except ValueError as error:
            raise click.UsageError(f"--servers: {error}") from None
    return entries


def _scalar(text: str) -> str:
    """Return the text as YAML: plain where it may be, else quoted."""
    return json.dumps(text, ensure_ascii=False) if text.startswith("[") else text
