"""Prometheus: what it reads of a fleet, what it records of it, and when it says so."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from lbgen.manifests.order import Made
from lbgen.manifests.watching.alerts import alerts
from lbgen.manifests.watching.scrapes import blackbox, has_certificates, scrapes
from lbgen.manifests.watching.signals import recordings, untold
from lbgen.manifests.yaml_text import documents
from lbgen.problems import LbgenError
from lbgen.render import RenderedFile

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.manifests.order import Order
    from lbgen.model import Metrics

MAIN, RULES, BLACKBOX = "prometheus.yml", "rules.yml", "blackbox.yml"
INTERVAL = "10s"
"""Between two looks: a queue is seen before it is a minute old, and 500 engines are no load."""
WIDTH = 100


def prometheus(order: Order) -> Made:
    """Return Prometheus' configuration and rules; raises `LbgenError` for a fleet without `metrics`."""
    found = scrapes(order, metrics_of(order))
    config = {
        "global": {"scrape_interval": INTERVAL, "evaluation_interval": INTERVAL},
        "rule_files": [RULES],
        "scrape_configs": list(found.jobs),
    }
    rules = {
        "groups": [
            {
                "name": f"lbgen {order.fleet.name} recorded",
                "rules": [
                    {"record": rule.record, "expr": rule.expr}
                    | ({"labels": dict(rule.labels)} if rule.labels else {})
                    for rule in recordings(order)
                ],
            },
            {"name": f"lbgen {order.fleet.name} alerts", "rules": [one.rule for one in alerts(order)]},
        ]
    }
    files = [
        RenderedFile(MAIN, documents(order.header + comments(found.notes), config)),
        RenderedFile(RULES, documents(order.header + comments(untold(order)), rules)),
    ]
    if has_certificates(order):
        files.append(RenderedFile(BLACKBOX, documents(order.header, blackbox())))
    return Made(tuple(files), found.notes)


def metrics_of(order: Order) -> Metrics:
    """Return where the balancers tell their metrics; raises `LbgenError` where they do not."""
    metrics = order.fleet.metrics
    if metrics is None:
        raise LbgenError(
            f"--as {order.form} is about what balancers tell at their metrics listener, and this fleet has "
            'none: add metrics: {bind: "127.0.0.1:8404"}'
        )
    return metrics


def comments(sentences: Iterable[str]) -> str:
    """Return sentences as comments, each on lines of its own."""
    lines = [
        textwrap.fill(one, WIDTH, initial_indent="# ", subsequent_indent="#   ", break_long_words=False,
                      break_on_hyphens=False)
        for one in sentences
    ]  # fmt: skip
    return "".join(f"{line}\n" for line in lines)
