"""What a condition of HAProxy tests, in the words of a route."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lbgen.imports.secrets import is_secret_header

if TYPE_CHECKING:
    from lbgen.readers.haproxy import Line


class Term(NamedTuple):
    """One test of a request."""

    values: dict[str, Any]
    """Conditions of a route; what is only known here begins with ``:``."""
    negated: bool = False
    lines: tuple[Line, ...] = ()
    """The ACLs that it comes from."""
    note: str = ""


class Condition(NamedTuple):
    """Alternatives of tests that all have to hold; None stands for a test that no route has."""

    alternatives: tuple[tuple[Term | None, ...], ...]
    lines: tuple[Line, ...]

    @property
    def is_always(self) -> bool:
        return self.alternatives == ((),)

    @property
    def terms(self) -> list[Term]:
        """All tests that were understood."""
        return [term for terms in self.alternatives for term in terms if term is not None]

    def only(self, key: str) -> Term | None:
        """Return the one test of this condition, if it is of this kind."""
        if len(self.alternatives) == 1 and len(self.alternatives[0]) == 1:
            term = self.alternatives[0][0]
            if term is not None and set(term.values) == {key}:
                return term
        return None

    def routes(self) -> list[dict[str, Any]] | None:
        """Return conditions of routes that together hold when this does; None where no route can say it."""
        found: list[dict[str, Any]] = []
        for terms in self.alternatives:
            made: dict[str, Any] = {}
            for term in terms:
                if term is None or term.negated or _has_key(term.values) or not _joined(made, term.values):
                    return None
            found += _one_kind_of_path(made)
        return found


def _has_key(values: dict[str, Any]) -> bool:
    """Tell whether a test compares with a key, which no route holds."""
    pairs = [*values.get("header", {}).items(), *values.get("query", {}).items()]
    return any(is_secret_header(name, value) for name, value in pairs)


def _joined(made: dict[str, Any], values: dict[str, Any]) -> bool:
    """Add tests to a route's conditions; return False for what a route cannot have or has already."""
    for key, value in values.items():
        if key.startswith(":"):
            return False
        if key == "header" and key in made:
            made[key] = {**made[key], **value}
        elif key in made and made[key] != value:
            return False
        else:
            made[key] = value
    return True


def _one_kind_of_path(made: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a route for prefixes and one for whole paths, where there are both."""
    if "path" in made and "path_exact" in made:
        return [
            {key: value for key, value in made.items() if key != other} for other in ("path_exact", "path")
        ]
    return [made]
