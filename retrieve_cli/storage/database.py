"""The SQLite file of an artifacts folder: added documents, and tasks of servers.

A change is on the disk before it is acknowledged (WAL, synchronous=FULL). Each use has its own
connection: the file may be moved away at any moment, and a process may fork. The file may come
from anybody: it must have these tables and nothing else, and nothing in it is run.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from retrieve_cli.errors import IndexCorrupt, Locked, RetrieveError, unwritable
from retrieve_cli.storage import durable
from retrieve_cli.untrusted.files import UnreadableFile, expect_regular

if TYPE_CHECKING:
    import sqlite3

FILE = "inbox.db"
_COLUMNS = "sequence INTEGER PRIMARY KEY, id UNIQUE, tenant, at, document, name, file, size, sha1"
"""A document that was sent as a file has its name, SHA-1 and size; the last column is the SHA-1 of all others. A row
without a document is a removal."""
_SCHEMA = (
    f"CREATE TABLE documents ({_COLUMNS})",
    "CREATE TABLE files (sha1 TEXT PRIMARY KEY, content BLOB NOT NULL)",
    "CREATE TABLE state (name TEXT PRIMARY KEY, value)",
    "CREATE TABLE tasks (task TEXT PRIMARY KEY, value TEXT NOT NULL)",
)
_SAFE = ("PRAGMA trusted_schema = OFF", "PRAGMA cell_size_check = ON", "PRAGMA synchronous = FULL")
_WAIT_S = 10.0
"""Seconds to wait for another writer, which holds the file for the time of one change."""
_ROOM = 1 << 16
"""Bytes of a disk below which it is full."""


@contextmanager
def writing(path: Path) -> Iterator[sqlite3.Connection]:
    """Make all changes of this context or, after an error, none; they are on the disk when it ends.

    Raises:
        Locked: other writers did not let this one in.
        IndexCorrupt: it is damaged, or another file is in its place.
        RetrieveError: the disk is full, or the folder cannot be written.
    """
    import sqlite3

    with translated(path):
        durable.make_folder(path.parent)
        with closing(_connected(path, "mode=rwc")) as database:
            with suppress(sqlite3.OperationalError):  # only at first, and not beside others
                database.execute("PRAGMA journal_mode = WAL")
            database.execute("BEGIN IMMEDIATE")
            if not _tables(database):
                for table in _SCHEMA:
                    database.execute(table)
            yield database
            database.execute("COMMIT")


def open_to_read(path: Path) -> sqlite3.Connection | None:
    """Return a connection to a snapshot of the file, which the caller closes; None if nothing was written yet.

    Raises:
        IndexCorrupt: it is damaged, or another file is in its place.
        RetrieveError: it cannot be read.
    """
    if not os.path.lexists(path):
        return None
    import sqlite3

    with translated(path):
        try:
            database = _connected(path, "mode=rw", "PRAGMA query_only = ON", "BEGIN")
        except sqlite3.OperationalError as error:
            log = path.with_name(f"{path.name}-wal")
            if _code(error) not in _UNABLE or (log.exists() and log.stat().st_size):
                raise
            # There is no place for the two files of a reader, as on a full disk: then there is no writer either.
            database = _connected(path, "immutable=1", "BEGIN")
        if _tables(database):
            return database
        database.close()
        return None


def _connected(path: Path, access: str, *begin: str) -> sqlite3.Connection:
    import sqlite3

    if os.path.lexists(path):
        expect_regular(path)
    address = f"{path.absolute().as_uri()}?{access}"
    database = sqlite3.connect(address, timeout=_WAIT_S, check_same_thread=False, uri=True)
    try:
        database.isolation_level = None
        for statement in (*_SAFE, *begin):
            database.execute(statement)
        if _tables(database) not in ((), _SCHEMA):
            raise damaged(path, "it has other tables")
    except BaseException:
        database.close()
        raise
    return database


def _tables(database: sqlite3.Connection) -> tuple[str, ...]:
    """Return what creates the tables and everything else of a file; nothing if it is new."""
    query = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name LIMIT 9"
    return tuple(sql for (sql,) in database.execute(query))


def damaged(path: Path, why: str) -> IndexCorrupt:
    """Return the error for a file that is damaged, or is something else."""
    away = f"move it away (mv {path} DIR) with the files {path.name}-*"
    again = "restore a snapshot (retrieve snapshot restore FILE) or add its documents again"
    return IndexCorrupt(f"{path} is not a sound inbox: {why}", hint=f"{away}, then {again}")


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Raise errors of SQLite and of the system as errors of this program."""
    import sqlite3

    try:
        yield
    except sqlite3.Error as error:
        raise _as_ours(path, error) from error
    except UnicodeDecodeError as error:  # of a text in the file, or in SQLite's message
        raise damaged(path, "it has a text that is not UTF-8") from error
    except UnreadableFile as error:
        raise damaged(path, str(error.strerror)) from error
    except OSError as error:
        raise unwritable(path, error) from error


_BUSY = (5, 6)
"""SQLITE_BUSY and SQLITE_LOCKED."""
_UNABLE = (3, 8, 10, 13, 14)
"""SQLITE_PERM, READONLY, IOERR, FULL and CANTOPEN."""
_IOERR, _FULL, _SHORT_READ = 10, 13, 522


def _code(error: sqlite3.Error) -> int:
    """Return the number of an error without its details; 0 for a file that ends too early, which is damage."""
    number = int(getattr(error, "sqlite_errorcode", 0))
    return 0 if number == _SHORT_READ else number & 0xFF


def _as_ours(path: Path, error: sqlite3.Error) -> RetrieveError:
    code = _code(error)
    if code in _BUSY:
        return Locked(f"another process holds {path}", hint="try again in a moment")
    if code not in _UNABLE:
        return damaged(path, str(error))
    number = _reason(path, code)
    return unwritable(path, OSError(number, os.strerror(number)))


def _reason(path: Path, code: int) -> int:
    """Return the error of the system that made SQLite fail, which does not name it."""
    import resource  # a query does without it

    disk = os.statvfs(path.parent)
    if code == _FULL or disk.f_bavail * disk.f_frsize < _ROOM:
        return errno.ENOSPC
    if resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY:
        return errno.EFBIG
    return errno.EIO if code == _IOERR else errno.EACCES
