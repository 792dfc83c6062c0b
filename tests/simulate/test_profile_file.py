"""Profiles as files: written, read back, refused with their place, and fitted to probes."""

from __future__ import annotations

import pytest

from lbgen.problems import FleetError, LbgenError
from lbgen.simulate.servers.pool import profile_of
from lbgen.simulate.servers.step_times.calibration import Point
from lbgen.simulate.servers.step_times.fit import Probes, Prompt, fitted
from lbgen.simulate.servers.step_times.profile_file import profile_named, profile_text
from lbgen.simulate.servers.step_times.profiles import PROFILES, Profile

TRUTH = Profile(
    "truth", "", step=0.02, per_request=0.0005, per_kv_token=0.2e-6, per_prefill_token=80e-6,
    per_attention=3e-9, slots=24, batch_tokens=1024,
)  # fmt: skip


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_survives_its_file(name, tmp_path):
    profile = PROFILES[name]
    path = tmp_path / "gpu.yaml"
    path.write_text(profile_text(profile, ["Measured yesterday"]))
    assert path.read_text().startswith("# Measured yesterday\n")
    found = profile_named(str(path))
    for field in ("step", "per_request", "per_kv_token", "per_prefill_token", "per_attention"):
        assert getattr(found, field) == pytest.approx(getattr(profile, field), rel=1e-3)
    for field in ("slots", "batch_tokens", "kv_tokens", "prefix_cache"):
        assert getattr(found, field) == getattr(profile, field)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("step_ms: 7\nslotz: 8\n", "2:1: there is no key 'slotz'"),
        ("slots: 8\n", "1:1: the file needs the key 'step_ms'"),
        ("step_ms: fast\n", "1:10: "),
        ("step_ms: -1\n", "1:10: "),
        ("- 1\n", "1:1: "),
        ("step_ms: [\n", "1:10: "),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(text, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gpu.yaml").write_text(text)
    with pytest.raises(FleetError) as error:
        profile_named("gpu.yaml")
    (problem,) = error.value.problems
    assert problem.location.file == "gpu.yaml"
    assert says in f"{problem.location.line}:{problem.location.column}: {problem.message}"


def test_no_such_file_and_no_such_name(tmp_path):
    with pytest.raises(LbgenError, match="cannot be read"):
        profile_named(str(tmp_path / "none.yaml"))
    with pytest.raises(LbgenError, match=r"file ending in \.yaml"):
        profile_named("h100")


def test_a_file_may_be_for_some_servers(tmp_path):
    path = tmp_path / "old.yaml"
    path.write_text("step_ms: 30\n")
    texts = ("h100-8b", f"old-*={path}")
    assert profile_of("old-1", texts).step == pytest.approx(0.03)
    assert profile_of("new-1", texts).name == "h100-8b"


def point(number, context=16.0):
    seconds = TRUTH.step + TRUTH.per_request * number + TRUTH.per_kv_token * number * (context + 32)
    return Point(number, seconds, None, context, 64)


def prompt(tokens):
    steps = -(-tokens // TRUTH.batch_tokens)
    pairs = TRUTH.per_attention * tokens**2 / 2
    return Prompt(tokens, steps * TRUTH.step + TRUTH.per_prefill_token * tokens + pairs)


def test_exact_probes_give_back_the_truth():
    probes = Probes(
        batches=tuple(map(point, (1, 2, 4, 8, 16))),
        deep=(point(4, 4000.0),),
        prompts=tuple(map(prompt, (500, 1000, 2000, 4000))),
        slots=24,
        prefix_cache=False,
    )
    found = fitted(probes, PROFILES["plain-prompts"]._replace(batch_tokens=1024))
    for field in ("step", "per_request", "per_kv_token", "per_prefill_token", "per_attention"):
        assert getattr(found, field) == pytest.approx(getattr(TRUTH, field), rel=0.01), field
    assert (found.slots, found.prefix_cache) == (24, False)


def test_what_was_not_probed_stays():
    like = PROFILES["h100-8b"]
    found = fitted(Probes(batches=(point(1),)), like)
    assert found.slots == like.slots
    assert found.per_prefill_token == like.per_prefill_token
    assert found.prefix_cache is like.prefix_cache


def test_noise_never_makes_a_cost_negative():
    falling = tuple(Point(number, 0.02 - number * 1e-4, None, 16, 64) for number in (1, 2, 4))
    shrinking = (Prompt(1000, 0.2), Prompt(2000, 0.3), Prompt(4000, 0.4))
    found = fitted(Probes(falling, (Point(4, 0.01, None, 4000, 64),), shrinking), PROFILES["plain-prompts"])
    assert min(found.step, found.per_prefill_token) > 0
    assert min(found.per_request, found.per_kv_token, found.per_attention) == 0
