"""What one HAProxy configuration is put together from, gathered while its parts are made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.model import Secret
from lbgen.targets.haproxy.quoting import format_word
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from lbgen.model import Fleet, HeaderValue, TargetSettings
    from lbgen.targets.spec import Secrets

VALUES_FILE = "secrets/values.map"


class Assembly:
    """The fleet and what its sections need in common: settings and secret values."""

    def __init__(self, fleet: Fleet, secrets: Secrets, *, whole: bool) -> None:
        self.fleet = fleet
        self.settings: TargetSettings = fleet.target("haproxy")
        self.resolve = secrets.resolve
        # `default-path config` stands in `global`, which only a whole file has.
        self._folder = "" if whole else f"{self.settings.directory}/"
        self._values: dict[Secret, str] = {}

    def file(self, path: str) -> str:
        """Return a side file's name as the configuration has to call it."""
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
