"""An nginx.conf that somebody else wrote, written again with the addresses and files of a trial."""

from __future__ import annotations

import re
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from lbgen.readers.nginx import Directive
from lbgen.targets.foreign import NOWHERE, Moved
from lbgen.targets.nginx.process.program import TEMPORARY
from lbgen.targets.nginx.reading.foreign_addresses import PASSES, address_of, bind_of, passed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lbgen.problems import Location
    from lbgen.readers.nginx import Nginx
    from lbgen.targets.foreign import Elsewhere

_LEFT_OUT = {"daemon", "pid", "user", "lock_file", "working_directory", "master_process", "ssl_stapling",
             "ssl_stapling_verify", *(f"{name}_temp_path" for name in TEMPORARY)}  # fmt: skip
"""What is the trial's own matter, or would ask somebody outside of it."""
_TRUST = {"ssl_client_certificate", "ssl_trusted_certificate", "proxy_ssl_trusted_certificate",
          "grpc_ssl_trusted_certificate"}  # fmt: skip
_CACHES = {"proxy_cache_path", "fastcgi_cache_path", "uwsgi_cache_path", "scgi_cache_path"}
_LITERAL = re.compile(r"(?P<host>\[[0-9A-Fa-f:]+\]|[A-Za-z0-9][A-Za-z0-9.-]*):(?P<port>\d{1,5})(?!\d)")
_BARE = re.compile(r"""(?:[^\s;{}"'#\\]|\\(?!["'\\trn\s;{}]|$))+""")
_READ = re.compile(r"""\\(?=["'\\trn]|$)""")
"""A backslash that NGINX would not leave as it is."""


class _Line(NamedTuple):
    text: str
    place: Location | None


def moved(tree: Nginx, groups: frozenset[str], there: Elsewhere) -> Moved:
    """Return the tree as text; `groups`: the names of its upstreams."""
    moving = _Moving(groups, there)
    root = moving.block(tree.root)
    lines = [*_frame(root, there, fragment=tree.is_fragment)]
    text = "".join(f"{line.text}\n" for line in lines)
    return Moved(text, [line.place for line in lines], moving.changes)


class _Moving:
    """Changes directives that name an address or a file; all others stay."""

    def __init__(self, groups: frozenset[str], there: Elsewhere) -> None:
        self._groups = groups
        self._there = there
        self._files = count(1)
        self.changes: list[str] = []
        self._table: dict[str, Callable[[Directive], list[Directive]]] = {
            **dict.fromkeys(_LEFT_OUT, self._without),
            **dict.fromkeys(PASSES, self._passing),
            **dict.fromkeys(_CACHES, self._storing),
            **dict.fromkeys(_TRUST, lambda one: self._changed(one, there.authority)),
            "listen": self._listening,
            "access_log": self._storing,
            "error_log": lambda one: self._changed(one, "stderr", *one.args[1:]),
            "resolver": lambda one: self._changed(one, NOWHERE, *(word for word in one.args if "=" in word)),
            "set": self._valued,
        }

    def block(self, one: Directive) -> Directive:
        """Return a block with all that stands in it changed."""
        inside = [made for inner in one.block or () for made in self._directive(inner, one.name)]
        if one.name == "server" and not one.inside("listen"):
            inside.insert(0, Directive("listen", (str(self._there.binds["*:80"]),), one.location))
        return one._replace(block=tuple(inside))

    def _directive(self, one: Directive, above: str) -> list[Directive]:
        if one.block is not None:
            return [self.block(one)]
        if above == "upstream" and one.name == "server":
            return self._changed(one, self._door(address_of(one.value)), *one.args[1:])
        if above == "map":
            return self._valued(one)
        return self._table.get(one.name, self._filed)(one)

    def _changed(self, one: Directive, *args: str) -> list[Directive]:
        made = one._replace(args=args)
        if made.args != one.args:
            self.changes.append(f"{one.location}: {_words(one)} -> {_words(made)}")
        return [made]

    def _without(self, one: Directive) -> list[Directive]:
        self.changes.append(f"{one.location}: {_words(one)} -> left out")
        return []

    def _door(self, address: str) -> str:
        found = self._there.doors.get(address)
        return str(found) if found else NOWHERE

    def _listening(self, one: Directive) -> list[Directive]:
        if "quic" in one.args:
            return self._without(one)
        rest = [word for word in one.args[1:] if not word.startswith("ipv6only=")]
        return self._changed(one, str(self._there.binds[bind_of(one)]), *rest)

    def _passing(self, one: Directive) -> list[Directive]:
        parts = passed(one)
        if not parts.host or parts.host in self._groups:
            return [one]
        scheme = f"{parts.scheme}://" if parts.scheme else ""
        there = self._door(address_of(parts.host, parts.scheme))
        return self._changed(one, scheme + there + parts.rest, *one.args[1:])

    def _valued(self, one: Directive) -> list[Directive]:
        """Put other addresses into the value of a variable."""
        if not one.args:
            return [one]
        last = _LITERAL.sub(lambda found: self._door(found[0].lower()), one.args[-1])
        return self._changed(one, *one.args[:-1], last)

    def _storing(self, one: Directive) -> list[Directive]:
        """Let logs and caches be written into the trial's folder."""
        if one.value == "off":
            return [one]
        return self._changed(one, f"{self._there.folder}/{one.name}-{next(self._files)}", *one.args[1:])

    def _filed(self, one: Directive) -> list[Directive]:
        """Name a file by the place where it is."""
        if not one.args or one.value not in self._there.files:
            return [one]
        path = self._there.files[one.value]
        if path == self._there.authority and one.name == "ssl_dhparam":
            return self._without(one)
        return self._changed(one, path)


def _frame(root: Directive, there: Elsewhere, *, fragment: bool) -> Iterator[_Line]:
    if there.user:
        yield _Line(f"user {there.user};", None)
    block = root.block or ()
    if fragment:
        yield _Line("worker_processes auto;", None)
        yield _Line("events { worker_connections 1024; }", None)
        block = (Directive("http", (), root.location, block),)
    for one in block:
        if one.name == "http":
            one = one._replace(block=(*_temporary(one, there), *(one.block or ())))  # noqa: PLW2901
        yield from _written(one, 0)
    if not any(one.name == "events" for one in block) and not fragment:
        yield _Line("events { }", None)


def _temporary(http: Directive, there: Elsewhere) -> Iterator[Directive]:
    """Yield where temporary files go: the folders that were compiled in are root's."""
    built = there.ask(["-V"])
    for name in TEMPORARY:
        if f"--without-http_{name}_module" not in built:
            yield Directive(f"{name}_temp_path", (f"{there.folder}/{name}",), http.location)


def _written(one: Directive, depth: int) -> Iterator[_Line]:
    indent = "    " * depth
    if one.name.endswith("_by_lua_block") and one.args:
        text = " ".join([indent + one.name, *map(_word, one.args[:-1]), f"{{{one.args[-1]}}}"])
    else:
        text = indent + _words(one) + (";" if one.block is None else " {")
    for line in text.split("\n"):
        yield _Line(line, one.location)
    if one.block is not None:
        for inner in one.block:
            yield from _written(inner, depth + 1)
        yield _Line(f"{indent}}}", one.location)


def _words(one: Directive) -> str:
    return " ".join(map(_word, (one.name, *one.args)))


def _word(text: str) -> str:
    """Return a word as it has to be written to mean this text."""
    if _BARE.fullmatch(text):
        return text
    escaped = _READ.sub(r"\\\\", text).replace('"', '\\"')
    for letter, meant in (("n", "\n"), ("r", "\r"), ("t", "\t")):
        escaped = escaped.replace(meant, f"\\{letter}")
    return f'"{escaped}"'
