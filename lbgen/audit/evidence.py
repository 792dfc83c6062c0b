"""What speaks for a pool that serves models, since a file may balance a web site beside it.

A name is enough, or a path of the engines' APIs, or a port that only they use; several servers on ports
from 8000 on as well. Where the rest of the file is about models, a pool without a sign for something else
counts, too.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_ENGINES = {
    "vllm": r"vllm",
    "sglang": r"sglang|sgl[-_]?router|:30000(?!\d)",
    "tgi": r"(?<![a-z])tgi(?![a-z])|text-?generation",
    "trtllm": r"trt-?llm|tensorrt",
    "triton": r"triton",
    "litellm": r"litellm",
    "llamacpp": r"llama[-_.]?(?:cpp|server)",
    "ollama": r"ollama|:11434(?!\d)",
    "tei": r"(?<![a-z])tei(?![a-z])",
}
_NAMED = (
    r"llm|llama|(?<![a-z])gpus?(?![a-z])|inference|(?<![a-z])gpt|openai|qwen|mi[sx]tral|deepseek|gemma|whisper"
    r"|embed|lmdeploy|nvidia|(?<![a-z])(?:h100|h200|a100|a10|l40s?|b200)(?![0-9a-z])|rerank"
    r"|open-?webui|chat-?ui|lobe-?chat|librechat|chatbot"
)
_LIKELY = r"(?<![a-z])(?:chat|completions?|models?|generat(?:e|ion)|tokens?|ai)(?![a-z])|model-?runner"
_PATHS = (
    r"/v1(?:/|$)|/api/(?:chat|generate|embed|tags|show|pull)|/generate|/v2/(?:health|models)|/health_generate"
)
_PORTS = r":(?:11434|300\d\d)(?!\d)"
_MANY_PORTS = r":80[0-9][0-9](?!\d)"
_OTHERS = (
    r"static|(?<![a-z])(?:www|web|web-?site|site)(?![a-z])|grafana|prometheus|php|wordpress|acme|certbot|letsencrypt|keycloak"
    r"|(?<![a-z])ssh(?![a-z])|:(?:22|25|53|389|1883|3306|5432|5672|6379|27017)(?!\d)|redis|minio|gitlab|smtp|postgres|mysql|(?<![a-z])(?:auth|login|docs|blog|ui|dashboard|img)(?![a-z])"
)


def engine_in(texts: Iterable[str]) -> str:
    """Return the engine that names and addresses speak of, by lbgen's name for it; empty: none."""
    text = " ".join(texts).lower()
    return next((name for name, pattern in _ENGINES.items() if re.search(pattern, text)), "")


def is_about_models(text: str) -> bool:
    """Tell whether a whole file speaks of inference, comments included."""
    return bool(engine_in([text]) or re.search(_NAMED, text.lower()) or re.search(_PORTS, text))


class Signs(NamedTuple):
    """What is known of a pool."""

    names: Sequence[str]
    """Its own, and those of its servers."""
    addresses: Sequence[str]
    around: Sequence[str] = ()
    """Names of what leads to it: frontends, hosts."""
    paths: Sequence[str] = ()


def serves_models(signs: Signs, *, file: bool) -> bool:
    """Tell whether a pool serves models. `file`: whether the file around it is about them."""
    own = " ".join([*signs.names, *signs.addresses]).lower()
    named = " ".join([own, *signs.around]).lower()
    if engine_in([named]) or re.search(f"{_NAMED}|{_LIKELY}", named):
        return True
    if any(re.search(_PATHS, path) for path in signs.paths):
        return True
    if any(re.search(_PORTS, one) for one in signs.addresses):
        return True
    if re.search(_OTHERS, own):
        return False
    many = len(signs.addresses) > 1 and all(re.search(_MANY_PORTS, one) for one in signs.addresses)
    return file or many
