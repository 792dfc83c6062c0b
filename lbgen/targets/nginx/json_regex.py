r"""JSON as one regular expression for PCRE, which reads a body once and never goes back.

Every repetition is possessive, and each alternative begins with a character of its own: the work follows the
length: with `pcre_jit on`, 2 to 5 ms a MiB of what people send and at most 40 ms of anything else (10.42, a
busy machine of two cores; without, 10 to 50 and up to 300). Nesting is by recursion, for which a compiled
expression has 32 KiB of stack: some 200 levels (10.42). What is nested deeper ends in an error of PCRE, which
the map takes as its default; without `pcre_jit` the limit on the heap does that.
What is taken is what Python's `json` takes: `NaN` and infinities too, and the last of members of one name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lbgen.targets.nginx.quoting import escape_regex

if TYPE_CHECKING:
    from collections.abc import Iterable

_SPACE = r"[ \t\r\n]*+"
_CHARACTERS = r'[^"\\\x00-\x1f]*+ (?: \\ (?: ["\\/bfnrt] | u [0-9a-fA-F]{4} ) [^"\\\x00-\x1f]*+ )*+'
_NUMBER = "-? (?: 0 | [1-9][0-9]*+ ) (?: [.][0-9]++ )?+ (?: [eE][-+]?[0-9]++ )?+"
_TEXT, _WORD, _NESTED = "(?&lb_text)", "(?&lb_word)", "(?&lb_nested)"
_VALUE = f"(?: {_TEXT} | {_WORD} | {_NESTED} )"
_HEAP_KIB = 1_000

# What a member's value holds, each with a capture that is empty where the value is of another kind: the value
# of an earlier member of the same name must not stay.
TEXT = f'(?> "?+ (?<NAME> (?<=") {_CHARACTERS} | ) )'
"""The inside of a string, as it is written."""
NUMBER = f"(?<NAME> {_NUMBER} | )"
"""A number, as it is written."""
WHOLE = f"(?<NAME> {_TEXT} | {_NESTED} | )"
"""A string, list or object."""
FIRST = rf"(?> \[?+ {_SPACE} (?<NAME> {_NESTED} | {_TEXT} | ) )"
"""The first item of a list."""

FIRST_TWO = rf"(?> \[?+ {_SPACE} (?<NAME> {_NESTED} (?: {_SPACE} , {_SPACE} {_NESTED} )?+ | ) )"
"""The first two items of a list, or the one that there is, with what stands between them."""


def beginning(octets: int) -> str:
    """Return what captures the first bytes of a value and of what follows it."""
    return f"(?<NAME> .{{1,{min(octets, 60_000)}}} )"


def inside(key: str, value: str) -> str:
    """Return what looks for a value in the object that the member holds."""
    begun = f"{_key(key)} {_SPACE} : {_SPACE} (?= {value} ) | {_TEXT} {_SPACE} : {_SPACE}"
    return rf"(?: \{{ {_SPACE} (?: (?: {begun} ) {_VALUE} {_END} )*+ )?+"


class Member(NamedTuple):
    """A member of the body's object that is looked for."""

    key: str
    capture: str
    """A name, unique in the configuration: it becomes a variable."""
    value: str
    """One of the above."""


def document(members: Iterable[Member]) -> str:
    """Return the expression for a whole body, on several lines.

    It captures values of members of the body's object, and none of inner ones.
    """
    by_key: dict[str, list[str]] = {}
    for member in members:
        by_key.setdefault(member.key, []).append(f"(?= {member.value.replace('NAME', member.capture)} )")
    keys = [*(_key(key) for key in by_key), _TEXT]
    looked = [*(" ".join(captures) for captures in by_key.values()), ""]
    known = "\n      | ".join(
        f"{key} {_SPACE} : {_SPACE} {captures}" for key, captures in zip(keys, looked, strict=True)
    )
    return rf"""(*LIMIT_HEAP={_HEAP_KIB})(?xs)
    (?(DEFINE)
      (?<lb_text> " {_CHARACTERS} " )
      (?<lb_word> {_NUMBER} | true | false | null | NaN | -?Infinity )
      (?<lb_nested>
        \[ {_SPACE} (?: {_VALUE} {_SPACE} (?: , {_SPACE} (?! \] ) | (?= \] ) ) )*+ \]
      | \{{ {_SPACE} (?: {_TEXT} {_SPACE} : {_SPACE} {_VALUE} {_END} )*+ \}} )
    )
    ^ (?: \xEF\xBB\xBF )?+ {_SPACE} (?:
      (?: \{{ {_SPACE} (?: (?:
        {known} ) {_VALUE} {_END} )*+ \}}
      | (?= \[ ) {_NESTED} | {_TEXT} | {_WORD} ) {_SPACE} )?+ $"""


_END = rf'{_SPACE} (?: , {_SPACE} (?= " ) | (?= \}} ) )'
"""Of a member: another one follows, or the object ends."""
BROKEN = r"(?s)^(?:(?:\xEF\xBB\xBF)?[ \t\r\n]*\{|\xFE\xFF|\xFF\xFE|.{0,3}\x00)"
"""An object that is no JSON, or JSON in UTF-16 or UTF-32."""


def _key(name: str) -> str:
    """Return the expression for a member's name, each letter of which may be written as an escape."""
    return f'"{"".join(map(_spelled, name))}"'


def _spelled(letter: str) -> str:
    digits = "".join(
        f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in f"{ord(letter):02x}"
    )
    plain = f"[{letter}]" if letter in " #" else escape_regex(letter)
    return rf"(?:{plain}|\\u00{digits})"
