"""Every code that a problem can have, with what it means; rules bring their own.

Users write codes into ``# lbgen: ignore[code]`` and into the filters of their CI, so a
code keeps its meaning. A test looks for codes in the source that are missing here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

CODES: Mapping[str, str] = {
    # YAML
    "yaml-syntax": "the file is not YAML",
    "empty-file": "the file holds nothing",
    "not-a-mapping": "the file is a list or a single value",
    "several-documents": "the file holds more than one YAML document",
    "duplicate-key": "a key is written twice in one mapping",
    "key-not-string": "a key is a number, a boolean, a list or a mapping",
    "leading-zero": "a number begins with a zero, which some programs read as octal",
    "recursive-anchor": "an alias leads back to what contains it",
    "bad-merge": "'<<' is given something else than mappings",
    "too-many-aliases": "aliases make the file explode",
    "too-deep": "lists and mappings are nested too deeply",
    "unknown-tag": "a YAML tag is unknown or does not fit to its value",
    "unsafe-text": "a text has characters that could leave the line they are written on",
    # overlays, --set and ${VAR}
    "bad-overlay": "a value cannot be set, or a list not be extended, because of what is there",
    "unset-variable": "the environment lacks a variable that has no default",
    "bad-reference": "'${…}' is not of a known form",
    # the field table
    "unknown-key": "there is no such key at this place",
    "missing-key": "a required key is not there",
    "conflicting-keys": "keys exclude each other",
    "wrong-type": "a value has the wrong type",
    "bad-value": "a value has the right type and is not allowed",
    "literal-secret": "a secret stands in the file in place of a reference to it",
    # comments
    "unknown-code": "a comment ignores a code that does not exist",
    "unused-ignore": "a comment ignores what is not there",
    "ignored-error": "a comment tries to ignore an error",
}
