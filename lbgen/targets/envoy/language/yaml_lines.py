"""Values as lines of YAML that people can read: small mappings on one line, larger ones indented.

A key that begins with ``#`` is a comment, and stands above what follows it. Every text that is not a plain
word is written between double quotes, so that no value can become a key.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any

from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_WIDTH = 108
"""Characters of a line; what does not fit is written over several."""
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


def lines(value: object, indent: int = 0) -> tuple[Syntax, ...]:
    """Return a mapping or a list as lines, indented by so many spaces."""
    return tuple(Syntax(line) for line in _block(value, " " * indent))


def quote(text: str) -> Syntax:
    """Return a text as one scalar of YAML; raises `ValueError` for control characters other than newlines."""
    if any((ord(one) < 32 and one not in "\n\t") or 127 <= ord(one) < 160 for one in text):
        raise ValueError("a control character cannot be written")
    if _plain()(text) and text.lower() not in _WORDS:
        return Syntax(text)
    if '"' in text and not set("'\\\n\t") & set(text):
        return Syntax(f"'{text}'")
    return Syntax(json.dumps(text, ensure_ascii=False))


def quote_lua(text: str) -> Syntax:
    """Return a text as a string of Lua."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    safe = "".join(one if ord(one) >= 32 else f"\\{ord(one):03}" for one in escaped)
    return Syntax(f'"{safe}"')


def escape_format(text: str) -> str:
    """Return a text for a place where Envoy replaces ``%COMMANDS%``."""
    return text.replace("%", "%%")


@cache
def _plain() -> Any:  # noqa: ANN401 - a compiled expression's own method
    return re.compile(r"(?:[A-Za-z_/][A-Za-z0-9_./-]*|[0-9]+(?:\.[0-9]+)?s)", re.ASCII).fullmatch


def _scalar(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    return quote(str(value))


def _flow(value: object) -> str | None:
    """Return a value on one line; None when it holds a comment."""
    if isinstance(value, dict):
        parts = []
        for key, inner in value.items():
            text = _flow(inner)
            if key.startswith("#") or text is None:
                return None
            parts.append(f"{quote(key)}: {text}")
        return "{" + ", ".join(parts) + "}"
    if isinstance(value, list | tuple):
        texts = [_flow(inner) for inner in value]
        return None if None in texts else "[" + ", ".join(filter(None, texts)) + "]"
    return _scalar(value)


def _fits(value: object, room: int) -> str:
    """Return the one-line form of what is short enough and not a large mapping; else nothing."""
    if isinstance(value, dict) and ("@type" in value or len(value) > 6):
        return ""
    text = _flow(value)
    return text if text is not None and len(text) <= room else ""


def _block(value: object, indent: str) -> Iterator[str]:
    if isinstance(value, dict):
        yield from _mapping(value, indent)
    elif isinstance(value, list | tuple):
        yield from _list(value, indent)
    else:
        yield f"{indent}{_scalar(value)}"


def _mapping(value: Mapping[str, object], indent: str) -> Iterator[str]:
    for key, inner in value.items():
        if key.startswith("#"):
            yield f"{indent}# {inner}"
            continue
        name = quote(key)
        short = _fits(inner, _WIDTH - len(indent) - len(name) - 2)
        if short:
            yield f"{indent}{name}: {short}"
        elif isinstance(inner, str):
            yield f"{indent}{name}: {_scalar(inner)}"
        else:
            yield f"{indent}{name}:"
            yield from _block(inner, f"{indent}  ")


def _list(value: Sequence[object], indent: str) -> Iterator[str]:
    for inner in value:
        short = _fits(inner, _WIDTH - len(indent) - 2)
        if short:
            yield f"{indent}- {short}"
            continue
        dash = True
        for line in _block(inner, f"{indent}  "):
            comment = line.lstrip().startswith("#")
            if dash and not comment:
                yield f"{indent}- {line[len(indent) + 2 :]}"
                dash = False
            else:
                yield (
                    f"{indent}{line[len(indent) :]}"
                    if not comment or not dash
                    else f"{indent}{line.lstrip()}"
                )
