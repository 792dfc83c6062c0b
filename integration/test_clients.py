"""Each API of OpenAI and Ollama by its own client, through every balancer: whole, in pieces, uploads."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import ollama
import openai
import pytest
from websockets.sync.server import serve

from integration.fronts import FRONTS, front
from integration.openai_server import OpenAiServer
from integration.test_realtime import realtime

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.lab.rig import Rig

MODEL = "m"
HI: Any = [{"role": "user", "content": "hi"}]
UPLOAD = bytes(5 * 1024**2)


class Site(NamedTuple):
    """A running balancer, in front of a server for each API."""

    url: str

    @property
    def openai(self) -> openai.OpenAI:
        """Return OpenAI's client."""
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key="-", max_retries=0, timeout=30)

    @property
    def ollama(self) -> ollama.Client:
        """Return Ollama's client."""
        return ollama.Client(host=self.url, timeout=30)


@pytest.fixture(scope="module", params=FRONTS, ids=str)
def site(
    request: pytest.FixtureRequest, rig: Rig, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    with ExitStack() as stack:
        chat, local = (stack.enter_context(OpenAiServer(rig.gateway, name)) for name in ("chat", "local"))
        voice = stack.enter_context(serve(realtime, rig.gateway, 0))
        threading.Thread(target=voice.serve_forever, daemon=True).start()
        places = {"chat": chat.address, "local": local.address}
        places["voice"] = f"{rig.gateway}:{voice.socket.getsockname()[1]}"
        engines = {"chat": "vllm", "local": "ollama", "voice": "http"}
        fleet: dict[str, Any] = {
            "pools": {
                name: {"engine": engines[name], "health": False, "servers": [place]}
                for name, place in places.items()
            },
            "listeners": {
                "public": {
                    "routes": [
                        {"path": "/v1", "pool": "chat"},
                        {"path": "/v1/realtime", "websocket": True, "pool": "voice"},
                        {"path": "/api", "pool": "local"},
                    ]
                }
            },
        }
        folder = tmp_path_factory.mktemp("front")
        yield Site(stack.enter_context(front(rig, request.param, fleet, folder)).url)


def test_chat(site: Site) -> None:
    with site.openai as client:
        said = client.chat.completions.create(model=MODEL, messages=HI)
        assert said.choices[0].message.content == "It is chat"
        chunks = list(client.chat.completions.create(model=MODEL, messages=HI, stream=True))
        assert [chunk.choices[0].delta.content for chunk in chunks] == ["It", " is ", "chat", ""]


def test_responses(site: Site) -> None:
    with site.openai as client, client.responses.create(model=MODEL, input="hi", stream=True) as stream:
        kinds = [event.type for event in stream]
    assert kinds == ["response.created", "response.output_text.delta", "response.completed"]


def test_embeddings(site: Site) -> None:
    with site.openai as client:
        made = client.embeddings.create(model=MODEL, input="hi", encoding_format="float")
    assert (made.model, made.data[0].embedding) == ("chat", [0.5, 0.25])


def test_audio(site: Site) -> None:
    with site.openai as client:
        heard = client.audio.transcriptions.create(model=MODEL, file=("a.wav", UPLOAD))
        assert heard.text == f"chat {len(UPLOAD)}"
        assert client.audio.speech.create(model=MODEL, voice="alloy", input="hi").read() == b"chat"


def test_images(site: Site) -> None:
    with site.openai as client:
        made = client.images.generate(model=MODEL, prompt="a cat")
        assert made.data is not None
        assert made.data[0].url == "http://chat/0"
        edited = client.images.edit(model=MODEL, prompt="a dog", image=("a.png", UPLOAD, "image/png"))
        assert edited.data is not None
        assert edited.data[0].url == f"http://chat/{len(UPLOAD)}"


def test_files_and_batches(site: Site) -> None:
    with site.openai as client:
        file = client.files.create(file=("batch.jsonl", UPLOAD), purpose="batch")
        assert client.files.content(file.id).read() == UPLOAD
        batch = client.batches.create(
            input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h"
        )
        assert client.batches.retrieve(batch.id).input_file_id == file.id


# openai 3.57 opens it in the way that websockets 17 calls old.
@pytest.mark.filterwarnings("ignore:connect:DeprecationWarning")
def test_realtime(site: Site) -> None:
    with site.openai as client, client.realtime.connect(model="voxtral-mini") as connection:
        created: Any = connection.recv()
        assert created.type == "session.created"
        connection.send({"type": "response.create"})
        answer: Any = connection.recv()
        assert answer.type == "response.create"


def test_ollama(site: Site) -> None:
    client = site.ollama
    with client:
        assert client.chat(model=MODEL, messages=HI).message.content == "local"
        pieces = list(client.chat(model=MODEL, messages=HI, stream=True))
        assert [piece.message.content for piece in pieces] == ["local"] * 3
        assert [piece.done for piece in pieces] == [False, False, True]
        assert client.generate(model=MODEL, prompt="hi").response == "local"
        assert client.embed(model=MODEL, input="hi").embeddings == [[0.5]]
        assert client.show(MODEL).details is not None
        with pytest.raises(ollama.ResponseError, match="administers") as caught:
            client.delete(MODEL)
        assert caught.value.status_code == 403
