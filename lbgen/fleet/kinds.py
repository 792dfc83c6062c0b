"""Kinds of values that only a fleet has: names, secrets, headers, paths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lbgen.fields import Kind, Text, label, nearest, refuse, shown
from lbgen.fields.scalars import compiled
from lbgen.model import LOG_FIELDS, LOG_SOURCES, Secret
from lbgen.problems import Problem

if TYPE_CHECKING:
    from lbgen.fields.base import Node, Value
    from lbgen.problems import Path

NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
_STR = "tag:yaml.org,2002:str"
_TO_A_REFERENCE = (
    "put it into an environment variable or a file, write env:NAME or file:PATH here, "
    "and replace the secret: it has been in this file"
)
_NOT_A_VARIABLE = "after 'env:' stands the name of an environment variable: letters, digits and '_'"


class Name(Text):
    """A name of the user's own. `reserved`: must not look like a key that is ignored."""

    __slots__ = ("reserved",)

    def __init__(self, what: str, reserved: bool = True) -> None:
        super().__init__(
            f"{what}: a letter or digit, then up to 62 of A-Z a-z 0-9 . _ -",
            pattern=NAME_PATTERN,
            parse=self._free if reserved else None,
        )
        self.reserved = reserved

    def _free(self, text: str) -> str:
        if text.startswith("x-"):
            raise ValueError(f"'{text}' begins with 'x-', as ignored keys do: choose another name")
        return text

    def schema(self) -> dict[str, Any]:
        start = "(?!x-)" if self.reserved else ""
        return {"type": "string", "pattern": f"^{start}{NAME_PATTERN}$"}


class ServerName(Text):
    """A server's name; ``{n}`` in it is the number of the range that it is one of."""

    __slots__ = ()

    def __init__(self) -> None:
        pattern = r"(?=.{1,63}$)([A-Za-z0-9]|\{n\})([A-Za-z0-9._-]|\{n\})*"
        super().__init__("a name of letters, digits, '.', '_', '-', and {n} where a range counts", pattern)


class SecretKind(Kind):
    """A reference to a secret; the secret itself is refused and never repeated."""

    __slots__ = ()

    def read(self, node: Node, path: Path, problems: list[Problem]) -> Value:
        secret = _secret(node.value) if node.tag == _STR else None
        if secret is not None:
            return secret
        if node.tag == _STR and node.value.startswith("env:"):
            return refuse(problems, node, Problem("bad-value", f"{label(path)}: {_NOT_A_VARIABLE}", path))
        message = f"{label(path)} has to be env:NAME or file:PATH, never the secret itself"
        return refuse(problems, node, Problem("literal-secret", message, path, hint=_TO_A_REFERENCE))

    def schema(self) -> dict[str, Any]:
        return {
            "type": "string",
            "pattern": r"^(env:[A-Za-z_]\w{0,127}|file:.{1,1024})$",
        }

    def describe(self) -> str:
        return "env:NAME or file:PATH"

    def written(self, value: Value) -> Value:
        return str(value)


def _secret(text: str) -> Secret | None:
    kind, colon, reference = text.partition(":")
    if not colon or not reference.isprintable() or not reference or len(reference) > 1024:
        return None
    if kind == "file":
        return Secret(kind, reference)
    if kind == "env" and reference.isascii() and reference.isidentifier() and len(reference) <= 128:
        return Secret(kind, reference)
    return None


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
            raise ValueError(
                "a header's value is empty, which no program tells from a header that is not there"
            )
        return _compared_value(text) if self.compared else _header_value(text)

    def read(self, node: Node, path: Path, problems: list[Problem]) -> Value:
        if self.compared or not path or str(path[-1]).lower() not in CREDENTIAL_HEADERS:
            return super().read(node, path, problems)
        # An empty value takes the client's header away, and lets nobody in.
        if node.id == "scalar" and (not node.value or node.value.startswith(("env:", "file:"))):
            return super().read(node, path, problems)
        message = (
            f"{label(path)} lets somebody in: it has to be env:NAME or file:PATH, never the value itself"
        )
        return refuse(problems, node, Problem("literal-secret", message, path, hint=_TO_A_REFERENCE))

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
    raise ValueError("a header is compared with a plain text; keys of clients belong to 'clients'")


def _header_value(text: str) -> str | Secret:
    if text.startswith(("env:", "file:")):
        secret = _secret(text)
        if secret is None:
            raise ValueError("a secret is written env:NAME (letters, digits, '_') or file:PATH")
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
    "content-encoding": "belongs to the body, which the server makes",
    "content-type": "belongs to the body, which the server makes",
    "date": "is the balancer's own",
    "host": "is a header of requests, set with the pool's 'host_header'",
    "x-request-id": "is the balancer's own",
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
            raise ValueError(f"'{text}' belongs to the connection, which the balancer keeps itself")
        if self.settable and name == "host":
            raise ValueError("'Host' is set with the pool's 'host_header'")
        if self.answered and name in _OWN_ANSWER:
            raise ValueError(f"'{text}' {_OWN_ANSWER[name]}")
        if self.answered and name.startswith("access-control-"):
            raise ValueError(f"'{text}' is set by the listener's 'cors'")
        return text


class UrlPath(Text):
    """A path of a URL; says which character it is that does not belong into one."""

    __slots__ = ()

    def _value(self, text: str) -> Value:
        if text.startswith("/"):
            for character in text:
                if not compiled(self.pattern).fullmatch(f"/{character}"):
                    name = "a blank" if character == " " else f"the character '{character}'"
                    raise ValueError(f"'{shown(text)}' has {name} in it, which a path may not have here")
            _no_unreadable_escape(text)
        return super()._value(text)


def _no_unreadable_escape(path: str) -> None:
    """Refuse what balancers refuse in requests too, so that nothing could ever fit; raises `ValueError`."""
    if compiled(r".*%(?![0-9A-Fa-f]{2}).*").fullmatch(path):
        raise ValueError(f"'{shown(path)}' has a '%' in it without two hexadecimal digits behind")
    try:
        text = unquote(path, errors="strict")
    except UnicodeDecodeError:
        raise ValueError(f"'{shown(path)}' has escapes in it that are no UTF-8 text") from None
    if not text.isprintable():
        raise ValueError(f"'{shown(path)}' has a control character in it")
    if compiled(r".*/\.\.?(/.*)?").fullmatch(text.partition("?")[0]):
        raise ValueError(f"'{shown(path)}' has '.' or '..' in it, which a request may not have")


URL_PATH = UrlPath("a path that begins with '/'", pattern=r"/[A-Za-z0-9._~!$&'()*+,;=:@%/-]*", limit=1024)
PATH_MODEL = "/{model}"
"""At the end of a route's path: one segment more, which names the model."""


class RoutePath(UrlPath):
    """A path of a route, which may end in `PATH_MODEL`."""

    __slots__ = ()

    def _value(self, text: str) -> Value:
        bare = text.removesuffix(PATH_MODEL)
        return f"{super()._value(bare)}{text[len(bare) :]}" if bare else super()._value(text)

    def schema(self) -> dict[str, Any]:
        return {**super().schema(), "pattern": f"^{self.pattern}(/\\{{model\\}})?$"}


ROUTE_PATH = RoutePath("a path that begins with '/'", pattern=r"/[A-Za-z0-9._~!$&'()*+,;=:@%/-]*", limit=1024)
URL_PATH_QUERY = UrlPath(
    "a path that begins with '/'", pattern=r"/[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*", limit=1024
)
FILE = Text("the path of a file", pattern=r".+", limit=1024)
MODEL = Text("a model's name, '*' standing for anything", pattern=r"[A-Za-z0-9._/:@+=,~*-]{1,256}", limit=256)
LOG_FIELD = Text("a field's name", pattern=r"[A-Za-z_][A-Za-z0-9_.-]{0,63}", limit=64)


class LogSource(Text):
    """What a field of the access log holds."""

    __slots__ = ()

    def __init__(self) -> None:
        what = f"one of {', '.join(LOG_SOURCES)}, header:NAME, or a text"
        super().__init__(what, pattern=r"[A-Za-z0-9 ._:/@,+=-]{1,200}", parse=self._source)

    def _source(self, text: str) -> str:
        kind, _, name = text.partition(":")
        if kind == "header" and name.lower() in CREDENTIAL_HEADERS:
            raise ValueError(f"'{name}' holds keys, which do not belong into a log")
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


FIELD_NAME = Text("the name of a parameter or field", pattern=r"[A-Za-z0-9._\[\]-]{1,64}", limit=64)
FIELD_VALUE = Text("a value, '*' standing for anything", pattern=r"[A-Za-z0-9._/:@+=,~*-]{1,256}", limit=256)
ORIGIN = Text(
    "an origin such as https://chat.example.org",
    pattern=r"\*|https?://(\*\.)?[A-Za-z0-9._-]+(:[0-9]{1,5})?",
    limit=255,
)
URL = Text(
    "a URL such as http://auth:9000/check",
    pattern=r"https?://[A-Za-z0-9._\[\]:-]+(/[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)?",
    limit=1024,
)
