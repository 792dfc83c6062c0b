"""Lines that a fleet has no key for because lbgen decides them: the same, or better for LLM traffic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.imports.ledger import reasons

if TYPE_CHECKING:
    from lbgen.imports.haproxy.reading import Reading
    from lbgen.readers.haproxy import Line, Section

_OPTIONS_SAME = reasons(
    """
    streams need it: http-no-delay abortonclose redispatch forwardfor dontlognull httplog
        idle-close-on-response
        http-keep-alive http-buffer-request forwarded prefer-last-server splice-auto
    """
)
_OPTIONS_BETTER = reasons(
    """
    connections are kept, and 'keepalive: false' would close those to servers: http-server-close httpclose
    requests are logged: tcplog
    each request of a listener is logged: dontlog-normal
    lbgen or the program decides it: tcp-smart-accept tcp-smart-connect tcpka clitcpka srvtcpka contstats
        log-health-checks log-separate-errors socket-stats allbackups checkcache nolinger
    """
)
_BETTER = reasons(
    """
    lbgen or the program decides it: daemon pidfile master-worker spread-checks ulimit-n maxsslconn cpu-map
        ssl-server-verify ca-base crt-base log-tag log-format nbproc unique-id-format unique-id-header
        error-log-format zero-warning maxconnrate server-state-file load-server-state-from-file presetenv
        default-path mode
    the TLS profile decides it: ssl-default-bind-ciphers ssl-default-bind-ciphersuites
        ssl-default-bind-options
        ssl-default-server-ciphers ssl-default-server-ciphersuites ssl-default-server-options
        ssl-dh-param-file
    lbgen sizes buffers from 'header_size' and 'inspect': tune.bufsize
    errors are answered in OpenAI's form: errorfile errorfiles http-error errorloc
    'keepalive' decides which connections are kept: http-reuse
    all listeners use one log destination: log
    compression would hold tokens back: compression
    'max_in_flight' bounds each server: fullconn
    'max_connections' of the target bounds all listeners: maxconn
    no server takes it: default-server
    no rule that was carried over needs it: acl
    no pool was made of it: server
    """
)
_TIMEOUTS = reasons(
    """
    it follows the pools' 'timeouts.idle': client
    a request's headers have a minute: http-request
    idle clients have 75 s: http-keep-alive
    without a cap ('max_in_flight') nothing waits: queue
    no pool takes it: tunnel connect server
    no server is checked: check
    lbgen or the program decides it: client-fin server-fin tarpit
    """
)


def settle(reading: Reading, section: Section, line: Line) -> None:
    """Note the fate of a line that no key came from."""
    if not reading.ledger.is_open(line.location):
        return
    words = line.words
    first = words[0]
    if first in {"option", "no"} and _option(reading, line):
        return
    if section.kind in {
        "peers",
        "resolvers",
        "userlist",
        "mailers",
        "cache",
        "ring",
        "program",
        "http-errors",
    }:
        reading.ledger.left(line.location, f"lbgen has no key for '{section.kind}' sections")
    elif first == "timeout" and len(words) > 1 and words[1] in _TIMEOUTS:
        reading.ledger.better(line.location, _TIMEOUTS[words[1]])
    elif first in _BETTER:
        reading.ledger.better(line.location, _BETTER[first])
    elif first.startswith("tune."):
        reading.ledger.better(line.location, "lbgen or the program decides it")
    else:
        reading.ledger.left(line.location, "lbgen has no key for it")


def _option(reading: Reading, line: Line) -> bool:
    words = [word for word in line.words if word not in {"no", "default"}]
    name = words[1] if len(words) > 1 else ""
    if name in _OPTIONS_SAME and line.words[0] == "option":
        reading.ledger.carried(line.location)
    elif name in _OPTIONS_SAME:
        reading.ledger.better(line.location, f"lbgen turns it on: {_OPTIONS_SAME[name]}")
    elif name in _OPTIONS_BETTER:
        reading.ledger.better(line.location, _OPTIONS_BETTER[name])
    else:
        return False
    return True
