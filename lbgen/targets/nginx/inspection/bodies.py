"""What NGINX finds in a request's body, with maps alone.

`$request_body` is empty until something reads the body, and a variable in `proxy_pass` is asked too early
(seen on 1.22.1: the default is taken without a word). A `mirror` makes NGINX read it first; the request then
falls through to "no such file", and that error's page is the location that the maps choose. `try_files` would
come before the mirror (seen on 1.22.1, 1.26.3 and 1.30.6).

One map reads the body, by one regular expression, and its captures are all that anything else sees of it.
An expression that fails, for want of stack or after too much work, is taken as the map's default (seen on
1.22.1 to 1.30.6), so the default is what refuses. A body longer than the buffer goes to a file, where no
map sees it.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, NamedTuple

from lbgen.targets.nginx.inspection import forms, json_regex
from lbgen.targets.nginx.inspection.json_regex import Member
from lbgen.targets.nginx.language.quoting import regex_word
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from lbgen.targets.nginx.assembly import Assembly

BODY = Syntax("$lb_body")
"""``json``, ``broken`` (an object that is none, or UTF-16), ``other``, ``hidden`` (it could not be read)."""
_LONGEST = 3_800
"""Bytes of an expression: NGINX takes words of less than 4,096, and lines are indented."""
_TOKENS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""Of chat, newer chat and Responses; the first that is a number counts."""


def add_scan(made: Assembly) -> None:
    """Add the maps that read the body, if anything asked for a member or a field of it."""
    if not made.members:
        return
    if made.fields:
        forms.add_forms(made, BODY, short)
    words = _words(made)
    read = Syntax("$lb_scan") if made.uploads else BODY
    if len(words) == 1:
        made.map("$request_body", read, _entries(words[0]))
    else:
        scans = [made.map("$request_body", f"$lb_scan_{n}", _entries(word)) for n, word in enumerate(words)]
        _agreed(made, read, scans)
    if made.uploads:
        short(made, read, BODY)


def _words(made: Assembly) -> list[Syntax]:
    """Return the expressions that read whole bodies: one, or several where NGINX takes no word as long."""
    members, words = list(made.members), []
    while members:
        number = len(members)
        while len(word := regex_word(f"~{json_regex.document(members[:number])}")) > _LONGEST and number > 1:
            number -= 1
        words.append(word)
        members = members[number:]
    return words


def _entries(whole: Syntax) -> list[tuple[str, str]]:
    broken = regex_word(f"~{json_regex.BROKEN}")
    # Expressions are not tried on an empty text (seen on 1.22.1 to 1.30.6).
    entries = [("default", "hidden"), ('""', "json"), (whole, "json")]
    return [*entries, (broken, "broken"), (regex_word("~^"), "other")]


def _agreed(made: Assembly, variable: str, scans: list[Syntax]) -> None:
    """Add the variable with what all scans say; one that failed hides the body from the others."""
    said = [(f'"{word * len(scans)}"', word) for word in ("json", "broken", "other")]
    made.map(f'"{"".join(scans)}"', variable, [("default", "hidden"), *said])


def short(made: Assembly, read: Syntax, variable: str) -> Syntax:
    """Return the variable that asks the other for short bodies alone: buffers are larger, for uploads."""
    if not made.uploads:
        return made.map("$request_length", variable, [("default", read)])
    over = regex_word(f"~^(?:{over_regex(made.uploads)})$")
    return made.map("$request_length", variable, [("default", read), (over, "hidden")])


def member(made: Assembly, key: str, capture: str, value: str, part: str = "") -> Syntax:
    """Return the variable with a member of the body's object; empty: there is none of that kind.

    `part`: which of the captures, where the value has several.
    """
    found = Member(key, f"{capture}_raw", value)
    if found not in made.members:
        made.members.append(found)
    # Asked by way of the map that sets the capture.
    return made.map(BODY, f"${capture}{part}", [("default", f"${found.capture}{part}")])


def max_tokens(made: Assembly) -> Syntax:
    """Return the variable with the most tokens that the request allows; empty: it does not say."""
    return first_of(
        made, "$lb_tokens", [member(made, key, f"lb_{key}", json_regex.NUMBER) for key in _TOKENS]
    )


def over_regex(number: int) -> str:
    """Return a regular expression for whole numbers above this one, written without leading zeros."""
    digits = str(number)
    ways = [rf"\d{{{len(digits) + 1},}}"]
    for place, digit in enumerate(digits):
        if digit != "9":
            higher = chr(ord(digit) + 1)
            rest = len(digits) - place - 1
            ways.append(f"{digits[:place]}[{higher}-9]" + (rf"\d{{{rest}}}" if rest else ""))
    return "|".join(ways)


class Found(NamedTuple):
    """A text of a request, and what tells whether there is one.

    A map's source is copied and hashed, which takes 5 ms a MiB: long texts are values of maps alone.
    """

    text: Syntax
    is_there: str
    """Short variables, side by side: all of them are empty where there is no text."""

    @classmethod
    def short(cls, variable: Syntax) -> Found:
        """Return a text that tells itself whether it is there."""
        return cls(variable, variable)


def prompt_key(made: Assembly, kind: str, octets: int) -> Found:
    """Return the part of the body by which a prompt is told.

    ``system_prompt``: Anthropic's ``system``, else the first message; ``first_bytes``: the beginning of the
    messages. For completions without messages, the beginning of the prompt in both cases.
    """
    begun = json_regex.beginning(octets)
    others = [Found.short(member(made, key, f"lb_{key}_{octets}", begun)) for key in ("prompt", "input")]
    if kind == "system_prompt":
        ways = [_system(made), *others, _first(made)]
    else:
        ways = [Found.short(member(made, "messages", f"lb_messages_{octets}", begun)), *others]
    return first_found(made, f"$lb_prompt_{kind}_{octets}", ways)


def cache_key(made: Assembly) -> Syntax:
    """Return the variable with the name that the body gives to a conversation."""
    return member(made, "prompt_cache_key", "lb_cache_key", json_regex.TEXT)


def opening(made: Assembly) -> Found:
    """Return what tells a conversation without a name: the system prompt and the first message after it."""
    system, first = _system(made), _first(made)
    return Found(Syntax(f"{system.text}{first.text}{first.text}_then"), first.is_there)


def _system(made: Assembly) -> Found:
    """Return the system prompt of those who write it beside the messages, as it is written."""
    return _read(made, ("system", "instructions"), "lb_system", json_regex.WHOLE)


def _first(made: Assembly) -> Found:
    """Return the first message, as it is written; a second one behind it where it is the system prompt."""
    return _read(made, ("messages", "input"), "lb_first", json_regex.LIST)


def _read(made: Assembly, keys: tuple[str, str], capture: str, kind: str) -> Found:
    """Return what the last of these members holds, of which a request has one."""
    for key in keys:
        is_there = member(made, key, capture, kind, "_is")
    return Found(Syntax(f"${capture}_raw"), is_there)


def text_member(made: Assembly, path: str) -> Syntax:
    """Return the variable with a text of the body at ``$.a`` or ``$.a.b``; empty: there is none, or it is."""
    outer, *inner = path.removeprefix("$.").split(".")
    value = json_regex.TEXT
    for name in reversed(inner):
        value = json_regex.inside(name, value)
    return member(made, outer, f"lb_member_{zlib.crc32(path.encode()):08x}", value)


def first_of(made: Assembly, name: str, variables: list[Syntax]) -> Syntax:
    """Return the variable with the first of these short texts that is not empty."""
    return first_found(made, name, list(map(Found.short, variables))).text


def first_found(made: Assembly, name: str, ways: list[Found]) -> Found:
    """Return the first of these texts that is there."""
    later = ways[-1]
    for number, way in list(enumerate(ways[:-1]))[::-1]:
        own = f"{name}_{number}" if number else name
        text = made.map(_source(way), own, [('""', _word(later)), ("default", _word(way))])
        later = Found(text, way.is_there + later.is_there)
    return later


def _source(found: Found) -> Syntax:
    return _quoted(found.is_there)


def _word(found: Found) -> Syntax:
    return _quoted(found.text)


def _quoted(variables: str) -> Syntax:
    """Return variables that stand side by side as one word."""
    return Syntax(variables if variables.count("$") == 1 else f'"{variables}"')
