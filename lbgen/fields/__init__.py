"""The vocabulary of the field table: kinds of values, and fields that hold them.

One table says what a fleet file may hold. The checker reads by it, the JSON Schema and
the reference are printed from it. Every kind reads a YAML node into a value, or into
`INVALID` with all its problems, each at its exact place.
"""

from lbgen.fields.base import INVALID, MAX_TEXT, Field, Kind, label, location_of, nearest, refuse, shown
from lbgen.fields.composites import Group, ListOf, MapOf, Struct
from lbgen.fields.quantities import Duration, RateKind, Size
from lbgen.fields.scalars import AutoInteger, Boolean, Choice, Integer, Number, Text, unsafe
from lbgen.fields.shapes import Anything, OneOf, Variants

__all__ = [
    "INVALID",
    "MAX_TEXT",
    "Anything",
    "AutoInteger",
    "Boolean",
    "Choice",
    "Duration",
    "Field",
    "Group",
    "Integer",
    "Kind",
    "ListOf",
    "MapOf",
    "Number",
    "OneOf",
    "RateKind",
    "Size",
    "Struct",
    "Text",
    "Variants",
    "label",
    "location_of",
    "nearest",
    "refuse",
    "shown",
    "unsafe",
]
