"""CORS, where the balancer owns it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.common.claims import EXPOSED
from lbgen.targets.envoy.language.words import Node, header, typed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Cors

OWNED = (
    "access-control-allow-origin", "access-control-allow-credentials", "access-control-allow-methods",
    "access-control-allow-headers", "access-control-max-age",
)  # fmt: skip
"""What servers say is taken away then, but for what they expose."""
_ASKED = (
    "authorization", "content-type", "accept", "x-api-key", "x-request-id", "x-session-id", "openai-beta",
    "openai-organization", "openai-project", "anthropic-beta", "anthropic-version",
    "anthropic-dangerous-direct-browser-access", "x-stainless-arch", "x-stainless-lang", "x-stainless-os",
    "x-stainless-package-version", "x-stainless-retry-count", "x-stainless-runtime",
    "x-stainless-runtime-version", "x-stainless-timeout", "x-stainless-helper-method",
)  # fmt: skip
"""What OpenAI's and Anthropic's clients send from browsers: Envoy repeats no list that it is asked for."""


def cors_headers(cors: Cors) -> Iterator[Node]:
    """Yield the headers of all answers, whoever asked."""
    for name, value in (
        ("access-control-expose-headers", ", ".join((*EXPOSED, *cors.expose))),
        ("vary", "Origin"),
    ):
        yield header(name, value) | {"append_action": "APPEND_IF_EXISTS_OR_ADD"}


def cors_policy(cors: Cors) -> Node:
    """Return what a listener's host says to browsers."""
    return typed(
        "envoy.extensions.filters.http.cors.v3.CorsPolicy",
        allow_origin_string_match=[{"exact": origin} for origin in cors.origins],
        allow_methods=", ".join(cors.methods),
        allow_headers=", ".join(cors.headers or _ASKED),
        max_age=str(cors.max_age // 1_000),
        allow_credentials={"value": cors.credentials},
        forward_not_matching_preflights={"value": False},
    )
