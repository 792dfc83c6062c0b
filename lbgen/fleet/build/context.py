"""What every part of building a fleet needs at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from lbgen.fields import INVALID, nearest
from lbgen.problems import Problem, path_text
from lbgen.vocabulary import Origins

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lbgen.problems import Location, Path


class Origin(Origins, Protocol):
    """The merged fleet file: it knows where each value is from."""

    @property
    def root(self) -> Any:  # noqa: ANN401 - PyYAML's stubs lack a node's `id`
        """The mapping node at the top."""

    def locate(self, path: Path, on_key: bool = False) -> Location | None:
        """Return where a value, or its key, was written."""


class Context:
    """The fleet's names, and the problems found so far."""

    __slots__ = ("clients", "document", "pools", "problems", "values")

    def __init__(self, values: Mapping[str, Any], document: Origin) -> None:
        self.values = values
        self.document = document
        self.problems: list[Problem] = []
        self.pools = tuple(usable(values.get("pools"), {}))
        self.clients = tuple(usable(values.get("clients"), {}))

    def error(self, code: str, message: str, path: Path, hint: str = "", on_key: bool = False) -> None:
        """Note an error; it is placed later, by its path."""
        self.problems.append(Problem(code, message, path, hint=hint, on_key=on_key))

    def needs_pair(self, values: Mapping[str, Any], one: str, other: str, path: Path, hint: str = "") -> None:
        """Complain where only one of two keys is there that need each other."""
        for there, missing in ((one, other), (other, one)):
            if there in values and missing not in values:
                message = f"'{there}' needs '{missing}' beside it"
                self.error("missing-key", message, (*path, there), hint, on_key=True)

    def known_pool(self, name: str, path: Path, on_key: bool = False) -> bool:
        """Tell whether there is a pool of this name, and complain if not."""
        return name in self.pools or self._unknown("pool", name, self.pools, path, on_key)

    def known_client(self, name: str, path: Path) -> bool:
        """Tell whether there is a client of this name, and complain if not."""
        return name in self.clients or self._unknown("client", name, self.clients, path)

    def refused(self, path: Path) -> bool:
        """Tell whether there is a value at this path that was refused, or that holds one."""
        value: Any = self.values
        for step in path:
            if value is INVALID:
                return True
            value = value.get(step) if isinstance(value, dict) else None
        return value is INVALID or (isinstance(value, list) and INVALID in value)

    def place(self, path: Path) -> str:
        """Return where a value was written, for messages that name a second place."""
        location = self.document.locate(path)
        return str(location) if location else path_text(path)

    def _unknown(self, what: str, name: str, known: Iterable[str], path: Path, on_key: bool = False) -> bool:
        likely = nearest(name, known)
        hint = f"did you mean '{likely}'?" if likely else f"the {what}s are: {', '.join(known) or 'none'}"
        self.error(f"unknown-{what}", f"there is no {what} '{name}'", path, hint, on_key)
        return False


def usable(value: Any, default: Any) -> Any:  # noqa: ANN401 - values have the types of their kinds
    """Return a value, or the default where it is missing or was refused."""
    return default if value is None or value is INVALID else value


def items(values: Mapping[str, Any], key: str) -> list[Any]:
    """Return a list's entries, but those that were refused."""
    return [item for item in usable(values.get(key), ()) if item is not INVALID]
