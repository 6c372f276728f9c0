"""Folders as they are in life: clones with build outputs, texts in any encoding, files without suffixes, gzip."""

import gzip
import json
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from samples import Program, pieces
from waiting import PATIENCE_S

from retrieve_cli.contracts import Notice, Record, Refused
from retrieve_cli.sources.folders.docs_folder import FolderSource, FolderWalk
from retrieve_cli.sources.folders.ignore_rules import Selection
from retrieve_cli.sources.formats.formats import ParsingLimits
from retrieve_cli.sources.formats.reader import SandboxedReader

READER = SandboxedReader(ParsingLimits())


def write(folder: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def walked(folder: Path, **selection: object) -> list[str]:
    """The files that a walk reaches, without hidden ones."""
    walk = FolderWalk(folder, "docs", follow_links=False, selection=Selection(**selection))
    return [item for item in walk if isinstance(item, str) and not item.rpartition("/")[2].startswith(".")]


def notices(folder: Path, **selection: object) -> list[str]:
    walk = FolderWalk(folder, "docs", follow_links=False, selection=Selection(**selection))
    return [f"{item.source}: {item.message}" for item in walk if isinstance(item, Notice)]


# ------------------------------------------------------------------------------------------ what is excluded


NAMES = ["a", "b", "ab", "a.b", "x.md", "b.md", "a b", "#a", "!a", "node_modules"]
_PIECES = [*"a b x .md node_modules * ? ** / [ab] [!a] [a-c] \\# \\! ! #".split(), " "]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join), min_size=1, max_size=12),
    st.lists(st.lists(st.sampled_from(_PIECES), min_size=1, max_size=5).map("".join), max_size=4),
    st.lists(st.lists(st.sampled_from(_PIECES), min_size=1, max_size=4).map("".join), max_size=2),
)
def test_the_rules_of_gitignore_exclude_what_git_excludes(
    tmp_path_factory: pytest.TempPathFactory, paths: list[str], rules: list[str], nested: list[str]
) -> None:
    # git differs from its documentation where two stars are only a part of a name.
    usual = re.compile(r"(?!!$)(?:(?!\*\*)[^/]|(?<![^/])\*\*(?![^/])|/)*")
    rules, nested = ([rule for rule in each if usual.fullmatch(rule)] for each in (rules, nested))
    folder = tmp_path_factory.mktemp("clone")
    for path in paths:
        if not any((folder / parent).is_file() for parent in Path(path).parents) and not (folder / path).is_dir():
            write(folder, {path: "text"})
    write(folder, {".gitignore": "\n".join(rules)})
    if (folder / "a").is_dir():
        write(folder, {"a/.gitignore": "\r\n".join(nested)})
    subprocess.run(["git", "init", "-q", folder], check=True, timeout=PATIENCE_S)
    listing = ["git", "-C", folder, "ls-files", "--others", "-z", "--exclude-per-directory=.gitignore"]
    said = subprocess.run(listing, check=True, capture_output=True, timeout=PATIENCE_S).stdout.decode()
    expected = [name for name in said.split("\0") if name and not name.endswith(".gitignore")]
    assert sorted(walked(folder)) == sorted(expected)


TREE = {
    ".gitignore": "/build\nnode_modules/\n*.log\n!keep.log\n",
    "guide.md": "a guide",
    "build/out.md": "made",
    "packages/one/node_modules/x/README.md": "of a package",
    "packages/one/.gitignore": "*.tmp.md\n!/../guide.md\n",
    "packages/one/a.tmp.md": "temporary",
    "keep.log": "kept",
    "drop.log": "dropped",
    "packages/build/b.md": "another build",
}


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ({}, ["guide.md", "keep.log", "packages/build/b.md"]),
        ({"gitignore": False, "exclude": ["node_modules", "*.log"], "include": ["*.md"]},
         ["build/out.md", "guide.md", "packages/build/b.md", "packages/one/a.tmp.md"]),
        ({"exclude": ["!drop.log", "packages/"]}, ["drop.log", "guide.md", "keep.log"]),
        ({"include": ["packages/", "!packages/build"]}, []),
        ({"include": ["packages/build"]}, ["packages/build/b.md"]),
    ],
)  # fmt: skip
def test_patterns_of_the_configuration_decide_before_gitignore(
    tmp_path: Path, selection: dict[str, object], expected: list[str]
) -> None:
    assert walked(write(tmp_path, TREE), **selection) == expected


def test_what_is_excluded_is_counted_and_named(tmp_path: Path) -> None:
    write(tmp_path, TREE)
    (said, *others) = notices(tmp_path, exclude=["guide.md"])
    assert said.startswith(
        "docs: skipped 4 files or folders (build/, drop.log, packages/one/a.tmp.md, packages/one/nod"
    )
    assert said.endswith(": .gitignore (docs.gitignore: false reads them)")
    assert others == ["docs: skipped 1 file or folder (guide.md): docs.exclude"]


def test_rules_are_read_only_from_a_regular_file_in_the_folder_and_a_bounded_number_of_them(tmp_path: Path) -> None:
    write(tmp_path / "docs", {"a.md": "a", "b.md": "b", "deep/c.md": "c", "deep/.gitignore": "*\n" * 2000 + "x" * 300})
    write(tmp_path, {"rules": "a.md\n"})
    (tmp_path / "docs" / ".gitignore").symlink_to(tmp_path / "rules")
    assert walked(tmp_path / "docs") == ["a.md", "b.md"]
    said = notices(tmp_path / "docs")
    assert any("a symbolic link" in each or "its rules are not obeyed" in each for each in said)
    assert sum("a rule is not obeyed: a file may have 1,000 rules of 200 characters" in each for each in said) == 1001


# ------------------------------------------------------------------------------------------ the command


def test_what_the_command_excludes_stays_excluded_and_what_is_ignored_makes_no_index_stale(
    tmp_path: Path, retrieve: Program
) -> None:
    docs = write(tmp_path / "docs", {"a.md": "zebras", "node_modules/x/README.md": "zebras of a package"})
    write(docs, {"old/b.md": "zebras of old", ".gitignore": "made\n"})
    done = retrieve("build", "docs", "--exclude", "node_modules", "--exclude", "old/")
    assert done.code == 0
    assert "skipped 2 files or folders (node_modules/, old/): docs.exclude" in done.err
    write(docs, {"made/new.md": "zebras", "node_modules/y/README.md": "zebras", "old/c.md": "zebras"})
    assert retrieve("query", "zebras", "--mode", "bm25").err == ""
    assert retrieve("sync", "--json").json["status"] == "unchanged"
    assert retrieve("query", "zebras", "--list").out == "a.md\n"
    write(docs, {".gitignore": "# nothing\n"})
    assert "1 folder changed" in retrieve("query", "zebras", "--mode", "bm25").err
    assert retrieve("sync").code == 0
    assert retrieve("query", "zebras", "--list", "--mode", "bm25").out.split() == ["a.md", "made/new.md"]
    assert retrieve("query", "zebras", "--mode", "bm25").err == ""


@pytest.mark.parametrize("named", [(), ("tools.jsonl",)])
def test_a_pattern_without_a_folder_of_the_command_is_a_usage_error(
    tmp_path: Path, retrieve: Program, named: tuple[str, ...]
) -> None:
    write(tmp_path, {"docs/a.md": "a", "tools.jsonl": '{"id": "a", "name": "a"}\n'})
    write(tmp_path, {"config.yaml": "sources: {list: [{kind: docs, path: docs}]}"})
    done = retrieve("build", *named, "--exclude", "x")
    assert done.code == 2
    assert "docs.exclude" in done.err


# ------------------------------------------------------------------------------------------ texts of all kinds


TEXT = "Größe und Übergang: die Wörter für Käse, Öl und Äpfel über allem, ein naïver Café-Besuch.\n"
FILES: dict[str, str | bytes] = {
    "README": "# How to begin\n\nRead this first.\n",
    "LICENSE": "Permission is hereby granted, free of charge, to any person.\n",
    "debian/copyright": "Files: *\nCopyright: 2011 Somebody\nLicense: GPL-2+\n",
    "notes.md.gz": gzip.compress(b"# Packed\n\nzebras in a packed note\n"),
    "page.html.gz": gzip.compress(b"<!doctype html><title>T</title><main><p>zebras on a packed page</p></main>"),
    "LICENSE.gz": gzip.compress(b"Everyone is permitted to copy and distribute verbatim copies.\n"),
    "zebra.1": ".TH ZEBRA 1\n.SH NAME\nzebra \\- show stripes\n.SH OPTIONS\n.TP\n.B \\-n\nthe number of stripes\n",
    "zebra.8.gz": gzip.compress(b".Dd May 1\n.Dt ZEBRA 8\n.Sh NAME\n.Nm zebra\n.Nd serve stripes\n"),
    "utf16.txt": TEXT.encode("utf-16"),
    "windows.txt": TEXT.encode("cp1252"),
    "latin.md": ("# Titel\n\n" + TEXT).encode("latin-1"),
}
OTHERS: dict[str, str | bytes] = {
    "Makefile": "all:\n\techo all\n",
    "configure": "#!/bin/sh\necho configured\n",
    "id_rsa": "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n",
    "binary": bytes(range(256)),
    "libx.so.1": b"\x7fELF\0\0\0\0",
    "log.1": "12:00 something happened\n",
    "archive.tar.gz": gzip.compress(b"x" * 1000),
    "broken.md.gz": b"\x1f\x8bnothing",
    "bomb.txt.gz": gzip.compress(b"a " * 10**6),
    "cut.txt.gz": gzip.compress(b"a text " * 1000)[:-9],
    "empty.md": b"",
    ".hidden.md": "hidden",
    "picture.png": b"\x89PNG",
    "made/by.md": "made by a program",
    ".gitignore": "made/\n",
}


def read(folder: Path) -> list[Record | Refused | Notice]:
    return list(pieces(FolderSource(folder, READER, name_weight=2.0)))


def test_texts_without_a_suffix_in_gzip_and_in_other_encodings_are_documents(tmp_path: Path) -> None:
    items = read(write(tmp_path, FILES))
    records = {item.id: item for item in items if isinstance(item, Record)}
    assert sorted(records) == sorted(FILES)
    assert {records[name].text for name in ("utf16.txt", "windows.txt")} == {TEXT}
    assert records["latin.md"].text.endswith(TEXT)
    assert "zebras in a packed note" in records["notes.md.gz"].text
    assert {name: records[name].kind for name in FILES} == {
        **dict.fromkeys(FILES, "text"), "notes.md.gz": "markdown", "latin.md": "markdown", "page.html.gz": "html",
        "zebra.1": "man", "zebra.8.gz": "man",
    }  # fmt: skip
    assert (records["zebra.1"].name, records["zebra.1"].description) == ("zebra(1)", "show stripes")
    assert records["zebra.1"].text == "NAME\n\nzebra - show stripes\n\nOPTIONS\n\n-n the number of stripes"
    said = {(item.source, item.message) for item in items if isinstance(item, Notice)}
    windows = "read as Windows-1252, not UTF-8"
    assert said == {("utf16.txt", "read as UTF-16, not UTF-8"), ("windows.txt", windows), ("latin.md", windows)}


def test_of_two_hundred_mixed_files_none_is_lost_in_silence(tmp_path: Path, retrieve: Program) -> None:
    mixed = {**FILES, **OTHERS}
    for number in range(200):
        name, content = list(mixed.items())[number % len(mixed)]
        folder, _, last = name.rpartition("/")
        write(tmp_path / "docs", {"/".join(filter(None, (f"part{number // len(mixed)}", folder, last))): content})
    count = sum(path.is_file() for path in (tmp_path / "docs").rglob("*"))
    assert count == 200
    items = read(tmp_path / "docs")
    records = sum(isinstance(item, Record) for item in items)
    refused = [item.source for item in items if isinstance(item, Refused)]
    said = [item.message for item in items if isinstance(item, Notice) and "not UTF-8" not in item.message]
    skipped = sum(int(message.split()[1]) for message in said)
    assert records + len(refused) + skipped == count, said
    assert {Path(name).name for name in refused} == {"bomb.txt.gz", "cut.txt.gz", "broken.md.gz"}
    done = retrieve("build", "docs", "--max-fail", "100", "--json")
    assert done.json["quarantined"] == len(refused)
    assert json.loads(Path("artifacts/quarantine.jsonl").read_text().splitlines()[0])["reason"]
