"""A cloned folder is not trusted: what its configuration and its index reach counts once the user agreed to it."""

import json
import os
import pickle
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from hostile.tries import forge
from program.clones import (
    COMMANDS,
    SOURCES,
    VARIABLE,
    Finding,
    Key,
    Watch,
    configuration,
    reaching_keys,
    run,
    source_fields,
    template,
    untrusted,
    values_of,
)
from samples import TOOLS, Done, Program, fails, write_catalog
from told_servers import Answer, Asked, serving

from retrieve_cli.config.bounds import keys_of
from retrieve_cli.config.settings import Settings, section_names
from retrieve_cli.config.trust import state_file, way_of

KEYS = list(reaching_keys())
PLAIN = set(
    "facets.model llm.model pgvector.schema qdrant.collection opensearch.index "
    "encoder.query_prefix encoder.passage_prefix gating.field graph.relations graph.entities "
    "expansion.kinds expansion.weights jwt.issuer jwt.audience jwt.algorithms jwt.tenant_claim jwt.scope_claim "
    "about.name about.description search.min_score "
    "catalog.fields catalog.sheet catalog.split boost.factors recency.field chunking.rules docs.include "
    "docs.exclude bm25.languages synonyms.rules".split()
)
"""Keys of texts that reach nothing: names within a server, fields, prefixes, languages."""


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = template(tmp_path / "user")
    untrusted(monkeypatch, made)
    return made


def test_every_key_of_texts_or_paths_says_whether_it_reaches_out() -> None:
    undecided = [
        f"{name}.{field.name}"
        for name in section_names()
        if name not in ("plugins", "sources")
        for field in keys_of(getattr(Settings(), name))
        if way_of(field) is None and "Literal" not in field.type and field.metadata.get("duration") is None
        if any(word in field.type for word in ("str", "Path", "Sequence", "Mapping"))
    ]
    assert set(undecided) == PLAIN
    assert set(source_fields()) == set("kind path url endpoint command query token_env user_env password_env".split())


# ------------------------------------------------------------------------------------- what an untrusted folder does


@pytest.mark.parametrize("key", KEYS, ids=lambda key: f"{key.section}.{key.name}")
def test_a_value_that_reaches_out_does_not_count_and_that_is_said(clone: Path, key: Key) -> None:
    for value in values_of(key):
        code, _, err = run(clone, {key.section: {key.name: value}}, "inspect", "status")
        assert code == 0, err
        name = f"{key.section}.{key.name}"
        assert f"config.yaml reaches out of its folder ({name}), and you did not agree to that" in err
        assert "retrieve trust" in err


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"encoder": {"kind": "remote", "model": "x", "base_url": "http://127.0.0.1:9"}}, ("build", "tools.jsonl")),
        ({"sources": [SOURCES[0]]}, ("build",)),
        ({"sources": [SOURCES[4]]}, ("sync",)),
        ({"engines": {"dense": "qdrant"}}, ("query", "brain")),
        ({"engines": {"dense": "qdrant"}}, ("engines", "push")),
        ({"graph": {"files": ["../canary/file"]}}, ("build", "tools.jsonl")),
        ({"chunking": {"entities": True, "entities_model": "evil"}}, ("build", "tools.jsonl")),
        ({"facets": {"base_url": "http://127.0.0.1:9", "model": "x"}}, ("build", "tools.jsonl")),
        ({"query": {"server": "http://127.0.0.1:9"}}, ("query", "brain")),
        ({"web": {"enabled": True}}, ("web", "crispr")),
        ({"budget": {"tokenizer": "../canary/file"}}, ("query", "brain", "--max-tokens", "50")),
        ({"executors": {"executor": "ray:127.0.0.1:9"}}, ("build", "tools.jsonl")),
        ({"plugins": {"evil": {}}}, ("build", "tools.jsonl")),
        ({"splade": {"model": "./models/evil"}}, ("build", "tools.jsonl")),
        ({"engines": {"lexical": "opensearch"}}, ("build", "tools.jsonl")),
        ({"docs": {"follow_links": True}}, ("build", "--docs-dir", ".")),
    ],
    ids="-".join,
)
def test_what_would_change_the_index_or_the_kind_of_answer_is_refused(
    clone: Path, settings: dict[str, Any], words: tuple[str, ...]
) -> None:
    code, out, err = run(clone, settings, *words)
    assert (code, out) == (2, ""), err
    assert "you did not agree to that" in err
    assert "hint: look at it and agree: retrieve trust" in err


class Told(NamedTuple):
    """A reranker that answers, and keeps what it was sent."""

    url: str
    asked: list[Asked]


@pytest.fixture
def server() -> Iterator[Told]:
    asked: list[Asked] = []

    def answer(request: Asked) -> Answer:
        asked.append(request)
        scores = [{"index": row, "relevance_score": 0.5} for row in range(len(request.json["documents"]))]
        return Answer(json.dumps({"results": scores}).encode())

    with serving(answer) as url:
        yield Told(url, asked)


def reranking(told: Told) -> dict[str, Any]:
    return {"rerank": {"backend": "remote", "model": "x", "base_url": told.url, "api_key_env": VARIABLE, "retries": 0}}


def test_a_query_in_a_clone_sends_nothing_and_answers_without_the_stage(clone: Path, server: Told) -> None:
    code, out, err = run(clone, reranking(server), "query", "brain")
    assert (code, server.asked) == (0, [])
    assert "BrainStrip" in out
    assert "remote is skipped: the configuration reaches out of its folder (rerank.api_key_env, rerank.base_url)" in err
    answer = json.loads(run(clone, reranking(server), "query", "brain", "--json")[1])
    assert "retrieve trust" in answer["strategies_skipped"]["remote"]


def in_child(watched: Callable[[], list[Finding]]) -> list[Finding]:
    """Return what a function finds in a forked child: a hook on events stays for the life of a process."""
    ours, theirs = os.pipe()
    if (pid := os.fork()) == 0:
        with suppress(BaseException):
            os.write(theirs, pickle.dumps(watched())[:60_000])
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as pipe:
        content = pipe.read()
    os.waitpid(pid, 0)
    found: list[Finding] = pickle.loads(content)
    return found


def findings(clone: Path, seed: int, tries: int) -> list[Finding]:
    """Return what generated configurations bring about that nobody agreed to."""
    watch, random = Watch(clone.parent / "canary"), Random(seed)
    saved = clone.parent / "artifacts"
    shutil.copytree(clone / "artifacts", saved)
    for _ in range(tries):
        settings, words = configuration(random, KEYS), random.choice(COMMANDS)
        before = len(watch.found)
        run(clone, settings, *words)
        if len(watch.found) > before:
            watch.found.insert(before, Finding(" ".join(words), json.dumps(settings)))
            break
        shutil.rmtree(clone / "artifacts")
        shutil.copytree(saved, clone / "artifacts")
    return watch.found


@pytest.mark.parametrize("seed", range(2))
def test_generated_clones_send_read_and_import_nothing(clone: Path, seed: int) -> None:
    assert in_child(lambda: findings(clone, seed, 12)) == []


def test_the_watch_sees_what_a_trusted_folder_does(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETRIEVE_TRUST", "1")

    def trusted() -> list[Finding]:
        watch = Watch(clone.parent / "canary")
        run(clone, {"sources": [SOURCES[0]]}, "build")
        run(clone, {"sources": [SOURCES[2]]}, "build")
        run(clone, {"rerank": {"backend": "remote", "model": "x", "base_url": "http://127.0.0.1:9"}}, "query", "brain")
        run(clone, {"encoder": {"kind": "evil"}}, "build", "tools.jsonl")
        return watch.found

    assert {"open", "socket.connect", "import"} <= {finding.event for finding in in_child(trusted)}


# ----------------------------------------------------------------------------------------------------- the agreement


def test_the_user_agrees_once_to_these_values_of_this_file(clone: Path, server: Told) -> None:
    settings = reranking(server)
    assert run(clone, settings, "query", "brain")[0] == 0
    code, _, err = run(clone, settings, "trust")
    assert (code, "hint: retrieve trust --yes" in err) == (2, True)
    for line in (
        f"rerank.base_url {server.url}: sends queries, texts or records over the network",
        f"rerank.api_key_env {VARIABLE}: sends the value of this environment variable as a key",
    ):
        assert line in err
    assert run(clone, settings, "trust", "--yes")[:2] == (0, "config.yaml: trusted\n")
    assert stat.S_IMODE(state_file().stat().st_mode) == 0o600
    assert run(clone, settings, "query", "brain")[0] == 0
    assert server.asked
    sent = len(server.asked)
    run(clone, {**settings, "search": {"k": 3}}, "query", "lungs")  # what does not reach out may change
    assert len(server.asked) > sent
    sent = len(server.asked)
    other = {"rerank": {**settings["rerank"], "api_key_env": "HOME"}}
    assert "you did not agree" in run(clone, other, "query", "cells")[2]
    moved = clone.with_name("moved")
    shutil.copytree(clone, moved)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(moved)
        assert "you did not agree" in run(moved, settings, "query", "cells")[2]
    assert len(server.asked) == sent
    assert run(clone, settings, "trust", "--revoke")[0] == 0
    assert "you did not agree" in run(clone, settings, "query", "stitch")[2]
    shown = json.loads(run(clone, settings, "trust", "--yes", "--json")[1])["trust"]
    assert [(each["trusted"], {reach["key"] for reach in each["reaches"]}) for each in shown] == [
        (True, {"rerank.base_url", "rerank.api_key_env"})
    ]


def test_a_yes_is_to_the_place_that_a_path_leads_to(clone: Path) -> None:
    one, two = (write_catalog(clone.parent / f"{name}.jsonl", TOOLS[:1]) for name in ("one", "two"))
    settings = {"sources": [{"kind": "catalog", "path": "data.jsonl"}]}
    (clone / "data.jsonl").symlink_to(one)
    _, _, err = run(clone, settings, "trust")
    assert f"data.jsonl -> {one}: is outside of the folder" in err
    assert run(clone, settings, "trust", "--yes")[0] == 0
    assert run(clone, settings, "build")[0] == 0
    (clone / "data.jsonl").unlink()
    (clone / "data.jsonl").symlink_to(two)
    for words in (("build",), ("sync",), ("query", "brain")):
        assert "retrieve trust" in run(clone, settings, *words)[2], words
    assert run(clone, settings, "sync")[0] == 2
    assert run(clone, {}, "sync")[0] == 2  # the index names it as well
    assert f" -> {two}: " in run(clone, settings, "trust")[2]


def test_what_is_only_read_is_not_said_to_be_sent(clone: Path) -> None:
    settings = {
        "sources": [{"kind": "http", "url": "http://127.0.0.1:9/tools.jsonl"}],
        "models": {"auto_download": True},
        "jwt": {"jwks_url": "http://127.0.0.1:9/keys"},
    }
    said = run(clone, settings, "trust")[2]
    assert "config.yaml runs code or reaches out of its folder:" in said
    assert said.count(": reads from the network") == 3
    assert ": sends" not in said


def test_what_the_user_says_counts_without_asking(clone: Path, server: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = clone.parent / "mine.yaml"
    outside.write_text(json.dumps(reranking(server)))
    assert run(clone, {}, "query", "brain", "--config", str(outside))[0] == 0
    assert len(server.asked) == 1
    inside = clone / "other.yaml"
    inside.write_text(json.dumps(reranking(server)))
    assert "you did not agree" in run(clone, {}, "query", "brain", "--config", "other.yaml")[2]
    assert "you did not agree" in run(clone, {}, "query", "brain", "--config", str(inside))[2]
    assert len(server.asked) == 1
    for name, value in reranking(server)["rerank"].items():
        monkeypatch.setenv(f"RETRIEVE_RERANK__{name.upper()}", str(value))
    assert run(clone, reranking(server), "query", "lungs")[0] == 0  # the environment is the user's
    assert len(server.asked) == 2
    for name in reranking(server)["rerank"]:
        monkeypatch.delenv(f"RETRIEVE_RERANK__{name.upper()}")
    monkeypatch.setenv("RETRIEVE_TRUST", "1")
    assert run(clone, reranking(server), "query", "cells")[0] == 0
    assert len(server.asked) == 3


def test_a_file_that_the_program_wrote_for_the_user_is_trusted(clone: Path, retrieve: Program) -> None:
    assert retrieve("init", "--preset", "rag").code == 0
    assert "you did not agree" not in retrieve("inspect", "status").err


@pytest.mark.parametrize(
    ("typed", "agreed"), [("y\n", True), ("yes\n", True), ("\n", False), ("", False), ("no\n", False)]
)
def test_on_a_terminal_the_question_comes_once(
    clone: Path, server: Told, stdin: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, retrieve: Program,
    typed: str, agreed: bool,
) -> None:  # fmt: skip
    monkeypatch.setattr("retrieve_cli.cli.agreement.can_ask", lambda *, quiet: not quiet)
    (clone / "config.yaml").write_text(json.dumps(reranking(server)))
    assert "Agree to that?" not in retrieve("query", "brain", "--json").err
    stdin(typed)
    asked = retrieve("query", "brain")
    assert asked.err.count("Agree to that? [y/N] ") == 1
    assert f"rerank.base_url {server.url}" in asked.err
    assert bool(server.asked) is agreed
    again = retrieve("query", "lungs")
    assert "Agree to that?" not in again.err
    assert ("you did not agree" in again.err) is not agreed


def test_a_value_does_not_look_like_another_one(clone: Path) -> None:
    hostile = "http://еxample.org/\x1b[2K\u202e" + "x" * 400
    _, _, err = run(clone, {"rerank": {"base_url": hostile}}, "trust")
    (line,) = [line for line in err.splitlines() if "rerank.base_url" in line]
    assert "http://\\u0435xample.org/\\x1b[2K\\u202e" in line
    assert "…: sends queries" in line


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"version": 2, "agreed": {}}', '{"version": 1, "agreed": []}'])
def test_without_a_readable_state_nothing_is_trusted(clone: Path, server: Told, damage: str) -> None:
    assert run(clone, reranking(server), "trust", "--yes")[0] == 0
    state_file().write_text(damage)
    assert "you did not agree" in run(clone, reranking(server), "query", "brain")[2]
    assert server.asked == []
    assert run(clone, reranking(server), "trust", "--yes")[0] == 0
    assert "you did not agree" not in run(clone, reranking(server), "query", "brain")[2]


def test_without_a_home_nothing_is_trusted_and_that_is_said(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"rerank": {"backend": "remote", "base_url": "http://127.0.0.1:1/v1", "model": "x"}}
    monkeypatch.setenv("XDG_STATE_HOME", "state")  # a relative one is none
    monkeypatch.setenv("HOME", str(clone.parent / "home"))
    assert state_file() == clone.parent / "home/.local/state/retrieve/trust.json"
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    assert "retrieve trust" in run(clone, settings, "query", "brain")[2]
    code, _, err = run(clone, settings, "trust", "--yes")
    assert (code, "set HOME or XDG_STATE_HOME" in err) == (2, True)
    assert not Path("state").exists()


def test_a_folder_that_reaches_nothing_never_asks(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retrieve_cli.cli.agreement.can_ask", lambda *, quiet: pytest.fail("it asks"))
    plain = {"sources": [{"kind": "catalog", "path": "tools.jsonl"}], "search": {"k": 3}, "fusion": {"method": "rrf"}}
    for words in (("build",), ("sync",), ("query", "brain"), ("doctor",)):
        assert "agree" not in run(clone, plain, *words)[2]
    assert not state_file().exists()
    assert run(clone, plain, "trust")[:2] == (0, "nothing reaches out of this folder\n")


# ------------------------------------------------------------------------------------------- artifacts from elsewhere


@pytest.fixture
def elsewhere(clone: Path, retrieve: Program) -> Path:
    """A catalog outside of the folder, of which the user has built the index."""
    catalog = write_catalog(clone.parent / "elsewhere.jsonl", TOOLS)
    assert retrieve("build", "--catalog", catalog).code == 0
    return catalog


def published(clone: Path) -> None:
    """Make of a folder of the user one that somebody else has."""
    state_file().unlink()
    del clone


def said(done: Done) -> bool:
    return "you did not agree to read" in done.err


def test_an_index_that_the_user_built_is_compared_with_its_sources(elsewhere: Path, retrieve: Program) -> None:
    assert not said(retrieve("query", "brain"))
    elsewhere.write_text("")
    assert "changed since the build" in retrieve("query", "brain").err


def test_the_sources_that_a_cloned_index_names_are_not_read(clone: Path, elsewhere: Path, retrieve: Program) -> None:
    published(clone)
    elsewhere.unlink()
    elsewhere.mkdir()  # reading it would be an error
    done = retrieve("query", "brain")
    assert (done.code, said(done), "hits have changed" in done.err) == (0, True, False)
    assert f"not compared with {elsewhere}" in done.err
    synced = retrieve("sync")
    assert (synced.code, said(synced), "retrieve trust" in synced.err) == (2, True, True)
    assert "you did not agree to read" in retrieve("doctor").out


def test_links_of_a_cloned_index_are_not_followed(clone: Path, retrieve: Program) -> None:
    (generation,) = (clone / "artifacts" / "generations").iterdir()
    secret = clone.parent / "canary"
    names = ("calibration.json", "inbox/x", "sources/x")
    for place in (generation / "extra", *(clone / "artifacts" / name for name in names)):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(secret / "file")
        done = retrieve("query", "brain")
        assert (done.code, place.name in done.err, "retrieve trust" in done.err) == (2, True, True)
        place.unlink()
    assert retrieve("query", "brain").code == 0
    (clone / "artifacts").rename(secret / "artifacts")
    (clone / "artifacts").symlink_to(secret / "artifacts")
    for words in (("query", "brain"), ("build", "tools.jsonl"), ("sync",), ("inspect", "files")):
        assert "retrieve trust" in retrieve(*words).err, words
    assert retrieve("trust", "--yes").out.endswith("artifacts: trusted\n")
    assert retrieve("query", "brain").code == 0


def test_a_folder_that_an_index_names_as_its_model_needs_a_yes(clone: Path, retrieve: Program) -> None:
    for name in ("./models/evil", "models/evil", str(clone / "models/evil")):
        forge(
            clone / "artifacts",
            ((("recipe", "encoder", "family"), "transformer"), (("recipe", "encoder", "name"), name)),
        )
        assert "you did not agree" in fails(retrieve("query", "brain"), 2, name).err
        assert f"model {name}: may run code" in retrieve("trust").err


def test_what_would_be_reached_is_listed_for_programs_without_a_question(clone: Path) -> None:
    code, out, _ = run(clone, {"rerank": {"base_url": "http://127.0.0.1:9"}}, "trust", "--json")
    (shown,) = json.loads(out)["trust"]
    assert (code, shown["trusted"], [reach["value"] for reach in shown["reaches"]]) == (
        0,
        False,
        ["http://127.0.0.1:9"],
    )
    assert not state_file().exists()
