"""Files of all formats are parsed in the sandbox as they are without it: no parser needs what it does not grant."""

from collections.abc import Iterator
from contextlib import closing
from importlib import import_module
from pathlib import Path

import pytest
from sources.formats.sandbox.asking import MB
from sources.formats.sandbox.mutated import KINDS, seeds
from sources.formats.sandbox.test_mutated import LIMITS, begun, is_there, outcome

from retrieve_cli.contracts import Parsed
from retrieve_cli.sources.formats.formats import FORMATS
from retrieve_cli.sources.formats.processes import messages
from retrieve_cli.sources.formats.processes.pool import ParserPool


@pytest.fixture(scope="module")
def readers() -> Iterator[ParserPool]:
    """One process for all formats."""
    with closing(ParserPool(1024 * MB, workers=1)) as pool:
        yield pool


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_parsed_in_the_sandbox_as_without_it(readers: ParserPool, tmp_path: Path, kind: str) -> None:
    if not is_there(kind):
        pytest.skip("the packages for this format are not installed")
    parser = import_module(FORMATS[kind].module)
    for number, content in enumerate(seeds(kind)):
        path = tmp_path / f"{number}.{kind}"
        path.write_bytes(content)
        confined = outcome(begun(readers, path, kind))
        free = parser.parse(content, name=path.name, limits=LIMITS, on_page=lambda _: None)
        assert isinstance(confined, Parsed), confined
        assert messages.packed(confined) == messages.packed(free)
