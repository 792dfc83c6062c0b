"""The engine again, written as plainly as possible: every step, every request, nothing remembered.

It knows no prefix cache. It is the yardstick for the engine that leaps.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lbgen.simulate.servers.step_times.profiles import Profile


class Fate(NamedTuple):
    admitted: float
    first: float
    finished: float


class _Job:
    def __init__(self, index: int, at: float, prompt: int, output: int) -> None:
        self.index, self.at, self.prompt, self.output = index, at, prompt, output
        self.made, self.kv, self.left = 0, 0, 0
        self.blocks = 0
        self.decoding = False
        self.admitted = self.first = -1.0


def run(profile: Profile, jobs: list[tuple[float, int, int]]) -> list[Fate]:  # noqa: C901, PLR0912, PLR0915 - plain
    """Return what becomes of ``(arrival, prompt tokens, output tokens)``, in order of arrival."""
    coming = [_Job(index, *job) for index, job in enumerate(jobs)]
    pool = profile.kv_tokens // 16 if profile.kv_tokens else 10**12
    waiting: list[_Job] = []
    batch: list[_Job] = []
    fates: dict[int, Fate] = {}
    clock = 0.0
    while coming or waiting or batch:
        if not waiting and not batch:
            clock = coming[0].at
            waiting.append(coming.pop(0))
        preempted = False
        while sum(j.blocks for j in batch) + sum(j.decoding and j.kv % 16 == 0 for j in batch) > pool:
            newest = batch.pop()
            newest.decoding, newest.kv, newest.blocks = False, 0, 0
            waiting.insert(0, newest)
            preempted = True
        decoding = [j for j in batch if j.decoding]
        budget = 10**9 if profile.plain else profile.batch_tokens - len(decoding)
        work = []
        for job in batch:
            if not job.decoding and budget > 0:
                work.append((job, min(job.left, budget)))
                budget -= work[-1][1]
        while waiting and not preempted and len(batch) < profile.slots and budget > 0:
            job = waiting[0]
            tokens = job.prompt + job.made
            if sum(j.blocks for j in batch) + ceil(tokens / 16) > pool:
                break
            waiting.pop(0)
            batch.append(job)
            if job.admitted < 0:
                job.admitted = clock
            if profile.plain:
                job.decoding = True
                decoding.append(job)
            else:
                job.left, job.blocks = tokens, ceil(tokens / 16)
                work.append((job, min(job.left, budget)))
                budget -= work[-1][1]
        step = profile.step + profile.per_request * len(decoding)
        step += profile.per_kv_token * sum(j.kv for j in decoding)
        for job, tokens in work:
            step += profile.per_prefill_token * tokens + profile.per_attention * tokens * (
                job.kv + tokens / 2
            )
        clock += step
        for job in decoding:
            if profile.kv_tokens:
                job.blocks += job.kv % 16 == 0
            job.kv += 1
            job.made += 1
        for job, tokens in work:
            job.left -= tokens
            job.kv += tokens
            if not job.left:
                job.made += 1
                job.decoding = True
        for job in list(batch):
            if job.made and job.first < 0:
                job.first = clock
            if job.made == job.output:
                batch.remove(job)
                fates[job.index] = Fate(job.admitted, job.first, clock)
        while coming and coming[0].at < clock:
            waiting.append(coming.pop(0))
    return [fates[index] for index in range(len(jobs))]
