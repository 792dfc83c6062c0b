"""As many requests for each server as fit into it, and more for the faster ones."""

from lbgen.fields import Field, Integer, Number, Text
from lbgen.strategies.spec import MadeBy, Strategy

KV_CACHE = Strategy(
    name="kv_cache",
    aliases=("kv", "kv_aware", "kv_cache_aware", "kv_usage"),
    summary="as many requests as fit into each server, more for faster ones",
    advice=(
        "For servers that are not alike: other GPUs, other memory, other models beside. `lbgen agent` reads "
        "how many requests fit into each server and how fast it is, and tells HAProxy: what does not fit "
        "waits there, for whichever server is free first. Nothing has to be measured or written by hand."
    ),
    parameters=(
        Field(
            "drain_above",
            Number(min=0.5, max=1),
            0.95,
            "So full may the KV caches become: a server gets as many requests as fill this share of its own.",
        ),
        Field(
            "agent_host",
            Text("an address or a host name", pattern=r"[A-Za-z0-9][A-Za-z0-9.:-]{0,252}", limit=253),
            "127.0.0.1",
            "The machine where `lbgen agent` answers HAProxy.",
        ),
        Field(
            "agent_port",
            Integer(min=1, max=65_535),
            8406,
            "The port where it does.",
        ),
    ),
    chooser=MadeBy("counts", "IdleFirst"),
    needs=frozenset({"kv"}),
)
