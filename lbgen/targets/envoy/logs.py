"""The access log: the same fields as on the other targets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.envoy.language.words import Node, typed
from lbgen.targets.envoy.language.yaml_lines import escape_format

if TYPE_CHECKING:
    from lbgen.model import Logs

_COMBINED = (
    "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT% - %DYNAMIC_METADATA(lbgen:client)%"
    " [%START_TIME(%d/%b/%Y:%H:%M:%S +0000)%]"
    ' "%REQ(:METHOD)% %PATH(NQ:ORIG_OR_PATH)% %PROTOCOL%" %RESPONSE_CODE% %BYTES_SENT% "-"'
    ' "%REQ(USER-AGENT)%"\n'
)
LEVELS = {"debug": "debug", "info": "info", "notice": "info", "warning": "warning", "error": "error"}
"""The fleet's levels as `envoy --log-level` has them."""


def access_log(logs: Logs, listener: str, silent: list[str]) -> Node:
    """Return a listener's access log; requests for the paths in `silent` stay out of it."""
    if logs.to.startswith("/"):
        kind = "envoy.extensions.access_loggers.file.v3.FileAccessLog"
        place = typed(kind, path=logs.to)
    else:
        place = typed("envoy.extensions.access_loggers.stream.v3.StdoutAccessLog")
    wanted: list[Node] = [{"not_health_check_filter": {}}]
    for path in silent:
        match = {"name": ":path", "string_match": {"exact": path}, "invert_match": True}
        wanted.append({"header_filter": {"header": match}})
    return {
        "name": "lb.access",
        "filter": {"and_filter": {"filters": wanted}} if silent else wanted[0],
        "typed_config": place | {"log_format": _format(logs, listener)},
    }


def _format(logs: Logs, listener: str) -> Node:
    if logs.format == "combined":
        return {"text_format_source": {"inline_string": _COMBINED}}
    return {"#": "No query: it may contain keys.", "json_format": _fields(logs, listener)}


def _fields(logs: Logs, listener: str) -> Node:
    return {
        "time": "%EMIT_TIME(%Y-%m-%dT%H:%M:%S+00:00)%",
        "request_id": "%REQ(X-REQUEST-ID)%",
        "client": "%DYNAMIC_METADATA(lbgen:client)%",
        "method": "%REQ(:METHOD)%",
        "path": "%PATH(NQ:ORIG_OR_PATH)%",
        "listener": escape_format(listener),
        "pool": "%UPSTREAM_CLUSTER%",
        "server": "%UPSTREAM_METADATA(lbgen:server)%",
        "status": "%RESPONSE_CODE%",
        "bytes_sent": "%BYTES_SENT%",
        "duration_s": "%TYPED_CEL(double(request.duration.getMilliseconds())/1000.0)%",
        "upstream_connect_s": _seconds("upstream.cx_pool_ready_duration"),
        "upstream_first_byte_ms": "%COMMON_DURATION(US_TX_END:US_RX_BEG:ms)%",
        "upstream_total_s": _seconds("response.backend_latency"),
        "attempts": "%UPSTREAM_REQUEST_ATTEMPT_COUNT%",
        "reason": "%RESPONSE_CODE_DETAILS%",
        **{name: _own(source) for name, source in logs.fields.items()},
    }


def _own(source: str) -> str:
    """Return the value of a field of the fleet's own."""
    if source.startswith("header:"):
        return f"%REQ({source.removeprefix('header:').upper()})%"
    return _SOURCES.get(source, escape_format(source))


_SOURCES = {
    "client_address": "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
    "model": "%DYNAMIC_METADATA(lbgen:model)%",
    "max_tokens": "%DYNAMIC_METADATA(lbgen:tokens)%",
    "prompt_bytes": "%TYPED_CEL(int(request.headers['content-length']))%",
}
"""What a field can hold."""


def _seconds(duration: str) -> str:
    return f"%TYPED_CEL(double({duration}.getMilliseconds())/1000.0)%"
