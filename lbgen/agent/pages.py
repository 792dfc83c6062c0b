"""What the agent tells of itself: ``/metrics`` and ``/health``."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.agent.watch import Agent
    from lbgen.units import Address


def _is_ours(record: logging.LogRecord) -> bool:
    """Tell whether an error is not just a client's, whose request was no HTTP and was answered with 400."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


_LOGGER = logging.getLogger(__name__)
_LOGGER.addFilter(_is_ours)


def metrics_page(agent: Agent, now: float) -> str:
    """Return the agent's own metrics, in Prometheus text."""
    return "\n".join([*_counters(agent), *_gauges(agent, now)]) + "\n"


def health_page(agent: Agent, now: float) -> str:
    """Return what a probe is told. Engines that are silent are no reason to restart the agent."""
    gauges = [gauge for pool in agent.pools.values() for gauge in pool.gauges.values()]
    read = sum(now - gauge.seen < 3 * agent.interval + 1 for gauge in gauges)
    return f"ok: {read} of {len(gauges)} servers can be read\n"


def _counters(agent: Agent) -> Iterator[str]:
    for name, help_text, value in (
        ("scrapes", "Metrics pages read", agent.scrapes),
        ("scrape_failures", "Metrics pages that could not be read", agent.failures),
        ("answers", "Responses to HAProxy with a weight or limit", agent.answers),
    ):
        yield f"# HELP lbgen_agent_{name}_total {help_text}."
        yield f"# TYPE lbgen_agent_{name}_total counter"
        yield f"lbgen_agent_{name}_total {value}"


def _gauges(agent: Agent, now: float) -> Iterator[str]:
    for name, help_text, place in (
        ("weight_percent", "Percentage of the configured weight", 0),
        ("max_in_flight", "Maximum requests in flight from each balancer; 0: no limit", 1),
        ("reading_age_seconds", "Age of the last reading", 2),
    ):
        yield f"# HELP lbgen_agent_{name} {help_text}."
        yield f"# TYPE lbgen_agent_{name} gauge"
        for labels, figures in _servers(agent, now):
            yield f"lbgen_agent_{name}{{{labels}}} {figures[place]}"


def _servers(agent: Agent, now: float) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the labels and figures of each server that was ever read."""
    for one in agent.watched.values():
        pool = agent.pools[one.pool]
        verdict = pool.verdict(one.name, now)
        if verdict is not None:
            cap = agent.cap_of(one, verdict.cap) or 0
            age = now - pool.gauges[one.name].seen
            yield f'pool="{one.pool}",server="{one.name}"', (str(verdict.percent), str(cap), f"{age:.3f}")


async def status_pages(agent: Agent, address: Address) -> web.AppRunner:
    """Serve both pages; raises `OSError` when the address is taken."""

    async def metrics(_request: web.Request) -> web.Response:
        return web.Response(text=metrics_page(agent, time.monotonic()), content_type="text/plain")

    async def health(_request: web.Request) -> web.Response:
        return web.Response(text=health_page(agent, time.monotonic()))

    application = web.Application()
    application.router.add_get("/metrics", metrics)
    application.router.add_get("/health", health)
    runner = web.AppRunner(application, access_log=None, logger=_LOGGER)
    await runner.setup()
    await web.TCPSite(runner, address.host, address.port).start()
    return runner
