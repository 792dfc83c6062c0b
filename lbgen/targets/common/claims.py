"""What clients claim about the request that they sent, and applications believe: forwarding headers.

They are a trusted proxy's to write. From anybody else they are removed, or written anew by the balancer:
frameworks make links, choose tenants and skip checks by them.
"""

from __future__ import annotations

CLAIMS = (
    "Forwarded",
    "X-Forwarded-Port",
    "X-Forwarded-Prefix",
    "X-Forwarded-Scheme",
    "X-Forwarded-Server",
    "X-Forwarded-Ssl",
    "X-Original-URL",
    "X-Rewrite-URL",
)
"""Those that only a trusted proxy's requests may bring."""

EXPOSED = ("X-Request-Id", "Retry-After")
"""Headers of the balancer's own that pages of other origins may read."""
