"""Documents: `POST /documents`, `GET /documents`, `GET /documents/{id}`, `DELETE /documents/{id}`."""

from __future__ import annotations

import asyncio
import re
from functools import partial

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from retrieve_cli.api import contents
from retrieve_cli.api.documents import Receipt, index_of
from retrieve_cli.contracts import Json
from retrieve_cli.errors import IndexMissing, UsageError, quoted
from retrieve_cli.server.http import uploads
from retrieve_cli.server.http.admission import read_body
from retrieve_cli.server.http.answers import response
from retrieve_cli.server.http.description import TEXT, operation, parameter, schema_of
from retrieve_cli.server.http.jobs import Job
from retrieve_cli.server.http.requests import RejectedRequest
from retrieve_cli.server.http.state import State
from retrieve_cli.untrusted.files import MB

_LINES = ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines")
_WAIT = re.compile(r"(?:^|[,;\s])wait=(\d{1,9})(?:$|[,;\s])")
_CURSOR = re.compile(r"([0-9a-f]{12})-(r[0-9]{1,11})")
_LONGEST_WAIT_S = 60
WRITE = "documents:write"
"""Scope of changes of documents."""
_LOOK_S = 0.02
_PAGE, _LARGEST_PAGE = 20, 1000
_BODIES: dict[str, Json] = {
    # A list is read, too: generators of clients fail at one beside objects.
    "application/json": {"anyOf": [schema_of("NewDocuments"), schema_of("NewDocument")]},
    _LINES[0]: {"type": "string", "description": "A record on each line."},
    uploads.TYPE: schema_of("DocumentForm"),
}


def router(state: State) -> APIRouter:
    """Return the routes of documents."""
    documents = state.documents

    async def add(request: Request) -> Response:
        """Add documents to the index, or replace documents of the same id."""
        tenant = state.callers.of(request, WRITE).tenant
        kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind == uploads.TYPE:
            most = int(state.settings.parsing.max_mb * MB)
            async with uploads.received(request, most=most) as form:
                name, metadata = form.fields.get("id"), form.fields.get("metadata")
                stored = partial(documents.add_files, form.files, name=name, metadata=metadata, tenant=tenant)
                receipt = await state.pool.run(request, stored)
        else:
            body = await read_body(request, state.limits)
            receipt = await state.pool.run(
                request, lambda: documents.add(given_documents(body, lines=kind in _LINES), tenant=tenant)
            )
        if len(receipt.documents) == 1 and not receipt.sequence:
            reason = receipt.documents[0].reason
            raise RejectedRequest(422, reason, code="rejected", hint="correct the document and send it again")
        return await _acknowledged(state, request, receipt, tenant)

    async def remove(request: Request) -> Response:
        """Remove a document that was added."""
        tenant = state.callers.of(request, WRITE).tenant
        name = request.path_params["id"]
        receipt = await state.pool.run(
            request, lambda: documents.remove(name, tenant=tenant, index=index_of(state.live))
        )
        return await _acknowledged(state, request, receipt, tenant)

    async def one(request: Request) -> Response:
        """Return a record with its chunks and the status of its document, also of one that is not indexed yet."""
        tenant = state.callers.of(request, "search").tenant
        name = request.path_params["id"]
        found = await state.pool.run(request, lambda: documents.state(name, tenant=tenant, index=index_of(state.live)))
        return response(found)

    async def several(request: Request) -> Response:
        """List the records of the index that pass every filter, page by page."""
        tenant = state.callers.of(request, "search").tenant
        given, names = request.query_params, [each["name"] for each in _PARAMETERS]
        if strange := [key for key in given if key not in (*names, "filter")]:
            raise UsageError(f"unknown parameter {quoted(strange[0])}", hint=f"known: {', '.join(names)}")
        limit = read_limit(request, usual=_PAGE, most=_LARGEST_PAGE)
        filters = [*given.getlist("filters"), *given.getlist("filter")]
        return response(await state.pool.run(request, _page, state, filters, limit, given.get("cursor"), tenant))

    routes = APIRouter(tags=["documents"])
    changing = partial(operation, answer="DocumentsReceipt", statuses=(200, 202), errors=(409, 507), scope=WRITE)
    removed = changing("remove_document", parameters=[ID, PREFER], method="DELETE")
    routes.add_api_route("/documents", add, **changing("add_documents", bodies=_BODIES, parameters=[PREFER]))
    routes.add_api_route(
        "/documents", several, **operation("list_documents", "StoredRecordPage", parameters=_PARAMETERS)
    )
    routes.add_api_route("/documents/{id:path}", one, **operation("get_document", "DocumentState", parameters=[ID]))
    routes.add_api_route("/documents/{id:path}", remove, **removed)
    return routes


def given_documents(body: bytes, *, lines: bool) -> list[bytes | Json]:
    """Return the documents of a body: an object, a list, an object with a list `documents`, or one per line.

    Raises:
        UsageError: the body has another form.
    """
    import orjson

    if lines:
        return [line for line in body.split(b"\n") if line.strip()]
    try:
        value = orjson.loads(body)
    except ValueError as error:
        hint = f"for one document a line, send Content-Type: {_LINES[0]}"
        raise UsageError(f"the body is not JSON: {error}", hint=hint) from None
    if isinstance(value, dict) and set(value) == {"documents"}:
        value = value["documents"]
        if not isinstance(value, list):
            raise UsageError("`documents` must be a list", hint='{"documents": [{"id": "…", "text": "…"}]}')
    return value if isinstance(value, list) else [value]


async def finish(request: Request, job: Job) -> bool:
    """Wait for a job as long as the client asked for, `Prefer: wait=30`; return True if it is over."""
    asked = _WAIT.search(request.headers.get("Prefer", ""))
    end = asyncio.get_running_loop().time() + (min(int(asked[1]), _LONGEST_WAIT_S) if asked else 0)
    while not job.over.is_set() and asyncio.get_running_loop().time() < end:  # noqa: ASYNC110  a thread sets it
        await asyncio.sleep(_LOOK_S)
    return asked is not None and job.over.is_set()


async def _acknowledged(state: State, request: Request, receipt: Receipt, tenant: str | None) -> Response:
    """Return 202 and the task that brings changes into the index, or 200 if it has ended in the time to wait."""
    if not receipt.sequence:
        listed = [status.to_json() for status in receipt.documents]
        return response({"task": None, "sequence": None, "documents": listed})
    job = await asyncio.to_thread(state.syncing.submit, "documents", tenant=tenant, receipt=receipt)
    over = await finish(request, job)
    statuses = await asyncio.to_thread(state.documents.settled, receipt.documents, tenant=tenant)
    listed = [status.to_json() for status in statuses]
    value = {"task": job.task, "sequence": receipt.sequence, "documents": listed}
    value |= {"status": job.status} if over else {}
    return response(value, 200 if over else 202, {"Location": f"{request.scope.get('root_path', '')}/tasks/{job.task}"})


PREFER = parameter("Prefer", "header", TEXT, "`wait=30`: answer when the task has ended, in 30 s at most.")
ID = parameter("id", "path", TEXT, "Id of the record.")
_LIMIT: dict[str, Json] = {"type": "integer", "minimum": 1, "maximum": _LARGEST_PAGE, "default": _PAGE}
_PARAMETERS = (
    parameter("filters", "query", {"type": "array", "items": TEXT}, "Conditions on records; all must hold."),
    parameter("limit", "query", _LIMIT, "Records."),
    parameter("cursor", "query", TEXT, "`next` of the page before."),
)


def read_limit(request: Request, *, usual: int, most: int) -> int:
    """Return the parameter `limit` of an address. Raises: UsageError: it is not from 1 to `most`."""
    text = request.query_params.get("limit", str(usual))
    if text.isascii() and text.isdigit() and len(text) <= len(str(most)) + 1 and 1 <= int(text) <= most:
        return int(text)
    raise UsageError(f"`limit` is {quoted(text)}; it takes 1 to {most}", hint=f"limit={usual}")


def _page(state: State, filters: list[str], limit: int, cursor: str | None, tenant: str | None) -> Json:
    """Return a page. Its cursor names the generation: all pages are of one, as long as that is kept.

    Raises:
        UsageError: a filter or the cursor cannot be read, or the generation was removed.
    """
    generation = after = None
    if cursor is not None:
        if not (parts := _CURSOR.fullmatch(cursor)):
            raise UsageError(f"{quoted(cursor)} is not a cursor", hint="take it from the page before: `next`")
        generation, after = parts.groups()
    try:
        index = state.live.at(generation)
    except IndexMissing:
        raise
    except UsageError as error:
        hint = "begin again without a cursor"
        raise UsageError("the generation of this cursor is not kept any more", hint=hint) from error
    page = contents.records(index, filters=filters, limit=limit, after=after, tenant=tenant)
    following = None if page.following is None else f"{index.generation}-{page.following}"
    return {"generation": index.generation, "total": page.total, "records": page.records, "next": following}
