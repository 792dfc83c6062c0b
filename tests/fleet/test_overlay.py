"""Files laid over one another, --set on top, ${VAR} filled in: the right value, from the right place."""

from __future__ import annotations

import pytest

from lbgen.fleet.layers.combine import combine
from lbgen.fleet.layers.overlay import set_steps
from lbgen.fleet.text.source import Source


def plain(node):
    if node.id == "mapping":
        return {key.value: plain(value) for key, value in node.value}
    if node.id == "sequence":
        return [plain(item) for item in node.value]
    kind = node.tag.rpartition(":")[2]
    return {"int": int, "float": float, "str": str, "null": lambda _: None, "bool": "true".__eq__}[kind](
        node.value
    )


def combined(*texts: str, sets=(), environ=None):
    sources = [Source(f"{number}.yaml", text) for number, text in enumerate(texts)]
    return combine(sources, sets, environ or {})


def values(*texts: str, sets=(), environ=None):
    result = combined(*texts, sets=sets, environ=environ)
    assert result.problems == []
    return plain(result.document.root)


def found(*texts: str, sets=(), environ=None):
    return [
        (problem.code, str(problem.location))
        for problem in combined(*texts, sets=sets, environ=environ).problems
    ]


def test_mappings_merge_by_key_and_lists_are_replaced() -> None:
    base = "a: {b: 1, c: {d: 2, e: 3}, l: [1, 2]}\nx: 1\n"
    over = "a: {c: {e: 4, f: 5}, l: [3]}\ny: 2\n"
    assert values(base, over) == {"a": {"b": 1, "c": {"d": 2, "e": 4, "f": 5}, "l": [3]}, "x": 1, "y": 2}


def test_three_files_and_the_last_wins() -> None:
    assert values("a: 1\nb: 1\nc: 1", "b: 2\nc: 2", "c: 3") == {"a": 1, "b": 2, "c": 3}


def test_kinds_replace_each_other() -> None:
    assert values("a: {b: 1}\nc: 1\nd: [1]", "a: x\nc: {e: 1}\nd: {f: 1}") == {
        "a": "x",
        "c": {"e": 1},
        "d": {"f": 1},
    }


def test_append_extends_a_list() -> None:
    assert values("a: [1]", "a: !append [2, 3]", "a: !append\n- 4\n") == {"a": [1, 2, 3, 4]}
    assert values("a: 1", "a: !append [2]") == {"a": [1, 2]}
    assert values("b: 1", "a: !append [2]") == {"b": 1, "a": [2]}
    assert values("a: !append [2]") == {"a": [2]}
    assert found("a: {b: 1}", "a: !append [2]") == [("bad-overlay", "1.yaml:1:4")]


def test_null_removes_and_a_forgotten_value_does_not() -> None:
    assert values("a: {b: 1, c: 2}", "a: {b: null}") == {"a": {"c": 2}}
    assert values("a: {b: 1, c: 2}", "a: ~\n") == {}
    assert values("a: 1", "n: {x: null, y: 1}\nm: null") == {"a": 1, "n": {"y": 1}}
    assert values("a: 1", "a:\n") == {"a": None}, "left for the checker to complain about"


STRATEGY = "pools: {p: {strategy: {name: prefix, load_factor: 1.5}}}"


@pytest.mark.parametrize(
    ("base", "over", "expected"),
    [
        (STRATEGY, "{load_factor: 2}", {"name": "prefix", "load_factor": 2}),
        (STRATEGY, "{name: prefix, bytes: 9}", {"name": "prefix", "load_factor": 1.5, "bytes": 9}),
        (STRATEGY, "{name: session, cookie: c}", {"name": "session", "cookie": "c"}),
        (STRATEGY, "least_conn", {"name": "least_conn"}),
        (STRATEGY, "prefix", {"name": "prefix", "load_factor": 1.5}),
        ("pools: {p: {strategy: prefix}}", "{load_factor: 2}", {"name": "prefix", "load_factor": 2}),
        ("pools: {p: {strategy: least_conn}}", "{name: prefix, bytes: 9}", {"name": "prefix", "bytes": 9}),
        ("pools: {p: {engine: vllm}}", "{name: prefix}", {"name": "prefix"}),
    ],
)
def test_parameters_do_not_survive_a_change_of_strategy(base, over, expected) -> None:
    assert values(base, f"pools: {{p: {{strategy: {over}}}}}")["pools"]["p"]["strategy"] == expected


def test_number_of_balancers_survives_their_peers() -> None:
    assert values("balancers: 2", "balancers: {peers: {a: x:1}}") == {
        "balancers": {"count": 2, "peers": {"a": "x:1"}}
    }


def test_positions_follow_the_winner() -> None:
    document = combined("a: {b: 1,\n  c: 2}\n", "x: 0\na:\n  c: 3\n", sets=["a.d=4"]).document
    assert str(document.locate(("a", "b"))) == "0.yaml:1:8"
    assert str(document.locate(("a", "c"))) == "1.yaml:3:6"
    assert str(document.locate(("a", "c"), on_key=True)) == "1.yaml:3:3"
    assert str(document.locate(("a", "d"))) == "--set a.d:1:1"


def test_alias_in_the_base_is_not_changed_by_an_overlay() -> None:
    assert values("a: &x {b: 1}\nc: *x", "a: {b: 2}") == {"a": {"b": 2}, "c": {"b": 1}}


def test_problems_of_all_files_come_together() -> None:
    assert found("a: 010", "b: 1\nb: 2", "[") == [
        ("leading-zero", "0.yaml:1:4"),
        ("duplicate-key", "1.yaml:2:1"),
        ("yaml-syntax", "2.yaml:1:1"),
    ]


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("a", ("a",)),
        ("a.b.c", ("a", "b", "c")),
        ("pools.chat.servers[0].weight", ("pools", "chat", "servers", 0, "weight")),
        ('pools."a.b".c', ("pools", "a.b", "c")),
        ("a[1][2]", ("a", 1, 2)),
        *(
            (text, None)
            for text in ("", ".", "a.", ".a", "a..b", "[0]", "a[x]", "a[0", "a[-1]", 'a."b', "a[0]b")
        ),
    ],
)
def test_set_path(text, steps) -> None:
    assert set_steps(text) == steps


BASE = "pools: {llama-3.3-70b: {servers: [a:1, {address: b:1}], strategy: prefix, warmup: 30s}}\n"


@pytest.mark.parametrize(
    ("setting", "path", "expected"),
    [
        ("pools.llama-3.3-70b.warmup=5s", "warmup", "5s"),
        ('pools."llama-3.3-70b".warmup=5s', "warmup", "5s"),
        ("pools.llama-3.3-70b.warmup='5'", "warmup", "5"),
        ("pools.llama-3.3-70b.max_in_flight=5", "max_in_flight", 5),
        ("pools.llama-3.3-70b.models=[a, b]", "models", ["a", "b"]),
        ("pools.llama-3.3-70b.strategy=round_robin", "strategy", {"name": "round_robin"}),
        ("pools.llama-3.3-70b.strategy.load_factor=2", "strategy", {"name": "prefix", "load_factor": 2}),
        ("pools.llama-3.3-70b.servers[1].weight=2", "servers", ["a:1", {"address": "b:1", "weight": 2}]),
        ("pools.llama-3.3-70b.servers[0].n=2", "servers", [{"address": "a:1", "n": 2}, {"address": "b:1"}]),
        ("pools.llama-3.3-70b.servers[1]=c:1", "servers", ["a:1", "c:1"]),
        ("pools.llama-3.3-70b.servers=!append [c:1]", "servers", ["a:1", {"address": "b:1"}, "c:1"]),
        ("pools.llama-3.3-70b.queue.size=9", "queue", {"size": 9}),
        ("pools.llama-3.3-70b.queue={size: 9}", "queue", {"size": 9}),
        ("pools.llama-3.3-70b.servers=gpu-[0-3]:8000", "servers", "gpu-[0-3]:8000"),
        ("pools.llama-3.3-70b.warmup=$${X}", "warmup", "${X}"),
    ],
)  # fmt: skip
def test_set_changes_one_value(setting, path, expected) -> None:
    pool = values(BASE, sets=[setting])["pools"]["llama-3.3-70b"]
    assert pool[path] == expected
    assert set(pool) == {"servers", "strategy", "warmup", path}


def test_set_null_removes_and_later_sets_win() -> None:
    assert values("a: {b: 1, c: 2}", sets=["a.b=null"]) == {"a": {"c": 2}}
    assert values("a: 1", sets=["a=2", "a=3"]) == {"a": 3}
    assert values("a: 1", "a: 2", sets=["b.c=x=y"]) == {"a": 2, "b": {"c": "x=y"}}


@pytest.mark.parametrize(
    ("setting", "code", "place"),
    [
        ("nothing", "bad-overlay", "--set nothing:1:1"),
        ("a..b=1", "bad-overlay", "--set a..b:1:1"),
        ("a.b=1", "bad-overlay", "--set a.b:1:1"),
        ("l.b=1", "bad-overlay", "--set l.b:1:1"),
        ("l[2]=1", "bad-overlay", "--set l[2]:1:1"),
        ("m[0]=1", "bad-overlay", "--set m[0]:1:1"),
        ("a=[x", "yaml-syntax", "--set a:1:1"),
        ("a=010", "leading-zero", "--set a:1:1"),
        ("a={b: 1, b: 2}", "duplicate-key", "--set a:1:8"),
    ],
)
def test_bad_set_is_a_problem(setting, code, place) -> None:
    assert found("a: 1\nl: [1, 2]\nm: {}\n", sets=[setting]) == [(code, place)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${N}", 12),
        ("'${N}'", "12"),
        ('"${N}"', "12"),
        ("${T}", True),
        ("x${N}y${N}", "x12y12"),
        ("${NO:-7}", 7),
        ("${EMPTY:-7}", 7),
        ("${EMPTY}", None),
        ("${NO:-}", None),
        ('"${NO:-a b: c}"', "a b: c"),
        ("$$", "$"),
        ("$${N}", "${N}"),
        ("$$$${N}", "$${N}"),
        ("$$${N}", "$12"),
        ("a$b", "a$b"),
        ("${YAML}", "{a: 1}\n- #"),
        ("${N:?message}", 12),
    ],
)
def test_references_are_filled_in(text, expected) -> None:
    environ = {"N": "12", "T": "true", "EMPTY": "", "YAML": "{a: 1}\n- #"}
    assert values(f"a: {text}", environ=environ) == {"a": expected}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: ${NO}", [("unset-variable", "0.yaml:1:4")]),
        ("a: x${NO}y${NO2}", [("unset-variable", "0.yaml:1:5"), ("unset-variable", "0.yaml:1:11")]),
        ("a: 'x${NO}'", [("unset-variable", "0.yaml:1:6")]),
        ('a: "\\t${NO}"', [("unset-variable", "0.yaml:1:4")]),
        ("a: [1, '${EMPTY:?say}']", [("unset-variable", "0.yaml:1:8")]),
        ("a: ${1}", [("bad-reference", "0.yaml:1:4")]),
        ("a: ${A-b}", [("bad-reference", "0.yaml:1:4")]),
        ("a: ${A", [("bad-reference", "0.yaml:1:4")]),
        ("a: '${A:-${B}}'", [("bad-reference", "0.yaml:1:4")]),
        ("a: ${ZERO}", [("leading-zero", "0.yaml:1:4")]),
        ("a: &x ${NO}\nb: *x\n", [("unset-variable", "0.yaml:1:4")]),
    ],
)
def test_bad_references_have_a_place(text, expected) -> None:
    assert found(text, environ={"EMPTY": "", "ZERO": "010"}) == expected


def test_message_of_a_required_variable_is_shown() -> None:
    (problem,) = combined("a: ${GPU:?name the host}").problems
    assert "name the host" in problem.message
    assert "GPU" in problem.message


def test_alias_is_filled_in_once() -> None:
    assert values("a: &x $$$$\nb: *x") == {"a": "$$", "b": "$$"}


def test_reference_that_an_overlay_replaces_need_not_be_set() -> None:
    assert values("a: ${NO}", "a: 1") == {"a": 1}
    assert values("a: ${NO}", sets=["a=1"]) == {"a": 1}


def test_references_in_set_are_filled_in() -> None:
    environ = {"N": "12"}
    assert values("a: 1", sets=["a=${N}", "b.c='${N}'"], environ=environ) == {"a": 12, "b": {"c": "12"}}
    assert values("a: 1", sets=["a=$${N}"], environ=environ) == {"a": "${N}"}
    assert found("a: 1", sets=["a=${NO}"]) == [("unset-variable", "--set a:1:1")]


@pytest.mark.parametrize("empty", ["", "# nothing yet\n", "---\n", "\n\n"])
def test_overlay_without_content_changes_nothing(empty) -> None:
    assert values("a: 1", empty, "b: 2") == {"a": 1, "b": 2}
    assert found("a: 1\n", empty) == []
    assert found(empty) == [("empty-file", "0.yaml:1:1")]
    assert found(empty, "a: 1") == [("empty-file", "0.yaml:1:1")]
