"""Answers of providers, kept for a day: one SQLite file, `artifacts/web.sqlite`, for all threads and processes.

A row is the page of one provider for one question of one owner, such as a tenant: an answer is never used for another
owner, whose questions it would disclose. Only pages are kept: a failure is not, and is asked again.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from msgspec import MsgspecError, json

from retrieve_cli.contracts.websearch import Page, WebQuery

FILE = "web.sqlite"
"""Its name in the artifacts."""
_TABLE = "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, stored REAL NOT NULL, page BLOB NOT NULL)"
_AHEAD_S = 60.0
"""Seconds by which a row may be ahead of this clock, which may have been set back."""
_WAIT_S = 5.0
"""Seconds to wait for another process that writes."""


class CachedPage(NamedTuple):
    """A page, and when it was stored."""

    page: Page
    stored: float
    """Seconds since 1970."""

    @property
    def at(self) -> str:
        """Return the time as ISO 8601 in UTC."""
        return datetime.fromtimestamp(self.stored, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class PageCache:
    """Pages of providers in a file. A file that cannot be used does not stop a search: see `notice`."""

    def __init__(self, path: Path, *, keep_s: float) -> None:
        """Rows are removed after `keep_s` seconds, when others are stored."""
        self._path = path
        self._keep_s = keep_s
        self.notice = ""
        """Reason for which answers cannot be stored or used; empty if they can."""

    def get(self, owner: str, provider: str, query: WebQuery, *, max_age_s: float) -> CachedPage | None:
        """Return the page of a provider for a question of an owner; None if it is missing or too old."""
        if max_age_s <= 0 or not self._path.is_file():
            return None
        try:
            with closing(self._connect()) as database:
                key = (_key(owner, provider, query),)
                row = database.execute("SELECT stored, page FROM answers WHERE key = ?", key).fetchone()
            if row is None or not -_AHEAD_S <= time.time() - row[0] <= max_age_s:
                return None
            return CachedPage(json.decode(row[1], type=Page), row[0])
        except (sqlite3.Error, MsgspecError, OSError, TypeError, ValueError) as error:
            self._note(error)
            return None

    def put(self, owner: str, provider: str, query: WebQuery, page: Page) -> CachedPage:
        """Store a page in place of an earlier one, remove the rows that are too old, and return it with its time."""
        now = time.time()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.touch(mode=0o600)
            with closing(self._connect()) as database, database:
                row = (_key(owner, provider, query), now, json.encode(page))
                database.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", row)
                database.execute("DELETE FROM answers WHERE stored < ?", (now - self._keep_s,))
        except (sqlite3.Error, OSError, ValueError) as error:
            self._note(error)
        return CachedPage(page, now)

    def _connect(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._path, timeout=_WAIT_S)
        try:
            database.execute(_TABLE)
        except BaseException:
            database.close()
            raise
        return database

    def _note(self, error: Exception) -> None:
        self.notice = f"answers of providers are not cached: {error}; if {self._path} is damaged, delete it"


def _key(owner: str, provider: str, query: WebQuery) -> str:
    """Return the SHA-256 of a request of an owner."""
    return hashlib.sha256(json.encode([owner, provider, query])).hexdigest()
