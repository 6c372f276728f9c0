"""Rules of the Linux kernel for a process that parses documents: they permit a few actions; everything else fails.

Landlock (kernel 5.13) grants reading of program code and of nothing else; a filter of system calls (seccomp) grants
what parsing needs: memory, time, reading, and the pipes that are open. Neither needs rights, and neither can be taken
back. A kernel without one of them skips it, and `missing` reports this: the audit hook of `confinement` then guards the
Python code, but not the libraries in C.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterable
from ctypes import c_int, c_long, c_size_t, c_uint32, c_ulong, c_void_p
from pathlib import Path

from retrieve_cli.version import FOLDER

_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _PR_SET_DUMPABLE = 1, 22, 38, 4
_SECCOMP_FILTER = 2
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_LANDLOCK_FILES = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF}
"""By version of Landlock, all rights on files and folders: to execute, read, write, remove, make, truncate."""
_READ_FILE, _READ_FOLDER = 4, 8
_COMPLETE = 3
"""Version of Landlock that covers all changes of files (Linux 6.2)."""
_SYSTEM = (
    "/usr", "/lib", "/lib64", "/nix/store", "/gnu/store", "/etc/ld.so.cache", "/etc/localtime", "/etc/mime.types",
    "/dev/null", "/dev/urandom",
)  # fmt: skip
"""Libraries, fonts and time zones of the system; none of them is a file of a user."""
_LANDLOCK_NET, _LANDLOCK_SCOPES = 3, 3
"""Binding and connecting TCP sockets (version 4); abstract sockets and signals to other processes (version 6)."""

_EPERM = 1
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _DENY = 0x7FFF0000, 0x00050000
_AT_NUMBER, _AT_ARCHITECTURE, _AT_ARGUMENT = 0, 4, 16

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_TGKILL, _PRLIMIT = {"x86_64": 234, "aarch64": 131}, {"x86_64": 302, "aarch64": 261}
ALLOWED = {
    "x86_64": (
        0, 1, 17, 19, 20, 3, 8, 32, 33, 292, 72, 7, 271,  # read, write, pread, readv …, close, lseek, dup*, fcntl, poll
        2, 257, 4, 5, 6, 262, 332, 21, 269, 439, 89, 267, 217, 79,  # open*, *stat*, access, readlink …
        9, 10, 11, 12, 25, 28,  # mmap, mprotect, munmap, brk, mremap, madvise
        13, 14, 15, 131, 219, 202, 273, 324, 334, 24,  # rt_sig*, sigaltstack, restart, futex, robust list, rseq, yield
        35, 230, 228, 201, 100, 98, 97, 99, 204, 309,  # sleep, clock_gettime, time, times, getrusage, sysinfo, affinity
        39, 110, 186, 102, 104, 107, 108, 63, 318, 60, 231,  # getpid, getuid …, uname, getrandom, exit, exit_group
    ),
    "aarch64": (
        63, 64, 67, 65, 66, 57, 62, 23, 24, 25, 73,
        56, 80, 79, 291, 48, 439, 78, 61, 17,
        222, 226, 215, 214, 216, 233,
        134, 135, 139, 132, 128, 98, 99, 283, 293, 124,
        101, 115, 113, 153, 165, 163, 179, 123, 168,
        172, 173, 178, 174, 176, 175, 177, 160, 278, 93, 94,
    ),
}  # fmt: skip
"""System calls that are granted, by architecture: the same ones, as far as the second has them."""


def end_with_parent() -> bool:
    """Let the kernel kill this process when the thread that started it ends; return False if it cannot."""
    import signal

    return _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def restrict() -> None:
    """Apply all rules that this kernel has."""
    _prctl(_PR_SET_DUMPABLE, 0)
    if _prctl(_PR_SET_NO_NEW_PRIVS, 1):
        _grant_reading_of(_code())
        _grant_system_calls()


def missing() -> tuple[str, ...]:
    """Return what this machine lacks for a complete sandbox; nothing if that is complete."""
    lacks = []
    if landlock() < _COMPLETE:
        lacks.append("files are not protected from parsers by the kernel (Landlock version 3, Linux 6.2)")
    if os.uname().machine not in _ARCHITECTURES or not Path("/proc/sys/kernel/seccomp").exists():
        lacks.append("system calls of parsers are not filtered (seccomp on x86_64 or aarch64)")
    return tuple(lacks)


def _library() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(None, use_errno=True)
    except OSError:
        return None


def _prctl(option: int, value: int) -> bool:
    prctl = getattr(_library(), "prctl", None)
    return prctl is not None and prctl(c_int(option), c_ulong(value), c_ulong(0), c_ulong(0), c_ulong(0)) == 0


def landlock() -> int:
    """Return the version of Landlock that the kernel has; 0 if it has none."""
    call = getattr(_library(), "syscall", None)
    return 0 if call is None else max(0, int(call(c_long(_LANDLOCK_CREATE), c_void_p(None), c_size_t(0), c_uint32(1))))


def _code() -> Iterable[str | Path]:
    """Yield what a parser reads beside its document: Python, its libraries, this package, and code on the search path.

    A folder on the search path may be one in which a user works: of that one, the packages and modules are granted.
    """
    whole = (*_SYSTEM, sys.prefix, sys.base_prefix, *filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":")))
    yield from whole
    yield FOLDER
    for folder in map(Path, sys.path):
        if any(map(folder.is_relative_to, whole)):
            continue
        if folder.is_file() or next(folder.glob("*.dist-info"), None):
            yield folder
        else:
            yield from (file.parent for file in folder.glob("*/__init__.py"))
            yield from (file for form in ("*.py", "*.so") for file in folder.glob(form))


def _grant_reading_of(paths: Iterable[str | Path]) -> None:
    """Handle all rights on files and grant those to read these files and folders."""
    version, call = landlock(), getattr(_library(), "syscall", None)
    if call is None or version < 1:
        return
    call.restype = c_long
    rights = [_LANDLOCK_FILES[min(version, 3)]]
    rights += [_LANDLOCK_NET] * (version >= 4) + [_LANDLOCK_SCOPES] * (version >= 6)
    attributes = ctypes.create_string_buffer(struct.pack(f"={len(rights)}Q", *rights), 8 * len(rights))
    rules = call(c_long(_LANDLOCK_CREATE), attributes, c_size_t(8 * len(rights)), c_uint32(0))
    if rules < 0:
        return
    for path in dict.fromkeys(map(str, paths)):
        if os.path.exists(path):  # noqa: PTH110  for every process that is started
            file = os.open(path, os.O_PATH | os.O_CLOEXEC)
            granted = _READ_FILE | _READ_FOLDER if os.path.isdir(path) else _READ_FILE  # noqa: PTH112
            call(c_long(_LANDLOCK_ADD), c_int(rules), c_int(1), struct.pack("=Qi", granted, file), c_uint32(0))
            os.close(file)
    call(c_long(_LANDLOCK_RESTRICT), c_int(rules), c_uint32(0))
    os.close(rules)


class _Program(ctypes.Structure):
    """Instructions for the filter of system calls (`struct sock_fprog`)."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", c_void_p))


def _grant_system_calls() -> None:
    """Install a filter: calls that are not granted fail with EPERM, so that a parser can go on without them."""
    prctl, machine = getattr(_library(), "prctl", None), os.uname().machine
    if prctl is None or machine not in _ARCHITECTURES or struct.calcsize("P") != 8:
        return
    # Berkeley Packet Filter code; a jump is over the two numbers of instructions.
    deny, allow = (_RETURN, 0, 0, _DENY | _EPERM), (_RETURN, 0, 0, _ALLOW)
    code = [(_LOAD, 0, 0, _AT_ARCHITECTURE), (_EQUAL, 1, 0, _ARCHITECTURES[machine]), deny]
    code.append((_LOAD, 0, 0, _AT_NUMBER))
    for number in ALLOWED[machine]:
        code += [(_EQUAL, 0, 1, number), allow]
    # abort() sends a signal to its own process; the limit of CPU time is set for each document, of this process only.
    first = (_LOAD, 0, 0, _AT_ARGUMENT)
    code += [(_EQUAL, 0, 4, _TGKILL[machine]), first, (_EQUAL, 0, 1, os.getpid()), allow, deny]
    code += [(_EQUAL, 0, 3, _PRLIMIT[machine]), first, (_EQUAL, 0, 1, 0), allow]
    instructions = b"".join(struct.pack("=HBBI", *instruction) for instruction in [*code, deny])
    content = ctypes.create_string_buffer(instructions, len(instructions))
    program = _Program(len(instructions) // 8, ctypes.addressof(content))
    prctl(c_int(_PR_SET_SECCOMP), c_ulong(_SECCOMP_FILTER), ctypes.byref(program), c_ulong(0), c_ulong(0))
