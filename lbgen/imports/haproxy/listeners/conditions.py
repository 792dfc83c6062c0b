"""Conditions of HAProxy's rules (``if``, ``unless``, ACLs) as conditions of routes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lbgen.fleet.schema.route import ROUTE
from lbgen.imports.haproxy.listeners.terms import Condition, Term
from lbgen.imports.paths import paths_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lbgen.readers.haproxy import Line, Section

_MODEL = re.compile(r"req(?:uest)?\.body,json_query\(\s*'?\"?\$\.model'?\"?\s*\)(?:,lower)?")
_HEADER = re.compile(
    r"(?:req\.|req_)?(f?hdr(?:_beg|_end|_dom|_sub|_reg|_str)?)\(([A-Za-z0-9_-]+)(?:,-?\d+)?\)((?:,lower|,host_only|,field\(1,:\)|,word\(1,:\))*)"
)
_KEYS = frozenset(field.name for field in ROUTE.fields)


class Conditions:
    """The ACLs and variables of one section."""

    def __init__(self, section: Section) -> None:
        self._acls: dict[str, list[Line]] = {}
        self._variables: dict[str, str] = {}
        for line in section.lines:
            if line.words[0] == "acl" and len(line.words) > 2:
                self._acls.setdefault(line.words[1], []).append(line)
            name = (
                re.fullmatch(r"set-var\(((?:txn|req|sess)\.\w+)\)", line.words[1])
                if len(line.words) > 2
                else None
            )
            if name and line.words[0] == "http-request":
                self._variables[name[1]] = line.words[2]

    def of(self, words: Sequence[str]) -> Condition:
        """Return the condition at the end of a rule; it always holds where there is none."""
        at = next((index for index, word in enumerate(words) if word in {"if", "unless"}), None)
        if at is None:
            return Condition(((),), ())
        alternatives: list[list[Term | None]] = [[]]
        for term in self._terms(words[at + 1 :]):
            if term == "or":
                alternatives.append([])
            else:
                alternatives[-1].append(term)  # type: ignore[arg-type]  # 'or' is dealt with
        if words[at] == "unless":
            alternatives = _negated(alternatives)
        lines = [line for terms in alternatives for term in terms if term is not None for line in term.lines]
        return Condition(tuple(tuple(terms) for terms in alternatives), tuple(lines))

    def _terms(self, words: Sequence[str]) -> Iterator[Term | str | None]:
        at, negated = 0, False
        while at < len(words):
            word = words[at]
            at += 1
            if word == "!":
                negated = not negated
                continue
            while word.startswith("!") and len(word) > 1:
                negated, word = not negated, word[1:]
            if word in {"or", "||"}:
                yield "or"
                continue
            if word == "{":
                end = next((index for index in range(at, len(words)) if words[index] == "}"), len(words))
                term = self._test(list(words[at:end]), ())
                at = end + 1
            else:
                term = self._named(word)
            yield term._replace(negated=term.negated != negated) if term is not None else None
            negated = False

    def _named(self, name: str) -> Term | None:
        """Return the test of an ACL: its lines are alternatives, so values of one kind are one list."""
        if name in {"TRUE", "HTTP"}:
            return Term({})
        if name.startswith("METH_"):
            return Term({"method": name.removeprefix("METH_")})
        lines = self._acls.get(name, [])
        found = [self._test(list(line.words[2:]), (line,)) for line in lines]
        known = [one for one in found if one is not None]
        if not lines or len(known) < len(found):
            return None
        merged: dict[str, Any] = {}
        for one in known:
            for key, value in one.values.items():
                if len(known) > 1 and (not isinstance(value, str | list)):
                    return None
                merged[key] = _list(merged.get(key)) + _list(value) if len(known) > 1 else value
        if len(merged) > 1 and not set(merged) <= {"path", "path_exact"}:
            return None
        note = next((one.note for one in known if one.note), "")
        return Term(merged, lines=tuple(lines), note=note)

    def _test(self, words: list[str], lines: tuple[Line, ...]) -> Term | None:
        """Return the test of a sample and what it is compared with."""
        if not words:
            return None
        sample, rest = words[0], words[1:]
        variable = re.fullmatch(r"var\(([a-z.\w]+)\)(.*)", sample)
        if variable and variable[1] in self._variables:
            sample = self._variables[variable[1]] + variable[2]
        method = ""
        while rest and rest[0].startswith("-") and rest[0] != "--":
            flag = rest.pop(0)
            if flag == "-m" and rest:
                method = rest.pop(0)
            elif flag == "-f":
                return None
        values = rest[1:] if rest[:1] == ["--"] else rest
        made = _sample(sample, method, values)
        return made._replace(lines=lines) if made is not None else None


def _negated(alternatives: list[list[Term | None]]) -> list[list[Term | None]]:
    """Return the opposite: of alternatives of one test each, or of one conjunction of tests."""
    flipped = [
        [term._replace(negated=not term.negated) if term else None for term in terms]
        for terms in alternatives
    ]
    if all(len(terms) == 1 for terms in flipped):
        return [[terms[0] for terms in flipped]]
    return [[term] for term in flipped[0]] if len(flipped) == 1 else [[None]]


def _list(value: Any) -> list[Any]:  # noqa: ANN401 - one or several
    return value if isinstance(value, list) else [] if value is None else [value]


def _single(values: list[Any]) -> Any:  # noqa: ANN401 - one or several
    return values[0] if len(values) == 1 else values


def _sample(sample: str, method: str, values: list[str]) -> Term | None:
    """Return a test as the condition of a route; None for one that no route has."""
    for pattern, reader in _SAMPLES:
        found = re.fullmatch(pattern, sample)
        if found:
            return reader(found, method, values)
    return None


def _path(found: re.Match[str], method: str, values: list[str]) -> Term | None:
    how = found[1] or method or "str"
    if not values:
        return None
    if how == "str":
        return Term({"path_exact": _single(values)})
    if how == "reg":
        return _path_by_regex(values)
    return _path_by_prefix(values) if how == "beg" else None


def _path_by_regex(values: list[str]) -> Term | None:
    matches = [paths_of(value) for value in values]
    if None in matches:
        return None
    exact = [path for match in matches if match for path in match.exact]
    prefixes = [path for match in matches if match for path in match.prefixes]
    made = {"path_exact": _single(exact)} if exact else {}
    return Term({**made, **({"path": _single(prefixes)} if prefixes else {})})


def _path_by_prefix(values: list[str]) -> Term:
    loose = [value for value in values if not value.endswith("/")]
    note = f"whole segments only: {loose[0]} and {loose[0]}/…, no longer {loose[0]}…" if loose else ""
    if "/" in values:
        return Term({})
    return Term({"path": _single([value.rstrip("/") for value in values])}, note=note)


def _header(found: re.Match[str], method: str, values: list[str]) -> Term | None:
    header = _HEADER.fullmatch(found[0])
    if header is None or not values:
        return None
    kind, name = header[1].removeprefix("f").removeprefix("hdr").removeprefix("_"), header[2]
    how = kind or method or "str"
    if name.lower() == "host":
        return _host(how, values)
    if name.lower() in {"upgrade", "connection"}:
        return _upgrade(name, values)
    if how != "str":
        return None
    return Term({"header": {name: values[0]}} if len(values) == 1 else {":header": (name, values)})


def _host(how: str, values: list[str]) -> Term | None:
    if how == "str":
        return Term({"host": _single([value.partition(":")[0] for value in values])})
    whole = how == "end" and all(value.startswith(".") for value in values)
    return Term({"host": _single([f"*{value}" for value in values])}) if whole else None


def _upgrade(name: str, values: list[str]) -> Term | None:
    said = [value.lower() for value in values]
    if name.lower() == "upgrade":
        return Term({"websocket": True}) if said == ["websocket"] else None
    return Term({}) if said == ["upgrade"] else None


def _model(_found: re.Match[str], method: str, values: list[str]) -> Term | None:
    if method == "beg":
        values = [f"{value}*" for value in values]
    elif method not in {"", "str"} or not values:
        return None
    return Term({"model": _single(values)})


def _query(found: re.Match[str], method: str, values: list[str]) -> Term | None:
    if "query" not in _KEYS or method not in {"", "str"} or len(values) != 1:
        return None
    return Term({"query": {found[1]: values[0]}})


def _only_here(key: str) -> Callable[[re.Match[str], str, list[str]], Term | None]:
    return lambda found, method, values: Term({key: (found, method, tuple(values))})


_SAMPLES: tuple[tuple[str, Callable[[re.Match[str], str, list[str]], Term | None]], ...] = (
    (r"path(?:_(beg|reg|dir|end|sub|len))?", _path),
    (r"(?:path|url)()", _path),
    (_MODEL.pattern, _model),
    (_HEADER.pattern, _header),
    (r"method()", lambda _found, _method, values: Term({"method": _single(values)}) if values else None),
    (r"(?:url_param|urlp)\(([A-Za-z0-9_.-]+)\)", _query),
    (r"ssl_fc", _only_here(":tls")),
    (r"src", _only_here(":src")),
    (r"(?:nbsrv|be_conn_free|avg_queue|queue|connslots)\(([^)]*)\)", _only_here(":nbsrv")),
    (r"(?:sc\d?_|sc-|src_)(http_req_rate|conn_cur|http_req_cnt|conn_rate|gpc\d?_rate|http_err_rate)(?:\(.*\))?",
     _only_here(":rate")),
    (r"http_auth_bearer", _only_here(":bearer")),
    (r"http_auth\((.*)\)", _only_here(":basic")),
    (r"always_true|bool\(true\)", lambda _found, _method, _values: Term({})),
)  # fmt: skip
