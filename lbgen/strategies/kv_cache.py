"""As many requests for each server as fit into it, and more for the faster ones."""

from typing import TYPE_CHECKING, NamedTuple

from lbgen.fields import Field, Integer, Number, Text
from lbgen.strategies.spec import MadeBy, Strategy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.model import Pool


class KvParameters(NamedTuple):
    """How full the caches may become, and where the agent answers."""

    drain_above: float = 0.95
    agent_host: str = "127.0.0.1"
    agent_port: int = 8406

    @classmethod
    def of(cls, written: "Mapping[str, object]") -> "KvParameters":
        """Return the parameters of a strategy as a fleet holds them."""
        return cls(**{name: value for name, value in written.items() if name in cls._fields})  # type: ignore[arg-type]  # the schema's types


_USUAL = KvParameters()

KV_CACHE = Strategy(
    name="kv_cache",
    aliases=("kv", "kv_aware", "kv_cache_aware", "kv_usage"),
    summary="as many requests as fit into each server, more for faster ones",
    advice=(
        "For servers that differ: other GPUs, less memory, other models on one machine. `lbgen agent` reads "
        "how many requests fit into each server and how fast it is, and tells HAProxy, where other requests "
        "wait for the next free server. You need not measure or configure anything by hand."
    ),
    parameters=(
        Field(
            "drain_above",
            Number(min=0.5, max=1),
            _USUAL.drain_above,
            "Maximum KV-cache utilisation to plan for: requests fill at most this share of a cache.",
        ),
        Field(
            "agent_host",
            Text("an address or a host name", pattern=r"[A-Za-z0-9][A-Za-z0-9.:-]{0,252}", limit=253),
            _USUAL.agent_host,
            "The address where `lbgen agent` answers HAProxy.",
        ),
        Field(
            "agent_port",
            Integer(min=1, max=65_535),
            _USUAL.agent_port,
            "The port where `lbgen agent` answers HAProxy.",
        ),
    ),
    chooser=MadeBy("counts", "IdleFirst"),
    needs=frozenset({"kv"}),
)


def kv_of(pool: "Pool") -> KvParameters | None:
    """Return the parameters of a pool whose servers an agent watches; None for other strategies."""
    return KvParameters.of(pool.strategy.parameters) if pool.strategy.name == KV_CACHE.name else None
