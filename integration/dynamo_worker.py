"""Mock GPU servers as workers of NVIDIA's Dynamo; runs with the Python in which Dynamo is installed.

``dynamo_worker.py model FOLDER`` reads a JSON list of texts and writes what Dynamo needs of a model: a
tokenizer whose tokens have four bytes, as the mock's. ``dynamo_worker.py serve FOLDER URL NAME`` registers a
worker, which asks the mock server at URL for each answer and puts NAME behind it (Dynamo drops headers).
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
from dynamo.llm import ModelInput, ModelRuntimeConfig, ModelType, WorkerType, register_model
from dynamo.runtime import DistributedRuntime
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MODEL = "mock"
ENDPOINT = "bench.backend.generate"
BLOCK_TOKENS = 16
KV_TOKENS = 384_000
SLOTS = 32
VOCABULARY = 20_000
TEMPLATE = "{% for m in messages %}{{ m['role'] + ': ' + m['content'] + '\\n' }}{% endfor %}"
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCABULARY, "hidden_size": 64,
    "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 128,
    "max_position_embeddings": 1_000_000, "bos_token_id": 0, "eos_token_id": 1,
}  # fmt: skip


def write_model(folder: Path, texts: list[str]) -> None:
    """Write a tokenizer that is made for these texts, and the settings of a model of that name."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"[\s\S]{1,4}"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    words = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}
    for name, content in (
        ("config.json", CONFIG),
        ("tokenizer_config.json", words | {"chat_template": TEMPLATE}),
        ("generation_config.json", {"bos_token_id": 0, "eos_token_id": 1}),
    ):
        (folder / name).write_text(json.dumps(content))


async def serve(folder: Path, url: str, name: str) -> None:
    """Answer Dynamo's requests until this process ends."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    (piece, *_), last = tokenizer.encode(" a").ids, tokenizer.encode(f" {name} ").ids
    runtime = DistributedRuntime(asyncio.get_running_loop(), "file", "tcp", event_plane="zmq")
    endpoint = runtime.endpoint(ENDPOINT)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(url, connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as client:

        async def generate(request: Any, context: object) -> AsyncIterator[dict[str, object]]:
            del context
            prompt = tokenizer.decode(request["token_ids"], skip_special_tokens=False)
            tokens = request["stop_conditions"]["max_tokens"]
            body = {"model": MODEL, "prompt": prompt, "max_tokens": tokens, "stream": True}
            async with client.post("/v1/completions", json=body) as answer:
                answer.raise_for_status()
                async for _ in answer.content.iter_any():
                    yield {"token_ids": [piece], "index": 0}
            yield {"token_ids": last, "index": 0, "finish_reason": "stop"}

        config = ModelRuntimeConfig()
        config.max_num_seqs = SLOTS
        config.total_kv_blocks = KV_TOKENS // BLOCK_TOKENS
        await register_model(
            ModelInput.Tokens, ModelType.Chat | ModelType.Completions, endpoint, str(folder), MODEL,
            worker_type=WorkerType.Aggregated, kv_cache_block_size=BLOCK_TOKENS, runtime_config=config,
        )  # fmt: skip
        await endpoint.serve_endpoint(generate)


if __name__ == "__main__":
    if sys.argv[1] == "model":
        write_model(Path(sys.argv[2]), json.load(sys.stdin))
    else:
        asyncio.run(serve(Path(sys.argv[2]), *sys.argv[3:]))
