r"""Bodies for balancers that look into them: what people send, and what wears out a careless parser."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_TEXT = "The quick brown fox explains to the lazy dog, step by step, how a load balancer works. "
_CHINESE = "你好世界请解释"
_CODE = 'def read(path: str) -> str:\n    """A file."""\n    return open(path, "rb").read().decode()\n\n'
_TOOL = {
    "type": "function",
    "function": {
        "name": "read_file",
        "description": "Reads a file of the local file system. The path has to be absolute.",
        "parameters": {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The absolute path of the file to read"},
                "limit": {"type": "integer", "description": "How many lines to read"},
            },
            "required": ["path"],
        },
    },
}


def _chat(content: str) -> bytes:
    """Return a chat of one message, the model behind it, as OpenAI's client for Python writes it."""
    return json.dumps({"messages": [{"role": "user", "content": content}], "model": "m"}).encode()


def _tools(size: int) -> bytes:
    messages = [{"role": "user", "content": "Which files are there?"}]
    tools = [_TOOL] * (size // (len(json.dumps(_TOOL)) + 3))
    return json.dumps({"messages": messages, "tools": tools, "model": "m"}).encode()


def _turns(size: int) -> bytes:
    turn = [{"role": "user", "content": _TEXT * 4}, {"role": "assistant", "content": _CODE * 6}]
    turns = turn * (size // (len(json.dumps(turn)) + 3))
    return json.dumps({"messages": [{"role": "system", "content": _TEXT}, *turns], "model": "m"}).encode()


def _member(value: str) -> bytes:
    return b'{"s":' + value.encode() + b',"model":"m"}'


def _text(name: str, text: str) -> bytes:
    return f'{{"model":"m","messages":[{{"role":"user","content":"Hi"}}],"{name}":"{text}"}}'.encode()


def _system(parts: str) -> bytes:
    """Return a chat whose system prompt is a list of what are no parts."""
    return f'{{"model":"m","messages":[{{"role":"system","content":[{parts}]}}]}}'.encode()


def _names(name: bytes, size: int) -> bytes:
    return b"{" + (b'"' + name + b'":1,') * (size // (len(name) + 5)) + b'"model":"m"}'


def _keys(size: int) -> bytes:
    inside = ",".join(f'"{number:x}":1' for number in range(size // 10))
    return f'{{{inside},"model":"m"}}'.encode()


ORDINARY: Mapping[str, Callable[[int], bytes]] = {
    "a long prompt": lambda size: _chat(_TEXT * (size // len(_TEXT))),
    "a chat of many turns": _turns,
    "program code": lambda size: _chat(_CODE * (size // len(json.dumps(_CODE)))),
    "Chinese, escaped as Python does": lambda size: _chat(_CHINESE * (size // 6 // len(_CHINESE))),
    "tool schemas": _tools,
    "embeddings of token numbers": lambda size: _member(json.dumps(list(range(size // 8)))),
}
"""What people send: name -> function from the size in bytes, about, to a body."""
HOSTILE: Mapping[str, Callable[[int], bytes]] = {
    r"\/ throughout": lambda size: _member('"' + r"\/" * (size // 2) + '"'),
    r"\u0041 throughout": lambda size: _member('"' + r"\u0041" * (size // 6) + '"'),
    r"\" throughout": lambda size: _member('"' + r"\"" * (size // 2) + '"'),
    r"\\ throughout": lambda size: _member('"' + r"\\" * (size // 2) + '"'),
    "100,000 levels": lambda size: _member("[" * min(100_000, size // 2) + "]" * min(100_000, size // 2)),
    "levels throughout": lambda size: _member("[" * (size // 2) + "]" * (size // 2)),
    "levels that never end": lambda size: b'{"s":' + b'{"a":[' * (size // 6),
    "a million keys": _keys,
    "the same key throughout": lambda size: b'{"model":"m"' + b',"model":"m"' * (size // 12) + b"}",
    "objects throughout": lambda size: _member("[" + "{}," * (size // 3) + "{}]"),
    "empty texts throughout": lambda size: _member("[" + '"",' * (size // 3) + "0]"),
    "lists that a text interrupts": lambda size: _member("[" + '["x' * (size // 6) + '",[]' * (size // 8)),
    "white space throughout": lambda size: b" " * (size - 13) + b'{"model":"m"}',
    "white space in lists": lambda size: _system(" " * size),
    "numbers in a list": lambda size: _system("1," * (size // 2) + "1"),
    "objects that never end": lambda size: b'{"messages":[' + (b'{"a":' + b"null," * 100) * (size // 505),
    "\\u0061 in names": lambda size: _names(rb"\u0061" * 32, size),
    "a long model": lambda size: _text("model", "m" * size),
    "a long name of a conversation": lambda size: _text("prompt_cache_key", "m" * size),
    "a long system prompt in parts": lambda size: _system('{"type":"text","text":"%s"}' % ("m" * size)),
    "a long system prompt by itself": lambda size: _text("system", "m" * size),
    "digits throughout": lambda size: _member("1" * size),
    "structure and no JSON": lambda size: b"{}[]:," * (size // 6),
    "quotes and no JSON": lambda size: b'"' * size,
    "no JSON at all": lambda size: b"x" * size,
}
"""What wears out a parser, in the same form."""
