"""The balancer's own probes: live and ready."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.common.answers import OK_BODY, live_body
from lbgen.targets.common.paths import compared
from lbgen.targets.haproxy.language.quoting import quote
from lbgen.targets.haproxy.language.words import refuse

if TYPE_CHECKING:
    from lbgen.model import Listener
    from lbgen.targets.haproxy.language.rules import Rules


def ok_rule(body: str) -> str:
    """Return the rule that answers 200."""
    return f"http-request return status 200 content-type application/json string {quote(body)}"


def any_host_rules(rules: Rules) -> None:
    """Give probes of an unknown host to the first listener with their path.

    A load balancer in front asks by address.
    """
    if not all(listener.hosts for listener in rules.listeners):
        return
    unknown = "!{ var(txn.lb_listener) -m found }"
    known: set[str] = set()
    for listener in rules.listeners:
        paths = {compared(path) for path in (listener.status.live, listener.status.ready) if path} - known
        known |= paths
        if paths:
            asked = rules.acl(("var(txn.lb_decoded) -m str", sorted(paths)))
            rules.add(f"http-request set-var(txn.lb_listener) str({listener.name})", unknown, asked)


def status_rules(rules: Rules, listener: Listener) -> None:
    """Add the answers of the listener's probes, which stay out of the access log."""
    status = listener.status
    if status.live or status.ready:
        rules.why("Probes; they are not logged.")
    if status.live:
        tested = ("var(txn.lb_decoded) -m str", (compared(status.live),))
        live = rules.acl(tested, name=rules.unique("is_live"))
        rules.add("http-request set-log-level silent", live)
        rules.add(ok_rule(live_body(rules.made.fleet.digest)), live)
    if status.ready:
        tested = ("var(txn.lb_decoded) -m str", (compared(status.ready),))
        ready = rules.acl(tested, name=rules.unique("is_ready"))
        rules.add("http-request set-log-level silent", ready)
        ready_rules(rules, ready, listener.pools, status.when)


def ready_rules(rules: Rules, asked: str, pools: tuple[str, ...], when: str) -> None:
    """Add the answer whether the pools (any, or all of them) have a server in rotation."""
    usable = [name for name in pools if rules.made.fleet.pool(name).has_servers]
    if usable and (when == "any_pool" or len(usable) == len(pools)):
        living = [f"{{ nbsrv({name}) gt 0 }}" for name in usable]
        for conditions in [living] if when == "all_pools" else [[one] for one in living]:
            rules.add(ok_rule(OK_BODY), asked, *conditions)
    rules.add(refuse("unavailable"), asked)
