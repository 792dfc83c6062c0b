"""The rules of a frontend while they are gathered: conditions, ACLs, and whose they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.haproxy.language.quoting import quote

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.model import Listener
    from lbgen.targets.haproxy.assembly import Assembly

_PATTERNS_PER_LINE = 40
"""A line has at most 64 words; what is more is cut off."""


class Rules:
    """Rules in their order. With several listeners on one address, each rule of one asks for it."""

    def __init__(self, made: Assembly, listeners: tuple[Listener, ...]) -> None:
        self.made = made
        self.listeners = listeners
        self.lines: list[str] = []
        self._whose = ""
        self._acls = 0
        self._named: dict[str, int] = {}

    def of(self, listener: Listener | None) -> None:
        """Make the following rules those of one listener; None: everybody's."""
        shared = len(self.listeners) > 1 or bool(self.listeners[0].hosts)
        self._whose = f"{{ var(txn.lb_listener) -m str {listener.name} }}" if listener and shared else ""

    def add(self, action: str, *conditions: str) -> None:
        """Add a rule; all conditions have to hold. An `if` without any is left away."""
        wanted = [condition for condition in (self._whose, *conditions) if condition]
        self.lines.append(f"{action} if {' '.join(wanted)}" if wanted else action)

    def either(self, action: str, *alternatives: str) -> None:
        """Add a rule for which any of these conditions is enough; each asks whose it is: "or" binds less."""
        conditions = (f"{self._whose} {condition}".lstrip() for condition in alternatives)
        self.lines.append(f"{action} if {' || '.join(conditions)}")

    def why(self, comment: str) -> None:
        """Say in the file what the next rules are for."""
        self.lines.append(f"# {comment}")

    def unique(self, name: str) -> str:
        """Return a name for an ACL that no other has: ACLs of one name are one."""
        self._named[name] = self._named.get(name, 0) + 1
        return name if self._named[name] == 1 else f"{name}_{self._named[name]}"

    def acl(self, *alternatives: tuple[str, Iterable[str]], name: str = "") -> str:
        """Add an ACL and return its name; without a name it gets one of its own.

        Each alternative is a sample with its flags, and the patterns of which one has to fit.
        """
        if not name:
            self._acls += 1
            name = f"lb_{self._acls}"
        for sample, patterns in alternatives:
            words = [quote(pattern) for pattern in patterns]
            if not words:
                self.lines.append(f"acl {name} {sample}")
            for start in range(0, len(words), _PATTERNS_PER_LINE):
                # `--`: a pattern that begins with `-` is no flag.
                self.lines.append(
                    f"acl {name} {sample} -- {' '.join(words[start : start + _PATTERNS_PER_LINE])}"
                )
        return name
