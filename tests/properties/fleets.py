"""Random fleets, from the field table: every key that there is, with values that are right by themselves."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import assume
from hypothesis import strategies as st

from lbgen.fields import (
    Boolean,
    Choice,
    Duration,
    Field,
    Integer,
    Kind,
    ListOf,
    MapOf,
    Number,
    OneOf,
    RateKind,
    Size,
    Struct,
    Variants,
)
from lbgen.fleet.load import load
from lbgen.fleet.schema import FLEET
from lbgen.fleet.text.source import Source
from lbgen.units import format_duration, format_size, parse_duration

if TYPE_CHECKING:
    from lbgen.model import Fleet

POOLS = ("a", "b")
CLIENTS = ("one", "two")
MOST_KEYS = 4
"""Of one mapping."""
ROUNDS = 6
TIMES = ("1ms", "1s", "7s", "90s", "20m", "3h")

WORDS: dict[str, st.SearchStrategy[Any]] = {
    "pool": st.sampled_from(POOLS),
    "when_down": st.sampled_from(POOLS),
    "pools": st.lists(st.sampled_from(POOLS), min_size=1, unique=True),
    "split": st.just({"a": 90, "b": 10}),
    "clients": st.sampled_from(["all", ["one"], ["two", "one"]]),
    "address": st.sampled_from(["gpu-[0-2]:8000", "10.0.0.1:8000", "[fd00::2]:8000", "gpu-9.example.org:80"]),
    "discover": st.just({"dns": "vllm.svc.example.org", "port": 8000}),
    "bind": st.sampled_from(["127.0.0.1:8080", "127.0.0.1:8081", "8082", "[::1]:8080"]),
    "redirect_from": st.sampled_from(["127.0.0.1:8090", "8091"]),
    "hosts": st.sampled_from([["a.org"], ["*.b.org", "c.org"]]),
    "host": st.sampled_from(["a.org", "*.b.org"]),
    "path": st.sampled_from(["/v1", "/v1/chat", "/a b", "/x%y", "/$x"]),
    "path_exact": st.sampled_from(["/v1", "/v1/models", "/it's"]),
    "certificate": st.just("one.pem"),
    "ca": st.just("ca.pem"),
}
"""What is meant by some keys, whose values have to fit others."""
LEFT_OUT = {"raw", "without", "file", "directory", "peers", "version", "targets", "webroot", "client_ca"}
"""The target's own language, and files that would have to be there."""


def values(kind: Kind, field: Field) -> st.SearchStrategy[Any]:  # noqa: PLR0911 - one case a line
    """Return values that a kind reads without a word; none where they are not to be guessed."""
    if isinstance(kind, (Struct, Variants, ListOf, OneOf, MapOf)):
        return holders(kind, field)
    match kind:
        case Boolean():
            return st.booleans()
        case Choice():
            return st.sampled_from(kind.values)
        case Duration():
            known = {time for time in TIMES if kind.min <= parse_duration(time) <= (kind.max or 1e9)}
            return st.sampled_from(sorted(known | {format_duration(max(kind.min, 1))}))
        case Size():
            return st.sampled_from([kind.min, min(2 * kind.min, kind.max), min(1 << 20, kind.max)]).map(
                format_size
            )
        case RateKind():
            return st.sampled_from(["1/s", "600/m", "5000/h"])
        case Integer():
            return st.integers(kind.min, min(kind.max, kind.min + 300))
        case Number():
            return st.sampled_from([kind.min, min(kind.min + 0.25, kind.max), min(2, kind.max)])
    return st.nothing() if field.example is None else st.just(field.example)


def holders(kind: Kind, field: Field) -> st.SearchStrategy[Any]:
    """Return values that hold others."""
    match kind:
        case Struct():
            return mappings(kind)
        case Variants():
            return st.sampled_from(sorted(kind.structs)).flatmap(
                lambda name: mappings(kind.structs[name]).map(lambda made: {**made, kind.key: name})
            )
        case ListOf() if isinstance(field.example, list):
            return st.just(field.example)
        case ListOf():
            return st.lists(values(kind.kind, field), min_size=1, max_size=2)
        case OneOf():
            off = [st.just(False)] if kind.off else []
            return st.one_of(*off, *(values(one, field) for one in kind.kinds))
    return st.nothing() if field.example is None else st.just(field.example)


def of(field: Field) -> st.SearchStrategy[Any]:
    """Return values of a field."""
    return WORDS[field.name] if field.name in WORDS else values(field.kind, field)


@st.composite
def mappings(draw: st.DrawFn, struct: Struct) -> dict[str, Any]:
    """Make a mapping with what it needs, and some keys more."""
    named = [field for field in struct.fields if field.name not in LEFT_OUT]
    needed = [field for field in named if field.required]
    optional = [field for field in named if not field.required and not of(field).is_empty]
    chosen = draw(st.lists(st.sampled_from(optional), max_size=MOST_KEYS, unique_by=lambda one: one.name)
                  if optional else st.just([]))  # fmt: skip
    made = {field.name: draw(of(field)) for field in [*needed, *chosen]}
    for group in struct.groups:
        there = [key for key in group.keys if key in made]
        for key in there[group.most :]:
            del made[key]
        if len(there) < group.least:
            made[group.keys[0]] = draw(of(struct.by_name[group.keys[0]]))
    return made


def inner(*path: str) -> Struct:
    """Return the mapping at a place of the table."""
    kind: Any = FLEET
    for name in path:
        kind = kind.by_name[name].kind
        while not isinstance(kind, Struct):
            kind = kind.mapping if isinstance(kind, OneOf) else kind.kind
    assert isinstance(kind, Struct)
    return kind


@st.composite
def drafts(draw: st.DrawFn, target: str) -> dict[str, Any]:
    """Make a fleet of two pools behind a listener or two, which may contradict itself."""
    names = ("l", "m")[: draw(st.integers(1, 2))]
    fleet: dict[str, Any] = {
        "pools": {name: draw(mappings(inner("pools"))) for name in POOLS},
        "listeners": {name: draw(mappings(inner("listeners"))) for name in names},
        "clients": {name: {**draw(mappings(inner("clients"))), "key": f"env:{name}"} for name in CLIENTS},
        "targets": {target: draw(mappings(inner("targets", target)))},
    }
    for name in draw(st.lists(st.sampled_from(["metrics", "logs", "balancers"]), unique=True)):
        fleet[name] = draw(mappings(inner(name)))
    return completed(fleet)


def completed(fleet: dict[str, Any]) -> dict[str, Any]:
    """Add what a fleet needs so that it serves."""
    for number, listener in enumerate(fleet["listeners"].values()):
        listener.setdefault("bind", f"127.0.0.1:818{number}")
        listener.setdefault("auth", {"clients": "all"})
        listener.setdefault("routes", [{"pool": "a"}, {"path": "/b", "pool": "b"}])
        for holder in (listener, *fleet["pools"].values()):
            tls = holder.get("tls")
            if isinstance(tls, dict) and tls.keys() & {"certificate", "key"}:
                tls |= {"certificate": "one.pem", "key": "one.key"}
    for client in fleet["clients"].values():
        client.pop("keys", None)
    for pool in fleet["pools"].values():
        if not pool.keys() & {"servers", "discover"}:
            pool["servers"] = ["gpu-[0-2]:8000"]
    return fleet


@st.composite
def fleets(draw: st.DrawFn, target: str, version: str) -> tuple[str, Fleet]:
    """Make a fleet that the check passes for a version, with its text: what it complains of is left out."""
    fleet = draw(drafts(target))
    for _ in range(ROUNDS):
        text = json.dumps(fleet, indent=1)
        loaded = load([Source("fleet.yaml", text)], environ={}, targets=(target,), versions={target: version})
        wrong = [problem.path for problem in loaded.problems if problem.is_error]
        if not wrong and loaded.fleet is not None:
            return text, loaded.fleet
        for path in wrong:
            leave_out(fleet, path)
        completed(fleet)
    assume(False)
    raise AssertionError("assume did not end the example")


def leave_out(fleet: Any, path: tuple[str | int, ...]) -> None:
    """Delete the last key of a path that is there."""
    holder, last = None, None
    for step in path:
        if not (isinstance(fleet, dict) and step in fleet) and not (
            isinstance(fleet, list) and isinstance(step, int) and step < len(fleet)
        ):
            break
        holder, last, fleet = fleet, step, fleet[step]
    if holder is not None and last not in {"pools", "listeners", "clients", "targets", *POOLS, "l", "m"}:
        del holder[last]
