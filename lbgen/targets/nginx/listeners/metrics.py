"""The listener for statistics, Prometheus and probes: open-source NGINX counts connections alone."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING

from lbgen.targets.nginx.errors import ALWAYS, KEYS, PROXIED, error_locations, error_pages
from lbgen.targets.nginx.language.quoting import escape_regex, regex_word
from lbgen.targets.nginx.language.words import size
from lbgen.targets.nginx.listeners.binds import listen_lines
from lbgen.targets.nginx.listeners.status import live_location, ready_locations
from lbgen.targets.nginx.views import Answer, Check, Location, Map, Pair, Site
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Metrics
    from lbgen.targets.nginx.assembly import Assembly


_OCCASIONS = (*ALWAYS, *KEYS, *PROXIED)


def metrics_site(made: Assembly) -> Iterator[Site]:
    """Yield the server block of the metrics listener, if the fleet has one."""
    metrics = made.fleet.metrics
    if metrics is None:
        return
    checks = tuple(_password_check(made, metrics))
    yield Site(
        listener="metrics",
        listens=tuple(line for bind in metrics.binds for line in listen_lines(bind)),
        names=(),
        http2=False,
        tls=None,
        max_body=size(1024),
        buffer=size(1024),
        settings=tuple(map(Syntax, ("access_log off", "recursive_error_pages on"))),
        routes=(
            # In two steps: a `return` in the place of an `allow` would be carried out before it.
            Location(
                Syntax("= /stub_status"),
                checks=checks,
                dispatch=Syntax("@lb-stub-status"),
            ),
            Location(Syntax("@lb-stub-status"), access=(*_networks(metrics), Syntax("stub_status"))),
            Location(
                Syntax("= /metrics"),
                checks=checks,
                access=tuple(_networks(metrics)),
                dispatch=Syntax("@lb-metrics"),
            ),
            Location(Syntax("@lb-metrics"), answer=Answer(200, _page(), _PROMETHEUS)),
            Location(Syntax("/"), answer=Answer(404)),
        ),
        probes=(live_location(made.fleet, "/live"), *_ready(made)),
        errors=error_pages(_OCCASIONS),
        # Without it, a browser asks for no password.
        answers=tuple(error_locations(made, _OCCASIONS, (), challenge='Basic realm="metrics"')),
    )


def _page() -> Syntax:
    """Return the body for Prometheus, by the names of NGINX's own exporter."""
    lines = (
        f"# HELP nginx_connections_{name} {meaning}\\n# TYPE nginx_connections_{name} gauge\\n"
        f"nginx_connections_{name} $connections_{name}\\n"
        for name, meaning in _CONNECTIONS.items()
    )
    return Syntax(f'"{"".join(lines)}"')


_CONNECTIONS = {
    "active": "Client connections, including idle ones",
    "reading": "Connections on which a request is read",
    "writing": "Connections on which a response is written",
    "waiting": "Idle client connections",
}
_PROMETHEUS = Syntax('"text/plain; version=0.0.4"')


def _ready(made: Assembly) -> Iterator[Location]:
    pools = {pool.name: pool for each in made.fleet.listeners for pool in made.fleet.pools_of(each)}
    yield from ready_locations(made, "/ready", tuple(pools.values()), "any_pool")


def _networks(metrics: Metrics) -> Iterator[Syntax]:
    allowed = metrics.allow
    if not allowed and all(_is_loopback(bind.host) for bind in metrics.binds):
        allowed = ("127.0.0.0/8", "::1/128")
    if allowed:
        yield from (Syntax(f"allow {network}") for network in allowed)
        yield Syntax("deny all")


def _is_loopback(host: str) -> bool:
    return host in {"::1", "localhost"} or host.startswith("127.")


def _password_check(made: Assembly, metrics: Metrics) -> Iterator[Check]:
    """Yield a check by map: a password file would be read by workers, which may not read our secrets."""
    if metrics.user is None or metrics.password is None:
        return
    pair = f"{metrics.user}:{made.resolve(metrics.password)}"
    word = b64encode(pair.encode()).decode()
    entries = (
        Pair(Syntax("default"), Syntax("1")),
        Pair(regex_word(f"~^[Bb]asic {escape_regex(word)}$"), Syntax("0")),
    )
    variable = Syntax("$lb_metrics_denied")
    made.secret_maps.append(Map(Syntax("$http_authorization"), variable, entries))
    yield Check(variable, 401)
