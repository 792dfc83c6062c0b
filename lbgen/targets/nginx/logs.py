"""Fields of one's own in the access log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.nginx.inspection.bodies import max_tokens
from lbgen.targets.nginx.inspection.models import model
from lbgen.targets.nginx.language.quoting import quote, regex_word
from lbgen.targets.nginx.pools.affinity import decides
from lbgen.targets.nginx.routes.conditions import header_variable
from lbgen.targets.nginx.views import Pair
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Logs
    from lbgen.targets.nginx.assembly import Assembly

_UTF_8 = (
    r"(?:[\x01-\x7f]|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|\xed[\x80-\x9f][\x80-\xbf]"
    r"|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}"
    r"|\xf4[\x80-\x8f][\x80-\xbf]{2})*+"
)
"""The beginning of a text that is UTF-8 (RFC 3629, section 4)."""


def access_log(logs: Logs) -> Syntax:
    """Return where the access log goes, and what of it."""
    place = quote(logs.to)
    if logs.to == "stdout":
        place = Syntax("/dev/stdout")
    elif logs.to.startswith("syslog:"):
        place = syslog(logs)
    return Syntax(f"access_log {place} lbgen if=$lb_in_log")


def syslog(logs: Logs) -> Syntax:
    """Return a log on another machine."""
    return quote(f"syslog:server={logs.to.removeprefix('syslog:')},tag=lbgen")


def logged_listener(made: Assembly) -> Syntax:
    """Return the listener's name for the log: a variable, where there are several."""
    listeners = made.fleet.listeners
    return Syntax(listeners[0].name if len(listeners) == 1 else "$lb_listener")


def logged_client(made: Assembly) -> Syntax:
    """Return the client's name for the log, as a variable if the fleet knows any client."""
    combined = made.fleet.logs.format == "combined"
    if not made.fleet.clients:
        return Syntax("-" if combined else "")
    if not combined:
        return Syntax("$lb_client")
    return made.map("$lb_client", "$lb_user", [('""', "-"), ("default", "$lb_client")])


def log_fields(made: Assembly) -> Iterator[Pair]:
    """Yield name and value as JSON. What asks for the body finds it: the request is over, and was read."""
    for name, source in made.fleet.logs.fields.items():
        yield Pair(Syntax(name), Syntax(_value(made, source)))


def _value(made: Assembly, source: str) -> str:
    if source == "model":
        # Without the mark of where it was found.
        named = [("default", '""'), (regex_word(f"~^[rjq]:(?<lb_logged>{_UTF_8})"), "$lb_logged")]
        return _text(made.map(model(made), "$lb_log_model", named))
    if source == "max_tokens":
        return made.map(max_tokens(made), "$lb_log_tokens", [('""', "null"), ("default", max_tokens(made))])
    if source == "prompt_bytes":
        return made.map("$content_length", "$lb_log_bytes", [('""', "null"), ("default", "$content_length")])
    if source == "decision":
        return _text("$lb_decision" if decides(made) else "")
    if source == "client_address":
        return _text("$remote_addr")
    kind, _, name = source.partition(":")
    return _text(_readable(made, header_variable(name)) if kind == "header" else source)


def _readable(made: Assembly, value: str) -> Syntax:
    """Return the variable with as much of a client's value as is UTF-8: all else would make it no JSON."""
    logged = f"lb_log_field_{made.number('log_field')}"
    return made.map(value, f"${logged}", [(regex_word(f"~^(?<{logged}_text>{_UTF_8})"), f"${logged}_text")])


def _text(value: str) -> str:
    return f'"{value}"'
