"""A docs folder with all that file systems and front matter allow: what cannot be read is refused by its path."""

from pathlib import Path

import pytest
from bad_input.speech import folder_of, refused, said
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


@pytest.mark.parametrize("files", [{}, {"a.bin": b"x"}], ids=["no files", "none of ours"])
def test_a_folder_without_documents_is_a_usage_error(
    tmp_path: Path, retrieve: Program, files: dict[str, bytes]
) -> None:
    (tmp_path / "docs").mkdir()
    for name, content in files.items():
        (tmp_path / "docs" / name).write_bytes(content)
    assert "no documents" in said(retrieve("build", "--docs-dir", tmp_path / "docs"), 2)
