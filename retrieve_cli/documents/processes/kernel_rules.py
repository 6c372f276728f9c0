"""Rules of the Linux kernel for a process that parses documents: no network, no programs, no changes of files.

Landlock (kernel 5.13) forbids changes of files and folders; a filter of system calls (seccomp) forbids sockets, other
processes and the administration of the machine. Neither needs rights, and neither can be taken back. A kernel without
one of them skips it: the audit hook of `confinement` then guards the Python code, but not the libraries in C.

Reading files is not restricted: what is read cannot leave the process but as the text or the picture of the document.
"""

from __future__ import annotations

import ctypes
import os
import struct
from ctypes import c_int, c_long, c_size_t, c_uint32, c_ulong, c_void_p

_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _PR_SET_DUMPABLE = 1, 22, 38, 4
_SECCOMP_FILTER = 2
_LANDLOCK_CREATE, _LANDLOCK_RESTRICT = 444, 446
_LANDLOCK_FILES = {1: 0x1FF3, 2: 0x3FF3, 3: 0x7FF3}
"""By version of Landlock, all rights but those to read files and folders: to execute, write, remove, make, truncate."""
_LANDLOCK_NET, _LANDLOCK_SCOPES = 3, 3
"""Binding and connecting TCP sockets (version 4); abstract sockets and signals to other processes (version 6)."""

_EPERM, _ENOSYS = 1, 38
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _DENY = 0x7FFF0000, 0x00050000
_X32 = 0x40000000
_CLONE_THREAD = 0x10000
_AT_NUMBER, _AT_ARCHITECTURE, _AT_ARGUMENT = 0, 4, 16

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_CLONE, _CLONE3, _TGKILL = {"x86_64": 56, "aarch64": 220}, 435, {"x86_64": 234, "aarch64": 131}
_DENIED = {
    "x86_64": (
        41, 42, 49, 53,  # socket, connect, bind, socketpair
        57, 58, 59, 322, 62, 200, 129, 297,  # fork, vfork, execve, execveat, kill, tkill, rt_sigqueueinfo, its tg form
        90, 91, 268, 452, 92, 93, 94, 260, 188, 189, 190, 280,  # chmod, chown and setxattr in all forms, utimensat
        101, 310, 311, 438, 424, 272, 308,  # ptrace, process_vm_*, pidfd_getfd, pidfd_send_signal, unshare, setns
        155, 165, 166, 169, 175, 313, 246, 304,  # pivot_root, mount, umount2, reboot, modules, kexec, open_by_handle_at
        250, 298, 321, 323, 425,  # keyctl, perf_event_open, bpf, userfaultfd, io_uring_setup
    ),
    "aarch64": (
        198, 203, 200, 199, 221, 281, 129, 130, 138, 240, 52, 53, 452, 54, 55, 5, 6, 7, 88,
        117, 270, 271, 438, 424, 97, 268, 41, 40, 39, 142, 105, 273, 104, 265, 219, 241, 280, 282, 425,
    ),
}  # fmt: skip
"""System calls that fail, by architecture: the same ones, as far as the second has them."""


def end_with_parent() -> bool:
    """Let the kernel kill this process when the thread that started it ends; return False if it cannot."""
    import signal

    return _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def restrict() -> None:
    """Apply all rules that this kernel has."""
    _prctl(_PR_SET_DUMPABLE, 0)
    if _prctl(_PR_SET_NO_NEW_PRIVS, 1):
        _forbid_changes_of_files()
        _forbid_system_calls()


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


def _forbid_changes_of_files() -> None:
    """Handle all rights to change files and grant none of them."""
    version, call = landlock(), getattr(_library(), "syscall", None)
    if call is None or version < 1:
        return
    call.restype = c_long
    rights = [_LANDLOCK_FILES[min(version, 3)]]
    rights += [_LANDLOCK_NET] * (version >= 4) + [_LANDLOCK_SCOPES] * (version >= 6)
    attributes = ctypes.create_string_buffer(struct.pack(f"={len(rights)}Q", *rights), 8 * len(rights))
    rules = call(c_long(_LANDLOCK_CREATE), attributes, c_size_t(8 * len(rights)), c_uint32(0))
    if rules >= 0:
        call(c_long(_LANDLOCK_RESTRICT), c_int(rules), c_uint32(0))
        os.close(rules)


class _Program(ctypes.Structure):
    """Instructions for the filter of system calls (`struct sock_fprog`)."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", c_void_p))


def _forbid_system_calls() -> None:
    """Install a filter: forbidden calls fail with EPERM, so that a parser can go on without them."""
    prctl, machine = getattr(_library(), "prctl", None), os.uname().machine
    if prctl is None or machine not in _ARCHITECTURES or struct.calcsize("P") != 8:
        return
    instructions = _filter(machine)
    content = ctypes.create_string_buffer(instructions, len(instructions))
    program = _Program(len(instructions) // 8, ctypes.addressof(content))
    prctl(c_int(_PR_SET_SECCOMP), c_ulong(_SECCOMP_FILTER), ctypes.byref(program), c_ulong(0), c_ulong(0))


def _filter(machine: str) -> bytes:
    """Return the instructions, in Berkeley Packet Filter code; a jump is over the two numbers of instructions."""
    deny, allow = (_RETURN, 0, 0, _DENY | _EPERM), (_RETURN, 0, 0, _ALLOW)
    code = [(_LOAD, 0, 0, _AT_ARCHITECTURE), (_EQUAL, 1, 0, _ARCHITECTURES[machine]), deny]
    code += [(_LOAD, 0, 0, _AT_NUMBER), (_AT_LEAST, 0, 1, _X32), deny]
    for number in _DENIED[machine]:
        code += [(_EQUAL, 0, 1, number), deny]
    # glibc falls back to clone, whose flags the filter can read: threads are allowed, processes are not.
    code += [(_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _DENY | _ENOSYS)]
    first = (_LOAD, 0, 0, _AT_ARGUMENT)
    code += [(_EQUAL, 0, 4, _CLONE[machine]), first, (_ANY_BIT, 0, 1, _CLONE_THREAD), allow, deny]
    # abort() sends a signal to its own process.
    code += [(_EQUAL, 0, 4, _TGKILL[machine]), first, (_EQUAL, 0, 1, os.getpid()), allow, deny]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in [*code, allow])
