"""How fast servers are: presets per model and GPU, with the source of each figure.

A decode step with `n` requests in the batch takes ``t0 + cs * n + ckv * KV tokens`` seconds; computing
prompts adds ``cp`` a token and ``ca`` for each pair of a prompt token and a token before it (attention).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

BLOCK = 16
"""Tokens in a block of the KV cache: vLLM's default."""


class Profile(NamedTuple):
    """One class of server. Times are seconds."""

    name: str
    title: str
    step: float
    """A decode step of an empty batch: reading the weights, launching the kernels."""
    per_request: float
    """What each decoding request adds to a step."""
    per_kv_token: float = 0.0
    """What each token of the decoding requests' contexts adds to a step."""
    per_prefill_token: float = 0.0
    """What each prompt token that is computed adds to a step."""
    per_attention: float = 0.0
    """What each pair of a prompt token and a token before it adds."""
    slots: int = 256
    """Requests in the batch at most."""
    batch_tokens: int = 2048
    """Tokens in a step at most: one for each decoding request, the rest for prompts in pieces."""
    kv_tokens: int | None = None
    """Tokens that the KV cache holds; None: no limit."""
    prefix_cache: bool = True
    cache_tokens: int | None = None
    """Tokens that the prefix cache knows at most, in use or not; None: all that the KV cache holds."""
    source: str = ""

    @property
    def plain(self) -> bool:
        """True when prompts cost nothing: only the number of requests in the batch matters."""
        return not self.per_prefill_token and not self.per_attention and self.kv_tokens is None

    def with_slots(self, slots: int | None) -> Profile:
        """Return the profile with another number of slots; None: as it is."""
        return self if slots is None else self._replace(slots=slots)


_KERNELS = (
    "kernel profiles of microsoft/vidur and LLMServingSim, measurements of Splitwise; the cost per KV token "
    "and the KV cache are derived (0.90 of the memory, 2 GiB overhead)"
)
_VLLM = (
    "vLLM defaults: 256 sequences and 2048 batched tokens; "
    "1024 and 8192 on GPUs of 70 GiB and more, A100 excepted"
)

_PROFILES: Mapping[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile(
            "plain", "the plain model: 7.2 ms + 0.05 ms a request, 32 slots, prompts for free",
            step=0.0072, per_request=0.00005, slots=32, prefix_cache=False,
            source="the step of a small model, without memory; 4 servers carry 34.9 bimodal requests/s",
        ),
        Profile(
            "plain-prompts", "the plain model with prompts: 6 ms + 0.2 ms a request, 10,000 prompt tokens/s",
            step=0.006, per_request=0.0002, per_prefill_token=1 / 10_000, slots=32, batch_tokens=2048,
            kv_tokens=900_000, cache_tokens=384_000,
            source="round figures; prefix caches of four such servers hold what 64 agents have said",
        ),
        Profile(
            "h100-8b", "Llama-3.1-8B on one H100",
            step=0.0070, per_request=0.000015, per_kv_token=0.065e-6, per_prefill_token=1 / 27_800,
            slots=1024, batch_tokens=8192, kv_tokens=444_000, source=f"{_KERNELS}; {_VLLM}",
        ),
        Profile(
            "a100-8b", "Llama-3-8B on one A100 of 80 GB",
            step=0.011, per_request=0.000044, per_kv_token=0.107e-6, per_prefill_token=1 / 15_100,
            slots=256, batch_tokens=2048, kv_tokens=445_000, source=f"{_KERNELS}; {_VLLM}",
        ),
        Profile(
            "h100x4-70b", "a 70B model on four H100",
            step=0.0194, per_request=0.00015, per_kv_token=0.041e-6, per_prefill_token=1 / 11_100,
            slots=1024, batch_tokens=8192, kv_tokens=476_000,
            source=f"{_KERNELS}; {_VLLM}. By source: step 14.3-29.4 ms, 0.02-0.28 ms a request, "
            "8,800-13,400 prompt tokens/s: the middle is taken",
        ),
        Profile(
            "a100x4-70b", "a 70B model on four A100",
            step=0.0347, per_request=0.00015, per_kv_token=0.067e-6, per_prefill_token=1 / 5_050,
            slots=256, batch_tokens=2048, kv_tokens=478_000,
            source=f"{_KERNELS}; {_VLLM}. By source: step 24.9-44.5 ms, 0.11-0.19 ms a request, "
            "3,700-6,400 prompt tokens/s: the middle is taken",
        ),
    )
}  # fmt: skip
NAMES = tuple(_PROFILES)
"""The plain one first."""
PROFILES: Mapping[str, Profile] = {**_PROFILES, "seed": _PROFILES["plain"]}
"""By name; the plain one also by a former name, which now means what is drawn anew by another random seed."""

DEFAULT_PROFILE = "plain"
