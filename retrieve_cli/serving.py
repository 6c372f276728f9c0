"""An encoder and a scorer of pairs behind HTTP, in the forms of OpenAI, of Jina and Cohere, and of TEI.

    request -> key -> body, within the limits -> JSON -> what is asked -> one computation at a time -> answer

https://platform.openai.com/docs/api-reference/embeddings, https://docs.cohere.com/reference/rerank,
https://huggingface.github.io/text-embeddings-inference
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hmac import compare_digest
from typing import TYPE_CHECKING, Any, TypeVar

from retrieve_cli.contracts import Encoder, Json, PairScorer
from retrieve_cli.encoders.remote.key import Secret
from retrieve_cli.errors import RetrieveError, Unavailable, UsageError, printable

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

    from retrieve_cli.contracts import Vectors

T = TypeVar("T")
Work = Callable[[], Json]
"""What is asked, already understood; computes the answer."""

INSTALL = "pip install 'retrieve-cli[serve]'"

_EMBEDDINGS = ("input", "model", "encoding_format", "dimensions", "input_type", "user")
_RERANK = ("model", "query", "documents", "top_n", "return_documents")
_RERANK_TEI = ("query", "texts", "raw_scores", "return_text", "truncate")
_SHOWN = 100
"""Characters of what was sent that an error repeats."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one request may ask, and how many may wait."""

    inputs: int = 2048
    """Texts of one request."""
    characters: int = 4_000_000
    """Of all texts of one request."""
    bytes: int = 32 << 20
    """Of one request's body."""
    waiting: int = 64
    """Requests that are computed or wait for it; who comes after is told to come again."""


class Refused(Exception):
    """A request that is not answered; becomes OpenAI's error object under `status`."""

    def __init__(self, status: int, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code


def encoder_app(
    encoder: Encoder,
    scorer: PairScorer | None,
    name: str,
    key: Secret | None = None,
    *,
    query_prefix: str = "",
    passage_prefix: str = "",
    limits: Limits | None = None,
) -> FastAPI:
    """POST /v1/embeddings, POST /v1/rerank (and /rerank, where TEI has it), GET /v1/models, GET /health.

    `encoder` puts no prefix in front of a text: a client that knows the model's prefixes sends them, as OpenAI's
    API has it, and one that does not says `input_type: query` or `passage`, which puts the one given here in front.
    `name` is the model's; a request for another one is refused. With `key`, all but /health want it.

    Raises:
        Unavailable: fastapi is not installed.
        UsageError: `encoder` has prefixes of its own.
    """
    try:
        from fastapi import FastAPI
    except ImportError as error:
        raise Unavailable("a server needs the package fastapi, which is not installed", hint=INSTALL) from error
    card = encoder.card
    if card.query_prefix or card.passage_prefix:
        raise UsageError(f"the encoder of {name} puts prefixes in front of its texts, and the server does that")
    prefixes = {"query": query_prefix, "passage": passage_prefix}
    service = _Service(encoder, scorer, name, key, prefixes=prefixes, limits=limits or Limits())

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            yield
        finally:
            service.close()

    routes, handlers = service.routes(), _handlers()
    return FastAPI(title="retrieve", openapi_url=None, routes=routes, lifespan=lifespan, exception_handlers=handlers)


class _Service:
    """The endpoints. Computes in one thread of its own, so that the others are answered meanwhile."""

    def __init__(
        self,
        encoder: Encoder,
        scorer: PairScorer | None,
        name: str,
        key: Secret | None,
        *,
        prefixes: dict[str, str],
        limits: Limits,
    ) -> None:
        self._encoder = encoder
        self._scorer = scorer
        self._name = name
        self._key = key
        self._prefixes = prefixes
        self._limits = limits
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="compute")
        self._waiting = 0

    def close(self) -> None:
        """Drops what has not begun."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    # ------------------------------------------------------------------------------------------- endpoints

    def routes(self) -> list[BaseRoute]:
        from starlette.routing import Route

        return [
            Route("/v1/embeddings", self.embeddings, methods=["POST"]),
            Route("/v1/rerank", self.rerank, methods=["POST"]),
            Route("/rerank", self.rerank, methods=["POST"]),
            Route("/v1/models", self.models, methods=["GET"]),
            Route("/health", self.health, methods=["GET"]),
        ]

    async def embeddings(self, request: Request) -> Response:
        return await self._answer(request, self._embeddings)

    async def rerank(self, request: Request) -> Response:
        return await self._answer(request, self._rerank)

    async def models(self, request: Request) -> Response:
        self._admit(request)
        names = dict.fromkeys([self._name, *([self._scorer.name] if self._scorer else [])])
        listed = [{"id": name, "object": "model", "created": 0, "owned_by": "retrieve"} for name in names]
        return _response({"object": "list", "data": listed})

    async def health(self, _: Request) -> Response:
        return _response({"status": "ok"})

    # ------------------------------------------------------------------------------------------ one request

    async def _answer(self, request: Request, understand: Callable[[dict[str, Any]], Work]) -> Response:
        self._admit(request)
        work = understand(_object(await self._body(request)))
        if self._waiting >= self._limits.waiting:
            raise Refused(503, f"{self._waiting} requests are waiting already: come again", code="busy")
        self._waiting += 1
        try:
            running = asyncio.get_running_loop().run_in_executor(self._pool, lambda: _dumped(work()))
            return _response(await running)
        finally:
            self._waiting -= 1

    def _admit(self, request: Request) -> None:
        if self._key is None:
            return
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        given = f"Bearer {token.strip()}"
        if scheme.lower() != "bearer" or not compare_digest(given.encode(), self._key.bearer.encode()):
            raise Refused(401, "the API key is missing or wrong", code="invalid_api_key")

    async def _body(self, request: Request) -> bytes:
        body = bytearray()
        async for piece in request.stream():
            body += piece
            if len(body) > self._limits.bytes:
                raise Refused(413, f"the body has more than {self._limits.bytes} bytes", code="too_large")
        return bytes(body)

    def _embeddings(self, payload: dict[str, Any]) -> Work:
        """What an embeddings request asks."""
        _check_fields(payload, _EMBEDDINGS)
        self._check_model(payload, self._name, status=404)
        given = payload.get("input")
        texts = self._texts([given] if isinstance(given, str) else given, "input")
        form = _one_of(payload, "encoding_format", ("float", "base64"))
        kind = _one_of(payload, "input_type", ("", "query", "passage"))
        dim = self._encoder.card.dim
        if payload.get("dimensions", dim) != dim:
            raise Refused(400, f"{self._name} has {dim} dimensions and no other number", param="dimensions")
        return lambda: self._embedded(texts, kind, form)

    def _embedded(self, texts: list[str], kind: str, form: str) -> Json:
        tokenizer, before = self._encoder.tokenizer, self._encoder.truncated
        full = [self._prefixes[kind] + text for text in texts] if kind else texts
        vectors = self._encoder.encode_queries(full) if kind == "query" else self._encoder.encode_passages(full)
        spelled = _base64(_finite(vectors)) if form == "base64" else list(_finite(vectors))
        tokens = sum(map(tokenizer.count, full)) + tokenizer.special_tokens * len(full)
        # Cut at the model's limit, as the encoder does on this machine, and said.
        usage = {"prompt_tokens": tokens, "total_tokens": tokens, "truncated": self._encoder.truncated - before}
        data = [{"object": "embedding", "index": place, "embedding": row} for place, row in enumerate(spelled)]
        return {"object": "list", "data": data, "model": self._name, "usage": usage}

    def _rerank(self, payload: dict[str, Any]) -> Work:
        """What a rerank request asks; one that has `texts` is in TEI's form."""
        scorer = self._scorer
        if scorer is None:
            said = (
                "this server has no reranker: set rerank.backend to cross_encoder and rerank.model, and start it again"
            )
            raise Refused(501, said, code="no_reranker")
        tei = "texts" in payload
        _check_fields(payload, _RERANK_TEI if tei else _RERANK)
        # Not 404: a client that tries the other form after a 404 would get scores there, as TEI names no model.
        self._check_model(payload, scorer.name, status=501)
        query = payload.get("query")
        if not isinstance(query, str) or not query.strip():
            raise Refused(400, "`query` is no text, or a blank one", param="query")
        key = "texts" if tei else "documents"
        texts = self._texts(_plain(payload.get(key)), key, blank=True)
        if _flag(payload, "raw_scores", default=True) is False:
            said = "scores come on the model's own scale alone: leave `raw_scores` out, or set it to true"
            raise Refused(400, said, param="raw_scores")
        _flag(payload, "truncate")
        shown = _flag(payload, "return_text" if tei else "return_documents")
        top = payload.get("top_n", len(texts))
        if type(top) is not int or top < 1:
            raise Refused(400, "`top_n` is no whole number above 0", param="top_n")
        rows = _rows_tei if tei else _rows
        return lambda: rows(scorer.name, _finite(scorer.score(query, texts)), texts if shown else None, top)

    # ---------------------------------------------------------------------------------------------- checks

    def _check_model(self, payload: dict[str, Any], name: str, *, status: int) -> None:
        asked = payload.get("model", "")
        if asked not in ("", name):
            said = f"the model {_shown(asked)} is not here; this server has {name}"
            raise Refused(status, said, param="model", code="model_not_found")

    def _texts(self, given: Json, param: str, *, blank: bool = False) -> list[str]:
        """The texts of a request, within the limits; `blank` where a text may be empty."""
        limits = self._limits
        if not isinstance(given, list) or not given:
            raise Refused(400, f"`{param}` is no list of texts, or an empty one", param=param)
        if len(given) > limits.inputs:
            said = f"`{param}` has {len(given)} texts, and {limits.inputs} is the most of one request"
            raise Refused(413, said, param=param, code="too_large")
        for place, text in enumerate(given):
            if not isinstance(text, str) or not (text or blank):
                raise Refused(400, f"`{param}` has at place {place} no text, or an empty one", param=param)
        size = sum(map(len, given))
        if size > limits.characters:
            said = f"`{param}` has {size} characters, and {limits.characters} is the most of one request"
            raise Refused(413, said, param=param, code="too_large")
        return given


# ------------------------------------------------------------------------------------------------- requests


def _object(body: bytes) -> dict[str, Any]:
    """The body's keys and values; a key without a value (null) counts as left out."""
    import orjson

    try:
        payload = orjson.loads(body)
    except ValueError as error:
        raise Refused(400, f"the body is no JSON: {error}") from None
    if not isinstance(payload, dict):
        raise Refused(400, "the body is no JSON object")
    return {key: value for key, value in payload.items() if value is not None}


def _check_fields(payload: dict[str, Any], known: Collection[str]) -> None:
    """A misspelled `input_type` would give vectors of another kind without a word."""
    for key in payload:
        if key not in known:
            said = f"{_shown(key)} is not known here; known are {', '.join(known)}"
            raise Refused(400, said, param=key[:_SHOWN], code="unknown_parameter")


def _one_of(payload: dict[str, Any], key: str, values: Sequence[str]) -> str:
    """The value of a key; the first of `values` where it is left out."""
    value = payload.get(key, values[0])
    if value not in values:
        raise Refused(400, f"`{key}` is {_shown(value)}, and not {' or '.join(filter(None, values))}", param=key)
    return str(value)


def _flag(payload: dict[str, Any], key: str, *, default: bool = False) -> bool:
    value = payload.get(key, default)
    if not isinstance(value, bool):
        raise Refused(400, f"`{key}` is neither true nor false", param=key)
    return value


def _plain(documents: Json) -> Json:
    """Documents as texts, where they are objects with a `text`."""
    if not isinstance(documents, list):
        return documents
    return [item.get("text") if isinstance(item, dict) else item for item in documents]


def _shown(value: Json) -> str:
    text = printable(str(value))
    return f"“{text[:_SHOWN]}…”" if len(text) > _SHOWN else f"“{text}”"


# -------------------------------------------------------------------------------------------------- answers


def _rows(name: str, scores: Vectors, texts: Sequence[str] | None, top: int) -> Json:
    """Jina's and Cohere's form, best first."""
    found = [
        {"index": place, "relevance_score": scores[place], **({"document": {"text": texts[place]}} if texts else {})}
        for place in _best_first(scores)[:top]
    ]
    return {"model": name, "results": found}


def _rows_tei(_: str, scores: Vectors, texts: Sequence[str] | None, top: int) -> Json:
    """TEI's form, best first."""
    return [
        {"index": place, "score": scores[place], **({"text": texts[place]} if texts else {})}
        for place in _best_first(scores)[:top]
    ]


def _best_first(scores: Vectors) -> list[int]:
    return sorted(range(len(scores)), key=lambda place: (-scores[place], place))


def _finite(numbers: Vectors) -> Vectors:
    """JSON has neither NaN nor infinity: they would go out as null."""
    import numpy as np

    if not np.isfinite(numbers).all():
        raise Refused(500, "the model gave numbers that are not finite", code="not_finite")
    return np.ascontiguousarray(numbers, np.float32)


def _base64(vectors: Vectors) -> list[str]:
    """Each row as little-endian float32."""
    from base64 import b64encode

    return [b64encode(row.astype("<f4").tobytes()).decode() for row in vectors]


def _dumped(value: Json) -> bytes:
    import orjson

    # A float32 is written with as many digits as tell it from the next one.
    dumped: bytes = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    return dumped


def _response(value: Json, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    from starlette.responses import Response

    body = value if isinstance(value, bytes) else _dumped(value)
    return Response(body, status, headers, "application/json")


def _refusal(refused: Refused) -> Response:
    """https://platform.openai.com/docs/guides/error-codes"""
    kind = "server_error" if refused.status >= 500 else "invalid_request_error"
    error = {"message": str(refused), "type": kind, "param": refused.param, "code": refused.code}
    headers = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "1"}}.get(refused.status)
    return _response({"error": error}, refused.status, headers)


def _handlers() -> dict[Any, Any]:
    """Failures of every kind as OpenAI's error object."""
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect

    async def refused(_: Request, error: Refused) -> Response:
        return _refusal(error)

    async def failed(_: Request, error: RetrieveError) -> Response:
        return _refusal(Refused(400 if isinstance(error, UsageError) else 503, error.message, code=error.kind))

    async def http(_: Request, error: HTTPException) -> Response:
        return _refusal(Refused(error.status_code, error.detail))

    async def gone(_: Request, __: ClientDisconnect) -> Response:
        return _refusal(Refused(400, "the body was cut short"))

    async def unforeseen(_: Request, error: Exception) -> Response:
        return _refusal(Refused(500, f"internal error ({type(error).__name__})", code="internal"))

    return {Refused: refused, RetrieveError: failed, HTTPException: http, ClientDisconnect: gone, Exception: unforeseen}
