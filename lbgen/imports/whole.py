"""From what a user names to the text of a fleet file that loads, and the fate of each directive."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from lbgen.fleet.load import load
from lbgen.fleet.source import Source
from lbgen.fleet.yaml_flow import Reference
from lbgen.imports.draft import Draft, Said
from lbgen.imports.haproxy.whole import read_haproxy
from lbgen.imports.ledger import Entry, Ledger
from lbgen.imports.nginx.whole import read_nginx
from lbgen.imports.text import fleet_text
from lbgen.problems import LbgenError, Problem, path_text
from lbgen.readers.files import read_configurations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lbgen.imports.draft import Tree
    from lbgen.problems import Location, Path

_NAME = "fleet.yaml"


class Imported(NamedTuple):
    """What became of configurations."""

    tree: Tree
    entries: tuple[Entry, ...]
    problems: tuple[Problem, ...]
    """What could not be read of the configurations, and what is wrong with the fleet still."""
    secrets: tuple[tuple[str, str, Location], ...]
    """References that have to be filled: ``env:NAME``, what it is, and where the secret stood."""
    texts: dict[str, str]
    """The files that were read."""

    def text(self, *, comments: bool) -> str:
        """Return the fleet file. `comments`: it says where each value is from, and what it lacks."""
        return fleet_text(self.tree, _head(self) if comments else (), origins=comments)


def import_configurations(paths: Sequence[str]) -> Imported:
    """Return the fleet that configurations describe; raises `LbgenError` where there is none in them."""
    found = read_configurations(paths)
    draft, ledger = Draft(), Ledger()
    if found.nginx:
        read_nginx(found.nginx, draft, ledger)
    if found.haproxy is not None:
        read_haproxy(found.haproxy, draft, ledger)
    texts: dict[str, str] = {}
    problems: list[Problem] = []
    for one in (*found.nginx, *([found.haproxy] if found.haproxy else [])):
        texts |= one.texts
        problems += one.problems
    if not draft.pools:
        names = ", ".join(paths)
        raise LbgenError(f"{names}: no server of a pool is named there, so there is no fleet to make of it")
    tree = draft.tree()
    problems += _mended(tree, ledger)
    return Imported(tree, ledger.entries(), tuple(problems), tuple(draft.secrets), texts)


def _mended(tree: Tree, ledger: Ledger) -> list[Problem]:
    """Take out of the draft what a fleet may not say, and note it; return the errors that remain."""
    for _ in range(100):
        text = fleet_text(tree, (), origins=False)
        loaded = load([Source(_NAME, text)], environ=_stand_ins(text))
        errors = [problem for problem in loaded.problems if problem.is_error]
        if not errors or not any(_take_out(tree, problem, ledger) for problem in errors):
            return errors
    return errors


def _take_out(tree: Tree, problem: Problem, ledger: Ledger) -> bool:
    """Remove the value that an error is about; return whether there was one that can be missed."""
    node: Any = tree
    for depth, step in enumerate(problem.path):
        inner = node.get(step) if isinstance(node, dict) else node[step] if _within(node, step) else None
        if isinstance(inner, Said):
            return _without(node, step, inner, problem, problem.path[depth + 1 :], ledger)
        if inner is None:
            return False
        node = inner
    return False


def _within(node: Any, step: str | int) -> bool:  # noqa: ANN401 - a list of values
    return isinstance(node, list) and isinstance(step, int) and step < len(node)


def _without(  # noqa: PLR0913, PLR0917 - one value each
    node: Any, step: str | int, said: Said, problem: Problem, rest: Path, ledger: Ledger  # noqa: ANN401
) -> bool:
    if said.place is not None:
        ledger.left(said.place, f"{path_text(problem.path)}: {problem.message}")
    inner = said.value
    if rest and isinstance(inner, dict) and rest[0] in inner and rest[0] not in {"address", "pool", "respond"}:
        value = {key: item for key, item in inner.items() if key != rest[0]}
        if value:
            node[step] = said._replace(value=value)
            return True
    del node[step]
    return True


def _stand_ins(text: str) -> dict[str, str]:
    """Return the environment, with a port for each variable of the fleet that it lacks."""
    names = re.findall(r"\$\{(\w+)\}", text)
    return {**dict.fromkeys(names, "8000"), **os.environ}


def _head(imported: Imported) -> list[str]:
    return []


__all__ = ["Imported", "Reference", "import_configurations"]
