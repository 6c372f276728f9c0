"""`retrieve keys`: keys of the callers of a server: create, list, revoke."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

from retrieve_cli.cli.options import Shared, argument, group, option, shared

if TYPE_CHECKING:
    from retrieve_cli.server.auth.keys import KeyFile

app = group("Manage the keys of the server's callers: create, list, revoke.")


@app.command()
@shared("text", "json")
def create(
    scope: Annotated[
        list[str] | None,
        option(
            "--scope",
            "search, web, tools:call, documents:write, index:admin or metrics; repeatable.  [default: search]",
            "SCOPE,…",
        ),
    ] = None,
    name: Annotated[str, option("--name", "Name of the key in lists and logs.", "NAME")] = "",
    tenant: Annotated[str | None, option("--tenant", "Only the records of this tenant exist for the key.", "X")] = None,
    expires: Annotated[str, option("--expires", "End of its validity: 90d, 12h, 2027-01-31.", "90d|DATE")] = "never",
    *,
    shared: Shared,
) -> None:
    """Create a key and print it, once: only its digest is stored. A running server accepts it at once."""
    from retrieve_cli.output.formats import document
    from retrieve_cli.server.auth.keys import read_end, written
    from retrieve_cli.server.auth.scopes import WHOLE_INDEX, read_scopes

    scopes = read_scopes(scope or ["search"])
    end = read_end(expires, datetime.now(UTC))
    created = _file(shared).create(scopes, name=name, tenant=tenant, expires=end)
    key = created.key
    whole = [name for name in scopes if name in WHOLE_INDEX]
    if tenant is not None and whole:
        shared.talk.say(f"note: the key may see figures of the whole index, other tenants included: {', '.join(whole)}")
    if shared.format == "json":
        print(document({"key": created.text, **key.shown(datetime.now(UTC))}))
        return
    print(created.text, flush=True)
    parts = [
        f"key {key.id}{f' ({key.name})' if key.name else ''} for {', '.join(key.scopes)}",
        *([f"tenant {key.tenant}"] if key.tenant is not None else []),
        *([f"until {written(key.expires)}"] if key.expires is not None else []),
    ]
    shared.talk.say(f"created {'; '.join(parts)}; it is not shown again")


@app.command("list")
@shared("text", "json")
def list_(*, shared: Shared) -> None:
    """List the keys by id; the keys themselves are not stored."""
    from retrieve_cli.output.formats import document

    now, stored = datetime.now(UTC), _file(shared).stored()
    if shared.format == "json":
        print(document({"keys": [key.shown(now) for key in stored]}))
    elif stored:
        from retrieve_cli.output.styled_lines import print_table

        rows = []
        for key in stored:
            end = "never" if key.expires is None else f"{key.expires:%Y-%m-%d %H:%M}"
            names = (key.id, key.name, " ".join(key.scopes), key.tenant or "")
            rows.append((*names, f"{key.created:%Y-%m-%d}", end, key.state(now)))
        columns = ("id", "name", "scopes", "tenant", "created", "expires", "state")
        print_table(shared.console(), columns, rows)
    else:
        shared.talk.say("there are no keys; create one: retrieve keys create")


@app.command()
@shared("text", "json")
def revoke(id_: Annotated[str, argument("ID", "The id of a key.")], *, shared: Shared) -> None:
    """Make a key invalid for good. A running server rejects it at once."""
    key = _file(shared).revoke(id_)
    shared.show(key.shown(datetime.now(UTC)), [f"revoked {key.id}{f' ({key.name})' if key.name else ''}"])


def _file(shared: Shared) -> KeyFile:
    from retrieve_cli.server.auth.keys import KeyFile

    return KeyFile(shared.artifacts)
