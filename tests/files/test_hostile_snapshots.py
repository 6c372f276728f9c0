"""Snapshots that are damaged, cut short, or made to do harm: refused with exit 5, and nothing is left of them."""

import hashlib
import io
import json
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from samples import TOOLS, Program, write_catalog

from retrieve_cli.frozen import replace
from retrieve_cli.storage.manifest import FileEntry, Manifest

Members = list[tuple[bytes, bytes]]
"""The block before each member, and its content."""
Refused = Callable[..., str]


@pytest.fixture
def snapshot(index: Path, retrieve: Program) -> Path:
    """A sound snapshot, whose index has since been changed."""
    assert retrieve("snapshot", "create", "good.tar.zst").code == 0
    write_catalog(Path("tools.jsonl"), TOOLS[:4])
    assert retrieve("sync").code == 0
    return Path("good.tar.zst").resolve()


def members(file: Path) -> Members:
    with zstandard.open(file, "rb") as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
        return [(block(info.name, info.size), archive.extractfile(info).read()) for info in archive]  # type: ignore[union-attr]


@pytest.fixture
def parts(snapshot: Path) -> Members:
    """The members of that snapshot."""
    return members(snapshot)


def name_of(head: bytes) -> str:
    return tarfile.TarInfo.frombuf(head, "utf-8", "strict").name


def block(name: str, size: int = 0, *, kind: bytes = tarfile.REGTYPE, linkname: str = "") -> bytes:
    """The block before a member."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, linkname, size
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "strict")


def packed(parts: Members, **parameters: int) -> bytes:
    """A snapshot of these members."""
    body = b"".join(head + content + bytes(-len(content) % 512) for head, content in parts) + bytes(1024)
    chosen = zstandard.ZstdCompressionParameters(write_checksum=True, write_content_size=False, **parameters)
    out = io.BytesIO()
    with zstandard.ZstdCompressor(compression_params=chosen).stream_writer(out, closefd=False) as stream:
        stream.write(body)
    return out.getvalue()


def tree(folder: Path) -> dict[str, bytes]:
    """Every file of the index, its cache of lines and its times apart."""
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}


@pytest.fixture
def refused(index: Path, retrieve: Program) -> Refused:
    """Holds the program to its word: exit 5, the index as it was, nothing where there was nothing; the message."""

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


def test_a_snapshot_that_is_packed_anew_as_it_was_is_sound(parts: Members, retrieve: Program) -> None:
    """What follows is refused for what was changed, not for how it was packed."""
    Path("again.tar.zst").write_bytes(packed(parts))
    assert retrieve("snapshot", "restore", "again.tar.zst", "--artifacts", "new").code == 0


def unpacked(content: bytes) -> bytes | None:
    """What a snapshot decompresses to; None if it does not."""
    try:
        return zstandard.ZstdDecompressor().decompressobj().decompress(content)
    except zstandard.ZstdError:
        return None


def test_a_flipped_bit_that_changes_anything_is_noticed(snapshot: Path, retrieve: Program) -> None:
    content = snapshot.read_bytes()
    meant = unpacked(content)
    noticed = 0
    bad = Path("bad.tar.zst")
    for place in {*range(24), *range(24, len(content), 311), *range(len(content) - 12, len(content))}:
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        bad.write_bytes(damaged)
        code = retrieve("snapshot", "verify", bad).code
        noticed += code == 5
        # Zstandard has bits without a meaning: with another value of one of them the content is the same.
        assert code == 5 or unpacked(bytes(damaged)) == meant, place
    assert noticed > 30


def test_a_snapshot_that_is_cut_short_anywhere_is_refused(snapshot: Path, retrieve: Program) -> None:
    content = snapshot.read_bytes()
    bad = Path("bad.tar.zst")
    for size in {*range(8), *range(8, len(content), 997), *range(len(content) - 6, len(content))}:
        bad.write_bytes(content[:size])
        assert retrieve("snapshot", "verify", bad).code == 5, size


def test_a_damaged_snapshot_leaves_nothing(snapshot: Path, refused: Refused) -> None:
    content = bytearray(snapshot.read_bytes())
    for behind in (b"\0", zstandard.compress(b"more")):
        assert "after its end" in refused(bytes(content) + behind)
    content[len(content) * 3 // 4] ^= 4
    refused(bytes(content))
    refused(b"PK\x03\x04" * 100)


FILE = "generation/bm25.pkl"
NO_FILES = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE)
TOO_LARGE = (tarfile.GNUTYPE_SPARSE, tarfile.GNUTYPE_LONGNAME)


@pytest.mark.parametrize(
    ("head", "said"),
    [
        *((block(name), name) for name in ("/etc/outside", "../outside", "generation/../../outside")),
        *((block(f"generation/{name}"), "twice, or does not belong") for name in ("more.pkl", "manifest.json")),
        *((block(FILE, kind=kind, linkname="../outside"), "not a plain file") for kind in NO_FILES),
        *((block(FILE, 1 << 33, kind=kind), "not a sound snapshot") for kind in TOO_LARGE),
        (block(FILE, 1 << 40), " bytes, not "),
        (b"\xff" * 512, "cut short"),
    ],
)
def test_a_member_that_does_not_belong_there_is_refused(
    parts: Members, refused: Refused, head: bytes, said: str
) -> None:
    assert said in refused(packed([*parts[:2], (head, b""), *parts[2:]]))


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda parts: [*parts[:4], parts[3], *parts[4:]], "twice"),
        (lambda parts: [*parts[:3], *parts[4:]], "cut short"),
        (lambda parts: parts[1:], "in the place of snapshot.json"),
        (lambda parts: [parts[0], *parts[2:]], "in the place of generation/manifest.json"),
        (lambda parts: parts[:1], "cut short"),
    ],
)
def test_members_are_there_once_and_the_description_comes_first(
    parts: Members, refused: Refused, edit: Callable[[Members], Members], said: str
) -> None:
    assert said in refused(packed(edit(parts)))


def changed(parts: Members, name: str, content: bytes) -> Members:
    """The members with another content of one of them."""
    return [(block(name, len(content)), content) if name_of(head) == name else (head, old) for head, old in parts]


def test_a_file_of_another_length_or_content_is_refused(parts: Members, refused: Refused) -> None:
    content = {name_of(head): content for head, content in parts}["generation/chunks.jsonl"]
    longer = packed(changed(parts, "generation/chunks.jsonl", content + b"x"))
    assert " bytes, not " in refused(longer)
    other = packed(changed(parts, "generation/chunks.jsonl", content[:-2] + b"x\n"))
    assert "has SHA-1" in refused(other)


@pytest.mark.parametrize(
    "changes",
    [
        {"schema_version": 99},
        {"generation": "0123456789ab"},
        {"index_bytes": 1 << 60},
        {"members": {"../outside": {"sha1": "0" * 40, "bytes": 0}}},
        {"members": {"inbox/files/../../outside": {"sha1": "0" * 40, "bytes": 0}}},
        {"members": {"config.yaml": {"sha1": "short", "bytes": -1}}},
    ],
)
def test_a_header_that_lies_is_refused(parts: Members, refused: Refused, changes: dict[str, object]) -> None:
    header = {**json.loads(parts[0][1]), **changes}
    refused(packed(changed(parts, "snapshot.json", json.dumps(header).encode())))


def test_what_would_take_much_memory_is_refused(parts: Members, refused: Refused) -> None:
    assert "in the place of" in refused(packed([(block("snapshot.json", 1 << 40), b""), *parts[1:]]))
    assert "cannot be unpacked" in refused(packed(parts, window_log=27))


def forged(parts: Members, **files: FileEntry) -> Members:
    """The members with a manifest that lists other files and carries its own id, and a header that agrees."""
    manifest = Manifest.of_text(parts[1][1].decode(), "manifest")
    manifest = replace(manifest, files={**manifest.files, **files})
    size = sum(entry.bytes for entry in manifest.files.values())
    header = {**json.loads(parts[0][1]), "generation": manifest.id, "index_bytes": size}
    parts = changed(parts, "snapshot.json", json.dumps(header).encode())
    return changed(parts, "generation/manifest.json", json.dumps(manifest.to_json()).encode())


def entry_of(content: bytes, rows: int | None = None) -> FileEntry:
    return FileEntry(hashlib.sha1(content).hexdigest(), len(content), rows)


@pytest.mark.parametrize("name", ["../outside", "/out", ".hidden", "a\nb", "manifest.json"])
def test_a_manifest_that_names_other_places_is_refused(parts: Members, refused: Refused, name: str) -> None:
    refused(packed(forged(parts, **{name: entry_of(b"")})))


def test_an_altered_manifest_is_refused(parts: Members, refused: Refused) -> None:
    text = parts[1][1].replace(b'"lucene"', b'"okapi"')
    assert text != parts[1][1]
    assert "was altered" in refused(packed(changed(parts, "generation/manifest.json", text)))


def test_a_bomb_is_refused_before_it_fills_the_disk_or_the_memory(
    snapshot: Path, index: Path, retrieve: Program
) -> None:
    """A manifest may claim petabytes; that many zeros are a small file."""
    parts = forged(members(snapshot), **{"aaa.bin": FileEntry("0" * 40, 1 << 50, None)})
    parts = [*parts[:2], (block("generation/aaa.bin", 1 << 50), bytes(1 << 26)), *parts[2:]]
    Path("bomb.tar.zst").write_bytes(packed(parts))
    before = tree(index)
    tracemalloc.start()
    done = retrieve("snapshot", "restore", "bomb.tar.zst")
    assert (done.code, "are free" in done.err) == (1, True), done.err
    assert tracemalloc.get_traced_memory()[1] < 150 << 20
    tracemalloc.stop()
    assert tree(index) == before
    assert retrieve("snapshot", "verify", "bomb.tar.zst").code == 5


@pytest.mark.parametrize("name", ["chunks.jsonl", "offsets.pkl", "bm25.pkl", "dense.faiss"])
def test_what_is_whole_and_no_index_is_not_published(parts: Members, refused: Refused, name: str) -> None:
    content = b"nonsense" * 100
    rows = Manifest.of_text(parts[1][1].decode(), "").files[name].rows
    parts = changed(forged(parts, **{name: entry_of(content, rows)}), f"generation/{name}", content)
    refused(packed(parts), verified=True)


def with_member(parts: Members, name: str, content: bytes) -> Members:
    """The members and another one, which the header lists."""
    header = json.loads(parts[0][1])
    header["members"][name] = {"sha1": hashlib.sha1(content).hexdigest(), "bytes": len(content), "rows": None}
    parts = changed(parts, "snapshot.json", json.dumps(header).encode())
    return [*parts, (block(name, len(content)), content)]


def test_a_calibration_or_an_inbox_that_is_none_is_not_taken_over(parts: Members, refused: Refused) -> None:
    for content in (b"{}", b"[" * 100_000, b"\xff"):
        bad = packed(with_member(parts, "calibration.json", content))
        assert "calibration.json" in refused(bad, verified=True)
    for content in (b"{}\n", b"\xff\n", b"SQLite format 3\0" * 500):
        refused(packed(with_member(parts, "inbox.db", content)), verified=True)
