"""What balancers and engines do while requests come: caches, drains, an agent, an engine that dies."""

from __future__ import annotations

import random
import re
import socket
import subprocess
import sys
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, Self

from integration.real_engines.engines import CONTEXT, SLOTS, chat, completion, get, post
from integration.real_engines.fronts import ROOT
from integration.real_engines.outcomes import NotPossibleError, expect
from integration.real_engines.through import CHAT, COMPLETIONS
from integration.waiting import eventually
from lbgen.engines import ENGINES
from tests.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from integration.real_engines.engines import Engine
    from integration.real_engines.fronts import Front

TENANTS, ROUNDS = 7, 6
"""An odd number of prompts: with an even one round robin sends each to the same server by chance."""
AGENTS, TURNS = 5, 5
BETTER = 0.05
"""By how much of all tokens the cache has to help more than under round robin."""
SOON_S = 30.0
STREAM_S = 12.0
"""For how long a stream should last that a drain waits for."""
FULL_S = 60.0
"""The agent learns an engine's limit from 15 s in which it was full."""
ROOM = (SLOTS, SLOTS + 3)
"""Of what the agent may say of an engine with so many places: a little more, so that none stays empty."""


class Sent(NamedTuple):
    """What became of a request of a `Load`."""

    begun: float
    ended: float
    whole: bool
    what: str


class Load:
    """Streams of about so many tokens one after another from some clients, until it is stopped."""

    def __init__(self, port: int, *, parallel: int, tokens: int) -> None:
        self.sent: list[Sent] = []
        self._asked = (port, tokens)
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(parallel)]

    def _run(self) -> None:
        port, tokens = self._asked
        while not self._stop.is_set():
            begun, length = time.monotonic(), round(tokens * random.uniform(0.5, 1.5))
            try:
                got = post(port, COMPLETIONS, completion(length, stream=True))
                whole = got.status == 200 and got.body.rstrip().endswith(b"data: [DONE]")
                what = f"{got.status} {got.body[-200:]!r}"
            except OSError as error:
                whole, what = False, repr(error)
            self.sent.append(Sent(begun, time.monotonic(), whole, what))
            if not whole:
                time.sleep(0.1)

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    @property
    def lost(self) -> list[Sent]:
        """Requests without a whole answer."""
        return [one for one in self.sent if not one.whole]


def tenants(front: Front, engines: Sequence[Engine]) -> str:
    """Compare the engines' own counts of prompts that share system prompts."""
    return _compare(front, engines, "prefix", _tenants)


def agents(front: Front, engines: Sequence[Engine]) -> str:
    """Compare them for conversations, each turn of which sends all before."""
    return _compare(front, engines, "agents", _agents)


def _compare(front: Front, engines: Sequence[Engine], strategy: str, traffic: object) -> str:
    if why := front.refused.get(strategy):
        raise NotPossibleError(why)
    assert callable(traffic)
    shares = {}
    for name in ("round_robin", strategy):
        before = [one.found for one in engines]
        traffic(front.ports[name])
        after = [one.found for one in engines]
        found, looked_up = (
            sum(new[which] - old[which] for old, new in zip(before, after, strict=True)) for which in (0, 1)
        )
        expect(looked_up, "the engines count no tokens of prompts")
        shares[name] = found / looked_up
    even, kept = shares["round_robin"], shares[strategy]
    words = f"{100 * even:.0f} % of prompt tokens found under round_robin, {100 * kept:.0f} % under prefix"
    expect(kept >= even + BETTER, words)
    return words


def _tenants(port: int) -> None:
    systems = [f"{uuid.uuid4()} You are a helpful assistant with rules. " * 15 for _ in range(TENANTS)]
    for turn in range(ROUNDS):
        for system in systems:
            _ask(port, [_says("system", system), _says("user", f"Question {turn} {uuid.uuid4()}?")])


def _agents(port: int) -> None:
    common = f"{uuid.uuid4()} You are an agent with tools. " * 10
    talks = [[_says("system", common), _says("user", f"I am {uuid.uuid4()}. " * 10)] for _ in range(AGENTS)]

    def talk(messages: list[dict[str, str]]) -> None:
        for turn in range(TURNS):
            _ask(port, messages)
            messages += [_says("assistant", f"Done {turn}."), _says("user", f"{uuid.uuid4()} next. " * 8)]

    with ThreadPoolExecutor(AGENTS) as threads:
        list(threads.map(talk, talks))


def _says(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def _ask(port: int, messages: Sequence[dict[str, str]]) -> None:
    got = post(port, CHAT, chat(2, messages))
    expect(got.status == 200, f"{got.status}: {got.body[:200]!r}")


def drain(front: Front, engines: Sequence[Engine]) -> str:
    """Drain a server with streams on it: they end whole, new ones go elsewhere, and it comes back."""
    first, other = engines
    with ThreadPoolExecutor(6) as threads:
        body = completion(_lasting(first), stream=True)
        begun = [threads.submit(post, front.port, COMPLETIONS, body) for _ in range(6)]
        eventually(lambda: min(first.busy, other.busy) > 0, SOON_S, "both have streams")
        on_it = first.busy
        _take_out(front, out=True)
        ended = [one.result() for one in begun]
    expect(all(one.body.rstrip().endswith(b"data: [DONE]") for one in ended), "a stream was cut")
    eventually(lambda: first.busy == 0, SOON_S, "it is idle")
    before = _made(first)
    for _ in range(10):
        expect(post(front.port, COMPLETIONS, completion(2)).status == 200, "an answer")
    expect(_made(first) == before, "the drained server got new requests")
    _take_out(front, out=False)

    def back() -> bool:
        post(front.port, COMPLETIONS, completion(2))
        return _made(first) > before

    took = eventually(back, SOON_S, "it gets requests again")
    return f"{on_it:.0f} streams on it ended whole, no new request came; back {took:.1f} s after"


def _lasting(engine: Engine) -> int:
    """Return how many tokens take about `STREAM_S`."""
    begin = time.monotonic()
    post(engine.port, COMPLETIONS, completion(40))
    return min(CONTEXT // 2, max(100, round(40 * STREAM_S / (time.monotonic() - begin))))


def _take_out(front: Front, *, out: bool) -> None:
    """Drain the first server of the pool, or end that: NGINX can only be told by its files."""
    if front.target != "nginx":
        words = ("--timeout", "2m") if out else ()
        front.lbgen("drain" if out else "undrain", "least_conn/gpu-0", *words)
        return
    front.write(state="drain" if out else "up")
    reload = f"kill -HUP {front.process.pid}"
    front.lbgen("apply", "--to", str(front.files), "--reload", reload, "--max-change", "50%")


def _made(engine: Engine) -> float:
    metrics = ENGINES[engine.kind.preset].metrics
    assert metrics is not None
    return engine.figure(*metrics.generated)


def restart(fronts: Sequence[Front], engines: Sequence[Engine]) -> dict[str, str]:
    """Kill an engine under load through each balancer, start it again, and see it come back.

    Return what each balancer's clients saw, or raise `AssertionError`.
    """
    victim = engines[0]
    loads = {one.target: Load(one.port, parallel=3, tokens=40) for one in fronts}
    running = [load.__enter__() for load in loads.values()]
    try:
        time.sleep(3)
        victim.kill()
        killed = time.monotonic()
        time.sleep(4)
        victim.start()
        took = victim.wait()
        time.sleep(3)
        before = _made(victim)
        time.sleep(3)
        made = _made(victim) - before
    finally:
        for load in running:
            load.__exit__()
    expect(made > 0, "the engine gets no requests after it came back")
    return {target: _survived(load, killed, took) for target, load in loads.items()}


def _survived(load: Load, killed: float, loading_s: float) -> str:
    cut = [one for one in load.lost if one.begun <= killed]
    later = [one for one in load.lost if one.begun > killed]
    if later:
        return (
            f"!{len(later)} of {len(load.sent)} requests failed that began after the engine died, the first "
            f"{later[0].begun - killed:.1f} s after: {later[0].what}"
        )
    return (
        f"{len(cut)} streams on it were cut, none of {len(load.sent) - len(cut)} others failed, in the "
        f"{loading_s:.0f} s of its loading neither; then it got requests again"
    )


def agent(front: Front, engines: Sequence[Engine]) -> str:
    """Run `lbgen agent` beside full engines, and ask it as HAProxy does."""
    if why := front.refused.get("kv_cache"):
        raise NotPossibleError(why)
    with _agent(front) as (port, status):
        with Load(front.ports["kv_cache"], parallel=4 * SLOTS, tokens=150) as load:
            time.sleep(FULL_S)
            answers = [_question(port, f"kv_cache/{one.name}") for one in engines]
            page = get(status, "/metrics").body.decode()
        lost = [one.what for one in load.lost]
        expect(not lost, f"{len(lost)} of {len(load.sent)} lost: {lost[:1]}")
    for answer in answers:
        found = re.fullmatch(r"up \d+% maxconn:(\d+)\n", answer)
        expect(found, f"it says {answer!r}")
        assert found is not None
        expect(ROOM[0] <= int(found[1]) <= ROOM[1], f"it says {answer!r} of an engine with {SLOTS} places")
    expect("lbgen_agent_scrape_failures_total 0\n" in page, page[:300])
    said = " and ".join(f"`{one.strip()}`" for one in dict.fromkeys(answers))
    return f"{said} of engines with {SLOTS} places; {len(load.sent)} answers whole meanwhile"


@contextmanager
def _agent(front: Front) -> Iterator[tuple[int, int]]:
    file, status = front.folder / "fleet.yaml", free_port()
    port = int(re.findall(r'"agent_port": (\d+)', file.read_text())[0])
    words = [sys.executable, "-m", "lbgen", "agent", str(file), "--interval", "500ms"]
    with (front.folder / "agent.log").open("w") as log:
        process = subprocess.Popen(
            [*words, "--status", f"127.0.0.1:{status}"], cwd=ROOT, stdout=log, stderr=log
        )
    try:
        eventually(lambda: _answers(status), SOON_S, "the agent answers")
        yield port, status
    finally:
        process.terminate()
        process.wait(30)


def _answers(port: int) -> bool:
    try:
        return get(port, "/health").status > 0
    except OSError:
        return False


def _question(port: int, text: str) -> str:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as one:
        one.sendall(f"{text}\n".encode())
        return one.recv(512).decode()
