"""Listeners that share an address: who answers for which host, and whose certificate counts."""

from __future__ import annotations

from itertools import permutations

import pytest

from lbgen.model import Auth, Cors, ListenerTls
from lbgen.targets.nginx.limitations.limits import limits
from lbgen.units import Address
from lbgen.vocabulary import Version
from tests import factory
from tests.targets.nginx.parsed import args, conf, find, locations

TLS = ListenerTls("c.pem", "k.pem", None, None, "intermediate", False, None)
BIND = (Address("*", 8080),)
CLOSED = Auth(("a",), "Authorization", "strip", None, (), True)


def named(name: str, hosts: tuple[str, ...] = (), **values):
    return factory.listener(name=name, hosts=hosts, **{"binds": BIND, **values})


def servers(*listeners) -> dict[str, list[list[str]]]:
    """Return the names of server blocks, or ``any``, with their `listen` lines."""
    found: dict[str, list[list[str]]] = {}
    for block in find(conf(factory.fleet(listeners=listeners)), "server"):
        lines = args(block.get("block", []), "listen")
        if lines:
            names = args(block["block"], "server_name")
            found.setdefault(" ".join(names[0]) if names else "any", []).extend(lines)
    return found


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_listener_without_hosts_is_the_default_in_any_order(order: tuple[int, ...]) -> None:
    listeners = [named("a", ("a.example",)), named("rest"), named("b", ("b.example",))]
    found = servers(*(listeners[place] for place in order))
    assert found["any"] == [["8080", "default_server"], ["[::]:8080", "default_server"]]
    assert found["a.example"] == found["b.example"] == [["8080"], ["[::]:8080"]]


def test_one_spelling_of_every_address_is_as_good_as_another() -> None:
    found = servers(named("a", ("a.example",)), named("rest", binds=(Address("0.0.0.0", 8080),)))
    assert ["0.0.0.0:8080", "default_server"] in found["any"]
    # Nobody has the rest of IPv6: that is the catch-all's.
    assert ["[::]:8080", "default_server"] in found["any"]
    assert len(found["any"]) == 2


def test_a_redirect_does_not_answer_for_a_listener() -> None:
    redirecting = named("a", binds=(Address("*", 443),), redirect_from=BIND, tls=TLS)
    found = servers(redirecting, named("rest"))
    assert ["8080", "default_server"] in found["any"]


def test_unknown_hosts_get_probes_alone_where_all_listeners_have_hosts() -> None:
    content = conf(factory.fleet(listeners=(named("a", ("a.example",)), named("b", ("b.example",)))))
    block = next(
        block["block"] for block in find(content, "server")
        if ["8080", "default_server"] in args(block.get("block", []), "listen")
    )  # fmt: skip
    found = locations(block)
    assert args(found["= /lb/live"], "return")[0][0] == "200"
    assert args(found["/"], "return")[0][0] == "404"
    assert not any(args(content, "limit_req") for content in found.values())


@pytest.mark.parametrize(
    ("own", "default", "asked"),
    [("b.pem", "r.pem", True), ("b.pem", None, False), (None, "r.pem", False), ("r.pem", "r.pem", False)],
)
def test_a_certificate_of_the_defaults_authority_opens_nothing_else(
    own: str | None, default: str | None, asked: bool
) -> None:
    listeners = (
        named("b", ("b.example",), tls=TLS._replace(client_ca=own)),
        named("rest", tls=TLS._replace(client_ca=default)),
    )
    block = next(
        block["block"] for block in find(conf(factory.fleet(listeners=listeners)), "server")
        if args(block.get("block", []), "server_name") == [["b.example"]]
    )  # fmt: skip
    checks = args(locations(block)["/"], "if")
    assert (["$ssl_server_name", "!=", "$host"] in checks) is asked


def test_the_catch_all_asks_nobody_for_a_certificate() -> None:
    listeners = [named(name, (f"{name}.x",), tls=TLS._replace(client_ca=f"{name}.pem")) for name in "ab"]
    asking = [
        block for block in find(conf(factory.fleet(listeners=tuple(listeners))), "server")
        if args(block.get("block", []), "ssl_verify_client")
    ]  # fmt: skip
    assert len(asking) == 2


def test_preflights_are_free_of_keys_where_cors_answers_them() -> None:
    for origins, checked in (((), ["$lb_malformed"]), (("*",), ["$lb_malformed", "$lb_preflight"])):
        listener = factory.listener(auth=CLOSED, cors=Cors(origins), websocket=True)
        content = conf(factory.fleet(listeners=(listener,), clients=(factory.client("a"),)))
        *before, denied = [condition for [condition] in args(locations(content)["/"], "if")]
        assert before == checked
        assert denied.startswith("$lb_denied")
        source = next(block for block in find(content, "map") if block["args"][1] == denied)["args"][0]
        assert "preflight" not in source


@pytest.mark.parametrize(("version", "refused"), [("1.22", 1), ("1.26.3", 1), ("1.30.6", 0)])
def test_two_tls_profiles_at_one_address_are_refused_where_nginx_has_one(version: str, refused: int) -> None:
    fleet = factory.fleet(
        listeners=(
            named("a", ("a.example",), tls=TLS._replace(profile="modern")),
            named("b", ("b.example",), tls=TLS, path=("listeners", "b")),
            named("c", ("c.example",), tls=TLS._replace(profile="modern"), path=("listeners", "c")),
        )
    )
    settings = fleet.target("nginx")._replace(version=Version.parse(version))
    found = list(limits(fleet._replace(targets=(settings,))))
    assert [problem.path for problem in found if "tls.profile" in problem.message] == [
        ("listeners", "b", "tls", "profile")
    ] * refused
