"""``lbgen trial`` with containers: short trials for each target, also in images like the official ones."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from integration.fleets import TARGETS, chat
from integration.waiting import eventually
from lbgen.checker.certificate import throwaway_bundle
from lbgen.lab.rig import LABEL, connect, sweep

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

REQUESTS = 60
SHORT = (f"--requests={REQUESTS}", "--rate=20", "--workload=fixed:output=50", "--strategy=least_conn")

LIKE_OFFICIAL = {
    # Without root, and with files in another place: https://github.com/docker-library/haproxy
    "haproxy": """
FROM {image}
RUN rm -rf /etc/haproxy /etc/nginx && mkdir -p /usr/local/etc/haproxy /var/lib/haproxy
USER haproxy
WORKDIR /var/lib/haproxy
""",
    # With files of its own where ours go: https://github.com/nginx/docker-nginx
    "nginx": """
FROM {image}
RUN rm -rf /etc/haproxy /etc/nginx && mkdir -p /etc/nginx/conf.d \\
    && echo 'server {{ listen 80; bogus; }}' >/etc/nginx/conf.d/default.conf
ENTRYPOINT ["/docker-entrypoint.sh"]
STOPSIGNAL SIGQUIT
""",
}


@pytest.mark.parametrize("target", TARGETS)
def test_a_short_trial(target: str, images: list[str], tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(yaml.safe_dump(chat(servers="gpu-[0-2]:8000")))
    done = subprocess.run(
        [sys.executable, "-m", "lbgen", "trial", str(fleet), "-t", target, "--runtime=docker", *images,
         f"--requests={REQUESTS}", "--strategy=least_conn", "--workload=fixed:output=100", "--format=json",
         "--expect=errors<1", "--expect=load_stdev<0.001"],
        capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "load_stdev<0.001: does not hold for least_conn" in done.stderr
    assert "errors<1" not in done.stderr
    (result,) = json.loads(done.stdout)["results"]
    assert (result["target"], result["ok"]) == (target, REQUESTS)
    assert sum(server["requests"] for server in result["servers"]) == REQUESTS
    predicted = result["predicted"]
    assert result["e2e_s"]["p50"] == pytest.approx(predicted["e2e_s"]["p50"], rel=0.25)


def _trial(tmp_path: Path, fleet: dict[str, Any], *words: str) -> subprocess.CompletedProcess[str]:
    path = tmp_path / "fleet.yaml"
    path.write_text(yaml.safe_dump(fleet))
    return subprocess.run(
        [sys.executable, "-m", "lbgen", "trial", str(path), "--runtime=docker", *words],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def official(images: list[str]) -> Iterator[dict[str, str]]:
    """Images with the folders and users of the official ones, by target."""
    client = connect()
    found = {}
    for option in images:
        program, _, image = option.removeprefix("--image=").partition("=")
        if program in LIKE_OFFICIAL:
            recipe = LIKE_OFFICIAL[program].format(image=image).encode()
            found[program] = _built(recipe)
    yield found
    for image in found.values():
        client.images.remove(image, force=True)


def _built(recipe: bytes) -> str:
    return str(connect().images.build(fileobj=io.BytesIO(recipe), rm=True)[0].id)


def _secured() -> dict[str, Any]:
    """A fleet with TLS on both sides, client certificates, keys, several listeners and a redirect."""
    tls = {"ca": "ca.pem", "server_name": "gpu.internal", "certificate": "c.pem", "key": "k.pem"}
    pool = {"engine": "vllm", "servers": "gpu-[0-2]:8000", "tls": tls}
    main = {
        "bind": "443", "hosts": ["llm.example.org"], "redirect_from": 80, "auth": {"clients": "all"},
        "tls": {"certificate": "one.pem", "key": "one.key", "client_ca": "clients.pem"},
        "routes": [{"path_exact": "/v1/chat/completions", "pool": "chat"}],
    }  # fmt: skip
    other = {"bind": "8443", "tls": {"bundle": "other.pem"}, "auth": "none", "routes": [{"pool": "chat"}]}
    return {
        "pools": {"chat": pool},
        "clients": {"a": {"key": "env:LBGEN_NO_SUCH_A"}, "b": {"key": "env:LBGEN_NO_SUCH_B"}},
        "listeners": {"main": main, "other": other},
    }


@pytest.mark.parametrize("target", TARGETS)
def test_tls_and_keys_in_images_like_the_official_ones(
    target: str, images: list[str], official: dict[str, str], tmp_path: Path
) -> None:
    words = (*images, f"--image={target}={official[target]}", "-t", target, *SHORT, "--format=json")
    absent = _trial(tmp_path, _secured(), *words)
    assert absent.returncode == 2
    assert "one.key" in absent.stderr
    assert "--stand-ins" in absent.stderr
    done = _trial(tmp_path, _secured(), *words, "--stand-ins", "--expect=errors<1")
    assert done.returncode == 0, done.stderr
    assert "stand-ins for secrets: env:LBGEN_NO_SUCH_A, env:LBGEN_NO_SUCH_B" in done.stderr


@pytest.mark.parametrize("target", TARGETS)
def test_certificates_of_this_machine_go_along(target: str, images: list[str], tmp_path: Path) -> None:
    pair = (tmp_path / "c.pem", tmp_path / "k.pem")
    for path in pair:
        path.write_text(throwaway_bundle())
        path.chmod(0o600)
    (tmp_path / "k.pem").write_text((tmp_path / "c.pem").read_text())
    listener = {"bind": "443", "tls": {"certificate": str(pair[0]), "key": str(pair[1])}}
    fleet = chat(servers="gpu-[0-1]:8000") | {"listeners": {"in": {**listener, "routes": [{"pool": "chat"}]}}}
    done = _trial(tmp_path, fleet, *images, "-t", target, *SHORT, "--expect=errors<1")
    assert done.returncode == 0, done.stderr


def test_kv_cache_is_tried_with_the_agent(images: list[str], tmp_path: Path) -> None:
    fleet = chat(servers="gpu-[0-1]:8000", max_in_flight=64)
    done = _trial(
        tmp_path, fleet, *images, "-t", "haproxy", "-v", "--strategy=kv_cache", "--workload=shared:output=20",
        "--profile=h100-8b", "--requests=60", "--rate=15", "--expect=errors<1", "--format=json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr  # and so HAProxy asked the agent, which it needs the host for
    (result,) = json.loads(done.stdout)["results"]
    assert result["prefix_hit_ratio"] == pytest.approx(result["predicted"]["prefix_hit_ratio"], abs=0.15)


@pytest.mark.parametrize(
    "named", [{"body": "$.metadata.user_id"}, {"learn": {"header": "Mcp-Session-Id"}}, {"insert": "lb"}],
    ids=lambda named: next(iter(named)),
)  # fmt: skip
def test_sessions_stay_whoever_names_them(
    named: dict[str, object], images: list[str], tmp_path: Path
) -> None:
    fleet = chat()
    fleet["pools"]["chat"]["strategy"] = {"name": "session", "strict": True, **named}
    done = _trial(
        tmp_path, fleet, *images, "-t", "haproxy", "--strategy=session", "--requests=48", "--format=json",
        "--workload=agents:sessions=12,turns=4", "--profile=plain-prompts", "--expect=errors<1",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)["results"]
    # Turns that went anywhere would find a half of it.
    assert result["prefix_hit_ratio"] == pytest.approx(result["predicted"]["prefix_hit_ratio"], abs=0.1)


@pytest.mark.parametrize("target", TARGETS)
def test_a_refused_file_is_told_in_its_own_words(target: str, images: list[str], tmp_path: Path) -> None:
    level = {"nginx": "http", "haproxy": "global"}[target]
    fleet = chat() | {"targets": {target: {"raw": {level: ["bogus word;"]}}}}
    done = _trial(tmp_path, fleet, *images, "-t", target, *SHORT)
    assert done.returncode == 2
    assert "it does not run; it says:" in done.stderr
    assert "bogus" in done.stderr


def test_an_image_without_the_program_is_named(images: list[str], tmp_path: Path) -> None:
    empty = _built(b"FROM scratch\nENV A=1\n")
    try:
        done = _trial(tmp_path, chat(), *images, f"--image=nginx={empty}", "-t", "nginx", *SHORT)
    finally:
        connect().images.remove(empty, force=True)
    assert done.returncode == 2
    assert f"the image {empty} does not run nginx" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_in_docker(number: int, images: list[str], tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(yaml.safe_dump(chat(servers="gpu-[0-1]:8000")))
    words = [
        "--runtime=docker",
        *images,
        "-t",
        "haproxy",
        "--requests=5000",
        "--rate=20",
        "--strategy=least_conn",
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "lbgen", "trial", str(path), *words], stderr=subprocess.DEVNULL
    ) as running:
        eventually(lambda: len(_owned(running.pid)) == 4, 60, "two mocks, a balancer and a network")
        running.send_signal(number)
        running.wait(60)
        if number == signal.SIGKILL:
            assert _owned(running.pid)
            sweep(connect())  # as the next trial does
    assert _owned(running.pid) == []


def _owned(pid: int) -> list[str]:
    """Return the ids of what a process made."""
    api = connect().api
    things = api.containers(all=True, filters={"label": LABEL}) + api.networks(filters={"label": LABEL})
    return [one["Id"] for one in things if one["Labels"][LABEL].split()[1] == str(pid)]
