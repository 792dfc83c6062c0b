"""Lines that a fleet has no key for because lbgen decides them: the same, or better for LLM traffic."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.imports.haproxy.reading import Reading
    from lbgen.readers.haproxy import Line, Section

_PROGRAM = "lbgen or the program decides it"
_OPTIONS_SAME = frozenset(
    "http-no-delay abortonclose redispatch forwardfor dontlognull httplog idle-close-on-response http-keep-alive"
    " http-buffer-request forwarded prefer-last-server splice-auto".split()
)
_OPTIONS_BETTER: Mapping[str, str] = {
    "http-server-close": "connections to servers are kept: 'keepalive: false' would close them",
    "httpclose": "connections are kept: 'keepalive: false' would close those to servers",
    "tcplog": "requests are logged",
    "tcp-smart-accept": _PROGRAM,
    "tcp-smart-connect": _PROGRAM,
    "tcpka": _PROGRAM,
    "clitcpka": _PROGRAM,
    "srvtcpka": _PROGRAM,
    "contstats": _PROGRAM,
    "log-health-checks": _PROGRAM,
    "dontlog-normal": "each request of a listener is logged",
    "log-separate-errors": _PROGRAM,
    "socket-stats": _PROGRAM,
    "allbackups": _PROGRAM,
    "checkcache": _PROGRAM,
    "nolinger": _PROGRAM,
    "h1-case-adjust-bogus-server": _PROGRAM,
}
_BETTER: Mapping[str, str] = {
    **dict.fromkeys(
        ("daemon", "pidfile", "master-worker", "tune.maxrewrite", "tune.ssl.default-dh-param", "spread-checks",
         "ulimit-n", "maxsslconn", "cpu-map", "ssl-server-verify", "ca-base", "crt-base", "log-tag", "log-format",
         "nbproc", "unique-id-format", "unique-id-header", "error-log-format", "zero-warning", "maxconnrate",
         "server-state-file", "load-server-state-from-file", "presetenv", "default-path"),
        _PROGRAM,
    ),
    **dict.fromkeys(
        ("ssl-default-bind-ciphers", "ssl-default-bind-ciphersuites", "ssl-default-bind-options",
         "ssl-default-server-ciphers", "ssl-default-server-ciphersuites", "ssl-default-server-options",
         "ssl-dh-param-file"),
        "the TLS profile decides it",
    ),
    "tune.bufsize": "lbgen sizes buffers from 'header_size' and 'inspect'",
    "errorfile": "errors are answered in OpenAI's form",
    "errorfiles": "errors are answered in OpenAI's form",
    "http-error": "errors are answered in OpenAI's form",
    "errorloc": "errors are answered in OpenAI's form",
    "http-reuse": "'keepalive' decides which connections are kept",
    "log": "all listeners log to one place",
    "compression": "compression would hold tokens back",
    "fullconn": "'max_in_flight' bounds each server",
    "maxconn": "'max_connections' of the target bounds all listeners",
    "default-server": "no server takes it",
    "mode": _PROGRAM,
    "acl": "no rule that was carried over needs it",
    "server": "no pool was made of it",
    "timeout": _PROGRAM,
}  # fmt: skip
_TIMEOUTS: Mapping[str, str] = {
    "client": "it follows the pools' 'timeouts.idle'",
    "client-fin": _PROGRAM,
    "server-fin": _PROGRAM,
    "http-request": "a request's headers have a minute",
    "http-keep-alive": "idle clients have 75 s",
    "tarpit": _PROGRAM,
    "queue": "without a cap ('max_in_flight') nothing waits",
    "tunnel": "no pool takes it",
    "connect": "no pool takes it",
    "server": "no pool takes it",
    "check": "no server is checked",
}


def settle(reading: Reading, section: Section, line: Line) -> None:
    """Note the fate of a line that no key came from."""
    if not reading.ledger.is_open(line.location):
        return
    words = line.words
    first = words[0]
    if first in {"option", "no"} and _option(reading, line):
        return
    if section.kind in {"peers", "resolvers", "userlist", "mailers", "cache", "ring", "program", "http-errors"}:
        reading.ledger.left(line.location, f"sections '{section.kind}' have no key")
    elif first == "timeout" and len(words) > 1 and words[1] in _TIMEOUTS:
        reading.ledger.better(line.location, _TIMEOUTS[words[1]])
    elif first in _BETTER:
        reading.ledger.better(line.location, _BETTER[first])
    elif first.startswith("tune."):
        reading.ledger.better(line.location, _PROGRAM)
    else:
        reading.ledger.left(line.location, "lbgen has no key for it")


def _option(reading: Reading, line: Line) -> bool:
    words = [word for word in line.words if word not in {"no", "default"}]
    name = words[1] if len(words) > 1 else ""
    if name in _OPTIONS_SAME and line.words[0] == "option":
        reading.ledger.carried(line.location)
    elif name in _OPTIONS_SAME:
        reading.ledger.better(line.location, "lbgen turns it on: streams need it")
    elif name in _OPTIONS_BETTER:
        reading.ledger.better(line.location, _OPTIONS_BETTER[name])
    else:
        return False
    return True
