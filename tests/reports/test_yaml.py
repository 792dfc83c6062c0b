"""Public reports about YAML and generators, as fleet files: the right value, or one clear error."""

from __future__ import annotations

import pytest

from tests.reports.reading import LOCAL, chat, codes, errors, fleet_text, problems, read


@pytest.mark.parametrize("word", ["on", "off", "yes", "no", "NO", "y", "n", "True"])
def test_words_that_yaml_1_1_takes_for_booleans(word: str) -> None:
    """`gzip True;` (ansible#6268); a quoted "off" that a filter renders as on."""
    for written in (word, f'"{word}"', f"'{word}'"):
        text = fleet_text(listener=f"websocket: {written}")
        if written == "True":
            assert read(text).listeners[0].websocket is True
        else:
            assert errors(text) == [f"websocket: {written}"]


@pytest.mark.parametrize("word", ["on", "off", "yes", "no", "y", "n"])
def test_names_that_look_like_booleans(word: str) -> None:
    assert read(f"name: {word}\n{fleet_text()}").name == word
    text = fleet_text().replace("chat", word)
    assert [pool.name for pool in read(text).pools] == [word]


@pytest.mark.parametrize("key", ["true", "1", "~", "1.5", "[a]", "{a: b}"])
def test_keys_that_are_no_strings(key: str) -> None:
    found = problems(f"pools:\n  {key}:\n    servers: [gpu-0:8000]\nlisteners: {{local: {{{LOCAL}}}}}\n")
    assert len(found) == 1
    assert found[0].location is not None
    assert found[0].location.line == 2


@pytest.mark.parametrize(
    "port", ["010", "0800", "08080", "0x1F90", "1_000", "8000.0", "1:2:3", "2024-01-01", ".inf", "070000"]
)
def test_numbers_that_are_not_decimal(port: str) -> None:
    """010 is 8 and 1:2:3 is 3723 to PyYAML (yq#201, ansible-lint PR#3030)."""
    text = fleet_text(f"health:\n  port: {port}")
    assert errors(text) == [f"port: {port}"]


@pytest.mark.parametrize("bind", ["22:30", "80:80"])
def test_base_sixty(bind: str) -> None:
    """22:30 is 1350 to YAML 1.1; here it is text, and no address."""
    text = fleet_text(listener=f"bind: {bind}").replace("    bind: 127.0.0.1:8080\n", "", 1)
    assert errors(text) == [f"bind: {bind}"]


@pytest.mark.parametrize("version", ["1.30", "1.20", "3.0", "2", "true", "'1'", "'1.x'", "latest"])
def test_versions_are_strings(version: str) -> None:
    """1.30 is 1.3 as a number."""
    text = fleet_text(target=f"haproxy:\n    version: {version}")
    found = problems(text)
    assert [problem.location.line for problem in found if problem.location] == [len(text.splitlines())]
    assert found[0].is_error


def test_a_version_in_quotes() -> None:
    assert str(read(fleet_text(target='haproxy: {version: "3.0"}')).target("haproxy").version) == "3.0"


def test_the_same_key_twice() -> None:
    """PyYAML takes the last, silently (pyyaml#165)."""
    text = fleet_text("strategy: least_conn\nstrategy: round_robin")
    found = problems(text)
    assert [problem.code for problem in found] == ["duplicate-key"]
    assert found[0].location is not None
    assert text.splitlines()[found[0].location.line - 1].strip() == "strategy: round_robin"
    first = text.splitlines().index("    strategy: least_conn") + 1
    assert f"lines {first} and" in found[0].message


def test_a_merged_key_is_no_duplicate() -> None:
    text = "x-base: &base {engine: vllm, max_in_flight: 8}\n" + fleet_text("<<: *base\nmax_in_flight: 9")
    assert (chat(text).engine, chat(text).max_in_flight) == ("vllm", 9)


def test_an_anchor_within_itself() -> None:
    assert len(problems("pools: &a\n  chat: *a\n")) >= 1


def test_a_laugh_of_a_billion() -> None:
    lines = ["x-a: &a [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    for name, before in zip("bcdefghi", "abcdefgh", strict=True):
        lines.append(f"x-{name}: &{name} [{', '.join([f'*{before}'] * 9)}]")
    assert errors("\n".join(lines) + "\n" + fleet_text()) != []


def test_several_documents() -> None:
    found = problems(fleet_text() + "---\n" + fleet_text())
    assert len(found) == 1
    assert found[0].is_error


@pytest.mark.parametrize("text", ["", "# nothing\n", "[]\n", "pools\n", "~\n", "--- \n...\n"])
def test_no_fleet_at_all(text: str) -> None:
    found = problems(text)
    assert [problem.is_error for problem in found] == [True]


@pytest.mark.parametrize(
    "text", ["pools: {chat: {servers: [gpu-[0-3]:8000]}}\n", "pools: [\n", "\tpools: x\n"]
)
def test_what_is_not_yaml(text: str) -> None:
    found = problems(text)
    assert len(found) <= 2
    assert all(problem.location and problem.location.line >= 1 for problem in found)


def test_variables_are_filled_in_after_parsing() -> None:
    """envsubst deletes NGINX's own variables (docs#496), and a value could inject YAML."""
    text = fleet_text(servers='servers: "gpu-0:${PORT:-8000}"')
    assert chat(text).servers[0].address.port == 8000
    assert chat(text, {"PORT": "9000"}).servers[0].address.port == 9000
    assert errors(text, {"PORT": "9000\nevil: true"}) != []
    assert "unset-variable" in codes(fleet_text(servers='servers: "gpu-0:${PORT}"'))


def test_a_typed_variable() -> None:
    assert chat(fleet_text("max_in_flight: ${CAP}"), {"CAP": "32"}).max_in_flight == 32
    assert errors(fleet_text('max_in_flight: "${CAP}"'), {"CAP": "32"}) == ['max_in_flight: "${CAP}"']


def test_null_where_a_value_belongs() -> None:
    assert errors(fleet_text("engine: ~")) == ["engine: ~"]
