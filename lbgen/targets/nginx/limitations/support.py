"""Every key of the fleet file that not every version of NGINX simply renders."""

from __future__ import annotations

from lbgen.targets.nginx.features import FEATURES
from lbgen.targets.spec import Row
from lbgen.vocabulary import Support

_D, _R = Support.DEGRADED, Support.REFUSED

SUPPORT: tuple[Row, ...] = (
    Row("pools.*.health", _D, "open-source NGINX has no active checks; passive_health works"),
    Row("pools.*.warmup", _D, "open-source NGINX has no slow start"),
    Row("pools.*.max_in_flight", _D, "the cap applies, without a queue: if all are full, 503 immediately"),
    Row("pools.*.queue", _D, "NGINX has no queue: if every server is full, a request gets 503 immediately"),
    Row("pools.*.queue.order", _R, "NGINX has no queue to order"),
    Row(
        "pools.*.passive_health",
        _D,
        "ejects no server if retry.on has statuses, which NGINX would count as failures",
    ),
    Row("pools.*.passive_health.eject", _D, "the same number as window"),
    Row(
        "pools.*.retry.on",
        _D,
        "connect, reset and timeout are not distinguished; a sent POST is never replayed",
    ),
    Row("pools.*.timeouts.first_byte", _D, "one timer for both: the larger value"),
    Row("pools.*.timeouts.idle", _D, "one timer for both: the larger value"),
    Row("pools.*.dns.mode", _R, "runtime: names are followed while NGINX runs", FEATURES["resolve"].since),
    Row(
        "pools.*.dns.resolver",
        _R,
        "dns.mode runtime without it: NGINX does not use /etc/resolv.conf for that",
    ),
    Row("pools.*.discover.dns", _R, "with dns.mode runtime", FEATURES["resolve"].since),
    Row("pools.*.strategy.kv_cache", _R, "weights of a running NGINX cannot be changed"),
    Row("pools.*.strategy.pack", _R, "NGINX has no method that fills servers in order"),
    Row("pools.*.strategy.random_two", _R, "in a pool with backup servers"),
    Row("pools.*.strategy.session", _R, "in a pool with backup servers, where it is a hash"),
    Row("pools.*.strategy.strict", _R, "with max_in_flight: NGINX has no queue in which a session waits"),
    Row("pools.*.strategy.strict", _D, "holds until servers are added", FEATURES["sticky"].since),
    Row("pools.*.strategy.learn", _R, "from response headers", FEATURES["sticky"].since),
    Row("pools.*.strategy.learn", _R, "with max_in_flight, as strict"),
    Row("pools.*.strategy.insert", _R, "with max_in_flight, as strict"),
    Row("pools.*.strategy.insert", _D, "holds until servers are added", FEATURES["sticky"].since),
    Row("pools.*.strategy.prefix", _R, "in a pool with backup servers"),
    Row(
        "pools.*.strategy.load_factor",
        _D,
        "without modules: [njs] a prefix stays on its server until that is at max_in_flight",
    ),
    Row("pools.*.retry.replay_posts", _D, "also after a reset connection, whether retry.on has reset or not"),
    Row(
        "pools.*.request_buffering",
        _R,
        "false: where the strategy reads bodies; without effect where a route does",
    ),
    Row("pools.*.response_headers", _R, "Server, which NGINX writes itself"),
    Row("pools.*.host_header", _R, "backend: where the servers have several hosts"),
    Row(
        "pools.*.tls.server_name", _R, "missing, where the servers have several hosts, or addresses to verify"
    ),
    Row("pools.*.protocol", _R, "h2c", FEATURES["http2_upstream"].since),
    Row("pools.*.protocol", _R, "grpc behind a listener without TLS", FEATURES["http2_directive"].since),
    Row("listeners.*.http2", _D, "without TLS", FEATURES["http2_directive"].since),
    Row("listeners.*.response_headers", _R, "Server, which NGINX writes itself"),
    Row("listeners.*.routes.*.response_headers", _R, "Server, which NGINX writes itself"),
    Row("listeners.*.explain", _D, "without the header unless an njs script decides"),
    Row("listeners.*.tls.directory", _R, "NGINX wants each certificate named"),
    Row("listeners.*.tls.profile", _R, "two of them at one address", FEATURES["own_protocols"].since),
    Row(
        "listeners.*.status.ready",
        _D,
        "NGINX has no active checks: it notices a server when it sends a request",
    ),
    Row("listeners.*.limits.*.rate", _D, "per hour: rounded down to whole requests per minute"),
    Row("listeners.*.routes.*.form", _R, "more than three fields"),
    Row("listeners.*.routes.*.priority", _R, "NGINX has no queue to order"),
    Row("clients.*.priority", _R, "NGINX has no queue to order"),
    Row("clients.*.rate", _D, "per hour: rounded down to whole requests per minute"),
    Row("metrics", _D, "only connections (/metrics and /stub_status), no statistics for pools"),
)
