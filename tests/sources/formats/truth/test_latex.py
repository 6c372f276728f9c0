"""A paper that LaTeX sets: two columns, divided words, ligatures, ruled tables, roman and arabic page labels."""

from __future__ import annotations

import io
import random
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pypdf
import pytest
from sources.formats.truth.test_truth import distance, words

from retrieve_cli.contracts import Parsed
from retrieve_cli.sources.formats.formats import ParsingLimits
from retrieve_cli.sources.formats.reader import SandboxedReader

VOCABULARY = """
    segmentation reconstruction registration international efficient difficulty reflection influence classification
    microscopy laboratory experimental configuration documentation responsible information resolution quantitative
    measurement temperature preparation specification differential characteristic office flow find the of a is we in to
    with for by and this that from are was image cell tissue sample method result scale value model noise filter volume
""".split()


def prose(source: random.Random, count: int) -> list[str]:
    chosen = [source.choice(VOCABULARY) for _ in range(count)]
    return [word + "." if place % 11 == 10 else word for place, word in enumerate(chosen)]


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], bytes, Parsed]:
    """The words of a paper in the order of reading, the file, and what the parser reads of it."""
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed (texlive-latex-base)")
    source = random.Random(5)
    truth: list[str] = []
    body: list[str] = []
    for section in range(8):
        title = prose(source, 3)
        body.append(r"\section{" + " ".join(title) + "}")
        truth += [str(section + 1), *title]
        for _ in range(4):
            text = prose(source, 120)
            body.append(" ".join(text) + "\n")
            truth += text
    rows = [prose(source, 3) for _ in range(4)]
    lines = r" \\ \hline ".join(" & ".join(row) for row in rows)
    body.append(r"\par\noindent\begin{tabular}{|l|l|l|}\hline " + lines + r" \\ \hline\end{tabular}\par")
    truth += [word for row in rows for word in row]
    last = prose(source, 80)
    body.append("\n" + " ".join(last))
    truth += last
    head = (
        r"\documentclass[twocolumn]{article}\usepackage[pdfpagelabels]{hyperref}\begin{document}\pagenumbering{roman}"
    )
    turn = r"\clearpage\pagenumbering{arabic}"
    middle = next(place for place, part in enumerate(body) if part.startswith(r"\section") and place > len(body) // 2)
    text = "\n".join([head, *body[:middle], turn, *body[middle:], r"\end{document}"])
    folder = tmp_path_factory.mktemp("latex")
    (folder / "paper.tex").write_text(text)
    for _ in range(2):
        subprocess.run(["pdflatex", "-interaction=batchmode", "paper.tex"], cwd=folder, check=True, capture_output=True)
    content = Path(folder / "paper.pdf").read_bytes()
    parsed = SandboxedReader(ParsingLimits()).parse(content, "pdf", name="paper.pdf")
    assert parsed.layout is not None
    return truth, content, parsed


def test_columns_are_read_in_order_with_divided_words_joined(paper: tuple[list[str], bytes, Parsed]) -> None:
    truth, _, parsed = paper
    expected = words(" ".join(truth))
    assert distance(expected, words(parsed.text)) <= 0.01 * len(expected)


def test_each_page_has_the_words_that_another_parser_reads_there(paper: tuple[list[str], bytes, Parsed]) -> None:
    _, content, parsed = paper
    pages = pypdf.PdfReader(io.BytesIO(content)).pages
    assert len(pages) == len(parsed.layout.pages)
    for page, other in zip(parsed.layout.pages, pages, strict=True):
        mine = Counter(words(parsed.text[page.start : page.end]))
        # Both spell ligatures and divided words in their own way: words without them are compared.
        plain = Counter(words(other.extract_text()))
        common = [word for word in plain if not any(part in word for part in ("fi", "fl", "ff")) and word in VOCABULARY]
        assert sum(abs(mine[word] - plain[word]) for word in common) <= 0.1 * sum(plain[word] for word in common)


def test_labels_are_roman_and_then_arabic(paper: tuple[list[str], bytes, Parsed]) -> None:
    _, content, parsed = paper
    labels = [page.label for page in parsed.layout.pages]
    assert labels == pypdf.PdfReader(io.BytesIO(content)).page_labels
    assert labels[0] == "i"
    assert "1" in labels[1:]


def test_ligatures_are_spelled_out(paper: tuple[list[str], bytes, Parsed]) -> None:
    _, _, parsed = paper
    assert "efficient" in parsed.text
    assert not any("\ufb00" <= char <= "\ufb06" for char in parsed.text)


def test_a_ruled_tabular_is_a_table(paper: tuple[list[str], bytes, Parsed]) -> None:
    _, _, parsed = paper
    tables = [block for block in parsed.layout.blocks if block.kind == "table"]
    assert [parsed.text[block.start : block.end].count("\n") for block in tables] == [4]
