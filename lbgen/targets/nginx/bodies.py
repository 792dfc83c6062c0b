"""What NGINX finds in a request's body, with maps alone.

`$request_body` is empty until something reads the body, and a variable in `proxy_pass` is asked too early
(seen on 1.22.1: the default is taken without a word). A `mirror` makes NGINX read it first; the request then
falls through to "no such file", and that error's page is the location that the maps choose. `try_files` would
come before the mirror (seen on 1.22.1, 1.26.3 and 1.30.6).
A body longer than the buffer goes to a file, where no map sees it: `hidden` tells.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from lbgen.targets.nginx.quoting import escape_regex, regex_word

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.targets.nginx.assembly import Assembly
    from lbgen.targets.spec import Syntax

# JSON as a regular expression: each piece begins with a character that ends the one before, so that no
# body can make it search twice. Nesting is written out: recursion, possessive quantifiers and atomic groups
# would be shorter, but a configuration auditor (gixy-ng) gives up on a file that has them, and on brackets
# behind a backslash.
_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_DEPTH = 16
"""Objects and lists inside each other. What is nested deeper is taken as unreadable, see `hidden`."""


def _nested(depth: int) -> str:
    """Return a regular expression for an object or a list with everything in it."""
    inner = f"(?:{_STRING}|{_nested(depth - 1)})" if depth else _STRING
    between = '[^][{}"]*'
    return f"[{{[]{between}(?:{inner}{between})*[]}}]"


_NESTED = _nested(_DEPTH)
_VALUE = rf'(?:{_STRING}|{_NESTED}|[^][{{}}",\s]+)'
_MEMBERS = rf"(?s)^\s*\{{\s*(?:{_STRING}\s*:\s*{_VALUE}\s*,\s*)*?"
"""The beginning of a JSON object, up to some member of its own, not of an object inside it or of a text."""


def _member(keys: str, value: str) -> str:
    return rf'~{_MEMBERS}"(?:{keys})"\s*:\s*{value}'


def model(made: Assembly) -> Syntax:
    """Return the variable with the body's ``model``, its escapes left as they are; empty: none found."""
    pattern = regex_word(_member("model", r'"(?<lb_model_raw>[^"\\]*(?:\\.[^"\\]*)*)"'))
    return made.map("$request_body", "$lb_model", [("default", '""'), (pattern, "$lb_model_raw")])


def max_tokens(made: Assembly) -> Syntax:
    """Return the variable with the most tokens that the request allows; empty: it does not say."""
    pattern = regex_word(_member("max_tokens|max_completion_tokens", r"(?<lb_tokens_raw>\d+)"))
    return made.map("$request_body", "$lb_max_tokens", [("default", '""'), (pattern, "$lb_tokens_raw")])


def hidden(made: Assembly, most: int | None) -> Syntax:
    """Return the variable that is 1 where the body cannot be read: too long, compressed, or too entangled.

    Entangled: it has a member of that name that was not found where it counts. `most`: bytes that are looked
    at, where the buffer holds more.
    """
    if most is not None:
        return _within(made, hidden(made, None), most)
    missed = made.flag("$request_body", [("default", "0"), (regex_word(r'~"model"\s*:'), "1")])
    entries = [
        ("default", "1"),
        (regex_word("~^:(?:identity)?:.+:"), "0"),
        (regex_word("~^:(?:identity)?::0$"), "0"),
    ]
    source = f'"$request_body_file:$http_content_encoding:{model(made)}:{missed}"'
    return made.map(source, "$lb_body_hidden", entries)


def _within(made: Assembly, unreadable: Syntax, most: int) -> Syntax:
    entries = [("default", "0"), (regex_word(f"~^1|:(?:{over_regex(most - 1)})$"), "1")]
    return made.map(f'"{unreadable}:$content_length"', f"$lb_body_hidden_{most}", entries)


def unknown_model(made: Assembly) -> Syntax:
    """Return the variable that names the answer where no route fits: unknown model, or no route."""
    entries = [('""', "lb-not-found"), ("default", "lb-model-not-found")]
    return made.map(model(made), "$lb_unknown", entries)


def model_regex(globs: Iterable[str]) -> str:
    """Return a regular expression for models' names with `*` and `?`; a slash may be escaped, as PHP does."""
    return "|".join("".join(map(_glob_regex, glob)) for glob in globs)


def _glob_regex(character: str) -> str:
    special = {"*": ".*", "?": ".", "/": r"\\?/"}
    return special.get(character) or escape_regex(character)


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


def prompt_key(made: Assembly, kind: str, octets: int) -> Syntax:
    """Return the variable with the part of the body by which a prompt is told: empty where there is none.

    ``system_prompt``: Anthropic's ``system``, else the first message; ``first_bytes``: the beginning of the
    messages. For completions without messages, the beginning of the prompt in both cases.
    """
    name = f"$lb_prompt_{kind}_{octets}"
    raw = f"lb_raw_{kind}_{octets}"
    cut = min(octets, 60_000)
    whole = [
        _member("system", rf"(?<{raw}>{_STRING}|{_nested(8)})"),
        _member("messages", rf"[[]\s*(?<{raw}>{_nested(4)})"),
    ]
    begun = [_member("messages", rf"(?<{raw}>[[].{{1,{cut}}})")]
    prompt = [_member("prompt|input", rf"(?<{raw}>.{{1,{cut}}})")]
    patterns = (whole if kind == "system_prompt" else begun) + prompt
    entries = [(regex_word(pattern), f"${raw}") for pattern in patterns]
    return made.map("$request_body", name, [("default", '""'), *entries])


def text_member(made: Assembly, path: str) -> Syntax:
    """Return the variable with a text of the body at ``$.a`` or ``$.a.b``; empty: there is none, or it is."""
    number = zlib.crc32(path.encode())
    raw = f"lb_member_{number:08x}_raw"
    value = rf'"(?<{raw}>[^"\\]*(?:\\.[^"\\]*)*)"'
    outer, *inner = (escape_regex(name) for name in path.removeprefix("$.").split("."))
    for name in inner:
        member = rf'{_STRING}\s*:\s*(?:{_STRING}|{_nested(4)}|[^][{{}}",\s]+)'
        value = rf'\{{\s*(?:{member}\s*,\s*)*?"{name}"\s*:\s*{value}'
    pattern = regex_word(_member(outer, value))
    return made.map("$request_body", f"$lb_member_{number:08x}", [("default", '""'), (pattern, f"${raw}")])
