"""The life of the warm process: what it follows, when it does not answer, how it and its commands end."""

import fcntl
import json
import os
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import termios
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from samples import TOOLS, write_catalog
from waiting import PATIENCE_S, until
from warm_samples import (
    BY_ANOTHER,
    NOT_ANSWERED,
    Warm,
    ask,
    command,
    copies,
    environment,
    lines,
    runs,
    socket_of,
    start,
)

import retrieve_cli
from retrieve_cli.cli.warm import child, messages

CHANGES: dict[str, Callable[[], object]] = {
    "write": lambda: Path("new").write_text("y"),
    "append": lambda: _edited("old", "a"),
    "update": lambda: _edited("old", "r+"),
    "low level": lambda: os.open("new", os.O_WRONLY | os.O_CREAT),
    "temporary": lambda: tempfile.mkstemp(dir="."),
    "folder": lambda: Path("new").mkdir(),
    "rename": lambda: Path("old").rename("new"),
    "replace": lambda: Path("old").replace("new"),
    "remove": lambda: Path("old").unlink(),
    "remove a folder": lambda: Path("empty").rmdir(),
    "link": lambda: Path("new").hardlink_to("old"),
    "symbolic link": lambda: Path("new").symlink_to("old"),
    "shorten": lambda: os.truncate("old", 0),
}
"""Changes on the disk, in every way in which Python makes them."""


def _edited(name: str, mode: str) -> None:
    with Path(name).open(mode) as file:
        file.write("y")


ADDED: dict[str, Any] = {"id": "zebra", "name": "ZebraTrack", "description": "Tracks zebrafish embryos."}


def test_the_socket_is_the_users_alone_and_goes_with_the_process(warm: Warm) -> None:
    place = socket_of(warm.folder / "artifacts")
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    done = command("serve", "--stop", folder=warm.folder)
    assert (done.code, done.out, str(warm.pid) in done.err.decode()) == (0, b"", True)
    until(lambda: not warm.runs, "the process ends")
    assert not list(place.parent.glob("serve-*"))
    assert warm.asked("query", "brain").code == NOT_ANSWERED
    assert b"no process" in command("serve", "--stop", folder=warm.folder).err


def test_a_second_process_is_not_started(warm: Warm) -> None:
    done = command("serve", "--background", folder=warm.folder)
    assert (done.code, f"already running (pid {warm.pid}" in done.err.decode()) == (0, True)
    assert json.loads(command("serve", "--background", "--json", folder=warm.folder).out)["pid"] == warm.pid
    assert warm.asked("query", "brain").code == 0


def test_a_socket_that_nobody_listens_to_is_replaced(warm: Warm, warm_of: Any) -> None:
    os.kill(warm.pid, signal.SIGKILL)
    until(lambda: not warm.runs, "the process ends")
    assert socket_of(warm.folder / "artifacts").exists()
    assert warm.asked("query", "brain").code == NOT_ANSWERED
    assert ask("query", "brain", warm=False, folder=warm.folder, env={"RETRIEVE_QUERY__SERVER": "auto"}).code == 0
    assert warm_of(warm.folder).asked("query", "brain").code == 0


def test_somebody_else_behind_the_socket_is_no_harm(index: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(socket_of(index)))
        listener.listen()
        process = start(
            "query", "brain", "--json", warm=False, folder=index.parent, env={"RETRIEVE_QUERY__SERVER": "auto"}
        )
        connection, _ = listener.accept()
        with connection:
            connection.recv(1 << 20)
            connection.sendall(b"?")
        out, _ = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, b'"brain#0"' in out) == (0, True)


def test_a_generation_that_is_published_answers_from_then_on(warm: Warm) -> None:
    before = warm.asked("query", "zebrafish", "--json")
    write_catalog(warm.folder / "tools.jsonl", [*TOOLS, ADDED])
    assert command("build", "--catalog", "tools.jsonl", folder=warm.folder).code == 0
    after, cold = warm.both("query", "zebrafish", "--json")
    assert after == cold
    assert after.json["generation"] != before.json["generation"]
    assert warm.runs


@pytest.mark.parametrize("damage", ["current", "dense.faiss", "manifest.json", "generations"])
def test_an_index_that_is_damaged_is_the_same_error(warm: Warm, damage: str) -> None:
    assert warm.asked("query", "brain").code == 0
    artifacts = warm.folder / "artifacts"
    if damage == "generations":
        shutil.rmtree(artifacts / damage)
    else:
        (path,) = artifacts.rglob(damage)
        path.unlink()
        path.write_bytes(b"?" * 4096)
    answered, cold = warm.both("query", "brain")
    assert answered == cold
    assert cold.code == 5
    assert warm.runs


def test_a_process_of_another_program_does_not_answer_and_ends(index: Path, tmp_path: Path) -> None:
    package = tmp_path / "copy" / "retrieve_cli"
    shutil.copytree(Path(retrieve_cli.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    own = {"PYTHONPATH": str(package.parent)}
    process = Warm(index.parent, **own)
    try:
        assert process.asked("query", "brain", env=own).code == 0
        assert process.asked("query", "brain").code == NOT_ANSWERED
        assert process.runs
        (package / "errors.py").touch()
        assert process.asked("query", "brain", env=own).code == NOT_ANSWERED
        until(lambda: not process.runs, "the process ends")
    finally:
        process.end()


@pytest.mark.parametrize("name", ["OPENBLAS_CORETYPE", "HOME", "PYTHONHASHSEED", "HF_HUB_OFFLINE"])
def test_variables_that_are_read_once_must_be_the_same(warm: Warm, name: str) -> None:
    assert warm.asked("query", "brain", env={name: "1"}).code == NOT_ANSWERED


@pytest.mark.parametrize("words", [["--server", "never"], ["--server=never"]])
def test_a_command_that_wants_no_other_process_answers_itself(warm: Warm, words: list[str]) -> None:
    assert warm.asked("query", "brain", *words).code == NOT_ANSWERED
    assert warm.asked("query", "brain", env={"RETRIEVE_QUERY__SERVER": "never"}).code == NOT_ANSWERED
    (warm.folder / "config.yaml").write_text("query: {server: never}")
    assert warm.asked("query", "brain").code == NOT_ANSWERED


def test_a_query_keeps_a_process_for_the_next_ones_until_nobody_asks(index: Path) -> None:
    env = {"RETRIEVE_QUERY__KEEP_WARM": "3s", "RETRIEVE_QUERY__SERVER": "auto"}
    done = ask("query", "brain", warm=False, folder=index.parent, env=env)  # its pipes close: nothing holds them
    assert done.code == 0
    until(lambda: socket_of(index).exists(), "a process is started")
    assert ask("query", "brain", warm=True, folder=index.parent, env=env)[:2] == done[:2]
    until(lambda: not socket_of(index).exists(), "it ends")


def test_no_process_is_kept_unless_that_is_configured(index: Path) -> None:
    env = {"RETRIEVE_QUERY__SERVER": "auto"}
    for more in ({}, {"RETRIEVE_QUERY__KEEP_WARM": "off"}):
        assert ask("query", "brain", warm=False, folder=index.parent, env={**env, **more}).code == 0
        assert not list(index.glob("serve-*"))


def test_a_process_without_an_index_says_so(tmp_path: Path) -> None:
    done = command("serve", "--background", folder=tmp_path)
    assert (done.code, b"there is no index" in done.err) == (4, True)
    assert not (tmp_path / "artifacts").exists()


# ------------------------------------------------------------------------------------------------- ends


def streaming(warm: Warm) -> "subprocess.Popen[bytes]":
    """A stream that the warm process answers, and that has answered once."""
    process = start("query", "-", "--stream", "--json", warm=True, folder=warm.folder)
    assert process.stdin
    assert process.stdout
    process.stdin.write(lines("brain"))
    process.stdin.flush()
    assert b'"brain#0"' in process.stdout.readline()
    return process


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_to_the_command_ends_what_answers(warm: Warm, number: signal.Signals, code: int) -> None:
    outcomes = []
    for process in (streaming(warm), start("query", "-", "--stream", "--json", warm=False, folder=warm.folder)):
        if process.args[1] == "-m":  # type: ignore[index]
            process.stdin.write(lines("brain"))  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]
            process.stdout.readline()  # type: ignore[union-attr]
        process.send_signal(number)
        process.wait(timeout=PATIENCE_S)
        out, err = process.communicate()
        outcomes.append((process.returncode, out, err))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0] == code
    until(lambda: len(copies(warm.pid)) <= 1, "the copy ends")


def test_a_command_that_is_killed_leaves_nothing_behind(warm: Warm) -> None:
    process = streaming(warm)
    assert len(copies(warm.pid)) >= 1
    before = set(copies(warm.pid))
    process.kill()
    process.communicate()
    until(lambda: not before & set(copies(warm.pid)) or len(copies(warm.pid)) <= 1, "the copy ends")
    assert warm.asked("query", "brain").code == 0


def test_a_reader_that_leaves_ends_the_command_without_a_word(warm: Warm) -> None:
    process = streaming(warm)
    assert process.stdout
    process.stdout.close()
    process.stdout = None
    _, err = process.communicate(lines("cells", "lungs"), timeout=PATIENCE_S)
    assert (process.returncode, err) == (0, b"")


def kill(warm: Warm) -> None:
    """Kill the process and all its copies at once."""
    pids = (warm.pid, *copies(warm.pid))
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    until(lambda: not any(map(runs, pids)), "they have ended")


def test_a_command_whose_process_is_killed_answers_itself(warm: Warm) -> None:
    process = start("query", "-", "-l", warm=False, folder=warm.folder, env={"RETRIEVE_QUERY__SERVER": "auto"})
    until(lambda: len(copies(warm.pid)) == 1 and _waits_for_input(copies(warm.pid)[0]), "a copy reads stdin")
    kill(warm)
    out, err = process.communicate(lines("brain MRI"), timeout=PATIENCE_S)
    assert (process.returncode, out, err)[::2] == (0, b""), out
    assert b"brain" in out


def _waits_for_input(pid: int) -> bool:
    """True if the process waits until there is something to read."""
    return "poll" in Path(f"/proc/{pid}/wchan").read_text()


def test_a_command_whose_input_was_read_by_a_process_that_is_killed_is_not_done_again(warm: Warm) -> None:
    """The input is gone: without it, the command would end with 0 and no answer."""
    process = start("query", "-", "-l", warm=False, folder=warm.folder, env={"RETRIEVE_QUERY__SERVER": "auto"})
    assert process.stdin is not None
    until(lambda: len(copies(warm.pid)) == 1 and _waits_for_input(copies(warm.pid)[0]), "a copy waits for stdin")
    process.stdin.write(lines("brain MRI"))
    process.stdin.flush()
    until(lambda: _unread(process.stdin) == 0, "it has read a line")
    kill(warm)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out, b"has ended" in err) == (1, b"", True)


def _unread(pipe: Any) -> int:
    """Bytes in a pipe that nobody has read."""
    return int.from_bytes(fcntl.ioctl(pipe.fileno(), termios.FIONREAD, b"\0" * 4), sys.byteorder)


@pytest.mark.parametrize("change", CHANGES)
def test_a_copy_changes_nothing_on_the_disk_before_it_has_announced_that(tmp_path: Path, change: str) -> None:
    """Whatever file a flag or a configuration names: a copy that is killed has either told its command, or done
    nothing."""
    (tmp_path / "old").write_text("x")
    (tmp_path / "empty").mkdir()
    before = sorted(path.name for path in tmp_path.iterdir())
    with ExitStack() as opened:
        pairs = [*socket.socketpair(), *socket.socketpair()]
        to_copy, channel, to_command, connection = [opened.enter_context(each) for each in pairs]
        if (pid := os.fork()) == 0:
            with suppress(BaseException):
                sys.addaudithook(child._Gate(channel, connection).watch)
                os.chdir(tmp_path)
                Path("old").read_text()  # reading announces nothing
                CHANGES[change]()
            os._exit(0)
        until(lambda: _waits(pid), "the copy waits for the word")
        assert sorted(path.name for path in tmp_path.iterdir()) == before
        assert (tmp_path / "old").read_text() == "x"
        to_copy.sendall(messages.GO)
        assert to_command.recv(1) == messages.BEGUN
        assert os.waitpid(pid, 0)[1] == 0
    after = [(path.name, path.is_file() and path.read_text()) for path in sorted(tmp_path.iterdir())]
    assert after != [("empty", False), ("old", "x")]


def _waits(pid: int) -> bool:
    """True if the process waits for a message."""
    return "unix_stream" in Path(f"/proc/{pid}/wchan").read_text()


LIMITS = {
    "files": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 21)),
    "open files": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (99, 199)),
    "memory": lambda: resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 9 << 30)),
    "time": lambda: resource.setrlimit(resource.RLIMIT_CPU, (600, 700)),
    "processes": lambda: resource.setrlimit(resource.RLIMIT_NPROC, (5000, 6000)),
    "core": lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
    "priority": lambda: os.nice(7),
    "processors": lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}),
}


def test_limits_of_the_caller_hold_in_the_copy(warm: Warm) -> None:
    def limit() -> None:
        for each in LIMITS.values():
            each()

    process = start("query", "-", "-l", warm=True, folder=warm.folder, preexec_fn=limit)
    until(lambda: len(copies(warm.pid)) == 1 and _waits_for_input(copies(warm.pid)[0]), "a copy waits for stdin")
    (copy,) = copies(warm.pid)
    held = [_limits(pid) for pid in (copy, process.pid, warm.pid)]
    out, _ = process.communicate(lines("brain MRI"), timeout=PATIENCE_S)
    assert (process.returncode, b"brain" in out) == (0, True)
    assert held[0] == held[1]
    assert all(ours != theirs for ours, theirs in zip(held[0][1:], held[2][1:], strict=True))


def _limits(pid: int) -> tuple[str, int, set[int]]:
    limits = Path(f"/proc/{pid}/limits").read_text()
    return limits, os.getpriority(os.PRIO_PROCESS, pid), os.sched_getaffinity(pid)


def test_output_that_breaks_off_is_an_error(warm: Warm) -> None:
    process = streaming(warm)
    kill(warm)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, b"has ended" in err) == (1, True)


def test_a_process_that_is_stopped_finishes_what_it_has_begun(warm: Warm) -> None:
    process = streaming(warm)
    assert command("serve", "--stop", folder=warm.folder).code == 0
    assert not socket_of(warm.folder / "artifacts").exists()
    out, err = process.communicate(lines("cells"), timeout=PATIENCE_S)
    assert (process.returncode, b'"cells#0"' in out, err) == (0, True, b"")
    until(lambda: not warm.runs, "the process ends")


def test_the_process_has_one_thread_and_holds_no_terminal_or_descriptor(warm: Warm) -> None:
    assert len(list(Path(f"/proc/{warm.pid}/task").iterdir())) == 1
    for number in (0, 1, 2):
        assert str(Path(f"/proc/{warm.pid}/fd/{number}").readlink()) == "/dev/null"
    assert os.getsid(warm.pid) != os.getsid(0)


def test_the_way_to_the_warm_process_loads_little(warm: Warm) -> None:
    code = f"{BY_ANOTHER.replace('os._exit', 'print(*sys.modules, file=sys.stderr); os._exit')}"
    command_line = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        code.replace(
            "import os, sys", f"import os, sys; sys.path.append({str(Path(retrieve_cli.__file__).parents[1])!r})"
        ),
    ]
    done = subprocess.run([*command_line, "query", "brain"], cwd=warm.folder, env=environment(), capture_output=True)
    loaded = set(done.stderr.decode().split())
    assert loaded & {"json", "socket", "typing", "pathlib", "re", "typer", "numpy", "retrieve_cli.errors"} == set()
