"""Compose files that mount a balancer's configuration, and LiteLLM's list of models."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.imports.ledger import Fate, summary
from lbgen.imports.whole import import_configurations
from lbgen.problems import LbgenError

NGINX = """\
events {}
http {
    upstream gpus { least_conn; server gpu0:8000; server gpu1:8000 weight=2; }
    include /etc/nginx/conf.d/*.conf;
}
"""
SERVER = "server { listen 80; location / { proxy_pass http://gpus; } }\n"
COMPOSE = """\
services:
  lb:
    image: nginx:1.26.3-alpine
    volumes:
      - ./lb/nginx.conf:/etc/nginx/nginx.conf:ro
      - {type: bind, source: ./lb/conf.d, target: /etc/nginx/conf.d}
      - ./certs:/certs
  gpu0: {image: "vllm/vllm-openai:v0.11.0"}
  gpu1: {image: "vllm/vllm-openai:v0.11.0"}
"""
HAPROXY = """\
frontend web
    bind :80
    default_backend gpus
backend gpus
    balance leastconn
    server a gpu0:8000 check
"""
LITELLM = """\
model_list:
  - model_name: llama
    litellm_params: {model: hosted_vllm/llama, api_base: "http://10.0.0.1:8000/v1", weight: 2}
  - model_name: llama
    litellm_params:
      model: hosted_vllm/llama
      api_base: http://10.0.0.2:8000/v1
      api_key: sk-0123456789abcdef0123
  - model_name: embed
    litellm_params: {model: openai/bge, api_base: "https://embed.example.org", max_parallel_requests: 8}
  - model_name: elsewhere
    litellm_params: {model: openai/some-model}
router_settings: {routing_strategy: least-busy}
"""


def fleet_of(found):
    loaded = load([Source("fleet.yaml", found.text(comments=True))], environ={})
    assert [problem for problem in loaded.problems if problem.is_error] == []
    return loaded.fleet


def test_a_compose_file_with_nginx(tmp_path):
    (tmp_path / "lb" / "conf.d").mkdir(parents=True)
    (tmp_path / "lb" / "nginx.conf").write_text(NGINX)
    (tmp_path / "lb" / "conf.d" / "site.conf").write_text(SERVER)
    (tmp_path / "compose.yaml").write_text(COMPOSE)
    found = import_configurations([str(tmp_path / "compose.yaml")])
    fleet = fleet_of(found)
    (pool,) = fleet.pools
    assert pool.engine == "vllm"
    assert [(str(server.address), server.weight) for server in pool.servers] == [
        ("gpu0:8000", 1),
        ("gpu1:8000", 2),
    ]
    assert [str(target.version) for target in fleet.targets] == ["1.26"]
    assert [listener.routes[0].pool for listener in fleet.listeners] == ["gpus"]


def test_a_compose_file_with_haproxy_and_configs(tmp_path):
    (tmp_path / "haproxy.cfg").write_text(HAPROXY)
    (tmp_path / "compose.yml").write_text(
        "services:\n"
        "  lb:\n"
        "    image: haproxytech/haproxy-alpine:3.2\n"
        "    configs: [{source: lb, target: /usr/local/etc/haproxy/haproxy.cfg}]\n"
        "configs: {lb: {file: ./haproxy.cfg}}\n"
    )
    fleet = fleet_of(import_configurations([str(tmp_path / "compose.yml")]))
    assert [(target.name, str(target.version)) for target in fleet.targets] == [("haproxy", "3.2")]
    assert fleet.pools[0].engine == "openai", "no image says what runs"


def test_a_compose_file_without_a_balancer(tmp_path):
    (tmp_path / "compose.yml").write_text("services: {gpu0: {image: 'vllm/vllm-openai'}}\n")
    with pytest.raises(LbgenError, match="no service with an image of NGINX or HAProxy"):
        import_configurations([str(tmp_path / "compose.yml")])


def test_servers_on_sockets_and_of_the_environment(tmp_path):
    (tmp_path / "haproxy.cfg").write_text(
        "backend a\n  server s unix@/run/s.sock\n  server t /run/t.sock\n  server u ${HOST_A}:${PORT_A}\n"
        "frontend f\n  bind 127.0.0.1:80\n  default_backend a\n"
    )
    (tmp_path / "nginx.conf").write_text(
        "upstream b { server unix:/run/s.sock weight=3; server 10.0.0.1; }\n"
        "server { listen 127.0.0.1:81; location / { proxy_pass http://b; } }\n"
    )
    found = import_configurations([str(tmp_path / "haproxy.cfg"), str(tmp_path / "nginx.conf")])
    text = found.text(comments=False)
    loaded = load([Source("fleet.yaml", text)], environ={"HOST_A": "gpu-9", "PORT_A": "9000"})
    assert loaded.fleet is not None
    assert {pool.name: [str(server.address) for server in pool.servers] for pool in loaded.fleet.pools} == {
        "b": ["unix:/run/s.sock", "10.0.0.1:80"],
        "a": ["unix:/run/s.sock", "unix:/run/t.sock", "gpu-9:9000"],
    }


def test_a_list_of_models(tmp_path):
    (tmp_path / "config.yaml").write_text(LITELLM)
    found = import_configurations([str(tmp_path / "config.yaml")])
    fleet = fleet_of(found)
    llama, embed = fleet.pools
    assert (llama.models, llama.engine, llama.strategy.name) == (("llama",), "vllm", "least_conn")
    assert [(str(server.address), server.weight) for server in llama.servers] == [
        ("10.0.0.1:8000", 2),
        ("10.0.0.2:8000", 1),
    ]
    assert embed.tls is not None
    assert (str(embed.servers[0].address), embed.servers[0].max_in_flight) == ("embed.example.org:443", 8)
    said = " ".join(entry.line() for entry in found.entries)
    assert "it has no api_base" in said
    assert "api_key" in said
    assert "sk-0123456789abcdef0123" not in said + found.text(comments=True)
    assert summary(found.entries) == "of 5 directives 3 carried over, 2 not"


def test_the_documented_file_of_vllm_becomes_its_twin():
    folder = Path(__file__).parents[2] / "examples" / "vllm-documented"
    found = import_configurations([str(folder / "default.conf")])
    assert found.text(comments=False) == (folder / "fleet.yaml").read_text()


def test_what_haproxy_sent_again_is_listed(tmp_path):
    text = "defaults\n mode http\n retry-on conn-failure 503\nlisten l\n bind :80\n server a 10.0.0.1:8000\n"
    (tmp_path / "haproxy.cfg").write_text(text)
    (line,) = [
        one
        for one in import_configurations([str(tmp_path / "haproxy.cfg")]).entries
        if "retry-on" in one.text
    ]
    assert line.fate is Fate.BETTER
    assert "'retry.replay_posts'" in line.line()


def test_what_haproxy_sent_again_without_harm_is_carried(tmp_path):
    text = "defaults\n mode http\n retry-on conn-failure\nlisten l\n bind :80\n server a 10.0.0.1:8000\n"
    (tmp_path / "haproxy.cfg").write_text(text)
    (line,) = [
        one
        for one in import_configurations([str(tmp_path / "haproxy.cfg")]).entries
        if "retry-on" in one.text
    ]
    assert line.fate is Fate.CARRIED


BESIDE = """\
defaults
    mode {mode}
listen beside
    bind :2222
    server s1 10.0.0.9:{port}
frontend web
    mode http
    bind :80
    default_backend gpus
backend gpus
    mode http
    server a 10.0.0.1:8000
"""


@pytest.mark.parametrize(
    ("mode", "port", "pools"),
    [
        ("tcp", 22, {"gpus"}),
        ("tcp", 5432, {"gpus"}),
        ("tcp", 8000, {"beside", "gpus"}),
        ("http", 22, {"beside", "gpus"}),
    ],
)
def test_a_service_that_speaks_no_http_is_no_pool(tmp_path, mode, port, pools):
    path = tmp_path / "haproxy.cfg"
    path.write_text(BESIDE.format(mode=mode, port=port))
    fleet = fleet_of(import_configurations([str(path)]))
    assert {pool.name for pool in fleet.pools} == pools
    assert len(fleet.listeners) == len(pools)
