"""Documents that a query is about: their title and abstract are part of the query, and what was added is said."""

import base64
import json
from collections.abc import Callable
from pathlib import Path

import docx
import pytest
from program.asking import Configure
from samples import Program

Stdin = Callable[[str], None]
pytestmark = pytest.mark.usefixtures("index")

ABSTRACT = "We strip the skull from magnetic resonance scans of the head by a simple threshold."
PAPER = f"# On heads\n\nA. Author\n\n## Abstract\n\n{ABSTRACT}\n\n## Introduction\n\nNothing about cells.\n"
ADDED = f"On heads {ABSTRACT}"


@pytest.fixture
def paper() -> Path:
    path = Path("paper.md")
    path.write_text(PAPER)
    return path


@pytest.fixture
def word() -> Path:
    document = docx.Document()
    document.add_heading("On heads", 1)
    document.add_heading("Abstract", 2)
    document.add_paragraph(ABSTRACT)
    document.save("paper.docx")
    return Path("paper.docx")


def head(name: str, data: bytes) -> str:
    return json.dumps({"query": "tool", "files": [{"name": name, "head_base64": base64.b64encode(data).decode()}]})


def test_title_and_abstract_of_a_file_are_searched_and_said(paper: Path, retrieve: Program) -> None:
    alone = retrieve("query", "--file", paper, "--mode", "bm25", "--json")
    assert alone.code == 0
    assert alone.json["results"][0]["id"].startswith("brain")
    done = retrieve("query", "which tool", "--file", paper, "--mode", "bm25", "--json")
    assert done.json["enhanced_query"] == f"which tool {ADDED} format:Markdown"
    assert done.json["clean_query"] == "which tool"
    assert done.json["results"][0]["id"].startswith("brain")
    told = retrieve("query", "which tool", "--file", paper).err
    assert f'note: added the title and abstract of {paper}: "On heads We strip the skull' in told


def test_tags_within_a_document_are_words(retrieve: Program) -> None:
    Path("evil.md").write_text(f"# Title [EXCLUDE:BrainStrip]\n\n{ABSTRACT} [FILTER:license=none]\n")
    done = retrieve("query", "skull", "--file", "evil.md", "--json").json
    assert (done["excluded"], done["filters"]) == ([], {})
    assert done["results"][0]["id"].startswith("brain")


def test_files_are_ignored_if_the_configuration_says_so(paper: Path, retrieve: Program, configure: Configure) -> None:
    configure("search", file_tokens="false")
    done = retrieve("query", "brain", "--file", paper, "--json")
    assert done.json["enhanced_query"] == "brain"


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        (
            "old.docx",
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "WordDocument".encode("utf-16-le"),
            "it is a file of Office 97",
        ),
        ("cut.docx", b"PK\x03\x04" + bytes(26) + b"word/document.xml", "it is not a complete ZIP file"),
        ("bytes.md", b"# caf\xe9 \0\n", "it is not a text"),
        ("short.md", b"Hello\n", "it has neither a title nor an abstract"),
    ],
)
def test_a_document_that_cannot_be_read_is_a_note(name: str, content: bytes, reason: str, retrieve: Program) -> None:
    Path(name).write_bytes(content)
    done = retrieve("query", "brain", "--file", name)
    assert done.code == 0
    assert f"note: no text of {name} was added: {reason}" in done.err
    assert retrieve("query", "brain", "--file", name, "--json").json["enhanced_query"].split(" format:")[0] == "brain"


def test_the_beginning_of_a_text_is_enough(retrieve: Program, stdin: Stdin) -> None:
    stdin(head("paper.md", PAPER.encode() + "é".encode()[:1]))
    assert retrieve("query", "-", "--json").json["enhanced_query"] == f"tool {ADDED} format:Markdown"


def test_a_word_document_is_read_by_its_styles_if_all_of_it_came(word: Path, retrieve: Program, stdin: Stdin) -> None:
    done = retrieve("query", "tool", "--file", word, "--json")
    assert done.json["enhanced_query"] == f"tool {ADDED} format:DOCX"
    stdin(head("paper.docx", word.read_bytes()))
    assert retrieve("query", "-", "--json").json["enhanced_query"] == f"tool {ADDED} format:DOCX"
    stdin(head("paper.docx", word.read_bytes()[:5000]))
    done = retrieve("query", "-", "--json")
    assert done.json["enhanced_query"] == "tool format:DOCX"
    assert "paper.docx can only be read as a whole: send all of it" in done.err + done.out


def test_fewer_words_are_searched_with_the_document(paper: Path, retrieve: Program) -> None:
    words = ("--mode", "bm25", "unheard words nobody ever wrote")
    attempts = retrieve("query", *words, "--file", paper, "--json", "--explain").json["attempts"]
    assert len(attempts) > 1
    assert all(attempt["text"].endswith(f" {ADDED} format:Markdown") for attempt in attempts)
