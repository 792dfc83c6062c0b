"""Keys and passwords that stand in a configuration: to be found, and not to be shown."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lbgen.problems import Location

_LITERAL = r"[^\s\"'$%{};,()]"
_SECRETS = re.compile(
    rf"""(?ix)
    \bbearer[ \\]+(?P<bearer>{_LITERAL}{{8,}})
    | (?<![A-Za-z0-9/])(?P<token>(?:sk-|hf_|gsk_|xai-|ghp_|nvapi-)[A-Za-z0-9_-]{{6,}})(?![\w-]|:\d)
    | (?:x-api-key|api-?key)["')]*\s+(?:-m\s+\S+\s+|-i\s+)*["']?(?P<header>{_LITERAL}{{8,}})["']?\s*(?:;|$)
    | ^\s*stats\s+auth\s+[^\s:]+:(?P<stats>\S+)
    | \binsecure-password\s+(?P<user>\S+)
    """
)

_NAME = r"[\w.-]{0,64}(?:key|token|secret|passw|passphrase|auth|cookie|credential|signature)[\w.-]{0,64}"
_WORD = r"""(?>(?:"(?:\\.|[^"\\])*"?|'[^']*'?|\\.|[^\s;"'\\])+)"""
_SETTERS = (
    r"_set_header|\badd_header|_param|\bset-header|\badd-header|\bset-var\(\w+\.\w+\)|\bhdr|\b(?:pre)?setenv"
    r"|\bset"
)
_IN_URLS = re.compile(
    rf"""(?ix)
    :// (?P<userinfo> [^\s/@"'?\#]+ ) @
    | [?&] (?:{_NAME}|sig) = (?P<query> (?!\$|%\[) [^\s&"';)}}]+ )
    """
)
_HEADERS = re.compile(
    rf"""(?ix)
    (?:{_SETTERS}) \s+ ["']?\$?{_NAME}["']? \s+ (?P<header> {_WORD} )
    | \breplace-(?:header|value) \s+ ["']?{_NAME}["']? \s+ {_WORD} \s+ (?P<replaced> {_WORD} )
    | \b (?:(?:f?hdr(?:_\w+)?|url_?p(?:aram)?|(?:req\.)?cook)\(["']?{_NAME}[^)]{{0,64}}\) | http_auth_bearer)
        [^\s}}]{{0,200}} \s+ (?:-m\s+\w+\s+|-[in]\s+|--\s+)* (?P<compared> [^}}|]+ )
    | \$(?:http|arg|cookie)_{_NAME} ["']? \s* (?:!?~\*?|!?=) \s* (?P<condition> "[^"]*"|'[^']*'|[^\s)]+ )
    | \bpassword \s+ (?P<password> \S+ )
    | \bsecure_link_secret \s+ (?P<link> [^\s;]+ )
    """
)
_OPEN = re.compile(
    r"""(?ix) ["']? (?: (?:bearer|basic) [ \\]+ )? (?: \$\{?(?:[a-z_].*|\d) | %[\[{].* | off | on )? ["']? \s*
    | -[mf] \s+ \S+ \s* | \}.* """
)
"""Values that are none: variables, expressions, nothing."""
_LITERAL_KEY = re.compile(r"[\w.~+/=\\-]{4,}")
_KEY_FETCH = re.compile(
    r"(?i)(?:req\.)?f?hdr(?:_val)?\((?:authorization|(?:x-)?api-?key)\b|http_auth_bearer\b"
)
_SCHEMES = frozenset({"bearer", "basic"})


def key_in(value: str) -> str:
    """Return the key that a value of a header such as ``Authorization`` is compared with; empty: none."""
    key = re.sub(r"(?i)^[~*]*\^?(?:bearer(?:\\s|[ +])+)?|\$$", "", value)
    return key if _LITERAL_KEY.fullmatch(key) and key.lower() not in _SCHEMES else ""


def keys_compared(words: Sequence[str]) -> Iterator[str]:
    """Yield the keys that a condition or an ``acl`` of HAProxy compares a request's with."""
    for at, word in enumerate(words):
        condition = at and (words[at - 1] in {"{", "!{"} or (words[0] == "acl" and at == 2))
        if condition and _KEY_FETCH.match(word):
            yield from filter(None, map(key_in, _patterns(words[at + 1 :])))


def _patterns(words: Sequence[str]) -> Iterator[str]:
    rest = iter(words)
    for word in rest:
        if word == "}" or (word == "-m" and next(rest, "") not in {"str", "reg"}):
            return
        if word in {"-f", "-u"}:
            next(rest, "")
        elif word not in {"-m", "-i", "-n", "-M", "--"}:
            yield word


def secret_spans(line: str) -> Iterator[tuple[int, int]]:
    """Yield where secrets stand in a line, from 0; references to variables are none, nor are comments."""
    if "www-authenticate" in line.lower():
        return  # 'Bearer' is a word of its own there
    for match in _SECRETS.finditer(line):
        group = match.lastgroup or ""
        if not line.lstrip().startswith("#") and not match[group].startswith(("$", "%", '"$', "env:")):
            yield match.span(group)


def without_secrets(line: str) -> str:
    """Return a line with its secrets blotted out, comments included, each character one."""
    for pattern in (_SECRETS, _HEADERS, _IN_URLS):
        line = _blotted(line, pattern)
    return line


def without_credentials(text: str) -> str:
    """Return a sentence with the credentials of the URLs in it blotted out."""
    return _blotted(text, _IN_URLS)


def _blotted(line: str, pattern: re.Pattern[str]) -> str:
    for match in pattern.finditer(line):
        for group, text in match.groupdict().items():
            if text and not (pattern is _HEADERS and _OPEN.fullmatch(text)):
                start, end = match.span(group)
                line = line[:start] + "•" * (end - start) + line[end:]
    return line


def blotted(lines: list[str], place: Location) -> None:
    """Blot out a key in the lines of its file, from where it begins to the end of its word."""
    line, start = lines[place.line - 1], place.column - 1
    quote = line[start - 1] if start and line[start - 1] in "\"'" else ""
    word = re.match(rf"[^{quote}]*" if quote else r"[^\s;]*", line[start:])
    end = start + (word.end() if word else 0)
    lines[place.line - 1] = line[:start] + "•" * (end - start) + line[end:]


def others_can_read(name: str) -> bool:
    """Tell whether a file is open to every user of its machine; True for what is no file here."""
    try:
        return bool(os.stat(name).st_mode & 0o004)  # noqa: PTH116 - a name as the user wrote it, '-' too
    except OSError:
        return True
