from __future__ import annotations

import json
import re

import jsonschema
import yaml


def test_defaults_are_filled_in_and_the_result_is_a_fleet_again(lbgen, smallest):
    ended = lbgen("show", smallest)
    assert ended.code == 0
    shown = yaml.safe_load(ended.out)
    assert shown["pools"]["chat"]["strategy"] in ("least_conn", {"name": "least_conn"})
    again = lbgen("show", "-", "--format", "json", stdin=ended.out)
    assert again.code == 0
    first = lbgen("show", smallest, "--format", "json")
    assert json.loads(again.out)["fleet"] == json.loads(first.out)["fleet"]


def without_digest(text):
    return re.sub(r"\b[0-9a-f]{12}\b", "", text)


def test_what_is_shown_renders_the_same(lbgen, smallest):
    shown = lbgen("show", smallest).out
    before = lbgen("render", smallest, "-t", "haproxy").out
    assert "gpu-1" in before
    assert without_digest(lbgen("render", "-", "-t", "haproxy", stdin=shown).out) == without_digest(
        before.replace(f"fleet {smallest.stem}", "fleet fleet")
    )


def test_secrets_are_not_shown(lbgen, tmp_path, monkeypatch):
    monkeypatch.setenv("TEAM_KEY", "sk-very-secret")
    (tmp_path / "keys.yaml").write_text(
        'pools: {chat: {servers: [gpu-0:8000]}}\nclients: {team: {key: "env:TEAM_KEY"}}\n'
        'listeners: {public: {bind: "127.0.0.1:8080", auth: {clients: all}}}\n'
    )
    ended = lbgen("show", "keys.yaml", "-t", "nginx")
    assert ended.code == 0
    assert "env:TEAM_KEY" in ended.out
    assert "sk-" not in ended.out


def test_the_schema_accepts_the_smallest_fleet(lbgen, smallest):
    ended = lbgen("schema")
    assert ended.code == 0
    schema = json.loads(ended.out)
    assert "draft-07" in schema["$schema"]
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.Draft7Validator(schema).validate(yaml.safe_load(smallest.read_text()))
