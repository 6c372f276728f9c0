"""Whatever bit of whatever file of an artifacts folder is flipped: a command answers, or ends with 5.

Files outside of generations have their own sums: there, answers are the same too.
"""

import json
import shutil
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hostile import prepared
from samples import Program

from retrieve_cli.storage.inbox import Change, Inbox, Upload

COMMANDS = (
    ("query", "segment lungs in CT", "--json", "-k", "8", "--no-timing"),
    ("query", "lungs", "--json", "--filter", "license=MIT", "--expand", "--chunks", "--no-timing"),
    ("query", "nose", "--json", "--explain", "--mode", "bm25", "--no-timing"),
    ("inspect", "records", "--json", "--limit", "0"),
    ("keys", "list", "--json"),
    ("sync", "--json"),
    ("inspect", "records", "--json", "--limit", "0"),
)
"""The last two after what a sync made of the folder."""
_CIRCUMSTANCES = ("time", "seconds", "timings_ms", "deadline", "trace", "pipeline_info", "state")


@pytest.fixture
def folder(tmp_path: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose artifacts have a file of each kind that commands read."""
    made = tmp_path / "made"
    made.mkdir()
    monkeypatch.chdir(made)
    prepared.write(made)
    assert retrieve("build").code == 0
    for name in ("nose", "ear"):
        document = json.dumps({"id": name, "title": name, "text": f"Segments the {name}.", "license": "MIT"})
        Inbox(Path("artifacts")).write([Change(name, "acme" if name == "ear" else None, document.encode())])
    assert retrieve("sync").code == 0
    own = Inbox(Path("artifacts"))
    eye = Upload(BytesIO(b"# Eye\n\nSegments eyes.\n"), "eye.md")
    own.write([Change("eye", None, b'{"title": "eye"}', eye)])  # the next sync reads it
    assert retrieve("keys", "create", "--tenant", "acme", "--name", "web").code == 0
    assert retrieve("query", "lungs", "--save-run").code == 0
    return made


def without(value: Any) -> Any:
    """Return a value without what differs each time."""
    if isinstance(value, dict):
        return {key: without(each) for key, each in value.items() if key not in _CIRCUMSTANCES}
    return [without(each) for each in value] if isinstance(value, list) else value


def answers(retrieve: Program) -> Iterator[tuple[int, Any]]:
    for words in COMMANDS:
        done = retrieve(*words)
        if done.code:
            yield done.code, f"{done.out} {done.err}"
            if words[0] == "sync":
                return  # it published nothing
        else:
            found = without(json.loads(done.out))
            # Of an index that is built again the id is another one: its rows are in another order.
            yield 0, (found["records"], found["chunks"]) if words[0] == "sync" else found


def flips(artifacts: Path, random: Random, count: int) -> Iterator[tuple[Path, int]]:
    """Yield a file and a bit of it, `count` times for each file that is there, but for locks and sockets."""
    for path in sorted(artifacts.rglob("*")):
        if path.is_file() and path.stat().st_size:
            yield from ((path.relative_to(artifacts), random.randrange(8 * path.stat().st_size)) for _ in range(count))


@pytest.mark.parametrize(("seed", "count"), [(1, 3)])
def test_a_flipped_bit_gives_an_answer_or_exit_code_5(
    folder: Path, retrieve: Program, seed: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = folder.with_name("try")
    silent: list[object] = []
    shutil.copytree(folder, place)
    monkeypatch.chdir(place)
    sound = list(answers(retrieve))
    assert {code for code, _ in sound} == {0}
    for name, bit in flips(folder / "artifacts", Random(seed), count):
        shutil.rmtree(place)
        shutil.copytree(folder, place)
        monkeypatch.chdir(place)
        path = place / "artifacts" / name
        content = bytearray(path.read_bytes())
        content[bit // 8] ^= 1 << bit % 8
        mode = path.stat().st_mode
        path.unlink()
        path.write_bytes(content)
        path.chmod(mode)
        found = list(answers(retrieve))
        for words, before, after in zip(COMMANDS, sound, found, strict=False):
            changed = after[0] != 0 if name.parts[0] == "generations" else before != after
            if changed and after[0] != 5:
                silent.append((str(name), bit, words, before, after))
    assert silent == []
