"""The two tiers of the suite: `default`, which everybody runs, and `complete`, which holds what is dear.

tests/complete.txt lists the complete tier, a line each: the reason in a word, then a file or a test (with its
parameters or without, which means all of them), relative to tests/. All other tests are the default tier, so none is in
neither. Files that have no test of the chosen tier are not even imported.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, get_args

import pytest

Tier = Literal["default", "complete", "all"]
FOLDER = Path(__file__).resolve().parent
LIST = FOLDER / "complete.txt"
REASONS = ("kills", "servers", "processes", "models", "packages", "pages", "scale")
"""Why a test is dear: it kills processes, starts a server, starts programs, loads or trains models, imports heavy
packages, runs the documentation or a browser, or needs many records or examples."""
UNMEASURED = ("kills", "scale")
"""Reasons of tests that repeat, more often or with more records, what others do: coverage is not measured in them."""


class Entries:
    """The files and tests that a list puts into the complete tier."""

    def __init__(self, text: str) -> None:
        """Read a list. Raises: pytest.UsageError with the number of a line that is wrong."""
        self._reasons: dict[str, str] = {}
        for number, line in enumerate(text.splitlines(), 1):
            reason, _, name = (part.strip() for part in line.partition(" "))
            if not line.strip() or line.startswith("#"):
                continue
            if reason not in REASONS or ".py" not in name:
                raise pytest.UsageError(f"complete.txt:{number}: not `REASON FILE[::TEST]`, with a reason of {REASONS}")
            if name in self._reasons:
                raise pytest.UsageError(f"complete.txt:{number}: {name} is listed twice")
            self._reasons[name] = reason
        self.files = {name for name in self._reasons if "::" not in name}
        self.tests = set(self._reasons) - self.files

    def listing(self, nodeid: str) -> str | None:
        """Return the entry that puts a test (relative to tests/) into the complete tier; None in the default tier."""
        file, plain = nodeid.partition("::")[0], nodeid.partition("[")[0]
        return next((name for name in (file, plain, nodeid) if name in self._reasons), None)

    def reason(self, nodeid: str) -> str | None:
        """Return why a test (relative to tests/) is in the complete tier; None in the default tier."""
        return self._reasons.get(self.listing(nodeid) or "")

    def skips_file(self, file: str, tier: Tier) -> bool:
        """Return whether a file has no test of a tier, by the list alone."""
        if tier == "complete":
            return file not in self.files and not any(test.startswith(f"{file}::") for test in self.tests)
        return tier == "default" and file in self.files


class Tiers:
    """The plug-in of pytest that leaves out the tests of the other tier."""

    def __init__(self, tier: Tier, entries: Entries, folder: Path = FOLDER) -> None:
        self.tier, self.entries, self._folder = tier, entries, folder

    def is_default(self, nodeid: str) -> bool:
        """Return whether a test of this suite is in the default tier."""
        return self._listing(nodeid) is None

    def idle(self, nodeids: Iterable[str]) -> list[str]:
        """Return entries that name nothing: files that are absent, and tests that are not among those collected."""
        used = {self._listing(nodeid) for nodeid in nodeids}
        absent = [file for file in self.entries.files if not (self._folder / file).is_file()]
        return sorted([*absent, *(self.entries.tests - used)])

    def _listing(self, nodeid: str) -> str | None:
        return self.entries.listing(self._relative(nodeid))

    def _relative(self, nodeid: str) -> str:
        return nodeid.removeprefix(f"{self._folder.name}/")

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        if collection_path.suffix != ".py" or not collection_path.is_relative_to(self._folder):
            return None
        return self.entries.skips_file(collection_path.relative_to(self._folder).as_posix(), self.tier) or None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        whole_suite = config.args_source is pytest.Config.ArgsSource.TESTPATHS
        if whole_suite and (idle := self.idle(item.nodeid for item in items)):
            names = ", ".join([*idle[:5], f"and {len(idle) - 5} more"] if len(idle) > 5 else idle)
            raise pytest.UsageError(f"complete.txt names what is not there: {names}")
        if self.tier != "all":
            wanted = self.tier == "default"
            config.hook.pytest_deselected(items=[item for item in items if self.is_default(item.nodeid) is not wanted])
            items[:] = [item for item in items if self.is_default(item.nodeid) is wanted]
        for item in items if getattr(config.option, "cov_source", None) else ():
            if self.entries.reason(self._relative(item.nodeid)) in UNMEASURED:
                item.add_marker("no_cover")


def add_option(parser: pytest.Parser) -> None:
    parser.addoption("--tier", choices=get_args(Tier), default="all", help="the tests of this tier only")


def install(config: pytest.Config) -> Tiers:
    """Read the list and register the plug-in."""
    tiers = Tiers(config.getoption("--tier"), Entries(LIST.read_text("utf-8")))
    config.pluginmanager.register(tiers, "retrieve-tiers")
    return tiers
