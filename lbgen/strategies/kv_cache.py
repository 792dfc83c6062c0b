"""More requests for servers whose KV cache has room."""

from lbgen.fields import Field, Integer, Number, Text
from lbgen.strategies.spec import MadeBy, Strategy

KV_CACHE = Strategy(
    name="kv_cache",
    aliases=("kv", "kv_aware", "kv_cache_aware", "kv_usage"),
    summary="equalises the use of the KV caches",
    advice=(
        "For requests of very different lengths, where requests in flight say little about memory: "
        "servers get weights by their free KV cache, as measured by `lbgen agent`. A server that is "
        "nearly full would preempt requests and compute them again. It is as good as its measurements "
        "are fresh."
    ),
    parameters=(
        Field(
            "drain_above",
            Number(min=0.5, max=1),
            0.95,
            "A server whose KV cache is fuller than this share gets no new requests.",
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
    choosers={
        "ideal": MadeBy("counts", "HaproxyLeastConn"),
        "haproxy": MadeBy("counts", "HaproxyLeastConn"),
    },
    needs=frozenset({"kv"}),
)
