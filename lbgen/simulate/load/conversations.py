"""Conversations: every turn sends all that was said before. Times are seconds, sizes are tokens.

What requests share is the same chunks here and the same bytes in a trial: system prompts are shared by all
conversations of a kind, everything after them is a conversation's own.
"""

from __future__ import annotations

from itertools import islice
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from lbgen.simulate.load.arrivals import arrivals
from lbgen.simulate.load.request import Part, Request
from lbgen.simulate.load.workload import CHUNK_TOKENS, LEAST_MESSAGE, Generated

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ANSWER_OVERHEAD = 8
"""What the template around an answer adds where the next turn sends it again; a trial's JSON is as long."""
ROUNDS = 4
"""Sessions one after the other in a run, when nobody says how many requests."""
GIVEN_UP_S = 1.0
"""The least time until somebody whose conversation failed begins another."""


class Talk:
    """A conversation under way."""

    __slots__ = ("chunks", "dice", "kind", "left", "name", "parts", "rewritten", "turn")

    def __init__(self, name: str, kind: int, turns: int, dice: Random) -> None:
        self.name = name
        self.kind = kind
        """Which system prompt it has."""
        self.left = turns
        self.dice = dice
        self.turn = 0
        self.rewritten = 0
        """How often its history was replaced by a summary."""
        self.parts: tuple[Part, ...] = ()
        self.chunks: tuple[int, ...] = ()


class Drawn(NamedTuple):
    """Sizes between which a number is drawn evenly."""

    least: int
    most: int

    def draw(self, dice: Random) -> int:
        """Return a number of tokens."""
        return self.least + int(dice.random() * (self.most - self.least + 1))


class Conversations(Generated):
    """What `Chat` and `Agents` have in common: how a turn is made."""

    systems = 1
    system_tokens = 0
    turns = 1
    think_s = 0.0
    compact_tokens = 0
    said: Drawn
    answered: Drawn

    def __init__(self, parameters: Mapping[str, float | str]) -> None:
        super().__init__(parameters)
        self.named = bool(parameters.get("named", 0))
        self._talks: dict[str, Talk] = {}
        self._chunks = 0  # handed out so far
        self._systems: list[tuple[int, ...]] = []
        self._kinds = Random(0)  # noqa: S311 - `begin` seeds it

    def begin(self, seed: int) -> Random:
        """Forget everything; return what a run of this seed draws from."""
        self._talks.clear()
        self._chunks = 0
        self._systems = [self._fresh(self.system_tokens // CHUNK_TOKENS) for _ in range(self.systems)]
        # In turn they would come to servers in turn, each of which would then have few kinds by no merit.
        self._kinds = Random(f"kinds {seed}")  # noqa: S311 - has to be the same again
        return Random(f"{self.name} {seed}")  # noqa: S311 - likewise

    def opened(self, number: int, turns: int, dice: Random, now: float) -> Request:
        """Return the first turn of a new conversation."""
        kind = self._kinds.randrange(self.systems)
        talk = Talk(f"s{number}", kind, turns, Random(dice.random()))  # noqa: S311 - has to be the same again
        self._talks[talk.name] = talk
        self._restart(talk)
        return self._turn(talk, now)

    def next_turn(self, request: Request, now: float) -> Request | None:
        """Return what the conversation of an answered request says next; None: it is over."""
        talk = self._talks.get(request.session or "")
        if talk is None:
            return None
        if request.finished < 0 or not talk.left:
            del self._talks[talk.name]
            return None
        answer = request.output_tokens + ANSWER_OVERHEAD
        talk.parts += (Part("assistant", "", answer, request.output_tokens),)
        if self.compact_tokens and sum(part.tokens for part in talk.parts) > self.compact_tokens:
            talk.rewritten += 1
            self._restart(talk)
        pause = talk.dice.expovariate(1 / self.think_s) if self.think_s else 0.0
        return self._turn(talk, now + pause)

    def _fresh(self, count: int) -> tuple[int, ...]:
        """Return so many chunks that nobody has; none for fewer than one."""
        first = self._chunks
        self._chunks += max(0, count)
        return tuple(range(first, self._chunks))

    def _restart(self, talk: Talk) -> None:
        """Let a conversation have nothing but its system prompt."""
        talk.chunks = self._systems[talk.kind]
        talk.parts = (
            (Part("system", f"kind {talk.kind}", self.system_tokens),)
            if self.system_tokens >= LEAST_MESSAGE
            else ()
        )

    def _turn(self, talk: Talk, now: float) -> Request:
        talk.turn += 1
        talk.left -= 1
        said = max(LEAST_MESSAGE, self.said.draw(talk.dice))
        answer = self.answered.draw(talk.dice)
        talk.parts += (Part("user", f"{talk.name} turn {talk.turn}", said),)
        prompt = sum(part.tokens for part in talk.parts)
        lacking = (prompt + answer) // CHUNK_TOKENS - len(talk.chunks)
        talk.chunks += self._fresh(lacking)
        request = Request(now, prompt, answer, talk.chunks, talk.name, f"k{talk.kind}")
        begun = f" after {talk.rewritten}" if talk.rewritten and not self.named else ""
        request.conversation = f"{talk.name}{begun}"
        request.named = self.named
        request.parts = talk.parts
        return request


class Chat(Conversations):
    """People who talk: conversations begin at a rate, and each turn comes after a time of thinking."""

    name = "chat"
    keys = ("turns", "think_s", "systems", "system", "prompt", "output", "named")

    def __init__(self, parameters: Mapping[str, float | str]) -> None:
        super().__init__(parameters)
        self.turns = max(1, int(parameters.get("turns", 5)))
        self.think_s = float(parameters.get("think_s", 20))
        self.systems = max(1, int(parameters.get("systems", 1)))
        self.system_tokens = int(parameters.get("system", 1024))
        self.said = Drawn(1, max(1, 2 * int(parameters.get("prompt", 200))))
        self.answered = Drawn(1, max(1, 2 * int(parameters.get("output", 300))))

    def requests(self, seed: int, rate_per_s: float, count: int) -> Iterator[Request]:
        """Yield the first turns; `rate_per_s` and `count` are of all turns together."""
        dice = self.begin(seed)
        gaps = Random(f"arrivals {seed}")  # noqa: S311 - has to be the same again
        begun = arrivals(self._arrivals, gaps, rate_per_s / self.turns, max(1, count // self.turns))
        for number, now in enumerate(begun):
            yield self.opened(number, self.turns, dice, now)

    def follow(self, request: Request, now: float) -> Request | None:
        """Return the conversation's next turn; one that failed is not taken up again."""
        return self.next_turn(request, now)


class Agents(Conversations):
    """Agents that work: so many sessions at a time, each a growing conversation with results of tools.

    A closed loop: who has an answer thinks and goes on, who is done makes room for the next session. The
    defaults are those of coding agents that share one system prompt with the schemas of their tools.
    """

    name = "agents"
    keys = (
        "sessions", "turns", "think_s", "systems", "system_tokens", "results", "output", "compact_tokens",
        "named",
    )  # fmt: skip

    def __init__(self, parameters: Mapping[str, float | str]) -> None:
        super().__init__(parameters)
        self.sessions = max(1, int(parameters.get("sessions", 64)))
        self.turns = max(1, int(parameters.get("turns", 12)))
        self.think_s = float(parameters.get("think_s", 3))
        self.systems = max(1, int(parameters.get("systems", 1)))
        self.system_tokens = int(parameters.get("system_tokens", 4500))
        self.compact_tokens = int(parameters.get("compact_tokens", 0))
        self.said = span(str(parameters.get("results", "200-3000")))
        self.answered = span(str(parameters.get("output", "40-300")))
        self.clients: int | None = self.sessions
        self.usual_requests = ROUNDS * self.sessions * self.turns
        self._rest: Iterator[tuple[int, int]] = iter(())
        self._dice = Random(0)  # noqa: S311 - `requests` seeds it

    def with_clients(self, clients: int) -> Agents:
        """Return the same with so many sessions at a time."""
        other = Agents({})
        other.__dict__.update(
            self.__dict__
            | {"sessions": clients, "clients": clients, "usual_requests": ROUNDS * clients * self.turns}
        )
        return other

    def requests(self, seed: int, rate_per_s: float, count: int) -> Iterator[Request]:
        """Yield the first turns of the first sessions, all within a time of thinking; `count` is of turns."""
        del rate_per_s  # the servers decide
        self._dice = dice = self.begin(seed)
        whole, rest = divmod(count, self.turns)
        self._rest = iter([*enumerate([self.turns] * whole), *([(whole, rest)] if rest else [])])
        first = list(islice(self._rest, self.sessions))
        begun = sorted(dice.random() * self.think_s for _ in first)
        for now, (number, turns) in zip(begun, first, strict=True):
            yield self.opened(number, turns, dice, now)

    def follow(self, request: Request, now: float) -> Request | None:
        """Return the session's next turn, or the first of the session that takes its place."""
        following = self.next_turn(request, now)
        if following is not None:
            return following
        number, turns = next(self._rest, (0, 0))
        if not turns:
            return None
        pause = self._dice.expovariate(1 / self.think_s) if self.think_s else 0.0
        late = pause if request.finished >= 0 else max(pause, GIVEN_UP_S)
        return self.opened(number, turns, self._dice, now + late)


def span(text: str) -> Drawn:
    """Return what ``200-3000`` or ``500`` stands for; raises `ValueError`."""
    least, dash, most = text.partition("-")
    first = int(float(least))
    found = Drawn(first, int(float(most)) if dash else first)
    if not 1 <= found.least <= found.most:
        raise ValueError(f"'{text}' is not a range of tokens")
    return found
