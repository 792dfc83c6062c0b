"""What is legal YAML and yet no sound fleet file: doubled keys, loops, explosions, odd keys and tags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbgen.fleet.text.core_schema import (
    FLOAT,
    INT,
    MAP,
    NULL,
    SEQ,
    STR,
    core_tag,
    has_leading_zero,
    zero_complaint,
)
from lbgen.problems import Location, Problem

if TYPE_CHECKING:
    from yaml import Node as YamlNode

MAX_DEPTH = 64
"""The deepest nesting; a fleet file needs nine."""
MAX_ALIASED = 1_000_000
"""The most values that aliases may add to those written; 100,000 servers are 300,000 values."""
APPEND = "!append"
"""The tag of a list that extends the one below it."""

_OPEN = -1


class Soundness:
    """Checks the nodes of one file, each once, and mends what is wrong so that reading can go on."""

    __slots__ = ("_aliased", "_sizes", "_stop", "problems")

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._sizes: dict[int, int] = {}
        """Values in each list and mapping, aliases followed; `_OPEN` while it is being counted."""
        self._aliased = 0
        self._stop = False

    def check(self, root: Any) -> None:  # noqa: ANN401 - the stubs of PyYAML lack `id`
        """Check a node and everything below it; `problems` holds what was wrong."""
        if root.id == "scalar":
            self._scalar(root)
        else:
            self._collection(root, 0)

    def _collection(self, node: Any, depth: int) -> int:  # noqa: ANN401
        """Return how many values there are in a list or mapping; -1 for one that contains itself."""
        known = self._sizes.get(id(node))
        if known is not None:
            self._count_alias(node, known)
            return known
        if depth == MAX_DEPTH:
            self._fail("too-deep", "lists and mappings are nested too deeply", node)
            return 0
        self._sizes[id(node)] = _OPEN
        size = self._mapping(node, depth) if node.id == "mapping" else self._sequence(node, depth)
        self._sizes[id(node)] = size
        return size

    def _count_alias(self, node: YamlNode, size: int) -> None:
        self._aliased += max(size, 0)
        if self._aliased > MAX_ALIASED and not self._stop:
            message = f"the aliases expand to more than {MAX_ALIASED} values"
            self._fail("too-many-aliases", message, node)

    def _fail(self, code: str, message: str, node: YamlNode) -> None:
        if not self._stop:
            self._problem(code, message, node)
        self._stop = True

    def _sequence(self, node: Any, depth: int) -> int:  # noqa: ANN401
        if node.tag not in (SEQ, APPEND):
            self._unknown_tag(node)
            node.tag = SEQ
        size = len(node.value)
        loops = 0
        for index, item in enumerate(node.value):
            if item.id == "scalar":
                if item.tag != STR:
                    self._scalar(item)
            else:
                inner = self._below(item, node, depth)
                size += inner
                if inner == _OPEN:
                    node.value[index] = None
                    loops += 1
        if loops:
            node.value = [item for item in node.value if item is not None]
        return size

    def _mapping(self, node: Any, depth: int) -> int:  # noqa: ANN401
        if node.tag != MAP:
            self._unknown_tag(node)
            node.tag = MAP
        size = len(node.value)
        kept: dict[str, tuple[Any, Any]] = {}
        for pair in node.value:
            key, value = pair
            if value.id == "scalar":
                if value.tag != STR:
                    self._scalar(value)
            else:
                inner = self._below(value, key, depth)
                size += inner
                if inner == _OPEN:
                    continue
            if (key.tag == STR or self._odd_key(key)) and kept.setdefault(key.value, pair) is not pair:
                self._duplicate(kept[key.value][0], key)
        if "<<" in kept and not kept["<<"][0].style:
            kept = self._merged(*kept.pop("<<")) | kept
            node.value = list(kept.values())
        elif len(kept) != len(node.value):
            node.value = list(kept.values())
        return size

    def _below(self, node: Any, holder: YamlNode, depth: int) -> int:  # noqa: ANN401
        """Return the size of a list or mapping inside another; `_OPEN` when it leads back to it."""
        if self._stop:
            return 0
        size = self._collection(node, depth + 1)
        if size == _OPEN:
            self._problem("recursive-anchor", "an alias refers to a value that contains it", holder)
        return size

    def _merged(self, key: Any, value: Any) -> dict[str, tuple[Any, Any]]:  # noqa: ANN401
        """Return the pairs that ``<<`` brings; of several mappings the first wins."""
        parts = value.value if value.id == "sequence" else [value]
        if any(part.id != "mapping" for part in parts):
            self._problem("bad-merge", "'<<' needs an alias of a mapping, or a list of such aliases", key)
            return {}
        pairs: dict[str, tuple[Any, Any]] = {}
        for part in reversed(parts):
            pairs |= {pair[0].value: pair for pair in part.value}
        return pairs

    def _odd_key(self, key: Any) -> bool:  # noqa: ANN401
        """Report a key that is no string; True when it can be taken for one."""
        if key.id != "scalar":
            message = f"a {'list' if key.id == 'sequence' else 'mapping'} cannot be a key"
            self._problem(
                "key-not-string", message, key, 'quote it: brackets and "{{ }}" have a special meaning'
            )
            return False
        if key.tag == NULL and not key.value:
            self._problem("key-not-string", "a key is missing before ':'", key)
            return False
        if core_tag(key.value) == STR:
            self._unknown_tag(key)
        else:
            message = f"the key {key.value} is not a string"
            self._problem("key-not-string", message, key, f'quote it: "{key.value}"')
        key.tag = STR
        return True

    def _scalar(self, node: Any) -> None:  # noqa: ANN401
        """Check a scalar that is no plain string: its tag fits its text, and no zero leads."""
        if node.tag not in (STR, core_tag(node.value)):
            self._unknown_tag(node)
            node.tag = STR
        elif node.tag in (INT, FLOAT) and has_leading_zero(node.value):
            example = f': "{node.value}"' if len(node.value) <= 6 else ""
            hint = f"write it without, or quote it{example}"
            self._problem("leading-zero", zero_complaint(node.value), node, hint)

    def _unknown_tag(self, node: YamlNode) -> None:
        tag = node.tag.replace("tag:yaml.org,2002:", "!!")
        message = f"the tag {tag} is unknown, or does not match the value"
        hint = "'!append' is for lists" if tag == APPEND else "remove it"
        self._problem("unknown-tag", message, node, hint)

    def _duplicate(self, first: YamlNode, second: YamlNode) -> None:
        one, two = first.start_mark, second.start_mark
        lines = f"in lines {one.line + 1} and {two.line + 1}"
        if one.line == two.line:
            lines = f"in columns {one.column + 1} and {two.column + 1} of this line"
        hint = "write '<<: [*one, *two]'" if second.value == "<<" else ""
        self._problem("duplicate-key", f"the key '{second.value}' is written twice, {lines}", second, hint)

    def _problem(self, code: str, message: str, node: YamlNode, hint: str = "") -> None:
        mark = node.start_mark
        place = Location(mark.name, mark.line + 1, mark.column + 1)
        self.problems.append(Problem(code, message, hint=hint, location=place))
