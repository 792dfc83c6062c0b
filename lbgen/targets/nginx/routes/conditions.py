"""Conditions of routes as variables that are 1 or 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.nginx.inspection import bodies, forms, models
from lbgen.targets.nginx.language.quoting import escape_regex, header_name, regex_word
from lbgen.targets.nginx.views import Check
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lbgen.model import Listener, Match
    from lbgen.targets.nginx.assembly import Assembly


def header_variable(name: str) -> Syntax:
    """Return the variable that holds a request header."""
    return Syntax("$http_" + header_name(name).lower().replace("-", "_"))


def variables(made: Assembly, match: Match) -> tuple[Syntax, ...]:
    """Return the variables that all have to be 1 for a request to fit, the path left aside."""
    return tuple(dict.fromkeys(_each(made, match)))


def _each(made: Assembly, match: Match) -> Iterator[Syntax]:
    if match.hosts:
        yield _flag(made, "$host", "|".join(map(_host_regex, match.hosts)), letters="*")
    if match.methods:
        yield _flag(made, "$request_method", "|".join(map(escape_regex, match.methods)))
    yield from _named(made, match)
    if match.models:
        yield _any_of(made, models.model(made), match.models, "rjq")
    if match.prompt_over is not None:
        yield _flag(made, "$content_length", bodies.over_regex(match.prompt_over))
    if match.prompt_under is not None:
        longer = _flag(made, "$content_length", bodies.over_regex(max(match.prompt_under - 1, 0)))
        yield _negated(made, longer)
    if match.max_tokens_over is not None:
        over = f"(?:{bodies.over_regex(match.max_tokens_over)})(?:[.][0-9]+)?"
        yield _flag(made, bodies.max_tokens(made), over)
    if match.websocket is not None:
        yield upgrade(made) if match.websocket else _negated(made, upgrade(made))


def _named(made: Assembly, match: Match) -> Iterator[Syntax]:
    """Yield the flags of headers, parameters and fields."""
    for name, value in match.headers.items():
        # NGINX leaves tabs around a value, which servers take off.
        yield _flag(made, header_variable(name), rf"[ \t]*{escape_regex(value)}[ \t]*")
    for name, value in match.query.items():
        yield _any_of(made, forms.parameter(made, name), (value,), "q")
    for name, value in match.form.items():
        yield _any_of(made, forms.field(made, name), (value,), "rq")


def query_checks(made: Assembly, listener: Listener) -> Iterator[Check]:
    """Yield the checks of parameters that decide: each may be there once, without needless escapes."""
    for name in dict.fromkeys(name for route in listener.routes for name in route.match.query):
        entries = [("default", "0"), (regex_word(f"~^(?:[?]|q:.*{forms.NEEDLESS})"), "1")]
        yield Check(made.flag(forms.parameter(made, name), entries), 400)


def upgrade(made: Assembly) -> Syntax:
    """Return the variable that tells a WebSocket handshake: exactly that token, in any case; never h2c."""
    return made.map("$http_upgrade", "$lb_upgrade", [("default", "0"), (regex_word("~*^websocket$"), "1")])


def _host_regex(host: str) -> str:
    wildcard = host.startswith("*.")
    return (r"(?:[^.]+\.)+" if wildcard else "") + escape_regex(host[2:] if wildcard else host)


def _flag(made: Assembly, source: str, alternatives: str, letters: str = "") -> Syntax:
    # A regular expression even for a fixed text: string entries of a map ignore case (seen on 1.22.1).
    pattern = regex_word(f"~{letters}^(?:{alternatives})$")
    return made.flag(source, [("default", "0"), (pattern, "1")])


def _any_of(made: Assembly, source: Syntax, globs: Iterable[str], marks: str) -> Syntax:
    """Return the flag of a marked value that fits one of these; each is an entry, for the length of words."""
    entries = [(regex_word(f"~{forms.value_regex(glob, marks)}"), "1") for glob in globs]
    return made.flag(source, [("default", "0"), *entries])


def _negated(made: Assembly, variable: Syntax) -> Syntax:
    return made.flag(variable, [("0", "1"), ("1", "0")])
