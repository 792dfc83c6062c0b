"""An nginx.conf that somebody else wrote, for a trial: what it listens on and calls."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from lbgen.problems import LbgenError
from lbgen.readers.nginx import parse_nginx
from lbgen.targets.foreign import Called, Entrance, Needed
from lbgen.targets.nginx.reading.foreign_addresses import PASSES, address_of, bind_of, passed
from lbgen.targets.nginx.reading.foreign_moved import moved

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.readers.nginx import Directive, Nginx
    from lbgen.targets.foreign import Elsewhere, Moved

_SHIPPED = ("mime.types", "fastcgi_params", "proxy_params", "uwsgi_params", "scgi_params")
"""What comes with NGINX, and decides nothing about requests that are passed on to models."""
_CERTIFICATES = re.compile(r"(?:proxy_|grpc_)?ssl_(?:client_|trusted_)?(?:certificate|certificate_key|crl)$")
_OTHERS = ("ssl_dhparam", "ssl_password_file", "ssl_session_ticket_key", "auth_basic_user_file",
           "auth_jwt_key_file")  # fmt: skip


class NginxForeign:
    """An nginx.conf, or a part of one that stands at its ``http`` level."""

    def __init__(self, name: str, text: str) -> None:
        self.tree = parse_nginx(name, text)
        self.notes = list(_problems(self.tree))
        if self.tree.is_fragment:
            self.notes.append(
                f"{name} is a part: it is put into an http block with 'worker_processes auto', as it would "
                "stand in the file of NGINX's image"
            )
        for one in self.tree.root.inside("location"):
            raise LbgenError(f"{one.location}: a part of a server block cannot be tried without the server")
        self.groups = {
            one.value: [(address_of(inner.value), inner.location) for inner in one.inside("server")]
            for one, _ in self.tree.directives("upstream")
        }
        self.binds = list(dict.fromkeys(bind for block in self._servers() for bind, _ in _listens(block)))
        self.calls = list(dict.fromkeys(self._calls()))
        self.entrances = list(self._entrances())
        self.files = list(self._files(name))

    def moved(self, there: Elsewhere) -> Moved:
        """Return it with other addresses and files."""
        return moved(self.tree, frozenset(self.groups), there)

    def _servers(self) -> Iterator[Directive]:
        for level in self.tree.levels("server"):
            if level.block.block is not None and level.around("upstream") is None:
                yield level.block

    def _calls(self) -> Iterator[Called]:
        secured: dict[str, bool] = {}
        for one, _ in self.tree.directives(*PASSES):
            there = passed(one)
            tls = there.scheme in {"https", "grpcs"}
            if there.host in self.groups:
                secured[there.host] = secured.get(there.host, False) or tls
            elif there.host:
                address = address_of(there.host, there.scheme)
                yield Called(address, address, tls, one.location)
        for name, servers in self.groups.items():
            for address, place in servers:
                yield Called(address, name, secured.get(name, False), place)

    def _entrances(self) -> Iterator[Entrance]:
        taken: set[str] = set()
        for block in self._servers():
            names = tuple(name for one in block.inside("server_name") for name in one.args)
            calls = frozenset(self._led(block))
            for bind, one in _listens(block):
                chosen = one is not None and {"default_server", "default"} & set(one.args)
                secured = one is not None and "ssl" in one.args
                refused = "it expects the PROXY protocol" if one and "proxy_protocol" in one.args else ""
                yield Entrance(
                    bind, secured, calls, one.location if one else block.location, names,
                    bool(chosen) or bind not in taken, refused,
                )  # fmt: skip
                taken.add(bind)

    def _led(self, block: Directive) -> Iterator[str]:
        """Yield the addresses that a server block may lead to; a variable may lead to any upstream."""
        waiting = [block]
        while waiting:
            for one in waiting.pop().block or ():
                if one.block is not None:
                    waiting.append(one)
                elif one.name in PASSES:
                    there = passed(one)
                    known = [there.host] if there.host else list(self.groups)
                    for name in known:
                        found = [address for address, _ in self.groups.get(name, [])]
                        yield from found or [address_of(name, there.scheme)]

    def _files(self, name: str) -> Iterator[Needed]:
        folders = [Path(name).absolute().parent]
        if re.fullmatch(r".+\.d|sites-\w+|snippets", folders[0].name):
            folders.append(folders[0].parent)
        for one, _ in self.tree.directives():
            certificate = bool(_CERTIFICATES.match(one.name)) or one.name == "ssl_dhparam"
            if not (certificate or one.name in _OTHERS) or not _is_path(one.value):
                continue
            found = next((folder / one.value for folder in folders if _readable(folder / one.value)), None)
            yield Needed(one.value, found, one.location, certificate)


def _is_path(word: str) -> bool:
    return (
        bool(word)
        and word != "off"
        and not word.startswith(("data:", "engine:", "store:"))
        and "$" not in word
    )


def _readable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.R_OK)


def _listens(block: Directive) -> Iterator[tuple[str, Directive | None]]:
    """Yield the addresses of a server block; one without any listens on port 80."""
    found = [one for one in block.inside("listen") if one.args and "quic" not in one.args]
    for one in found:
        yield bind_of(one), one
    if not found:
        yield "*:80", None


def _problems(tree: Nginx) -> Iterator[str]:
    """Yield what is left out; raises `LbgenError` for what keeps the file from being run."""
    for problem in tree.problems:
        name = problem.message.partition(" cannot be read")[0]
        if problem.code == "unreadable-include" and Path(name).name in _SHIPPED:
            yield f"{problem.location}: {name} is not here and is left out"
        else:
            raise LbgenError(f"{problem.location}: {problem.message}: it cannot be tried")
