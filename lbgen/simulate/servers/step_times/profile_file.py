"""A profile as a YAML file: what `lbgen calibrate` writes, and `--profile FILE` reads."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from lbgen.fields import Boolean, Field, Integer, Number, Struct
from lbgen.problems import LbgenError
from lbgen.simulate.servers.step_times.profiles import NAMES, PROFILES, Profile

if TYPE_CHECKING:
    from collections.abc import Iterable

ENDINGS = (".yaml", ".yml")
MOST = 1_000_000_000

_SCALES = {
    "step_ms": ("step", 1e-3),
    "per_request_ms": ("per_request", 1e-3),
    "per_prefill_token_us": ("per_prefill_token", 1e-6),
    "per_kv_token_us": ("per_kv_token", 1e-6),
    "per_attention_ns": ("per_attention", 1e-9),
}
"""Keys of the file with a unit, the profile's own field, and seconds in one of that unit."""

PROFILE = Struct(
    "a profile",
    Field("step_ms", Number(0.000001, MOST), required=True, doc="A decode step of an empty batch."),
    Field("per_request_ms", Number(0, MOST), 0.0, doc="What each decoding request adds to a step."),
    Field(
        "per_prefill_token_us", Number(0, MOST), 0.0, doc="What each computed prompt token adds to a step."
    ),
    Field("per_kv_token_us", Number(0, MOST), 0.0, doc="What each token of context in the batch adds."),
    Field(
        "per_attention_ns", Number(0, MOST), 0.0, doc="What each pair of a prompt token and one before adds."
    ),
    Field("slots", Integer(1, 100_000), 256, doc="Requests in the batch at most."),
    Field("batch_tokens", Integer(1, 10_000_000), 2048, doc="Tokens in a step at most."),
    Field("kv_tokens", Integer(16, MOST), doc="Tokens that the KV cache holds. Default: no limit."),
    Field("prefix_cache", Boolean(), default=True, doc="Whether beginnings of prompts are kept."),
)


def profile_named(text: str) -> Profile:
    """Return the profile of a name or of a file; raises `LbgenError` or `FleetError` with the place."""
    if text in PROFILES:
        return PROFILES[text]
    if text.endswith(ENDINGS):
        return read_profile(text)
    raise LbgenError(
        f"'{text}' is not a profile: there are {', '.join(NAMES)}; or name a file ending in .yaml"
    )


@cache
def read_profile(name: str) -> Profile:
    """Return the profile in a file, which is called by the file's name; raises as `profile_named`."""
    from lbgen.fleet.text.source import read_values  # noqa: PLC0415 - mock GPU servers run without PyYAML

    found = read_values(name, PROFILE)
    times = {field: found.pop(key) * scale for key, (field, scale) in _SCALES.items()}
    return Profile(name, name, **times, **found)


def profile_text(profile: Profile, notes: Iterable[str]) -> str:
    """Return a profile as the text of a file, with notes as comments at its top."""
    lines = [*(f"# {note}" for note in notes), ""]
    lines += [f"{key}: {_plain(getattr(profile, field) / scale)}" for key, (field, scale) in _SCALES.items()]
    lines += [f"slots: {profile.slots}", f"batch_tokens: {profile.batch_tokens}"]
    if profile.kv_tokens is not None:
        lines.append(f"kv_tokens: {profile.kv_tokens}")
    return "\n".join([*lines, f"prefix_cache: {str(profile.prefix_cache).lower()}", ""])


def _plain(value: float) -> str:
    """Return a number with four significant digits and no exponent."""
    return f"{float(f'{value:.4g}'):.9f}".rstrip("0").rstrip(".")
