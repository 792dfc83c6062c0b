"""Which paths of the inference APIs name a model, an object that one server keeps, or nothing.

A path stands here without what comes before `/v1`: a sub-path is taken off by the route that leads there.
`{…}` is one segment, and at the end whatever follows: models' names have slashes.
"""

from enum import StrEnum
from typing import NamedTuple


class Carries(StrEnum):
    """What of a request tells which server can answer it."""

    BODY = "model in the JSON body"
    FORM = "model in a form field"
    PATH = "model in the path"
    QUERY = "model in the query"
    OBJECT = "id of an object that one server keeps"
    NOTHING = "nothing"


class ApiPath(NamedTuple):
    """One path of an API."""

    api: str
    methods: str
    path: str
    carries: Carries


_B, _F, _P, _Q, _O, _N = Carries
_OPENAI = (
    ("POST", "/v1/chat/completions", _B),
    ("GET, POST, DELETE", "/v1/chat/completions/{id}", _O),
    ("POST", "/v1/completions", _B),
    ("POST", "/v1/embeddings", _B),
    ("POST", "/v1/moderations", _B),
    ("POST", "/v1/responses", _B),
    ("GET, POST, DELETE", "/v1/responses/{id}", _O),
    ("POST", "/v1/responses/compact", _B),
    ("POST", "/v1/responses/input_tokens", _B),
    ("any", "/v1/conversations", _O),
    ("POST", "/v1/decisions", _B),
    ("POST", "/v1/audio/speech", _B),
    ("POST", "/v1/audio/transcriptions", _F),
    ("POST", "/v1/audio/translations", _F),
    ("any", "/v1/audio/voices", _O),
    ("any", "/v1/audio/voice_consents", _O),
    ("POST", "/v1/images/generations", _B),
    ("POST", "/v1/images/edits", _F),
    ("POST", "/v1/images/variations", _F),
    ("POST", "/v1/videos", _F),
    ("any", "/v1/videos/{id}", _O),
    ("WebSocket, POST", "/v1/realtime", _Q),
    ("WebSocket", "/v1/realtime/translations", _Q),
    ("POST", "/v1/realtime/calls", _Q),
    ("POST", "/v1/realtime/calls/{id}", _O),
    ("POST", "/v1/realtime/sessions", _B),
    ("POST", "/v1/realtime/transcription_sessions", _O),
    ("POST", "/v1/realtime/client_secrets", _O),
    ("POST", "/v1/realtime/translations/client_secrets", _O),
    ("WebSocket, POST", "/v1/live/sessions", _O),
    ("GET", "/v1/models", _N),
    ("GET, DELETE", "/v1/models/{model}", _P),
    ("any", "/v1/files", _O),
    ("any", "/v1/uploads", _O),
    ("any", "/v1/batches", _O),
    ("any", "/v1/vector_stores", _O),
    ("any", "/v1/fine_tuning", _O),
    ("any", "/v1/containers", _O),
    ("any", "/v1/evals", _O),
    ("any", "/v1/agents", _O),
    ("any", "/v1/chatkit", _O),
    ("any", "/v1/skills", _O),
    ("any", "/v1/vaults", _O),
    ("any", "/v1/safety", _O),
    ("any", "/v1/webhook_endpoints", _O),
    ("GET", "/v1/webhook_event_types", _N),
    ("POST", "/v1/content_provenance_checks", _N),
    ("POST", "/v1/assistants", _B),
    ("any", "/v1/assistants/{id}", _O),
    ("any", "/v1/threads", _O),
)
_AZURE = (("any", "/openai/deployments/{model}", _P),)
_ANTHROPIC = (
    ("POST", "/v1/messages", _B),
    ("POST", "/v1/messages/count_tokens", _B),
    ("any", "/v1/messages/batches", _O),
    ("POST", "/v1/complete", _B),
    ("GET", "/v1/models", _N),
    ("GET", "/v1/models/{model}", _P),
    ("any", "/v1/files", _O),
    ("any", "/v1/agents", _O),
    ("any", "/v1/sessions", _O),
    ("any", "/v1/environments", _O),
    ("any", "/v1/deployments", _O),
    ("any", "/v1/deployment_runs", _O),
    ("any", "/v1/memory_stores", _O),
    ("any", "/v1/dreams", _O),
    ("any", "/v1/skills", _O),
    ("any", "/v1/vaults", _O),
    ("any", "/v1/tunnels", _O),
    ("any", "/v1/user_profiles", _O),
    ("any", "/v1/compliance", _O),
)
_COHERE = (
    ("POST", "/v1/chat", _B),
    ("POST", "/v2/chat", _B),
    ("POST", "/v1/embed", _B),
    ("POST", "/v2/embed", _B),
    ("POST", "/v1/rerank", _B),
    ("POST", "/v2/rerank", _B),
    ("POST", "/v1/classify", _B),
    ("POST", "/v1/tokenize", _B),
    ("POST", "/v1/detokenize", _B),
    ("POST", "/v1/generate", _B),
    ("POST", "/v1/summarize", _B),
    ("POST", "/v2/parse", _B),
    ("POST", "/v2/audio/transcriptions", _F),
    ("any", "/v1/embed-jobs", _O),
    ("any", "/v1/datasets", _O),
    ("any", "/v1/connectors", _O),
    ("any", "/v1/finetuning", _O),
    ("any", "/v2/batches", _O),
    ("GET", "/v1/models", _N),
    ("GET", "/v1/models/{model}", _P),
    ("POST", "/v1/check-api-key", _N),
)
_OLLAMA = (
    ("GET, HEAD", "/", _N),
    ("POST", "/api/generate", _B),
    ("POST", "/api/chat", _B),
    ("POST", "/api/embed", _B),
    ("POST", "/api/embeddings", _B),
    ("POST", "/v1/systemone", _B),
    ("POST", "/api/show", _B),
    ("GET, HEAD", "/api/tags", _N),
    ("GET", "/api/ps", _N),
    ("GET, HEAD", "/api/version", _N),
    ("POST", "/api/pull", _B),
    ("POST", "/api/push", _B),
    ("POST", "/api/create", _B),
    ("POST", "/api/copy", _O),
    ("DELETE", "/api/delete", _B),
    ("any", "/api/blobs", _O),
)
SOURCES = {
    "OpenAI": "https://developers.openai.com/api/reference",
    "Azure OpenAI": "https://learn.microsoft.com/azure/ai-services/openai/reference",
    "Anthropic": "https://platform.claude.com/docs/en/api",
    "Cohere": "https://docs.cohere.com/reference",
    "Ollama": "https://docs.ollama.com/api/introduction",
}
"""Where each API is described."""
_TABLES = {
    "OpenAI": _OPENAI,
    "Azure OpenAI": _AZURE,
    "Anthropic": _ANTHROPIC,
    "Cohere": _COHERE,
    "Ollama": _OLLAMA,
}

API_PATHS = tuple(ApiPath(api, *row) for api, rows in _TABLES.items() for row in rows)


def prefixes(carries: Carries) -> tuple[str, ...]:
    """Return the beginnings of the paths that carry this, without their last segment where that is named.

    Each ends in a slash where something has to follow.
    """
    found = (row.path for row in API_PATHS if row.carries is carries)
    return tuple(dict.fromkeys(path.partition("{")[0] for path in found))
