"""NGINX configuration as a tree of directives, includes followed, each directive with its file and line.

The words are crossplane's; the tree is made here, because it has to hold comments, columns, and what
could be read before the first error.
"""

from __future__ import annotations

import re
from functools import cached_property
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lbgen.problems import Location, Problem
from lbgen.readers.nginx_words import statements
from lbgen.reading import MIB, read_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.readers.nginx_words import Token

_LARGEST = 16 * MIB
"""Bytes of one file: more than any configuration has."""
_MOST_FILES = 5_000
"""How often includes lead to a file, the same one or another."""
_MOST_TEXT = 4 * _LARGEST
"""Characters of all that is read."""
_DEEPEST = 100
"""Blocks around one another: NGINX's own depth, a location in a location, hardly passes 5."""
_MOST_OPEN = 32
"""Files that include one another."""
_ESCAPED = re.compile(r"""\\(["'\\trn])""")
_ESCAPES = {"t": "\t", "r": "\r", "n": "\n"}


class _Written(NamedTuple):
    """What a directive consists of."""

    name: str
    args: tuple[str, ...]
    location: Location
    block: tuple[Directive, ...] | None = None
    """None: it ends with ';'."""
    comments: tuple[str, ...] = ()
    """The comments directly above it, and the one behind it on its line, without the '#'."""


class Directive(_Written):
    """A simple directive, or a block with the directives inside it."""

    @property
    def value(self) -> str:
        """The first argument; empty when there is none."""
        return self.args[0] if self.args else ""

    def parameter(self, name: str) -> str | None:
        """Return what follows ``name=`` among the arguments: ``max_fails`` of a server."""
        found = [arg.partition("=")[2] for arg in self.args if arg.startswith(f"{name}=")]
        return found[-1] if found else None

    def inside(self, *names: str) -> tuple[Directive, ...]:
        """Return the directives of these names that stand directly in the block."""
        found = [self._by_name[name] for name in dict.fromkeys(names) if name in self._by_name]
        if len(found) > 1:
            return tuple(sorted((one for several in found for one in several), key=self._place))
        return found[0] if found else ()

    def _place(self, one: Directive) -> int:
        return self._places[id(one)]

    @cached_property
    def _places(self) -> dict[int, int]:
        return {id(one): place for place, one in enumerate(self.block or ())}

    @cached_property
    def _by_name(self) -> dict[str, tuple[Directive, ...]]:
        """A block of thousands of servers is asked for what is not there, once for each of them."""
        found: dict[str, list[Directive]] = {}
        for one in self.block or ():
            found.setdefault(one.name, []).append(one)
        return {name: tuple(several) for name, several in found.items()}


class Level(NamedTuple):
    """A block and the blocks around it: what decides which value holds there."""

    chain: tuple[Directive, ...]
    """From the whole configuration (a block without name) to the block itself."""

    @property
    def block(self) -> Directive:
        return self.chain[-1]

    def all(self, *names: str) -> tuple[Directive, ...]:
        """Return the directives that hold here: those of the nearest level that has one of these names.

        So NGINX inherits: a level that has a ``proxy_set_header`` of its own takes none from outside.
        """
        for block in reversed(self.chain):
            found = block.inside(*names)
            if found:
                return found
        return ()

    def first(self, name: str) -> Directive | None:
        """Return the directive that holds here, or None where nobody wrote it."""
        found = self.all(name)
        return found[-1] if found else None

    def around(self, name: str) -> Directive | None:
        """Return the nearest block of this name: the ``server`` around a location."""
        return next((block for block in reversed(self.chain) if block.name == name), None)


class Nginx(NamedTuple):
    """A main file, or fragments of one, with everything that it includes."""

    root: Directive
    """A block without a name that holds the directives of the main context."""
    texts: dict[str, str]
    """Each file that was read, by the name that locations have."""
    problems: tuple[Problem, ...] = ()
    """What could not be read: ``unreadable-include``, ``configuration-syntax``."""

    @property
    def is_fragment(self) -> bool:
        """Tell whether it is a part of a configuration: it has no ``http`` or ``stream`` block."""
        return not self.root.inside("http", "stream", "events", "mail")

    def levels(self, *names: str) -> Iterator[Level]:
        """Yield every block (of these names), outermost first, in the order written."""
        for level in _levels((self.root,)):
            if not names or level.block.name in names:
                yield level

    def directives(self, *names: str) -> Iterator[tuple[Directive, Level]]:
        """Yield every directive (of these names) with the block that it stands in."""
        for level in _levels((self.root,)):
            for one in level.block.block or ():
                if not names or one.name in names:
                    yield one, level


def _levels(chain: tuple[Directive, ...]) -> Iterator[Level]:
    waiting = [chain]
    while waiting:
        here = waiting.pop()
        yield Level(here)
        waiting.extend((*here, one) for one in reversed(here[-1].block or ()) if one.block is not None)


def parse_nginx(name: str, text: str) -> Nginx:
    """Return the tree of a file, relative includes taken from its folder, as NGINX takes them.

    Errors are problems with a place; what was read before them is there.
    """
    reading = _Reading(name)
    block = reading.file(name, text)
    root = Directive("", (), Location(name, 1, 1), tuple(block))
    return Nginx(root, reading.texts, tuple(reading.problems))


def joined(parts: list[Nginx]) -> Nginx:
    """Return several fragments as one configuration, as a main file that includes them would read them."""
    texts: dict[str, str] = {}
    for part in parts:
        texts.update(part.texts)
    block = tuple(one for part in parts for one in part.root.block or ())
    problems = tuple(problem for part in parts for problem in part.problems)
    return Nginx(parts[0].root._replace(block=block), texts, problems)


class _Reading:
    """One main file and its includes."""

    def __init__(self, main: str) -> None:
        self._folder = Path(main).parent
        self._open_files: list[str] = []
        self._readings = 0
        self._length = 0
        self.depth = 0
        """Blocks around the place that is read, those of including files among them."""
        self.texts: dict[str, str] = {}
        self.problems: list[Problem] = []

    def file(self, name: str, text: str) -> list[Directive]:
        """Return the directives of one file, those of its includes in their place."""
        self.texts[name] = text
        self._readings += 1
        self._length += len(text)
        self._open_files.append(name)
        blocks = _tree(name, text, self)
        self._open_files.pop()
        return blocks

    def include(self, directive: Directive) -> list[Directive]:
        """Return what an ``include`` stands for."""
        found: list[Directive] = []
        for name in self._named(directive.value):
            text = self._text(name, directive.location)
            if text is not None:
                found += self.file(name, text)
        return found

    def _text(self, name: str, place: Location) -> str | None:
        """Return a file to be included; None for one that is not, which is then a problem."""
        if name in self._open_files:
            self.wrong(f"{name} includes itself", place)
        elif len(self._open_files) >= _MOST_OPEN:
            self.wrong(f"more than {_MOST_OPEN} files include each other", place)
        elif self._full:
            self._too_much(place)
        else:
            try:
                return read_text(name, errors="replace", most=_LARGEST)
            except OSError as error:
                message = f"{name} cannot be read: {error.strerror}"
                self.problems.append(Problem("unreadable-include", message, location=place))
        return None

    @property
    def _full(self) -> bool:
        return self._readings > _MOST_FILES or self._length > _MOST_TEXT

    def _too_much(self, place: Location) -> None:
        """Say once that the rest is left out."""
        what = f"more than {_MOST_FILES} files" if self._readings > _MOST_FILES else "too much text"
        message = f"includes lead to {what}, counted as often as they are included: the rest is not read"
        if all(problem.message != message for problem in self.problems):
            self.wrong(message, place)

    def _named(self, value: str) -> list[str]:
        """Return the files that an include names; the main file of ``conf.d`` lies one folder up."""
        folders = [self._folder]
        if re.fullmatch(r".+\.d|sites-\w+|snippets", self._folder.name):
            folders.append(self._folder.parent)
        for folder in folders:
            found = sorted(glob(str(folder / value)))  # noqa: PTH207 - patterns can be absolute
            if found:
                return found
        return [] if has_magic(value) else [str(self._folder / value)]

    def wrong(self, message: str, location: Location) -> None:
        """Note what NGINX would not accept."""
        self.problems.append(Problem("configuration-syntax", message, location=location))


def _tree(name: str, text: str, reading: _Reading) -> list[Directive]:
    """Return the directives of a file; blocks that are not closed end with the file."""
    top: list[Directive] = []
    open_blocks: list[tuple[Directive, list[Directive]]] = []
    outer = reading.depth
    for words, comments, end in statements(name, text, reading.wrong):
        inside = open_blocks[-1][1] if open_blocks else top
        if words:
            one = _directive(words, comments)
            if end is not None and end.text == "{":
                if reading.depth >= _DEEPEST:
                    reading.wrong(f"more than {_DEEPEST} blocks stand inside each other", one.location)
                    break
                reading.depth += 1
                open_blocks.append((one, []))
                continue
            if end is None or end.text == "}":
                reading.wrong(f"'{one.name}' has no ';'", one.location)
            inside.extend(reading.include(one) if one.name == "include" and one.args else [one])
        if end is not None and end.text == "}":
            if open_blocks:
                reading.depth -= 1
                _close(open_blocks, top)
            else:
                reading.wrong("unexpected '}'", end.location)
    while open_blocks:
        _close(open_blocks, top)
    reading.depth = outer
    return top


def _close(open_blocks: list[tuple[Directive, list[Directive]]], top: list[Directive]) -> None:
    one, inside = open_blocks.pop()
    (open_blocks[-1][1] if open_blocks else top).append(one._replace(block=tuple(inside)))


def _directive(words: tuple[Token, ...], comments: tuple[str, ...]) -> Directive:
    name = words[0].text
    args = (word.text for word in words[1:])
    if not name.endswith("_by_lua_block"):
        args = (_ESCAPED.sub(lambda one: _ESCAPES.get(one[1], one[1]), word) for word in args)
    return Directive(name, tuple(args), words[0].location, None, comments)
