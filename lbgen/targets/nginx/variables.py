"""The variables that every configuration has: for the log, the headers, and the answers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from lbgen.targets.nginx.quoting import escape_regex, quote, regex_word

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.targets.nginx.assembly import Assembly


def add_common_maps(made: Assembly, *, whole: bool) -> None:
    """Add the maps behind ``$lb_…``; `whole`: the http level is ours, so its hash sizes are too."""
    # A client's own id is kept when it cannot spoil a log; $request_id is NGINX's random one.
    made.map(
        "$http_x_request_id",
        "$lb_request_id",
        [("default", "$request_id"), (regex_word(r"~^[A-Za-z0-9._:/+=-]{1,128}$"), "$http_x_request_id")],
    )
    # The client's Host with its port and its case, if it is the host by which NGINX chose the server
    # block; in an absolute URI it may be another one.
    made.map(
        '"$host $http_host"',
        "$lb_host",
        [
            ("default", "$host"),
            (
                regex_word(r"~*^(?<lb_bare_host>\S+) (?<lb_named_host>\k<lb_bare_host>(?::\d+)?)$"),
                "$lb_named_host",
            ),
        ],
    )
    made.map("$request_uri", "$lb_path", [(regex_word(r"~^(?<lb_path_only>[^?]*)"), "$lb_path_only")])
    _add_upstream_maps(made)
    made.map(
        '"$lb_pool $lb_upstream"',
        "$lb_server",
        _server_names(made) if whole else [("default", "$lb_upstream")],
    )


def _add_upstream_maps(made: Assembly) -> None:
    # With several tries the variables hold a list; the last one counts. A try that found no server in
    # rotation has the upstream's name for an address, and `-` for each time (seen on 1.22.1).
    place = r"(?:[^ ,]+:\d+|unix:[^ ,]+)" if _has_sockets(made) else r"[^ ,]+:\d+"
    last_address = regex_word(rf"~^(?:.*[ ,])?(?<lb_last_address>{place})(?:[ ,]|$)")
    made.map("$upstream_addr", "$lb_upstream", [("default", '""'), (last_address, "$lb_last_address")])
    for source, name in (
        ("connect_time", "connect_s"),
        ("header_time", "first_byte_s"),
        ("response_time", "total_s"),
    ):
        last = regex_word(rf"~(?:^|[ ,])(?<lb_last_{name}>\d+\.\d+)$")
        made.map(f"$upstream_{source}", f"$lb_{name}", [("default", "null"), (last, f"$lb_last_{name}")])
    made.map("$upstream_addr", "$lb_retries", [("default", "0"), *_retries(made)])
    # No connection was made: nobody has begun to work on it, and trying again is safe.
    never_reached = regex_word(r"~(?:^|[ ,])-$")
    for status, answer in (("502", "lb-bad-gateway"), ("504", "lb-gateway-timeout")):
        entries = [("default", answer), (never_reached, "lb-unavailable")]
        made.map("$upstream_connect_time", f"$lb_on_{status}", entries)


def _has_sockets(made: Assembly) -> bool:
    return any(server.address.is_unix for pool in made.fleet.pools for server in pool.servers)


def _retries(made: Assembly) -> Iterator[tuple[str, str]]:
    port = r":(?:\d+|/[^ ,]+)" if _has_sockets(made) else r":\d+"
    most = max((pool.retry.attempts for pool in made.fleet.pools), default=0)
    for count in range(1, most + 1):
        yield regex_word(rf"~^(?:[^,]*, ){{{count}}}[^,]*{port}$"), str(count)
        if count > 1:  # the last try found no server
            yield regex_word(rf"~^(?:[^,]*, ){{{count}}}[^,:]*$"), str(count - 1)


def _server_names(made: Assembly) -> Iterator[tuple[str, str]]:
    """Names by pool and address; a server given by host name is known to NGINX by its address alone."""
    yield "default", "$lb_upstream"
    names: dict[str, str] = {}
    for pool in made.fleet.pools:
        for server in pool.servers:
            if not server.address.is_name:
                names.setdefault(f"{pool.name} {server.address}", server.name)
    alike = Counter(map(str.lower, names))
    for key, name in names.items():
        # Entries that are no regular expression are compared without case: two are one, and refused.
        plain = alike[key.lower()] == 1
        yield (quote(key) if plain else regex_word(f"~^{escape_regex(key)}$")), quote(name)


def hash_settings(made: Assembly) -> Iterator[str]:
    """Yield sizes of NGINX's hash tables; too small ones give a warning at start, or an error."""
    entries = sum(len(pool.servers) for pool in made.fleet.pools) + len(made.fleet.clients)
    size = 2_048
    while size < 4 * entries:
        size *= 2
    yield f"map_hash_max_size {size}"
    yield "map_hash_bucket_size 256"
    yield "variables_hash_max_size 4096"
    yield "variables_hash_bucket_size 128"
    yield "proxy_headers_hash_max_size 2048"
    yield "proxy_headers_hash_bucket_size 128"
    yield "server_names_hash_max_size 2048"
    yield "server_names_hash_bucket_size 256"
