"""Compose files and folders of them: the configuration that a balancer has mounted is looked at."""

from __future__ import annotations

import json

import pytest

from tests.audit.test_command import call

SITE = """\
upstream tgi { server 10.0.0.1:80; }
server {
    listen 80;
    location / { proxy_pass http://tgi; proxy_set_header Host $host; }
}
"""
MOUNTED = """\
services:
  lb:
    image: nginx:1.29.8-alpine
    volumes: ["./site.conf:/etc/nginx/conf.d/default.conf:ro"]
"""
INSIDE = """\
services:
  lb:
    image: nginx
    configs: [{source: site, target: /etc/nginx/conf.d/default.conf}]
  tgi: {image: "ghcr.io/huggingface/text-generation-inference:3.0"}
configs:
  site:
    content: |
      upstream tgi { server 10.0.0.1:80; }
      server {
        listen 80;
        location / { proxy_pass http://tgi; proxy_set_header Host $$host; }
      }
"""


def found(capsys, path):
    code, out, _ = call(capsys, path, "--format", "json")
    return code, {(one["code"], one["file"].rsplit("/", 1)[-1], one["line"]) for one in json.loads(out)}


@pytest.mark.parametrize("name", ["compose.yaml", "docker-compose.yml"])
@pytest.mark.parametrize("by_folder", [True, False])
def test_what_a_balancer_has_mounted(tmp_path, capsys, name, by_folder):
    (tmp_path / name).write_text(MOUNTED)
    (tmp_path / "site.conf").write_text(SITE)
    code, problems = found(capsys, tmp_path if by_folder else tmp_path / name)
    assert code == 1
    assert ("buffered-streams", "site.conf", 4) in problems
    assert "connection-closed" not in {
        code for code, _, _ in problems
    }  # right by default in the image's 1.29.8


def test_a_configuration_inside_the_compose_file(tmp_path, capsys):
    (tmp_path / "compose.yaml").write_text(INSIDE)
    _, problems = found(capsys, tmp_path)
    assert {("buffered-streams", "compose.yaml", 12), ("connection-closed", "compose.yaml", 12)} <= problems
    assert not {"configuration-syntax", "upstream-name-as-host"} & {code for code, _, _ in problems}


def test_a_tag_without_a_patch_has_no_known_holes(tmp_path, capsys):
    (tmp_path / "compose.yaml").write_text(MOUNTED.replace("1.29.8-alpine", "1.22"))
    (tmp_path / "site.conf").write_text(SITE)
    assert "known-hole" not in {code for code, _, _ in found(capsys, tmp_path)[1]}


def test_a_compose_file_without_a_balancer(tmp_path, capsys):
    (tmp_path / "compose.yaml").write_text("services: {web: {image: python}}\n")
    code, _, err = call(capsys, tmp_path / "compose.yaml")
    assert code == 2
    assert "no service with an image of NGINX or HAProxy" in err


@pytest.mark.parametrize(
    "odd",
    [
        "include: [other.yaml]\n",
        "services:\n",
        "services: [nginx]\n",
        MOUNTED.replace('["./site.conf:/etc/nginx/conf.d/default.conf:ro"]', "5"),
        MOUNTED + "    configs: [5, [site]]\n",
        MOUNTED + "    configs: 5\nconfigs: 5\n",
    ],
)
def test_an_odd_compose_file_beside_a_configuration_is_passed_over(tmp_path, capsys, odd):
    (tmp_path / "compose.yaml").write_text(odd)
    (tmp_path / "site.conf").write_text(SITE)
    code, problems = found(capsys, tmp_path)
    assert code == 1
    assert ("buffered-streams", "site.conf", 4) in problems


def test_a_mounted_file_that_is_made_elsewhere_leaves_the_folder(tmp_path, capsys):
    (tmp_path / "compose.yaml").write_text(MOUNTED)
    (tmp_path / "other.conf").write_text(SITE)
    assert ("buffered-streams", "other.conf", 4) in found(capsys, tmp_path)[1]


@pytest.mark.parametrize("order", [("1.29.8", "1.22.1"), ("1.22.1", "1.29.8")])
def test_two_versions_are_none(tmp_path, capsys, order):
    services = "".join(
        MOUNTED.replace("services:\n", "").replace("1.29.8-alpine", tag).replace("lb:", f"lb{number}:")
        for number, tag in enumerate(order)
    )
    (tmp_path / "compose.yaml").write_text(f"services:\n{services}")
    (tmp_path / "site.conf").write_text(SITE)
    assert "connection-closed" in {code for code, _, _ in found(capsys, tmp_path)[1]}
