"""What a user names (files, folders, standard input) as configurations of NGINX and HAProxy.

Which of them a file is for is told from its text, as names say little: ``default.conf``, ``lb.cfg``.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lbgen.problems import LbgenError
from lbgen.readers.haproxy import SECTIONS, Haproxy, parse_haproxy
from lbgen.readers.nginx import Nginx, joined, parse_nginx
from lbgen.reading import MIB, read_bytes, readable

if TYPE_CHECKING:
    from collections.abc import Sequence

STANDARD_INPUT = "<stdin>"
_LARGEST = 16 * MIB
_HAPROXY = re.compile(rf"(?m)^[ \t]*(?:{'|'.join(sorted(SECTIONS))})\b(?![^#\n]*[{{;][ \t\r]*$)")
_NGINX = re.compile(r"(?m)^[ \t]*[a-z_](?:[^#\n]*;|[^#:\n]*\{)[ \t\r}]*(?:#.*)?$")
_MAIN = ("nginx.conf", "haproxy.cfg")
"""What is read of a folder, if it is there; else every ``*.conf`` and ``*.cfg`` in it."""


class Configurations(NamedTuple):
    """All that was named."""

    nginx: tuple[Nginx, ...]
    """Each whole configuration, and all fragments as one."""
    haproxy: Haproxy | None
    """All files as one, as ``-f A -f B`` reads them."""
    others: tuple[str, ...]
    """Names of files that are for neither."""


def kind_of(text: str) -> str:
    """Return ``nginx`` or ``haproxy``; empty for a text that is neither's."""
    if _HAPROXY.search(text):
        return "haproxy"
    return "nginx" if _NGINX.search(text) else ""


def read_configurations(
    paths: Sequence[str], haproxy_version: str = "", texts: Sequence[tuple[str, str]] = ()
) -> Configurations:
    """Read files and folders; ``-`` is standard input. Raises `LbgenError` for what cannot be read.

    `texts` are files that were read already, by name.
    """
    named = [
        (STANDARD_INPUT if name == "-" else name, _text(name)) for path in paths for name in _names(path)
    ]
    named += texts
    kinds = [(kind_of(text), name, text) for name, text in named]
    haproxy = [(name, text) for kind, name, text in kinds if kind == "haproxy"]
    return Configurations(
        _nginx([(name, text) for kind, name, text in kinds if kind == "nginx"]),
        parse_haproxy(haproxy, haproxy_version) if haproxy else None,
        tuple(name for kind, name, _ in kinds if not kind),
    )


def _nginx(named: list[tuple[str, str]]) -> tuple[Nginx, ...]:
    """Return whole configurations, and all fragments as one; what another one includes is read once."""
    parsed = [parse_nginx(name, text) for name, text in named]
    included = {
        os.path.realpath(name) for one in parsed for name in one.texts if name != one.root.location.file
    }
    own = [one for one in parsed if os.path.realpath(one.root.location.file) not in included]
    whole = [one for one in own if not one.is_fragment]
    parts = [one for one in own if one.is_fragment]
    return (*whole, joined(parts)) if parts else tuple(whole)


def _names(path: str) -> list[str]:
    folder = Path(path)
    if path == "-" or not folder.is_dir():
        return [path]
    main = [str(folder / name) for name in _MAIN if (folder / name).is_file()]
    found = main or sorted(str(one) for one in folder.glob("*") if one.suffix in {".conf", ".cfg"})
    if not found:
        raise LbgenError(f"{path}: holds no nginx.conf, no haproxy.cfg and no other *.conf or *.cfg")
    return found


def _text(name: str) -> str:
    with readable(name):
        data = _standard_input() if name == "-" else read_bytes(name, _LARGEST)
    return data.decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n")


def _standard_input() -> bytes:
    if sys.stdin is None:  # closed by the shell: <&-
        raise LbgenError("standard input is closed: '-' reads a configuration from there")
    data = sys.stdin.buffer.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise LbgenError(f"{STANDARD_INPUT}: cannot be read: it is larger than {_LARGEST // MIB} MiB")
    return data
