r"""Fields of forms and of the query, as regular expressions for PCRE that read a text once.

Like `json_regex`: every repetition is possessive, and the work follows the length. A form in several parts
(`multipart/form-data`) has to begin with its boundary, and each part's `Content-Disposition` has to be of the
plain form that clients write: what others could read in another way is no form. A field that is looked for
may be there once.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, NamedTuple

from lbgen.targets.nginx.language.quoting import escape_regex, regex_word
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lbgen.targets.nginx.assembly import Assembly

_LONGEST = 1024
"""Bytes of a value that is looked for."""
_LINE = r"[A-Za-z][A-Za-z0-9_-]*+ : [^\r\n]*+ \r\n"
_ANY = rf"(?: (?! content-disposition: ) {_LINE} )*+"
_PLAIN = (
    r"(?: content-transfer-encoding: [ \t]*+ (?:binary|[78]bit) [ \t]*+ \r\n"
    rf" | (?! content-(?:disposition|transfer-encoding): ) {_LINE} )*+"
)
"""Headers beside `Content-Disposition`: any, and those that leave the value as it stands."""
NEEDLESS = "%(?:2[dDeE]|3[0-9]|[46][1-9a-fA-F]|[57][0-9aA]|5[fF]|7[eE])"
"""An escape that no client writes: of a letter, a digit, or one of `-._~`."""


class Field(NamedTuple):
    """A field that is looked for."""

    name: str
    capture: str
    """A name, unique in the configuration: it becomes a variable."""


def encoded(fields: Iterable[Field]) -> str:
    """Return the expression for a form in one line, ``a=b&c=d``, as it is in a query, too."""
    fields = tuple(fields)
    ways = [
        rf"(?(<{field.capture}>)(*FAIL)) {_escaped_name(field.name)}"
        rf" (?: = | (?= & | $ ) ) (?<{field.capture}> [^&]{{0,{_LONGEST}}}+ )"
        for field in fields
    ]
    names = "|".join(_escaped_name(field.name) for field in fields)
    others = rf"(?! (?:{names}) (?: [=&] | $ ) ) [^&]*+"
    return rf"(?xs) ^ (?: (?: {' | '.join([*ways, others])} ) (?: & | $ ) )*+ $"


def parts(fields: Iterable[Field], boundary: str) -> str:
    """Return the expression for a form in parts; `boundary`: the capture for what stands between them."""
    fields = tuple(fields)
    names = "|".join(escape_regex(field.name) for field in fields)
    named = [
        rf"{_PLAIN} {_disposition(escape_regex(field.name))} (?(<{field.capture}>)(*FAIL)) [ \t]*+ \r\n"
        rf" {_PLAIN} \r\n (?<{field.capture}> [^\x00-\x1f\x7f]{{0,{_LONGEST}}}+ )"
        for field in fields
    ]
    bare = r"[^\x00-\x20\";\\%]++"
    file = r'(?: ; [ \t]*+ filename (?: \*=[^";\r\n]*+ | ="(?:[^"\\\r\n]++|\\.)*+" | =[^";\ \r\n]*+ ) )'
    body = rf"{_ANY} \r\n (?: [^\r]++ | \r (?! \n--(?-i:\k<{boundary}>) ) )*+"
    upload = rf"{_ANY} {_disposition(bare)} {file}++ [ \t]*+ \r\n {body}"
    unnamed = rf'(?! (?:{names}) ["; \t\r] ) {bare}'
    other = rf"{_ANY} {_disposition(unnamed)} [ \t]*+ \r\n {body}"
    ways = " | ".join([*named, upload, other])
    return (
        rf"(?xsi) ^ --(?<{boundary}> [0-9A-Za-z'()+_,./:=?-]{{1,70}}+ ) \r\n"
        rf" (?: (?: {ways} ) \r\n--(?-i:\k<{boundary}>) (?: \r\n | (?= -- ) ) )++ --"
    )


def _disposition(name: str) -> str:
    """Return the expression for the header that names a part, up to the name's end."""
    said = r"content-disposition: [ \t]*+ form-data [ \t]*+ ; [ \t]*+ name="
    return rf'{said} (?-i: "{name}" | {name} (?= [; \t\r] ) )'


def _escaped_name(name: str) -> str:
    """Return the expression for a field's name, each letter of which may be written as an escape."""
    return "".join(
        f"(?:{'[ ]' if letter == ' ' else escape_regex(letter)}|{escape_of(letter)})" for letter in name
    )


def escape_of(letter: str) -> str:
    """Return the expression for the escape of an ASCII character."""
    return "%" + "".join(f"[{d}{d.upper()}]" if d.isalpha() else d for d in f"{ord(letter):02x}")


KIND = Syntax("$lb_kind")
"""What a body is: as `bodies.BODY` says it, or ``form``, ``parts``, ``ill`` (it can be read in two ways)."""


def add_forms(made: Assembly, body: Syntax, short: Callable[[Assembly, Syntax, str], Syntax]) -> None:
    """Add the maps that read forms. `body`: the variable for what is none; `short`: reads no long bodies."""
    fields = [Field(name, f"lb_field_{number}") for number, name in enumerate(made.fields)]
    one = [Field(name, f"lb_encoded_{number}") for number, name in enumerate(made.fields)]
    # Many clients send JSON with curl's default type, that of forms.
    entries = [("default", "hidden"), ('""', "form"), (regex_word(r"~^[ \t\r\n]*\{"), body)]
    entries += [(regex_word(f"~{encoded(one)}"), "form"), (regex_word("~^"), "ill")]
    form = made.map("$request_body", "$lb_form_text", entries)
    form = short(made, form, "$lb_form")
    same = made.map(
        '"$lb_boundary $content_type"', "$lb_bounded", [("default", "ill"), (regex_word(_BOUNDED), "parts")]
    )
    whole = regex_word(f"~{parts(fields, 'lb_boundary')}")
    entries = [("default", "hidden"), ('""', "parts"), (whole, same), (regex_word("~^"), "ill")]
    made.map("$request_body", "$lb_parts", entries)
    kinds = [(regex_word("~*^multipart/form-data"), "$lb_parts")]
    kinds += [(regex_word("~*^application/x-www-form-urlencoded"), form)]
    made.map("$content_type", KIND, [("default", body), *kinds])


_BOUNDED = (
    r"~^(?<lb_own>\S+) (?i:multipart/form-data)(?:[ \t]*;[ \t]*(?!(?i)boundary)[A-Za-z-]+=[A-Za-z0-9_.-]+)*"
    r"[ \t]*;[ \t]*(?i:boundary)=(?:\"\k<lb_own>\"|\k<lb_own>)[ \t]*$"
)


def field(made: Assembly, name: str) -> Syntax:
    """Return the variable with a field of a form: behind ``r:`` as it is, behind ``q:`` with escapes.

    Empty: it is not there, or empty, or the body is no form.
    """
    if name not in made.fields:
        made.fields.append(name)
    number = made.fields.index(name)
    entries = []
    for kind, mark, capture in (("parts", "r", "lb_field"), ("form", "q", "lb_encoded")):
        # Asked by way of the map that sets the capture.
        there = made.map(KIND, f"${capture}_{number}_raw", [("default", f"${capture}_{number}")])
        entries.append((kind, marked(made, there, mark)))
    return made.map(KIND, f"$lb_form_{number}", [("default", '""'), *entries])


def parameter(made: Assembly, name: str) -> Syntax:
    """Return the variable with a parameter of the query, behind ``q:``; ``?:`` where it is there twice."""
    slug = zlib.crc32(name.encode())
    capture = f"lb_query_{slug:08x}"
    pattern = regex_word(f"~{encoded([Field(name, capture)])}")
    clear = made.map("$args", f"${capture}_clear", [("default", "0"), ('""', "1"), (pattern, "1")])
    there = made.map(clear, f"${capture}_raw", [("default", f"${capture}")])
    found = marked(made, there, "q")
    return made.map(clear, f"${capture}_found", [("default", '"?:"'), ("1", found)])


def marked(made: Assembly, value: Syntax, mark: str, otherwise: str = '""') -> Syntax:
    """Return the variable with a value behind its mark; without one, `otherwise`."""
    return made.map(value, f"{value}_{mark}", [('""', otherwise), ("default", f'"{mark}:{value}"')])


def value_regex(glob: str, marks: str = "rq") -> str:
    """Return the expression for a marked value; `*` stands for anything.

    Of `marks` ``r`` is the text itself, ``q`` has escapes of a URL, ``j`` those of JSON.
    """
    ways: dict[str, str] = {}
    for mark in marks:
        written = "".join(_spelled(letter, mark) for letter in glob)
        ways[written] = ways.get(written, "") + mark
    return "^(?:" + "|".join(f"[{letters}]:{written}" for written, letters in ways.items()) + ")$"


def _spelled(letter: str, mark: str) -> str:
    if letter == "*":
        return ".*"
    if mark == "j" and letter == "/":
        return r"\\?/"  # as PHP writes it
    if mark == "q" and not (letter.isalnum() or letter in "-._~"):
        plain = "" if letter == "+" else f"{escape_regex(letter)}|"  # a plus stands for a space
        return f"(?:{plain}{escape_of(letter)})"
    return escape_regex(letter)
