"""What an NGINX configuration says of the program itself, as ``targets.nginx`` and ``logs``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbgen.imports.draft import Said
from lbgen.imports.values import duration, nginx_time

if TYPE_CHECKING:
    from lbgen.imports.nginx.reading import Reading
    from lbgen.readers.nginx import Directive

_LEAST_CONNECTIONS = 64
_LEVELS = {"debug", "info", "notice", "warn", "error"}
_SCRIPTS = "ngx_http_js_module"


def read_program(reading: Reading) -> None:
    """Read the settings of the target, and where its logs go."""
    values: dict[str, Said] = {}
    lines = {line.name: line for line, level in reading.directives() if len(level.chain) < 3}
    user, workers = lines.get("user"), lines.get("worker_processes")
    if user is not None and user.args:
        values["user"] = Said(user.value, user.location)
        reading.ledger.carried(user.location)
        if len(user.args) > 1 and user.args[1] != user.value:
            reading.ledger.left(user.location, "the group has no key")
    if workers is not None and workers.value.isdecimal():
        values["workers"] = Said(int(workers.value), workers.location)
        reading.ledger.carried(workers.location)
    _connections(reading, lines.get("worker_connections"), values)
    drain = lines.get("worker_shutdown_timeout")
    time = nginx_time(drain.value) if drain is not None else None
    if drain is not None and time:
        values["drain_timeout"] = Said(duration(time), drain.location)
        reading.ledger.carried(drain.location)
    for line, _ in reading.directives("load_module"):
        if _SCRIPTS in line.value:
            values["modules"] = Said(["njs"], line.location)
            reading.ledger.carried(line.location)
    reading.draft.targets["nginx"] = {**reading.draft.targets.get("nginx", {}), **values}
    _logs(reading)


def _connections(reading: Reading, line: Directive | None, values: dict[str, Said]) -> None:
    if line is None or not line.value.isdecimal():
        return
    if int(line.value) < _LEAST_CONNECTIONS:
        reading.ledger.better(line.location, "so few connections are none for a fleet: 8192 by default")
        return
    values["connections"] = Said(int(line.value), line.location)
    reading.ledger.carried(line.location)


def _logs(reading: Reading) -> None:
    """Take over the one place that access logs go to, and the level of the error log."""
    access = [line for line, level in reading.directives("access_log") if level.around("stream") is None]
    places = {line.value for line in access if line.value != "off"}
    tree: dict[str, Any] = {}
    if len(places) == 1:
        line = next(line for line in access if line.value != "off")
        to = _log_target(line.value)
        if to is not None:
            tree["to"] = Said(to, line.location)
            reading.carry(one for one in access if one.value == line.value)
            if len(line.args) == 1 or line.args[1] == "combined":
                tree["format"] = Said("combined", line.location)
            else:
                reading.ledger.differs(line.location, "lines are JSON with lbgen's own fields")
        else:
            reading.ledger.left(line.location, "there is no key for this log destination")
    elif places:
        reading.left(access, "all listeners use one log destination")
    for line in access:
        if reading.ledger.is_open(line.location):
            reading.ledger.left(line.location, "each request of a listener is logged")
    errors = [line for line, level in reading.directives("error_log") if level.around("stream") is None]
    for line in errors:
        level = line.args[1] if len(line.args) > 1 else "error"
        if level in _LEVELS and "level" not in tree:
            tree["level"] = Said({"warn": "warning"}.get(level, level), line.location)
        if line.value not in {"stderr", "/dev/stderr"}:
            reading.ledger.differs(
                line.location, "written to standard error, where the service manager logs it"
            )
        reading.ledger.carried(line.location)
    reading.draft.logs.update(tree)


def _log_target(text: str) -> str | None:
    if text in {"/dev/stdout", "/dev/stderr"}:
        return text.removeprefix("/dev/")
    if text.startswith("syslog:server=") and "unix:" not in text:
        address = text.removeprefix("syslog:server=").partition(",")[0]
        return f"syslog:{address}" if ":" in address else f"syslog:{address}:514"
    return text if text.startswith("/") and "$" not in text else None
