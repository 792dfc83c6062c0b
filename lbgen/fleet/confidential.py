"""Where secrets are expected in a fleet file: no message repeats what is written there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.fields import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lbgen.fleet.text.source import Document, Node
    from lbgen.problems import Path, Problem


def is_confidential(path: Path) -> bool:
    """Tell whether a secret could be meant by the value at a path."""
    top = path[:1]
    if top == ("clients",) or path == ("metrics",) or path[:2] == ("metrics", "auth"):
        return True
    return top == ("listeners",) and path[2:4] in (("auth",), ("auth", "upstream"))


def discreet(problems: Iterable[Problem], document: Document) -> Iterator[Problem]:
    """Yield the problems; those about a value that may be a secret say what it is in place of its text."""
    for problem in problems:
        node = document.node(problem.path) if is_confidential(problem.path) else None
        if node is None or node.id != "scalar" or not node.value or problem.on_key:
            yield problem
        else:
            yield _without_value(problem, node)


def _without_value(problem: Problem, node: Node) -> Problem:
    text = shown(node.value)
    message = problem.message.replace(f"'{text}'", "the value")
    for kind in ("string", "number", "decimal number", "boolean", "value"):
        message = message.replace(f"not the {kind} {text}", f"not a {kind}")
    # A text that is still in it was put into the sentence in a way that is not known here.
    if len(text) >= _LONG and text in message:
        message = message.replace(text, "the value")
    return problem._replace(message=message, hint="" if text in problem.hint else problem.hint)


_LONG = 6
"""A shorter text may be part of any sentence, and is hardly a secret."""
