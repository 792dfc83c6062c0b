"""What Envoy itself answers when no server does: OpenAI's error form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.common.answers import ANSWERS, METHODS
from lbgen.targets.envoy.language.words import Node, header, typed
from lbgen.targets.envoy.language.yaml_lines import escape_format

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.targets.common.answers import Answer

_STATUSES = (
    "bad_request", "forbidden", "not_found", "method_not_allowed", "request_timeout", "too_large",
    "headers_too_large", "rate_limited", "internal", "bad_gateway", "unavailable", "gateway_timeout",
)  # fmt: skip
_FAILED = ("UC", "UR", "LR", "UPE")
"""Envoy's flags of a server that took a request and failed, for which it answers 503 as if none was there."""
_BY_ADDRESS = "response.code_details.startsWith('rbac_access_denied')"


def local_replies() -> Node:
    """Return the table of answers, for those that are not ours already."""
    return {"mappers": list(_mappers())}


def _mappers() -> Iterator[Node]:
    connect = _mapper(_expression("request.method == 'CONNECT'"), ANSWERS["method_not_allowed"])
    yield connect | {
        "status_code": {"value": 405},
        "headers_to_add": [header("allow", ", ".join(METHODS))],
    }
    own = "response.code_details == 'direct_response' || response.code_details == 'lua_response'"
    yield {"#": "Responses of routes and scripts stay unchanged.", "filter": _expression(own)}
    for policy, name in (("admin", "admin_refused"), ("pools", "forbidden")):
        denied = f"response.code_details == 'rbac_access_denied_matched_policy[{policy}]'"
        yield _mapper(_expression(denied), ANSWERS[name])
    yield _mapper(_expression(_BY_ADDRESS), ANSWERS["address_refused"])
    failed = {"and_filter": {"filters": [_status(503), {"response_flag_filter": {"flags": list(_FAILED)}}]}}
    yield _mapper(failed, ANSWERS["bad_gateway"]) | {"status_code": {"value": 502}}
    for name in _STATUSES:
        yield _mapper(_status(ANSWERS[name].status), ANSWERS[name])


def _expression(text: str) -> Node:
    kind = "envoy.extensions.access_loggers.filters.cel.v3.ExpressionFilter"
    return {"extension_filter": {"name": "cel", "typed_config": typed(kind, expression=text)}}


def _status(status: int) -> Node:
    value = {"default_value": status, "runtime_key": "lbgen.never"}
    return {"status_code_filter": {"comparison": {"op": "EQ", "value": value}}}


def _mapper(which: Node, said: Answer) -> Node:
    # As text and not as an object: the members keep their order, and null stays null.
    text = {"inline_string": escape_format(said.body)}
    node: Node = {
        "filter": which,
        "body_format_override": {"text_format_source": text, "content_type": "application/json"},
    }
    if said.retry_after is not None:
        node["headers_to_add"] = [header("retry-after", str(said.retry_after))]
    return node
