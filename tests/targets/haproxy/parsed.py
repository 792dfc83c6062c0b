"""Rendered HAProxy files as HAProxy's own reader splits them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.render import render
from lbgen.secret_values import StandInSecrets
from lbgen.vocabulary import Version
from tests import factory

if TYPE_CHECKING:
    from lbgen.model import Fleet

Section = list[list[str]]


def words(line: str) -> list[str]:
    """Split one line by the rules of HAProxy's manual, chapter 2.2: quotes, backslashes, comments."""
    found: list[str] = []
    word: str | None = None
    quote = ""
    rest = iter(line)
    for character in rest:
        if quote == "'":
            quote = "" if character == "'" else quote
            word = word or ""
            word += "" if character == "'" else character
        elif character == "\\":
            escaped = next(rest)
            word = (word or "") + {"n": "\n", "t": "\t", "r": "\r"}.get(escaped, escaped)
            if escaped == "x":
                word = word[:-1] + chr(int(next(rest) + next(rest), 16))
        elif character in "'\"" and quote in {"", character}:
            quote = "" if quote else character
            word = word or ""
        elif character == "#" and not quote:
            break
        elif character in " \t" and not quote:
            if word is not None:
                found.append(word)
            word = None
        else:
            assert not (quote == '"' and character == "$"), "an environment variable"
            word = (word or "") + character
    assert not quote, f"a quote is open: {line}"
    return [*found, word] if word is not None else found


def sections(text: str) -> dict[str, Section]:
    """Return head -> lines, each as words."""
    found: dict[str, Section] = {}
    current: Section = []
    for line in text.splitlines():
        parts = words(line)
        assert len(parts) <= 64, f"HAProxy cuts this line off: {line}"
        if not parts:
            continue
        if line.startswith(" "):
            current.append(parts)
        else:
            current = found.setdefault(" ".join(parts[:2]), [])
    return found


def files(fleet: Fleet, version: str = "2.6", part: str = "all") -> dict[str, str]:
    """Return path -> text for one version of HAProxy."""
    settings = fleet.target("haproxy")._replace(version=Version.parse(version))
    fleet = fleet._replace(targets=(settings,))
    return {file.path: file.text for file in render(fleet, "haproxy", part, secrets=StandInSecrets())}


def conf(fleet: Fleet | None = None, version: str = "2.6") -> dict[str, Section]:
    """Return the sections of the main file."""
    return sections(files(fleet or factory.fleet(), version)["haproxy.cfg"])


def starting(section: Section, *first: str) -> Section:
    """Return what follows these words in every line that begins with them."""
    return [line[len(first) :] for line in section if tuple(line[: len(first)]) == first]
