"""The same server for a conversation, and for prompts that begin alike."""

from typing import TYPE_CHECKING, NamedTuple

from lbgen.fields import Choice, Field, Integer, ListOf, Number, Size, Text
from lbgen.strategies.spec import MadeBy, Strategy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.model import Pool

HEADERS = ("x-session-id", "session-id", "x-session-affinity", "x-claude-code-session-id")
"""Request headers in which clients that are known name a conversation."""
SLOTS = 32
"""What a server is taken to answer at a time where no cap is written."""
POPULAR_ABOVE = 1
"""How many requests above a server's average a prompt has in flight that is everybody's."""


class PrefixParameters(NamedTuple):
    """By what requests are told to belong together, and how much more than others a server may have."""

    key: str = "auto"
    headers: tuple[str, ...] = HEADERS
    bytes: int = 2_048
    load_factor: float = 1.5
    slack: int | None = None
    """None: as `slack_for` has it."""
    scope: str = "global"

    @classmethod
    def of(cls, written: "Mapping[str, object]") -> "PrefixParameters":
        """Return the parameters of a strategy as a fleet holds them."""
        known = {name: value for name, value in written.items() if name in cls._fields and value is not None}
        if "headers" in known:
            known["headers"] = tuple(known["headers"])  # type: ignore[arg-type]  # the schema's type
        return cls(**known)  # type: ignore[arg-type]  # likewise

    @property
    def by_conversation(self) -> bool:
        """Tell whether a conversation has a home."""
        return self.key in {"auto", "conversation"}

    @property
    def prompt(self) -> str | None:
        """What of a request tells its prompt from others: ``system``, ``first_bytes``, or nothing."""
        return {"conversation": None, "first_bytes": "first_bytes"}.get(self.key, "system")

    def slack_for(self, cap: int | None) -> int:
        """Return how many requests above the average are always allowed, for a server with this cap."""
        return max(1, min(cap or SLOTS, SLOTS) // 4) if self.slack is None else self.slack


PREFIX = Strategy(
    name="prefix",
    aliases=("prefix_affinity", "prefix_hash", "prefix_aware", "prefix_cache", "prefixaware"),
    summary="keeps conversations, and prompts that begin alike, on one server, within a bound on its load",
    advice=(
        "For agents and chats, whose every turn sends the whole conversation again, and for tenants with "
        "system prompts of their own. Who has a conversation goes to its home; who begins one goes to the "
        "home of its system prompt, unless that prompt has so much in flight that all servers hold it, "
        "and else to the least busy server, as under least_conn. It does nothing where every cache holds "
        "everything."
    ),
    parameters=(
        Field(
            "key",
            Choice("auto", "conversation", "system_prompt", "first_bytes"),
            "auto",
            "What requests have in common: their conversation and else their system prompt (auto), one of "
            "the two alone, or the first bytes of the prompt.",
        ),
        Field(
            "headers",
            ListOf(Text("a header's name", pattern=r"[A-Za-z0-9_-]{1,64}", limit=64), single=True),
            list(HEADERS),
            "Headers that name a conversation; the first that is there counts. Without one, prompt_cache_key "
            "of the body does, else the system prompt and the first message of the user together.",
            example=["X-Session-Id"],
        ),
        Field(
            "bytes",
            Size(min=16, max=1024**2),
            2048,
            "How much of each text is compared at most.",
            unit="bytes",
            example=4096,
        ),
        Field(
            "load_factor",
            Number(min=1.01, max=100),
            1.5,
            "A server takes new conversations while it has at most so many times the average number of "
            "requests in flight; its own it keeps until the excess is twice as much.",
        ),
        Field(
            "slack",
            Integer(min=0, max=10_000),
            doc="How many requests above the average are always allowed, however little is in flight.",
            default_doc="8, or a quarter of a smaller max_in_flight",
            example=8,
        ),
        Field(
            "scope",
            Choice("global", "client"),
            "global",
            "Whether clients share prefixes; then the speed of an answer can tell that somebody used one.",
        ),
    ),
    chooser=MadeBy("learned", "LearnedPrefix"),
    needs=frozenset({"prefix"}),
)


def prefix_of(pool: "Pool") -> PrefixParameters | None:
    """Return the parameters of a pool that keeps prompts and conversations; None for other strategies."""
    return PrefixParameters.of(pool.strategy.parameters) if pool.strategy.name == PREFIX.name else None
