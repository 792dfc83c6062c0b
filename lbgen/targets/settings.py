"""What a fleet file says under ``targets.NAME``: the keys that targets share, and each one's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lbgen.fields import Duration, Field, ListOf, Struct, Text
from lbgen.fields.scalars import compiled
from lbgen.model import TargetSettings
from lbgen.vocabulary import Version

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lbgen.fields.base import Node, Value

ABSOLUTE = Text("an absolute path", pattern=r"/[^\s\"'\\;{}$#]*", limit=255)
_MINUTE = 60_000
_LINE = Text("one line in the target's own language", limit=4096)


class SettingsTable(NamedTuple):
    """The keys of one target, and where the values of its own ones go."""

    keys: Struct
    """In the order of the reference; a key that `TargetSettings` has stands for just that."""
    own: Callable[..., Any]
    """Makes the named tuple of all other keys, `TargetSettings.own`."""
    only_written: frozenset[str] = frozenset()
    """Keys whose default is not rendered: to write it down would change the files."""

    def make(self, name: str, values: Mapping[str, Any]) -> TargetSettings:
        """Return the settings of the target of this name from the values of all its keys."""
        shared = {key: value for key, value in values.items() if key in TargetSettings._fields}
        own = {key: value for key, value in values.items() if key not in shared}
        return TargetSettings(name=name, path=("targets", name), own=self.own(**own), **shared)


class VersionKind(Text):
    """A version of a target; always a string, because 1.30 as a number is 1.3."""

    __slots__ = ("example",)

    def __init__(self, example: str) -> None:
        super().__init__(
            'a version, in quotes: "1.26"',
            pattern=r"[0-9]{1,3}\.[0-9]{1,3}(\.[0-9]{1,4})?",
            limit=12,
            parse=Version.parse,
        )
        self.example = example

    def written(self, value: Value) -> Value:
        return str(value)

    def hint(self, node: Node) -> str:
        if node.id != "scalar" or compiled(self.pattern).fullmatch(node.value):
            return super().hint(node)
        return f'write two numbers with a dot between, in quotes: "{self.example}"'


def version(oldest: Version, example: str) -> Field:
    """Return the key for the version that is rendered for."""
    doc = "The version that is rendered for; the default is the oldest supported."
    return Field("version", VersionKind(example), oldest, doc, example=example)


def directory(default: str) -> Field:
    """Return the key for the folder of the files."""
    return Field("directory", ABSOLUTE, default, "Where the files will live.")


def user(doc: str, example: str) -> Field:
    """Return the key for the user that the program becomes."""
    kind = Text("a user's name", pattern=r"[a-z_][a-z0-9_-]{0,31}")
    return Field("user", kind, doc=doc, default_doc="left to the program", example=example)


DRAIN_TIMEOUT = Field(
    "drain_timeout",
    Duration(1_000, 24 * 60 * _MINUTE),
    15 * _MINUTE,
    "How long requests may finish after a reload before they are cut off.",
)
WITHOUT = Field(
    "without",
    ListOf(
        Text("a key of the fleet file such as health or queue.order", pattern=r"[a-z0-9_.*-]{1,100}"),
        single=True,
    ),
    [],
    "Keys that this target cannot do, and that one accepts to be without.",
    example=["health", "warmup"],
)


def raw(*levels: str) -> Field:
    """Return the key for lines in the target's own language, for these levels of its configuration."""
    fields = (
        Field(level, ListOf(_LINE, single=True), [], f"Lines for the {level} level.") for level in levels
    )
    doc = "Lines in the target's own language, put in as they are: you are on your own with them."
    return Field("raw", Struct("lines as they are", *fields), doc=doc, example={levels[0]: ["..."]})
