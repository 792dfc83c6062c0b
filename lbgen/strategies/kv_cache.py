"""As many requests for each server as fit into it, and more for the faster ones."""

from lbgen.fields import Field, Integer, Number, Text
from lbgen.strategies.spec import MadeBy, Strategy

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
            0.95,
            "Maximum KV-cache utilisation to plan for: requests fill at most this share of a cache.",
        ),
        Field(
            "agent_host",
            Text("an address or a host name", pattern=r"[A-Za-z0-9][A-Za-z0-9.:-]{0,252}", limit=253),
            "127.0.0.1",
            "The address where `lbgen agent` answers HAProxy.",
        ),
        Field(
            "agent_port",
            Integer(min=1, max=65_535),
            8406,
            "The port where `lbgen agent` answers HAProxy.",
        ),
    ),
    chooser=MadeBy("counts", "IdleFirst"),
    needs=frozenset({"kv"}),
)
