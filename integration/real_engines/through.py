"""What a client gets through a balancer, beside what it gets from the engine itself."""

from __future__ import annotations

import json
import re
import socket
import time
import uuid
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from integration.real_engines.engines import CONTEXT, MODEL, Answer, chat, completion, post
from integration.real_engines.fronts import TAPPED
from integration.real_engines.outcomes import NotPossibleError, expect
from integration.waiting import eventually
from lbgen.engines import ENGINES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from integration.real_engines.engines import Engine
    from integration.real_engines.fronts import Front

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
CHANGING = re.compile(rb'"(?:id|created|system_fingerprint|timings|request_id)": ?(?:"[^"]*"|\d+|\{[^{}]*\})')
"""Members that are others in every answer."""
WORDS = [{"role": "user", "content": "Tell me about tokens."}]
STREAM: dict[str, object] = {"stream": True, "stream_options": {"include_usage": True}}
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "weather",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "enum": ["Rome"]}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
LONG_TOKENS = 6_000
PADDING: dict[str, object] = {"user": "u" * 20_000}
"""Makes a body larger than the buffers that balancers have by default."""
PREFILL_TOKENS = 4_000
FREED_S = 20.0
EARLY_TOKENS, EARLY_S = 400, 15.0
IDLE_S = 300.0


def streams(front: Front, engines: Sequence[Engine]) -> str:
    """Compare streams with what the engine sent, byte for byte, and see that they trickle.

    Not with another stream: vLLM puts several tokens into one event when it is busy.
    """
    _idle(engines)
    asked = {COMPLETIONS: completion(60) | STREAM, CHAT: chat(60, WORDS) | STREAM}
    for path, body in asked.items():
        front.tap.sent.clear()
        through = post(front.ports[TAPPED], path, body)
        sent = front.tap.body()
        expect(through.body == sent, f"{path}: {_first_difference(through.body, sent)}")
        expect(through.body.rstrip().endswith(b"data: [DONE]"), f"{path}: no end")
    long = post(front.port, COMPLETIONS, completion(200) | STREAM)
    expect(len(long.events) > 50, f"{len(long.events)} events of 200 tokens")
    expect(long.first_s < long.last_s / 3, f"first byte after {long.first_s:.2f} of {long.last_s:.2f} s")
    share = long.first_s / long.last_s
    return f"the bytes that the engine sent; the first of 200 tokens after {100 * share:.0f} % of the time"


def usage(front: Front, engines: Sequence[Engine]) -> str:
    """Compare the counts at a stream's end with those of a whole answer."""
    streamed = post(front.port, CHAT, chat(20, WORDS) | STREAM)
    direct = post(engines[0].port, CHAT, chat(20, WORDS))
    counts = [event["usage"] for event in streamed.events if event.get("usage")]
    expect(counts, "no event of the stream has them")
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    last, whole = counts[-1], direct.json["usage"]
    expect([last[name] for name in names] == [whole[name] for name in names], f"{last} and {whole}")
    return f"{last['prompt_tokens']} + {last['completion_tokens']} tokens, as in a whole answer"


def tools(front: Front, engines: Sequence[Engine]) -> str:
    """Have a tool called, whole and as a stream."""
    body = chat(
        200, WORDS, tools=[TOOL], tool_choice="required", ignore_eos=False,
        logit_bias={str(token): -100 for token in engines[0].kind.blanks},
    )  # fmt: skip
    direct, through = _both(front, engines, CHAT, body)
    expect(
        _bare(through) == _bare(direct), f"another answer: {_first_difference(_bare(through), _bare(direct))}"
    )
    calls = through.json["choices"][0]["message"].get("tool_calls")
    if not calls:
        raise NotPossibleError(
            "random weights call no tool, and this engine does not force a call; the same bytes as without"
        )
    expect(json.loads(calls[0]["function"]["arguments"]) == {"city": "Rome"}, f"{calls}")
    streamed = post(front.port, CHAT, body | STREAM)
    pieces = [
        call["function"].get("arguments") or ""
        for event in streamed.events
        for choice in event["choices"]
        for call in choice["delta"].get("tool_calls") or ()
    ]
    expect(json.loads("".join(pieces)) == {"city": "Rome"}, f"streamed: {pieces}")
    return "weather(city=Rome), whole and streamed"


def leaving(front: Front, engines: Sequence[Engine]) -> str:
    """Leave six streams in their midst."""
    _idle(engines)
    with abandoned(front.port, 6, completion(8000, stream=True)):
        eventually(lambda: min(_made(one) for one in engines) > 0, FREED_S, "both engines answer")
        eventually(lambda: sum(one.busy for one in engines) == 6, FREED_S, "they have six streams")
    took = eventually(lambda: sum(one.busy for one in engines) == 0, FREED_S, "they are free again")
    return f"the engines were free {took:.1f} s after six streams were left"


def leaving_early(front: Front, engines: Sequence[Engine]) -> str:
    """Leave streams before their first token, through the balancer and without it."""
    _idle(engines)
    direct = _left_early(engines[0].port, engines)
    if direct is None:
        raise NotPossibleError(
            "without a balancer, too, this engine goes on to the end of a streamed answer whose client left "
            "before the first token"
        )
    through = _left_early(front.port, engines)
    expect(through is not None, f"not free after {EARLY_S:.0f} s, without a balancer after {direct:.1f} s")
    return f"free {through:.1f} s after, without a balancer {direct:.1f} s"


def _left_early(port: int, engines: Sequence[Engine]) -> float | None:
    """Return the time until the engines are free; None when they compute on."""
    body = completion(EARLY_TOKENS, str(uuid.uuid4()) + "x" * PREFILL_TOKENS, stream=True)
    with abandoned(port, 4, body):
        time.sleep(0.05)
    try:
        made = sum(map(_made, engines))
        took = eventually(lambda: sum(one.busy for one in engines) == 0, EARLY_S, "free")
        return took if sum(map(_made, engines)) - made < EARLY_TOKENS else None
    except AssertionError:
        _idle(engines)
        return None


def _made(engine: Engine) -> float:
    metrics = ENGINES[engine.kind.preset].metrics
    assert metrics is not None
    return engine.figure(*metrics.generated)


def _idle(engines: Sequence[Engine]) -> None:
    eventually(lambda: sum(one.busy for one in engines) == 0, IDLE_S, "the engines are idle before")


def long_prompts(front: Front, engines: Sequence[Engine]) -> str:
    """Send a prompt whose answer depends on its whole length."""
    prompt = "".join(f"{number} " for number in range(LONG_TOKENS))[:LONG_TOKENS]
    direct, through = _both(front, engines, COMPLETIONS, completion(8, prompt) | PADDING)
    expect(through.status == 200, f"{through.status}: {through.body[:200]!r}")
    expect(through.json["usage"]["prompt_tokens"] >= LONG_TOKENS, f"{through.json['usage']}")
    expect(
        _bare(through) == _bare(direct), f"another answer: {_first_difference(_bare(through), _bare(direct))}"
    )
    return f"{through.json['usage']['prompt_tokens']} tokens arrived"


def errors(front: Front, engines: Sequence[Engine]) -> str:
    """Compare what the engine says of requests that it refuses."""
    asked: dict[str, tuple[str, object]] = {
        "context too long": (COMPLETIONS, completion(4, "x" * (2 * CONTEXT))),
        "800 KB": (COMPLETIONS, completion(4, "x" * 800_000)),
        "unknown model": (COMPLETIONS, completion(4) | {"model": "other"}),
        "bad JSON": (COMPLETIONS, b'{"model": '),
        "no prompt": (COMPLETIONS, {"model": MODEL}),
        "bad value": (CHAT, chat(4, WORDS) | {"temperature": "hot"}),
        "unknown path": ("/v1/nothing", {}),
    }
    found = []
    for name, (path, body) in asked.items():
        direct, through = _both(front, engines, path, body)
        expect(through.status == direct.status, f"{name}: {through.status}, direct {direct.status}")
        expect(_bare(through) == _bare(direct), f"{name}: {_first_difference(_bare(through), _bare(direct))}")
        found.append(f"{name} {through.status}")
    return ", ".join(found)


@contextmanager
def abandoned(port: int, count: int, body: object = None) -> Iterator[None]:
    """Begin so many streams, whose clients leave with the block."""
    data = json.dumps(body or completion(8000, stream=True)).encode()
    head = f"POST {COMPLETIONS} HTTP/1.1\r\nHost: lb\r\nContent-Type: application/json\r\n"
    with ExitStack() as stack:
        for _ in range(count):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
            one.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        yield
    time.sleep(0.05)


def _both(front: Front, engines: Sequence[Engine], path: str, body: object) -> tuple[Answer, Answer]:
    """Return an engine's answer and the one through the balancer, once both engines know the prompt.

    A prompt that is in the cache is computed in other pieces, and sums of other rounding choose other tokens.
    """
    for engine in engines:
        post(engine.port, path, body)
    return post(engines[0].port, path, body), post(front.port, path, body)


def _bare(answer: Answer) -> bytes:
    return CHANGING.sub(b"", answer.body)


def _first_difference(left: bytes, right: bytes) -> str:
    pairs = enumerate(zip(left, right, strict=False))
    at = next((number for number, (a, b) in pairs if a != b), min(len(left), len(right)))
    return f"{left[max(0, at - 20) : at + 60]!r}, direct {right[max(0, at - 20) : at + 60]!r}"
