"""Keys that an NGINX configuration compares requests with: which client, which header; never the key."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from lbgen.imports.draft import free_name
from lbgen.imports.nginx.pools.strategies import header_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.imports.nginx.reading import Reading
    from lbgen.problems import Location
    from lbgen.readers.nginx import Directive, Level

_REFUSALS = {"401", "403", "407"}


class Keys(NamedTuple):
    """The clients that pass one check."""

    header: str
    clients: tuple[tuple[str, Location], ...]
    """A name for each, and where its key stands."""
    place: Location


class _Test(NamedTuple):
    """The condition of an ``if``."""

    variable: str
    operator: str
    value: str


def keys_of(reading: Reading, level: Level) -> Keys | None:
    """Return the keys that a location asks for; None where it asks for none that can be understood."""
    found: Keys | None = None
    for block in _ifs(level):
        test = _test(block)
        returns = block.inside("return")
        if test is None or len(returns) != 1 or returns[0].value not in _REFUSALS:
            continue
        keys = _by_map(reading, test, block) if test.variable in reading.maps else _by_value(test, block)
        if keys is not None:
            reading.carry((block, *(block.block or ())))
            found = found or keys
    if found is not None:
        for block in _ifs(level):  # a check that there is a key at all
            test = _test(block)
            if test is not None and test.variable == _variable(found.header) and test.operator in {"", "="}:
                reading.carry((block, *(block.block or ())))
    return found


def _ifs(level: Level) -> Iterator[Directive]:
    for block in level.chain:
        yield from block.inside("if")


def _variable(header: str) -> str:
    return f"$http_{header.lower().replace('-', '_')}"


def _test(block: Directive) -> _Test | None:
    """Return the condition of ``if ($x != "y")``; ``if ($x)`` has no operator."""
    words = list(block.args)
    if not words or not words[0].startswith("("):
        return None
    words[0] = words[0][1:]
    words = words[1:] if not words[0] else words
    if words and words[-1].endswith(")"):
        last = words.pop()[:-1]
        words += [last] if last or len(words) == 2 else []
    if len(words) == 1:
        return _Test(words[0], "", "")
    return _Test(*words) if len(words) == 3 else None


def _by_value(test: _Test, block: Directive) -> Keys | None:
    """Return the key that a header is compared with directly."""
    if not test.variable.startswith("$http_") or test.operator not in {"!=", "!~"}:
        return None
    key = test.value if test.operator == "!=" else _literal(test.value)
    header = header_name(test.variable.removeprefix("$http_"))
    if not key or not _is_key(header, key):
        return None
    return Keys(header, (("client", block.location),), block.location)


def _by_map(reading: Reading, test: _Test, block: Directive) -> Keys | None:
    """Return the keys of a map whose default, or whose lack of the right value, is refused."""
    table = reading.maps[test.variable]
    source = table.args[0]
    if not source.startswith("$http_") or len(table.args) != 2:
        return None
    entries = [one for one in table.block or () if one.name not in {"default", "hostnames", "volatile"}]
    default = next((one.value for one in table.block or () if one.name == "default"), "")
    passing = [one for one in entries if _passes(test, one.value)]
    if _passes(test, default) or not passing:
        return None
    header = header_name(source.removeprefix("$http_"))
    if not all(_is_key(header, _key(one.name)) for one in passing):
        return None
    reading.carry((table, *(table.block or ())))
    clients: list[tuple[str, Location]] = []
    for one in passing:
        named = re.fullmatch(r"[A-Za-z][A-Za-z0-9._-]*", one.value)
        shared = sum(other.value == one.value for other in passing) > 1
        name = one.value if named and not shared else "client"
        clients.append((free_name(name, {taken for taken, _ in clients}), one.location))
    return Keys(header, tuple(clients), block.location)


def _passes(test: _Test, value: str) -> bool:
    """Tell whether the ``if`` lets a request with this value of the variable through."""
    if test.operator == "":
        return value in {"", "0"}
    if test.operator == "=":
        return value != test.value
    return test.operator == "!=" and value == test.value


def _key(text: str) -> str:
    return _literal(text.lstrip("~*")) if text.startswith("~") else text


def _literal(pattern: str) -> str:
    """Return the text that an anchored expression without choices is; empty for any other."""
    body = re.fullmatch(r"\^(.*)\$", pattern)
    if body is None or re.search(r"(?<!\\)[.*+?()\[\]{}|^$]", body[1].replace("\\", "\\\\", 0)):
        return ""
    return re.sub(r"\\(\W)", r"\1", body[1])


def _is_key(header: str, text: str) -> bool:
    """Tell whether lbgen asks for a key in the same form: ``Authorization: Bearer KEY``, or the key alone."""
    if not text or "$" in text:
        return False
    return header.lower() != "authorization" or bool(re.fullmatch(r"(?i)bearer \S+", text))
