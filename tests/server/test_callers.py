"""Callers over HTTP: the same answer to every wrong credential, scopes, limits, and keys that come and go."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from servers import client_of, sent
from signed_tokens import claims, forged, settings, signed
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from waiting import pause

from retrieve_cli.errors import UsageError
from retrieve_cli.http.secrets import Secret
from retrieve_cli.server.auth.keys import KeyFile, KeyRing, new_key
from retrieve_cli.server.auth.web_tokens import TokenVerifier
from retrieve_cli.server.http.answers import failure_handlers
from retrieve_cli.server.http.callers import SCOPES, Callers, expect_safe
from retrieve_cli.server.http.service import Guard

Headers = Mapping[str, str] | Sequence[tuple[str, str]]


def application(callers: Callers) -> Guard:
    """An application that says who asks, and needs a scope for each path."""

    async def answer(request: Request) -> JSONResponse:
        caller = callers.of(request, request.path_params["scope"])
        callers.of(request, request.path_params["scope"])
        return JSONResponse({"tenant": caller.tenant, "scopes": sorted(caller.scopes), "name": caller.name})

    app = Starlette(routes=[Route("/{scope}", answer)], exception_handlers=failure_handlers())
    return Guard(app, None, callers)


def ask(callers: Callers, scope: str = "search", headers: Headers = ()) -> httpx.Response:
    (answer,) = sent(application(callers), ("GET", f"/{scope}", {"headers": httpx.Headers(headers)}))
    return answer


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


@pytest.fixture
def file(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path)


def test_without_any_credential_anyone_may_do_everything(file: KeyFile) -> None:
    callers = Callers(ring=KeyRing(file))
    assert ask(callers, "index:admin").json() == {"tenant": None, "scopes": sorted(SCOPES), "name": "anyone"}
    assert not callers.required


def test_a_key_is_sent_as_bearer_or_as_x_api_key(file: KeyFile) -> None:
    text = file.create(["search"], tenant="acme", name="web").text
    callers = Callers(ring=KeyRing(file))
    expected = {"tenant": "acme", "scopes": ["search"], "name": "web"}
    for headers in (bearer(text), {"Authorization": f"bearer   {text} "}, {"X-API-Key": text}):
        assert ask(callers, headers=headers).json() == expected
    assert ask(callers, headers={"X-API-Key": text, "Authorization": "Basic eDp5"}).json() == expected


def test_the_servers_own_key_has_all_scopes(file: KeyFile) -> None:
    callers = Callers(Secret("sk-own"), ring=KeyRing(file))
    assert ask(callers, "metrics", bearer("sk-own")).json()["scopes"] == sorted(SCOPES)
    assert ask(callers, "metrics", bearer("sk-own2")).status_code == 401


def test_every_wrong_credential_gets_the_same_answer(file: KeyFile, tmp_path: Path) -> None:
    expired, revoked = file.create(["search"], expires=datetime(2020, 1, 1, tzinfo=UTC)), file.create(["search"])
    file.revoke(revoked.key.id)
    callers = Callers(Secret("sk-own"), ring=KeyRing(file), tokens=TokenVerifier(settings(tmp_path)))
    wrong = [
        *(expired.text, revoked.text, new_key(), "rtv_", "x", "", "x" * 9000, "sk-ow", "a.b.c"),
        *(signed(exp=1), signed(aud="another"), signed("RSA", 1), signed(extra="x" * 8000)),
        *(forged({"alg": "none"}, claims()), forged(b"[" * 900, b"[" * 900)),
    ]
    answers = [ask(callers, headers=bearer(text)) for text in wrong]
    answers += [ask(callers, headers={"Authorization": text}) for text in ("Basic eDp5", "Bearer", "Negotiate x")]
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.content for answer in answers}) == 1
    assert {answer.headers["WWW-Authenticate"] for answer in answers} == {
        'Bearer realm="retrieve", error="invalid_token"'
    }
    none = ask(callers)
    assert (none.status_code, none.content) == (401, answers[0].content)
    assert none.headers["WWW-Authenticate"] == 'Bearer realm="retrieve"'
    assert ask(callers, headers=bearer(signed())).status_code == 200


def test_an_answer_to_a_caller_is_not_for_caches_between(file: KeyFile) -> None:
    assert "Cache-Control" not in ask(Callers()).headers
    text = file.create(["search"]).text
    assert ask(Callers(ring=KeyRing(file)), headers={"X-API-Key": text}).headers["Cache-Control"] == "private, no-cache"


def test_several_credentials_are_an_invalid_request(file: KeyFile) -> None:
    text = file.create(["search"]).text
    callers = Callers(ring=KeyRing(file))
    twice = [("Authorization", f"Bearer {text}"), ("Authorization", f"Bearer {text}")]
    for headers in (twice, [*twice[:1], ("X-API-Key", text)], [("X-API-Key", text)] * 2):
        answer = ask(callers, headers=headers)
        assert answer.status_code == 400
        assert 'error="invalid_request"' in answer.headers["WWW-Authenticate"]


def test_a_missing_scope_is_403_and_names_it(file: KeyFile) -> None:
    text = file.create(["search", "web"]).text
    answer = ask(Callers(ring=KeyRing(file)), "documents:write", bearer(text))
    assert answer.status_code == 403
    assert 'error="insufficient_scope", scope="documents:write"' in answer.headers["WWW-Authenticate"]
    assert answer.json()["error"]["kind"] == "forbidden"


def test_keys_come_and_go_while_the_server_runs(file: KeyFile) -> None:
    callers = Callers(ring=KeyRing(file))
    assert ask(callers).status_code == 200
    made = file.create(["search"])
    assert ask(callers).status_code == 401
    assert ask(callers, headers=bearer(made.text)).status_code == 200
    file.revoke(made.key.id)
    assert ask(callers, headers=bearer(made.text)).status_code == 401
    file.path.unlink()
    assert ask(callers).status_code == 401


def test_a_token_waits_for_the_key_set_that_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = TokenVerifier(settings(tmp_path))
    callers = Callers(tokens=tokens)
    reads: list[float] = []

    def due(_: str) -> bool:
        return not reads

    def slowly() -> None:
        pause(0.05, why="a key set that comes slowly, so that requests arrive meanwhile")
        reads.append(1)

    monkeypatch.setattr(tokens, "due", due)
    monkeypatch.setattr(tokens, "must_wait", due)
    monkeypatch.setattr(tokens, "reload", slowly)

    async def together() -> list[Any]:
        async with client_of(application(callers)) as client:
            requests = (client.get("/search", headers=bearer(signed())) for _ in range(8))
            return [answer.status_code for answer in await asyncio.gather(*requests)]

    assert asyncio.run(together()) == [200] * 8
    assert len(reads) == 1


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.7", "example.org", ""])
def test_a_server_that_others_reach_needs_a_key(host: str) -> None:
    with pytest.raises(UsageError, match="requires no key") as caught:
        expect_safe(host, Callers(), insecure=False)
    assert "--insecure" in caught.value.hint
    expect_safe(host, Callers(), insecure=True)
    expect_safe(host, Callers(Secret("sk")), insecure=False)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_a_server_on_loopback_needs_none(host: str) -> None:
    expect_safe(host, Callers(), insecure=False)
