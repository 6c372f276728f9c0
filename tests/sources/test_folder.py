"""Folders of markdown and text."""

from pathlib import Path

import pytest
from samples import pieces

from retrieve_cli.contracts import Notice, Record
from retrieve_cli.sources.folders.docs_folder import FolderSource
from retrieve_cli.sources.formats.formats import ParsingLimits
from retrieve_cli.sources.formats.reader import SandboxedReader
from retrieve_cli.untrusted.front_matter import front_matter


def read(folder: Path, **settings: object) -> list:
    return list(pieces(FolderSource(folder, SandboxedReader(ParsingLimits()), name_weight=2.0, **settings)))


def records(folder: Path) -> dict[str, Record]:
    return {item.id: item for item in read(folder) if isinstance(item, Record)}


def only(folder: Path, text: str, name: str = "x.md") -> Record:
    """The record of a folder that holds this text alone."""
    (folder / name).write_bytes(text.encode())
    [made] = records(folder).values()
    return made


def test_ids_are_paths_and_groups_are_first_folders(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "deep.md").write_text("deep")
    (tmp_path / "top.txt").write_text("top")
    assert {id_: made.group for id_, made in records(tmp_path).items()} == {"a/b/deep.md": "a", "top.txt": None}


def test_front_matter_becomes_metadata_and_may_name_the_group(tmp_path: Path) -> None:
    text = "---\ntitle: The Title\ngroup: mine\ndate: 2024-05-01\nauthors: [A, B]\n---\nbody"
    made = only(tmp_path, text)
    assert (made.name, made.group) == ("The Title", "mine")
    assert {**made.metadata, "modified": ""} == {"date": "2024-05-01", "authors": ["A", "B"], "modified": ""}
    assert made.text.strip() == "body"


@pytest.mark.parametrize(
    ("text", "name"),
    [("intro\n\n## A heading ##\n", "A heading"), ("no heading at all", "file"), ("# One\n# Two", "One")],
)
def test_a_document_is_called_by_its_first_heading_or_its_file(tmp_path: Path, text: str, name: str) -> None:
    assert only(tmp_path, text, "file.md").name == name


def test_front_matter_that_is_no_yaml_is_indexed_as_text_and_said(tmp_path: Path) -> None:
    (tmp_path / "x.md").write_text("---\na: [unclosed\n---\nbody")
    notice, made = read(tmp_path)
    assert isinstance(notice, Notice)
    assert "not valid YAML" in notice.message
    assert "[unclosed" in made.text


def test_a_document_of_front_matter_alone_is_found_by_it(tmp_path: Path) -> None:
    made = only(tmp_path, "---\ntitle: Only this\n---\n")
    assert "Only this" in made.text


def test_a_link_that_leads_back_is_left_out_and_said(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "x.md").write_text("text")
    (tmp_path / "sub" / "loop").symlink_to(tmp_path)
    items = read(tmp_path, follow_links=True)
    assert [item.id for item in items if isinstance(item, Record)] == ["sub/x.md"]
    assert ["leads back" in item.message for item in items if isinstance(item, Notice)] == [True]


def test_links_are_skipped_and_named_unless_the_configuration_follows_them(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "docs"
    outside.mkdir()
    folder.mkdir()
    (outside / "secret.md").write_text("a secret")
    (folder / "own.md").write_text("text")
    (folder / "elsewhere").symlink_to(outside)
    (folder / "linked.md").symlink_to(outside / "secret.md")
    items = read(folder)
    assert [item.id for item in items if isinstance(item, Record)] == ["own.md"]
    [notice] = [item for item in items if isinstance(item, Notice)]
    assert "skipped 2 symbolic links (elsewhere, linked.md)" in notice.message
    assert "docs.follow_links" in notice.message
    followed = [item.id for item in read(folder, follow_links=True) if isinstance(item, Record)]
    assert followed == ["elsewhere/secret.md", "linked.md", "own.md"]


def test_a_file_beyond_the_limit_is_rejected_without_being_read(tmp_path: Path) -> None:
    with (tmp_path / "huge.md").open("wb") as file:
        file.truncate(3 * 2**40)
    (tmp_path / "small.md").write_text("text")
    rejected, made = read(tmp_path)
    assert (made.id, rejected.source) == ("small.md", "huge.md")
    assert "the limit is 64 MB" in rejected.reason
    tiny = FolderSource(tmp_path, SandboxedReader(ParsingLimits(), text_bytes=1), name_weight=2.0)
    reasons = {item.source: item.reason for item in pieces(tiny)}
    assert "the limit is" in reasons["small.md"]


def test_folders_nested_hundreds_of_levels_deep_are_read(tmp_path: Path) -> None:
    folder = tmp_path
    for _ in range(300):
        folder /= "d"
        folder.mkdir()
    (folder / "deep.md").write_text("deep")
    [made] = records(tmp_path).values()
    assert made.id == "d/" * 300 + "deep.md"


def test_files_of_other_kinds_are_counted_and_said(tmp_path: Path) -> None:
    (tmp_path / "x.md").write_text("text")
    (tmp_path / "y.png").write_bytes(b"")
    (tmp_path / "z").write_bytes(b"")
    (tmp_path / ".hidden.md").write_text("text")
    notice = next(item for item in read(tmp_path) if isinstance(item, Notice))
    assert "3 files" in notice.message
    assert "hidden 1" in notice.message
    assert ".png 1" in notice.message


def test_only_a_whole_block_at_the_top_is_front_matter() -> None:
    assert front_matter("text\n---\na: 1\n---\n") == ({}, 0, 0, "")
    assert front_matter("---\na: 1\nno end") == ({}, 0, 0, "")
    assert front_matter("\n---\na: 1\n---\nrest") == ({"a": 1}, 1, 14, "")
