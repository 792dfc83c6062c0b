"""The field table of the fleet file: everything that it can say, once.

The checker reads by it; the JSON Schema and the reference page are printed from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbgen.fields import Field, Integer, MapOf, Struct
from lbgen.fields.composites import RENAMED
from lbgen.fields.walk import keys
from lbgen.fleet.kinds import Name
from lbgen.fleet.schema.listener import CLIENT, CLIENT_NAME, LISTENER
from lbgen.fleet.schema.pool import POOL
from lbgen.fleet.schema.route import POOL_NAME
from lbgen.fleet.schema.settings import BALANCERS, LOGS, METRICS, TARGETS
from lbgen.targets.registry import TARGETS as ALL

if TYPE_CHECKING:
    from lbgen.fields.base import Node, Value
    from lbgen.problems import Path, Problem


class _Fleet(Struct):
    """The whole file; knows where a key that is at the wrong place would be at the right one."""

    __slots__ = ()

    def read(self, node: Node, path: Path, problems: list[Problem]) -> Value:
        before = len(problems)
        values = super().read(node, path, problems)
        problems[before:] = [self._with_place(problem) for problem in problems[before:]]
        return values

    def _with_place(self, problem: Problem) -> Problem:
        if problem.code != "unknown-key" or problem.hint.startswith(RENAMED):
            return problem
        name = str(problem.path[-1])
        places = [key.path for key in keys(self) if key.field.name == name]
        if not places or any(f"'{one}'" in problem.hint for one in (f"{name}s", name[:-1])):
            return problem
        return problem._replace(hint=f"this key belongs elsewhere: {', '.join(places[:4])}")


FLEET = _Fleet(
    "a fleet",
    Field("version", Integer(1, 1), 1, "The version of this format."),
    Field(
        "name",
        Name("a fleet's name", reserved=False),
        doc="The fleet's name.",
        default_doc="the file name without its extension",
        example="prod-eu",
    ),
    Field(
        "balancers",
        BALANCERS,
        doc="The number of balancers that share the load. Limits that each balancer counts separately"
        " (max_in_flight, queue.size, rate, burst) are divided by it.",
        default_doc="1",
        example=2,
    ),
    Field(
        "pools",
        MapOf(POOL_NAME, POOL, least=1),
        doc="Groups of servers that can answer the same requests, by name.",
        example={"chat": {"servers": ["gpu-[0-3]:8000"]}},
        required=True,
        instead_of=("upstreams", "backends", "clusters", "pool"),
    ),
    Field(
        "listeners",
        MapOf(Name("a listener's name"), LISTENER, least=1),
        doc="Addresses that clients call, by name.",
        default_doc="one, default, on port 8080",
        example={"public": {"bind": 8080}},
        instead_of=("frontends", "servers", "listener", "entrypoints"),
    ),
    Field(
        "clients",
        MapOf(CLIENT_NAME, CLIENT),
        doc="Clients by name, with references to their API keys.",
        example={"team-a": {"key": "env:TEAM_A_KEY"}},
        instead_of=("users", "keys", "api_keys"),
    ),
    Field(
        "metrics",
        METRICS,
        doc="A listener for statistics, Prometheus and probes.",
        example={"bind": "127.0.0.1:8404"},
        instead_of=("stats", "prometheus", "monitoring"),
    ),
    Field("logs", LOGS, doc="The access log.", example={"format": "combined"}, instead_of=("log", "logging")),
    Field(
        "targets",
        TARGETS,
        doc="The balancer programs to render configuration for, with their settings.",
        default_doc=" and ".join(one.title for one in ALL.values() if one.abilities.usual)
        + ", the oldest supported versions",
        example={TARGETS.fields[-1].name: TARGETS.fields[-1].example},
        instead_of=("target", "outputs"),
    ),
)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft-07) of a fleet file."""
    head = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "lbgen fleet file",
        "description": "NGINX and HAProxy configuration for fleets of LLM inference servers.",
    }
    return head | FLEET.schema()
