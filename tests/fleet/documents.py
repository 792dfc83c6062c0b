"""Whole fleet files around one value, for every place of the field table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lbgen.fields import Field, Kind, ListOf, MapOf, OneOf, Struct, Variants
from lbgen.fleet.schema import FLEET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Place(NamedTuple):
    """A field, and how to make the smallest whole document that has it."""

    path: str
    field: Field
    kind: Kind
    document: Callable[[Any], Any]


def places(
    kind: Kind = FLEET, path: str = "", wrap: Callable[[Any], Any] = lambda value: value
) -> Iterator[Place]:
    """Every field of the table."""
    if isinstance(kind, Struct):
        for field in kind.fields:
            below = f"{path}.{field.name}"

            def document(value: Any, field: Field = field) -> Any:
                return wrap({**beside(kind, field), field.name: value})

            yield Place(below, field, field.kind, document)
            yield from places(field.kind, below, document)
    elif isinstance(kind, Variants):
        for name, struct in kind.structs.items():
            yield from places(struct, f"{path}({name})", wrap)
    elif isinstance(kind, MapOf):
        name = "X-Name" if "header" in path else "chat"
        yield from places(kind.kind, f"{path}.*", lambda value: wrap({name: value}))
    elif isinstance(kind, ListOf):
        yield from places(kind.kind, f"{path}.*", lambda value: wrap([value]))
    elif isinstance(kind, OneOf):
        for one in kind.kinds:
            yield from places(one, path, wrap)


def beside(struct: Struct, field: Field) -> dict[str, Any]:
    """The keys that a mapping needs beside one of its fields."""
    needed = {
        other.name: struct.what.rpartition(" ")[2] if other.example is None else other.example
        for other in struct.fields
        if other.required and other is not field
    }
    for group in struct.groups:
        if group.least and field.name not in group.keys and not needed.keys() & set(group.keys):
            needed[group.keys[0]] = struct.by_name[group.keys[0]].example
    return needed


def leaves() -> Iterator[tuple[str, Kind, Callable[[Any], Any]]]:
    """Every place where a single value may stand: the path, its kind, and the document around it."""
    for place in places():
        yield from _leaves(place.path, place.kind, place.document)


def _leaves(
    path: str, kind: Kind, document: Callable[[Any], Any]
) -> Iterator[tuple[str, Kind, Callable[[Any], Any]]]:
    if isinstance(kind, ListOf):
        yield from _leaves(path, kind.kind, lambda value: document([value]))
    elif isinstance(kind, MapOf):
        name = "X-Name" if "header" in path else "chat"
        yield from _leaves(path, kind.kind, lambda value: document({name: value}))
    elif isinstance(kind, OneOf):
        for one in kind.kinds:
            yield from _leaves(path, one, document)
    elif isinstance(kind, Variants):
        yield path, kind.choice, document
    elif not isinstance(kind, Struct):
        yield path, kind, document
