"""What a failure must look like, whichever input caused it, and how to run the program where the process matters."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

from samples import Done
from waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
GOOD = [{"id": f"good{number}", "name": f"Good {number}", "description": "segments lungs"} for number in range(30)]
"""Enough sound records that a few bad ones stay below the share that may fail."""
_REORDERING = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
RAW_CONTROLS = {chr(code) for code in (*range(32), *range(127, 160))} - {"\n"} | set(_REORDERING)
_MEMORY = 3 << 30
_CPU_S = 10


def unforeseen(text: str) -> bool:
    """Whether a text shows the inside of the program."""
    return any(word in text for word in ("Traceback", "this is a bug", "Warning:"))


def said(done: Done, code: int, *, silent: bool = True) -> str:
    """The error's sentence, after holding the failure to its form: the code, `error:`, `hint:`, and, if it is
    `silent`, nothing on stdout."""
    assert not unforeseen(done.err), done.err
    assert done.code == code, done
    lines = done.err.splitlines()
    error = [line for line in lines if line.startswith("error: ")]
    hint = [line for line in lines if line.startswith("hint: ")]
    assert len(error) == len(hint) == 1, done.err
    assert not silent or done.out == ""
    return f"{error[0]}\n{hint[0]}"


def said_in_json(done: Done, code: int) -> dict[str, Any]:
    """The one object on stderr."""
    assert done.code == code, done
    assert done.out == ""
    error = json.loads(done.err)["error"]
    assert error.keys() == {"code", "kind", "message", "hint"}
    assert error["code"] == code
    assert error["message"]
    assert error["hint"]
    assert error["kind"] != "internal", error
    return dict(error)


def refused(done: Done, artifacts: Path = Path("artifacts")) -> list[dict[str, Any]]:
    """The quarantined pieces of a build that published the rest."""
    assert not unforeseen(done.err), done.err
    assert done.code == 8, done
    lines = (artifacts / "quarantine.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def catalog_of(path: Path, *lines: bytes) -> Path:
    """Sound records, then the given lines."""
    sound = [json.dumps(record).encode() for record in GOOD]
    path.write_bytes(b"\n".join([*sound, *lines]) + b"\n")
    return path


def folder_of(path: Path, files: dict[str | bytes, str | bytes]) -> Path:
    """A folder of sound documents, and the given files."""
    path.mkdir()
    for number in range(30):
        (path / f"good{number}.md").write_text(f"# Good {number}\n\nsegments lungs\n")
    for name, content in files.items():
        target = path / (os.fsdecode(name) if isinstance(name, bytes) else name)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def process(*arguments: object, given: bytes = b"", **more: Any) -> Done:
    """The program as a process of its own, with a limit on CPU time and memory, beyond which it ends by a signal."""
    done = subprocess.run(
        command(*arguments), input=given, capture_output=True, timeout=PATIENCE_S, env=environment(),
        preexec_fn=_limit, **more,
    )  # fmt: skip
    return Done(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S))


def shell(line: str) -> Done:
    """A line of bash; `retrieve` stands for the program."""
    program = f'retrieve() {{ "{sys.executable}" -m retrieve_cli "$@"; }}; set -o pipefail; {line}'
    done = subprocess.run(["bash", "-c", program], capture_output=True, timeout=PATIENCE_S, env=environment())
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "retrieve_cli", *map(str, arguments)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "RETRIEVE_ENCODER__KIND": "hashed"}
