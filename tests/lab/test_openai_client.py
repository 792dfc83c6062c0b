"""The official client of OpenAI talks to the mock GPU server as to the real thing."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import openai
import pytest

HI = [{"role": "user", "content": "hi"}]
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]


@asynccontextmanager
async def client_of(lab, **options):
    settings = {"base_url": f"{lab.url}/v1", "api_key": "sk-x", "max_retries": 0} | options
    async with openai.AsyncOpenAI(**settings) as client:
        yield client


def asked(with_lab, question, **settings):
    async def inside(lab):
        async with client_of(lab) as client:
            return await question(client)

    return with_lab(inside, **settings)


def chat(with_lab, **fields):
    return asked(
        with_lab,
        lambda client: client.chat.completions.create(**({"model": "m", "messages": HI} | fields)),
    )


def streamed(with_lab, **fields):
    async def question(client):
        stream = await client.chat.completions.create(
            **({"model": "m", "messages": HI, "stream": True} | fields)
        )
        return [chunk async for chunk in stream]

    return asked(with_lab, question, chunk_s=0.0)


def test_a_chat(with_lab):
    answer = chat(with_lab, max_tokens=7, temperature=0.2)
    (choice,) = answer.choices
    assert (choice.message.role, len(choice.message.content.split())) == ("assistant", 7)
    assert (choice.finish_reason, answer.model) == ("length", "m")
    assert answer.usage.completion_tokens == 7
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 7


def test_a_stream_with_usage(with_lab):
    *chunks, last = streamed(with_lab, max_tokens=30, stream_options={"include_usage": True})
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert len(text.split()) == 30
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].choices[0].finish_reason == "length"
    assert (last.choices, last.usage.completion_tokens) == ([], 30)
    assert len({chunk.id for chunk in [*chunks, last]}) == 1


def test_a_stream_says_no_usage_unasked(with_lab):
    assert all(chunk.usage is None for chunk in streamed(with_lab, max_tokens=3))


def test_completions(with_lab):
    async def question(client):
        whole = await client.completions.create(model="m", prompt=["one", "two"], max_tokens=4, n=2)
        stream = await client.completions.create(model="m", prompt="one", max_tokens=4, stream=True)
        return whole, [chunk async for chunk in stream]

    whole, chunks = asked(with_lab, question)
    assert [choice.index for choice in whole.choices] == [0, 1, 2, 3]
    assert whole.usage.completion_tokens == 16
    assert len("".join(chunk.choices[0].text for chunk in chunks).split()) == 4


def test_several_choices(with_lab):
    assert [choice.index for choice in chat(with_lab, n=3, max_tokens=2).choices] == [0, 1, 2]
    texts = {}
    for chunk in streamed(with_lab, n=3, max_tokens=5):
        (choice,) = chunk.choices
        texts[choice.index] = texts.get(choice.index, "") + choice.delta.content
    assert [len(texts[index].split()) for index in (0, 1, 2)] == [5, 5, 5]


@pytest.mark.parametrize("stop", [" has", ["nowhere", " has"]])
def test_stop_words(with_lab, stop):
    (choice,) = chat(with_lab, max_tokens=20, stop=stop).choices
    assert (choice.message.content, choice.finish_reason) == ("the gpu", "stop")


def test_without_a_bound_the_answer_ends_by_itself(with_lab):
    assert chat(with_lab).choices[0].finish_reason == "stop"


def test_tools(with_lab):
    assert chat(with_lab, tools=TOOLS, max_tokens=2).choices[0].message.tool_calls is None
    (choice,) = chat(with_lab, tools=TOOLS, tool_choice="required", max_tokens=6).choices
    (call,) = choice.message.tool_calls
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
    assert (call.type, call.function.name) == ("function", "weather")
    assert json.loads(call.function.arguments)


def test_tools_in_a_stream(with_lab):
    named = {"type": "function", "function": {"name": "weather"}}
    chunks = streamed(with_lab, tools=TOOLS, tool_choice=named, max_tokens=9)
    calls = [chunk.choices[0].delta.tool_calls[0] for chunk in chunks]
    assert (calls[0].id is not None, calls[0].function.name) == (True, "weather")
    assert len(json.loads("".join(call.function.arguments for call in calls))["text"].split()) == 9
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


def test_the_clients_own_helpers(with_lab):
    async def question(client):
        async with client.chat.completions.stream(model="m", messages=HI) as stream:
            kinds = [event.type async for event in stream]
            return kinds, await stream.get_final_completion()

    kinds, answer = asked(with_lab, question)
    assert "content.delta" in kinds
    assert answer.choices[0].message.content.split()[:3] == ["the", "gpu", "has"]


def test_models(with_lab):
    async def question(client):
        names = [model.id async for model in client.models.list()]
        with pytest.raises(openai.NotFoundError, match="'gone' does not exist"):
            await client.models.retrieve("gone")
        return names, await client.models.retrieve("org/a")

    names, model = asked(with_lab, question, models=("org/a", "b"))
    assert names == ["org/a", "b"]
    assert model.id == "org/a"


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("status:400", openai.BadRequestError), ("status:401", openai.AuthenticationError),
        ("status:403", openai.PermissionDeniedError), ("status:404", openai.NotFoundError),
        ("status:422", openai.UnprocessableEntityError), ("status:429", openai.RateLimitError),
        ("status:500", openai.InternalServerError), ("status:503", openai.InternalServerError),
        ("reset", openai.APIConnectionError), ("close", openai.APIConnectionError),
        ("hang", openai.APITimeoutError),
    ],
)  # fmt: skip
def test_each_failure_is_the_right_exception(with_lab, fault, error):
    async def question(client):
        with pytest.raises(error) as caught:
            await client.chat.completions.create(
                model="m", messages=HI, extra_headers={"x-mock-fault": fault}, timeout=0.5
            )
        return caught.value

    found = asked(with_lab, question)
    if fault.startswith("status"):
        assert found.status_code == int(fault.partition(":")[2])
        assert "on command" in found.message


def test_half_a_stream_is_no_whole_one(with_lab):
    async def question(client):
        stream = await client.chat.completions.create(
            model="m", messages=HI, max_tokens=50, stream=True, extra_headers={"x-mock-fault": "half_close"}
        )
        with pytest.raises(openai.APIConnectionError):
            [chunk async for chunk in stream]

    asked(with_lab, question, chunk_s=0.0)


def test_a_wrong_request_says_what_is_wrong(with_lab):
    with pytest.raises(openai.BadRequestError, match="'max_tokens' has to be a whole number"):
        chat(with_lab, max_tokens=0)
    with pytest.raises(openai.BadRequestError, match="'messages' has to be a list"):
        chat(with_lab, messages=[])


def test_its_retries_get_through(with_lab):
    async def inside(lab):
        await lab.command("POST", "faults", kind="status", status=503, count=2, retry_after="0")
        async with client_of(lab, max_retries=3) as client:
            answer = await client.chat.completions.create(model="m", messages=HI, max_tokens=2)
        return answer, await lab.get("/mock/state")

    answer, state = with_lab(inside)
    assert len(answer.choices[0].message.content.split()) == 2
    assert state["outcomes"] == {"fault:status": 2, "ok": 1}


def test_a_stream_that_is_left_stops_the_work(with_lab):
    async def inside(lab):
        async with client_of(lab) as client:
            stream = await client.chat.completions.create(
                model="m", messages=HI, max_tokens=100_000, stream=True
            )
            await anext(aiter(stream))
            await stream.close()
            await asyncio.sleep(0.2)
            return await lab.get("/mock/state")

    state = with_lab(inside, speed=1.0)
    assert (state["in_flight"], state["outcomes"]) == (0, {"aborted": 1})
