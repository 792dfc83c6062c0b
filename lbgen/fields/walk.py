"""A walk over a field table."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lbgen.fields.composites import ListOf, MapOf, Struct
from lbgen.fields.shapes import OneOf

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.fields.base import Field, Kind


class Key(NamedTuple):
    """One key of the fleet file, with the mapping that it belongs to."""

    path: str
    """With ``*`` for names and places in lists, such as ``pools.*.queue.order``."""
    parent: str
    field: Field


def keys(kind: Kind, path: str = "") -> Iterator[Key]:
    """Yield every key with a fixed name, in the order of the table; of `Variants` only the key itself."""
    if isinstance(kind, Struct):
        for field in kind.fields:
            below = f"{path}.{field.name}" if path else field.name
            yield Key(below, path, field)
            yield from keys(field.kind, below)
    elif isinstance(kind, MapOf | ListOf):
        yield from keys(kind.kind, f"{path}.*")
    elif isinstance(kind, OneOf):
        for one in kind.kinds:
            yield from keys(one, path)
