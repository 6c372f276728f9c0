"""Keys: shown once, stored as digests, read by a running server as they are created and revoked."""

import json
import os
import stat
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from samples import Program

from retrieve_cli.errors import IndexCorrupt, RetrieveError, UsageError
from retrieve_cli.server.auth.keys import PREFIX, KeyFile, KeyRing, is_key, new_key
from retrieve_cli.server.auth.scopes import claimed_scopes, read_scopes

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


def test_keys_differ_and_have_a_prefix_and_a_checksum() -> None:
    keys = {new_key() for _ in range(200)}
    assert len(keys) == 200
    assert all(is_key(key) and key.removeprefix(PREFIX).isalnum() for key in keys)


@given(st.integers(0, 52), st.sampled_from("0aZ9_é\n"))
def test_a_mistyped_key_is_recognised_without_a_look_up(place: int, char: str) -> None:
    key = new_key()
    typed = key[:place] + char + key[place + 1 :]
    assert is_key(typed) == (typed == key)


def test_the_command_prints_a_key_once_and_stores_its_digest(retrieve: Program) -> None:
    words = ("--scope", "search,documents:write", "--scope", "web", "--tenant", "acme", "--name", "web app")
    umask = os.umask(0)
    try:
        done = retrieve("keys", "create", *words, "--expires", "90d")
    finally:
        os.umask(umask)
    assert done.code == 0
    assert is_key(done.out.strip())
    file = Path("artifacts/keys.json")
    assert [stat.S_IMODE(path.stat().st_mode) for path in (file, file.with_name("keys.lock"))] == [0o600, 0o600]
    assert done.out.strip() not in file.read_text()
    assert len(json.loads(file.read_text())["keys"][0]["sha256"]) == 64
    (listed,) = retrieve("keys", "list", "--json").json["keys"]
    assert listed["scopes"] == ["search", "documents:write", "web"]
    named = {"tenant": "acme", "name": "web app", "state": "valid"}
    assert {name: listed[name] for name in named} == named
    for words in (("list",), ("list", "--json")):
        shown = retrieve("keys", *words).out
        assert done.out.strip() not in shown
        assert "sha256" not in shown
    assert "web app" in retrieve("keys", "list").out


def test_a_key_is_revoked_for_good(retrieve: Program) -> None:
    made = retrieve("keys", "create", "--json").json
    assert retrieve("keys", "revoke", made["id"]).code == 0
    assert retrieve("keys", "revoke", made["id"], "--json").json["state"] == "revoked"
    assert retrieve("keys", "list", "--json").json["keys"][0]["state"] == "revoked"
    done = retrieve("keys", "revoke", "nobody")
    assert (done.code, "keys list" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--scope", "serch"), "did you mean search?"),
        (("--expires", "soon"), "90d"),
        (("--expires", "2020-01-01"), "not in the future"),
        (("--tenant", "a\nb"), "--tenant"),
        (("--name", "n" * 201), "--name"),
    ],
)
def test_what_a_key_cannot_be_is_an_error_that_says_what_it_can(retrieve: Program, words, said: str) -> None:
    done = retrieve("keys", "create", *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert not Path("artifacts/keys.json").exists()


def test_scopes_of_the_whole_index_are_noted_for_a_tenant(retrieve: Program) -> None:
    assert "whole index" in retrieve("keys", "create", "--scope", "metrics", "--tenant", "acme").err
    assert "whole index" not in retrieve("keys", "create", "--scope", "metrics").err


def test_a_server_sees_new_revoked_and_expired_keys_without_a_restart(tmp_path: Path) -> None:
    file = KeyFile(tmp_path)
    ring = KeyRing(file)
    assert not ring.required
    first = file.create(["search"], expires=datetime.now(UTC) + timedelta(hours=1))
    assert ring.stale()
    ring.reload()
    assert ring.required
    key = ring.find(first.text)
    assert key is not None
    assert (key.id, key.caller.scopes) == (first.key.id, {"search"})
    assert ring.find(first.text, datetime.now(UTC) + timedelta(hours=2)) is None
    assert ring.find(new_key()) is None
    file.revoke(first.key.id)
    ring.reload()
    assert ring.find(first.text) is None
    assert ring.required  # a server whose last key was revoked is not open to anyone


def test_every_flipped_bit_of_a_file_of_keys_leaves_the_keys_or_is_damage(tmp_path: Path) -> None:
    file = KeyFile(tmp_path)
    file.create(["search"], name="web", tenant="acme")
    sound, known = file.path.read_bytes(), file.stored()
    for bit in range(8 * len(sound)):
        content = bytearray(sound)
        content[bit // 8] ^= 1 << bit % 8
        file.path.write_bytes(content)
        with suppress(IndexCorrupt):
            assert file.stored() == known, bit


@pytest.mark.parametrize("content", ["", "{", "[]", '{"version": 1}', '{"version": 1, "keys": [{}]}', "[" * 100_000])
def test_a_damaged_file_of_keys_is_an_error_at_the_start_and_no_key_later_on(tmp_path: Path, content: str) -> None:
    file, said = KeyFile(tmp_path), []
    made = file.create(["search"])
    ring = KeyRing(file, say=said.append)
    file.path.write_text(content)
    ring.reload()
    assert ring.find(made.text) is None
    assert ring.required
    assert len(said) == 1
    assert not ring.stale()
    with pytest.raises(RetrieveError, match="damaged"):
        KeyRing(file)
    with pytest.raises(RetrieveError, match="damaged"):
        file.create(["search"])
    file.path.unlink()
    ring.reload()
    assert ring.required


def test_the_form_of_scopes_in_flags_and_claims() -> None:
    assert read_scopes(["web, search", "search"]) == ("search", "web")
    with pytest.raises(UsageError):
        read_scopes(["search", "admin"])
    assert claimed_scopes("openid search  web") == {"search", "web"}
    assert claimed_scopes(["search", 7, {"web": 1}, "x"]) == {"search"}
    assert claimed_scopes({"search": True}) == claimed_scopes(None) == claimed_scopes(7) == frozenset()
