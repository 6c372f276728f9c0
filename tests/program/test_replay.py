"""`retrieve replay`: a run is answered again to the byte, and what is in its files is held to what it may be."""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from golden.corpora import TOOLS
from program.asking import Configure, edit, refused
from samples import Program, write_catalog

from retrieve_cli.config.bounds import keys_of
from retrieve_cli.config.saved import decisive, restored
from retrieve_cli.config.settings import ChunkingRule, FieldSetting, Settings, sections
from retrieve_cli.errors import Unavailable, UsageError
from retrieve_cli.frozen import asdict, replace
from retrieve_cli.output.run_account import configuration

RETRIEVAL, RUN = "retrieval.json", "run.json"
OTHERWISE = {
    "SEARCH__K": "1",
    "SEARCH__MODE": "bm25",
    "FUSION__METHOD": "rrf",
    "FUSION__WEIGHTS": "{bm25: 0.9}",
    "DIVERSITY__PER_GROUP": "1",
    "EXPANSION__ENABLED": "false",
    "CONTEXT__WINDOW": "2",
    "BUDGET__MAX_CHUNKS": "1",
    "BROADENING__MAX_RETRIES": "0",
    "SEARCH__FILE_TOKENS": "false",
}
"""A configuration under which nearly everything is answered differently."""


@pytest.fixture
def tools(tmp_path: Path, retrieve: Program) -> Path:
    assert retrieve("build", "--catalog", write_catalog(tmp_path / "tools.jsonl", TOOLS)).code == 0
    return Path("artifacts").resolve()


def keep(retrieve: Program, *words: str, flag: str = "--save-run") -> Path:
    """The folder of a run that was kept just now."""
    runs = Path("artifacts").resolve() / "runs"
    before = set(runs.glob("*"))
    done = retrieve("query", *words, flag)
    assert done.code == 0, done
    (run,) = set(runs.glob("*")) - before
    return run


@pytest.fixture
def run(tools: Path, retrieve: Program) -> Path:
    """The folder of a run of one query."""
    return keep(retrieve, "count cells")


REQUESTS: Mapping[str, tuple[tuple[str, ...], Mapping[str, str]]] = {
    "plain": (("segment lungs in CT",), {}),
    "by one retriever": (("count cells", "--mode", "dense", "-k", "3"), {}),
    "by some retrievers": (("count cells", "--retrievers", "bm25", "--expand"), {}),
    "narrowed": (
        ("scan [EXCLUDE:ribs] [FORMAT:TIFF]", "--filter", "license=MIT", "--filter", "!group=x", "--doc-id", "brain"),
        {},
    ),
    "of a tenant": (("chest scan", "--tenant", "acme"), {"SEARCH__REQUIRE_TENANT": "true"}),
    "in other words": (("count cells", "--also", "stained tissue", "--also", "follow them", "-k", "4"), {}),
    "in fewer words": (("tiles quokka zebra lynx", "--mode", "bm25"), {"BROADENING__MAX_RETRIES": "2"}),
    "gated": (("brain scans", "--route"), {"GATING__TOP_GROUPS": "2", "GATING__PER_GROUP": "1"}),
    "in context, within a budget": (("lung", "--chunks", "--context", "1", "--max-tokens", "200"), {}),
    "configured": (("chest CT",), {"FUSION__METHOD": "rrf", "DIVERSITY__MMR": "0.4", "SEARCH__DEPTH": "4"}),
    "reranked by nothing": (("chest CT", "--no-rerank", "--no-expand", "--with-dependencies"), {}),
    "hurried": (("brain volumes", "--deadline-ms", "100000"), {}),
    "without an answer": (("quokka", "--mode", "bm25"), {}),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_run_is_answered_again_to_the_byte_whatever_is_configured_today(
    name: str, tools: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, keys = REQUESTS[name]
    with monkeypatch.context() as then:
        for key, value in keys.items():
            then.setenv(f"RETRIEVE_{key}", value)
        run = keep(retrieve, *words)
    for key, value in OTHERWISE.items():
        monkeypatch.setenv(f"RETRIEVE_{key}", value)
    done = retrieve("replay", run.name)
    assert (done.code, done.out) == (0, "identical\n"), done
    told = retrieve("replay", run.name, "--json").json
    assert (told["identical"], told["differences"], told["run"]) == (True, [], run.name)
    assert told["not_compared"] == ["timings_ms", "deadline", "freshness"]


def test_a_batch_is_answered_again(tools: Path, retrieve: Program, stdin: Callable[[str], None]) -> None:
    stdin('{"id": "a", "query": "cells", "filters": ["license=MIT"]}\n{"id": "b", "query": "brain", "also": ["x y"]}\n')
    run = keep(retrieve, "-")
    told = retrieve("replay", run.name, "--json").json
    assert (told["identical"], told["queries"]) == (True, 2)


def test_a_run_is_answered_from_its_own_generation_until_that_is_gone(
    tools: Path, retrieve: Program, configure: Configure
) -> None:
    run = keep(retrieve, "count cells")
    catalog = write_catalog(tools.parent / "tools.jsonl", [tool for tool in TOOLS if tool["id"] != "cells"])
    assert retrieve("build", "--catalog", catalog).code == 0
    assert retrieve("query", "count cells", "--json").json["results"][0]["doc_id"] != "cells"
    done = retrieve("replay", run.name)  # its sources have changed since, and that is not compared
    assert (done.code, done.out) == (0, "identical\n"), done
    configure("store", keep=1)
    write_catalog(catalog, TOOLS[1:])
    assert retrieve("sync").code == 0
    assert "store.keep" in refused(retrieve, "replay", run.name, code=4)


def test_what_differs_is_shown(tools: Path, retrieve: Program) -> None:
    run = keep(retrieve, "count cells", "-k", "3")

    def change(retrieval: dict[str, Any]) -> None:
        first, second, third = retrieval["answers"][0]["results"]
        first["score"] += 1
        del second["strategies_used"]
        retrieval["answers"][0]["results"] = [first, second, third, {**third, "id": "invented\x1b[31m"}]

    edit(run / RETRIEVAL, change)
    done = retrieve("replay", run.name)
    assert done.code == 1
    verdict, *lines = done.out.splitlines()
    assert verdict == "different"
    assert [line.split(": ")[:2] for line in lines] == [
        ["query 1", "results[0].score"],
        ["query 1", "results[1].strategies_used"],
        ["query 1", "results[3]"],
    ]
    assert "\x1b" not in done.out
    assert lines[1].endswith('nothing → ["bm25", "dense"]')
    told = retrieve("replay", run.name, "--json")
    assert (told.code, told.json["identical"], len(told.json["differences"])) == (1, False, 3)


def test_of_many_differences_the_first_are_shown_and_the_others_counted(run: Path, retrieve: Program) -> None:
    edit(run / RETRIEVAL, lambda value: value["answers"][0].update(results=[]))
    lines = retrieve("replay", run.name).out.splitlines()
    assert len(lines) < 13
    assert retrieve("replay", run.name, "--json").json["differences"]


def test_keys_in_another_order_are_a_difference(run: Path, retrieve: Program) -> None:
    def turn(value: dict[str, Any]) -> None:
        value["answers"][0]["applied"] = dict(reversed(value["answers"][0]["applied"].items()))

    edit(run / RETRIEVAL, turn)
    done = retrieve("replay", run.name)
    assert (done.code, "order of keys" in done.out) == (1, True)


def test_a_run_is_found_by_its_folder_wherever_it_lies(tmp_path: Path, run: Path, retrieve: Program) -> None:
    moved = tmp_path / "elsewhere"
    shutil.move(run, moved)
    for name in ("elsewhere", str(moved), "./elsewhere"):
        assert retrieve("replay", name).out == "identical\n"
    assert retrieve("replay", run.name).code == 2


# ------------------------------------------------------------------------------------------------------ files


def test_files_say_what_they_said_then(tools: Path, retrieve: Program) -> None:
    scan = Path("scan.nrrd")
    scan.write_bytes(b"NRRD0004\ndimension: 3\n\n")
    Path("none.dcm").touch()
    run = keep(retrieve, "segment this", "--file", "scan.nrrd", "--file", "none.dcm")
    assert retrieve("replay", run.name).err == ""
    scan.unlink()
    done = retrieve("replay", run.name)
    assert (done.code, done.out) == (0, "identical\n")
    assert "scan.nrrd is missing or has changed" in done.err
    scan.write_bytes(b"II*\0 something else")
    assert retrieve("replay", run.name, "--json").json["notes"] == [
        "scan.nrrd is missing or has changed: its saved properties are used"
    ]


def test_a_file_whose_name_is_not_utf8_is_kept_under_a_name_that_is(tools: Path, retrieve: Program) -> None:
    Path("scan\udcff.nrrd").touch()
    run = keep(retrieve, "segment this", "--file", "scan\udcff.nrrd")
    assert retrieve("replay", run.name).out == "identical\n"


# ---------------------------------------------------------------------------------- what a run may not choose


def test_a_model_that_is_gone_is_an_error_that_names_the_step(
    tmp_path: Path, retrieve: Program, configure: Configure
) -> None:
    from splade_models import save_masked

    model = save_masked(tmp_path / "tiny-splade")
    configure("splade", model=model)
    configure("models", cache_dir=tmp_path / "cache")
    assert retrieve("build", "--catalog", write_catalog(tmp_path / "tools.jsonl", TOOLS)).code == 0
    run = keep(retrieve, "count cells")
    assert retrieve("replay", run.name).code == 0
    model.rename(tmp_path / "moved")
    assert "splade was part of the run and cannot run now" in refused(retrieve, "replay", run.name, code=6)


def test_the_address_and_the_key_of_a_server_are_todays(
    run: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "quetzal")
    lure = {"backend": "remote", "model": "m", "base_url": "http://127.0.0.1:9/v1", "api_key_env": "SECRET"}
    edit(run / RUN, lambda value: value["configuration"]["rerank"].update(lure))
    err = refused(retrieve, "replay", run.name)
    assert "rerank.base_url" in err
    assert "127.0.0.1" not in err


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("rerank", "model", "/somewhere/else"),
        ("rerank", "model", "../else"),
        ("rerank", "model", "a/b/c"),
        ("budget", "tokenizer", "/etc/passwd"),
    ],
)
def test_a_run_leads_to_no_folder_that_the_configuration_does_not_name(
    section: str, key: str, value: str, run: Path, retrieve: Program, configure: Configure
) -> None:
    edit(run / RUN, lambda kept: kept["configuration"][section].update({key: value}))
    assert f"{section}.{key}" in refused(retrieve, "replay", run.name, code=6)
    if key == "model":
        configure("rerank", model=value)
        assert retrieve("replay", run.name).code == 0


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda run: run["configuration"].update(serch={}), "serch"),
        (lambda run: run["configuration"]["search"].update(deppth=3), "search.deppth"),
        (lambda run: run["configuration"]["search"].update(depth="deep"), "search.depth"),
        (lambda run: run["configuration"]["context"].update(window=10**9), "context.window"),
        (lambda run: run["configuration"].update(search=[]), "configuration"),
        (lambda run: run["inputs"]["options"].update(kk=3), "kk"),
        (lambda run: run["inputs"]["options"].update(k=None), "option k"),
        (lambda run: run["inputs"]["options"].update(k=True), "option k"),
        (lambda run: run["inputs"]["options"].update(k=0), "-k"),
        (lambda run: run["inputs"]["options"].update(unit="word"), "option unit"),
        (lambda run: run["inputs"]["options"].update(min_score=float("nan")), "option min_score"),
        (lambda run: run["inputs"]["options"].pop("k"), "(k)"),
        (lambda run: run["inputs"]["requests"][0].update(filter=[]), "filter"),
        (lambda run: run["inputs"]["requests"][0].update(hello=1), "hello"),
        (lambda run: run["inputs"]["requests"][0].update(also="x"), "also"),
        (lambda run: run["inputs"]["requests"][0].update(files=["x"]), "file 1"),
        (lambda run: run["inputs"]["requests"][0].update(files=[{"path": "x", "tokens": 3}]), "tokens"),
        (lambda run: run["inputs"]["requests"].append({"query": "x"}), "answer for each request"),
        (lambda run: run["inputs"].update(requests=[3]), "request 1"),
        (lambda run: run["inputs"].update(option={}), "'option' of `inputs`"),
        (lambda run: run.pop("inputs"), "earlier version"),
        (lambda run: run.update(generation=None), "generation"),
        (lambda run: run.update(texts="some"), "some"),
    ],
)
def test_what_is_wrong_in_a_run_is_named(
    change: Callable[[dict[str, Any]], object], named: str, run: Path, retrieve: Program
) -> None:
    edit(run / RUN, change)
    err = refused(retrieve, "replay", run.name)
    assert named in err
    assert run.name in err or named == "-k"


@pytest.mark.parametrize("generation", ["../../etc", "c", "", "0" * 12, "/"])
def test_a_generation_of_another_name_is_gone(generation: str, run: Path, retrieve: Program) -> None:
    edit(run / RUN, lambda value: value.update(generation=generation))
    assert retrieve("replay", run.name).code == 4


def test_a_guard_on_tenants_is_todays(run: Path, retrieve: Program, configure: Configure) -> None:
    configure("search", require_tenant="true")
    refused(retrieve, "replay", run.name)


@pytest.mark.parametrize("name", ["nothing", "..", ".", "runs/none", "tools.jsonl"])
def test_what_is_no_run_is_an_error(name: str, tools: Path, retrieve: Program) -> None:
    refused(retrieve, "replay", name)


@pytest.mark.parametrize("content", ["", "[]", "{", "3", "[" * 100_000, '{"answers": 3}'])
@pytest.mark.parametrize("name", [RETRIEVAL, RUN])
def test_a_damaged_run_is_an_error_that_names_it(name: str, content: str, run: Path, retrieve: Program) -> None:
    (run / name).write_text(content)
    assert run.name in refused(retrieve, "replay", run.name)


def test_a_pipe_in_the_place_of_a_run_is_not_read(run: Path, retrieve: Program) -> None:
    (run / RUN).unlink()
    os.mkfifo(run / RUN)
    assert retrieve("replay", run.name).code == 2


# --------------------------------------------------------------------------------------------------- settings


def another(key: Any, value: Any) -> Any:
    """A value that a key may have besides its default."""
    special = {
        "fields": {"summary": FieldSetting("description", 0.5)},
        "relations": {"needs": "requires"},
        "weights": {"bm25": 0.7},
        "retrievers": ["bm25"],
        "tokenizer": Path("words"),
        "files": [Path("edges.tsv")],
        "mode": "bm25",
        "factors": {"license": {"MIT": 1.5}},
        "segmenter": "pairs",  # others are plug-ins
        "languages": {"*": "de"},
    }
    if key.name in special and "Literal" not in key.type:
        return special[key.name]
    if isinstance(value, bool):
        return not value
    if "Literal" in key.type or "choices" in key.metadata:
        names = key.metadata["choices"]() if "choices" in key.metadata else key.type.split("'")[1::2]
        return next(name for name in names if name != value)
    low, high = key.metadata.get("low"), key.metadata.get("high")
    if low is not None:
        number = low + (high - low) / 2 if high < 10 else low + 3
        return int(number) if key.type.startswith("int") else float(number)
    if key.type.startswith("bool"):
        return True
    if "ChunkingRule" in key.type:
        return [ChunkingRule("labels/**", markers="drug_label"), ChunkingRule("*", size=99, markers=("Dosage",))]
    return ["requires"] if "Sequence" in key.type else Path("there") if "Path" in key.type else "another"


def configured() -> Settings:
    """Settings in which every key of every section has another value than its default."""
    return replace(
        Settings(),
        **{
            name: replace(section, **{key.name: another(key, getattr(section, key.name)) for key in keys_of(section)})
            for name in decisive()
            for section in [getattr(Settings(), name)]
        },
    )


def test_every_key_that_decides_answers_is_restored_and_every_other_is_todays() -> None:
    then, today = configured(), Settings()
    found = restored(configuration(then), today, where="a run")
    todays = {"base_url", "api_key_env", "timeout_s", "retries", "concurrency", "device", "batch_size"}
    todays |= {"require_tenant", "max_also", "file"}
    for name in decisive():
        for key, value in asdict(getattr(found, name)).items():
            of_index = name in sections("index") and (key in ("model", "tokenizer", "files", "prompt"))
            origin = today if key in todays or of_index else then
            assert value == asdict(getattr(origin, name))[key], f"{name}.{key}"
            if key == "segmenter":
                continue  # every value but the default is a plug-in
            assert origin is today or value != asdict(getattr(today, name))[key], f"{name}.{key}"
    assert restored(configuration(today), then, where="a run").search == replace(
        today.search, require_tenant=True, max_also=then.search.max_also
    )


def test_what_a_run_does_not_say_is_at_its_default_and_nothing_is_downloaded() -> None:
    then = configured()
    today = replace(then, models=replace(then.models, auto_download=True))
    found = restored({}, today, where="a run")
    assert found.fusion == Settings().fusion
    assert found.expansion == Settings().expansion
    assert found.rerank.base_url == today.rerank.base_url
    assert not found.models.auto_download


def test_no_value_of_a_plugin_is_in_a_run() -> None:
    settings = replace(Settings(), plugins={"shiny": {"token": "quetzal"}})
    assert "quetzal" not in json.dumps(configuration(settings))


@pytest.mark.parametrize("model", ["bge", "BAAI/bge-reranker-base"])
def test_a_model_by_its_name_is_the_runs(model: str) -> None:
    assert restored({"rerank": {"model": model}}, Settings(), where="a run").rerank.model == model
    with pytest.raises(Unavailable):
        restored({"rerank": {"model": f"/{model}"}}, Settings(), where="a run")
    with pytest.raises(UsageError):
        restored({"rerank": {"model": 3}}, Settings(), where="a run")
