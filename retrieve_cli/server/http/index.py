"""The index and its tasks: `GET /index`, `POST /index`, `GET /tasks`, `GET /tasks/{id}`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from retrieve_cli.api.documents import index_of
from retrieve_cli.config.values import unknown
from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.search.about import about_of
from retrieve_cli.search.access import of_tenant_or_none
from retrieve_cli.server.http.admission import read_body
from retrieve_cli.server.http.answers import response
from retrieve_cli.server.http.description import TEXT, operation, parameter
from retrieve_cli.server.http.documents import PREFER, finish, read_limit
from retrieve_cli.server.http.health import age_s
from retrieve_cli.server.http.jobs import ACTIONS, Action, Jobs
from retrieve_cli.server.http.requests import read_object
from retrieve_cli.server.http.state import State

_LISTED, _MOST_LISTED = 20, 200
_BODY: dict[str, Json] = {
    "type": "object",
    "properties": {
        "action": {"type": "string", "enum": list(ACTIONS)},
        "generation": {"type": "string", "description": "The generation of `rollback`; by default the one before."},
    },
    "required": ["action"],
    "additionalProperties": False,
}


def router(state: State) -> APIRouter:
    """Return the routes of the index and of tasks."""
    jobs = Jobs(state.syncing.tasks, state.documents)

    async def show(request: Request) -> Response:
        """Return the state of the index."""
        tenant = state.callers.of(request, "search").tenant
        return response(await state.pool.run(request, _view, state, tenant))

    async def act(request: Request) -> Response:
        """Begin a sync, a rollback or a verification."""
        tenant = state.callers.of(request, "index:admin").tenant
        action, generation = read_action(read_object(await read_body(request, state.limits)))
        job = state.syncing.submit(action, tenant=tenant, generation=generation)
        over = await finish(request, job)
        value = await state.pool.run(request, lambda: jobs.one(job.task, tenant=tenant))
        return response(
            value, 200 if over else 202, {"Location": f"{request.scope.get('root_path', '')}/tasks/{job.task}"}
        )

    async def task(request: Request) -> Response:
        """Return the state of a task."""
        tenant = state.callers.of(request, "search").tenant
        return response(await state.pool.run(request, lambda: jobs.one(request.path_params["id"], tenant=tenant)))

    async def tasks(request: Request) -> Response:
        """List the latest tasks of the caller."""
        tenant = state.callers.of(request, "search").tenant
        limit = read_limit(request, usual=_LISTED, most=_MOST_LISTED)
        return response({"tasks": await state.pool.run(request, lambda: jobs.latest(limit, tenant=tenant))})

    routes = APIRouter(tags=["index"])
    count: dict[str, Json] = {"type": "integer", "minimum": 1, "maximum": _MOST_LISTED}
    limit, name = (
        parameter("limit", "query", count, "Number of tasks."),
        parameter("id", "path", TEXT, "Id of the task."),
    )
    begun = partial(operation, statuses=(200, 202), body=_BODY, parameters=[PREFER], scope="index:admin")
    routes.add_api_route("/index", show, **operation("get_index", "IndexState"))
    routes.add_api_route("/index", act, **begun("act_on_index", "TaskState"))
    routes.add_api_route("/tasks", tasks, **operation("list_tasks", "TaskList", parameters=[limit]))
    routes.add_api_route("/tasks/{id}", task, **operation("get_task", "TaskState", parameters=[name]))
    return routes


def read_action(payload: Mapping[str, Any]) -> tuple[Action, str | None]:
    """Return the action that a body asks for, and the generation of a rollback. Raises: UsageError."""
    for key in payload:
        if key not in ("action", "generation"):
            raise unknown(f"key {quoted(key)} in the request", key, ("action", "generation"))
    given, generation = payload.get("action"), payload.get("generation")
    action = next((action for action in ACTIONS if action == given), None)
    if action is None:
        raise unknown(f"action {quoted(given)}", str(given), ACTIONS)
    if generation is None:
        return action, None
    if action != "rollback" or not isinstance(generation, str) or not generation.isalnum():
        raise UsageError("`generation` is the id of the generation of a rollback", hint='{"action": "rollback"}')
    return action, generation


def about(state: State, tenant: str | None) -> dict[str, Json]:
    """Return the name and description of the index for a caller; nothing without an index."""
    if (index := index_of(state.live)) is None:
        return {}
    with index.reading() as generation:
        described = about_of(generation, tenant)
    return {"name": described.name, "description": described.description}


def _view(state: State, tenant: str | None) -> Json:
    """Return the state of the index; a tenant gets the number of its records, and nothing about other tenants."""
    documents, store = state.documents, state.store
    view: dict[str, Json] = {"generation": None, "sequence": documents.sequences.included()}
    if (index := index_of(state.live)) is not None:
        manifest = index.opened.generation.manifest
        at = manifest.built.get("at")
        view |= {"generation": index.generation, "sequence": documents.sequences.included(index.generation)}
        view |= {"published": at, "age_s": age_s(at), **about(state, tenant)}
        with index.reading() as generation:
            view["records"] = of_tenant_or_none(generation, tenant).size
            if tenant is None:
                view["chunks"] = generation.chunk_size
                view["sources"] = [
                    {"name": source.name, "kind": source.kind, "records": source.records, "rejected": source.refused}
                    for source in manifest.sources
                ]
    if tenant is None:
        view["queued"] = max(documents.inbox.sequence - view["sequence"], 0)
        view["current"] = store.live()
        view["syncs"] = list(state.syncing.tasks.syncs())
    return view
