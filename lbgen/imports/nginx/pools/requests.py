"""How a location calls its pool: timeouts, retries, TLS, as values of the pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbgen.fleet.schema.common import HEADER_SIZES
from lbgen.imports.draft import Said
from lbgen.imports.values import duration, nginx_time, size
from lbgen.units import parse_size

if TYPE_CHECKING:
    from lbgen.imports.nginx.reading import Reading
    from lbgen.imports.nginx.routes.headers import Headers
    from lbgen.readers.nginx import Directive, Level

_RETRY_WORDS = {"http_429": "429", "http_502": "502", "http_503": "503", "http_504": "504"}
_TIMEOUTS = {
    "connect_timeout": ("connect",),
    "send_timeout": ("send",),
    "read_timeout": ("first_byte", "idle"),
}


def timeouts(reading: Reading, level: Level, protocol: str) -> dict[str, Said]:
    """Return the timeouts that hold at a location, by key of the fleet."""
    found: dict[str, Said] = {}
    for name, keys in _TIMEOUTS.items():
        line = level.first(f"{protocol}_{name}")
        time = nginx_time(line.value) if line else None
        if line is None:
            continue
        if not time:
            reading.ledger.left(line.location, f"'{line.value}' is not a valid time")
            continue
        try:
            found |= {key: Said(duration(time), line.location) for key in keys}
        except ValueError as error:
            reading.ledger.left(line.location, str(error))
            continue
        reading.ledger.carried(line.location)
    return found


def pool_values(reading: Reading, level: Level, head: Headers, scheme: str) -> dict[str, Said]:
    """Return what a location says of its pool beyond timeouts, by key of the fleet."""
    protocol = "grpc" if scheme.startswith("grpc") else "proxy"
    found = {
        "host_header": head.host,
        "retry": _retry(reading, level, protocol),
        "tls": _tls(reading, level, protocol) if scheme in {"https", "grpcs"} else None,
        "protocol": Said("grpc", _place(level, "grpc_pass")) if protocol == "grpc" else None,
        "header_size": _header_size(reading, level, protocol),
        "request_buffering": _request_buffering(reading, level),
        "keepalive": Said(value=False, place=head.closes.location) if head.closes else None,
    }
    return {key: value for key, value in found.items() if value is not None}


def _place(level: Level, name: str) -> Any:  # noqa: ANN401 - a place or None
    line = level.first(name)
    return line.location if line else None


def _retry(reading: Reading, level: Level, protocol: str) -> Said | None:
    on = level.first(f"{protocol}_next_upstream")
    tries = level.first(f"{protocol}_next_upstream_tries")
    within = level.first(f"{protocol}_next_upstream_timeout")
    lines = [line for line in (on, tries, within) if line is not None]
    if not lines:
        return None
    reading.carry(lines)
    if on is not None and "off" in on.args:
        return Said(value=False, place=on.location)
    values: dict[str, Any] = {}
    if tries is not None and tries.value.isdecimal() and int(tries.value):
        values["attempts"] = int(tries.value) - 1
    if on is not None:
        values |= _conditions(reading, on)
    time = nginx_time(within.value) if within is not None else None
    if within is not None and time:
        values["within"] = duration(time)
    return Said(values, lines[0].location) if values else None


def _conditions(reading: Reading, line: Directive) -> dict[str, Any]:
    """Return ``on`` and ``replay_posts``: a failed connection is in every list of NGINX."""
    replays = "non_idempotent" in line.args
    on: list[str] = ["connect"]
    on += ["reset"] if "error" in line.args and replays else []
    on += ["timeout"] if "timeout" in line.args and replays else []
    on += [_RETRY_WORDS[word] for word in line.args if word in _RETRY_WORDS]
    known = {"error", "timeout", "non_idempotent", *_RETRY_WORDS}
    others = [word for word in line.args if word not in known]
    if others:
        reading.ledger.left(line.location, f"retry.on has no {', '.join(others)}")
    return {"on": on, **({"replay_posts": True} if replays and len(on) > 1 else {})}


def _tls(reading: Reading, level: Level, protocol: str) -> Said:
    keys = {"trusted_certificate": "ca", "name": "server_name", "certificate": "certificate",
            "certificate_key": "key"}  # fmt: skip
    values: dict[str, Any] = {}
    for name, key in keys.items():
        line = level.first(f"{protocol}_ssl_{name}")
        if line is None:
            continue
        reading.ledger.carried(line.location)
        if "$" in line.value:
            reading.ledger.left(line.location, "variables have no key here")
        else:
            values[key] = line.value
    verify = level.first(f"{protocol}_ssl_verify")
    if verify is None or verify.value != "on":
        values["verify"] = False
    for name in ("verify", "server_name", "session_reuse", "protocols", "ciphers", "verify_depth"):
        line = level.first(f"{protocol}_ssl_{name}")
        if line is not None:
            reading.ledger.carried(line.location)
    place = _place(level, f"{protocol}_ssl_verify") or _place(level, f"{protocol}_pass")
    return Said(values or True, place)


def _request_buffering(reading: Reading, level: Level) -> Said | None:
    line = level.first("proxy_request_buffering")
    if line is None:
        return None
    reading.ledger.carried(line.location)
    return Said(line.value != "off", line.location)


def _header_size(reading: Reading, level: Level, protocol: str) -> Said | None:
    line = level.first(f"{protocol}_buffer_size")
    text = size(line.value) if line else None
    if line is None:
        return None
    least, most = HEADER_SIZES
    if text is None or not least <= parse_size(text) <= most:
        reading.ledger.better(line.location, "headers of responses up to 32KiB pass by default")
        return None
    reading.ledger.carried(line.location)
    return Said(text, line.location)
