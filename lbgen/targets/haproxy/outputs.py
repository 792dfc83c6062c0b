"""From a fleet to the files of HAProxy and what their templates see."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lbgen.targets.common.answers import ANSWERS
from lbgen.targets.common.listeners import groups
from lbgen.targets.common.service import drop_in
from lbgen.targets.haproxy.assembly import VALUES_FILE, Assembly
from lbgen.targets.haproxy.features import has
from lbgen.targets.haproxy.guards.admission import BUILT_IN_COUNTERS, tables
from lbgen.targets.haproxy.guards.auth import CLIENTS_FILE, clients_text
from lbgen.targets.haproxy.inspection.bodies import SCRIPT, reads_text, script_context, script_lines
from lbgen.targets.haproxy.inspection.buffers import REWRITE, buffer_size
from lbgen.targets.haproxy.language.quoting import quote
from lbgen.targets.haproxy.language.words import COMMON_ERRORS, DEFAULT_TIMEOUTS, duration, error_reply
from lbgen.targets.haproxy.listeners.binds import differ_in_authority
from lbgen.targets.haproxy.listeners.edge import frontends
from lbgen.targets.haproxy.listeners.metrics import METRICS_FILE, metrics_frontend, metrics_text
from lbgen.targets.haproxy.listeners.redirects import redirects
from lbgen.targets.haproxy.logs import log_target
from lbgen.targets.haproxy.pools.backends import backends
from lbgen.targets.haproxy.pools.learned import counters_with_homes, learned_tables
from lbgen.targets.haproxy.pools.names import peers, resolvers
from lbgen.targets.haproxy.settings import own
from lbgen.targets.haproxy.views import Defaults, Process, Section, syntax
from lbgen.targets.spec import Output, Syntax

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Fleet, Listener, TargetSettings
    from lbgen.targets.haproxy.views import Backend, Frontend
    from lbgen.targets.spec import Part, Secrets

_HTTP2_WINDOW = 1_048_576
"""Bytes that a client may send before it hears from HAProxy again."""


def outputs(fleet: Fleet, part: Part, secrets: Secrets) -> tuple[Output, ...]:
    """Return the files to render, the main file first."""
    made = Assembly(fleet, secrets, whole=part.whole)
    pools = backends(made)
    alone = part.name == "upstreams"
    limits = () if alone else tables(fleet)
    edge = () if alone else (*frontends(made), *redirects(made), *metrics_frontend(made))
    context = {
        "part": part.name,
        "process": _process(made),
        "defaults": _defaults(made, (*edge, *pools)),
        "sections": (
            *_script(made, part),
            *made.stores(),
            *peers(fleet),
            *resolvers(fleet),
            *learned_tables(fleet),
            *limits,
        ),
        "frontends": edge,
        "backends": pools,
    }
    name = "haproxy.cfg" if part.whole else f"{part.name}.cfg"
    return (Output(name, "haproxy/haproxy.cfg.j2", context), *_side_files(made, part))


def _side_files(made: Assembly, part: Part) -> Iterator[Output]:
    texts = [(VALUES_FILE, made.values_text()), *made.joined_files()]
    if part.name != "upstreams":
        texts += [(CLIENTS_FILE, clients_text(made)), (METRICS_FILE, metrics_text(made))]
    for path, text in texts:
        if text:
            yield Output(path, text=text, secret=True)
    if part.name != "upstreams" and reads_text(made.fleet):
        yield Output(SCRIPT, "haproxy/lbgen.lua.j2", script_context(made.fleet), comment="--")
    yield from (Output(path, text=text) for path, text in made.list_files())
    if part.whole:
        yield drop_in("haproxy.service", made.settings.directory, _descriptors(made.fleet, made.settings))


def _script(made: Assembly, part: Part) -> Iterator[Section]:
    """Yield the script's own `global` section, where the other one is not ours to write."""
    lines = () if part.name != "http" else syntax(*script_lines(made))
    if lines:
        yield Section(Syntax("global"), lines)


def _process(made: Assembly) -> Process:
    fleet, settings = made.fleet, made.settings
    scripts = tuple(script_lines(made))
    lines = [
        # Names of side files are relative to this file.
        *(["default-path config"] if made.named_files else []),
        log_target(fleet.logs, fleet.logs.level),
        _connections(fleet, settings),
        "# After a reload, streams may continue for this long; then they are cut off.",
        f"hard-stop-after {duration(settings.drain_timeout)}",
    ]
    if settings.user:
        lines.append(f"user {quote(settings.user)}")
    if threads := own(settings).threads:
        lines.append(f"nbthread {threads}")
    if settings.runtime_socket:
        lines.append(
            f"stats socket {quote(settings.runtime_socket)} mode 660 level admin expose-fd listeners"
        )
        lines.append("stats timeout 60s")
    http2 = any(listener.http2 for listener in fleet.listeners)
    if http2 and not has(settings.version, "http2_window_grows"):
        # With the usual 64 KiB a prompt of 200 KB waits three times for leave to go on.
        lines.append(f"tune.h2.initial-window-size {_HTTP2_WINDOW}")
    if any(_tunnels(listener) for listener in fleet.listeners):
        # Clients open a WebSocket on a connection of HTTP/1.1, which works with all of them.
        lines.append("h2-workaround-bogus-websocket-clients")
    # Headers, and what is looked at of bodies, have to fit; a plain number: `1m` makes 2.6 and 3.0 crash.
    lines += [f"tune.bufsize {buffer_size(fleet)}", f"tune.maxrewrite {REWRITE}"]
    if any(differ_in_authority(listeners) for listeners, _ in groups(fleet.listeners)):
        # No session is resumed: TLS 1.3 would do that for any listener, without its certificate (2.6.12).
        lines.append("tune.ssl.cachesize 0")
    needed = counters_with_homes(fleet)
    if needed > BUILT_IN_COUNTERS:
        lines.append(f"tune.stick-counters {needed}")
    lines += scripts
    lines += settings.raw.get("global", ())
    return Process(syntax(*lines), _descriptors(fleet, settings))


def _tunnels(listener: Listener) -> bool:
    return listener.http2 and any(map(listener.tunnels, listener.routes))


def _descriptors(fleet: Fleet, settings: TargetSettings) -> int:
    """Return how many files and connections are open at once: two a request, and some for checks and logs.

    In steps of a hundred servers: one more server is nothing that needs a reload.
    """
    servers = sum(len(pool.servers) for pool in fleet.pools)
    return 2 * own(settings).max_connections + (servers // 100 + 2) * 100


def _connections(fleet: Fleet, settings: TargetSettings) -> str:
    if fleet.origins.written((*settings.path, "max_connections")):
        return f"maxconn {own(settings).max_connections}"
    # With a `maxconn` for which the process may not open enough files HAProxy does not start (seen on
    # 2.6: "Cannot raise FD limit"). A default must not do that: this takes what there is, up to the bound.
    return f"fd-hard-limit {_descriptors(fleet, settings)}"


_OF_HAPROXY = {400, 408, 500, 502, 503, 504}
"""Statuses that HAProxy answers with by itself."""


def _defaults(made: Assembly, sections: tuple[Frontend | Backend, ...]) -> Defaults:
    settings = made.settings
    rules = "\n".join(rule for section in sections for rule in section.rules)
    wanted = _OF_HAPROXY | set(map(int, re.findall(r"deny_status (\d+)", rules)))
    if "http-request auth" in rules:
        wanted.add(401)
    said = [ANSWERS[name] for name in COMMON_ERRORS]
    errors = [error_reply(one) for one in said if one.status in wanted or any(settings.raw.values())]
    if has(settings.version, "status_431"):
        errors.append(error_reply(ANSWERS["headers_too_large"]))
    return Defaults(
        syntax(*_default_lines(made)),
        tuple(errors),
        syntax(*settings.raw.get("defaults", ())),
    )


def _default_lines(made: Assembly) -> Iterator[Syntax | str]:
    yield "mode http"
    if made.one_log:
        yield "log global"
    yield "option dontlognull"
    # Without it chunked streams are held back by 200 ms (seen on 2.6 to 3.4).
    yield "# Pass tokens on as they arrive."
    yield "option http-no-delay"
    if not has(made.settings.version, "abort_on_close_by_default"):
        # Up to 3.2 the option works here alone.
        yield "# If a client disconnects, abort its request at the server."
        yield "option abortonclose"
    yield "# Do not close a connection at a reload while a request may be on its way."
    yield "option idle-close-on-response"
    for name, milliseconds in DEFAULT_TIMEOUTS.items():
        yield f"timeout {name} {duration(milliseconds)}"
