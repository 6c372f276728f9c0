"""Pages, printed labels, anchors and boxes of passages in the output of commands, from layouts made by hand."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from layout_samples import DOCUMENTS, index_of
from samples import Program
from terminals import at_terminal

from retrieve_cli.contracts.layout import Place
from retrieve_cli.output.places import linked, located, pages
from retrieve_cli.search.answer import Span

pytestmark = pytest.mark.usefixtures("paged")
PDF = "thermometer minute tepid"
TABLE = "copper porcelain"
HTML = "administrator installer archive"
DOCX = "ledger cellar archivist"
MARKDOWN = "gramophone wound"
PREFACE = "potters winter preface"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the documents and an index of them."""
    folder = tmp_path_factory.mktemp("paged")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("RETRIEVE_ENCODER__KIND", "hashed")
        patch.setenv("RETRIEVE_CHUNKING__SIZE", "40")
        index_of(DOCUMENTS, folder / "files", folder / "artifacts")
    return folder


@pytest.fixture
def paged(built: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, as the current folder."""
    monkeypatch.chdir(built)
    monkeypatch.setenv("RETRIEVE_CHUNKING__SIZE", "40")
    return built


def best(retrieve: Program, *words: str) -> dict[str, Any]:
    """Return the best result of a query."""
    done = retrieve("query", *words, "--json", "-k", "1", "--mode", "bm25", "--no-rerank")
    assert done.code == 0, done.err
    result: dict[str, Any] = done.json["results"][0]
    return result


def of_place(result: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in result.items() if key.startswith("page") or key in ("anchor", "boxes")}


# ---------------------------------------------------------------------------------------------------- JSON


def test_json_has_pages_labels_and_anchor_of_every_result_and_null_for_what_it_has_not(retrieve: Program) -> None:
    none = {"page": None, "page_end": None, "page_label": None, "anchor": None}
    expected = {
        PDF: {**none, "page": 2, "page_end": 3, "page_label": "ii", "page_label_end": "3"},
        TABLE: {**none, "page": 4, "page_end": 4, "page_label": "4"},
        HTML: {**none, "anchor": "install"},
        DOCX: none,
        MARKDOWN: none,
    }
    assert {query: of_place(best(retrieve, query)) for query in expected} == expected


def test_boxes_come_with_an_explanation_only_and_cover_each_page_of_the_passage(retrieve: Program) -> None:
    assert "boxes" not in best(retrieve, PDF)
    boxes = best(retrieve, PDF, "--explain")["boxes"]
    assert [page for page, *_ in boxes] == [2, 2, 3]
    assert all(x0 < x1 and y0 < y1 for _, x0, y0, x1, y1 in boxes)
    assert "boxes" not in best(retrieve, HTML, "--explain")


def test_the_kind_of_a_passage_is_that_of_its_layout(retrieve: Program) -> None:
    assert [best(retrieve, query)["content_type"] for query in (TABLE, PDF, MARKDOWN)] == ["table", "text", "text"]


def test_a_context_has_the_pages_of_all_that_is_shown_and_the_hit_keeps_its_own(retrieve: Program) -> None:
    result = best(retrieve, PDF, "--context", "1", "--explain")
    shown = of_place(result["context"])
    assert {page for page, *_ in shown.pop("boxes")} == {1, 2, 3, 4}
    assert shown == {"page": 1, "page_end": 4, "page_label": "i", "page_label_end": "4"}
    assert (result["page"], result["page_end"]) == (2, 3)
    assert of_place(best(retrieve, MARKDOWN, "--context", "1")["context"]) == {}


def test_csv_has_columns_of_pages_behind_the_others(retrieve: Program) -> None:
    out = retrieve("query", PDF, MARKDOWN, "--format", "csv", "--mode", "bm25").out
    rows = {row["doc_id"]: row for row in csv.DictReader(io.StringIO(out))}
    assert list(rows["docs/paper.pdf"])[-4:] == ["content", "page", "page_end", "page_label"]
    assert [rows["docs/paper.pdf"][key] for key in ("page", "page_end", "page_label")] == ["2", "3", "ii"]
    assert [rows["docs/notes.md"][key] for key in ("page", "page_end", "page_label")] == ["", "", ""]


# -------------------------------------------------------------------------------------------------- people


@pytest.mark.parametrize(
    ("query", "head"),
    [
        (PDF, r"docs/paper\.pdf pp\. ii–3 \[2–3\]  › Cooling of kettles › Method"),
        (PREFACE, r"docs/paper\.pdf p\. i \[1\]  › Cooling of kettles"),
        (TABLE, r"docs/paper\.pdf p\. 4  › Cooling of kettles › Results"),
        (HTML, r"docs/guide\.html#install  example\.org/guide  › Guide › Install"),
        (DOCX, r"docs/letter\.docx  › Letter"),
        (MARKDOWN, r"docs/notes\.md:1-3  › Notes"),
    ],
)
def test_a_hit_is_headed_by_its_pages_or_anchor_and_lines_are_those_of_texts(
    query: str, head: str, retrieve: Program
) -> None:
    line = retrieve("query", query, "-k", "1", "--mode", "bm25", "--no-rerank").out.splitlines()[0]
    assert re.fullmatch(rf" 1  {head} +[\d.]+", line), line


def test_a_prompt_cites_pages(retrieve: Program) -> None:
    prompt = retrieve("query", "kettles samovar ledger gramophone", "--format", "prompt", "--context", "1").out
    of_layouts = ("docs/paper.pdf pp. i–4 [1–4] › ", "docs/guide.html#install › Guide > ")
    for place in (*of_layouts, "docs/letter.docx › Letter\n", "docs/notes.md:1-3 › Notes\n"):
        assert re.search(rf"^\[\d\] {re.escape(place)}", prompt, re.MULTILINE), place


def test_a_terminal_links_to_the_page_and_to_the_anchor_and_a_pipe_does_not(paged: Path, retrieve: Program) -> None:
    files = paged / "files" / "docs"
    only = ("-k", "1", "--mode", "bm25", "--no-rerank")
    assert f"\x1b]8;;file://{files}/paper.pdf#page=2\x1b\\" in at_terminal(120, "query", PDF, *only)
    shown = at_terminal(120, "query", HTML, *only)
    assert f"\x1b]8;;file://{files}/guide.html#install\x1b\\" in shown
    assert "\x1b]8;;https://example.org/guide/#install\x1b\\" in shown
    assert f"\x1b]8;;file://{files}/notes.md\x1b\\" in at_terminal(120, "query", MARKDOWN, *only)
    assert "\x1b" not in at_terminal(120, "query", PDF, *only, NO_COLOR="1")
    assert "\x1b" not in retrieve("query", PDF, *only).out


def span(place: Place | None) -> Span:
    return Span("a.pdf", 0, 0, "text", 0, 4, 1, 2, place=place)


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (Place(page=12, page_end=12), "p. 12"),
        (Place(page=12, page_end=12, page_label="viii", page_label_end="viii"), "p. viii [12]"),
        (Place(page=12, page_end=13, page_label="viii", page_label_end="ix"), "pp. viii–ix [12–13]"),
        (Place(anchor="install"), ""),
    ],
)
def test_pages_are_cited_by_the_printed_label_and_the_number_in_the_file_if_they_differ(
    place: Place | None, words: str
) -> None:
    assert pages(place) == words


def test_a_label_or_an_anchor_of_a_document_can_neither_drive_a_terminal_nor_end_a_link() -> None:
    hostile = "i\x1b[2J\n[9] docs/other.md:1 " * 9
    place = Place(page=1, page_end=1, page_label=hostile, page_label_end=hostile)
    assert re.fullmatch(r"p\. [^\x00-\x1f]{1,20} \[1\]", pages(place))
    anchored = span(Place(anchor='a)"\x1b]8;; <b>#%'))
    assert not set("\x1b\n") & set(located("a.html", anchored))
    assert not set(')"<># ') & set(linked("https://x.org/a#old", anchored).partition("#")[2])
    assert linked("file:///a.html", span(Place(anchor="x" * 10_000))) == "file:///a.html"


# ----------------------------------------------------------------------------------------- inspect, doctor


def findings(retrieve: Program) -> list[dict[str, str]]:
    checks = retrieve("doctor", "--json").json["checks"]
    return [check for check in checks if check["name"] == "documents"]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Make the parsers find another version of a package, or none."""
    from retrieve_cli.sources.formats import formats

    real = formats.version_of

    def install(name: str, version: str) -> None:
        def version_of(distribution: str) -> str:
            return version if distribution == name else real(distribution)

        monkeypatch.setattr(formats, "version_of", version_of)

    return install


def test_the_doctor_counts_files_whose_parser_is_missing_and_gives_the_install_line(
    paged: Path, retrieve: Program, installed: Callable[[str, str], None]
) -> None:
    assert findings(retrieve) == []
    installed("pypdfium2", "")
    (check,) = findings(retrieve)
    assert check["status"] == "warn"
    assert check["message"] == "skipped: 1 pdf file; pdf needs pypdfium2"
    assert check["fix"] == "pip install 'retrieve-cli[documents]'"
