"""What a configuration says, apart from its texts: which directives, where, with how many words."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import crossplane

_MAPS = ("map", "geo", "types", "split_clients")
_OWN_TEXT = re.compile(r"\$\{?lb_(text|secret)_\d+\}?")
_VARIABLE = re.compile(r"\$\{?\w+")
_NAMED = re.compile(
    r"\$\{?(http|lb_(?:if|to|key|welcome|client_of|denied|exempt|cors|proto|trusted"
    r"|said|without|after|before|of|rest))_.*"
)
"""Variables that are numbered, or named after a header or a listener."""
_NO_VARIABLES = ("location", "server_name")


def nginx_structure(text: str, folder: Path) -> Counter[object]:
    """Return how often each directive occurs, by its context and words; raises `ValueError`.

    A text with a dollar sign stands in a `geo` block of its own and is named by a variable; those
    blocks are left out, and such a variable counts as a text.
    """
    file = folder / "nginx.conf"
    file.write_text(text, encoding="utf-8")
    parsed = crossplane.parse(str(file), single=True, check_ctx=False, check_args=False)
    if parsed["errors"]:
        raise ValueError(str(parsed["errors"]))
    return Counter(_directives(parsed["config"][0]["parsed"], ()))


def _directives(block: list[Any], context: tuple[str, ...]) -> Any:
    for directive in block:
        name, arguments = directive["directive"], directive["args"]
        if name == "geo" and _OWN_TEXT.fullmatch(arguments[-1]):
            continue
        inside_map = bool(context) and context[-1] in _MAPS
        shown = "entry" if inside_map else name
        variables = () if context[-1:] == ("geo",) or name in _NO_VARIABLES else _variables(arguments)
        yield (*context, shown), len(arguments), variables
        yield from _directives(directive.get("block", []), (*context, shown))


def _variables(arguments: list[str]) -> tuple[str, ...]:
    text = _OWN_TEXT.sub("", " ".join(arguments))
    return tuple(sorted(_NAMED.sub(r"$\1", name) for name in _VARIABLE.findall(text)))


_SECTIONS = {
    "global", "defaults", "frontend", "backend", "listen", "peers", "resolvers", "userlist", "http-errors",
    "cache", "ring", "program", "mailers", "log-forward", "fcgi-app", "crt-store", "traces",
}  # fmt: skip
_FORMATS = {"set-header", "add-header", "set-path", "lf-string", "redirect", "log-format", "replace-header"}
_SAMPLE = re.compile(r"(?<!%)(?:%%)*%[^%\s]")


def haproxy_structure(text: str) -> Counter[object]:
    """Return how often each kind of line occurs, by its section and words; raises `ValueError`."""
    section = ""
    found: Counter[object] = Counter()
    for line in text.split("\n"):
        words = haproxy_words(line)
        if not words:
            continue
        if words[0] in _SECTIONS:
            section = words[0]
        head = (
            words[:2] if words[0].startswith(("http-", "tcp-", "option", "timeout", "stats")) else words[:1]
        )
        samples = sum(len(_SAMPLE.findall(word)) for word in words) if _FORMATS & set(words) else 0
        found[section, *head, len(words), samples] += 1
    return found


def haproxy_words(line: str) -> list[str]:  # noqa: C901 - a small automaton, one branch a state
    """Return the words of a line as HAProxy splits it; raises `ValueError` where it would complain.

    Blanks separate, backslashes escape outside of single quotes, `#` begins a comment outside of quotes,
    and double quotes replace `$NAME` by an environment variable, which nothing from a fleet may cause.
    """
    words: list[str] = []
    word: str | None = None
    quote = ""
    position = 0
    while position < len(line):
        character = line[position]
        position += 1
        if character == "\0":
            raise ValueError("a NUL ends the line")
        if quote == "'":
            quote = "" if character == "'" else quote
            word = (word or "") + ("" if character == "'" else character)
        elif character == "\\":
            word = (word or "") + line[position : position + 1]
            position += 1
        elif character == '"':
            quote = "" if quote else '"'
            word = word or ""
        elif quote and character == "$":
            raise ValueError("an environment variable is replaced")
        elif quote:
            word = (word or "") + character
        elif character == "'":
            quote = "'"
            word = word or ""
        elif character == "#":
            break
        elif character in " \t\r":
            words += [] if word is None else [word]
            word = None
        else:
            word = (word or "") + character
    if quote:
        raise ValueError(f"a quote is not closed: {line[:80]}")
    return words + ([] if word is None else [word])
