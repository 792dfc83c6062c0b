"""The examples that end each command's ``--help`` and stand on the reference's page of commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "init": (
        "lbgen init --engine vllm --servers 'gpu-[0-7]:8000' -o fleet.yaml",
        "lbgen init --from /etc/nginx/nginx.conf -o fleet.yaml",
    ),
    "render": (
        "lbgen render fleet.yaml -o out",
        "lbgen render fleet.yaml prod.yaml -t haproxy -o out",
        "lbgen render fleet.yaml -o out --check --diff",
        "lbgen render fleet.yaml -t nginx --as compose -o out",
    ),
    "check": (
        "lbgen check fleet.yaml",
        "lbgen check fleet.yaml --binary nginx=docker://nginx:1.26 --strict",
        "lbgen check --each fleets/eu.yaml fleets/us.yaml --format sarif",
    ),
    "audit": (
        "lbgen audit /etc/nginx/nginx.conf",
        "lbgen audit /etc/haproxy --target-version haproxy=2.6 --fail-on error",
    ),
    "show": ("lbgen show fleet.yaml", "lbgen show fleet.yaml prod.yaml --format json"),
    "schema": ("lbgen schema > lbgen.schema.json",),
    "import": (
        "lbgen import /etc/nginx/nginx.conf -o fleet.yaml",
        "lbgen import /etc/haproxy/haproxy.cfg --strict > fleet.yaml",
    ),
    "simulate": (
        "lbgen simulate fleet.yaml",
        "lbgen simulate fleet.yaml --strategy round_robin --strategy least_conn --load 0.7 --load 0.9",
        "lbgen simulate fleet.yaml --profile h100-8b --find-capacity 'ttft_p99<2s'",
        "lbgen simulate fleet.yaml --workload agents:sessions=200 --report report.html",
    ),
    "size": (
        "lbgen size fleet.yaml --objective 'ttft_p99<2s' --log access.log",
        "lbgen size fleet.yaml --objective 'e2e_p99<30s' --rate 12 --profile h100-8b --cost h100-8b=2.50/h",
    ),
    "calibrate": (
        "lbgen calibrate http://10.0.0.1:8000 -o l40s-8b.yaml",
        "lbgen simulate fleet.yaml --profile l40s-8b.yaml",
        "lbgen calibrate https://gpu.example.org --api-key env:TEAM_KEY --time-limit 2m",
    ),
    "trial": (
        "lbgen trial fleet.yaml -t haproxy",
        "lbgen trial fleet.yaml --strategy round_robin --strategy least_conn --report trial.html",
        "lbgen trial fleet.yaml --expect 'p99(least_conn)<0.85*p99(round_robin)'",
    ),
    "mock-gpu": (
        "lbgen mock-gpu --port 8000 --count 8 --profile h100-8b",
        "lbgen mock-gpu --port 8000 --fault slow:3@/health",
    ),
    "plan": (
        "lbgen plan fleet.yaml -t haproxy --to /etc/haproxy",
        "lbgen plan fleet.yaml -t nginx --to /etc/nginx --format markdown --exit-code",
    ),
    "apply": (
        "lbgen apply fleet.yaml -t haproxy --to /etc/haproxy --reload 'systemctl reload haproxy'",
        "lbgen apply fleet.yaml -t nginx --to /etc/nginx --start 'systemctl start nginx'",
        "lbgen apply fleet.yaml -t haproxy --to /etc/haproxy --expect DIGEST --smoke /v1/chat/completions",
    ),
    "drain": (
        "lbgen drain fleet.yaml chat/gpu-3",
        "lbgen drain fleet.yaml chat/gpu-3 --timeout 30m --socket lb-1:9999 --socket lb-2:9999",
    ),
    "undrain": ("lbgen undrain fleet.yaml chat/gpu-3",),
    "status": (
        "lbgen status fleet.yaml --watch",
        "lbgen status fleet.yaml --format json --exit-code",
    ),
    "agent": ("lbgen agent fleet.yaml", "lbgen agent fleet.yaml --status 127.0.0.1:9101 --interval 500ms"),
    "completion": (
        'eval "$(lbgen completion bash)"  # in ~/.bashrc',
        'eval "$(lbgen completion zsh)"   # in ~/.zshrc',
        "lbgen completion fish > ~/.config/fish/completions/lbgen.fish",
    ),
}
"""Command lines of each command, the most usual one first; each is valid (``tests/cli/test_app.py``)."""
