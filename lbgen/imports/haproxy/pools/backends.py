"""``backend`` and ``listen`` sections with servers, as pools."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lbgen.imports.draft import Said, Tree
from lbgen.imports.haproxy.listeners.answers import fixed_answer, is_computed
from lbgen.imports.haproxy.pools.health import health
from lbgen.imports.haproxy.pools.servers import Parameters, common, entries, parameters
from lbgen.imports.haproxy.pools.strategies import strategy
from lbgen.imports.servers import listed
from lbgen.imports.values import duration, haproxy_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lbgen.imports.haproxy.reading import Reading
    from lbgen.readers.haproxy import Line, Section

_RETRY_WORDS = {
    "conn-failure": "connect",
    "empty-response": "reset",
    "junk-response": "reset",
    "response-timeout": "timeout",
    "429": "429",
    "502": "502",
    "503": "503",
    "504": "504",
}
_ANSWERS = {("return",), ("deny",)}
_ALL_ERRORS = ["connect", "reset", "timeout", "502", "503", "504"]


_NO_HTTP = frozenset({"22", "25", "53", "389", "1883", "3306", "5432", "5672", "6379", "27017"})
"""Ports registered with IANA for SSH, mail, DNS, LDAP, MQTT, databases and queues."""


def read_backends(reading: Reading) -> None:
    """Make a pool of each section that has servers, or that a rule sends requests to."""
    for section in reading.configuration.all("backend", "listen"):
        if _speaks_no_http(section):
            reading.settled.add(section.title)
            reading.left(section.lines, "its servers' ports belong to services that do not use HTTP")
            continue
        generated_table = reading.generated and ":" in section.name
        if section.name and not generated_table and (section.kind == "backend" or section.servers()):
            _pool(reading, section)
        elif generated_table:
            reading.carry(section.lines)


def _speaks_no_http(section: Section) -> bool:
    mode = section.last("mode")
    ports = {one.address.rpartition(":")[2] for one in section.servers()}
    return bool(ports) and ports <= _NO_HTTP and (mode is None or mode.words[1:] != ("http",))


def _pool(reading: Reading, section: Section) -> None:
    servers = [Parameters(one, parameters(one)) for one in section.servers()]
    templates = [one for one in servers if one.server.line.words[0] == "server-template"]
    if not servers and (section.own("stick-table") or section.own("stats")):
        return  # a table, or a page of statistics
    answers = [
        line
        for line in section.own("http-request")
        if line.words[1:2] in _ANSWERS and not {"if", "unless"} & set(line.words)
    ]
    answer = fixed_answer(answers[0]) if answers and not servers else None
    if answer is not None:
        reading.answers[section.name] = answer
        reading.carry(answers[:1])
        if is_computed(answers[0]):
            reading.ledger.differs(answers[0].location, "the text of the error is lbgen's")
        return
    tree = reading.new_pool(section.name)
    pair = strategy(reading, section, servers)
    if pair is not None and (len(servers) > 1 or templates or pair.value != "round_robin"):
        tree["strategy"] = pair
    if templates:
        _discover(reading, tree, templates)
    else:
        tree["servers"] = entries(reading, servers)
    if not tree.get("servers") and "discover" not in tree:
        tree.pop("servers", None)
        tree["allow_empty"] = Said(value=True, place=section.location)
    shared = common(reading, servers) if servers else {}
    reading.carry(section.own("default-server"))
    if section.defaults is not None:
        reading.carry(section.defaults.own("default-server"))
    health(reading, section, servers, shared, tree)
    _queue(reading, section, servers, shared, tree)
    _connections(reading, section, shared, servers, tree)
    _timeouts(reading, section, tree)
    _retry(reading, section, tree)
    _mode(reading, section)


def _discover(reading: Reading, tree: Tree, templates: Sequence[Parameters]) -> None:
    one = templates[0]
    found = re.fullmatch(r"([A-Za-z0-9._-]+):(\d+)", one.server.address)
    reading.carry(item.server.line for item in templates)
    address, reason = listed(one.server.address, 80)
    if len(templates) > 1 or found is None or address is None:
        reading.left(
            (item.server.line for item in templates), reason or "one template is a pool's 'discover'"
        )
        return
    values = {"dns": found[1], "port": int(found[2]), "max": one.server.slots}
    tree["discover"] = Said(values, one.server.line.location)


def _queue(
    reading: Reading, section: Section, servers: Sequence[Parameters], shared: dict[str, str], tree: Tree
) -> None:
    line = section.last("timeout", "queue")
    capped = any(one.values.get("maxconn", "0") != "0" for one in servers)
    values: dict[str, Any] = {}
    if shared.get("maxqueue", "").isdecimal() and int(shared["maxqueue"]):
        values["size"] = int(shared["maxqueue"]) * len(servers)
    time = _time(reading, line)
    if line is not None and time and capped:
        values["timeout"] = time
        reading.ledger.carried(line.location)
    if values and capped:
        tree["queue"] = Said(values, line.location if line else section.location)


def _connections(
    reading: Reading, section: Section, shared: dict[str, str], servers: Sequence[Parameters], tree: Tree
) -> None:
    place = servers[0].server.line.location if servers else section.location
    if "ssl" in shared:
        values: dict[str, Any] = {}
        ca = shared.get("ca-file", "")
        values |= {"ca": ca} if ca and not ca.startswith("@") else {}
        name = re.fullmatch(r"str\(([^)]+)\)", shared.get("sni", ""))
        values |= {"server_name": name[1]} if name else {}
        if shared.get("sni") and not name:
            reading.ledger.left(
                place, ("there is no key for 'sni' from the request: the servers' host name is used")
            )
        values |= {"certificate": shared["crt"]} if "crt" in shared else {}
        values |= {"verify": False} if shared.get("verify") == "none" else {}
        tree["tls"] = Said(values or True, place)
    if shared.get("proto") == "h2":
        tree["protocol"] = Said("h2c" if "ssl" not in shared else "grpc", place)
    time = haproxy_time(shared.get("slowstart", ""))
    if time:
        tree["warmup"] = Said(duration(time), place)
    if "resolvers" in shared:
        tree["dns"] = _dns(reading, shared["resolvers"], place)


def _dns(reading: Reading, name: str, place: Any) -> Said:  # noqa: ANN401 - a place
    values: dict[str, Any] = {"mode": "runtime"}
    for section in reading.configuration.all("resolvers"):
        if section.name != name:
            continue
        lines = section.own("nameserver")
        values["resolver"] = [
            line.words[2].partition("@")[2] or line.words[2] for line in lines if len(line.words) > 2
        ]
        reading.carry(lines)
        valid = section.last("hold", "valid")
        time = haproxy_time(valid.words[2]) if valid is not None and len(valid.words) > 2 else None
        if valid is not None and time:
            values["valid"] = duration(time)
            reading.ledger.carried(valid.location)
        for line in section.lines:
            if reading.ledger.is_open(line.location):
                reading.ledger.better(line.location, "lbgen decides how often names are asked for")
    if not values.get("resolver"):
        values.pop("resolver", None)
    return Said(values, place)


def _timeouts(reading: Reading, section: Section, tree: Tree) -> None:
    values: dict[str, str] = {}
    place = None
    for name, keys in {
        "connect": ("connect",),
        "server": ("first_byte", "idle"),
        "tunnel": ("tunnel",),
    }.items():
        line = section.last("timeout", name)
        time = _time(reading, line)
        if line is not None and time:
            reading.ledger.carried(line.location)
            values |= dict.fromkeys(keys, time)
            place = place or line.location
    if values:
        tree["timeouts"] = Said(values, place)


def _time(reading: Reading, line: Line | None) -> str | None:
    """Return the time of ``timeout NAME TIME``; None, and noted, for one that cannot be read."""
    if line is None or len(line.words) < 3:
        return None
    time = haproxy_time(line.words[2])
    try:
        if time:
            return duration(time)
    except ValueError as error:
        reading.ledger.left(line.location, str(error))
        return None
    reading.ledger.left(line.location, f"'{line.words[2]}' is not a valid time")
    return None


def _retry(reading: Reading, section: Section, tree: Tree) -> None:
    retries, on = reading.taken(section, "retries"), reading.taken(section, "retry-on")
    values: dict[str, Any] = {}
    if retries is not None and len(retries.words) > 1 and retries.words[1].isdecimal():
        if retries.words[1] == "0":
            tree["retry"] = Said(value=False, place=retries.location)
            return
        values["attempts"] = int(retries.words[1])
    if on is not None and "none" not in on.words:
        words = list(on.words[1:])
        found = list(_ALL_ERRORS) if "all-retryable-errors" in words else []
        found += [_RETRY_WORDS[word] for word in words if word in _RETRY_WORDS]
        others = [
            word for word in words if word not in {*_RETRY_WORDS, "all-retryable-errors", "0rtt-rejected"}
        ]
        if others:
            reading.ledger.left(on.location, f"retry.on has no {', '.join(others)}")
        values["on"] = list(dict.fromkeys(found or ["connect"]))
        if values["on"] != ["connect"] and not reading.generated:
            reading.ledger.better(
                on.location,
                "what a server may have computed is asked for again if it is no POST; 'retry.replay_posts' "
                "repeats generations as well, as HAProxy did, and they are computed twice",
            )
    if values:
        place = (retries or on).location if retries or on else None  # type: ignore[union-attr]
        tree["retry"] = Said(values, place)


def _mode(reading: Reading, section: Section) -> None:
    line = section.last("mode")
    if line is not None:
        reading.ledger.carried(line.location)
    if line is None or line.words[1:] != ("http",):
        place = line.location if line is not None else None
        if place is not None:
            reading.ledger.differs(place, "each request is balanced now, and not each connection")
