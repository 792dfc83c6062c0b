"""What can refuse requests in an NGINX configuration: all of it that is left closes what it guarded."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lbgen.imports.nginx.reading import everything_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.imports.nginx.reading import Reading
    from lbgen.readers.nginx import Directive, Level

_SCRIPTS = ("access", "rewrite", "server_rewrite", "ssl_client_hello", "ssl_certificate")
_SCRIPT_FORMS = ("_by_lua", "_by_lua_block", "_by_lua_file", "_by_njs")
_ASK = (
    *("auth_basic", "auth_jwt", "auth_jwt_require", "auth_oidc", "auth_require", "auth_digest", "auth_ldap"),
    *("auth_pam", "auth_gss", "auth_crowd", "auth_cas", "modsecurity", "app_protect_enable", "testcookie"),
    *("SecRulesEnabled", "js_access", "ssl_reject_handshake"),
)
"""Directives that refuse requests unless they are off; the nearest one holds."""
_BY_SCRIPT = tuple(tuple(f"{phase}{form}" for form in _SCRIPT_FORMS) for phase in _SCRIPTS)
_ALWAYS_REFUSE = {"limit_except"}
_REDIRECTED_BY = re.compile(
    r"\(?!?\$(?:scheme|https|host|http_host|server_port|server_name|uri|request_uri)\b"
)
"""Conditions of redirects that move requests, and keep none out."""
_FILES = re.compile(r"/\\\.|\\\.[\w(|?:)]+\$?$")
"""Expressions for hidden files and files of a kind."""


def lost(reading: Reading, level: Level) -> list[Directive]:
    """Return, and note, what restricts access here and was not carried over."""
    found = [*_asked(level), *_networks(level), *_refusing(level)]
    left = [line for line in found if not reading.ledger.is_carried(line.location)]
    for line in left:
        reading.ledger.left(line.location, _reason(line))
    return left


def lost_paths(reading: Reading, level: Level) -> list[Directive]:
    """Return, and note, the locations of a server that refuse, and whose paths no route can have."""
    found = []
    for one in everything_in(level.block):
        if one.name != "location" or not reading.ledger.is_left(one.location) or not one.args:
            continue
        by_regex = one.args[0] in {"~", "~*"} and not _FILES.search(one.args[-1])
        if by_regex and _refuses(one):
            reading.ledger.left(one.location, "it only refuses requests")
            found.append(one)
    return found


def _reason(line: Directive) -> str:
    if line.name == "if":
        return "a condition that refuses requests was not understood"
    if line.name in {"allow", "deny"}:
        return "there is no key for these networks"
    if "_by_lua" in line.name:
        return "scripts have no key, and this one can refuse requests"
    return "lbgen knows clients by keys" if line.name in _ASK else "it refuses requests, and has no key"


def _asked(level: Level) -> Iterator[Directive]:
    """Yield what asks who calls, as it is inherited."""
    for name in _ASK:
        yield from (line for line in level.all(name) if line.value != "off")
    yield from (line for line in level.all("auth_request") if line.value != "off")
    yield from (line for line in level.all("satisfy") if line.value != "all")
    yield from (line for line in level.all("ssl_verify_client") if line.value == "on")
    for forms in _BY_SCRIPT:
        yield from level.all(*forms)


def _networks(level: Level) -> tuple[Directive, ...]:
    lines = level.all("allow", "deny")
    return lines if any(line.name == "deny" for line in lines) else ()


def _refusing(level: Level) -> Iterator[Directive]:
    """Yield what refuses where it stands: here and in the blocks around."""
    for block in level.chain:
        for one in block.inside(*_ALWAYS_REFUSE, "if", "return", "rewrite"):
            if (
                one.name in _ALWAYS_REFUSE
                or (one.name == "if" and _condition_refuses(one))
                or (one.name == "return" and _is_refusal(one))
                or (one.name == "rewrite" and _leads_to_refusal(one, level))
            ):
                yield one


def _condition_refuses(block: Directive) -> bool:
    for one in everything_in(block):
        if one.name in _ALWAYS_REFUSE or one.name in _ASK or one.name == "deny" or "_by_lua" in one.name:
            return True
        if one.name == "return" and (_is_refusal(one) or _keeps_out(block, one)):
            return True
        moves = one.args[2:] in {("redirect",), ("permanent",)} or "://" in "".join(one.args[1:2])
        if one.name == "rewrite" and not (moves and _REDIRECTED_BY.match(block.value)):
            return True
    return False


def _is_refusal(line: Directive) -> bool:
    return bool(re.fullmatch(r"[45]\d\d", line.value)) or "$" in line.value.partition(":")[0]


def _keeps_out(block: Directive, line: Directive) -> bool:
    """Tell whether a redirect, such as to a page for logging in, keeps requests out."""
    redirects = line.value.startswith("3") or not line.value.isdecimal()
    return redirects and not _REDIRECTED_BY.match(block.value)


def _leads_to_refusal(line: Directive, level: Level) -> bool:
    target = line.args[1] if len(line.args) > 1 else ""
    server = level.around("server")
    locations = server.inside("location") if server is not None else ()
    named = [one for one in locations if one.args and one.args[-1] == target]
    return bool(re.search(r"(?<!\d)[45]\d\d(?!\d)", target)) or any(_refuses(one) for one in named)


def _refuses(block: Directive) -> bool:
    """Tell whether a block refuses some requests."""
    inside = tuple(everything_in(block))
    asks = {*_ASK, *_ALWAYS_REFUSE, "auth_request", "deny", *(name for forms in _BY_SCRIPT for name in forms)}
    if any(one.name in asks and one.value != "off" for one in inside):
        return True
    return any(one.name == "return" and _is_refusal(one) for one in inside)
