"""What is found in a body: as far as Python's regular expressions can stand in for NGINX's."""

from __future__ import annotations

import json
import re

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from lbgen.model import Match, StrategyChoice
from lbgen.targets.nginx.inspection.bodies import over_regex
from lbgen.targets.nginx.inspection.forms import value_regex
from tests import factory
from tests.targets.nginx.parsed import args, conf, find, locations

ROUTES = (
    factory.route("a", match=Match(models=("m-a", "org/glob-*")), path=("r", 0)),
    factory.route("b", pool="other", match=Match(models=("m-b",)), path=("r", 1)),
)


def directives(*routes, **values):
    pools = (factory.pool(), factory.pool("other"))
    return conf(factory.fleet(*pools, listeners=(factory.listener(routes=routes or ROUTES, **values),)))


def body_pattern(found) -> regex.Pattern[bytes]:
    """Return the expression that reads a body; its limit of the heap is PCRE's alone."""
    maps = list(find(found, "map"))
    source = next(block for name in ("$lb_scan", "$lb_body") for block in maps if block["args"][1] == name)
    pattern = next(entry["directive"] for entry in source["block"] if entry["directive"].startswith("~(*"))
    return regex.compile(pattern.replace("\\\\", "\\").removeprefix("~(*LIMIT_HEAP=1000)").encode())


PATTERN = body_pattern(directives())
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)
names = st.text(max_size=8) | st.sampled_from(["model", "Model", "mode", "models", "a-model"])
texts = st.sampled_from(["m-a", 'quo"te', "back\\slash", "é", "", "model", "{}", "𝄞", "a/b"])
pairs = st.lists(st.tuples(names, texts | json_values), max_size=5)
blank = st.text(" \t\r\n", max_size=2)


def spelled(draw, text: str) -> str:
    """Return a string of JSON with any of its characters as escapes."""
    inside = json.dumps(text, ensure_ascii=draw(st.booleans()))[1:-1]
    plain = set(text) - set('"\\') if text.isalnum() and text.isascii() else set()
    escaped = draw(st.sets(st.sampled_from(sorted(plain)), max_size=3)) if plain else set()
    return '"' + "".join(f"\\u{ord(sign):04x}" if sign in escaped else sign for sign in inside) + '"'


@st.composite
def bodies(draw) -> str:
    """An object whose members may come twice, in any spelling."""
    members = []
    for key, value in draw(pairs):
        said = spelled(draw, value) if isinstance(value, str) else json.dumps(value)
        members.append(f"{draw(blank)}{spelled(draw, key)}{draw(blank)}:{draw(blank)}{said}{draw(blank)}")
    return f"{draw(blank)}{{{','.join(members) or draw(blank)}}}{draw(blank)}"


@settings(deadline=None)
@given(bodies(), st.booleans())
def test_the_model_is_the_one_that_python_reads(body: str, mark: bool) -> None:
    data = body.encode("utf-8-sig" if mark else "utf-8", "surrogatepass")
    found = PATTERN.match(data)
    assert found, "every object of JSON is read"
    raw = (found["lb_model_raw"] or b"").decode("utf-8", "surrogatepass")
    model = json.loads(body).get("model")
    assert json.loads(f'"{raw}"') == (model if isinstance(model, str) else "")


@settings(deadline=None)
@given(bodies(), st.integers(0, 200), st.sampled_from(["", *'{}[]":,\\0 ', "\x0b", "nul", "\0"]))
def test_what_python_refuses_is_refused(body: str, at: int, put: str) -> None:
    broken = body[:at] + put + body[at + 1 :]
    try:
        json.loads(broken)
        fine = True
    except ValueError:
        fine = False
    data = broken.encode("utf-8", "surrogatepass")
    # An empty body is no JSON, and asks for no model.
    assert bool(PATTERN.match(data)) is (fine or not broken.strip(" \t\r\n"))


@settings(deadline=None)
@given(json_values)
def test_a_body_that_is_no_object_has_no_model(value) -> None:
    found = PATTERN.match(json.dumps([value]).encode())
    assert found
    assert found["lb_model_raw"] is None


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        ('{"max_tokens": 5}', b"5"),
        ('{"max_tokens": 5, "max_tokens": null}', b""),
        ('{"max_tokens":1e3}', b"1e3"),
    ],
)
def test_numbers_are_found(body: str, tokens: bytes) -> None:
    route = factory.route("long", match=Match(max_tokens_over=1_000))
    found = body_pattern(directives(route)).match(body.encode())
    assert found
    assert found["lb_max_tokens_raw"] == tokens


@given(st.integers(0, 10**7), st.integers(0, 10**7))
def test_numbers_above(bound: int, number: int) -> None:
    assert bool(re.fullmatch(over_regex(bound), str(number))) is (number > bound)


@pytest.mark.parametrize(
    ("glob", "name", "fits"),
    [
        ("org/m", "org/m", True),
        ("org/m", "org\\/m", True),
        ("org/m", "org/M", False),
        ("m.1", "mx1", False),
        ("m-*", "m-", True),
        ("m+1", "m+1", True),
    ],
)
def test_globs(glob: str, name: str, fits: bool) -> None:
    assert bool(re.search(value_regex(glob, "rjq"), f"j:{name}")) is fits


@pytest.mark.parametrize(
    ("mark", "written", "fits"),
    [
        ("r", "org/m+1", True),
        ("r", "org%2Fm+1", False),
        ("j", r"org\/m+1", True),
        ("j", "org%2Fm+1", False),
        ("q", "org%2fm%2B1", True),
        ("q", "org/m%2B1", True),
        ("q", "org/m+1", False),
        ("q", "org/m%2B1x", False),
    ],
)
def test_each_place_has_its_spelling(mark: str, written: str, fits: bool) -> None:
    assert bool(re.search(value_regex("org/m+1", "rjq"), f"{mark}:{written}")) is fits


def test_routes_from_one_place_in_the_file_keep_their_pools() -> None:
    """As those have that follow from the pools' models."""
    same = [route._replace(path=("listeners", "default", "routes")) for route in ROUTES]
    found = locations(directives(*same))
    assert args(found["@route-a"], "proxy_pass") == [["http://chat"]]
    assert args(found["@route-b"], "proxy_pass") == [["http://other"]]


def test_the_body_is_read_only_where_a_route_needs_it() -> None:
    found = locations(directives())
    assert args(found["/"], "mirror") == [["/.lbgen/read"]]
    assert not args(found["= /lb/ready"], "mirror")
    plain = locations(conf())
    assert not any(args(content, "mirror") for content in plain.values())


def test_what_cannot_be_read_is_refused_before_any_model_is_compared() -> None:
    found = directives()
    choice = next(block for block in find(found, "map") if block["args"][1] == "$lb_to_1")
    assert choice["args"][0].startswith("$lb_body_state")
    default, *refusals = choice["block"][:6]
    assert default["args"] == ["$lb_unknown"]
    assert [(entry["directive"], *entry["args"]) for entry in refusals] == [
        ("~^1", "lb-model-unreadable"),
        ("~^2", "lb-unsupported-encoding"),
        ("~^3", "lb-bad-body"),
        ("~^4", "lb-odd-spelling"),
        ("~^5", "lb-bad-form"),
    ]


def test_an_expression_that_fails_refuses() -> None:
    """PCRE's errors lead to a map's default."""
    for name in ("$lb_scan", "$lb_form_text", "$lb_parts"):
        source = next(block for block in find(directives(), "map") if block["args"][1] == name)
        assert (source["block"][0]["directive"], source["block"][0]["args"]) == ("default", ["hidden"])


def test_an_external_refusal_does_not_lead_on() -> None:
    """A 403 of the authorising service must not be taken for "no such file"."""
    for page in args(locations(directives())["/"], "error_page"):
        if any("$lb_to" in word for word in page):
            assert "403" not in page


def test_the_buffer_is_what_is_inspected_at_least() -> None:
    assert args(directives(inspect_body=2 * 1024**2), "client_body_buffer_size")[0] == ["2m"]


def test_what_is_inspected_may_be_less_than_the_buffer() -> None:
    found = directives(inspect_body=32 * 1024)
    assert args(found, "client_body_buffer_size")[0] == ["1m"]
    choice = next(block for block in find(found, "map") if block["args"][1] == "$lb_to_1")
    assert choice["args"][0].startswith("$lb_body_state_32k")


@pytest.mark.parametrize("key", ["system_prompt", "first_bytes"])
@pytest.mark.parametrize("octets", [16, 2_048, 1_048_576])
def test_words_fit_into_nginx(key: str, octets: int) -> None:
    strategy = StrategyChoice("prefix", {"key": key, "bytes": octets, "scope": "client"})
    found = conf(factory.fleet(factory.pool(strategy=strategy)))
    for block in find(found, "map"):
        for entry in block["block"]:
            # As crossplane gives it, backslashes are still doubled: what NGINX has to hold.
            assert len(entry["directive"]) < 4_000
    upstream = next(find(found, "upstream"))
    assert args(upstream["block"], "hash")[0][1] == "consistent"


@pytest.mark.parametrize(
    ("parameters", "key"),
    [
        ({}, "$http_x_session_id"),
        ({"header": "X-Chat"}, "$http_x_chat"),
        ({"ip": True}, "$remote_addr"),
        ({"client": True}, "$lb_client"),
        ({"cookie": "a-b"}, r"$lb_session_[0-9a-f]{8}_key"),
        ({"query": "a-b"}, r"$lb_session_[0-9a-f]{8}_key"),
        ({"body": "$.user"}, r"$lb_member_[0-9a-f]{8}"),
        ({"insert": "a-b"}, r"$lb_if_\d+"),
    ],
)
def test_sessions(parameters, key: str) -> None:
    found = conf(factory.fleet(factory.pool(strategy=StrategyChoice("session", parameters))))
    [[name, kind]] = args(next(find(found, "upstream"))["block"], "hash")
    assert re.fullmatch(key.replace("$", "[$]"), name)
    assert kind == "consistent"


BODIES = [
    ({"user": "u"}, "u", ""),
    (
        {"a": {"user": "not"}, "user": "u-1", "metadata": {"x": [1, {"user_id": "no"}], "user_id": "m"}},
        "u-1",
        "m",
    ),
    ({"input": 'says "user": "x"', "metadata": {"user_id": 'a"b'}}, "", 'a\\"b'),
    ({"user": ""}, "", ""),
    ({"user": None, "metadata": "user_id"}, "", ""),
    ([{"user": "u"}], "", ""),
]


@pytest.mark.parametrize(("path", "index"), [("$.user", 1), ("$.metadata.user_id", 2)])
@pytest.mark.parametrize("case", BODIES)
def test_a_member_of_the_body_names_a_session(path: str, index: int, case) -> None:
    found = conf(factory.fleet(factory.pool(strategy=StrategyChoice("session", {"body": path}))))
    pattern = body_pattern(found)
    match = pattern.match(json.dumps(case[0]).encode())
    assert match
    name = next(name for name in pattern.groupindex if name.startswith("lb_member_"))
    assert (match[name] or b"").decode() == case[index]
