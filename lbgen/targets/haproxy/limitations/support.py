"""Every key that HAProxy does not simply render, for the reference."""

from __future__ import annotations

from lbgen.targets.spec import Row
from lbgen.vocabulary import Support, Version

SUPPORT: tuple[Row, ...] = (
    Row(
        "pools.*.retry.within",
        Support.DEGRADED,
        "retries are limited only by their number and the connect timeout",
    ),
    Row("pools.*.retry.replay_posts", Support.DEGRADED, "only requests that fit the buffer"),
    Row("pools.*.retry.on", Support.DEGRADED, "429 is passed to the client", Version(3, 0)),
    Row(
        "pools.*.passive_health",
        Support.DEGRADED,
        "consecutive connection failures, until the checks pass again",
    ),
    Row(
        "pools.*.warmup",
        Support.DEGRADED,
        "without health checks HAProxy does not learn that a server is back",
    ),
    Row("pools.*.timeouts.send", Support.DEGRADED, "timeouts.idle bounds both directions"),
    Row(
        "pools.*.request_buffering",
        Support.DEGRADED,
        "true: what fits the buffer; the rest is passed on as it arrives",
    ),
    Row(
        "listeners.*.timeouts.body",
        Support.DEGRADED,
        "limits bodies that are inspected; timeouts.idle limits all others",
    ),
    Row("listeners.*.timeouts.header", Support.DEGRADED, "the longest of those on one address"),
    Row("listeners.*.timeouts.keepalive", Support.DEGRADED, "the longest of those on one address"),
    Row("listeners.*.max_body", Support.DEGRADED, "bodies without a Content-Length pass"),
    Row("listeners.*.auth.external", Support.REFUSED, "HAProxy cannot ask another service without Lua"),
    Row(
        "listeners.*.tls.directory",
        Support.REFUSED,
        "with a listener on the same address that has other TLS settings",
    ),
    Row("listeners.*.acme.webroot", Support.REFUSED, "HAProxy serves no files: acme.pool"),
    Row("listeners.*.limits", Support.REFUSED, "more than three for one request", Version(2, 8)),
    Row("listeners.*.routes.*.timeouts.connect", Support.DEGRADED, "holds for the pool"),
    Row("logs.to", Support.DEGRADED, "HAProxy does not write to files: standard output instead"),
)
