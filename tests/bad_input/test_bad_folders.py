"""A docs folder with all that file systems and front matter allow: what cannot be read is refused by its path."""

import itertools
import os
from pathlib import Path

import pytest
from bad_input.speech import RAW_CONTROLS, folder_of, process, refused, said, unforeseen
from samples import Program

LUNGS = "# Title\n\nlungs\n"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"# caf\xe9\n\nlungs\x00", "not a text"),
        ("# lungs \u00e9".encode("utf-16-le"), "not a text"),
        (b"***\n---\n", "no text"),
        (b"***", "no text"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_by_its_path(
    tmp_path: Path, retrieve: Program, content: bytes, reason: str
) -> None:
    folder = folder_of(tmp_path / "docs", {"sub/bad.md": content})
    (piece,) = refused(retrieve("build", "--docs-dir", folder))
    assert piece["source"] == "sub/bad.md"
    assert reason in piece["reason"]


@pytest.mark.parametrize("content", [b"", b" \n\n\t", b"\xef\xbb\xbf\n"], ids=["empty", "blank", "mark"])
def test_an_empty_file_in_a_folder_of_five_is_skipped_with_a_notice(
    tmp_path: Path, retrieve: Program, content: bytes
) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.md").write_text(LUNGS)
    (folder / "empty.md").write_bytes(content)
    done = retrieve("build", "--docs-dir", folder)
    assert done.code == 0
    assert "skipped 1 empty file (empty.md)" in done.err
    (folder / "empty.md").write_text(LUNGS)
    assert retrieve("sync").code == 0
    assert "empty.md" in retrieve("query", "lungs", "--list").out


def test_broken_links_are_refused_and_loops_left_out_with_a_word(tmp_path: Path, retrieve: Program) -> None:
    folder = folder_of(tmp_path / "docs", {"a/x.md": LUNGS, "b/y.md": LUNGS})
    (tmp_path / "config.yaml").write_text("docs: {follow_links: true}")
    (folder / "broken.md").symlink_to("nowhere.md")
    (folder / "loop").symlink_to(".")
    (folder / "a" / "to_b").symlink_to("../b")
    (folder / "b" / "to_a").symlink_to("../a")
    done = retrieve("build", "--docs-dir", folder)
    (piece,) = refused(done)
    assert piece["source"] == "broken.md"
    assert "cannot be read" in piece["reason"]
    assert "loop: skipped: this link leads back" in done.err


@pytest.mark.parametrize("name", ["itself.md", "itself"])
def test_a_link_to_itself_costs_one_file_and_never_the_build(tmp_path: Path, retrieve: Program, name: str) -> None:
    folder = folder_of(tmp_path / "docs", {})
    (folder / name).symlink_to(name)
    done = retrieve("build", "--docs-dir", folder)
    assert done.code in (0, 8), done.err
    assert retrieve("query", "lungs").code == 0


def test_folders_that_all_link_to_each_other_are_read_in_good_time(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "docs", {})
    for one in range(12):
        (folder / f"f{one}").mkdir()
        for other in range(12):
            (folder / f"f{one}" / f"to{other}").symlink_to(f"../f{other}")
    assert process("build", "--docs-dir", folder).code in (0, 8)


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_is_no_regular_file_is_not_read(tmp_path: Path, kind: str) -> None:
    folder = folder_of(tmp_path / "docs", {})
    if kind == "pipe":
        os.mkfifo(folder / "pipe.md")
    else:
        (folder / "zero.md").symlink_to("/dev/zero")
    done = process("build", "--docs-dir", folder)
    assert done.code in (0, 8), done
    assert not unforeseen(done.err)


def test_a_folder_named_like_a_document_is_a_folder(tmp_path: Path, retrieve: Program) -> None:
    folder = folder_of(tmp_path / "docs", {"guide.md/inside.md": LUNGS})
    assert retrieve("build", "--docs-dir", folder).code == 0
    assert retrieve("inspect", "record", "guide.md/inside.md").code == 0


@pytest.mark.parametrize("files", [{}, {"a.bin": b"x"}], ids=["no files", "none of ours"])
def test_a_folder_without_documents_is_a_usage_error(
    tmp_path: Path, retrieve: Program, files: dict[str, bytes]
) -> None:
    (tmp_path / "docs").mkdir()
    for name, content in files.items():
        (tmp_path / "docs" / name).write_bytes(content)
    assert "no documents" in said(retrieve("build", "--docs-dir", tmp_path / "docs"), 2)


@pytest.mark.parametrize("place", ["file.md", "missing", "/dev/null", "file.md/inside", "x" * 5000])
def test_a_place_without_a_folder_is_a_usage_error(tmp_path: Path, retrieve: Program, place: str) -> None:
    (tmp_path / "file.md").write_text(LUNGS)
    said(retrieve("build", "--docs-dir", place), 2)


@pytest.mark.parametrize("name", [b"a\nb.md", b"a b#0.md", b"-k.md", b" .md", "🧠.md".encode(), b"\x1b[31m.md"])
def test_a_file_of_an_odd_name_is_found_by_it(tmp_path: Path, retrieve: Program, name: bytes) -> None:
    folder = folder_of(tmp_path / "docs", {name: LUNGS})
    done = retrieve("build", "--docs-dir", folder)
    assert done.code == 0, done.err
    assert retrieve("inspect", "record", "--json", "--", name.decode()).json["id"] == name.decode()
    listed = retrieve("query", "lungs", "-k", 50)
    assert not RAW_CONTROLS & set(listed.out)


@pytest.mark.parametrize(
    "matter",
    [
        "a: [1,\nb: }", "- a\n- b", "hello", "? {a: b}\n: c", "<<: 3",
        'title: "\\ud800"', "title: a\0b", 'a: !!python/object/apply:os.system ["touch canary"]',
    ],
    ids=lambda matter: matter[:30],
)  # fmt: skip
def test_front_matter_that_is_no_mapping_is_said_and_the_file_indexed_as_text(
    tmp_path: Path, retrieve: Program, matter: str
) -> None:
    folder = folder_of(tmp_path / "docs", {"x.md": f"---\n{matter}\n---\n{LUNGS}"})
    done = retrieve("build", "--docs-dir", folder)
    assert done.code == 0, done.err
    assert "x.md: its front matter" in done.err
    assert retrieve("inspect", "record", "x.md").code == 0
    assert not Path("canary").exists()


@pytest.mark.parametrize(
    "matter",
    [
        "", "date: 2024-01-02\ntime: 2024-01-02T03:04:05Z", "1: x\n2.5: y\ntrue: z\nnull: n",
        "a: !!binary aGVsbG8=\nb: !!set {x, y}", "title: [a, {b: c}]\ntags: {x: y}\nkeywords: 5\nurl: 7", "a: 1\na: 2",
        "a: 123456789012345678901234567890", "title: 2024-01-01\ndescription: 3", "date: 2024-13-45",
        "a: " + "9" * 5000, "a: 0x" + "f" * 4000, "a: " + "1:" * 5000 + "1", "a: !!int ''", "a: !!float _",
    ],
    ids=lambda matter: matter[:30],
)  # fmt: skip
def test_odd_but_sound_front_matter_is_kept(tmp_path: Path, retrieve: Program, matter: str) -> None:
    folder = folder_of(tmp_path / "docs", {"x.md": f"---\n{matter}\n---\n{LUNGS}"})
    done = retrieve("build", "--docs-dir", folder)
    assert done.code == 0, done.err
    assert "x.md" not in done.err
    assert retrieve("inspect", "record", "x.md", "--json").code == 0


UNUSABLE_NAMES = [b"caf\xe9.md", b"d\xff/x.md", b"caf\xe9.bin", b"d\xff/x.bin", b".hidden\xff/x.md"]
UNUSABLE_MATTER = [
    "a: .nan", "a: .inf", "a: [-.inf]", "a: &a [*a]", "a: &a\n  b: *a",
    "a: " + "[" * 260 + "]" * 260, "a: " + "[" * 600 + "]" * 600,
]  # fmt: skip
"""Front matter that JSON cannot hold."""


@pytest.mark.parametrize(
    "file",
    [*((name, LUNGS) for name in UNUSABLE_NAMES), *(("x.md", f"---\n{it}\n---\n{LUNGS}") for it in UNUSABLE_MATTER)],
    ids=lambda file: repr(file)[:40],
)
def test_a_name_or_front_matter_that_cannot_be_kept_costs_at_most_its_file(
    tmp_path: Path, retrieve: Program, file: tuple[str | bytes, str]
) -> None:
    done = retrieve("build", "--docs-dir", folder_of(tmp_path / "docs", dict([file])))
    assert not unforeseen(done.err), done.err
    assert done.code in (0, 8)
    assert retrieve("query", "lungs", "-k", 50, "--json").code == 0


def test_front_matter_that_unfolds_to_billions_of_values_is_not_unfolded(tmp_path: Path) -> None:
    letters = "abcdefghi"
    layers = [f"{two}: &{two} [{','.join([f'*{one}'] * 10)}]" for one, two in itertools.pairwise(letters)]
    matter = "\n".join(["a: &a [x,x,x,x,x,x,x,x,x,x]", *layers])
    folder = folder_of(tmp_path / "docs", {"x.md": f"---\n{matter}\n---\n{LUNGS}"})
    done = process("build", "--docs-dir", folder)
    assert done.code in (0, 8), done


@pytest.mark.parametrize(
    "text",
    [
        "# " + " " * 3000 + "x" + " " * 3000 + "#x\n\nlungs",
        "# " + "\t " * 3000 + "x",
        "---" + " " * 100_000 + "x\nlungs",
        "---\n" * 5000 + "lungs",
        "`" * 50_000 + "\nlungs",
        ">" * 20_000 + " lungs",
        "|" + "a|" * 5000 + "\n|" + "-|" * 5000 + "\n|" + "lungs|" * 5000,
        "".join(" " * depth + "- lungs\n" for depth in range(500)),
        "\n" * 100_000 + "lungs",
        "a" + "\u0301" * 50_000 + " lungs",
        "[" * 20_000 + "lungs",
        "*" * 20_000 + " lungs",
        "<!--" * 10_000 + "lungs",
    ],
    ids=lambda text: repr(text[:12]),
)
def test_a_document_written_to_exhaust_is_read_in_good_time(tmp_path: Path, text: str) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "x.md").write_text(text)
    done = process("build", "--docs-dir", "docs")
    assert done.code == 0, done


def test_five_megabytes_on_one_line_are_built(tmp_path: Path, retrieve: Program) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "x.txt").write_text("w" * 5_000_000)
    assert retrieve("build", "--docs-dir", "docs").code == 0


def test_nul_and_control_characters_in_a_document_do_no_harm(tmp_path: Path, retrieve: Program) -> None:
    folder = folder_of(tmp_path / "docs", {"x.md": "# a\0b \x1b[31m\n\nlungs\0 \x9b2J zebra\x07"})
    assert retrieve("build", "--docs-dir", folder).code == 0
    done = retrieve("query", "zebra")
    assert done.code == 0
    assert not RAW_CONTROLS & set(done.out)


@pytest.mark.parametrize("depth", [200, 1000])
def test_folders_nested_deep_are_read_or_refused(tmp_path: Path, retrieve: Program, monkeypatch, depth: int) -> None:
    folder = folder_of(tmp_path / "docs", {})
    monkeypatch.chdir(folder)
    for _ in range(depth):
        Path("d").mkdir()
        os.chdir("d")
    Path("deep.md").write_text(LUNGS)
    os.chdir(tmp_path)
    done = retrieve("build", "--docs-dir", folder)
    os.chdir(folder)
    for _ in range(depth):  # the usual ways to remove a tree recurse, or build paths longer than the system allows
        os.chdir("d")
    Path("deep.md").unlink()
    for _ in range(depth):
        os.chdir("..")
        Path("d").rmdir()
    os.chdir(tmp_path)
    assert not unforeseen(done.err), done.err
    assert done.code in (0, 8)
