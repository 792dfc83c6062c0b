"""The page of the answers that balancers give themselves says what stands in the rendered files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from lbgen.targets.common.answers import ANSWERS, WHEN
from tests.targets.loaded import files

if TYPE_CHECKING:
    import pytest

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "answers.md"
TARGETS = {"nginx": ("NGINX", "1.22"), "haproxy": ("HAProxy", "2.6"), "envoy": ("Envoy", "1.36")}

EVERYTHING = """\
pools:
  llama: {engine: vllm, models: ["llama*"], servers: ["gpu-0:8000", "gpu-1:8000"], max_in_flight: 8}
  other: {engine: vllm, models: [other], servers: ["gpu-2:8000"]}
listeners:
  one:
    bind: 8443
    hosts: [one.example]
    tls: {bundle: one.pem, client_ca: one-ca.pem}
    auth: {clients: all}
    limits: [{rate: 600/m}]
    allow: [10.0.0.0/8]
  two: {bind: 8443, hosts: [two.example], tls: {bundle: two.pem, client_ca: two-ca.pem}, auth: none}
  long:
    bind: "127.0.0.1:8080"
    auth: none
    routes: [{max_tokens_over: 4096, pool: llama}, {pool: other}]
clients:
  all: {key: env:ALL}
  some: {key: env:SOME}
"""
"""A fleet that has an occasion for each answer but one."""
BY_POOL = """\
pools: {a: {servers: ["gpu-0:8000"]}, b: {servers: ["gpu-1:8000"]}}
listeners: {one: {bind: "127.0.0.1:8080", auth: {clients: all}, routes: [{path: /b, pool: b}, {pool: a}]}}
clients: {all: {key: env:ALL}, some: {key: env:SOME, pools: [a]}}
"""
"""A fleet for that one: Envoy tells clients of pools from others where no body decides alone."""

_HEAD = """\
# Answers of the balancer itself

What a client gets when no server answers: JSON in the form of OpenAI's errors, on every target the same.

```json
{"error": {"message": "No route of this gateway fits the request.", "type": "invalid_request_error", "param": null, "code": "not_found"}}
```

`X-Request-Id` is with it wherever the request could be read, `Retry-After` where waiting helps, and what `cors` and the
listener's `response_headers` say. What a server answers is never changed: a 503 from an engine has its own words.
What HAProxy cannot read as a request, or not within `timeouts.header`, gets a page of its own, HTML: 400 or 408.
NGINX and Envoy answer `Expect: 100-continue` before they refuse, so a client without a key may send a whole body, which
is discarded. HAProxy refuses at once.

| status | `error.code` | when | NGINX | HAProxy | Envoy |
|---|---|---|---|---|---|
"""  # noqa: E501 - an answer is one line
_TAIL = """
Answers that are no errors:

| status | what | when |
|---|---|---|
| 200 | `{"status": "ok"}` | the probes of `status`; `ready` is 503 `service_unavailable` while it is not |
| 200 | models that the key may use | `GET /v1/models` where `models` decide; Ollama's `/api/tags` likewise |
| 204 | nothing | a preflight, where `cors` is written |
| 308 | `Location` | plain HTTP at `redirect_from` |
| any | `respond` | a route with a fixed answer |

This page is made from the answers, and from files that were rendered with all of them; `pytest tests/targets
--update-golden` writes it anew.
"""


def given(target: str) -> set[str]:
    """Return the codes of the answers in the files of one target."""
    rendered = [files(fleet, target, TARGETS[target][1]) for fleet in (EVERYTHING, BY_POOL)]
    texts = (text for one in rendered for text in one.values())
    # In a text with an apostrophe NGINX's quotes are escaped.
    said = (line for text in texts for line in text.splitlines() if "param" in line)
    return {code for line in said for code in re.findall(r"code\W+(\w+)", line)}


def page() -> str:
    codes = {target: given(target) for target in TARGETS}
    rows = []
    for name, answer in sorted(ANSWERS.items(), key=lambda item: item[1].status):
        marks = ["yes" if answer.code in codes[target] else "no" for target in TARGETS]
        rows.append(f"| {answer.status} | `{answer.code}` | {WHEN[name]} | {' | '.join(marks)} |\n")
    return _HEAD + "".join(rows) + _TAIL


def test_the_page_says_what_is_rendered(request: pytest.FixtureRequest) -> None:
    text = page()
    if request.config.getoption("--update-golden"):
        PAGE.write_text(text)
    assert PAGE.read_text() == text, "pytest tests/targets --update-golden writes it anew"


def test_each_answer_is_told_and_given_somewhere() -> None:
    assert WHEN.keys() == ANSWERS.keys()
    codes = {answer.code for answer in ANSWERS.values()}
    assert len(codes) == len(ANSWERS)
    assert codes == set.union(*map(given, TARGETS))


def test_what_only_one_target_answers_is_told() -> None:
    assert given("nginx") - given("haproxy") == {
        "https_required",
        "client_certificate_required",
        "odd_spelling",
    }
    assert given("haproxy") - given("nginx") == {"request_timeout"}
    assert given("envoy") <= given("haproxy")
    assert given("haproxy") - given("envoy") == {"uri_too_long"}
