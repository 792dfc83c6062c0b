"""Which values of others may let somebody in: they become references, or are shown as ``***``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lbgen.fleet.header_kinds import CREDENTIAL_HEADERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_NAMED = r"(?:auth|token|key|secret|passw|pwd|cookie|credential|signature|jwt|bearer)"
_CREDENTIAL = re.compile(rf"(?i){_NAMED}")
_KEY_LIKE = re.compile(
    r"(?i)\b(?:sk-|hf_|ghp_|gsk_|glpat-|nvapi-|xox[a-z]-|pplx-|akia|aiza)[^\s\"',;}]+"
    r"|\b(bearer|basic)\s+[^\s\"',;}]+"
    r"|(?=\S*\d)(?=\S*[a-z])[A-Za-z0-9_+=-]{20,}"
)
_USER = re.compile(r"(://)[^/@\s]+@")
_QUERY = re.compile(r"([?&][^=&\s?]+=)[^&\s\"']+")
_VALUE = re.compile(rf"(?i)([\w-]*{_NAMED}[\w-]*[\"']?\s*[=:]\s*[\"']?)(?!\*\*\*)[^\s\"'&;,}}$]+")
_NAME = re.compile(rf"(?i)[!({{]*[\w-]*{_NAMED}[\w-]*\)?|.*\([\w-]*{_NAMED}[\w-]*[,)].*")
"""A word that names a credential: ``X-Api-Key``, ``hdr(Authorization)``."""
_ENDS = {"}", "||", "or", "if", "unless", "{", "hdr", "body"}
_SHOWN = re.compile(r"-[a-zA-Z]|--|\$\{?\w+\}?|[=!~*]+|str|beg|end|sub|reg|dir|dom|found|len|…\)?|\*\*\*|")
_SECRET_DIRECTIVE = re.compile(r"(?i).*(?:secret|passw(?:or)?d)$")


def is_credential_name(name: str) -> bool:
    """Tell whether a header, a parameter or a field of this name lets somebody in."""
    return name.lower() in CREDENTIAL_HEADERS or bool(_CREDENTIAL.search(name))


def has_secret(text: str) -> bool:
    """Tell whether a text may hold a key or a password."""
    return masked(text) != text


def is_secret_header(name: str, value: str) -> bool:
    """Tell whether a header may only be set by reference."""
    return bool(value) and (is_credential_name(name) or has_secret(value))


def is_secret_query(text: str) -> bool:
    """Tell whether a path's query or a URL may hold a key or a password."""
    query = text.partition("?")[2]
    named = any(is_credential_name(one.partition("=")[0]) for one in query.split("&") if "=" in one)
    return named or bool(_USER.search(text)) or bool(_KEY_LIKE.search(text))


def masked(text: str, *, names: bool = True) -> str:
    """Return a text with ``***`` for what may be a key. `names`: also what follows ``token=``."""
    text = _KEY_LIKE.sub(lambda found: f"{found[1]} ***" if found[1] else "***", text)
    text = _QUERY.sub(r"\1***", _USER.sub(r"\1***@", text))
    return _VALUE.sub(r"\1***", text) if names else text


def masked_words(words: Iterable[str]) -> Iterator[str]:
    """Yield the words of a directive, with ``***`` for what follows the name of a credential."""
    hidden = False
    for number, word in enumerate(words):
        hidden = hidden and word not in _ENDS
        yield "***" if hidden and not _SHOWN.fullmatch(word) else masked(word)
        named = _NAME.fullmatch(word) if number else _SECRET_DIRECTIVE.fullmatch(word)
        hidden = hidden or named is not None
