"""Write a Llama of two layers with random weights as GGUF: ``python tiny_gguf.py FILE``, with gguf installed.

A token is a byte of UTF-8, so that counts of tokens can be told beforehand.
"""

from __future__ import annotations

import sys
from pathlib import Path

import gguf
import numpy as np

LAYERS, WIDTH, HEADS, INNER, CONTEXT = 2, 128, 2, 256, 16_384
BEGIN, END = 256, 257


def letters() -> list[str]:
    """Return what GPT-2's byte-level vocabulary calls each byte."""
    kept = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return [chr(byte if byte in kept else next(others)) for byte in range(256)]


def write(place: str) -> None:
    """Write the file."""
    file = gguf.GGUFWriter(place, "llama")
    file.add_name("tiny")
    file.add_context_length(CONTEXT)
    file.add_embedding_length(WIDTH)
    file.add_block_count(LAYERS)
    file.add_feed_forward_length(INNER)
    file.add_head_count(HEADS)
    file.add_head_count_kv(HEADS)
    file.add_layer_norm_rms_eps(1e-5)
    file.add_rope_dimension_count(WIDTH // HEADS)
    file.add_vocab_size(END + 1)
    file.add_tokenizer_model("gpt2")
    file.add_tokenizer_pre("gpt-2")
    file.add_token_list([*letters(), "<s>", "</s>"])
    file.add_token_types([gguf.TokenType.NORMAL] * 256 + [gguf.TokenType.CONTROL] * 2)
    file.add_token_merges(["a b"])  # none at all is refused; no token is called ab, so it never applies
    file.add_bos_token_id(BEGIN)
    file.add_eos_token_id(END)
    file.add_add_bos_token(value=False)
    file.add_chat_template(Path(__file__).with_name("chat.jinja").read_text())
    _weights(file)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


def _weights(file: gguf.GGUFWriter) -> None:
    dice = np.random.default_rng(0)

    def layer(name: str, *shape: int) -> None:
        file.add_tensor(f"{name}.weight", (dice.standard_normal(shape) * 0.1).astype(np.float32))

    def norm(name: str) -> None:
        file.add_tensor(f"{name}.weight", np.ones(WIDTH, np.float32))

    layer("token_embd", END + 1, WIDTH)
    layer("output", END + 1, WIDTH)
    norm("output_norm")
    for number in range(LAYERS):
        for part in ("attn_norm", "ffn_norm"):
            norm(f"blk.{number}.{part}")
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            layer(f"blk.{number}.{part}", WIDTH, WIDTH)
        layer(f"blk.{number}.ffn_gate", INNER, WIDTH)
        layer(f"blk.{number}.ffn_up", INNER, WIDTH)
        layer(f"blk.{number}.ffn_down", WIDTH, INNER)


if __name__ == "__main__":
    write(sys.argv[1])
