"""From what a user names to the text of a fleet file that loads, and the fate of each directive."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.imports.compose import add_engines
from lbgen.imports.draft import GENERATED, Draft, Said
from lbgen.imports.haproxy.whole import read_haproxy
from lbgen.imports.ledger import Entry, Fate, Ledger, summary
from lbgen.imports.litellm import read_litellm
from lbgen.imports.named import read_named
from lbgen.imports.nginx.whole import read_nginx
from lbgen.imports.text import fleet_text
from lbgen.problems import FleetError, LbgenError, Location, Problem, Severity, path_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lbgen.fleet.text.source import Document
    from lbgen.imports.draft import Tree
    from lbgen.problems import Path
    from lbgen.readers.files import Configurations
    from lbgen.readers.haproxy import Haproxy
    from lbgen.readers.nginx import Nginx

_NAME = "fleet.yaml"
_GUARDS = {("auth",), ("allow",), ("deny",)}
_NEEDED = {"address", "pool", "respond"}
"""Keys that their mapping cannot be without."""


class Imported(NamedTuple):
    """What became of configurations."""

    tree: Tree
    entries: tuple[Entry, ...]
    problems: tuple[Problem, ...]
    """What could not be read of the configurations, and what is wrong with the fleet still."""
    secrets: tuple[tuple[str, str, Location], ...]
    """References that have to be filled: ``env:NAME``, what it is, and where the secret stood."""
    names: tuple[str, ...]
    """The files that were read."""

    def text(self, *, comments: bool) -> str:
        """Return the fleet file. `comments`: it says where each value is from, and what it lacks."""
        return fleet_text(self.tree, _head(self) if comments else (), origins=comments)


def import_configurations(paths: Sequence[str]) -> Imported:
    """Return the fleet that configurations describe; raises `LbgenError` where there is none in them."""
    found, compose, documents = read_named(paths)
    configurations: list[Nginx | Haproxy] = [*found.nginx, *([found.haproxy] if found.haproxy else [])]
    _refuse(found, configurations, documents)
    draft, ledger = Draft(), Ledger()
    problems = [problem for one in configurations for problem in one.problems]
    problems = [*_unread(problems, ledger), *map(_no_configuration, found.others)]
    if found.nginx:
        read_nginx(found.nginx, draft, ledger)
    if found.haproxy is not None:
        read_haproxy(found.haproxy, draft, ledger)
    for name, document in documents.items():
        read_litellm(name, document, draft, ledger)
    if compose is not None:
        add_engines(draft, compose)
    if not draft.pools:
        names = ", ".join(paths)
        raise LbgenError(f"{names}: no server of a pool is named there, so there is no fleet to make of it")
    texts = {name: text for one in configurations for name, text in one.texts.items()}
    tree = _finished(draft, ledger)
    problems += [*_mended(tree, ledger), *_rendered(texts)]
    names_read = (*texts, *documents)
    return Imported(tree, ledger.entries(), tuple(problems), tuple(draft.secrets), names_read)


def _refuse(
    found: Configurations, configurations: Sequence[Nginx | Haproxy], documents: Mapping[str, Document]
) -> None:
    """Raise for what cannot be read, or is no configuration at all."""
    problems = [problem for one in configurations for problem in one.problems]
    wrong = [problem for problem in problems if problem.code == "configuration-syntax"]
    if wrong:
        raise FleetError(wrong)
    if not configurations and not documents:
        names = ", ".join(found.others)
        raise LbgenError(f"{names}: neither a configuration of NGINX nor one of HAProxy")


def _finished(draft: Draft, ledger: Ledger) -> Tree:
    """Return the draft's tree, with what follows from all of it."""
    _stand_by(draft)
    _without_empty(draft.listeners, ledger)
    for listener in draft.listeners.values() if draft.clients else ():
        listener.setdefault("auth", Said("none", beside="no key was asked for"))
    return draft.tree()


def _rendered(texts: Mapping[str, str]) -> list[Problem]:
    """Return a warning where lbgen rendered what was read."""
    names = [name for name, text in texts.items() if text.startswith(GENERATED)]
    message = "lbgen rendered this file: only its pools are read back"
    hint = "the fleet that it was made from is lbgen-fleet.yaml beside it"
    place = Location(names[0], 1, 1) if names else None
    return [Problem("rendered-file", message, (), Severity.WARNING, hint, place)] if names else []


def _no_configuration(name: str) -> Problem:
    message = "neither a configuration of NGINX nor one of HAProxy"
    return Problem("no-configuration", message, (), Severity.WARNING, "", Location(name, 1, 1))


def _unread(problems: Iterable[Problem], ledger: Ledger) -> list[Problem]:
    """Note includes that could not be read, and return the rest as warnings, such as a doubtful '.if'."""
    found = []
    for problem in problems:
        if problem.code != "unreadable-include":
            found.append(problem._replace(severity=Severity.WARNING))
        elif problem.location is not None:
            ledger.expect(problem.location, ["include"])
            if "mime.types" in problem.message:
                ledger.better(problem.location, "types are for files, and none are served")
            else:
                ledger.left(problem.location, problem.message)
    return found


def _stand_by(draft: Draft) -> None:
    """Mark pools that no route leads to."""
    by_models = any("routes" not in tree for tree in draft.listeners.values())
    reached = {
        name
        for tree in draft.listeners.values()
        for said in (*tree.get("routes", ()), *([tree["acme"]] if "acme" in tree else ()))
        for name in (said.value.get("pool"), *said.value.get("split", ()))
    }
    for name, tree in draft.pools.items():
        if name not in reached and not by_models and (draft.listeners or len(draft.pools) > 1):
            tree["standby"] = Said(value=True, beside="nothing that was carried over leads here")


def _mended(tree: Tree, ledger: Ledger) -> list[Problem]:
    """Take out of the draft what a fleet may not say, and note it; return the errors that remain."""
    for _ in range(100):
        text = fleet_text(tree, (), origins=False)
        loaded = load([Source(_NAME, text)], environ=_stand_ins(text))
        errors = [problem for problem in loaded.problems if problem.is_error]
        if not errors or not any(_take_out(tree, problem, ledger) for problem in errors):
            return errors
        _without_empty(tree.get("listeners", {}), ledger)
        for pool in tree["pools"].values():
            if pool.get("servers") == []:
                pool["allow_empty"] = Said(value=True, place=None)
                del pool["servers"]
        for key in [key for key, value in tree.items() if value == {}]:
            del tree[key]
    return errors


def _without_empty(listeners: dict[str, Tree], ledger: Ledger) -> None:
    """Take out listeners none of whose routes was carried over."""
    for name in [name for name, listener in listeners.items() if listener.get("routes") == []]:
        bind = listeners.pop(name)["bind"]
        if bind.place is not None:
            ledger.left(bind.place, "no imported location answers requests here")


def _take_out(tree: Tree, problem: Problem, ledger: Ledger) -> bool:
    """Remove the value that an error is about; return whether there was one that can be missed."""
    node: Any = tree
    if problem.path[:1] == ("clients",) or problem.path[2:3] in _GUARDS:
        return False  # what guards a listener is not taken out
    for depth, step in enumerate(problem.path):
        inner = node.get(step) if isinstance(node, dict) else node[step] if _within(node, step) else None
        if isinstance(inner, Said):
            return _without(node, step, problem, problem.path[depth + 1 :], ledger)
        if inner is None:
            return False
        node = inner
    return False


def _within(node: Any, step: str | int) -> bool:  # noqa: ANN401 - a list of values
    return isinstance(node, list) and isinstance(step, int) and step < len(node)


def _without(node: Any, step: str | int, problem: Problem, rest: Path, ledger: Ledger) -> bool:  # noqa: ANN401
    said: Said = node[step]
    if said.place is not None:
        ledger.left(said.place, f"{path_text(problem.path)}: {problem.message}")
    inner = said.value
    if rest and isinstance(inner, dict) and rest[0] in inner and rest[0] not in _NEEDED:
        value = {key: item for key, item in inner.items() if key != rest[0]}
        if value:
            node[step] = said._replace(value=value)
            return True
    del node[step]
    return True


def _stand_ins(text: str) -> dict[str, str]:
    """Return the environment, with a port or a host for each variable of the fleet that it lacks."""
    names = re.findall(r"(:?)\$\{(\w+)\}", text)
    return {**{name: "8000" if colon else "host" for colon, name in names}, **os.environ}


def _head(imported: Imported) -> list[str]:
    """Return the comments at the head of a fleet file."""
    names = ", ".join(sorted(imported.names))
    lines = [f"Made of {names}: {summary(imported.entries)}."]
    lines += ["Behind each value stands where it is from; what the fleet says in full: lbgen show FILE."]
    left = [entry for entry in imported.entries if entry.fate is Fate.LEFT]
    if left:
        lines += ["", "Not carried over:"]
        lines += [f"  {entry.line()}" for entry in left]
    return [*lines, ""]
