"""What ``envoy --mode validate`` complains of."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lbgen.targets.envoy.settings import own
from lbgen.targets.program import Checks, Message

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lbgen.model import Fleet

_LINE = re.compile(
    r"^\[[^\]]+\]\[\d+\]\[(?P<level>critical|error)\](?:\[[^\]]*\])+ (?:\[[^\]]+\] )?(?P<text>.*)$"
)
_PREFIX = re.compile(r"^error initializing configuration '[^']*':\s*")
_DUMP = re.compile(r":\s*[{\"].*$", re.DOTALL)


class EnvoyChecks(Checks):
    """Knows that Envoy checks only what stands in its first file, and repeats all of it in a complaint."""

    def whole(self, fleet: Fleet, folder: Path) -> Fleet:
        """Return the fleet whose files are one, in a folder."""
        targets = tuple(
            one._replace(directory=str(folder), own=own(one)._replace(in_one_file=True))
            if one.name == "envoy"
            else one
            for one in fleet.targets
        )
        return fleet._replace(targets=targets)

    def messages(self, output: str) -> Iterator[Message]:
        """Yield the complaint without the configuration that Envoy repeats, keys and all."""
        for line in output.splitlines():
            found = _LINE.match(line)
            if found:
                text = re.sub(r"\s+", " ", _PREFIX.sub("", found["text"]))
                yield Message(is_error=True, text=_DUMP.sub("", text) or text[:200])


CHECKS = EnvoyChecks()
