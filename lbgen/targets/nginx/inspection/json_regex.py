r"""JSON as one regular expression for PCRE, which reads a body once and never goes back.

Every repetition is possessive, and each alternative begins with a character of its own: the work follows the
length: with `pcre_jit on`, 2 to 5 ms a MiB of what people send and at most 15 ms of anything else (10.42, a
busy machine of two cores; without, five to ten times as much). Nesting is by recursion, for which a compiled
expression has 32 KiB of stack: some 200 levels (10.42). What is nested deeper ends in an error of PCRE, which
the map takes as its default; without `pcre_jit` the limit on the heap does that.
What is taken is what Python's `json` takes: `NaN` and infinities too, and the last of members of one name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from lbgen.targets.nginx.language.quoting import escape_regex

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SPACE = r"[ \t\r\n]*+"
_CHARACTERS = r'[^"\\\x00-\x1f]*+ (?: \\ (?: ["\\/bfnrt] | u [0-9a-fA-F]{4} ) [^"\\\x00-\x1f]*+ )*+'
_NUMBER = "-? (?: 0 | [1-9][0-9]*+ ) (?: [.][0-9]++ )?+ (?: [eE][-+]?[0-9]++ )?+"
_TEXT, _WORD, _NESTED = "(?&lb_t)", "(?&lb_w)", "(?&lb_n)"
_VALUE = f"(?: {_TEXT} | {_WORD} | {_NESTED} )"
_END = rf'{_SPACE} (?: , {_SPACE} (?= " ) | (?= \}} ) )'
"""Of a member: another one follows, or the object ends."""
_HEAP_KIB = 1_000

# What a member's value holds, each with a capture that is empty where the value is of another kind: the value
# of an earlier member of the same name must not stay. That it is valid is for what reads it to see.
TEXT = r'"?+ (?<NAME> (?<=") (?: [^"\\]++ | \\. )*+ | )'
"""The inside of a string, as it is written."""
NUMBER = "(?<NAME> -? [0-9] [-+.0-9eE]*+ | )"
"""A number, as it is written."""
_IS = r'(?! [,}\]] ) (?= (?<NAME_is> ["{\[] | ) )'
WHOLE = f"{_IS} (?<NAME> {_TEXT} | {_NESTED} | ) {_WORD}?+"
"""A string, list or object. `NAME_is` is its first character."""
_MORE = f"{_SPACE} , {_SPACE} {_VALUE}"
_ROLE = f'"role" {_SPACE} : {_SPACE} (?: (?= "(?:system|developer)" ) (?<NAME_role> ) )?+'
_MESSAGE = rf"\{{ {_SPACE} (?: (?: {_ROLE} | {_TEXT} {_SPACE} : {_SPACE} ) {_VALUE} {_END} )*+ \}}"
LIST = rf"""(?= \[?+ {_SPACE} (?<NAME_is> ["{{\[] | ) ) (?| \[ {_SPACE} (?! , )
        (?<NAME> (?> {_MESSAGE} | {_TEXT} | (?= \[ ) {_NESTED} | ) ) {_WORD}?+
        (?<NAME_then> (?(<NAME_role>) (?: {_MORE} )?+ ) ) (?: {_MORE} )*+ {_SPACE} \]
      | (?! [[,}}\]] ) (?<NAME> {_TEXT} | {_NESTED} | ) {_WORD}?+ )"""
"""The first item of a list; or the string or object that stands there instead.

`NAME_then` is the second one too, where the first one's role is the system's.
"""
CONSUMING = frozenset((WHOLE, LIST))
"""What reads the value itself, once; the other kinds look ahead, and it is read again."""


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
    known = "\n|".join([*_known(members), f"{_TEXT} {_SPACE} : {_SPACE} {_VALUE}"])
    return _compact(rf"""(*LIMIT_HEAP={_HEAP_KIB})(?xs)
    (?(DEFINE)
      (?<lb_t> " {_CHARACTERS} " )
      (?<lb_w> {_NUMBER} | true | false | null | NaN | -?Infinity )
      (?<lb_n>
        \[ {_SPACE} (?: {_VALUE} {_SPACE} (?: , {_SPACE} (?! \] ) | (?= \] ) ) )*+ \]
      | \{{ {_SPACE} (?: {_TEXT} {_SPACE} : {_SPACE} {_VALUE} {_END} )*+ \}} )
    )
    ^ (?: \xEF\xBB\xBF )?+ {_SPACE} (?:
      (?: \{{ {_SPACE} (?: (?:
        {known} ) {_END} )*+ \}}
      | (?= \[ ) {_NESTED} | {_TEXT} | {_WORD} ) {_SPACE} )?+ $""")


BROKEN = r"(?s)^(?:(?:\xEF\xBB\xBF)?[ \t\r\n]*\{|\xFE\xFF|\xFF\xFE|.{0,3}\x00)"
"""An object that is no JSON, or JSON in UTF-16 or UTF-32."""


def _known(members: Iterable[Member]) -> Iterator[str]:
    """Yield what reads the members that are looked for; what several have in common stands once."""
    by_key: dict[str, list[Member]] = {}
    for member in members:
        by_key.setdefault(member.key, []).append(member)
    begun: dict[str, list[str]] = {}
    for key, found in by_key.items():
        reads = [_captured(member) for member in found if member.value in CONSUMING] or [_VALUE]
        looks = [f"(?= {_captured(member)} )" for member in found if member.value not in CONSUMING]
        begun.setdefault("".join(reads), []).append(" ".join([f"{_key(key)} {_SPACE} : {_SPACE}", *looks]))
    for read, heads in begun.items():
        yield f"(?: {' | '.join(heads)} ) {read}"


def _captured(member: Member) -> str:
    return member.value.replace("NAME", member.capture)


def _compact(regex: str) -> str:
    """Return the expression without spaces that mean nothing, since NGINX takes no longer word."""
    return re.sub(r"(\\.|\[\^?(?:\\.|[^\\\]])+\])| +", lambda part: part[1] or "", regex)


def _key(name: str) -> str:
    """Return the expression for a member's name, each letter of which may be written as an escape."""
    return f'"{"".join(map(_spelled, name))}"'


def _spelled(letter: str) -> str:
    digits = "".join(
        f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in f"{ord(letter):02x}"
    )
    plain = f"[{letter}]" if letter in " #" else escape_regex(letter)
    return rf"(?:{plain}|\\u00{digits})"
