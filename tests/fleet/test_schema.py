"""The field table is whole, agrees with the JSON Schema that is printed from it, and places every problem."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lbgen.fields import INVALID, MapOf, Struct
from lbgen.fields.walk import keys
from lbgen.fleet.schema import FLEET, json_schema
from lbgen.fleet.text.source import Source, read
from lbgen.strategies.registry import STRATEGIES
from lbgen.targets.registry import TARGETS
from tests.fleet.documents import leaves, places
from tests.fleet.reading import SMALL, loaded
from tests.pages.fleet_file import STRATEGY_KEY, reference_markdown

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
VALIDATOR = jsonschema.Draft7Validator(json_schema())
PLACES = list(places())
LEAVES = list(leaves())


def problems_of(document: object) -> list[tuple[str, str]]:
    """What the field table has to say of a document."""
    root, problems = read(Source("f.yaml", json.dumps(document)))
    assert root is not None
    FLEET.read(root, (), problems)
    return [(problem.code, problem.message) for problem in problems]


def test_the_schema_is_draft_07():
    jsonschema.Draft7Validator.check_schema(json_schema())
    assert json_schema()["$schema"] == "http://json-schema.org/draft-07/schema#"


@pytest.mark.parametrize("place", PLACES, ids=[place.path for place in PLACES])
def test_every_field_is_documented(place):
    field = place.field
    assert field.doc
    assert field.doc.endswith(".")
    assert not (field.default is not None and field.default_doc)


@pytest.mark.parametrize("place", PLACES, ids=[place.path for place in PLACES])
def test_every_example_is_good(place):
    if place.field.example is None:
        return
    document = place.document(place.field.example)
    assert problems_of(document) == []
    assert list(VALIDATOR.iter_errors(document)) == []


@pytest.mark.parametrize("place", PLACES, ids=[place.path for place in PLACES])
def test_every_default_can_be_written(place):
    if place.field.default is None:
        return
    written = place.kind.written(place.field.default)
    root, problems = read(Source("f.yaml", json.dumps({"v": written})))
    assert root is not None
    assert place.kind.read(root.value[0][1], ("v",), problems) == place.field.default
    assert problems == []
    assert list(VALIDATOR.iter_errors(place.document(written))) == []


@pytest.mark.parametrize("place", PLACES, ids=[place.path for place in PLACES])
def test_both_refuse_what_is_of_no_kind(place):
    """A mapping with a strange key, where no key is free; a list of lists; nothing at all."""
    for value in ({"no-such-key": 1}, [[[]]], None):
        document = place.document(value)
        free = isinstance(place.kind, MapOf) or place.path.endswith(".json")
        if free and value is not None:
            continue
        if place.path.endswith(".json"):
            continue
        assert problems_of(document) != [], value
        assert list(VALIDATOR.iter_errors(document)) != [], value


GOOD = [
    "pools: {a: {servers: x:1, x-mine: [1]}}\nx-yours: {}",
    "pools: {a: {servers: [{address: 'x:1'}], strategy: leastconn, health: tcp, keepalive: false}}",
    "pools: {a: {discover: {dns: x.y, port: 80}}}",
    "pools: {a: {allow_empty: true}}",
    "balancers: {peers: {a: 'x:1'}}\npools: {a: {servers: [x:1]}}",
    "pools: {a: {servers: [x:1], strategy: {name: prefix, bytes: 4KiB}, tls: true}}",
    "pools: {a: {servers: [x:1]}}\nlisteners: {l: {auth: none, routes: [{pool: a}], status: false}}",
    "pools: {a: {servers: [x:1]}}\nlisteners: {l: {auth: {clients: [c]}}}\nclients: {c: {key: file:/x y}}",
    "pools: {a: {servers: [x:1]}}\nlisteners: {l: {auth: {upstream: {set: env:X}}}}",
    "pools: {a: {servers: [x:1]}}\ntargets: {nginx: {version: '1.30', workers: auto}}",
    "pools: {a: {servers: [x:1], timeouts: {idle: 90, connect: 250ms}}}",
    "pools: {a: {servers: [x:1], retry: {'on': [connect, 503, '429']}}}",
]
BAD = [
    "{}",
    "pools: {}",
    "pools: []",
    "pools: {a: {}}",
    "pools: {a: {servers: [x:1], discover: {dns: x}}}",
    "pools: {a: {discover: {dns: x, file: y}}}",
    "pools: {a: {servers: [x:1], engine: vlm}}",
    "pools: {a: {servers: [x]}}",
    "pools: {a: {servers: [{name: n}]}}",
    "pools: {a: {servers: [{address: 'x:1', weight: 257}]}}",
    "pools: {a: {servers: [{address: 'x:1', weight: '1'}]}}",
    "pools: {a: {servers: [{address: 'x:1', weight: 1.5}]}}",
    "pools: {a: {servers: [x:1], max_in_flight: 0}}",
    "pools: {a: {servers: [x:1], health: true}}",
    "pools: {a: {servers: [x:1], strategy: {name: least_conn, bytes: 1}}}",
    "pools: {a: {servers: [x:1], strategy: {name: session, ip: true, client: true}}}",
    "pools: {a: {servers: [x:1], strategy: {name: prefix, load_factor: 1}}}",
    "pools: {a: {servers: [x:1], timeouts: {idle: 10min}}}",
    "pools: {a: {servers: [x:1], timeouts: {idle: -1}}}",
    "pools: {a: {servers: [x:1], allow_empty: 'on'}}",
    "pools: {a: {servers: [x:1], headers: {set: {'a b': c}}}}",
    "pools: {x-a: {servers: [x:1]}}",
    "pools: {'a b': {servers: [x:1]}}",
    "pools: {a: {servers: [x:1]}}\nlisteners: {l: {bind: 70000}}",
    "pools: {a: {servers: [x:1]}}\nlisteners: {l: {bind: []}}",
    "pools: {a: {servers: [x:1]}}\nlisteners: {l: {tls: {key: k}}}",
    "pools: {a: {servers: [x:1]}}\nlisteners: {l: {routes: [{path: /a}]}}",
    "pools: {a: {servers: [x:1]}}\nlisteners: {l: {routes: [{path: a, pool: a}]}}",
    "pools: {a: {servers: [x:1]}}\nlisteners: {l: {routes: [{pool: a, respond: {}}]}}",
    "pools: {a: {servers: [x:1]}}\nlisteners: {l: {limits: [{rate: 5/d}]}}",
    "pools: {a: {servers: [x:1]}}\nlisteners: {l: {limits: [{per: ip}]}}",
    "pools: {a: {servers: [x:1]}}\nlisteners: {l: {max_body: 64XB}}",
    "pools: {a: {servers: [x:1]}}\nclients: {c: {key: sk-1234}}",
    "pools: {a: {servers: [x:1]}}\nclients: {c: {}}",
    "pools: {a: {servers: [x:1]}}\nclients: {c: {key: env:A, keys: [env:B]}}",
    "pools: {a: {servers: [x:1]}}\nmetrics: {}",
    "pools: {a: {servers: [x:1]}}\nmetrics: {bind: 1, auth: {user: u, password: secret}}",
    "pools: {a: {servers: [x:1]}}\ntargets: {apache: {}}",
    "pools: {a: {servers: [x:1]}}\ntargets: {nginx: {version: 1.30}}",
    "pools: {a: {servers: [x:1]}}\nversion: 2",
    "pools: {a: {servers: [x:1]}}\nno-such-key: 1",
]


@pytest.mark.parametrize("text", GOOD)
def test_both_accept(text):
    document = yaml.safe_load(text)
    assert list(VALIDATOR.iter_errors(document)) == []
    assert problems_of(document) == []


@pytest.mark.parametrize("text", BAD)
def test_both_refuse(text):
    document = yaml.safe_load(text)
    assert list(VALIDATOR.iter_errors(document)) != []
    assert problems_of(document) != []


@pytest.mark.parametrize("path", sorted((ROOT / "examples").rglob("*.yaml")), ids=lambda path: path.stem)
def test_both_accept_the_examples(path):
    document = yaml.safe_load(path.read_text())
    assert list(VALIDATOR.iter_errors(document)) == []
    assert problems_of(document) == []


def test_suggestions_name_no_key_that_exists():
    for place in PLACES:
        if isinstance(place.kind, Struct):
            for field in place.kind.fields:
                assert not set(field.instead_of) & set(place.kind.by_name), place.path


def test_a_key_at_the_wrong_place_is_shown_the_right_one():
    _, problems = loaded("pools: {a: {servers: [x:1], max_body: 1MiB}}")
    assert [problem.hint for problem in problems] == ["this key belongs elsewhere: listeners.*.max_body"]


def test_a_target_is_rendered_for_its_oldest_version_and_its_own_folder_unless_told():
    for target in TARGETS.values():
        assert target.settings.keys.defaults["version"] == target.oldest
        assert target.settings.keys.defaults["directory"] == target.directory


def test_targets_speak_of_keys_that_exist():
    known = {key.path for key in keys(FLEET)} | {f"{STRATEGY_KEY}.{name}" for name in STRATEGIES}
    known |= {
        f"{STRATEGY_KEY}.{field.name}" for strategy in STRATEGIES.values() for field in strategy.parameters
    }
    for target in TARGETS.values():
        assert {row.key for row in target.support} <= known


def test_the_reference_page_is_fresh(request):
    path = ROOT / "docs" / "reference" / "fleet-file.md"
    if request.config.getoption("--update-golden"):
        path.write_text(reference_markdown())
    assert path.read_text() == reference_markdown(), "pytest tests/fleet --update-golden writes it anew"


def test_planted_mistakes_are_all_found_where_they_are():
    """Each line of the file tells in a comment how many mistakes are in it."""
    text = (HERE / "planted.yaml").read_text()
    planted = {
        number: int(match[1])
        for number, line in enumerate(text.splitlines(), 1)
        if (match := re.search(r"# (\d)$", line))
    }
    found: dict[int, int] = {}
    for problem in loaded(text)[1]:
        assert problem.location is not None
        found[problem.location.line] = found.get(problem.location.line, 0) + 1
    assert found == planted
    assert sum(planted.values()) >= 50


HOSTILE = st.one_of(
    st.sampled_from(
        ["\n", "a\nb", "a;b", "{", "}", "#", '"', "'", "\\", "$x", "${x}", "%[x]", "\0", "\u2028", "\u202e"]
    ),
    st.sampled_from(
        [
            "a b",
            " a",
            "*",
            "env:",
            "env:A\n",
            "file:\n",
            "/a\nb",
            "a:1\n",
            "a:1;",
            "[::1]:1\n",
            "-",
            "~",
            "\t",
        ]
    ),
    st.sampled_from(
        ["\u200f", "\u00e9", "\x7f", "\x85", "\ufeff", "a:[1-999999]", "[0-9][0-9][0-9][0-9][0-9]:1"]
    ),
    st.just("x" * 10_000),
    st.text(min_size=1, max_size=40),
    st.text(alphabet="\n\r;{}#\"'\\$% aA1:/.[]-\0\u2028\u202e", min_size=1, max_size=12),
)
UNSAFE = re.compile("[\0-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\u200e\u200f\u061c\ufeff\ud800-\udfff]")


def strings(value: object) -> list[str]:
    """Every string in a value, keys included."""
    if isinstance(value, str):
        return [str(value)]
    if isinstance(value, dict):
        return [text for pair in value.items() for part in pair for text in strings(part)]
    return [text for part in value for text in strings(part)] if isinstance(value, list | tuple) else []


def escaped(text: str) -> str:
    """A string as YAML in double quotes, everything unusual escaped."""
    plain = (
        character if character.isalnum() and character.isascii() else f"\\U{ord(character):08x}"
        for character in text
    )
    return f'"{"".join(plain)}"'


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(leaf=st.sampled_from(LEAVES), text=HOSTILE)
def test_hostile_strings_are_refused_or_harmless(leaf, text):
    """Whatever stands in a string field: it is refused, or it is one line without anything invisible."""
    path, kind, _ = leaf
    root, problems = read(Source("f.yaml", f"v: {escaped(text)}"))
    assert root is not None
    value = kind.read(root.value[0][1], ("v",), problems)
    if value is INVALID:
        assert problems
        assert {problem.location for problem in problems} == {("f.yaml", 1, 4)}, path
        assert all(problem.message.isprintable() for problem in problems)
    else:
        assert problems == []
        assert not any(UNSAFE.search(one) for one in strings(value)), path
        assert all(len(one) <= 4096 for one in strings(value)), path


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(leaf=st.sampled_from(LEAVES), text=HOSTILE)
def test_hostile_strings_never_break_the_builder(leaf, text):
    """The whole file is read and built, whatever one value is."""
    _, _, document = leaf
    mark = "MARK0MARK"
    loaded(json.dumps(document(mark)).replace(json.dumps(mark), escaped(text)))


WORDS = sorted({place.field.name for place in PLACES} | {"chat", "default", "x-y"})
SOMETHING = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-1, 9_000), st.floats(allow_nan=False, allow_infinity=False),
        st.sampled_from([*WORDS, "x:1", "all", "none", "/a", "5s", "env:A", "1.26", "tcp", "a-[0-3]:1", ""]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(WORDS), inner, max_size=4)
    ),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(place=st.sampled_from(PLACES), value=SOMETHING)
def test_anything_anywhere_is_read_and_built(place, value):
    """No value at any place breaks the reader or the builder, and every problem has its place."""
    _, problems = loaded(json.dumps(place.document(value)))
    assert all(problem.location is not None for problem in problems)


def test_a_secret_is_never_repeated():
    text = SMALL + "clients:\n  a: {key: sk-SECRET}\n  b: {keys: [sk-SECRET, 12345678]}\n"
    text += "metrics: {bind: 1, auth: {user: u, password: sk-SECRET}}\n"
    text += "listeners: {l: {auth: {upstream: {set: sk-SECRET}}}}\n"
    _, problems = loaded(text)
    assert [problem.code for problem in problems] == ["literal-secret"] * 5
    assert not any(word in str(problem) for problem in problems for word in ("SECRET", "12345678"))


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("pools: {a: {servers: [x:1], health: yes}}", "remove the key: this is on by default"),
        ("pools: {a: {servers: [x:1], health: true}}", "remove the key: this is on by default"),
        ("pools: {a: {servers: [x:1], retry: off}}", "write false, without quotes"),
        (
            SMALL + "listeners: {l: {bind: 80, routes: [{pool: a, auth: none}]}}",
            "this key belongs elsewhere: listeners.*.auth, metrics.auth",
        ),
        (SMALL + "listeners: {l: {bind: 80, routes: [{pool: a, models: m}]}}", "lbgen calls it 'model'"),
        (SMALL + "listeners: {l: {bind: 80, route: [{pool: a}]}}", "did you mean 'routes'?"),
    ],
)
def test_the_hint_leads_to_what_was_meant(text, hint):
    _, problems = loaded(text)
    assert hint in [problem.hint for problem in problems]
