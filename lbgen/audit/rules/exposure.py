"""Confidentiality: counters, keys, prompts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lbgen.audit.rule import AuditRule, Finding
from lbgen.audit.secrets import key_in, keys_compared, others_can_read, secret_spans
from lbgen.fleet.rules.rule import is_loopback
from lbgen.problems import Location, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.audit.haproxy_view import HaproxyView
    from lbgen.audit.nginx_view import NginxView
    from lbgen.readers.haproxy import Line, Section
    from lbgen.readers.nginx import Level

_GUARDS = ("allow", "deny", "auth_basic", "auth_request", "auth_jwt", "internal")
_LOGGED = re.compile(
    r"\$(?:request_body|http_authorization|http_x_api_key|http_api_key|http_cookie|cookie_\w+|arg_(?:api_?)?key)\b"
)
KEYED = r"\$http_(?:authorization|(?:x_)?api_?key)\b"
NO_KEYS = frozenset({"default", "include", "hostnames", "volatile"})
_KEY_HEADERS = r"(?:authorization|x-api-key|api-key|apikey|cookie)"


def _stub_status(view: NginxView) -> Iterator[Finding]:
    for said, level in view.whole.directives("stub_status") if view.passes else ():
        if not _is_guarded(level) and _is_public(level):
            yield Finding(
                said.location,
                "NGINX's status page is open to every client of this address",
                "allow 127.0.0.1; deny all; or a server of its own with listen 127.0.0.1:8404;",
            )


def _engine_metrics(view: NginxView) -> Iterator[Finding]:
    for level in view.whole.levels("location") if view.passes else ():
        path = level.block.args[-1].rstrip("/") if level.block.args else ""
        if path != "/metrics" or not level.block.inside("proxy_pass"):
            continue
        if not _is_guarded(level) and _is_public(level):
            yield Finding(
                level.block.location,
                "the engines' metrics are open to every client: the number of requests, the models, and"
                " the load of the GPUs",
                "allow 10.0.0.0/8; deny all; or remove this location: Prometheus can scrape the engines"
                " directly",
            )


def _nginx_metrics(view: NginxView) -> Iterator[Finding]:
    yield from _stub_status(view)
    yield from _engine_metrics(view)


def _is_guarded(level: Level) -> bool:
    """Tell whether some get no answer here: by a rule, by a condition, or since no path leads here."""
    conditions = [one for block in level.chain for one in block.inside("if")]
    refused = any(said.value.startswith("4") for one in conditions for said in one.inside("return"))
    named = level.block.name == "location" and level.block.value.startswith("@")
    return refused or named or any(level.first(name) for name in _GUARDS)


def _is_public(level: Level) -> bool:
    server = level.around("server")
    listens = server.inside("listen") if server else ()
    return not listens or not all(_host(one.value) for one in listens)


def _host(listen: str) -> bool:
    """Tell whether only this machine reaches a listen address."""
    return listen.startswith("unix:") or is_loopback(listen.rsplit(":", 1)[0].strip("[]"))


def _stats(view: HaproxyView) -> Iterator[Finding]:
    for section in view.whole.all("frontend", "listen", "backend") if view.pools else ():
        shown = _shown(section)
        if shown is None or _guarded(section) or not _reached(view, section):
            continue
        admin = section.last("stats", "admin")
        what = "HAProxy's statistics are open to every client of this address"
        if admin:
            what = "every client of this address can take servers out of rotation ('stats admin')"
        yield Finding(
            (admin or shown).location,
            what,
            "bind 127.0.0.1:8404, or http-request deny if !{ src 127.0.0.0/8 }, without 'stats admin'",
            Severity.ERROR if admin else None,
        )


def _shown(section: Section) -> Line | None:
    for words in (("stats", "enable"), ("stats", "uri"), ("stats", "admin"), ("http-request", "use-service")):
        for line in section.own(*words):
            if words[0] == "stats" or "prometheus-exporter" in line.words:
                return line
    return None


def _guarded(section: Section) -> bool:
    if section.effective("stats", "auth") or section.effective("stats", "http-request"):
        return True
    if section.own("http-request", "auth"):
        return True
    lines = section.own("http-request", "deny")
    text = " ".join(word for line in (*lines, *section.own("acl")) for word in line.words)
    rejects = section.own("tcp-request", "connection", "reject")
    shown = _shown(section)
    narrowed = shown is not None and "src" in shown.words
    return bool(lines and re.search(r"\bsrc\b|http_auth", text)) or bool(rejects) or narrowed


def _reached(view: HaproxyView, section: Section) -> bool:
    fronts = (
        [section]
        if section.kind != "backend"
        else [f for p in view.pools if p.section is section for f in p.fronts]
    )
    binds = [bind.words[1] for front in fronts for bind in front.own("bind") if len(bind.words) > 1]
    return any(
        not one.startswith(("unix@", "/", "abns@"))
        and not is_loopback(re.sub(r"^ipv[46]@", "", one).rsplit(":", 1)[0].strip("[]"))
        for bind in binds
        for one in bind.split(",")
    )


METRICS = AuditRule(
    "metrics-for-everybody",
    Severity.WARNING,
    "metrics, or the commands of 'stats admin', are open to every client",
    "They show the servers and their load, and `stats admin` lets anybody take servers out of rotation.",
    "binds metrics to 127.0.0.1, or requires 'allow' or 'auth'",
    _nginx_metrics,
    _stats,
)


def _keys(view: NginxView | HaproxyView) -> Iterator[Finding]:
    for name, text in view.whole.texts.items():
        if not others_can_read(name):
            continue
        for number, line in enumerate(text.split("\n"), 1):
            for start, _ in secret_spans(line):
                yield _key(Location(name, number, start + 1))


def _key(location: Location) -> Finding:
    return Finding(
        location,
        "this file contains a key in plain text, and every user of this machine can read it, as can"
        " everybody with access to its repository or backup",
        "move the key to a separate file with mode 0600 and include it (NGINX), or pass it in the"
        " service's environment (HAProxy), and replace the key",
    )


def _nginx_keys(view: NginxView) -> Iterator[Finding]:
    if not view.passes:
        return
    found = list(_keys(view))
    yield from found
    known = {(one.location.file, one.location.line) for one in found}
    for level in view.whole.levels("map"):
        for entry in level.block.block or () if re.search(KEYED, level.block.value) else ():
            place = entry.location
            literal = entry.name not in NO_KEYS and key_in(entry.name)
            if literal and (place.file, place.line) not in known and others_can_read(place.file):
                yield _key(place)


def _haproxy_keys(view: HaproxyView) -> Iterator[Finding]:
    if not view.pools:
        return
    found = list(_keys(view))
    yield from found
    known = {(one.location.file, one.location.line) for one in found}
    texts = {name: text.split("\n") for name, text in view.whole.texts.items()}
    for section in view.whole.sections:
        for line in section.lines:
            place = line.location
            keys = list(keys_compared(line.words)) if (place.file, place.line) not in known else []
            if keys and others_can_read(place.file):
                written = texts[place.file][place.line - 1].find(keys[0])
                yield _key(place._replace(column=written + 1) if written >= 0 else place)


KEYS = AuditRule(
    "keys-in-file",
    Severity.ERROR,
    "the file contains a key or a password",
    "Configuration is copied into images, tickets and repositories. Files that only their owner can read"
    " are not reported.",
    "reads keys from the environment or from files, and writes them with mode 0600, hashed if the"
    " program supports it",
    _nginx_keys,
    _haproxy_keys,
)


def _nginx_logs(view: NginxView) -> Iterator[Finding]:
    used = {one.args[1] for one, _ in view.whole.directives("access_log") if len(one.args) > 1}
    for said, _ in view.whole.directives("log_format") if view.passes else ():
        found = _LOGGED.findall(" ".join(said.args[1:]))
        if found and said.value in used:
            yield _logged(
                said.location, ", ".join(dict.fromkeys(found)), "log_format without them, as lbgen's JSON log"
            )
    for said, _ in view.whole.directives("error_log") if view.passes else ():
        if "debug" in said.args[1:]:
            yield _logged(said.location, "all headers ('debug')", "error_log stderr notice;")


def _haproxy_logs(view: HaproxyView) -> Iterator[Finding]:
    for front in view.fronts:
        for line in front.lines:
            text = " ".join(line.words).lower()
            takes = line.words[:3] == ("capture", "request", "header") or line.words[:2] == (
                "http-request",
                "capture",
            )
            header = re.search(_KEY_HEADERS, text)
            if takes and (header or "req.body" in text):
                yield _logged(line.location, header[0] if header else "the body", "no capture of it")
            elif line.words[0] == "log-format" and re.search(
                rf"req\.f?hdr\({_KEY_HEADERS}|req\.body[,\])]", text
            ):
                yield _logged(line.location, "a key, or the body", "log-format without it")


def _logged(location: Location, what: str, write: str) -> Finding:
    return Finding(
        location,
        f"the access log contains {what}: everybody who can read the log can read prompts or keys of your"
        " users",
        write,
    )


LOGS = AuditRule(
    "prompts-in-logs",
    Severity.ERROR,
    "logs contain prompts or keys",
    "Prompts may contain personal data, and a key in a log is no longer secret.",
    "logs sizes, times and the client's name, but no body, query or key",
    _nginx_logs,
    _haproxy_logs,
)


RULES = (METRICS, KEYS, LOGS)
