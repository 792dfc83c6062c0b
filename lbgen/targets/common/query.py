"""Parameters of the query as regular expressions: names in any spelling, values in that of clients."""

from __future__ import annotations

from lbgen.targets.common.paths import escape_regex

_NEEDLESS = "%(?:2[dDeE]|3[0-9]|[46][1-9a-fA-F]|[57][0-9aA]|5[fF]|7[eE])"
"""An escape of a letter, a digit, or one of `-._~`."""
_BEGIN = "(?:^|&)"


def parameter(name: str, glob: str) -> str:
    """Return the expression for a query with this parameter and a value that fits the glob."""
    value = "".join("[^&]*" if letter == "*" else _spelled(letter) for letter in glob)
    if anything(glob):
        value = "[^&]+"
    return f"{_BEGIN}{_name(name)}={value}(?:&|$)"


def anything(glob: str) -> bool:
    """Tell whether any value fits but an empty one, which NGINX cannot tell from none."""
    return not glob.strip("*")


def in_path(query: str) -> str:
    """Return the expression that a path fits as a whole, where its query fits one of these."""
    return f"(?s)[^?]*[?](?:.*&)?{query.removeprefix(_BEGIN)}.*"


def twice(name: str) -> str:
    """Return the expression for a query that has the parameter twice: which one counts is anybody's guess."""
    return f"{_BEGIN}{_name(name)}(?:=[^&]*)?&(?:.*&)?{_name(name)}(?:[=&]|$)"


def needless(name: str) -> str:
    """Return the expression for a query where the parameter's value has an escape that no client writes."""
    return f"{_BEGIN}{_name(name)}=[^&]*{_NEEDLESS}"


def _name(name: str) -> str:
    return "".join(f"(?:{escape_regex(letter)}|{_escape_of(letter)})" for letter in name)


def _spelled(letter: str) -> str:
    if letter.isalnum() or letter in "-._~":
        return escape_regex(letter)
    plain = "" if letter == "+" else f"{escape_regex(letter)}|"  # a plus stands for a space
    return f"(?:{plain}{_escape_of(letter)})"


def _escape_of(letter: str) -> str:
    return "%" + "".join(f"[{d}{d.upper()}]" if d.isalpha() else d for d in f"{ord(letter):02x}")
