"""Every key that HAProxy does not simply render, for the reference."""

from __future__ import annotations

from lbgen.targets.spec import Row
from lbgen.vocabulary import Support, Version

SUPPORT: tuple[Row, ...] = (
    Row("pools.*.retry.within", Support.DEGRADED, "tries are bounded by number and connect timeout alone"),
    Row("pools.*.retry.replay_posts", Support.DEGRADED, "requests that fit the buffer alone"),
    Row("pools.*.retry.on", Support.DEGRADED, "429 is passed to the client", Version(3, 0)),
    Row(
        "pools.*.passive_health",
        Support.DEGRADED,
        "connection failures in a row, until the checks pass again",
    ),
    Row("pools.*.warmup", Support.DEGRADED, "without health nothing tells that a server is back"),
    Row("pools.*.timeouts.send", Support.DEGRADED, "timeouts.idle bounds both directions"),
    Row(
        "pools.*.request_buffering",
        Support.DEGRADED,
        "true: what a buffer holds; the rest goes on as it comes",
    ),
    Row("listeners.*.timeouts.body", Support.DEGRADED, "bounds what is inspected; timeouts.idle all else"),
    Row("listeners.*.timeouts.header", Support.DEGRADED, "the longest of those that share an address"),
    Row("listeners.*.timeouts.keepalive", Support.DEGRADED, "the longest of those that share an address"),
    Row("listeners.*.max_body", Support.DEGRADED, "bodies that do not tell their length pass"),
    Row("listeners.*.auth.external", Support.REFUSED, "HAProxy asks no other service without Lua"),
    Row("listeners.*.tls.directory", Support.REFUSED, "beside a listener on its address with other TLS"),
    Row("listeners.*.acme.webroot", Support.REFUSED, "HAProxy serves no files: acme.pool"),
    Row("listeners.*.limits", Support.REFUSED, "more than three for one request", Version(2, 8)),
    Row("listeners.*.routes.*.timeouts.connect", Support.DEGRADED, "holds for the pool"),
    Row("logs.to", Support.DEGRADED, "HAProxy writes to no file: standard output in its place"),
)
