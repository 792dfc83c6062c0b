"""From the text of a fleet file to a `Document`: YAML nodes that are sound, each with its place.

Sound means: keys are unique strings, ``<<`` is merged, nothing contains itself, scalars have
core-schema types. Whatever is not is a problem with a place, and is taken out, so that the
rest can still be checked in the same run.
"""

from __future__ import annotations

import gc
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from yaml import MappingNode, ScalarNode, YAMLError
from yaml._yaml import CParser

from lbgen.fleet.text.core_schema import BOOL, FLOAT, INT, MAP, NULL, SEQ, STR, core_tag
from lbgen.fleet.text.soundness import Soundness
from lbgen.fleet.text.yaml_errors import syntax_problem
from lbgen.problems import FleetError, Location, Problem
from lbgen.reading import read_text, readable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.fields import Struct
    from lbgen.problems import Path

Node = Any
"""A PyYAML node (the stubs lack `id`)."""


class Source(NamedTuple):
    """A fleet file: the name that problems show, and its text."""

    name: str
    text: str


class Document:
    """The nodes of one fleet file, or of several laid over one another, found by path."""

    __slots__ = ("_indices", "names", "root")

    def __init__(self, root: Node, names: tuple[str, ...] = ()) -> None:
        self.root = root
        self.names = names
        """The files that it was made from, in the order of laying over."""
        self._indices: dict[int, dict[str, tuple[Node, Node]]] = {}

    def written(self, path: Path) -> bool:
        """Tell whether a file (or ``--set``) has a value at this path."""
        return self._find(path)[1] == len(path)

    def node(self, path: Path) -> Node | None:
        """Return the node at this path, or None where nothing is written."""
        pair, depth = self._find(path)
        return pair[1] if depth == len(path) else None

    def locate(self, path: Path, on_key: bool = False) -> Location | None:
        """Return where a path stands, or else the nearest thing around it that was written.

        That is the value; the key for `on_key` and for a block that begins on a later line.
        """
        (key, value), depth = self._find(path)
        if value is None:
            return None
        on_key = (on_key and depth == len(path)) or _is_block_below(key, value)
        return location_of(key if on_key and key is not None else value)

    def plain(self) -> dict[str, Any]:
        """Return what is written as mappings, lists and scalars."""
        values: dict[str, Any] = _plain(self.root)
        return values

    def _find(self, path: Path) -> tuple[tuple[Node, Node], int]:
        """Return key and value of the deepest node on a path, and how many steps lead there."""
        pair = (None, self.root)
        for depth, step in enumerate(path):
            found = self._step(pair[1], step)
            if found is None:
                return pair, depth
            pair = found
        return pair, len(path)

    def _step(self, node: Node, step: str | int) -> tuple[Node, Node] | None:
        if isinstance(step, int):
            if node is None or node.id != "sequence":
                return None
            return (None, node.value[step]) if step < len(node.value) else None
        if node is None or node.id != "mapping":
            return None
        index = self._indices.get(id(node))
        if index is None:
            index = self._indices[id(node)] = {pair[0].value: pair for pair in node.value}
        return index.get(step)


def _plain(node: Node) -> Any:  # noqa: ANN401 - whatever YAML can say
    if node.id == "mapping":
        return {key.value: _plain(value) for key, value in node.value}
    if node.id == "sequence":
        return [_plain(item) for item in node.value]
    if node.tag == NULL:
        return None
    if node.tag == BOOL:
        return node.value.lower() == "true"
    if node.tag == INT:
        return int(node.value, 0)
    return float(node.value) if node.tag == FLOAT else node.value


def location_of(node: Node) -> Location:
    """Return where a node begins."""
    mark = node.start_mark
    return Location(mark.name, mark.line + 1, mark.column + 1)


def _is_block_below(key: Node, value: Node) -> bool:
    return key is not None and value.id != "scalar" and value.start_mark.line != key.start_mark.line


def read(source: Source) -> tuple[Node | None, list[Problem]]:
    """Return the root mapping of a file, None where there is none, with everything that is wrong in it."""
    text, problems = _cleaned(source)
    try:
        root = _Loader(_Stream(source.name, text)).get_single_node()
    except YAMLError as error:
        return None, [*problems, syntax_problem(error, text, source.name)]
    top = _top_problem(root, source.name)
    if top is not None:
        return None, [*problems, top]
    soundness = Soundness()
    soundness.check(root)
    problems += soundness.problems
    usable = not any(problem.code in ("too-deep", "too-many-aliases") for problem in problems)
    return root if usable else None, problems


def read_values(name: str, kind: Struct) -> dict[str, Any]:
    """Return what a YAML file of one mapping holds; raises `FleetError` with every problem."""
    with readable(name):
        text = read_text(name, encoding="utf-8-sig")
    root, problems = read(Source(name, text))
    values = kind.read(root, (), problems) if root is not None else None
    if problems:
        raise FleetError(problems)
    return kind.filled(values)


def parsed(source: Source) -> Node | None:
    """Return the nodes of a file as they are written, sound or not; None where it is not YAML."""
    try:
        return _Loader(_Stream(source.name, _cleaned(source)[0])).get_single_node()
    except YAMLError:
        return None


def read_value(name: str, text: str) -> tuple[Node | None, list[Problem]]:
    """Return one value of any type, as given on the command line; None where it cannot be read."""
    cleaned, problems = _cleaned(Source(name, text))
    try:
        node = _Loader(_Stream(name, cleaned)).get_single_node()
    except YAMLError as error:
        return None, [*problems, syntax_problem(error, cleaned, name)]
    if node is None:
        node = empty_node(name)
    soundness = Soundness()
    soundness.check(node)
    problems += soundness.problems
    return None if problems else node, problems


def empty_node(name: str) -> Node:
    """Return the node of an empty text."""
    return _Loader(_Stream(name, "~")).get_single_node()


@contextmanager
def paused_collector() -> Iterator[None]:
    """Pause the garbage collector while many nodes come into being.

    It would walk through all of them again and again: 970 ms in place of 327 for 10,000 servers.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def unix_lines(text: str) -> str:
    """Return a text without its byte order mark, and with one kind of line end."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _cleaned(source: Source) -> tuple[str, list[Problem]]:
    """Return the text with line ends as editors count them, and what may not stand in it replaced.

    The parser stops at a control character, and counts U+0085 and U+2028 as ends of lines, after
    which every line number is off by one for an editor.
    """
    text = unix_lines(source.text)
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text, []
    problems: list[Problem] = []
    forbidden = re.compile(
        "[^\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
    )

    def replacement(match: re.Match[str]) -> str:
        start = match.start()
        place = Location(source.name, text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start))
        message = f"the character U+{ord(match[0]):04X} is not allowed in a fleet file"
        problems.append(Problem("unsafe-text", message, location=place))
        return "\ufffd"

    return forbidden.sub(replacement, text), problems


def _top_problem(root: Node | None, name: str) -> Problem | None:
    if root is None or (root.id == "scalar" and not root.value):
        hint = 'the smallest fleet is: pools: {chat: {servers: ["gpu-0:8000"]}}'
        return Problem("empty-file", "the file is empty", hint=hint, location=Location(name, 1, 1))
    if root.id == "mapping":
        return None
    message = f"a fleet file is a mapping, not a {'list' if root.id == 'sequence' else 'single value'}"
    return Problem("not-a-mapping", message, hint="start it with 'pools:'", location=location_of(root))


class _Stream:
    """A text with a name, which every mark carries."""

    __slots__ = ("_text", "name")

    def __init__(self, name: str, text: str) -> None:
        self.name, self._text = name, text

    def read(self, _size: int = -1) -> str:
        """Return everything at once; the parser keeps what it does not need yet."""
        text, self._text = self._text, ""
        return text


class _Loader(CParser):
    """libyaml's parser and composer, with the core schema in place of YAML 1.1's types."""

    def resolve(self, kind: type, value: str, implicit: tuple[bool, bool]) -> str:
        """Return the tag of a node that has none."""
        if kind is ScalarNode:
            return core_tag(value) if implicit[0] else STR
        return MAP if kind is MappingNode else SEQ

    def descend_resolver(self, parent: object, index: object) -> None:
        """Do nothing: types do not depend on where a value stands."""

    def ascend_resolver(self) -> None:
        """Do nothing, likewise."""
