"""The bytes of an index: small corpora, built from scratch, give the generations that they gave before.

`generation_ids.json` was recorded before the code was rearranged. Where the format of a file is changed on purpose,
run this whole file with RETRIEVE_WRITE_GOLDEN=1 in the environment, which writes it anew, and look at what changed.

What the hashed encoder computes is exact on every processor: sums of eighths, one square root and one division a
number, both rounded as IEEE 754 says. BM25 takes logarithms in double precision and rounds them to single.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from golden.corpora import build
from golden.written import Golden


@pytest.fixture(scope="module")
def golden() -> Iterator[Golden]:
    known = Golden(Path(__file__).with_name("generation_ids.json"))
    yield known
    known.write()


def manifest(name: str, folder: Path) -> dict[str, Any]:
    """What the manifest of a fresh build says."""
    artifacts = build(name, folder) / "artifacts"
    live = (artifacts / "current").read_text().strip()
    found: dict[str, Any] = json.loads((artifacts / "generations" / live / "manifest.json").read_text())
    assert found["generation"] == live
    return found


@pytest.mark.parametrize("name", ["tools", "guides", "steps", "by chunk"])
def test_a_corpus_gives_the_generation_that_it_gave_before(name: str, golden: Golden, tmp_path: Path) -> None:
    found = manifest(name, tmp_path)
    digests = {file: entry["sha1"] for file, entry in found["files"].items()}
    golden.hold(name, {"id": found["generation"], "files": digests})
