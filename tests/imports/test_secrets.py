"""Secrets of a configuration are in no fleet file, no list and no comment."""

from __future__ import annotations

import pytest

from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.imports.ledger import shortened
from lbgen.imports.whole import import_configurations
from tests.imports.test_guards import PROXY, SITE

SECRET = "topsecret"
NGINX = [
    'proxy_set_header X-Goog "Bearer topsecret";',
    'proxy_set_header X-Custom "Basic topsecret";',
    "proxy_set_header X-Vendor-Id hf_topsecret;",
    "proxy_set_header X-Api-Key topsecret;",
    "proxy_set_header api-key topsecret; proxy_set_header Cookie session=topsecret;",
    'proxy_set_header Authorization "Bearer topsecret$suffix";',
    'add_header X-Token "topsecret";',
    "rewrite ^/x /y?key=topsecret break;",
    "proxy_cookie_path / /?a=topsecret;",
    "auth_request /ask; } location = /ask { proxy_pass http://user:topsecret@10.0.0.9:80/;",
    "auth_request /ask; } location = /ask { proxy_pass http://10.0.0.9:80/x?token=topsecret;",
    '} location /a { return 200 \'{"api_key":"topsecret"}\';',
    "# the key: topsecret\n",
]
HAPROXY = [
    'http-request set-header X-Goog "Bearer topsecret"',
    "http-request set-header X-Api-Key topsecret",
    "http-request add-header X-Vendor-Id hf_topsecret",
    "http-response set-header X-Token topsecret",
    "http-request set-header X-Token topsecret if { path /x }",
    "http-request set-path /x?key=topsecret",
    "use_backend others if { hdr(X-Api-Key) topsecret }",
    "use_backend others if { urlp(key) topsecret }",
    (
        'http-request return status 200 content-type a/json string "{\\"api_key\\":\\"topsecret\\"}" '
        "if { path /a }"
    ),
]
CHECKS = [
    "http-check send meth GET uri /health?token=topsecret hdr X-Key topsecret",
    "http-check send hdr X-Goog 'Bearer topsecret'",
    "option httpchk GET /health?key=topsecret",
]


def said(tmp_path, name, text):
    """Return the fleet file, that of init with its comments, and the list of what was left."""
    (tmp_path / name).write_text(text)
    found = import_configurations([str(tmp_path / name)])
    plain = found.text(comments=False)
    loaded = load([Source("fleet.yaml", plain)], environ={})
    assert [problem for problem in loaded.problems if problem.is_error] == []
    assert "SECRET" not in "".join(name for name, _, _ in found.secrets)
    return plain, found.text(comments=True) + "\n".join(one.line() for one in found.entries)


@pytest.mark.parametrize("line", NGINX)
def test_no_secret_of_nginx_is_copied(tmp_path, line):
    plain, rest = said(tmp_path, "nginx.conf", SITE.format(server="", location=line, others=""))
    assert SECRET not in plain
    assert SECRET not in rest


@pytest.mark.parametrize("line", HAPROXY)
def test_no_secret_of_a_frontend_is_copied(tmp_path, line):
    plain, rest = said(tmp_path, "haproxy.cfg", PROXY.format(front=line, back=""))
    assert SECRET not in plain
    assert SECRET not in rest


@pytest.mark.parametrize("line", CHECKS)
def test_no_secret_of_a_check_is_copied(tmp_path, line):
    text = PROXY.format(front="", back=f"option httpchk\n  {line}").replace(
        "10.0.0.1:8000", "10.0.0.1:1 check"
    )
    plain, rest = said(tmp_path, "haproxy.cfg", text)
    assert SECRET not in plain
    assert SECRET not in rest


def test_several_secret_headers_become_references(tmp_path):
    line = "proxy_set_header X-Api-Key topsecret; proxy_set_header X-Goog 'Bearer topsecret';"
    plain, _ = said(tmp_path, "nginx.conf", SITE.format(server="", location=line, others=""))
    assert 'X-Api-Key: "env:UPSTREAM_X_API_KEY"' in plain
    assert 'X-Goog: "env:UPSTREAM_X_GOOG"' in plain


def test_plain_headers_stay(tmp_path):
    line = "proxy_set_header X-Pool one; add_header X-Served-By edge;"
    plain, _ = said(tmp_path, "nginx.conf", SITE.format(server="", location=line, others=""))
    assert "X-Pool: one" in plain
    assert "X-Served-By: edge" in plain


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["proxy_pass", "http://bob:pw@h/x?a=1&b=2"], "proxy_pass http://***@h/x?a=***&b=***"),
        (["proxy_set_header", "X-Api-Key", "pw"], "proxy_set_header X-Api-Key ***"),
        (["proxy_set_header", "Authorization", "$http_x"], "proxy_set_header Authorization $http_x"),
        (["rewrite", "^/a$", "/b?key=pw", "last"], "rewrite ^/a$ /b?key=*** last"),
        (
            ["use_backend", "b", "if", "{", "hdr(X-Token)", "-m", "str", "pw", "}"],
            "use_backend b if { hdr(X-Token) -m str *** }",
        ),
        (["secure_link_secret", "pw"], "secure_link_secret ***"),
        (["ssl_certificate_key", "/etc/a.key"], "ssl_certificate_key /etc/a.key"),
        (["x", "password=pw"], "x password=***"),
    ],
)
def test_what_is_listed_shows_no_secret(words, shown):
    assert shortened(words) == shown


@pytest.mark.parametrize(
    ("base", "address"),
    [
        ("http://bob:topsecret@10.0.0.1:8000/v1", "10.0.0.1:8000"),
        ("https://bob:topsecret@gpu.example.org", "gpu.example.org:443"),
        ("http://10.0.0.1:8000/v1?token=topsecret", "10.0.0.1:8000"),
        ("http://bob:top@secret@10.0.0.1:8000", "10.0.0.1:8000"),
        ("http://bob:topsecret/x@10.0.0.1:8000", None),
        ("http://topsecret@@", None),
    ],
)
def test_users_and_passwords_of_litellm_are_not_copied(base, address, tmp_path):
    text = "model_list:\n- {model_name: other, litellm_params: {model: openai/x, api_base: 'http://10.0.0.9:80'}}\n"
    text += f"- {{model_name: llama, litellm_params: {{model: openai/x, api_base: '{base}'}}}}\n"
    plain, listed = said(tmp_path, "config.yaml", text)
    assert (address or "llama") in (plain if address else listed)
    assert "topsecret" not in plain + listed
    assert "secret" not in plain
    assert "config.yaml:3: model_name llama: " in listed
