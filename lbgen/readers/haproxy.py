"""HAProxy configuration as sections of lines, each with its place, and what holds through ``defaults``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from lbgen.problems import Location, Problem
from lbgen.readers.haproxy_conditions import Conditions
from lbgen.readers.haproxy_words import split_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SECTIONS = frozenset(
    {
        *("global", "defaults", "frontend", "backend", "listen", "peers", "resolvers", "userlist", "mailers"),
        *(
            "cache",
            "program",
            "ring",
            "http-errors",
            "log-forward",
            "fcgi-app",
            "crt-store",
            "traces",
            "acme",
        ),
        *("log-profile", "healthcheck"),
    }
)
"""The words that begin a section, up to HAProxy 3.4, wherever they stand in the line."""
PROXIES = frozenset({"frontend", "backend", "listen"})


class Line(NamedTuple):
    """One line: its words without quotes and escapes."""

    words: tuple[str, ...]
    location: Location
    comments: tuple[str, ...] = ()
    """The comments directly above it, and the one behind it, without the '#'."""

    def after(self, word: str) -> str | None:
        """Return the word that follows another: ``10`` of ``maxconn 10``."""
        at = self.words.index(word) if word in self.words[:-1] else -1
        return self.words[at + 1] if at >= 0 else None


class Section(NamedTuple):
    """One section, and the ``defaults`` that it takes values from."""

    kind: str
    name: str
    """Empty for ``global`` and anonymous ``defaults``."""
    head: Line
    lines: tuple[Line, ...]
    defaults: Section | None = None

    @property
    def location(self) -> Location:
        return self.head.location

    @property
    def title(self) -> str:
        return f"{self.kind} {self.name}".rstrip()

    def own(self, *words: str) -> tuple[Line, ...]:
        """Return the lines of this section that begin with these words."""
        return tuple(line for line in self.lines if line.words[: len(words)] == words)

    def effective(self, *words: str) -> tuple[Line, ...]:
        """Return the lines that begin with these words, of the section, else of its defaults."""
        here: Section | None = self
        while here is not None:
            found = here.own(*words)
            if found:
                return found
            here = here.defaults
        return ()

    def last(self, *words: str) -> Line | None:
        """Return the line that holds here: ``last('timeout', 'server')``; None where nobody wrote one."""
        found = self.effective(*words)
        return found[-1] if found else None

    def option(self, name: str) -> Line | None:
        """Return the line that turns an option on here; None when none does, or ``no option`` follows."""
        here: Section | None = self
        while here is not None:
            said = [line for line in here.lines if _is(line, name)]
            if said:
                return said[-1] if said[-1].words[0] == "option" else None
            here = here.defaults
        return None

    def servers(self) -> tuple[Server, ...]:
        """Return the servers, with what ``default-server`` says before them, here and in the defaults."""
        words = list(self.default_server())
        found = []
        for line in self.lines:
            if line.words[0] == "default-server":
                words += line.words[1:]
            elif line.words[0] in {"server", "server-template"} and len(line.words) > 2:
                found.append(_server(line, words))
        return tuple(found)

    def default_server(self) -> tuple[str, ...]:
        """Return the parameters that servers have from the defaults; HAProxy adds them up."""
        if self.defaults is None:
            return ()
        own = [word for line in self.defaults.own("default-server") for word in line.words[1:]]
        return (*self.defaults.default_server(), *own)


def _is(line: Line, option: str) -> bool:
    said = line.words[:2] if line.words[0] == "option" else line.words[1:3]
    return said == ("option", option) and line.words[0] in {"option", "no", "default"}


class Server(NamedTuple):
    """A ``server`` (or ``server-template``) and the parameters that hold for it."""

    name: str
    address: str
    line: Line
    words: tuple[str, ...]
    """The parameters, those of ``default-server`` first: of two, the later holds."""
    slots: int = 1
    """How many servers a ``server-template`` stands for."""

    def parameter(self, name: str) -> str | None:
        """Return what follows a parameter that takes a value: ``maxconn``, ``weight``."""
        places = [at for at, word in enumerate(self.words[:-1]) if word == name]
        return self.words[places[-1] + 1] if places else None

    def has(self, flag: str) -> bool:
        """Tell whether a flag such as ``check`` is set, and not taken back by ``no-check``."""
        said = [word for word in self.words if word in {flag, f"no-{flag}"}]
        return bool(said) and said[-1] == flag


def _server(line: Line, words: list[str]) -> Server:
    if line.words[0] == "server":
        return Server(line.words[1], line.words[2], line, (*words, *line.words[3:]))
    count = re.fullmatch(r"(?:(\d+)-)?(\d+)", line.words[2])
    number = int(count[2]) - int(count[1] or 1) + 1 if count else 1
    address = line.words[3] if len(line.words) > 3 else ""
    return Server(line.words[1], address, line, (*words, *line.words[4:]), max(number, 1))


class Haproxy(NamedTuple):
    """The sections of one configuration: one file, or several in the order of ``-f``."""

    sections: tuple[Section, ...]
    texts: dict[str, str]
    """Each file that was read, by the name that locations have."""
    problems: tuple[Problem, ...] = ()
    """``configuration-syntax``; ``unknown-condition`` for a '.if' whose first branch was taken on trust."""

    def all(self, *kinds: str) -> Iterator[Section]:
        """Yield the sections of these kinds, in the order written."""
        return (section for section in self.sections if section.kind in kinds)

    def backend(self, name: str) -> Section | None:
        """Return the backend or listen section of this name."""
        found = [one for one in self.sections if one.kind in {"backend", "listen"} and one.name == name]
        return found[0] if found else None

    @property
    def globals(self) -> Section | None:
        """All ``global`` sections as one; None when there is none."""
        found = list(self.all("global"))
        lines = tuple(line for section in found for line in section.lines)
        return found[0]._replace(lines=lines) if found else None


def parse_haproxy(files: Sequence[tuple[str, str]], version: str = "") -> Haproxy:
    """Return the sections of texts by name, read one after the other as ``haproxy -f A -f B`` does.

    `version`: decides ``version_atleast``; empty: not known. Errors are problems with a place.
    """
    problems: list[Problem] = []
    made: list[Section] = []
    drafts: list[tuple[Line, list[Line]]] = []
    for name, text in files:
        for line in _lines(name, text, version, problems):
            if line.words[0] in SECTIONS:
                drafts.append((line, []))
            elif drafts:
                drafts[-1][1].append(line)
            else:
                message = f"'{line.words[0]}' stands before the first section"
                problems.append(Problem("configuration-syntax", message, location=line.location))
    earlier: list[Section] = []
    for head, lines in drafts:
        made.append(_section(head, lines, earlier, problems))
        if made[-1].kind == "defaults":
            earlier.append(made[-1])
    return Haproxy(tuple(made), dict(files), tuple(problems))


def _section(head: Line, lines: list[Line], earlier: list[Section], problems: list[Problem]) -> Section:
    """Return a section. `earlier`: the ``defaults`` above it."""
    kind = head.words[0]
    rest = head.words[1:]
    named, wanted = rest[:1], head.after("from")
    name = named[0] if named and named[0] != "from" else ""
    defaults = None
    if kind in PROXIES | {"defaults"} and wanted is not None:
        defaults = next((one for one in reversed(earlier) if one.name == wanted), None)
        if defaults is None:
            message = f"'{head.words[0]} {name}' is from defaults '{wanted}', which do not stand above"
            problems.append(Problem("configuration-syntax", message, location=head.location))
    elif kind in PROXIES and earlier:
        defaults = earlier[-1]
    return Section(kind, name, head, tuple(lines), defaults)


def _lines(name: str, text: str, version: str, problems: list[Problem]) -> Iterator[Line]:
    conditions = Conditions(version)
    comments: list[str] = []
    for number, raw in enumerate(text.split("\n"), 1):
        words, comment, fault = split_words(raw)
        place = Location(name, number, len(raw) - len(raw.lstrip()) + 1)
        if fault:
            problems.append(Problem("configuration-syntax", fault, location=place))
        if any("\0" in word for word in (*words, comment or "")):
            problems.append(Problem("configuration-syntax", "a NUL character", location=place))
            continue
        if not words:
            if comment is None:
                comments = []
            else:
                comments.append(comment.strip())
            continue
        if words[0].startswith("."):
            doubt = conditions.read(words, raw)
            if doubt:
                problems.append(Problem("unknown-condition", doubt, location=place))
        elif conditions.holds:
            behind = [comment.strip()] if comment is not None else []
            yield Line(words, place, (*comments, *behind))
        comments = []
    if conditions.open:
        message = "a '.if' has no '.endif'"
        problems.append(Problem("configuration-syntax", message, location=Location(name, number, 1)))
