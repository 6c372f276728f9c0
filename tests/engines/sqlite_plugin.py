"""The small engine of the tests as a package outside of the program adds it."""

from pathlib import Path

from engines.sqlite_engine import SqliteEngine

from retrieve_cli.contracts import Plugin

ENGINE = Plugin("engine", lambda settings: SqliteEngine(Path(str(settings.plugins["sqlite"]["path"]))))
