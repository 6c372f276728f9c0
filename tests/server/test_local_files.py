"""Files that an MCP client names by their paths: `retrieve mcp` opens them for its user, a server over HTTP does not.

Seed A: "When users upload files, format tokens are added to the query"."""

import struct
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_clients import called, connected, text_of
from program.clones import untrusted
from samples import Program

from retrieve_cli.config.loading import load
from retrieve_cli.errors import UsageError
from retrieve_cli.server.mcp.stdio import local_file

NIFTI = struct.pack("<i36x8h14x2h34xf232x4s4x", 348, 3, 64, 64, 30, 1, 1, 1, 1, 4, 16, 352.0, b"n+1\0")
"""The header of a volume of 64 × 64 × 30 voxels of 16 bits."""


@pytest.fixture
def scans(index: Path) -> Path:
    """A folder that may be named, with one scan, beside a folder that may not."""
    for name in ("scans", "private"):
        (index.parent / name).mkdir()
        (index.parent / name / "scan.nii").write_bytes(NIFTI)
    return index.parent / "scans"


def searched(index: Path, folder: Path, *files: Any) -> Any:
    return called(
        index, "search", {"query": "lungs", "files": list(files)}, local=partial(local_file, folders=[folder])
    )


def test_a_path_gives_the_answer_of_the_flag(index: Path, scans: Path, retrieve: Program) -> None:
    flag = retrieve("query", "lungs", "--file", scans / "scan.nii", "--json").json
    assert "format:NIfTI" in flag["enhanced_query"]
    expected = [(result["id"], result["score"]) for result in flag["results"]]
    for named in ({"path": str(scans / "scan.nii")}, str(scans / "scan.nii")):
        answer = searched(index, scans, named)
        assert not answer.is_error, text_of(answer)
        found = [(result["id"], result["score"]) for result in answer.structured_content["results"]]
        assert found == expected


def test_no_path_leads_out_of_the_folders(index: Path, scans: Path) -> None:
    private = scans.parent / "private" / "scan.nii"
    (scans / "link.nii").symlink_to(private)
    (scans / "series" / "deep").mkdir(parents=True)
    (scans / "series" / "deep" / "1.nii").symlink_to(private)
    (scans.parent / "scans-too").mkdir()
    names = (private, "../private/scan.nii", scans / "../private/scan.nii", scans / "link.nii", scans / "series")
    for name in (*names, scans.parent / "scans-too", "/", "a\0b", "\ud800"):
        with pytest.raises(UsageError, match=r"is outside of `mcp\.files`") as error:
            local_file(str(name), [scans])
        assert str(scans) in error.value.message
        assert "mcp: {files:" in error.value.hint
    answer = searched(index, scans, {"path": str(private)})
    assert answer.is_error
    assert "scan.nii', or a link in it, is outside of `mcp.files`" in text_of(answer)


def test_links_within_the_folders_are_followed(scans: Path) -> None:
    (scans / "link.nii").symlink_to("scan.nii")
    (scans / "loop").symlink_to(scans)
    for name in (scans / "link.nii", scans, scans / "absent.nii", scans / "loop" / "scan.nii"):
        assert local_file(str(name), [scans.parent / "absent", scans]) == str(name)


def test_over_http_a_path_is_an_error_with_a_hint(index: Path, scans: Path) -> None:
    for named in ({"path": str(scans / "scan.nii")}, str(scans / "scan.nii")):
        answer = called(index, "search", {"query": "lungs", "files": [named]})
        assert answer.is_error
        assert "no file of this machine is opened" in text_of(answer)
        assert "local MCP takes paths" in text_of(answer)


def test_only_the_schema_of_standard_input_and_output_has_paths(index: Path) -> None:
    async def schemas(**given: Any) -> list[Any]:
        async with connected(index, **given) as client:
            return [tool.input_schema for tool in (await client.list_tools()).tools]

    local, remote = anyio.run(partial(schemas, local=str)), anyio.run(schemas)
    assert local[0]["properties"].pop("files")["items"]["properties"] == {"path": {"type": "string"}}
    assert local == remote


def test_folders_outside_need_a_yes(scans: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cloned folder does not decide which files of this user its client may name."""
    clone = tmp_path / "clone"
    (clone / "own").mkdir(parents=True)
    (clone / "config.yaml").write_text("mcp: {files: [own, /etc]}")
    untrusted(monkeypatch, clone)
    notes: list[str] = []
    assert load(None, {}, say=notes.append).mcp.files == []
    assert "mcp.files" in notes[0]
    (clone / "config.yaml").write_text("mcp: {files: [own]}")
    assert [path.resolve() for path in load(None, {}).mcp.files] == [clone / "own"]
