"""What `lbgen render` says of files that it wrote, or compared."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.cli.console import Console
    from lbgen.files import Change
    from lbgen.secret_values import Joined


def to_join(path: str, made: Joined) -> str:
    """Return how to make a file on the balancer's machine that is made of files which are there alone."""
    names = " ".join(shlex.quote(str(part)) for part in made.parts)
    folder, file = shlex.quote(str(made.place.parent)), shlex.quote(str(made.place))
    return (
        f"not complete: {path} was not written, because {' and '.join(map(str, made.parts))} are not here;"
        " the balancer does not start without it. On the balancer's machine, run:"
        f" (umask 077; mkdir -p {folder}; cat {names} > {file})"
    )


def report_files(
    console: Console,
    changes: list[Change],
    form: str,
    words: Mapping[str, str],
    left_out: Mapping[str, Joined],
) -> None:
    """Say what was done to each file, or would be: in `words` by kind, and as JSON where `form` is so.

    `left_out`: what cannot be made here, by its path.
    """
    for change in changes:
        say = console.detail if change.kind == "same" else console.note
        say(f"{words[change.kind]} {change.path}")
    if form == "json":
        import json  # noqa: PLC0415 - text needs none of it

        files = [{"path": str(change.path), "kind": change.kind} for change in changes]
        differ = any(change.kind != "same" for change in changes)
        console.result(json.dumps({"files": files, "differ": differ, "left_out": list(left_out)}, indent=2))
    for path, made in left_out.items():
        console.warning(to_join(path, made))


DONE = {
    "new": "written  ",
    "changed": "changed  ",
    "stale": "removed  ",
    "same": "unchanged",
    "foreign": "replaced ",
}
FOUND = {
    "new": "missing  ",
    "changed": "differs  ",
    "stale": "stale    ",
    "same": "unchanged",
    "foreign": "not ours ",
}
