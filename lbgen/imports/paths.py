"""Paths of locations, of ``proxy_pass`` and of rewrites, as conditions and prefixes of routes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MOST = 32
"""Paths that one regular expression may stand for."""
_SPECIAL = set(".^$*+?{}[]|()\\")


class Match(NamedTuple):
    """Which paths a location takes."""

    prefixes: tuple[str, ...] = ()
    exact: tuple[str, ...] = ()
    note: str = ""
    """What differs."""

    def conditions(self) -> list[dict[str, object]]:
        """Return the conditions of routes that together take these paths."""
        made: list[dict[str, object]] = []
        if "/" in self.prefixes:
            return [{}]
        for key, paths in (("path", self.prefixes), ("path_exact", self.exact)):
            if paths:
                made.append({key: paths[0] if len(paths) == 1 else list(paths)})
        return made


def location_match(args: Sequence[str]) -> Match | None:
    """Return the paths that a location takes; None for a regular expression that no list of paths is."""
    modifier, pattern = (args[0], args[-1]) if len(args) > 1 else ("", args[0] if args else "/")
    if modifier == "=":
        return Match(exact=(pattern,))
    if modifier in {"~", "~*"}:
        found = paths_of(pattern)
        if found is None:
            return None
        note = "the case of letters matters now" if modifier == "~*" else found.note
        return found._replace(note=note)
    note = ""
    if pattern != "/" and not pattern.endswith("/"):
        note = f"whole segments only: {pattern} and {pattern}/…, no longer {pattern}…"
    return Match(prefixes=(pattern if pattern == "/" else pattern.rstrip("/"),), note=note)


def paths_of(pattern: str) -> Match | None:
    """Return the paths of an anchored expression of texts and alternatives."""
    if not pattern.startswith("^"):
        return None
    body = pattern[1:]
    exact = body.endswith("$") and not body.endswith("\\$")
    body = body[:-1] if exact else body
    if re.search(r"(?:/|^)(?:\(\.\*\)|\.\*)$", body):
        body, exact = re.sub(r"(?:\(\.\*\)|\.\*)$", "", body), False
    try:
        texts, end = _alternatives(body, 0)
    except ValueError:
        return None
    if end != len(body) or not texts or len(texts) > _MOST or not all(text.startswith("/") for text in texts):
        return None
    if exact:
        return Match(exact=tuple(texts))
    whole = [text if text == "/" else text.rstrip("/") for text in texts]
    note = "" if all(text.endswith("/") for text in texts) else "whole segments only"
    return Match(prefixes=tuple(dict.fromkeys(whole)), note=note)


def _alternatives(text: str, at: int) -> tuple[list[str], int]:
    """Return the texts of ``a|b`` up to the closing bracket; raises `ValueError` for anything else."""
    found: list[str] = []
    current = [""]
    while at < len(text) and text[at] != ")":
        if text[at] == "|":
            found, current, at = found + current, [""], at + 1
            continue
        options, at = _piece(text, at)
        if text[at : at + 1] == "?":
            options, at = [*options, ""], at + 1
        current = [one + option for one in current for option in options]
        if len(current) > _MOST:
            raise ValueError
    return found + current, at


def _piece(text: str, at: int) -> tuple[list[str], int]:
    if text[at] == "(":
        start = at + (3 if text[at : at + 3] == "(?:" else 1)
        options, end = _alternatives(text, start)
        if text[end : end + 1] != ")":
            raise ValueError
        return options, end + 1
    if text[at] == "\\" and text[at + 1 : at + 2] and not text[at + 1].isalnum():
        return [text[at + 1]], at + 2
    if text[at] in _SPECIAL:
        raise ValueError
    return [text[at]], at + 1


class Prefixes(NamedTuple):
    """What is taken off a path and put before it."""

    strip: bool = False
    add: str = ""


def passed_path(match: Match, uri: str) -> Prefixes | None:
    """Return what ``proxy_pass`` with a path does to the request's; None where a route cannot do it."""
    if not uri:
        return Prefixes()
    if match.exact:
        return Prefixes() if match.exact == (uri,) else None
    if len(match.prefixes) != 1:
        return None
    (own,), new = match.prefixes, uri.rstrip("/") or "/"
    if own == new:
        return Prefixes()
    return Prefixes(own != "/", "" if new == "/" else new)


def rewritten_path(match: Match, pattern: str, replacement: str) -> Prefixes | None:
    """Return what ``rewrite … break`` does, where it takes a prefix off or puts one before the rest."""
    for taken, new in _rewrites(pattern, replacement):
        if taken == "":
            return Prefixes(add=new.rstrip("/"))
        if match.prefixes == (taken,):
            return Prefixes(strip=True, add=new.rstrip("/"))
    return None


def _rewrites(pattern: str, replacement: str) -> Iterator[tuple[str, str]]:
    """Yield the prefix that goes and the one that comes, both without a slash at the end."""
    found = re.fullmatch(
        r"\^?(/[A-Za-z0-9._~/-]*?)?(?:/\?\(\.\*\)|/\(\.\*\)|\(/\.\*\)|\(\.\*\)|\(/\|\$\)\(\.\*\))\$?", pattern
    )
    if not found:
        return
    last = "2" if "(/|$)" in pattern else "1"
    rest = re.fullmatch(rf"(/[A-Za-z0-9._~/-]*?)?/?\${last}(?:\$is_args\$args|\?\$args)?", replacement)
    if rest:
        yield (found[1] or "").rstrip("/"), (rest[1] or "").rstrip("/")
