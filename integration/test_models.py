"""Where the model of a request is: body, form, query and path; and what no model leads to."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import ollama
import openai
import pytest

from integration.edge import Ask, Got, send
from integration.fleets import TARGETS
from integration.forms import BOUNDARY, ENCODED, PARTS, form, part

if TYPE_CHECKING:
    from collections.abc import Mapping

    from integration.edge import Edge

MODELS, CONDITIONS, AZURE = 8080, 8081, 8082
MIB = 1024**2
FLEET: dict[str, Any] = {
    "pools": {
        "chat": {"engine": "vllm", "models": ["model-a", "org/a*"], "servers": ["gpu-0:8000"]},
        "audio": {"engine": "vllm", "models": ["whisper-1", "voxtral*"], "servers": ["gpu-1:8000"]},
        "local": {
            "engine": "ollama",
            "models": ["llama3:8b"],
            "servers": ["gpu-2:8000"],
            "health": False,
        },
    },
    "listeners": {
        "models": {"bind": str(MODELS), "websocket": True},
        "conditions": {
            "bind": str(CONDITIONS),
            "routes": [
                {"query": {"model": "voxtral*"}, "pool": "audio"},
                {"form": {"kind": "speech*", "parts[]": "1"}, "pool": "chat"},
                {"name": "rest", "pool": "local"},
            ],
        },
        "azure": {
            "bind": str(AZURE),
            "routes": [
                {
                    "path": "/openai/deployments/{model}",
                    "strip_prefix": True,
                    "add_prefix": "/v1",
                    "model": model,
                    "pool": pool,
                }
                for model, pool in (("model-a", "chat"), ("whisper-1", "audio"))
            ],
        },
    },
}
JSON = {"Content-Type": "application/json"}
CHAT, AUDIO, LOCAL = "gpu-0", "gpu-1", "gpu-2"
WAV = part("file", b"RIFF\r\n--\r\n--lb-test", "a.wav", "Content-Type: audio/wav")
SPEECH = "/v1/audio/transcriptions"


class Case(NamedTuple):
    """A request and the server that gets it, or the code of the refusal."""

    path: str
    body: bytes
    headers: Mapping[str, str]
    goes: str


FOUND = {
    "JSON": Case("/v1/x", b'{"model":"model-a"}', JSON, CHAT),
    "JSON before the query": Case("/v1/x?model=whisper-1", b'{"model":"org\\/a1"}', JSON, CHAT),
    "the query behind JSON": Case("/v1/x?model=whisper-1", b'{"input":"hi"}', JSON, AUDIO),
    "JSON with curl's type": Case("/v1/x", b'{"model":"model-a"}', ENCODED, CHAT),
    "an encoded form": Case(SPEECH, b"a=1&model=org%2Fa1", ENCODED, CHAT),
    "a field's name in escapes": Case(SPEECH, b"a=1&mod%65l=org/a1", ENCODED, CHAT),
    "a part before the file": Case(SPEECH, form(part("model", "whisper-1"), WAV), PARTS, AUDIO),
    "a part behind the file": Case(SPEECH, form(WAV, part("model", "voxtral-mini")), PARTS, AUDIO),
    "a part with headers": Case(
        SPEECH,
        form(part("model", "whisper-1", "", "Content-Type: text/plain", "Content-Transfer-Encoding: 8bit")),
        PARTS,
        AUDIO,
    ),
    "a quoted boundary": Case(
        SPEECH,
        form(part("model", "whisper-1")),
        {"Content-Type": f'multipart/form-data; charset=utf-8; boundary="{BOUNDARY}"'},
        AUDIO,
    ),
    "5 MiB of audio": Case(
        SPEECH, form(part("model", "whisper-1"), part("file", bytes(5 * MIB), "a.wav")), PARTS, AUDIO
    ),
    "the query behind a form": Case("/v1/x?model=voxtral", form(WAV), PARTS, AUDIO),
    "the query": Case("/v1/realtime?a=b&model=org%2Fa7", b"", {}, CHAT),
    "the query beside SDP": Case(
        "/v1/realtime/calls?model=voxtral", b"v=0\r\n", {"Content-Type": "application/sdp"}, AUDIO
    ),
    "a model's page": Case("/v1/models/org/a3", b"", {}, CHAT),
    "a model's page in escapes": Case("/v1/models/org%2Fa3", b"", {}, CHAT),
    "Azure's path": Case("/openai/deployments/whisper-1/x", b'{"model":"model-a"}', JSON, AUDIO),
    "Azure's path before what hides": Case(
        "/openai/deployments/whisper-1/x", b"?", {"Content-Encoding": "gzip"}, AUDIO
    ),
    "Ollama's name": Case("/api/show", b'{"name":"llama3:8b"}', JSON, LOCAL),
    "Ollama's model": Case("/api/chat", b'{"model":"llama3:8b"}', JSON, LOCAL),
    "no other API's name": Case("/v1/x", b'{"name":"llama3:8b"}', JSON, "not_found"),
    "an unknown model in a form": Case(SPEECH, form(part("model", "gpt")), PARTS, "model_not_found"),
    "no model in a form": Case(SPEECH, form(WAV), PARTS, "not_found"),
    "two models in parts": Case(
        SPEECH, form(part("model", "whisper-1"), part("model", "model-a")), PARTS, "invalid_form"
    ),
    "two models in a form": Case(SPEECH, b"model=model-a&mod%65l=whisper-1", ENCODED, "invalid_form"),
    "two models in the query": Case("/v1/x?model=model-a&model=voxtral", b"", {}, "invalid_form"),
    "another boundary": Case(
        SPEECH,
        form(part("model", "whisper-1")),
        {"Content-Type": "multipart/form-data; boundary=other"},
        "invalid_form",
    ),
    "two boundaries": Case(
        SPEECH,
        form(part("model", "whisper-1")),
        {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}; boundary=other"},
        "invalid_form",
    ),
    "a part in base64": Case(
        SPEECH,
        form(part("model", "d2hpc3Blci0x", "", "Content-Transfer-Encoding: base64")),
        PARTS,
        "invalid_form",
    ),
    "half a form": Case(SPEECH, form(part("model", "whisper-1"))[:-8], PARTS, "invalid_form"),
    "a model behind the end": Case(SPEECH, form(WAV) + part("model", "whisper-1"), PARTS, "not_found"),
    "a response": Case("/v1/responses/resp_1", b"", {}, "object_of_a_server"),
    "a file": Case("/v1/files", form(WAV), PARTS, "object_of_a_server"),
    "a batch": Case("/v1/batches", b'{"input_file_id":"file-1"}', JSON, "object_of_a_server"),
}


def outcome(got: Got) -> str:
    return got.server or got.code


def asked(case: Case) -> Ask:
    return Ask(case.path, "POST" if case.body else "GET", case.headers, case.body)


@pytest.mark.parametrize("name", FOUND)
def test_the_model_is_found_or_refused(edge: Edge, name: str) -> None:
    got = edge.same(asked(FOUND[name]), MODELS)
    assert outcome(got) == FOUND[name].goes


def test_needless_escapes_lead_nowhere_else(edge: Edge) -> None:
    """NGINX cannot undo them, and says so."""
    case = Case(SPEECH, b"model=m%6fdel-a", ENCODED, "")
    got = {name: outcome(one) for name, one in edge.each(asked(case), MODELS).items()}
    assert got == {"nginx": "odd_spelling", "haproxy": CHAT}


def test_a_model_behind_a_long_file_is_found_or_refused(edge: Edge) -> None:
    """HAProxy looks at the first MiB."""
    case = Case(SPEECH, form(part("file", bytes(5 * MIB), "a.wav"), part("model", "whisper-1")), PARTS, "")
    got = {name: outcome(one) for name, one in edge.each(asked(case), MODELS).items()}
    assert got == {"nginx": AUDIO, "haproxy": "model_not_readable"}


@pytest.mark.parametrize(
    ("path", "body", "headers", "goes"),
    [
        ("/x?model=voxtral", b"", {}, AUDIO),
        ("/x?a=b&mod%65l=voxtral-mini", b"", {}, AUDIO),
        ("/x?models=voxtral", b"", {}, LOCAL),
        ("/x?model=voxtral&model=other", b"", {}, "bad_request"),
        ("/x?model=vo%78tral", b"", {}, "bad_request"),
        ("/x", form(part("kind", "speech-1"), part("parts[]", "1")), PARTS, CHAT),
        ("/x", form(part("kind", "speech-1"), part("parts[]", "2")), PARTS, LOCAL),
        ("/x", b"parts%5B%5D=1&kind=speech", ENCODED, CHAT),
        ("/x", b"kind=speech&kind=other&parts[]=1", ENCODED, "invalid_form"),
        ("/x", b'{"kind":"speech","parts[]":"1"}', JSON, LOCAL),
    ],
)
def test_conditions_of_query_and_form(
    edge: Edge, path: str, body: bytes, headers: dict[str, str], goes: str
) -> None:
    assert outcome(edge.same(asked(Case(path, body, headers, goes)), CONDITIONS)) == goes


@pytest.mark.parametrize("target", TARGETS)
def test_an_azure_client_reaches_the_engines_own_path(edge: Edge, target: str) -> None:
    url = f"http://{edge.balancers[target].address}:{AZURE}"
    with openai.AzureOpenAI(
        azure_endpoint=url, api_key="-", api_version="2024-10-21", max_retries=0, default_headers=ECHO
    ) as client:
        chat = client.chat.completions.with_raw_response.create(
            model="model-a", messages=[{"role": "user", "content": "hi"}]
        )
        assert (chat.headers["x-mock-server"], target_of(chat)) == (CHAT, "/v1/chat/completions")
        speech = client.audio.transcriptions.with_raw_response.create(
            model="whisper-1", file=("a.wav", bytes(2 * MIB))
        )
        assert (speech.headers["x-mock-server"], target_of(speech)) == (AUDIO, "/v1/audio/transcriptions")


ECHO = {"x-mock-echo": "{}"}


def target_of(answer: Any) -> str:
    """Return the path that the server saw."""
    return str(json.loads(answer.http_response.content)["target"]).partition("?")[0]


@pytest.mark.parametrize("target", TARGETS)
def test_openais_client_sends_audio_and_pictures(edge: Edge, target: str) -> None:
    url = f"http://{edge.balancers[target].address}:{MODELS}/v1"
    picture = ("a.png", bytes(3 * MIB), "image/png")
    with openai.OpenAI(base_url=url, api_key="-", max_retries=0, default_headers=ECHO) as client:
        answers: list[Any] = [
            client.audio.transcriptions.with_raw_response.create(
                model="whisper-1", file=("a.wav", bytes(5 * MIB))
            ),
            client.images.with_raw_response.edit(model="whisper-1", image=[picture, picture], prompt="hi"),
        ]
        assert [answer.headers["x-mock-server"] for answer in answers] == [AUDIO, AUDIO]
        assert [model.id for model in client.models.list()] == ["model-a", "whisper-1", "llama3:8b"]
        with pytest.raises(openai.NotFoundError, match="kept by the server that made it"):
            client.responses.retrieve("resp_1")
        with pytest.raises(openai.NotFoundError, match="kept by the server that made it"):
            client.files.create(file=b"{}", purpose="batch")


@pytest.mark.parametrize("target", TARGETS)
def test_ollamas_client_sees_the_fleet(edge: Edge, target: str) -> None:
    with ollama.Client(host=f"http://{edge.balancers[target].address}:{MODELS}") as client:
        assert [model.model for model in client.list().models] == ["llama3:8b"]
        assert [model.model for model in client.ps().models] == ["llama3:8b"]
        with pytest.raises(ollama.ResponseError) as caught:
            client.chat(model="gpt", messages=[])
    assert caught.value.status_code == 404


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    ("path", "text"),
    [("/", b"Ollama is running"), ("/api/version", b'{"version":"'), ("/api/tags", b"llama3")],
)
def test_what_ollama_answers_without_a_model(edge: Edge, method: str, path: str, text: bytes) -> None:
    got = edge.same(Ask(path, method), MODELS)
    assert (got.status, got.server) == (200, "")
    assert text in got.body if method == "GET" else not got.body


HOSTILE = {
    "line ends": form(part("file", b"\r" * MIB, "a"), part("model", "whisper-1")),
    "beginnings of a boundary": form(part("file", f"\r\n--{BOUNDARY[:-1]}".encode() * 50_000, "a")),
    "parts throughout": form(*[part("a", "b")] * 15_000),
    "headers throughout": f"--{BOUNDARY}\r\n".encode() + b"A: b\r\n" * 170_000,
    "blanks in headers": form(*[part("a" + '"' + " " * 4000 + '"', "b")] * 250),
    "fields throughout": b"&" * (MIB - 99),
    "escapes throughout": b"%6d" * (MIB // 3 - 99),
}


@pytest.mark.alone
@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("target", TARGETS)
def test_forms_that_wear_out_a_parser_are_soon_done_with(edge: Edge, target: str, name: str) -> None:
    """They take no longer than they take to arrive, and some."""
    balancer = edge.balancers[target]
    kind = PARTS if HOSTILE[name].startswith(b"--") else ENCODED
    begun = time.monotonic()
    for _ in range(4):
        send(balancer.address, MODELS, Ask(SPEECH, "POST", kind, HOSTILE[name]))
    assert time.monotonic() - begun < 4 * 0.3
