"""The command: plan, apply, roll back, compare; exit codes and the one line for cron."""

import json
import os
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from samples import TOOLS, Program, fails, succeeds, write_catalog
from sync.state import Publish, Start, live, records

from retrieve_cli.sources.catalogs.catalog import CatalogSource
from retrieve_cli.storage import durable, manifest
from retrieve_cli.storage.store import Store


def write_config(sources: Any, path: Path = Path("config.yaml"), **sections: Any) -> Path:
    path.write_text(yaml.safe_dump({"sources": sources, **sections}))
    return path


def append_broken(catalog: Path, lines: int = 1) -> None:
    """Adds lines that are no JSON."""
    with catalog.open("a") as file:
        file.write("{broken\n" * lines)


# --------------------------------------------------------------------------------------------------- plan


def test_a_dry_run_shows_the_plan_and_changes_nothing(artifacts: Path, source: Path, retrieve: Program) -> None:
    def state() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in artifacts.rglob("*") if path.is_file()}

    before = state()
    changed = records(0)
    changed[3]["description"] = "another one"
    write_catalog(source, [*changed[2:], {"id": "new", "name": "new"}])
    plan = retrieve("sync", "--dry-run", "--json").json
    assert (plan["added"], plan["changed"], plan["removed"], plan["kept"]) == (1, 1, 2, 57)
    assert plan["ids"] == {"added": ["new"], "changed": ["t3"], "removed": ["t0", "t1"]}
    assert (plan["status"], plan["recipe"]) == ("planned", {})
    assert "1 added, 1 changed, 2 removed, 57 kept" in retrieve("sync", "--dry-run").out
    assert state() == before
    done = retrieve("sync", "--json").json
    assert [done[key] for key in ("added", "changed", "removed", "kept")] == [1, 1, 2, 57]
    assert "nothing to do" in retrieve("sync", "--dry-run").out


@pytest.mark.parametrize(
    ("key", "value"),
    [("BM25__UNIT", "chunk"), ("DENSE__INDEX", "hnsw"), ("CHUNKING__SIZE", "30"), ("ENCODER__DIM", "64")],
)
def test_a_changed_recipe_is_part_of_the_plan(
    artifacts: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch, key: str, value: str
) -> None:
    monkeypatch.setenv(f"RETRIEVE_{key}", value)
    plan = retrieve("sync", "--dry-run", "--json").json
    assert plan["status"] == "planned"
    assert key.lower().split("__")[0] in {name.partition(".")[0] for name in plan["recipe"]}
    before = live(artifacts)
    assert retrieve("sync", "--json").json["status"] == "published"
    assert live(artifacts) != before


# -------------------------------------------------------------------------------------------------- apply


def test_nothing_to_do_touches_nothing(artifacts: Path, retrieve: Program) -> None:
    before = {path: path.stat().st_mtime_ns for path in artifacts.rglob("*") if path.is_file() and path.name != "lock"}
    done = retrieve("sync", "--json")
    assert (done.code, done.json["status"], done.json["kept"], done.json["embedded"]) == (0, "unchanged", 60, 0)
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_nothing_to_do_loads_no_model(source: Path, start: Start) -> None:
    script = """
import os, sys
os.environ["RETRIEVE_ENCODER__KIND"] = "auto"
from retrieve_cli.cli.main import main
code = main(["build", "--catalog", "tools.jsonl", "-q"]) if sys.argv[1] == "build" else main(["sync", "--json"])
heavy = {"torch", "onnxruntime", "faiss", "transformers", "sentence_transformers", "spacy", "scipy", "urllib3"}
print(sorted(heavy & set(sys.modules)))
sys.exit(code)
"""
    start("build", script=script).communicate()
    out, err = start("sync", script=script).communicate()
    status, loaded = out.splitlines()
    assert json.loads(status)["status"] == "unchanged", err
    assert loaded == "[]"


def test_a_folder_is_followed(tmp_path: Path, retrieve: Program) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    for name in "abcde":
        (docs / f"{name}.md").write_text(f"# {name}\nAll about zebra{name}.")
    assert retrieve("build", "--docs-dir", docs).code == 0
    (docs / "a.md").unlink()
    (docs / "b.md").write_text("# b\nNow about giraffes.")
    (docs / "f.md").write_text("# f\nNew.")
    done = retrieve("sync", "--json").json
    assert [done[key] for key in ("status", "added", "changed", "removed", "kept")] == ["published", 1, 1, 1, 3]
    assert retrieve("query", "zebraa", "--exact-words", "--mode", "bm25", "-l").out == ""
    assert retrieve("query", "giraffes", "--mode", "bm25", "-l").out == "b.md\n"


def test_a_touched_file_is_no_change_but_is_looked_at_no_more(artifacts: Path, source: Path, retrieve: Program) -> None:
    os.utime(source, ns=(1, 1))  # a clock that was set back
    assert retrieve("sync", "--json").json["status"] == "unchanged"
    manifest = json.loads((artifacts / "generations" / live(artifacts) / "manifest.json").read_text())
    assert manifest["built"]["sources"][0]["stamp"][1] == 1
    assert retrieve("inspect", "verify").code == 0


def test_a_clock_set_back_does_not_confuse_the_order_of_generations(
    artifacts: Path, publish: Publish, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = live(artifacts)
    monkeypatch.setattr("time.gmtime", lambda *_: (1999, 1, 1, 0, 0, 0, 4, 1, 0))
    second = publish(1)
    assert [each["generation"] for each in retrieve("inspect", "history", "--json").json] == [second, first]
    assert retrieve("sync", "--rollback", "--json").json["generation"] == first


def test_a_catalog_that_moved_is_found_by_a_new_build_and_then_by_sync(
    artifacts: Path, source: Path, retrieve: Program, tmp_path: Path
) -> None:
    moved = tmp_path / "elsewhere" / source.name
    moved.parent.mkdir()
    source.rename(moved)
    gone = retrieve("sync")
    assert gone.code == 1
    assert str(source) in gone.err
    assert "retrieve build FILE" in gone.err
    before = live(artifacts)
    assert retrieve("build", "--catalog", moved).code == 0
    assert live(artifacts) == before
    write_catalog(moved, records(1))
    assert retrieve("sync", "--json").json["changed"] == 60


def test_sync_builds_what_the_configuration_names(source: Path, retrieve: Program) -> None:
    write_config([{"kind": "catalog", "path": source.name}])
    done = retrieve("sync", "--json").json
    assert (done["status"], done["added"]) == ("published", 60)
    assert retrieve("build", "--json").json["generation"] == done["generation"]


# ----------------------------------------------------------------------------------------- several sources


def test_several_sources_in_one_index(source: Path, retrieve: Program, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "lungs.md").write_text("# Lungs\nHow lungs are segmented.")
    (docs / "cells.md").write_text("# Cells\nHow cells are counted.")
    listed = [
        {"kind": "catalog", "path": source.name, "name": "tools"},
        {"kind": "docs", "path": "docs", "name": "handbook", "id_prefix": "handbook/"},
    ]
    write_config({"list": listed})
    assert retrieve("sync", "--json").json["records"] == 62
    assert retrieve("query", "how cells are counted", "-k", 1, "-l").out == "handbook/cells.md\n"
    (docs / "cells.md").unlink()
    done = retrieve("sync", "--json").json
    assert [done[key] for key in ("added", "changed", "removed", "kept")] == [0, 0, 1, 61]
    Path("config.yaml").unlink()
    assert retrieve("sync", "--json").json["status"] == "unchanged"
    (docs / "new.md").write_text("# New\nNews.")
    assert retrieve("sync", "--json").json["added"] == 1
    fresh = tmp_path / "fresh"
    write_config({"list": listed})
    assert retrieve("build", "--artifacts", fresh).code == 0
    assert retrieve("sync", "--compact").code == 0
    assert live(fresh) == live(tmp_path / "artifacts")
    write_config({"list": listed[:1]})
    done = retrieve("sync", "--json").json
    assert (done["removed"], done["records"]) == (2, 60)


def test_the_same_id_in_two_sources_is_refused_by_name(source: Path, retrieve: Program, tmp_path: Path) -> None:
    write_catalog(tmp_path / "more.jsonl", [{"id": "t1", "name": "another"}, {"id": "x", "name": "x"}])
    write_config([{"kind": "catalog", "path": source.name}, {"kind": "catalog", "path": "more.jsonl"}])
    done = retrieve("sync")
    assert done.code == 8
    assert "more.jsonl:1: duplicate id 't1', first used by tools.jsonl:2 of source 'tools.jsonl'" in done.err
    assert json.loads(Path("artifacts/quarantine.jsonl").read_text())["source"] == "more.jsonl"


def test_old_generations_that_cannot_be_removed_are_said_and_no_failure(
    artifacts: Path, source: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> list[str]:
        raise PermissionError(13, "Permission denied", "generations/x")

    monkeypatch.setattr(Store, "prune", refuse)
    write_catalog(source, records(1))
    done = retrieve("sync", "-v")
    assert done.code == 0
    assert "could not be removed" in done.err
    assert retrieve("query", "lungs", "--strict-fresh").code == 0


@pytest.mark.parametrize(
    ("listed", "message", "hint"),
    [
        ([{"kind": "catalogue", "path": "x"}], "'catalogue'", "catalog"),
        ([{"path": "x"}], "no `kind`", "{kind: catalog, path: 'x'}"),
        ([{"kind": "catalog", "paht": "x"}], "`paht`", "path"),
        ([{"kind": "docs", "path": "a/x"}, {"kind": "docs", "path": "b/x"}], "two sources", "name:"),
        ({"lists": []}, "`sources.lists`", "list"),
    ],
)
def test_a_source_that_is_not_understood_is_refused(retrieve: Program, listed: Any, message: str, hint: str) -> None:
    write_config(listed)
    done = retrieve("sync")
    assert done.code == 2
    assert message in done.err
    assert hint in done.err


# --------------------------------------------------------------------------------------- the cron contract


def test_off_a_terminal_it_is_quiet(artifacts: Path, source: Path, start: Start) -> None:
    write_catalog(source, records(1))
    out, err = start("sync").communicate()
    assert err == ""
    assert "published " in out
    write_catalog(source, records(2))
    _, err = start("sync", "-v").communicate()
    assert "plan: 0 added, 60 changed" in err


def test_rejected_records_end_with_8_once_and_are_counted_each_time(
    artifacts: Path, source: Path, retrieve: Program
) -> None:
    append_broken(source)
    first = retrieve("sync", "--json")
    assert (first.code, first.json["status"], first.json["quarantined"]) == (8, "partial", 1)
    assert first.json["rejected_new"] == 1
    again = retrieve("sync", "--json")
    assert (again.code, again.json["status"], again.json["quarantined"]) == (0, "unchanged", 1)
    assert (again.json["generation"], again.json["rejected_new"]) == (first.json["generation"], 0)
    said = retrieve("sync")
    assert (said.code, said.err) == (0, "")
    assert "1 rejected" in said.out


def test_a_rejected_record_that_only_moved_is_not_new_and_another_one_is(
    artifacts: Path, source: Path, retrieve: Program
) -> None:
    good = source.read_text()
    source.write_text(good + "{broken\n")
    assert retrieve("sync").code == 8
    source.write_text("{broken\n" + good)
    moved = retrieve("sync", "--json")
    assert (moved.code, moved.json["quarantined"], moved.json["rejected_new"]) == (0, 1, 0)
    source.write_text("{broken\n" + good + "{broken too\n")
    more = retrieve("sync", "--json")
    assert (more.code, more.json["quarantined"], more.json["rejected_new"]) == (8, 2, 1)
    source.write_text(good + "{broken\n" * 2)
    assert retrieve("sync", "--json").json["rejected_new"] == 1  # the same line, twice now
    source.write_text(good)
    assert retrieve("sync").code == 0


def test_a_build_with_rejected_records_always_ends_with_8(source: Path, retrieve: Program) -> None:
    append_broken(source)
    first, again = (retrieve("build", source) for _ in range(2))
    assert (first.code, again.code) == (8, 8)
    assert first.out.startswith("published ")
    assert again.out.startswith("unchanged ")


def test_a_sync_that_failed_after_it_read_a_rejected_record_does_not_count_as_a_report(
    artifacts: Path, source: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    append_broken(source)

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "publish", fail)
        assert retrieve("sync").code == 1
    assert retrieve("sync").code == 8


def test_too_much_refused_publishes_nothing(artifacts: Path, source: Path, retrieve: Program) -> None:
    before = live(artifacts)
    append_broken(source, 20)
    done = retrieve("sync", "--json")
    assert (done.code, done.json["status"], done.json["generation"]) == (8, "failed", before)
    assert (done.json["error"]["code"], done.json["error"]["kind"]) == (8, "rejected")
    assert retrieve("sync").code == 8  # nothing was published: that is said each time
    assert retrieve("sync", "--max-fail", "19", "--json").json["status"] == "failed"
    assert retrieve("sync", "--max-fail", "20", "--json").json["status"] == "partial"
    assert retrieve("build", "--catalog", source, "--max-fail", "0.5", "--json").json["status"] == "partial"


def test_a_source_that_shrinks_suddenly_is_not_believed(artifacts: Path, source: Path, retrieve: Program) -> None:
    before = live(artifacts)
    write_catalog(source, records(0)[:29])
    done = retrieve("sync", "--json")
    assert (done.code, done.json["status"]) == (1, "failed")
    assert "tools.jsonl has 29 records now (was 60); refusing to publish a loss of 52 %" in done.err
    assert live(artifacts) == before
    assert retrieve("sync", "--max-shrink", "0.6", "--json").json["removed"] == 31


def test_the_share_that_may_go_can_be_configured(
    artifacts: Path, source: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_catalog(source, records(0)[:30])
    monkeypatch.setenv("RETRIEVE_SYNC__MAX_SHRINK", "0.4")
    assert retrieve("sync").code == 1
    monkeypatch.setenv("RETRIEVE_SYNC__MAX_SHRINK", "0.5")
    assert retrieve("sync").code == 0


def test_an_emptied_source_or_a_folder_in_its_place_is_not_believed(
    artifacts: Path, source: Path, retrieve: Program
) -> None:
    before = live(artifacts)
    source.write_text("")
    emptied = retrieve("sync", "--max-shrink", "1", "--json")
    source.unlink()
    source.mkdir()
    replaced = retrieve("sync", "--json")
    assert "is a folder" in replaced.err
    for done in (emptied, replaced):
        assert (done.code, done.json["status"]) == (2, "failed")
    assert live(artifacts) == before
    assert retrieve("query", "lungs").code == 0


@pytest.mark.parametrize(
    "flags",
    [["--wait", "1", "--no-wait"], ["--dry-run", "--verify"], ["--dry-run", "--rollback"], ["3f2a"], ["--wait", "-1"]],
    ids=" ".join,
)
def test_flags_that_contradict_each_other(artifacts: Path, retrieve: Program, flags: list[str]) -> None:
    assert retrieve("sync", *flags).code == 2


@pytest.mark.parametrize(
    ("word", "flag"), [("3f2a", "--rollback"), ("all.jsonl", "--catalog"), ("papers", "--docs-dir")]
)
def test_a_word_without_its_flag_is_taken_for_an_id_or_a_source(
    artifacts: Path, retrieve: Program, word: str, flag: str
) -> None:
    Path("papers").mkdir()
    fails(retrieve("sync", word), 2, f"sync takes no '{word}'", f"hint: retrieve sync {flag} {word}\n")


def test_a_sync_may_name_a_source_of_the_index(
    tmp_path: Path, artifacts: Path, source: Path, retrieve: Program
) -> None:
    """D, incremental updates: "python -m backend.scripts.update_markdown_index --docs-dir documents"."""
    Path("documents").mkdir()
    (tmp_path / "documents/porto.md").write_text("# Porto\nTram lines.\n")
    before = live(artifacts)
    done = fails(retrieve("sync", "--docs-dir", "documents"), 2, "the index has no source --docs-dir documents")
    assert str(source) in done.err
    [hint] = [line.partition("retrieve build ")[2] for line in done.err.splitlines() if line.startswith("hint: ")]
    assert live(artifacts) == before
    succeeds(retrieve("build", *shlex.split(hint)))

    (tmp_path / "documents/porto.md").write_text("# Porto\nTram lines and buses.\n")
    assert succeeds(retrieve("sync", "--docs-dir", "./documents/", "--dry-run", "--json")).json["changed"] == 1
    assert succeeds(retrieve("sync", "--docs-dir", "documents", "--catalog", source, "--json")).json["changed"] == 1
    fails(retrieve("sync", "--catalog", "documents"), 2, "the index has no source --catalog documents")
    (tmp_path / "config.yaml").write_text("sources: [{kind: catalog, path: tools.jsonl}]\n")
    fails(retrieve("sync", "--docs-dir", "documents"), 2, "add it to `sources:` in config.yaml")


def test_a_sync_that_names_a_source_before_there_is_an_index_names_the_build(retrieve: Program) -> None:
    fails(retrieve("sync", "--docs-dir", "documents"), 4, "retrieve build --catalog FILE (or --docs-dir DIR)")
    assert not Path("artifacts").exists()


def test_the_summary_is_printed_in_every_outcome(artifacts: Path, retrieve: Program) -> None:
    for flags in (["--max-shrink", "7"], ["--wait", "nan"], ["--config", "nope.yaml"], ["--artifacts", "tools.jsonl"]):
        done = retrieve("sync", *flags, "--json")
        assert (done.code, done.json["status"]) == (2, "failed")
        assert json.loads(done.err)["error"]["code"] == 2


def test_a_damaged_index_does_not_take_the_guard_away(
    artifacts: Path, source: Path, publish: Publish, retrieve: Program
) -> None:
    with (artifacts / "generations" / live(artifacts) / "bm25.pkl").open("ab") as file:
        file.write(b"x")
    write_catalog(source, records(0)[:5])
    assert retrieve("sync").code == 1
    publish(1)


def test_the_quarantine_is_that_of_the_live_index_again(artifacts: Path, source: Path, retrieve: Program) -> None:
    append_broken(source)
    assert retrieve("sync").code == 8
    good = source.read_text()
    source.write_text(good + "{broken\n" * 20)
    assert retrieve("sync", "--json").json["status"] == "failed"
    source.write_text(good)
    done = retrieve("sync", "--json")
    assert (done.code, done.json["quarantined"]) == (0, 1)
    assert len((artifacts / "quarantine.jsonl").read_text().splitlines()) == 1
    (artifacts / "quarantine.jsonl").unlink()
    assert retrieve("sync").code == 8
    assert len((artifacts / "quarantine.jsonl").read_text().splitlines()) == 1


@pytest.mark.parametrize("space", ["\x0c", "\u00a0"])
def test_white_space_that_json_does_not_know_is_a_change(
    artifacts: Path, source: Path, retrieve: Program, space: str
) -> None:
    lines = source.read_text().splitlines()
    source.write_text("\n".join([*lines[:2], space + lines[2], *lines[3:]]))
    done = retrieve("sync", "--verify", "--json")
    assert (done.code, done.json["quarantined"], done.json["verified"]) == (8, 1, True)


def test_a_link_is_followed_to_where_it_points_now(tmp_path: Path, retrieve: Program) -> None:
    for version in (1, 2):
        write_catalog(tmp_path / f"v{version}.jsonl", records(version))
    link = tmp_path / "current.jsonl"
    link.symlink_to("v1.jsonl")
    assert retrieve("build", "--catalog", link).code == 0
    link.unlink()
    link.symlink_to("v2.jsonl")
    assert retrieve("query", "lungs", "--strict-fresh").code == 10
    assert retrieve("sync", "--json").json["changed"] == 60


def test_a_source_with_a_name_that_is_no_text_is_refused(tmp_path: Path, retrieve: Program) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.jsonl"))
    write_catalog(path, records(0))
    done = retrieve("build", "--catalog", path)
    assert done.code == 2
    assert "not UTF-8" in done.err


# ------------------------------------------------------------------------------------ verify and roll back


def test_verify_holds_the_index_to_a_fresh_build(artifacts: Path, source: Path, retrieve: Program) -> None:
    write_catalog(source, records(1))
    done = retrieve("sync", "--verify", "-v")
    assert done.code == 0, done.err
    assert "equals a fresh build once it is compacted, byte for byte" in done.err
    assert not list((artifacts / "generations").glob(".*"))


def test_verify_finds_a_wrong_vector_in_the_cache(
    publish: Publish, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache that lies consistently (another program's, say) is what only a comparison can find."""
    from retrieve_cli.models.encoders.hashed import HashedEncoder

    honest = HashedEncoder.encode_passages
    monkeypatch.setattr(HashedEncoder, "encode_passages", lambda self, texts: honest(self, [*texts][::-1]))
    publish(1)
    monkeypatch.setattr(HashedEncoder, "encode_passages", honest)
    done = retrieve("sync", "--verify", "--json")
    assert done.code == 5
    assert "dense.faiss differs" in done.err
    assert (done.json["status"], done.json["verified"]) == ("unchanged", False)


def test_rolling_back_goes_one_generation_further_each_time(
    artifacts: Path, publish: Publish, retrieve: Program
) -> None:
    generations = [live(artifacts), publish(1), publish(2)]
    for earlier in (generations[1], generations[0]):
        done = retrieve("sync", "--rollback", "--json")
        assert (done.code, done.json["generation"], live(artifacts)) == (0, earlier, earlier)
    assert retrieve("sync", "--rollback").code == 2
    done = retrieve("sync", "--rollback", generations[2][:6])
    assert (done.code, live(artifacts)) == (0, generations[2])
    assert retrieve("sync", "--rollback", "ffffffffffff").code == 2
    assert retrieve("sync", "--json").json["status"] == "unchanged"


def test_a_damaged_generation_is_not_gone_back_to(artifacts: Path, publish: Publish, retrieve: Program) -> None:
    first = live(artifacts)
    publish(1)
    path = artifacts / "generations" / first / "chunks.jsonl"
    path.write_bytes(path.read_bytes().replace(b"version0", b"versionX", 1))
    done = retrieve("sync", "--rollback")
    assert done.code == 5
    assert "chunks.jsonl" in done.err
    assert live(artifacts) != first


def test_as_many_generations_are_kept_as_configured(
    artifacts: Path, publish: Publish, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in range(1, 6):
        publish(version)
        assert len(Store(artifacts).kept()) == min(version + 1, 3)
    monkeypatch.setenv("RETRIEVE_STORE__KEEP", "1")
    assert retrieve("sync").code == 0
    assert [kept.live for kept in Store(artifacts).kept()] == [True]


def test_a_generation_whose_segment_is_needed_is_one_to_go_back_to(
    artifacts: Path, publish: Publish, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_STORE__KEEP", "1")
    first = live(artifacts)
    last = publish([*records(0)[1:], {"id": "new", "name": "new"}])
    assert [kept.manifest.id for kept in Store(artifacts).kept()] == [first, last]
    assert retrieve("sync", "--rollback").code == 0
    assert live(artifacts) == first


def test_the_live_generation_is_kept_however_old(artifacts: Path, publish: Publish, retrieve: Program) -> None:
    for version in (1, 2):
        publish(version)
    assert retrieve("sync", "--rollback").code == 0
    assert retrieve("sync", "--rollback").code == 0
    first = live(artifacts)
    assert Store(artifacts).prune(1)
    assert first in {kept.manifest.id for kept in Store(artifacts).kept()}


# --------------------------------------------------------------------------------- history and differences


def test_history_tells_what_each_publication_changed(artifacts: Path, source: Path, retrieve: Program) -> None:
    write_catalog(source, records(0)[:50])
    retrieve("sync")
    newest, first = retrieve("inspect", "history", "--json").json
    assert (newest["live"], first["live"]) == (True, False)
    assert newest["changes"] == {"added": 0, "changed": 0, "removed": 10, "kept": 50}
    assert first["changes"]["added"] == 60
    assert (newest["records"], first["records"]) == (50, 60)
    shown = retrieve("inspect", "history").out
    assert "10 removed" in shown
    assert "current" in shown


def test_diff_shows_records_recipe_and_moved_answers(
    retrieve: Program, catalog: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert retrieve("build", "--catalog", catalog).code == 0
    monkeypatch.setenv("RETRIEVE_BM25__UNIT", "chunk")
    zebra = {"id": "zebra", "name": "Zebra", "description": "Removes the skull from brain MRI scans."}
    write_catalog(catalog, [*TOOLS[1:], zebra])
    assert retrieve("sync").code == 0
    gold = tmp_path / "gold.jsonl"
    gold.write_text(json.dumps({"query": "brain MRI scans", "relevant": ["brain"], "id": "q"}) + "\n")
    done = retrieve("inspect", "diff", "--gold", gold, "--query", "xylophone", "--json").json
    assert done["records"] == {"added": ["zebra"], "changed": [], "removed": ["lungs"]}
    assert done["recipe"] == {"bm25.unit": {"from": "record", "to": "chunk"}}
    [moves] = [move for move in done["queries"]["moves"] if move["id"] == "q"]
    assert [entry["id"] for entry in moves["entered"]] == ["zebra"]
    assert done["queries"]["asked"] == 2
    same = retrieve("inspect", "diff", done["to"], done["to"], "--gold", gold, "--json").json
    assert (same["recipe"], same["queries"]["moved"], same["queries"]["overlap@10"]) == ({}, 0, 1.0)
    assert retrieve("inspect", "diff", "nothing").code == 2


# ----------------------------------------------------------------------------------------- sync and answer


def test_a_query_syncs_first_where_that_is_wished(
    artifacts: Path, source: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_catalog(source, [*records(0), {"id": "zebra", "name": "zebra"}])
    assert retrieve("query", "zebra", "--mode", "bm25", "-l").out == ""
    monkeypatch.setenv("RETRIEVE_SOURCES__AUTO_SYNC", "true")
    assert retrieve("query", "zebra", "--mode", "bm25", "-l").out == "zebra\n"
    shutil.move(source, "away.jsonl")
    done = retrieve("query", "zebra", "--mode", "bm25", "-l")
    assert (done.code, done.out) == (0, "zebra\n")
    assert "not synced first" in done.err
    with Store(artifacts).writer():
        assert retrieve("query", "zebra", "-l").code == 0


def test_a_query_that_syncs_first_names_records_that_were_rejected_newly(
    artifacts: Path, source: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They count as reported: the next sync by a timer does not end with 8 for them."""
    monkeypatch.setenv("RETRIEVE_SOURCES__AUTO_SYNC", "true")
    append_broken(source)
    note = "note: the sync before this query rejected 1 new item, listed in artifacts/quarantine.jsonl"
    assert note in retrieve("query", "lungs").err
    assert note not in retrieve("query", "lungs").err


# ------------------------------------------------------------------------------------- what is not read again


@pytest.fixture
def settled_index(index: Path, catalog: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that a sync reads to their end, of an index that an earlier sync, of two, has verified."""
    monkeypatch.setattr(durable, "SETTLED_NS", -(10**18))
    assert retrieve("sync", "--json").json["status"] == "unchanged"
    taken: list[Path] = []
    read, scan = manifest.sha1_file, CatalogSource.scan
    monkeypatch.setattr(manifest, "sha1_file", lambda path: taken.append(path) or read(path))
    monkeypatch.setattr(CatalogSource, "scan", lambda source: taken.append(source.path) or scan(source))
    return taken


def test_a_sync_reads_nothing_again_that_has_the_marks_it_was_verified_with(
    settled_index: list[Path], catalog: Path, retrieve: Program
) -> None:
    assert retrieve("sync", "--json").json["status"] == "unchanged"
    assert settled_index == []
    assert retrieve("sync", "--verify", "--json").json["verified"]
    assert catalog in settled_index
    assert any(path.name == "records.jsonl" for path in settled_index)


def test_a_change_of_the_same_size_and_mtime_is_read(
    settled_index: list[Path], catalog: Path, retrieve: Program
) -> None:
    status = catalog.stat()
    catalog.write_bytes(catalog.read_bytes().replace(b"a", b"e", 1))
    os.utime(catalog, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert catalog.stat().st_size == status.st_size
    assert retrieve("sync", "--json").json["status"] != "unchanged"
    assert catalog in settled_index
