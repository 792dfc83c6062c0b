"""YAML text becomes sound nodes, and whatever is not sound is named at its place."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
import yaml

from lbgen.fleet.text.source import Document, Source, paused_collector, read
from lbgen.problems import Location

POOL = "pools: {a: {servers: [x:1]}}\n"


def plain(node):
    """The node as Python values, scalars as (type, text)."""
    if node.id == "mapping":
        return {key.value: plain(value) for key, value in node.value}
    if node.id == "sequence":
        return [plain(item) for item in node.value]
    return node.tag.rpartition(":")[2], node.value


def found(text: str) -> list[tuple[str, int, int]]:
    return [(p.code, p.location.line, p.location.column) for p in read(Source("f.yaml", text))[1]]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("on", "str"), ("no", "str"), ("yes", "str"), ("y", "str"), ("22:30", "str"), ("1:30:00", "str"),
        ("2024-05-01", "str"), ("1_000", "str"), ("=", "str"), ("1.2.3", "str"), ("10.0.0.1:80", "str"),
        ("true", "bool"), ("True", "bool"), ("FALSE", "bool"), ("tRue", "str"), ("'true'", "str"),
        ("null", "null"), ("~", "null"), ("", "null"), ("Null", "null"), ("'null'", "str"),
        ("12", "int"), ("-12", "int"), ("+3", "int"), ("0x1F", "int"), ("0o17", "int"), ("'12'", "str"),
        ("0b11", "str"), ("0", "int"), ("1.3", "float"), ("1e3", "float"), (".inf", "float"), (".5", "float"),
        ("1.", "float"), (".", "str"), ("-", "seq"), ("!!str 12", "str"), ("'010'", "str"),
        ("0.5", "float"), ("00:10", "str"), ("0800x", "str"),
    ],
)  # fmt: skip
def test_scalars_have_core_schema_types(text: str, kind: str) -> None:
    root, problems = read(Source("f.yaml", f"a: {text}\n" if kind != "seq" else "a:\n - x\n"))
    assert problems == []
    value = root.value[0][1]
    assert value.tag.rpartition(":")[2] == kind


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 010", [("leading-zero", 1, 4)]),
        ("a: [1, -08]", [("leading-zero", 1, 8)]),
        ("a: 00.5", [("leading-zero", 1, 4)]),
        ("a: 1\nb: 2\na: 3\n", [("duplicate-key", 3, 1)]),
        ("a: {b: 1, b: 2, b: 3}", [("duplicate-key", 1, 11), ("duplicate-key", 1, 17)]),
        ("x: &x {a: 1}\ny: {<<: *x, <<: *x}", [("duplicate-key", 2, 13)]),
        ("a: {<<: 3}", [("bad-merge", 1, 5)]),
        ("8080: x", [("key-not-string", 1, 1)]),
        ("true: x", [("key-not-string", 1, 1)]),
        ("a: {~: 1}", [("key-not-string", 1, 5)]),
        ("? [a]\n: b", [("key-not-string", 1, 3)]),
        ("a: {{ host }}", [("key-not-string", 1, 5)]),
        ("---\na: 1\n---\nb: 2", [("several-documents", 3, 1)]),
        ("a: 1\n...\n---\n", [("several-documents", 3, 1)]),
        ("", [("empty-file", 1, 1)]),
        ("# nothing\n", [("empty-file", 1, 1)]),
        ("---\n", [("empty-file", 1, 1)]),
        ("- a\n", [("not-a-mapping", 1, 1)]),
        ("a text", [("not-a-mapping", 1, 1)]),
        ("a: &a [*a, 1]", [("recursive-anchor", 1, 4)]),
        ("a: &a {b: {c: *a}}", [("recursive-anchor", 1, 12)]),
        ("a: *nobody", [("yaml-syntax", 1, 4)]),
        ("a: &x 1\nb: &x 2", [("yaml-syntax", 2, 4)]),
        ("a: [*]", [("yaml-syntax", 1, 6)]),
        ("a:\n\tb: c", [("yaml-syntax", 2, 1)]),
        ("a: b: c", [("yaml-syntax", 1, 5)]),
        ("a: @x", [("yaml-syntax", 1, 4)]),
        ("a: 'x\nb: 1\n", [("yaml-syntax", 1, 4)]),
        ("a: [b,\nc: d\n", [("yaml-syntax", 1, 4)]),
        ("a: [gpu-[0-3]:8000]", [("yaml-syntax", 1, 9)]),
        ("a: {idle: ${T:-10m}}", [("yaml-syntax", 1, 12)]),
        ("a: b\n- c", [("yaml-syntax", 2, 1)]),
        ("a: [x] y", [("yaml-syntax", 1, 8)]),
        ("a: !foo x", [("unknown-tag", 1, 4)]),
        ("a: !!int x", [("unknown-tag", 1, 4)]),
        ("a: !!python/object/apply:os.system [x]", [("unknown-tag", 1, 4)]),
        ("a: !!set {b}", [("unknown-tag", 1, 4)]),
        ("a: !append x", [("unknown-tag", 1, 4)]),
        ("a: !x!y z", [("unknown-tag", 1, 4)]),
        ("a: b\0c\nd: 010", [("unsafe-text", 1, 5), ("leading-zero", 2, 4)]),
        ("a: \x1b[1m\n", [("unsafe-text", 1, 4)]),
        ("a: 'x\u2028y'\nb: 010\n", [("unsafe-text", 1, 6), ("leading-zero", 2, 4)]),
        ("a: x\u0085y\nb: 010\n", [("unsafe-text", 1, 5), ("leading-zero", 2, 4)]),
        ("a: \ud800", [("unsafe-text", 1, 4)]),
        ("a: 1\r\nb: 010\rc: 011", [("leading-zero", 2, 4), ("leading-zero", 3, 4)]),
        ("\ufeffa: 010", [("leading-zero", 1, 4)]),
        ("é: 1\ná: [ü, 010]", [("leading-zero", 2, 8)]),
    ],
)  # fmt: skip
def test_what_is_refused_has_its_place(text: str, expected: list[tuple[str, int, int]]) -> None:
    assert found(text) == expected


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "- " * 100_000 + "a", "{a: " * 100_000, "a:\n" + "  " * 70 + "- " * 70 + "x"]
)
def test_deep_nesting_is_one_problem(text: str) -> None:
    assert [code for code, _, _ in found(text)] == ["too-deep"]


@pytest.mark.parametrize(
    "text",
    [
        "a: [gpu-[0-3]:8000]",
        "a: {idle: ${T:-10m}}",
        "a: [*]",
        "a: *glob",
        "a: {{ x }}",
        "a: @b",
        "8080: a",
        "a: b: c",
    ],
)
def test_traps_that_quotes_mend_say_so(text: str) -> None:
    (problem,) = read(Source("f.yaml", text))[1]
    assert "quote it" in problem.hint


def test_duplicate_key_names_both_lines_and_first_wins() -> None:
    root, (problem,) = read(Source("f.yaml", "a: 1\nb: 2\na: 3\n"))
    assert "'a'" in problem.message
    assert "1 and 3" in problem.message
    assert plain(root) == {"a": ("int", "1"), "b": ("int", "2")}


def test_merge_keys() -> None:
    text = "x: &x {a: 1, b: 2}\ny: &y {b: 3, c: 4}\nz: {b: 0, <<: [*x, *y]}\nw: {<<: *x}\nv: {'<<': 1}\n"
    root, problems = read(Source("f.yaml", text))
    assert problems == []
    values = plain(root)
    assert values["z"] == {"a": ("int", "1"), "b": ("int", "0"), "c": ("int", "4")}
    assert values["w"] == {"a": ("int", "1"), "b": ("int", "2")}
    assert values["v"] == {"<<": ("int", "1")}
    document = Document(root)
    assert document.locate(("z", "c")) == Location("f.yaml", 2, 17)


def test_merge_of_merge() -> None:
    text = "x: &x {a: 1}\ny: &y {<<: *x, b: 2}\nz: {<<: *y}\n"
    assert plain(read(Source("f.yaml", text))[0])["z"] == {"a": ("int", "1"), "b": ("int", "2")}


def test_problems_of_one_file_come_together() -> None:
    text = "a: 010\na: 1\n8: x\nb: &b [*b]\nc: !x y\n"
    codes = [code for code, _, _ in found(text)]
    assert codes == ["leading-zero", "duplicate-key", "key-not-string", "recursive-anchor", "unknown-tag"]


def laughs(levels: int) -> str:
    names = "abcdefghijklmnop"[:levels]
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    for below, name in pairwise(names):
        lines.append(f"{name}: &{name} [{', '.join([f'*{below}'] * 9)}]")
    return "\n".join(lines)


def test_billion_laughs_are_stopped_and_many_aliases_are_not() -> None:
    root, problems = read(Source("f.yaml", laughs(10)))
    assert root is None
    assert [problem.code for problem in problems] == ["too-many-aliases"]
    assert found(laughs(4)) == []


def test_billion_laughs_by_merging_are_stopped() -> None:
    wide = ", ".join(f"k{n}: &v{n} [1, 2, 3, 4, 5, 6, 7, 8]" for n in range(60))
    many = ", ".join(["{<<: *m, a: [*m, *m, *m, *m, *m, *m, *m, *m, *m]}"] * 500)
    assert [code for code, _, _ in found(f"m: &m {{{wide}}}\nn: [{many}]")] == ["too-many-aliases"]


def servers(count: int) -> str:
    hosts = (f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}" for n in range(count))
    rows = (f"      - {{address: {host}:8000, weight: 3, max_in_flight: 32}}\n" for host in hosts)
    return "pools:\n  chat:\n    servers:\n" + "".join(rows)


def seconds(function, *arguments) -> float:
    start = time.process_time()
    function(*arguments)
    return time.process_time() - start


def test_large_file_is_read_as_fast_as_by_pyyaml_alone() -> None:
    text = servers(10_000)

    def ours() -> None:
        with paused_collector():
            assert read(Source("f.yaml", text))[1] == []

    own = min(seconds(ours) for _ in range(3))
    pyyaml = min(seconds(yaml.load, text, yaml.CSafeLoader) for _ in range(3))
    assert own <= 1.2 * pyyaml


def test_hundred_thousand_servers_pass() -> None:
    with paused_collector():
        root, problems = read(Source("f.yaml", servers(100_000)))
    assert problems == []
    assert len(Document(root).node(("pools", "chat", "servers")).value) == 100_000


def test_locate_and_written() -> None:
    text = "pools:\n  chat:\n    servers: [a:1, {address: b:1, weight: 2}]\n    models: m\n"
    text += "    health:\n      path: /h\n"
    document = Document(read(Source("f.yaml", text))[0])
    servers = ("pools", "chat", "servers")
    assert document.locate((*servers, 1, "weight")) == Location("f.yaml", 3, 43)
    assert document.locate((*servers, 1, "weight"), on_key=True) == Location("f.yaml", 3, 35)
    assert document.locate((*servers, 1)) == Location("f.yaml", 3, 20)
    assert document.locate((*servers, 1, "state")) == Location("f.yaml", 3, 20)
    assert document.locate((*servers, 1, "state"), on_key=True) == Location("f.yaml", 3, 20)
    assert document.locate(("pools", "chat")) == Location("f.yaml", 2, 3), "a block is named by its key"
    assert document.locate(("pools", "chat", "health", "port")) == Location("f.yaml", 5, 5)
    assert document.locate(("nothing",)) == Location("f.yaml", 1, 1)
    assert document.locate(()) == Location("f.yaml", 1, 1)
    assert document.written((*servers, 1, "weight"))
    assert not document.written((*servers, 0, "weight"))
    assert not document.written((*servers, 2))
    assert not document.written(("pools", "chat", "models", 0))
    assert not document.written(("pools", "chat", "models", "x"))
    assert not document.written(("listeners",))
