"""Write a Llama of two layers with random weights: ``python tiny_llama.py FOLDER``, with vLLM installed.

A token is a byte of UTF-8, so that counts of tokens can be told beforehand.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

LAYERS, WIDTH, HEADS, INNER, CONTEXT = 2, 128, 2, 256, 16_384
BEGIN, END = "<s>", "</s>"


def write(place: str) -> None:
    """Write the folder."""
    words = {letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    bare = Tokenizer(models.BPE(vocab=words, merges=[]))
    bare.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    bare.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bare, bos_token=BEGIN, eos_token=END, pad_token=END)
    tokenizer.chat_template = Path(__file__).with_name("chat.jinja").read_text()
    tokenizer.save_pretrained(place)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=HEADS, max_position_embeddings=CONTEXT,
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id, initializer_range=0.1,
        dtype=torch.float32,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(place)


if __name__ == "__main__":
    write(sys.argv[1])
