"""The variables that every configuration has: for the log, the headers, and the answers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from lbgen.targets.nginx.language.quoting import escape_regex, quote, regex_word

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Server
    from lbgen.targets.nginx.assembly import Assembly
    from lbgen.targets.nginx.views import Site


def add_common_maps(made: Assembly) -> None:
    """Add the maps behind ``$lb_…``."""
    made.map(
        "$http_x_request_id",
        "$lb_request_id",
        [("default", "$request_id"), (regex_word(r"~^[A-Za-z0-9._:/+=-]{1,128}$"), "$http_x_request_id")],
        "Keep a client's own request ID if it is safe to log.",
    )
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
        "The Host header with its port; the host alone if the request line names another host.",
    )
    # A byte beyond ASCII is refused, and would make the line no JSON.
    path = [(regex_word(r"~^(?<lb_path_only>[ ->@-~]*)"), "$lb_path_only")]
    made.map("$request_uri", "$lb_path", path, "For the log: the values of the last try.")
    # By the request line, since the page of an early error is asked for by GET.
    made.map("$request", "$lb_method", [(regex_word(r"~^(?<lb_verb>\S+) "), "$lb_verb")])
    _add_logged(made)
    _add_upstream_maps(made)


def _add_logged(made: Assembly) -> None:
    """Add the variable that keeps probes out of the access log."""
    listeners = made.fleet.listeners
    alone = len(listeners) == 1
    probes = [
        f"{'' if alone else f'{listener.name} '}{path}"
        for listener in listeners
        for path in (listener.status.live, listener.status.ready)
        if path
    ]
    entries = [("default", "1")]
    if probes:
        paths = "|".join(map(escape_regex, dict.fromkeys(probes)))
        entries.append((regex_word(f"~^(?:{paths})(?:[?]|$)"), "0"))
    made.map("$request_uri" if alone else '"$lb_listener $request_uri"', "$lb_in_log", entries)


def add_server_map(made: Assembly) -> None:
    """Add the variables with the server's address and with its name.

    Names where the http level is ours, for then its hash sizes are, too.
    """
    place = _place(made)
    last = regex_word(rf"~^(?:.*[ ,])?(?<lb_last_address>{place})(?:[ ,]|$)")
    servers = [server for pool in made.fleet.pools for server in pool.servers]
    if made.whole and servers and all(_named_by_host(server) for server in servers):
        host = regex_word(r"~^(?:.*[ ,])?(?<lb_last_host>[^ ,]+):\d+(?:[ ,]|$)")
        made.map("$upstream_addr", "$lb_server", [("default", '""'), (host, "$lb_last_host")])
        return
    address = [("default", '""'), (last, "$lb_last_address")]
    names = tuple(_server_names(made)) if made.whole else ()
    if not names:
        made.map("$upstream_addr", "$lb_server", address)
        return
    made.map("$upstream_addr", "$lb_upstream", address)
    made.map('"$lb_pool $lb_upstream"', "$lb_server", [("default", "$lb_upstream"), *names])


def _named_by_host(server: Server) -> bool:
    """Tell whether the log's name of a server is the host of the address that NGINX knows."""
    address = server.address
    return server.name == address.host and not address.is_name and not address.is_unix


def _add_upstream_maps(made: Assembly) -> None:
    # With several tries the variables hold a list. A try that found no server in rotation has the upstream's
    # name for an address, and `-` for each time (seen on 1.22.1).
    for source, name in (
        ("connect_time", "connect_s"),
        ("header_time", "first_byte_s"),
        ("response_time", "total_s"),
    ):
        last = regex_word(rf"~(?:^|[ ,])(?<lb_last_{name}>\d+\.\d+)$")
        made.map(f"$upstream_{source}", f"$lb_{name}", [("default", "null"), (last, f"$lb_last_{name}")])
    made.map("$upstream_addr", "$lb_retries", [("default", "0"), *_retries(made)])


def _place(made: Assembly) -> str:
    return r"(?:[^ ,]+:\d+|unix:[^ ,]+)" if _has_sockets(made) else r"[^ ,]+:\d+"


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


_MAP_ENTRIES = 60
_HEADERS = 30
_WORD = 40
"""More of them, or longer ones, NGINX's own hash tables may not hold: a warning at the start, or an error."""


def hash_settings(made: Assembly, sites: tuple[Site, ...]) -> Iterator[str]:
    """Yield the sizes of NGINX's hash tables that this configuration needs."""
    # With two dozen variables of ours the usual 64 may be too small (seen on 1.22.1).
    yield "variables_hash_bucket_size 128"
    words = [[pair.name for pair in one.entries if "~" not in pair.name[:2]] for one in made.maps]
    most = max(map(len, words), default=0)
    if most > _MAP_ENTRIES or any(len(word) > _WORD for each in words for word in each):
        size = 2_048
        while size < 4 * most:
            size *= 2
        yield f"map_hash_max_size {size}"
        yield "map_hash_bucket_size 256"
    headers = [site.shared.headers for site in sites if site.shared]
    headers += [one.proxy.headers for site in sites for one in site.locations if one.proxy]
    if any(len(each) > _HEADERS or any(len(pair.name) > _WORD for pair in each) for each in headers):
        yield "proxy_headers_hash_max_size 2048"
        yield "proxy_headers_hash_bucket_size 128"
    if any(site.names for site in sites):
        yield "server_names_hash_max_size 2048"
        yield "server_names_hash_bucket_size 256"
