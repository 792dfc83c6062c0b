"""Kinds of values that are headers: names, values, and fields of a log that hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbgen.fields import Text, label, nearest, refuse
from lbgen.fields.scalars import compiled
from lbgen.fleet.kinds import TO_A_REFERENCE, secret_of
from lbgen.model import LOG_FIELDS, LOG_SOURCES, Secret
from lbgen.problems import Problem

if TYPE_CHECKING:
    from lbgen.fields.base import Node, Value
    from lbgen.problems import Path

CREDENTIAL_HEADERS = {
    "api-key",
    "authorization",
    "cookie",
    "proxy-authorization",
    "x-api-key",
    "x-auth-token",
}
"""Headers whose value lets somebody in, in small letters."""


class HeaderValue(Text):
    """A header's value: printable ASCII, or, unless it is only compared, a reference to a secret.

    A header of `CREDENTIAL_HEADERS` can only be set by reference: what is written here is printed.
    `empty`: the value may be empty, which takes the header away.
    """

    __slots__ = ("compared", "empty")

    def __init__(self, compared: bool = False, empty: bool = False) -> None:
        what = "a header's value, printable ASCII without spaces around it"
        super().__init__(what, parse=self._parsed)
        self.compared, self.empty = compared, empty

    def _parsed(self, text: str) -> str | Secret:
        if not text and not self.empty:
            raise ValueError("a header's value is empty, which cannot be distinguished from a missing header")
        return _compared_value(text) if self.compared else _header_value(text)

    def read(self, node: Node, path: Path, problems: list[Problem]) -> Value:
        if self.compared or not path or str(path[-1]).lower() not in CREDENTIAL_HEADERS:
            return super().read(node, path, problems)
        # An empty value takes the client's header away, and lets nobody in.
        if node.id == "scalar" and (not node.value or node.value.startswith(("env:", "file:"))):
            return super().read(node, path, problems)
        message = f"{label(path)} is a credential: it must be env:NAME or file:PATH, never the value itself"
        return refuse(problems, node, Problem("literal-secret", message, path, hint=TO_A_REFERENCE))

    def schema(self) -> dict[str, Any]:
        pattern = r"(?=[^ ]|$)(?!.* $)[ -~]*$" if self.empty else r"(?=[^ ])(?!.* $)[ -~]+$"
        start = "^(?!env:|file:)" if self.compared else "^"
        return {"type": "string", "pattern": start + pattern, "maxLength": self.limit}

    def written(self, value: Value) -> Value:
        return str(value)


def _compared_value(text: str) -> str:
    value = _header_value(text)
    if isinstance(value, str):
        return value
    raise ValueError("a header is compared with plain text; keys of clients belong under 'clients'")


def _header_value(text: str) -> str | Secret:
    if text.startswith(("env:", "file:")):
        secret = secret_of(text)
        if secret is None:
            raise ValueError("write a secret as env:NAME (letters, digits, '_') or file:PATH")
        return secret
    if not text.isascii() or text != text.strip():
        raise ValueError("a header's value is printable ASCII without spaces around it")
    return text


_FRAMING = {
    "connection",
    "content-length",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
}

_OWN_ANSWER = {
    "content-encoding": "describes the body, which the server generates",
    "content-type": "describes the body, which the server generates",
    "date": "is set by the balancer",
    "host": "is a header of requests, set with the pool's 'host_header'",
    "x-request-id": "is set by the balancer",
}


class HeaderName(Text):
    """A header's name, as far as NGINX can name it in a variable.

    With `settable` it is none that the balancer itself has to decide, nor with `answered` of a response.
    """

    __slots__ = ("answered", "settable")

    def __init__(self, settable: bool = False, answered: bool = False) -> None:
        super().__init__(
            "a header's name",
            pattern=r"[A-Za-z0-9_-]{1,64}",
            limit=64,
            parse=self._allowed if settable or answered else None,
        )
        self.settable = settable
        self.answered = answered

    def _allowed(self, text: str) -> str:
        name = text.lower()
        if name in _FRAMING:
            raise ValueError(f"'{text}' belongs to the connection, which the balancer manages")
        if self.settable and name == "host":
            raise ValueError("'Host' is set with the pool's 'host_header'")
        if self.answered and name in _OWN_ANSWER:
            raise ValueError(f"'{text}' {_OWN_ANSWER[name]}")
        if self.answered and name.startswith("access-control-"):
            raise ValueError(f"'{text}' is set by the listener's 'cors'")
        return text


class LogSource(Text):
    """What a field of the access log holds."""

    __slots__ = ()

    def __init__(self) -> None:
        what = f"one of {', '.join(LOG_SOURCES)}, header:NAME, or a text"
        super().__init__(what, pattern=r"[A-Za-z0-9 ._:/@,+=-]{1,200}", parse=self._source)

    def _source(self, text: str) -> str:
        kind, _, name = text.partition(":")
        if kind == "header" and name.lower() in CREDENTIAL_HEADERS:
            raise ValueError(f"'{name}' contains keys, which must not be logged")
        if kind == "header" and not compiled(r"[A-Za-z0-9_-]{1,100}").fullmatch(name):
            raise ValueError(f"'{name}' is not the name of a header")
        if text in LOG_FIELDS:
            raise ValueError(f"'{text}' is a field of every line already")
        meant = _mistyped(text)
        if meant:
            raise ValueError(f"'{text}' would be logged as this text: did you mean '{meant}'?")
        return text


def _mistyped(text: str) -> str:
    """Return the source of a log field that a text is probably meant to be, or an empty string.

    Only a word of letters is looked at that is hardly longer or shorter: ``model-a`` may be a name.
    """
    word, colon, name = text.partition(":")
    known = ("header",) if colon else LOG_SOURCES
    near = [source for source in known if abs(len(word) - len(source)) <= 1]
    likely = nearest(word, near, 0.79) if near and word not in known else ""
    return f"{likely}:{name.strip()}" if likely and colon else likely
