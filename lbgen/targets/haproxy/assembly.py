"""What one HAProxy configuration is put together from, gathered while its parts are made."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lbgen.model import Secret
from lbgen.secret_values import Joined
from lbgen.targets.haproxy.features import has
from lbgen.targets.haproxy.language.quoting import format_word, quote
from lbgen.targets.haproxy.logs import log_target
from lbgen.targets.haproxy.views import Section, syntax
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lbgen.model import Fleet, HeaderValue, TargetSettings
    from lbgen.targets.spec import Secrets

VALUES_FILE = "secrets/values.map"


class Assembly:
    """The fleet and what its sections need in common: settings and secret values."""

    def __init__(self, fleet: Fleet, secrets: Secrets, *, whole: bool) -> None:
        self.fleet = fleet
        self.settings: TargetSettings = fleet.target("haproxy")
        self.whole = whole
        self.one_log = whole and log_target(fleet.logs) == log_target(fleet.logs, fleet.logs.level)
        """True: the access log goes where `global` says all goes."""
        self.resolve = secrets.resolve
        self._secrets = secrets
        # `default-path config` stands in `global`, which only a whole file has.
        self._folder = "" if whole else f"{self.settings.directory}/"
        tls = [*(one.tls for one in fleet.listeners), *(one.tls for one in fleet.pools)]
        self.named_files = bool(self.settings.raw) or any(tls)
        """True: some line names a file beside this one, or may."""
        self._values: dict[Secret, str] = {}
        self._stored: dict[tuple[str, str], str] = {}
        self._joined: dict[tuple[str, str], str] = {}
        self._lists: dict[tuple[str, ...], str] = {}

    def file(self, path: str) -> str:
        """Return a side file's name as the configuration has to call it."""
        self.named_files = True
        return self._folder + path

    def word(self, value: HeaderValue) -> Syntax:
        """Return a text or a secret as one word for a place where a log format is expected.

        A secret is looked up in a map file when it is needed, so that the main file holds none.
        """
        if not isinstance(value, Secret):
            return format_word(value) if value else Syntax("''")
        key = self._values.setdefault(value, f"value-{len(self._values) + 1}")
        return Syntax(f"%[str({key}),map_str({self.file(VALUES_FILE)})]")

    def values_text(self) -> str:
        """Return the map file of the secret values; empty when there are none."""
        return "".join(f"{key} {self.resolve(secret)}\n" for secret, key in self._values.items())

    def pem(self, certificate: str, key: str | None) -> str:
        """Return what `crt` names for a certificate and its key, which may be files of their own.

        From 3.0 on a `crt-store` tells which key belongs to a certificate; before, both have to
        be one file, or the key's has to be named like the certificate's with `.key` behind.
        """
        if key is None or key in {certificate, f"{certificate}.key"}:
            return quote(certificate)
        if has(self.settings.version, "crt_store"):
            name = self._stored.setdefault((certificate, key), f"certificate-{len(self._stored) + 1}")
            return f"@lbgen/{name}"
        return self.joined_pem(certificate, key)

    def certificate_list(self, lines: Iterable[str]) -> str:
        """Return the side file with these lines of a `crt-list`."""
        path = self._lists.setdefault(tuple(lines), f"certificates-{len(self._lists) + 1}.list")
        return self.file(path)

    def list_files(self) -> Iterator[tuple[str, str]]:
        """Yield path and text of each `crt-list`."""
        for lines, path in self._lists.items():
            yield path, "".join(f"{line}\n" for line in lines)

    def joined_pem(self, certificate: str, key: str) -> str:
        """Return the side file that holds both."""
        return self.file(self._join(certificate, key))

    def server_pem(self, certificate: str, key: str) -> str:
        """Return the same for a `server` line, whose files are looked for when `default-path` is forgotten.

        Seen on 2.6.12: "unable to stat SSL certificate"; 3.0.11 finds it.
        """
        return f"{self.settings.directory}/{self._join(certificate, key)}"

    def _join(self, certificate: str, key: str) -> str:
        return self._joined.setdefault((certificate, key), f"secrets/certificate-{len(self._joined) + 1}.pem")

    def stores(self) -> Iterator[Section]:
        """Yield the `crt-store`, if there is one."""
        lines = (
            f"load crt {quote(crt)} key {quote(key)} alias {name}"
            for (crt, key), name in self._stored.items()
        )
        if self._stored:
            yield Section(Syntax("crt-store lbgen"), syntax(*lines))

    def joined_files(self) -> Iterator[tuple[str, str]]:
        """Yield path and text of each file that holds a certificate and its key; raises `LbgenError`."""
        folder = Path(self.settings.directory)
        for (certificate, key), path in self._joined.items():
            made = Joined(folder / path, (folder / certificate, folder / key), folder)
            yield path, self._secrets.joined(path, made)
