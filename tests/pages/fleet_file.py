"""The reference page of the fleet file, printed from the field table and from what each target makes of it.

``pytest tests/fleet --update-golden`` writes it anew, ``python -m tests.pages.fleet_file`` shows it.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from lbgen.fields import Duration, Field, Kind, ListOf, MapOf, OneOf, RateKind, Size, Struct, Variants
from lbgen.fields.walk import Key, keys
from lbgen.fleet.address_kinds import Addresses, Bind, OneAddress
from lbgen.fleet.header_kinds import HeaderValue
from lbgen.fleet.kinds import Name, SecretKind
from lbgen.fleet.schema import FLEET
from lbgen.strategies.registry import STRATEGIES
from lbgen.targets.registry import TARGETS
from lbgen.targets.settings import VersionKind
from lbgen.vocabulary import Support

if TYPE_CHECKING:
    from lbgen.strategies.spec import Strategy
    from lbgen.targets.spec import Row, Target

STRATEGY_KEY = "pools.*.strategy"

_HEAD = """\
# The fleet file

Every key that a fleet file may have. `*` stands for a name of yours, or for an entry of a list.
`lbgen schema` prints the same as JSON Schema for editors, `lbgen show` what a fleet means with all defaults.
This page is made from the table of fields; `pytest tests/fleet --update-golden` writes it anew.

The columns of the targets say what becomes of a key that is written. *yes*: it is rendered. *degraded*: the
same requests go to the same servers, but less protected; a warning. *refused*: it would change who is served,
by whom or in which order; an error. `targets.T.without: [key]` accepts to be without a key on a target.

## How values are written

| value | written as |
|---|---|
| duration | a whole number with `ms`, `s`, `m`, `h` or `d`; a number alone is seconds; at most 24 days |
| size | a whole number with `KiB`, `MiB` or `GiB` (`KB` and `K` are the same); a number alone is bytes |
| rate | requests per second, minute or hour: `10/s`, `600/m`, `1000/h` |
| address | `host:port`; IPv6 in brackets: `"[fd00::2]:8000"` |
| ranges | in addresses: `gpu-[0-3]:8000`, `10.0.0.[7-9]:8000`, `"gpu-0:[8000-8007]"`, `gpu-[00-15]:8000` |
| secret | only `env:NAME` or `file:PATH`; what it stands for is read when files are written |
| name | a letter or digit, then up to 62 of `A-Z a-z 0-9 . _ -` |
| version | in quotes: `"1.30"`, because the number 1.30 is 1.3 |

Keys that begin with `x-` are yours and ignored, where keys are fixed. Texts are one line of at most 4096
characters, without control characters and marks that change the direction of reading.
"""


def reference_markdown() -> str:
    """Return the page."""
    sections: dict[str, list[Key]] = {}
    for key in keys(FLEET):
        sections.setdefault(key.parent, []).append(key)
    parts = [_HEAD, *(_section(parent, rows) for parent, rows in sections.items()), _strategies()]
    return "\n".join(parts)


def _section(parent: str, rows: list[Key]) -> str:
    title = f"`{parent}`" if parent else "At the top"
    lines = [f"## {title}", "", *_header("key", "value", "default", "what it is for")]
    lines += [_row(key) for key in rows]
    return "\n".join(lines) + "\n"


def _header(*titles: str) -> list[str]:
    names = [*titles, *(target.title for target in TARGETS.values())]
    return [_line(*names), "|---" * len(names) + "|"]


def _row(key: Key) -> str:
    field = key.field
    name = f"`{field.name}`" + (" (required)" if field.required else "")
    example = f" Example: `{_compact(field.example)}`." if field.example is not None else ""
    cells = [name, _value(field), _default(field), field.doc + example]
    cells += [_support(target, key.path) for target in TARGETS.values()]
    return _line(*cells)


def _line(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _value(field: Field) -> str:
    return _words(field.kind) + (f" ({field.unit})" if field.unit else "")


def _words(kind: Kind) -> str:
    """Return what may be written, in the words of the page's first table."""
    if isinstance(kind, Struct):
        return "mapping, see below"
    if isinstance(kind, MapOf):
        return "mapping by name" if isinstance(kind.kind, Struct) else f"mapping to {_words(kind.kind)}"
    if isinstance(kind, ListOf):
        return _words(kind.kind) + (", or a list" if kind.single else ", a list")
    if isinstance(kind, OneOf):
        off = ["`false`"] if kind.off else []
        return ", or ".join([*off, *(_words(one) for one in kind.kinds)])
    if isinstance(kind, Variants):
        return "a strategy's name, or a mapping, see [strategies](#strategies)"
    return _SHORT.get(type(kind)) or kind.describe()


_SHORT: dict[type[Kind], str] = {
    Duration: "duration",
    Size: "size",
    RateKind: "rate",
    Addresses: "address, perhaps with ranges",
    OneAddress: "address",
    Bind: "port, or address",
    Name: "name",
    SecretKind: "secret",
    HeaderValue: "printable ASCII, or secret",
    VersionKind: "version",
}


def _default(field: Field) -> str:
    if field.default is None:
        return field.default_doc
    return f"`{_compact(field.kind.written(field.default))}`"


def _compact(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _support(target: Target, path: str) -> str:
    """Return what a target makes of a key; of a part of a key what it makes of the whole."""
    if path.startswith("targets.") and path.split(".")[1] != target.name:
        return ""
    if not target.understands(path):
        return Support.REFUSED.value
    rows = {row.key: row for row in target.support}
    if path in rows:
        return _verdict(rows[path]) + (f": {rows[path].note}" if rows[path].note else "")
    while path:
        path = path.rpartition(".")[0]
        if path in rows:
            return _verdict(rows[path])
    return "yes"


def _verdict(row: Row) -> str:
    verdict = "yes" if row.support is Support.RENDERED else row.support.value
    return f"{verdict} before {row.since}" if row.since else verdict


def _strategies() -> str:
    lines = [
        "## Strategies",
        "",
        "`weight` scales the share of requests under `round_robin`, of requests in flight under `least_conn`",
        "and `random_two`, of keys under `session` and `prefix`; `pack` ignores it.",
        "",
        *_header("name", "also accepted", "what it does"),
    ]
    for strategy in STRATEGIES.values():
        verdicts = (_support(target, f"{STRATEGY_KEY}.{strategy.name}") for target in TARGETS.values())
        aliases = ", ".join(f"`{alias}`" for alias in strategy.aliases)
        cells = [f"`{strategy.name}`", aliases, strategy.summary, *verdicts]
        lines.append(_line(*cells))
    for strategy in STRATEGIES.values():
        lines += ["", f"### `{strategy.name}`", "", strategy.advice, *_parameters(strategy)]
    return "\n".join(lines) + "\n"


def _parameters(strategy: Strategy) -> list[str]:
    rows = []
    for field in strategy.parameters:
        verdicts = (_parameter_support(target, strategy.name, field.name) for target in TARGETS.values())
        rows.append(_line(f"`{field.name}`", _value(field), _default(field), field.doc, *verdicts))
    return ["", *_header("parameter", "value", "default", "what it is for"), *rows] if rows else []


def _parameter_support(target: Target, strategy: str, parameter: str) -> str:
    """Return what a target makes of a parameter: its own row, else that of its strategy."""
    own = f"{STRATEGY_KEY}.{parameter}"
    if any(row.key == own for row in target.support):
        return _support(target, own)
    return _support(target, f"{STRATEGY_KEY}.{strategy}").partition(":")[0]


if __name__ == "__main__":
    sys.stdout.write(reference_markdown())
