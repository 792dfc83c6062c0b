"""Changed lines in words: what they are about, and where one took another's place, from what to what."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_TOPICS = (
    (r"^(ssl|proxy_ssl|load crt)|\bssl crt\b|Strict-Transport|ca-file", "TLS"),
    (r"^(listen|bind|server_name)\b|lb_host\b", "addresses"),
    (r"limit_(req|conn)|track-sc|\bsc\d?_|sc-inc|stick-table|body_size|content-length|conn_cur", "limits"),
    (r"next_upstream|\bretr|redispatch", "retries"),
    (r"timeout", "timeouts"),
    (r"check\b", "health"),
    (r"\bqueue\b", "queue"),
    (r"^keepalive|http-reuse|pool-max-conn|^http2", "connections"),
    (r"lb_(client|key|denied|bearer)", "clients"),
    (r"log", "logs"),
    (
        r"use_backend|lb_route|lb_model|lb_pool|proxy_pass|^return|lb_share|split|^acl|lb_decoded|try_files",
        "routes",
    ),
    (r"header|X-", "headers"),
)
"""What a line is about, by the first pattern that is found in it."""
_BINDS = ("listen ", "bind ")
_LONGEST, _HEAD = 70, 6


def section_words(old: Mapping[str, tuple[str, ...]], new: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """Yield what became of sections: new ones, those that are gone, and what changed in the others."""
    for title, lines in new.items():
        if title in old:
            yield from (f"{title}: {words}" for words in _changed(old[title], lines))
        elif not _within(title, new, old):
            yield " ".join(filter(None, [f"{title}: new", _places(lines)]))
    for title, lines in old.items():
        if title not in new and not _within(title, old, new):
            yield " ".join(filter(None, [f"{title}: removed", _places(lines)]))


def _changed(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    before, after = _places(old), _places(new)
    if before != after:
        yield f"address {before} → {after}"
        old, new = _placeless(old), _placeless(new)
    yield from line_words(old, new)


def _within(title: str, here: Mapping[str, object], there: Mapping[str, object]) -> bool:
    """Tell whether a section is part of one that comes or goes as a whole."""
    whole = title.partition(", ")[0]
    return whole != title and whole in here and whole not in there


def _places(lines: Sequence[str]) -> str:
    """Return the addresses that a listener binds, the IPv6 half of a port alone left out."""
    places = [line.split()[1].rstrip(";") for line in lines if line.startswith(_BINDS)]
    ports = {place for place in places if place.isdecimal()}
    told = (place for place in places if place in ports or place.removeprefix("[::]:") not in ports)
    return ", ".join(dict.fromkeys(told))


def _placeless(lines: Sequence[str]) -> list[str]:
    """Return the lines, of those that bind only how; each once, for there may be more addresses now."""
    bare = (" ".join(line.split()[2:]) if line.startswith(_BINDS) else line for line in lines)
    return list(dict.fromkeys(filter(None, bare)))


def line_words(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """Yield what became of the lines, one text for each thing that they are about."""
    gone, come = Counter(old) - Counter(new), Counter(new) - Counter(old)
    if not gone and not come:
        if tuple(old) != tuple(new):
            yield "the same lines in another order"
        return
    before, after = _by_topic(gone), _by_topic(come)
    for topic in dict.fromkeys([*before, *after]):
        yield f"{topic}: {_difference(before.get(topic, []), after.get(topic, []))}"


def _by_topic(lines: Mapping[str, int]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in lines:
        topic = next((name for pattern, name in _TOPICS if re.search(pattern, line)), "settings")
        found.setdefault(topic, []).append(line.rstrip(";") or line)
    return found


def _difference(gone: list[str], come: list[str]) -> str:
    if len(gone) == len(come) == 1 and (words := _from_to(gone[0].split(), come[0].split())):
        return words
    if len(gone) + len(come) == 1 and len((gone or come)[0]) <= _LONGEST:
        return f"{'+' if come else '-'} {(gone or come)[0]}"
    return counted(len(come), len(gone), "line")


def counted(come: int, gone: int, noun: str) -> str:
    """Return ``1 line added, 2 removed``, without what did not happen."""
    first = come or gone
    text = f"{first} {noun}{'s' if first > 1 else ''} {'added' if come else 'removed'}"
    return f"{text}, {gone} removed" if come and gone else text


def _from_to(gone: list[str], come: list[str]) -> str:
    """Return ``timeout server 10m → 30m``; empty for lines that have little in common, or are long."""
    if gone[0] != come[0]:
        return ""
    head, tail = _alike(gone, come), _alike(gone[::-1], come[::-1])
    tail = min(tail, len(gone) - head, len(come) - head)
    old, new = (" ".join(words[head : len(words) - tail]) or "-" for words in (gone, come))
    begin = " ".join(gone[:head]) if head <= _HEAD else f"{gone[0]} … {gone[head - 1]}"
    text = f"{begin} {old} → {new}"
    return text if len(text) <= _LONGEST * 2 else ""


def parameter_words(old: Sequence[str], new: Sequence[str]) -> str:
    """Return what differs between two rows of parameters: ``fall 3 → 7``, ``+ id 5``, ``- check``."""
    head, tail = _alike(old, new), _alike(old[::-1], new[::-1])
    tail = min(tail, len(old) - head, len(new) - head)
    gone, come = (" ".join(words[head : len(words) - tail]) for words in (old, new))
    if not gone or not come:
        return f"- {gone}" if gone else f"+ {come}"
    return f"{old[head - 1]} {gone} → {come}" if head else f"{gone} → {come}"


def _alike(one: Sequence[str], other: Sequence[str]) -> int:
    """Return with how many equal words both begin."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (left, right) in pairs if left != right), min(len(one), len(other)))
