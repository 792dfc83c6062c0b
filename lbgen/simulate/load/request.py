"""One request on its way: what the client wants, and what becomes of it. Times are seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Hashable

UNSET = -1.0
"""The time of what has not happened."""


class Part(NamedTuple):
    """One message of a prompt: equal parts are the same text wherever they stand."""

    role: str
    """As OpenAI names it: ``system``, ``user``, ``assistant``."""
    identity: str
    """What tells its text from all others of its length; of an answer, nothing."""
    tokens: int
    """In the prompt, with what the template puts around it."""
    answer: int = 0
    """Of an answer that is sent again: how many tokens the server made."""


class Request:
    """A request, as the load makes it and the engine fills it in.

    A plain class with slots: a run makes a hundred thousand of them in a second or two.
    """

    __slots__ = (
        "admitted", "arrived", "base", "begin", "blocks", "cancelled", "chunks", "context", "conversation",
        "end", "finished", "first", "hits", "left", "max_tokens", "named", "output_tokens", "parts", "place",
        "prefix", "priority", "produced", "prompt_tokens", "sent", "session", "shared", "tries",
    )  # fmt: skip

    def __init__(  # noqa: PLR0913, PLR0917 - keywords would cost more than all else in it
        self,
        arrived: float,
        prompt_tokens: int,
        output_tokens: int,
        chunks: tuple[Hashable, ...] = (),
        session: str | None = None,
        prefix: str | None = None,
        priority: int = 0,
    ) -> None:
        self.arrived = arrived
        """When it reaches the balancer."""
        self.prompt_tokens = prompt_tokens
        self.output_tokens = output_tokens
        self.chunks = chunks
        """What identifies each further piece of the prompt and answer, for the prefix cache."""
        self.session = session
        """The name that a client would give; it only does for a strategy that needs it, or when `named`."""
        self.prefix = prefix
        """Which system prompt it has, or whatever else its beginning is known by."""
        self.conversation: str | None = None
        """What system prompt and first message of the user tell together, or the header when `named`.

        None: no second request will have it.
        """
        self.named = False
        """Whether the client names its session in a header, whatever the balancer's strategy."""
        self.parts: tuple[Part, ...] = ()
        """The messages of the prompt, where the load knows them."""
        self.priority = priority
        self.max_tokens: int | None = None
        self.sent = UNSET
        """When the balancer sent it to a server."""
        self.admitted = UNSET
        """When a server first began to compute it."""
        self.first = UNSET
        """When its first token came."""
        self.finished = UNSET
        self.hits = 0
        """Prompt tokens that a prefix cache had."""
        self.tries = 0
        self.place: object = None
        """Where it is in flight; the event loop's."""
        # The engine's own, while it is there:
        self.produced = 0  # tokens made before the present stay in the batch
        self.left = 0  # prompt tokens that are not computed yet
        self.context = 0  # tokens in the KV cache when decoding began
        self.begin = 0  # the engine's step number then
        self.end = 0  # the step number after which the answer is complete
        self.blocks = 0  # KV blocks of its own
        self.shared = 0  # chunks that it holds in the prefix cache
        self.base = 0  # KV tokens found or computed so far while the prompt is being computed
        self.cancelled = False
