"""The same server for prompts that begin alike."""

from lbgen.fields import Choice, Field, Number, Size
from lbgen.strategies.spec import MadeBy, Strategy

PREFIX = Strategy(
    name="prefix",
    aliases=("prefix_affinity", "prefix_hash", "prefix_aware", "prefix_cache", "prefixaware"),
    summary="keeps prompts that begin alike on one server, within a bound on its load",
    advice=(
        "For prompts with long common beginnings whose working set fits the fleet's KV caches together "
        "and not one cache alone: with 256 prefixes of 4096 tokens at 22 requests/s the median first "
        "token took 0.024 s at 94 % hits against 0.185 s at 40 % under round_robin. It does nothing "
        "where the set fits everywhere, and loses to least_conn where hits are rare (lbgen's "
        "simulation). The load factor trades hits for balance: 1.05, 1.25 and none gave 73, 89 and 94 % "
        "hits."
    ),
    parameters=(
        Field(
            "key",
            Choice("system_prompt", "first_bytes"),
            "system_prompt",
            "What of the prompt is compared: the first message, or the first bytes of the body.",
        ),
        Field(
            "bytes",
            Size(min=16, max=1024**2),
            2048,
            "How much of it is compared at most.",
            unit="bytes",
            example=4096,
        ),
        Field(
            "load_factor",
            Number(min=1.01, max=100),
            1.25,
            "A server takes at most so many times the average number of requests in flight; "
            "what is more goes to the next.",
        ),
        Field(
            "scope",
            Choice("global", "client"),
            "global",
            "Whether clients share prefixes; then the speed of an answer can tell that somebody used one.",
        ),
    ),
    choosers={
        "ideal": MadeBy("rings", "IdealPrefix"),
        "nginx": MadeBy("rings", "NginxPrefix"),
        "haproxy": MadeBy("learned", "HaproxyPrefix"),
    },
    needs=frozenset({"prefix"}),
)
