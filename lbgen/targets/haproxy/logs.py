"""Where logs go and what the access log says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.model import LOG_SOURCES
from lbgen.targets.haproxy.language.quoting import quote
from lbgen.targets.haproxy.language.words import header_sample

if TYPE_CHECKING:
    from lbgen.model import Logs
    from lbgen.targets.haproxy.language.rules import Rules

_LEVELS = {"debug": "debug", "info": "info", "notice": "notice", "warning": "warning", "warn": "warning",
           "error": "err", "crit": "crit"}  # fmt: skip
_LENGTH = 65_000
"""Bytes of a line: what does not fit is left out, and then the line is no JSON. The default is 1024."""


def log_target(logs: Logs, level: str = "info") -> str:
    """Return a `log` line; the access log is written at level info, whatever the level of other messages."""
    return f"log {_place(logs)} local0 {_LEVELS.get(level, 'info')}"


def _place(logs: Logs) -> str:
    if logs.to.startswith("syslog:"):
        return f"{quote(logs.to.removeprefix('syslog:'))} len {_LENGTH} format rfc5424"
    # HAProxy writes to no files (`limits` says so).
    return f"stdout len {_LENGTH} format raw"


def access_log(logs: Logs, listener: str = "") -> str:
    """Return the `log-format` line. Neither query nor headers: both may hold keys.

    `listener`: whose requests all are; empty: a variable says it.
    """
    if logs.format == "combined":
        agent, path = _inside_quotes("var(txn.lb_agent)"), _inside_quotes("var(txn.lb_path)")
        line = f'"%[var(txn.lb_method)] {path} %HV" %ST %B "-"'
        return f"log-format '%ci - %[var(txn.lb_client)] [%trl] {line} \"{agent}\"'"
    fields = _FIELDS | {name: _own(name, source) for name, source in logs.fields.items()}
    if listener:
        fields["listener"] = f'"{listener}"'
    inside = ",".join(f'"{name}":{value}' for name, value in fields.items())
    return f"log-format '{{{inside}}}'"


def _own(name: str, source: str) -> str:
    """Return the value of a field of the fleet's own."""
    if source == "client_address":
        return _text("src")
    if source in {"max_tokens", "prompt_bytes"}:
        return f"%[var(txn.lb_log_{source})]"
    if source == "model":
        return _clients("var(txn.lb_model)")
    if source == "decision":
        return _text("var(txn.lb_decision)")
    return _clients(f"var({_header_variable(name)})") if source.startswith("header:") else f'"{source}"'


def _header_variable(name: str) -> str:
    return "txn.lb_field_" + "".join(c if c.isalnum() else f"_{ord(c):02x}" for c in name)


def error_log(logs: Logs, listener: str) -> str:
    """Return the line for what is no request yet, such as a broken one: no rule has run, nothing is known."""
    if logs.format == "combined":
        return 'error-log-format \'%ci - - [%trl] "-" %ST %B "-" "-"\''
    known = ("time", "status", "bytes_sent", "duration_s")
    fields = {name: _FIELDS[name] if name in known else "null" for name in _FIELDS}
    texts = dict.fromkeys(("request_id", "client", "method", "path", "pool", "server", "decision"), '""')
    fields |= {**texts, "listener": f'"{listener}"', "retries": "0"}
    fields |= {name: _unknown(source) for name, source in logs.fields.items()}
    inside = ",".join(f'"{name}":{value}' for name, value in fields.items())
    return f"error-log-format '{{{inside}}}'"


def _unknown(source: str) -> str:
    """Return the value of a field of the fleet's own where no request was understood."""
    if source == "client_address":
        return _text("src")
    known = source in LOG_SOURCES or source.startswith("header:")
    return "null" if source in {"max_tokens", "prompt_bytes"} else '""' if known else f'"{source}"'


def measuring_rules(rules: Rules) -> None:
    """Add what makes numbers of JSON from HAProxy's times and tries.

    HAProxy writes -1 for a time that there is not, and `+1` for a try at another server.
    """
    rules.add(f"http-request set-var(txn.lb_sent) int({_NEVER})")
    for name, alias in (("connect", "%Tc"), ("first", "%Tr"), ("tries", "%rc")):
        rules.add(f"http-after-response set-var-fmt(txn.lb_{name}) {alias}")
    rules.add(
        "http-after-response set-var(txn.lb_sent) date(0,ms),sub(txn.lb_first),sub(txn.lb_connect)",
        "{ var(txn.lb_first) -m int ge 0 }",
    )
    for name, source in rules.made.fleet.logs.fields.items():
        if source.startswith("header:"):
            sample = header_sample(source.removeprefix("header:"))
            rules.add(f"http-request set-var({_header_variable(name)}) {sample}")
    for source, given, there, when in _NUMBERS:
        if rules.made.fleet.logs.asks(source):
            variable = f"txn.lb_log_{source}"
            rules.add(f"http-request set-var({variable}) str(null)")
            rules.add(f"{when} set-var-fmt({variable}) %[{given}]", f"{{ {given} {there} }}")
    if rules.made.fleet.logs.format == "combined":
        rules.add("http-request set-var(txn.lb_agent) req.fhdr(user-agent)")


_NUMBERS = (
    ("prompt_bytes", "req.fhdr(content-length)", "-m reg '^[0-9]{1,15}$'", "http-request"),
    ("max_tokens", "var(txn.lb_tokens)", "-m found", "http-after-response"),
)
"""Fields that are numbers, or null: where they are known from, and when."""
_NEVER = 9_000_000_000_000
"""A time in milliseconds that lies in the future, so that what is counted from it is negative."""


def _inside_quotes(sample: str) -> str:
    """Return a text in which quotes are escaped as NGINX does it; HAProxy writes `-` for nothing."""
    # The bound keeps `regsub` quick, which moves the rest of a text at each match.
    escaped = r"bytes(0,2048),regsub(\\\\,\\\\x5C,g),regsub(\",\\\\x22,g)"
    return f"%[{sample},{escaped}]"


def _text(sample: str) -> str:
    # `+Q` sets the quotes, and keeps HAProxy from writing `-` for nothing.
    return f"%{{+Q}}[{sample},json(utf8s)]"


def _clients(sample: str) -> str:
    """Return a text that a client wrote, of which so much is logged that the line has room for all."""
    return _text(f"{sample},bytes(0,2048)")


def _seconds(sample: str) -> str:
    # Milliseconds as seconds: 1234e-3 is a number of JSON.
    return f"%[{sample},concat(e-3),regsub(^-.*,null)]"


_FIELDS = {
    "time": '"%[date,utime(%Y-%m-%dT%H:%M:%S+00:00)]"',
    "request_id": _text("var(txn.lb_request_id)"),
    "client": _text("var(txn.lb_client)"),
    "method": _clients("var(txn.lb_method)"),
    "path": _clients("var(txn.lb_path)"),
    "listener": _text("var(txn.lb_listener)"),
    "pool": _text("var(txn.lb_pool)"),
    "server": _text("srv_name"),
    "decision": _text("var(txn.lb_decision)"),
    "status": "%ST",
    "bytes_sent": "%B",
    "duration_s": "%Ta%[str(e-3)]",
    "upstream_connect_s": _seconds("var(txn.lb_connect,-1)"),
    "upstream_first_byte_s": _seconds("var(txn.lb_first,-1)"),
    "upstream_total_s": _seconds("date(0,ms),sub(txn.lb_sent)"),
    "retries": "%[var(txn.lb_tries,0),regsub(\\+,)]",
}
