"""Snapshots that are damaged, cut short, or made to do harm: rejected with exit 5, and nothing is left of them."""

import hashlib
import io
import json
import tarfile
import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import zstandard
from samples import TOOLS, Program, write_catalog

from retrieve_cli.frozen import replace
from retrieve_cli.operations.snapshots import archive
from retrieve_cli.storage.manifest import FileEntry, Manifest

Members = list[tuple[bytes, bytes]]
"""The block before each member, and its content."""
Rejected = Callable[..., str]
HEADER, MANIFEST, FILE = "snapshot.json", "generation/manifest.json", "generation/bm25.pkl"


@pytest.fixture
def snapshot(index: Path, retrieve: Program) -> Path:
    """A sound snapshot, whose index has since been changed."""
    assert retrieve("snapshot", "create", "good.tar.zst").code == 0
    write_catalog(Path("tools.jsonl"), TOOLS[:4])
    assert retrieve("sync").code == 0
    return Path("good.tar.zst").resolve()


@pytest.fixture
def parts(snapshot: Path) -> Members:
    """The members of that snapshot."""
    with zstandard.open(snapshot, "rb") as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
        return [(block(info.name, info.size), archive.extractfile(info).read()) for info in archive]  # type: ignore[union-attr]


def name_of(head: bytes) -> str:
    return tarfile.TarInfo.frombuf(head, "utf-8", "strict").name


def block(name: str, size: int = 0, *, kind: bytes = tarfile.REGTYPE) -> bytes:
    """The block before a member; a link leads out of the folder."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, "../outside", size
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "strict")


def packed(parts: Members, **parameters: int) -> bytes:
    """A snapshot of these members."""
    body = b"".join(head + content + bytes(-len(content) % 512) for head, content in parts) + bytes(1024)
    chosen = zstandard.ZstdCompressionParameters(write_checksum=True, write_content_size=False, **parameters)
    out = io.BytesIO()
    with zstandard.ZstdCompressor(compression_params=chosen).stream_writer(out, closefd=False) as stream:
        stream.write(body)
    return out.getvalue()


def changed(parts: Members, name: str, content: bytes) -> Members:
    """The members with another content of one of them, or with one more."""
    new = block(name, len(content)), content
    return [new if name_of(old[0]) == name else old for old in parts] + [new] * (name not in described(parts))


def described(parts: Members) -> dict[str, bytes]:
    return {name_of(head): content for head, content in parts}


def signed(parts: Members, **header: object) -> Members:
    """The members under a description with their sizes and digests, and with other values."""
    entries = {name: entry_of(content) for name, content in described(parts[1:]).items()}
    listed = {name: {"sha1": entry.sha1, "bytes": entry.bytes} for name, entry in entries.items()}
    value = {**json.loads(parts[0][1]), "members": listed, **header}
    return changed(parts, HEADER, json.dumps(value).encode())


def entry_of(content: bytes, rows: int | None = None) -> FileEntry:
    return FileEntry(hashlib.sha1(content).hexdigest(), len(content), rows)


def manifest_of(parts: Members) -> Manifest:
    return Manifest.of_text(described(parts)[MANIFEST].decode(), "")


def forged(parts: Members, files: Mapping[str, FileEntry]) -> Members:
    """The members with a manifest that lists other files and carries its own id, and a description that agrees."""
    manifest = replace(manifest_of(parts), files={**manifest_of(parts).files, **files})
    parts = changed(parts, MANIFEST, json.dumps(manifest.to_json()).encode())
    return signed(parts, generation=manifest.id)


@pytest.fixture
def rejected(index: Path, retrieve: Program) -> Rejected:
    """Restores a snapshot: exit 5, the index as it was, nothing where there was nothing; returns the message."""

    def restored(content: bytes, *, verified: bool = False) -> str:
        bad = Path("bad.tar.zst")
        bad.write_bytes(content)
        before = tree(index)
        done = retrieve("snapshot", "restore", bad)
        assert done.code == 5, done.err
        assert "bad.tar.zst is not a sound snapshot" in done.err
        assert tree(index) == before
        assert retrieve("snapshot", "restore", bad, "--artifacts", "new/place").code == 5
        assert not Path("new").exists()
        assert not Path("outside").exists()
        assert retrieve("snapshot", "verify", bad).code == (0 if verified else 5)
        return done.err

    return restored


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}


def test_a_repacked_snapshot_is_sound(parts: Members, retrieve: Program) -> None:
    """What follows is rejected for what was changed, not for how it was packed."""
    for number, content in enumerate((packed(parts), packed(signed(parts)), packed(forged(parts, {})))):
        Path("again.tar.zst").write_bytes(content)
        assert retrieve("snapshot", "restore", "again.tar.zst", "--artifacts", f"new{number}").code == 0


def unpacked(content: bytes) -> bytes | None:
    try:
        return zstandard.ZstdDecompressor().decompressobj().decompress(content)
    except zstandard.ZstdError:
        return None


def test_a_flipped_bit_that_changes_anything_is_noticed(snapshot: Path, retrieve: Program) -> None:
    content = snapshot.read_bytes()
    whole, noticed, bad = unpacked(content), 0, Path("bad.tar.zst")
    for place in {*range(24), *range(24, len(content), 311), *range(len(content) - 12, len(content))}:
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        bad.write_bytes(damaged)
        code = retrieve("snapshot", "verify", bad).code
        noticed += code == 5
        # Zstandard has bits without a meaning: with another value of one of them the content is the same.
        assert code == 5 or unpacked(bytes(damaged)) == whole, place
    assert noticed > 30


def test_a_snapshot_that_is_cut_short_is_rejected(snapshot: Path, retrieve: Program) -> None:
    content = snapshot.read_bytes()
    bad, checksum = Path("bad.tar.zst"), len(content) - 4
    for size in {*range(8), *range(8, checksum, 997), checksum - 1, checksum}:
        bad.write_bytes(content[:size])
        assert retrieve("snapshot", "verify", bad).code == 5, size


def test_data_behind_the_end_is_rejected(snapshot: Path, parts: Members, rejected: Rejected) -> None:
    for more in (b"\0", zstandard.compress(b"more"), zstandard.compress(bytes(1 << 20))):
        rejected(snapshot.read_bytes() + more)
    assert "after its end" in rejected(packed([*parts, (bytes(1024), b""), parts[-1]]))
    rejected(b"PK\x03\x04" * 100)


HEADS = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_SPARSE)
NOT_FILES = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.BLKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE)


@pytest.mark.parametrize(
    ("head", "message"),
    [
        *((block(name), name) for name in ("/etc/outside", "../outside", "generation/../../outside")),
        (block("generation/more.pkl"), "is in the place of"),
        *((block(FILE, kind=kind), "not a plain file") for kind in NOT_FILES),
        *((block(FILE, 1 << 33, kind=kind), "not a plain file") for kind in HEADS),
        (block(FILE, 1 << 40), " bytes, not "),
        (b"\xff" * 512, "cannot be unpacked"),
        (bytes(512), "cannot be unpacked"),
    ],
)
def test_a_member_that_does_not_belong_there_is_rejected(
    parts: Members, rejected: Rejected, head: bytes, message: str
) -> None:
    assert message in rejected(packed([*parts[:2], (head, b""), *parts[2:]]))


def test_members_are_there_once_in_the_described_order(parts: Members, rejected: Rejected) -> None:
    twice, missing = [*parts[:4], *parts[3:]], [*parts[:3], *parts[4:]]
    for wrong in (twice, missing, [*parts[:2], *reversed(parts[2:])], parts[1:]):
        assert "is in the place of" in rejected(packed(wrong))
    assert "cannot be unpacked" in rejected(packed(parts[:-1]))


def test_a_file_of_another_length_or_content_is_rejected(parts: Members, rejected: Rejected) -> None:
    content = described(parts)["generation/chunks.jsonl"]
    for other, message in ((content + b"x", " bytes, not "), (content[:-2] + b"x\n", "has SHA-1")):
        wrong = changed(parts, "generation/chunks.jsonl", other)
        assert message in rejected(packed(wrong))
        assert "disagree" in rejected(packed(signed(wrong)), verified=True)


@pytest.mark.parametrize(
    "header",
    [
        {"format": "retrieve snapshot 99"},
        {"records": "many"},
        *({"generation": name} for name in ("", "../../outside", "0123456789ab\n")),
        {"created": "now" * 99},
        {"members": []},
        {"members": {}},
        {"members": {MANIFEST: {"sha1": "0" * 40, "bytes": -512}}},
        *(
            {"members": {name: {"sha1": "0" * 40, "bytes": 0} for name in (MANIFEST, other)}}
            for other in ("../out", "generation/../x", "inbox/x", "/out", "generation/.x", "generation/a\nb")
        ),
    ],
)
def test_a_description_that_lies_is_rejected(parts: Members, rejected: Rejected, header: dict[str, object]) -> None:
    assert "snapshot.json" in rejected(packed(signed(parts, **header)))


def test_a_description_that_is_not_json_or_too_large_is_rejected(parts: Members, rejected: Rejected) -> None:
    for text in (b"", b"[" * 100_000, b"\xff", b"{}"):
        assert "snapshot.json is damaged" in rejected(packed(changed(parts, HEADER, text)))
    assert "snapshot.json has" in rejected(packed([(block(HEADER, 1 << 40), b""), *parts[1:]]))
    assert "cannot be unpacked" in rejected(packed(parts, window_log=27))


@pytest.mark.parametrize("name", ["../outside", "/out", ".hidden", "a\nb", "manifest.json"])
def test_a_manifest_that_names_other_places_is_rejected(parts: Members, rejected: Rejected, name: str) -> None:
    rejected(packed(forged(parts, {name: entry_of(b"")})), verified=True)


def test_an_altered_manifest_is_rejected(parts: Members, rejected: Rejected) -> None:
    text = described(parts)[MANIFEST].replace(b'"unit": "record"', b'"unit": "chunk"')
    assert text != described(parts)[MANIFEST]
    assert "was altered" in rejected(packed(signed(changed(parts, MANIFEST, text))), verified=True)
    assert "disagree" in rejected(packed(signed(parts, generation="0123456789ab")), verified=True)


def test_a_bomb_is_rejected_before_it_fills_the_disk_or_the_memory(
    parts: Members, index: Path, retrieve: Program
) -> None:
    """A description may claim petabytes; that many zeros are a small file."""
    name = "generation/aaa.bin"
    parts = [*parts, (block(name), b"")]
    members = json.loads(signed(parts)[0][1])["members"]
    members[name]["bytes"] = 1 << 50
    parts = [*signed(parts, members=members)[:-1], (block(name, 1 << 50), bytes(1 << 26))]
    Path("bomb.tar.zst").write_bytes(packed(parts))
    before = tree(index)
    tracemalloc.start()
    done = retrieve("snapshot", "restore", "bomb.tar.zst")
    assert (done.code, "are free" in done.err) == (1, True), done.err
    assert retrieve("snapshot", "verify", "bomb.tar.zst").code == 5
    assert tracemalloc.get_traced_memory()[1] < 150 << 20
    tracemalloc.stop()
    assert tree(index) == before


@pytest.mark.parametrize("name", ["chunks.jsonl", "offsets.pkl", "bm25.pkl", "dense.faiss"])
def test_files_that_are_whole_and_not_an_index_are_not_published(parts: Members, rejected: Rejected, name: str) -> None:
    content = b"nonsense" * 100
    parts = changed(parts, f"generation/{name}", content)
    entry = entry_of(content, manifest_of(parts).files[name].rows)
    rejected(packed(forged(parts, {name: entry})), verified=True)


def test_a_calibration_or_an_inbox_that_is_damaged_is_not_taken_over(parts: Members, rejected: Rejected) -> None:
    for content in (b"{}", b"[" * 100_000, b"\xff"):
        bad = packed(signed(changed(parts, "calibration.json", content)))
        assert "calibration.json" in rejected(bad, verified=True)
    for content in (b"{}\n", b"\xff\n", b"SQLite format 3\0" * 500):
        rejected(packed(signed(changed(parts, "inbox.db", content))), verified=True)


def test_a_snapshot_of_any_size_is_sound(tmp_path: Path) -> None:
    """tarfile fills its last record of 10,240 bytes with zeros, up to 10,752 of them."""
    member, file = tmp_path / "manifest", tmp_path / "s.tar.zst"
    for blocks in range(20):
        member.write_bytes(b"x" * 512 * blocks)
        members = {archive.MANIFEST: entry_of(member.read_bytes())}
        header = archive.SnapshotHeader(archive.FORMAT, "0" * 12, "", "", 0, 0, members)
        with file.open("wb") as stream:
            archive.write(stream, header, {archive.MANIFEST: member})
        assert archive.read(file) == header
