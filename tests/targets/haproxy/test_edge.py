from __future__ import annotations

import hashlib
from typing import Any

import pytest

from lbgen.model import Auth, Limit, ListenerTls, Match, Metrics, Respond, Secret, Timeouts
from lbgen.targets.common.paths import candidates
from lbgen.targets.haproxy import HAPROXY
from lbgen.targets.haproxy.guards.admission import bounds
from lbgen.units import Address, Rate
from tests import factory
from tests.targets.haproxy.parsed import conf, files, starting

ALL = (factory.client(), factory.client("team-b", keys=(Secret("env", "B"),), pools=("other",)))
KEYED = Auth(("team-a", "team-b"), "Authorization", "strip", None, (), required=True)


def routes(*matches: Match) -> tuple[Any, ...]:
    return tuple(
        factory.route(f"r{index}", match=match, path=("listeners", "default", "routes", index))
        for index, match in enumerate(matches)
    )


def frontend(listener: Any, **values: Any) -> list[list[str]]:
    return conf(factory.fleet(listeners=(listener,), **values))[f"frontend listener:{listener.name}"]


def test_the_more_specific_route_is_tried_first() -> None:
    made = factory.listener(
        routes=routes(
            Match(),
            Match(headers={"X-Tier": "a"}),
            Match(paths=("/v1",)),
            Match(paths=("/v1/chat",)),
            Match(paths=("/v1",), methods=("POST",)),
            Match(paths_exact=("/v1",)),
        )
    )
    assert [candidate.order for candidate in candidates(made)] == [5, 3, 4, 2, 1, 0]


def test_a_path_is_a_prefix_of_whole_segments() -> None:
    lines = frontend(factory.listener(routes=routes(Match(paths=("/gpt",)))))
    patterns = [line[-1] for line in lines if line[0] == "acl" and line[-1].startswith("/gpt")]
    assert patterns == ["/gpt", "/gpt/"]


def test_what_no_route_takes_is_not_found() -> None:
    assert (
        starting(frontend(factory.listener(routes=routes(Match(paths=("/gpt",))))), "http-request", "deny")[
            -1
        ][1]
        == "404"
    )
    plain = frontend(factory.listener())
    assert not any("404" in line for line in plain)


def test_listeners_on_one_address_are_one_frontend() -> None:
    listeners = (
        factory.listener("a", hosts=("a.org",)),
        factory.listener(
            "b", hosts=("*.b.org",), routes=(factory.route(path=("listeners", "b", "routes", 0)),)
        ),
    )
    sections = conf(factory.fleet(listeners=listeners))
    assert [name for name in sections if name.startswith("frontend")] == ["frontend listener:a:b"]


@pytest.mark.parametrize(
    ("strip", "add", "regex", "replacement"),
    [
        (True, "", "^(?:(?:/gpt)(?:/(.*))?)$", "/\\1"),
        (True, "/v1", "^(?:(?:/gpt)(?:/(.*))?)$", "/v1/\\1"),
        (False, "/a%b", "^/(.*)$", "/a%%b/\\1"),
    ],
)
def test_prefixes(strip: bool, add: str, regex: str, replacement: str) -> None:
    route = factory.route(match=Match(paths=("/gpt",)), strip_prefix=strip, add_prefix=add)
    (words,) = starting(frontend(factory.listener(routes=(route,))), "http-request", "replace-path")
    assert words[:2] == [regex, replacement]


def test_a_fixed_answer_is_given_as_written() -> None:
    route = factory.route(pool=None, respond=Respond(200, "it's\n$HOME %[src]", "text/plain"))
    (words,) = [
        line
        for line in frontend(factory.listener(routes=(route,)))
        if "string" in line and "text/plain" in line
    ]
    assert words[words.index("string") + 1] == "it's\n$HOME %[src]"


def test_a_split_has_a_share_for_each_pool() -> None:
    route = factory.route(pool=None, split={"chat": 95, "canary": 5}, when_down="chat")
    pools = (factory.pool(), factory.pool("canary"))
    lines = conf(factory.fleet(*pools, listeners=(factory.listener(routes=(route,)),)))[
        "frontend listener:default"
    ]
    used = [line[1] for line in starting(lines, "use_backend")] or [
        line[0] for line in starting(lines, "use_backend")
    ]
    assert len(used) == 3
    first = starting(lines, "use_backend")[0]
    assert first[0] == "chat"
    assert "95" in first


def test_keys_are_kept_as_digests() -> None:
    fleet = factory.fleet(listeners=(factory.listener(auth=KEYED),), clients=ALL)
    made = files(fleet)
    stand_in = "stand-in-" + hashlib.sha256(b"env:TEAM_A_KEY").hexdigest()[:16]
    digest = hashlib.sha256(stand_in.encode()).hexdigest().upper()
    assert f"{digest} team-a\n" in made["secrets/clients.map"]
    assert not any(stand_in in text for text in made.values())


def test_the_status_comes_before_the_key() -> None:
    lines = frontend(factory.listener(auth=KEYED), clients=ALL)
    refused = next(index for index, line in enumerate(lines) if "401" in line)
    answered = next(
        index for index, line in enumerate(lines) if line[:3] == ["http-request", "return", "status"]
    )
    assert answered < refused


def test_the_clients_key_does_not_reach_the_server() -> None:
    names = [
        line[0]
        for line in starting(
            frontend(factory.listener(auth=KEYED), clients=ALL), "http-request", "del-header"
        )
    ]
    assert {"Authorization", "X-Api-Key"} <= set(names)


def test_a_client_is_kept_out_of_pools_that_are_not_its_own() -> None:
    sections = conf(factory.fleet(listeners=(factory.listener(auth=KEYED),), clients=ALL))
    assert any(line[3] == "403" and "team-b" in line for line in sections["backend chat"] if "deny" in line)


@pytest.mark.parametrize(
    ("rate", "burst", "most", "period"),
    [
        (Rate(600, 60), 50, 51, 5_100),
        (Rate(1, 1), 0, 1, 1_000),
        (Rate(1_000, 1), 0, 100, 100),
    ],
)
def test_a_rate_is_counted_over_the_time_of_its_burst(rate: Rate, burst: int, most: int, period: int) -> None:
    listener = factory.listener(limits=(Limit(rate, burst, None, "ip", ()),))
    (bound,) = bounds(factory.fleet(), listener)
    assert (bound.most, bound.period) == (most, period)


def test_more_limits_than_counters_are_refused_before_2_8() -> None:
    limits = tuple(Limit(None, 0, 3, "ip", ()) for _ in range(4))
    fleet = factory.fleet(listeners=(factory.listener(limits=limits),), origins=factory.Everything(set()))
    assert [problem.code for problem in HAPROXY.limits(fleet)] == ["target-refused"]
    newer = fleet._replace(targets=(factory.settings("haproxy", "3.0"),))
    assert not list(HAPROXY.limits(newer))
    assert starting(conf(newer, "3.0")["global"], "tune.stick-counters") == [["4"]]


def test_a_certificate_and_its_key_are_kept_apart_from_3_0_on(tmp_path: Any) -> None:
    (tmp_path / "c.pem").write_text("CERTIFICATE\n")
    (tmp_path / "k.pem").write_text("KEY\n")
    tls = ListenerTls(
        f"{tmp_path}/c.pem", f"{tmp_path}/k.pem", None, None, "intermediate", hsts=True, client_ca=None
    )
    fleet = factory.fleet(listeners=(factory.listener(tls=tls),))
    assert "CERTIFICATE\nKEY\n" in files(fleet, "2.6")["secrets/certificate-1.pem"]
    newer = conf(fleet, "3.0")
    assert newer["crt-store lbgen"] == [
        ["load", "crt", tls.certificate, "key", tls.key, "alias", "certificate-1"]
    ]
    assert any("max-age=63072000" in line for line in newer["frontend listener:default"])


def test_a_certificate_and_its_key_are_read_below_the_targets_folder(tmp_path: Any) -> None:
    (tmp_path / "c.pem").write_text("CERTIFICATE\n")
    (tmp_path / "k.pem").write_text("KEY\n")
    tls = ListenerTls("c.pem", "k.pem", None, None, "intermediate", hsts=True, client_ca=None)
    settings = factory.settings("haproxy", "2.6")._replace(directory=str(tmp_path))
    fleet = factory.fleet(listeners=(factory.listener(tls=tls),), targets=(settings,))
    assert "CERTIFICATE\nKEY\n" in files(fleet, "2.6")["secrets/certificate-1.pem"]


def test_upgrades_are_plain_requests_without_websocket() -> None:
    for websocket in (False, True):
        lines = frontend(factory.listener(websocket=websocket))
        apart = starting(lines, "http-request", "del-header", "Upgrade")
        assert bool(apart and apart[0]) == websocket
        ((claims, *_),) = [
            line for line in starting(lines, "http-request", "del-header") if "forwarded" in line[0]
        ]
        assert ("|upgrade|" in claims) is not websocket


def test_a_routes_timeout_and_a_listeners_log() -> None:
    route = factory.route(timeouts=Timeouts(idle=1_800_000))
    sections = conf(factory.fleet(listeners=(factory.listener(routes=(route,)),)))
    (words,) = starting(sections["backend chat"], "http-request", "set-timeout", "server")
    assert words[0] == "30m"
    assert starting(sections["frontend listener:default"], "timeout", "client") == [["30m"]]


def test_metrics_ask_for_the_password_by_its_digest() -> None:
    metrics = Metrics((Address("0.0.0.0", 8404),), ("10.0.0.0/8",), "u", Secret("env", "P"), ("metrics",))
    made = files(factory.fleet(metrics=metrics))
    assert made["secrets/metrics.map"].count("\n") == 2
    assert "stand-in" not in "".join(made.values())


def test_defaults_cause_no_verdict() -> None:
    fleet = factory.fleet(origins=factory.Everything(set()))
    assert not list(HAPROXY.limits(fleet))


def test_a_headers_name_cannot_end_the_line() -> None:
    made = factory.listener(routes=routes(Match(headers={"X-A#b": "v"})))
    (acl,) = [line for line in frontend(made) if line[0] == "acl" and "v" in line]
    assert acl[2] == "req.fhdr(X-A#b)"
    assert acl[-1] == "v"


def sharing(*changes: dict[str, Any]) -> Any:
    """Return a fleet whose listeners share an address, each with TLS of its own kind."""
    tls = ListenerTls(None, None, "both.pem", None, "intermediate", hsts=False, client_ca=None)
    found = []
    for number, change in enumerate(changes):
        name = f"l{number}"
        own = {key: change[key] for key in change.keys() & {"profile", "client_ca"}}
        more = {key: change[key] for key in change.keys() - own.keys()}
        more = {"hosts": (f"{name}.example.org",), **more}
        found.append(factory.listener(name, tls=tls._replace(**own), **more))
    return factory.fleet(listeners=tuple(found))


def test_listeners_with_one_kind_of_tls_need_no_list() -> None:
    made = files(sharing({"client_ca": "ca.pem"}, {"client_ca": "ca.pem"}))
    assert not any(path.endswith(".list") for path in made)
    assert "verify required" in made["haproxy.cfg"]
    assert "tune.ssl.cachesize" not in made["haproxy.cfg"]


def test_each_name_has_its_own_line_of_the_list() -> None:
    fleet = sharing(
        {"client_ca": "a.pem", "hosts": ("A.example.org", "*.w.example.org")}, {"profile": "modern"}
    )
    made = files(fleet)
    assert made["certificates-1.list"].splitlines()[1:] == [
        "both.pem [verify none alpn h2,http/1.1] *",
        "both.pem [ca-file a.pem verify required alpn h2,http/1.1] a.example.org *.w.example.org",
        "both.pem [verify none ssl-min-ver TLSv1.3 alpn h2,http/1.1] l1.example.org",
    ]
    (bind,) = (line for line in made["haproxy.cfg"].splitlines() if "bind 0.0.0.0" in line)
    assert "crt-list certificates-1.list" in bind
    assert "verify" not in bind


def test_only_authorities_that_differ_bind_a_host_to_its_connection() -> None:
    apart = files(sharing({"client_ca": "a.pem"}, {}))["haproxy.cfg"]
    assert "status 421" in apart
    assert "tune.ssl.cachesize 0" in apart
    assert "status 421" not in files(sharing({"profile": "modern"}, {}))["haproxy.cfg"]


def test_escapes_and_slashes_of_a_routes_path_are_compared_decoded() -> None:
    lines = frontend(factory.listener(routes=routes(Match(paths=("/a%20b//c",)))))
    patterns = [line[-1] for line in lines if line[0] == "acl" and line[-1].startswith("/a")]
    assert patterns == ["/a b/c", "/a b/c/"]


def test_a_header_that_decides_may_come_once() -> None:
    match = Match(headers={"X-Tier": "a"})
    lines = frontend(factory.listener(auth=KEYED._replace(header="X-Key"), routes=routes(match)), clients=ALL)
    once = {word for line in starting(lines, "http-request", "deny", "deny_status", "400") for word in line}
    assert {"req.fhdr_cnt(X-Key)", "req.fhdr_cnt(X-Tier)", "req.fhdr_cnt(Upgrade)"} <= once


def test_limits_by_address_count_before_keys_are_asked_for() -> None:
    limits = tuple(
        Limit(Rate(60, 60), 5, None, per, ("listeners", "default", "limits")) for per in ("ip", "client")
    )
    lines = frontend(factory.listener(auth=KEYED, limits=limits), clients=ALL)
    statuses = [line[3] for line in lines if line[:3] == ["http-request", "deny", "deny_status"]]
    assert statuses.index("429") < statuses.index("401")
    assert "429" in statuses[statuses.index("401") :]


def test_warmup_without_checks_is_named() -> None:
    fleet = factory.fleet(factory.pool(warmup=30_000, health=None))
    assert any("'warmup'" in problem.message for problem in HAPROXY.limits(fleet))
    assert "slowstart" not in files(fleet)["haproxy.cfg"]
    checked = factory.fleet(factory.pool(warmup=30_000))
    assert not any("'warmup'" in problem.message for problem in HAPROXY.limits(checked))
