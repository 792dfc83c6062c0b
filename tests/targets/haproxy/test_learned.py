"""When HAProxy learns homes, and by what rules; when it hashes."""

from __future__ import annotations

import pytest

from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.render import render
from lbgen.secret_values import StandInSecrets

ALIKE = '"gpu-[0-3]:8000"'
HASHED = "balance hash var(txn.lb_home_of)"


def text(
    strategy: str = "prefix", servers: str = ALIKE, more: str = "", rest: str = "", version: str = "2.6"
) -> str:
    """Return the configuration of a pool."""
    pool = f"engine: vllm, strategy: {strategy}, servers: {servers}{more}"
    source = Source("fleet.yaml", f"pools:\n  chat: {{{pool}}}\n{rest}")
    loaded = load([source], environ={}, targets=("haproxy",), versions={"haproxy": version})
    assert loaded.fleet is not None, loaded.problems
    return render(loaded.fleet, "haproxy", secrets=StandInSecrets())[0].text


def backend(*words: str, **more: str) -> list[str]:
    """Return the lines of the pool's backend."""
    section = text(*words, **more).partition("\nbackend chat ")[2].partition("\n\n")[0]
    return [line.strip() for line in section.splitlines()]


@pytest.mark.parametrize(
    "servers",
    [
        ALIKE,
        '[{address: "gpu-0:8000", weight: 2}, "gpu-1:8000"]',
        '[{address: "a:1", max_in_flight: 2}, "b:1"]',
    ],
    ids=["alike", "weights", "caps"],
)
def test_homes_are_learned_whatever_the_servers(servers: str) -> None:
    lines = backend(servers=servers)
    assert "balance leastconn" in lines
    assert HASHED not in lines
    assert sum(line.startswith("stick match ") for line in lines) == 2


def test_balancers_that_share_nothing_hash_conversations() -> None:
    lines = backend(rest="balancers: 2\n")
    assert HASHED in lines
    assert "hash-balance-factor 150" in lines
    assert not any(line.startswith("stick") or "track-sc" in line for line in lines)


@pytest.mark.parametrize(
    ("key", "tables", "matches"),
    [("auto", 2, 2), ("conversation", 1, 1), ("system_prompt", 1, 1), ("first_bytes", 1, 1)],
)
def test_a_key_has_the_tables_that_it_needs(key: str, tables: int, matches: int) -> None:
    whole = text(f"{{name: prefix, key: {key}}}")
    assert whole.count("stick-table ") == tables
    assert whole.count("stick match ") == matches
    assert ("first_bytes:2048" in whole) == (key == "first_bytes")
    assert ("cache_key" in whole) == (key in {"auto", "conversation"})


def test_the_first_header_that_is_there_names_the_conversation() -> None:
    lines = backend("{name: prefix, headers: [X-A, X-B]}")
    named = [line.split("req.fhdr(")[1].split(")")[0] for line in lines if "req.fhdr(" in line]
    assert named == ["X-A", "X-B"]
    assert all("-m len gt 0" in line for line in lines if "req.fhdr(" in line)  # an empty name is none


def test_bounds_follow_the_parameters() -> None:
    lines = backend("{name: prefix, load_factor: 1.25, slack: 3}")
    excess = "http-request set-var(txn.lb_excess)"
    assert f"{excess} var(txn.lb_average),mul(25),div(100)" in lines
    assert f"{excess} int(300) if {{ var(txn.lb_excess) -m int lt 300 }}" in lines


@pytest.mark.parametrize(("cap", "slack"), [("8", 2), ("32", 8), ("200", 8), ("2", 1)])
def test_slack_follows_the_cap(cap: str, slack: int) -> None:
    lines = backend(more=f", max_in_flight: {cap}")
    assert any(f"int({slack * 100}) if" in line for line in lines)


def test_a_load_counts_by_weight() -> None:
    lines = backend(servers='[{address: "a:1", weight: 3}, {address: "b:1"}]')
    loads = [line.split("set-var(txn.lb_load) ")[1].split()[0] for line in lines if "lb_load) srv" in line]
    assert loads == ["srv_conn(chat/a),mul(200),div(3)", "srv_conn(chat/b),mul(200)"]


def test_a_full_home_is_passed_over_unless_all_are() -> None:
    [line] = [line for line in backend(more=", max_in_flight: 8") if "srv_conn(chat/gpu-0)" in line]
    assert "{ srv_conn_free(chat/gpu-0) gt 0 }" in line
    assert "{ be_conn_free(chat) le 0 }" in line


LIMITS = """
listeners:
  default:
    bind: 127.0.0.1:8080
    limits: [{rate: 9/s, per: ip}, {rate: 99/m, per: ip}, {rate: 99/s, per: total}]
"""


def test_prompts_are_counted_beside_limits() -> None:
    assert any("track-sc1 str(all)" in line for line in backend())
    limited = backend(rest=LIMITS)
    assert not any("track-sc" in line for line in limited)  # 2.6 has three counters
    assert "balance leastconn" in limited
    newer = text(rest=LIMITS, version="3.0")
    assert "track-sc4 str(all)" in newer
    assert "tune.stick-counters 6" in newer


def test_decisions_are_counted_with_what_is_left() -> None:
    metrics = 'metrics: {bind: "127.0.0.1:8404"}'
    assert "decisions:chat" not in text(rest=metrics), "2.6 has three counters, and homes need them"
    newer = text(rest=metrics, version="3.0")
    assert "http-request track-sc3 var(txn.lb_decision) table decisions:chat" in newer
    assert "tune.stick-counters 4" in newer
    page = next(line for line in newer.splitlines() if "/decisions }" in line)
    for word in ("home", "prompt", "least", "moved"):
        assert f"%[str({word}),table_http_req_cnt(decisions:chat)]" in page
    lines = newer.splitlines()
    assert lines.index(page) > next(
        number for number, line in enumerate(lines) if "deny_status 403" in line and "!lb_" in line
    ), "who may not come sees none"
    assert "decisions:chat" not in text(version="3.0"), "nobody would read them"


def test_a_server_that_is_being_drained_is_nobodys_home() -> None:
    lines = backend(servers='[{address: "gpu-0:8000", state: drain}, "gpu-1:8000", "gpu-2:8000"]')
    homes = [line for line in lines if "lb_load) srv_conn" in line]
    assert len(homes) == 2
    assert not any("gpu-0" in line for line in homes)


def test_servers_that_a_name_stands_for_are_homes_too() -> None:
    pool = "{strategy: prefix, discover: {dns: vllm.svc, port: 8000, max: 3}}"
    source = Source("fleet.yaml", f"pools:\n  chat: {pool}\n")
    loaded = load([source], environ={}, targets=("haproxy",), versions={"haproxy": "2.6"})
    assert loaded.fleet is not None, loaded.problems
    whole = render(loaded.fleet, "haproxy")[0].text
    assert whole.count("srv_conn(chat/server-") == 3
    assert "{ var(txn.lb_home) -m int 3 } { srv_is_up(chat/server-3) }" in whole


def test_what_clients_share_is_told_apart_by_client() -> None:
    rest = "clients: {a: {key: file:k}}\nlisteners: {default: {bind: 127.0.0.1:80, auth: {clients: all}}}\n"
    lines = backend("{name: prefix, scope: client}", rest=rest)
    named = ("http-request set-var(txn.lb_home_of) ", "http-request set-var(txn.lb_prompt) ")
    digests = [line for line in lines if line.startswith(named)]
    assert len(digests) == 7
    assert all("concat(.,txn.lb_client),sha1,hex" in line for line in digests)


def test_answers_explain_where_they_came_from_when_asked() -> None:
    rest = "listeners: {default: {bind: 127.0.0.1:8080, explain: true}}\n"
    header = "http-after-response set-header X-LB-Decision %[var(txn.lb_decision)]"
    assert header in text(rest=rest)
    assert header not in text()
    assert '"decision":%{+Q}[var(txn.lb_decision),json(utf8s)]' in text()
