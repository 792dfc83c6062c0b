"""How plain scalars get their type: YAML 1.2's core schema, in place of PyYAML's 1.1.

Under 1.1 ``on`` and ``no`` are booleans, ``22:30`` is 1350 and ``010`` is 8. Under the core
schema they are strings, and a number with a leading zero is ten or eight depending on who
reads it, so those are refused (https://yaml.org/spec/1.2.2/#103-core-schema).
"""

from __future__ import annotations

import re
from functools import cache

_TAG = "tag:yaml.org,2002:"
STR, INT, FLOAT, BOOL, NULL = (_TAG + name for name in ("str", "int", "float", "bool", "null"))
MAP, SEQ = _TAG + "map", _TAG + "seq"

_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), NULL),
    **dict.fromkeys(("true", "True", "TRUE", "false", "False", "FALSE"), BOOL),
}
_NUMBER = (
    r"(?P<int>[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)"
    r"|[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)


@cache
def _number() -> re.Pattern[str]:
    return re.compile(_NUMBER)


def core_tag(text: str) -> str:
    """Return the tag of a scalar written without quotes."""
    if text[:1] in "-+.0123456789" and text:
        match = _number().fullmatch(text)
        if match:
            return INT if match["int"] is not None else FLOAT
        return STR
    return _WORDS.get(text, STR)


def has_leading_zero(text: str) -> bool:
    """Tell whether a number begins with a zero that more digits follow: ``010``, ``-007``, ``01.5``."""
    digits = text.lstrip("+-")
    return digits[:1] == "0" and digits[1:2].isdigit()


def zero_complaint(text: str) -> str:
    """Return what is wrong with a number that has a leading zero; a long one may be a secret's digits."""
    number = f"the number {text}" if len(text) <= 6 else "the number here"
    return f"{number} has a leading zero, which some programs interpret as octal"
