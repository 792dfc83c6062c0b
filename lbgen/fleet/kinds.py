"""Kinds of values that only a fleet has: names, secrets, paths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lbgen.fields import Kind, Text, label, refuse, shown
from lbgen.fields.scalars import compiled
from lbgen.model import Secret
from lbgen.problems import Problem

if TYPE_CHECKING:
    from lbgen.fields.base import Node, Value
    from lbgen.problems import Path

NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
_STR = "tag:yaml.org,2002:str"
TO_A_REFERENCE = (
    "put it into an environment variable or a file, write env:NAME or file:PATH here, "
    "and replace the secret: it has been in this file"
)
_NOT_A_VARIABLE = "'env:' must be followed by the name of an environment variable: letters, digits and '_'"


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
        secret = secret_of(node.value) if node.tag == _STR else None
        if secret is not None:
            return secret
        if node.tag == _STR and node.value.startswith("env:"):
            return refuse(problems, node, Problem("bad-value", f"{label(path)}: {_NOT_A_VARIABLE}", path))
        message = f"{label(path)} must be env:NAME or file:PATH, never the secret itself"
        return refuse(problems, node, Problem("literal-secret", message, path, hint=TO_A_REFERENCE))

    def schema(self) -> dict[str, Any]:
        return {
            "type": "string",
            "pattern": r"^(env:[A-Za-z_]\w{0,127}|file:.{1,1024})$",
        }

    def describe(self) -> str:
        return "env:NAME or file:PATH"

    def written(self, value: Value) -> Value:
        return str(value)


def secret_of(text: str) -> Secret | None:
    """Return the secret that ``env:NAME`` or ``file:PATH`` refers to; None for any other text."""
    kind, colon, reference = text.partition(":")
    if not colon or not reference.isprintable() or not reference or len(reference) > 1024:
        return None
    if kind == "file":
        return Secret(kind, reference)
    if kind == "env" and reference.isascii() and reference.isidentifier() and len(reference) <= 128:
        return Secret(kind, reference)
    return None


class UrlPath(Text):
    """A path of a URL; says which character it is that does not belong into one."""

    __slots__ = ()

    def _value(self, text: str) -> Value:
        if text.startswith("/"):
            for character in text:
                if not compiled(self.pattern).fullmatch(f"/{character}"):
                    name = "a blank" if character == " " else f"the character '{character}'"
                    raise ValueError(f"'{shown(text)}' contains {name}, which is not allowed in this path")
            _no_unreadable_escape(text)
        return super()._value(text)


def _no_unreadable_escape(path: str) -> None:
    """Refuse what balancers refuse in requests too, so that nothing could ever fit; raises `ValueError`."""
    if compiled(r".*%(?![0-9A-Fa-f]{2}).*").fullmatch(path):
        raise ValueError(f"'{shown(path)}' contains a '%' that is not followed by two hexadecimal digits")
    try:
        text = unquote(path, errors="strict")
    except UnicodeDecodeError:
        raise ValueError(f"'{shown(path)}' contains escapes that are not UTF-8 text") from None
    if not text.isprintable():
        raise ValueError(f"'{shown(path)}' contains a control character")
    if compiled(r".*/\.\.?(/.*)?").fullmatch(text.partition("?")[0]):
        raise ValueError(f"'{shown(path)}' contains a '.' or '..' segment, which requests may not have")


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
MODEL = Text("a model's name; '*' matches any text", pattern=r"[A-Za-z0-9._/:@+=,~*-]{1,256}", limit=256)
LOG_FIELD = Text("a field's name", pattern=r"[A-Za-z_][A-Za-z0-9_.-]{0,63}", limit=64)


FIELD_NAME = Text("the name of a parameter or field", pattern=r"[A-Za-z0-9._\[\]-]{1,64}", limit=64)
FIELD_VALUE = Text("a value; '*' matches any text", pattern=r"[A-Za-z0-9._/:@+=,~*-]{1,256}", limit=256)
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
