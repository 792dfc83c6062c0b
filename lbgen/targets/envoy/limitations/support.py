"""Every key of the fleet file, and what Envoy makes of it: the one table of its limitations.

A key that stands in no row here and not in `RENDERED` is refused where it is written, so that none is lost.
"""

from __future__ import annotations

from typing import NamedTuple

from lbgen.targets.spec import Row
from lbgen.vocabulary import Support

_D, _R = Support.DEGRADED, Support.REFUSED
HAPROXY = "the HAProxy target"


class Limit(NamedTuple):
    """What Envoy cannot have of one key."""

    key: str
    """With ``*`` for names and places in lists."""
    support: Support
    reason: str
    """Goes on from the key's name: ``has no queue behind it``."""
    instead: str = ""
    when: str = ""
    """The function of `limits` that finds where it holds; empty: wherever the key is written."""

    @property
    def name(self) -> str:
        """The name by which `without` accepts the loss."""
        tail = self.key.rpartition("*.")[2]
        # Not the same as a pool's: who accepts the one has not accepted the other.
        return f"clients.{tail}" if self.key == "clients.*.max_in_flight" else tail


LIMITS: tuple[Limit, ...] = (
    Limit("balancers.peers", _D, "has no effect: Envoy shares no table with its neighbours"),
    Limit(
        "pools.*.max_in_flight",
        _D,
        "bounds the servers of the pool together, not each, and no queue is behind it: what is more gets 503",
        f"least_conn, which keeps them alike; or {HAPROXY}",
    ),
    Limit(
        "pools.*.servers.*.max_in_flight",
        _D,
        "bounds the servers of the pool together, not each, and no queue is behind it: what is more gets 503",
        f"least_conn, which keeps them alike; or {HAPROXY}",
    ),
    Limit(
        "pools.*.servers.*.weight",
        _D,
        "counts with its square root where requests in flight are compared: 4 to 1 holds 2 to 1",
        "round_robin, which follows weights; or their squares",
        when="weighted_least",
    ),
    Limit(
        "pools.*.queue",
        _D,
        "has no effect: Envoy has no queue; if every server is full, a request gets 503 immediately",
        HAPROXY,
    ),
    Limit("pools.*.queue.order", _R, "needs a queue, and Envoy has none", HAPROXY, when="shortest_first"),
    Limit("pools.*.passive_health.window", _D, "has no effect: connections that fail in a row are counted"),
    Limit(
        "pools.*.warmup",
        _D,
        "has no effect where servers are hashed: only round_robin, least_conn and random_two warm up",
        when="warmed_hashes",
    ),
    Limit(
        "pools.*.retry.on",
        _D,
        "does not distinguish reset and timeout: each means both",
        "write both, or neither",
        when="resets_apart",
    ),
    Limit(
        "pools.*.retry.within", _D, "does not limit the retries: only their number and timeouts.connect do"
    ),
    Limit(
        "pools.*.retry.replay_posts",
        _D,
        "covers requests of up to 1 MiB: larger ones are not kept",
        when="replayed",
    ),
    Limit(
        "pools.*.timeouts.idle",
        _D,
        "becomes as long as first_byte: Envoy's idle timer also runs before the first byte",
        "write a first_byte that is not longer than idle",
        when="short_idle",
    ),
    Limit("pools.*.timeouts.send", _D, "limits a request's headers; gaps in its body are limited by idle"),
    Limit("pools.*.keepalive.idle", _D, "has no effect: Envoy keeps idle connections for idle_timeout"),
    Limit(
        "pools.*.servers.*.address",
        _R,
        "cannot be a Unix socket together with host names: Envoy never uses it then",
        "addresses instead of names, or two pools",
        when="mixed_sockets",
    ),
    Limit("listeners.*.bind", _R, "cannot be a host name on Envoy", "an address", when="named_binds"),
    Limit(
        "pools.*.dns.mode",
        _D,
        "has no effect: Envoy resolves names while it runs",
        "runtime, or addresses",
        when="static_names",
    ),
    Limit("pools.*.discover.max", _D, "has no effect: all addresses of the name are used"),
    Limit(
        "pools.*.strategy.prefix",
        _D,
        "has one level on Envoy: conversations are hashed, and system prompts have no home",
        "prefix: {key: conversation} or {key: system_prompt} says which; or " + HAPROXY,
        when="two_levels",
    ),
    Limit("pools.*.strategy.slack", _D, "has no effect: Envoy limits a server by load_factor only"),
    Limit("pools.*.strategy.scope", _R, "cannot be 'client' on Envoy", HAPROXY, when="scoped"),
    Limit(
        "pools.*.strategy.strict",
        _D,
        "is broken for some sessions when servers are added, because it is a hash",
        "session: {insert: NAME}, a cookie that names the server",
        when="strict",
    ),
    Limit(
        "pools.*.strategy.learn",
        _R,
        "is not supported: Envoy would replace the session's name by one that contains an address",
        "session: {header: NAME}",
        when="never",
    ),
    Limit(
        "pools.*.strategy.kv_cache",
        _R,
        "is not supported: `lbgen agent` only works with HAProxy",
        when="never",
    ),
    Limit("pools.*.strategy.drain_above", _R, "belongs to kv_cache", when="never"),
    Limit(
        "pools.*.strategy.pack",
        _R,
        "is not supported: Envoy cannot fill one server before the next",
        when="never",
    ),
    Limit(
        "listeners.*.routes.*.by",
        _R,
        "is a hash on Envoy, and the pools choose servers by another one: a route has only one",
        "by: request",
        when="hashes_twice",
    ),
    Limit(
        "listeners.*.routes.*.split",
        _R,
        "leads to pools that differ in host_header, or in what they hash: a route has one of each",
        "a route for each pool",
        when="splits_apart",
    ),
    Limit("listeners.*.tls.directory", _R, "is not supported: Envoy needs each certificate named", "bundle"),
    Limit(
        "listeners.*.acme.webroot", _R, "is not supported: Envoy does not serve files", "acme: {pool: NAME}"
    ),
    Limit(
        "listeners.*.inspect.body",
        _D,
        "limits the whole of a form, also what is behind the field that decides: a longer one gets 413",
        "a larger one, or the HAProxy target",
        when="read_forms",
    ),
    Limit("listeners.*.max_body", _D, "applies to requests with a Content-Length; a chunked one passes"),
    Limit("listeners.*.explain", _D, "has no effect: Envoy does not report why it chose a server", HAPROXY),
    Limit(
        "listeners.*.trusted_proxies",
        _R,
        "differs from that of another listener on its address, and those without TLS share one",
        "the same for both, or another address",
        when="trust_apart",
    ),
    Limit(
        "listeners.*.trusted_proxies",
        _D,
        "reads no address with a port in X-Forwarded-For: such a client counts as 0.0.0.0, in no network",
        "a proxy in front that writes addresses alone; or the NGINX and HAProxy targets",
        when="unread_ports",
    ),
    Limit(
        "listeners.*.limits.*.concurrent",
        _R,
        "is not supported: Envoy does not count a client's requests in flight",
        f"rate, or max_in_flight of the pool; or {HAPROXY}",
    ),
    Limit(
        "listeners.*.cors",
        _D,
        "without headers allows those that OpenAI's and Anthropic's clients send: Envoy cannot repeat"
        " the request's list",
        "write cors.headers",
        when="asked_headers",
    ),
    Limit("listeners.*.timeouts.body", _D, "has no effect: the pool's idle limits gaps in a body"),
    Limit(
        "pools.*.request_buffering",
        _R,
        "cannot be true: Envoy forwards a request while it arrives",
        "the NGINX target",
        when="buffered",
    ),
    Limit(
        "listeners.*.auth.websocket_protocol",
        _R,
        "is not supported: keys are read from their own header only",
        "auth.header; or the NGINX and HAProxy targets",
    ),
    Limit("listeners.*.routes.*.priority", _R, "orders waiting requests, and Envoy has no queue", HAPROXY),
    Limit("listeners.*.routes.*.timeouts.connect", _D, "applies to the pool, not to a route"),
    Limit("listeners.*.routes.*.timeouts.send", _D, "applies to the listener, not to a route"),
    Limit(
        "clients.*.priority",
        _R,
        "orders waiting requests, and Envoy has no queue",
        HAPROXY,
        when="priorities",
    ),
    Limit(
        "clients.*.max_in_flight",
        _R,
        "is not supported: Envoy does not count a client's requests in flight",
        f"rate; or {HAPROXY}",
    ),
    Limit(
        "clients.*.pools",
        _D,
        "has to hold the pool of when_down as well, where a route has one: else the client gets 403",
        "both pools, or a route without when_down",
        when="taken_over",
    ),
    Limit(
        "clients.*.rate",
        _D,
        "is counted by each listener separately",
        "one listener with several binds",
        when="several_doors",
    ),
    Limit(
        "logs.fields",
        _D,
        "has model and max_tokens only where a route reads the body",
        "a route by model, or the NGINX and HAProxy targets",
        when="logged_bodies",
    ),
    Limit("logs.to", _D, "cannot be syslog: standard output instead", "a file, or stdout", when="syslog"),
)
"""Every row. A key below one of them is covered by it."""

RENDERED: frozenset[str] = frozenset(
    {
        "version", "name", "balancers", "balancers.count", "pools", "pools.*", "listeners", "listeners.*",
        "clients", "clients.*", "metrics", "logs", "targets",
        *(f"pools.*.{key}" for key in (
            "engine", "models", "strategy", "strategy.name", "strategy.header", "strategy.cookie",
            "strategy.query", "strategy.body", "strategy.ip", "strategy.client", "strategy.strict",
            "strategy.insert", "strategy.key", "strategy.headers", "strategy.bytes", "strategy.load_factor",
            "strategy.agent_host", "strategy.agent_port", "strategy.round_robin", "strategy.least_conn",
            "strategy.random_two", "strategy.session", "strategy.prefix",
            "servers", "servers.*", "servers.*.address", "servers.*.name", "servers.*.weight",
            "servers.*.backup", "servers.*.state", "queue.order", "health", "health.path", "health.interval",
            "health.timeout", "health.rise", "health.fall", "health.expect", "health.port", "health.headers",
            "passive_health", "passive_health.failures", "passive_health.eject", "warmup", "retry",
            "retry.attempts", "retry.on", "retry.replay_posts", "timeouts", "timeouts.connect",
            "timeouts.first_byte", "timeouts.idle", "timeouts.tunnel", "keepalive", "keepalive.idle_timeout",
            "keepalive.requests", "tls", "tls.ca", "tls.server_name", "tls.verify", "tls.certificate",
            "tls.key", "protocol", "host_header", "header_size", "headers", "headers.set", "headers.remove",
            "response_headers",
            "response_headers.set", "response_headers.remove", "admin", "admin.clients", "dns",
            "dns.mode", "dns.resolver", "dns.valid", "discover", "discover.dns", "discover.port",
            "discover.file", "allow_empty", "standby",
        )),
        *(f"listeners.*.{key}" for key in (
            "bind", "hosts", "tls", "tls.certificate", "tls.key", "tls.bundle", "tls.profile", "tls.hsts",
            "tls.client_ca", "redirect_from", "acme", "acme.pool", "http2", "header_size", "inspect",
            "inspect.body", "behind_proxy", "trusted_proxies", "accept_proxy", "auth", "auth.clients",
            "auth.external", "auth.external.url",
            "auth.external.forward", "auth.header", "auth.upstream",
            "auth.upstream.set", "auth.except", "limits", "limits.*",
            "limits.*.rate", "limits.*.burst", "limits.*.per", "websocket", "routes", "routes.*",
            "status", "status.live", "status.ready", "status.when", "timeouts", "timeouts.keepalive",
            "timeouts.header", "allow", "deny", "response_headers", "response_headers.set",
            "response_headers.remove", "cors", "cors.origins", "cors.methods", "cors.headers", "cors.expose",
            "cors.credentials", "cors.max_age",
        )),
        *(f"listeners.*.routes.*.{key}" for key in (
            "name", "host", "method", "path", "path_exact", "header", "query", "form", "model", "prompt_over",
            "prompt_under",
            "max_tokens_over", "websocket", "pool", "split", "respond", "respond.status", "respond.json",
            "respond.body", "respond.content_type", "by", "by.header", "when_down", "strip_prefix",
            "add_prefix", "timeouts", "timeouts.first_byte", "timeouts.idle", "timeouts.tunnel", "headers",
            "headers.set", "headers.remove", "response_headers", "response_headers.set",
            "response_headers.remove",
        )),
        *(f"clients.*.{key}" for key in ("key", "keys", "priority", "rate", "burst", "pools")),
        *(f"metrics.{key}" for key in ("bind", "allow", "auth", "auth.user", "auth.password")),
        *(f"logs.{key}" for key in ("to", "format", "level", "fields")),
    }
)  # fmt: skip
"""What is rendered as it is written, where no row above says otherwise."""
OPEN = frozenset(
    {
        "health.headers",
        "headers.set",
        "logs.fields",
        "query",
        "form",
        "header",
        "split",
        "respond.json",
        "routes.*.header",
    }
)
"""Ends of keys below which names are the user's own."""

SUPPORT: tuple[Row, ...] = tuple(Row(limit.key, limit.support, limit.reason) for limit in LIMITS)
"""The same as rows of the reference."""


def understood(key: str) -> bool:
    """Tell whether a key is in this table: rendered, degraded or refused with a reason of its own."""
    if key.startswith("targets") or key.rsplit(".", maxsplit=1)[-1].startswith("x-") or key in RENDERED:
        return True
    return any(key == limit.key or key.startswith(f"{limit.key}.") for limit in LIMITS)
