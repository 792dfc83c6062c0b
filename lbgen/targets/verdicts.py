"""How a target says what it cannot do: degraded or refused, unless the user accepted it.

`targets.T.without` lists the keys whose loss is accepted; an entry that loses nothing is itself a warning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.problems import Problem, Severity, warning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import TargetSettings
    from lbgen.problems import Path


class Verdicts:
    """Collects one target's verdicts on one fleet."""

    def __init__(self, title: str, settings: TargetSettings) -> None:
        self.title = f"{title} {settings.version}"
        self._settings = settings
        self._accepted: set[str] = set()
        self._problems: list[Problem] = []

    def degraded(self, key: str, path: Path, reason: str, instead: str = "") -> None:
        """Note a warning: less protection, but the same requests on the same servers."""
        self._add(Problem("target-degraded", f"'{key}' {reason}", path, Severity.WARNING, instead), key)

    def refused(self, key: str, path: Path, reason: str, instead: str = "") -> None:
        """Note an error: it would change who is served, by whom, or in which order."""
        self._add(Problem("target-refused", f"'{key}' {reason}", path, Severity.ERROR, instead), key)

    def _add(self, problem: Problem, key: str) -> None:
        if key in self._settings.without:
            self._accepted.add(key)
            return
        accept = f"accept it with targets.{self._settings.name}.without: [{key}]"
        hint = f"{problem.hint}; or {accept}" if problem.hint else accept
        self._problems.append(problem._replace(message=f"{self.title}: {problem.message}", hint=hint))

    def problems(self) -> Iterator[Problem]:
        """Yield every verdict, and a warning for each acceptance that accepts nothing."""
        yield from self._problems
        for index, key in enumerate(self._settings.without):
            if key not in self._accepted:
                message = f"'{key}' loses nothing on {self.title}"
                path = (*self._settings.path, "without", index)
                yield warning("without-unused", message, path, "remove the entry")
