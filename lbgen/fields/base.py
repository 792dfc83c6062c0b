"""What every kind of value shares: how it reads a YAML node and says what is wrong, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lbgen.problems import Location, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.problems import Path

MAX_TEXT = 4096
"""The most characters that one text of a fleet file may have."""

_TAG = "tag:yaml.org,2002:"
STR, INT, FLOAT, BOOL, NULL = (_TAG + name for name in ("str", "int", "float", "bool", "null"))


Value = Any
"""What a field holds once it is read: every kind has its own type."""

Node = Any
"""A PyYAML node, of which `id`, `tag`, `value` and `start_mark` are used (the stubs lack `id`)."""


class _Invalid:
    """The type of `INVALID`."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "INVALID"


INVALID: Any = _Invalid()
"""Stands for a value that was refused, so that nobody complains about it a second time."""


class Kind:
    """A kind of value: it reads itself from a YAML node, and describes itself."""

    __slots__ = ()

    def read(self, node: Node, path: Path, problems: list[Problem]) -> Value:
        """Return the value; or `INVALID`, with every problem appended and placed."""
        raise NotImplementedError

    def schema(self) -> dict[str, Any]:
        """Return a draft-07 JSON Schema of what may be written."""
        raise NotImplementedError

    def describe(self) -> str:
        """Return the kind in words, fit for "must be …"."""
        raise NotImplementedError

    def written(self, value: Value) -> Value:
        """Return a value as a fleet file would write it; its opposite is `read`."""
        return value

    def hint(self, node: Node) -> str:  # noqa: ARG002 - kinds with advice use it
        """Return advice for a node of the wrong type."""
        return ""


class Field(NamedTuple):
    """One key of a mapping with fixed keys: what it holds and what it is for."""

    name: str
    kind: Kind
    default: Any = None
    """As `Kind.read` would return it; None: no default, or one that depends on other values."""
    doc: str = ""
    unit: str = ""
    example: Any = None
    """As one would write it."""
    required: bool = False
    default_doc: str = ""
    """The default in words, where it depends on other values."""
    instead_of: tuple[str, ...] = ()
    """What people who know other programs call it; for suggestions only."""


def location_of(node: Node) -> Location:
    """Return where a node begins."""
    mark = node.start_mark
    return Location(mark.name, mark.line + 1, mark.column + 1)


def refuse(problems: list[Problem], node: Node, problem: Problem) -> Value:
    """Append a problem, placed at a node, and return `INVALID`."""
    problems.append(problem._replace(location=location_of(node)))
    return INVALID


def wrong_type(kind: Kind, node: Node, path: Path, problems: list[Problem]) -> Value:
    """Refuse a node of the wrong type: say what it has to be and what was found."""
    if node.tag == NULL:
        message = f"{label(path)} has no value: write {kind.describe()}, or remove the key"
        return refuse(problems, node, Problem("wrong-type", message, path))
    message = f"{label(path)} must be {kind.describe()}, not {found(node)}"
    return refuse(problems, node, Problem("wrong-type", message, path, hint=kind.hint(node)))


def bad_value(message: str, node: Node, path: Path, problems: list[Problem], hint: str = "") -> Value:
    """Refuse a value of the right type."""
    return refuse(problems, node, Problem("bad-value", f"{label(path)}: {message}", path, hint=hint))


def label(path: Path) -> str:
    """Return the end of a path as one would say it: ``'servers[0]'``."""
    if not path:
        return "the file"
    indices = ""
    for part in reversed(path):
        if isinstance(part, str):
            return f"'{shown(part)}{indices}'"
        indices = f"[{part}]{indices}"
    return indices


def found(node: Node) -> str:
    """Return what a node is, in words."""
    if node.id == "mapping":
        return "a mapping"
    if node.id == "sequence":
        return "a list"
    names = {
        STR: "the string",
        INT: "the number",
        FLOAT: "the decimal number",
        BOOL: "the boolean",
        NULL: "empty",
    }
    return f"{names.get(node.tag, 'the value')} {shown(node.value)}".strip()


def shown(text: str, limit: int = 60) -> str:
    """Return a text fit for a message: on one line, without control characters, not too long."""
    if not text.isprintable():
        text = "".join(
            character if character.isprintable() else f"\\u{ord(character):04x}" for character in text[:limit]
        )
    return text if len(text) <= limit else text[:limit] + "…"


def nearest(word: str, known: Iterable[str], alike: float = 0.6) -> str:
    """Return the known word that is most like a mistyped one, or an empty string.

    `alike`: from 0 to 1 for the same, as difflib measures it.
    """
    # difflib takes 4 ms to import, which only a mistake should cost.
    from difflib import get_close_matches  # noqa: PLC0415

    normal = {name.lower().replace("-", "_"): name for name in known}
    matches = get_close_matches(word[:80].lower().replace("-", "_"), normal, 1, alike)
    return normal[matches[0]] if matches else ""
