from __future__ import annotations

from collections.abc import Callable

import pytest

from retrieve_cli.contracts import Record, Tokenizer
from retrieve_cli.sources.chunking.markers import LABELS, Markers
from retrieve_cli.sources.chunking.section import SectionChunker

Make = Callable[..., Record]

PROSE = "we measured forty cells under the microscope and saw that they had grown by half. " * 3


def imrad(tokenizer: Tokenizer, *, max_tokens: int) -> SectionChunker:
    return SectionChunker(tokenizer, max_tokens=max_tokens, markers=Markers("imrad", LABELS["imrad"]))


def sections(tokenizer: Tokenizer, made: Record) -> list[str | None]:
    found = [chunk.section for chunk in imrad(tokenizer, max_tokens=64).chunk(made)]
    return [name for at, name in enumerate(found) if at == 0 or name != found[at - 1]]


@pytest.mark.parametrize(
    ("heading", "name"),
    [
        ("Introduction", "Introduction"),
        ("BACKGROUND", "Introduction"),
        ("Background and aims", "Introduction"),
        ("Objectives", "Objective"),
        ("Aim of the study", "Objective"),
        ("2. Methods", "Methods"),
        ("II. MATERIALS AND METHODS", "Methods"),
        ("3.1 Patients & Methods", "Methods"),
        ("Methodology/Principal Findings", "Methods"),
        ("Design, setting, and participants", "Methods"),
        ("Main outcome measures", "Methods"),
        ("Results and discussion", "Results"),
        ("Findings:", "Results"),
        ("Discussion", "Discussion"),
        ("Conclusions and relevance", "Conclusion"),
        ("Abstract", "Abstract"),
        ("References", "References"),
        ("Methods of payment", None),
        ("The results", None),
        ("", None),
    ],
)
def test_the_usual_headings_have_one_name(heading: str, name: str | None) -> None:
    assert LABELS["imrad"].part(heading) == name


def test_markdown_headings_are_named_and_keep_their_subheadings(words: Tokenizer, record: Make) -> None:
    headings = ["## 1. Background", "## 2. Methods", "### Cells", "## Funding"]
    text = "# A paper\n\n" + "\n\n".join(f"{heading}\n\n{PROSE}" for heading in headings)
    assert sections(words, record(text)) == ["Introduction", "Methods", "Methods > Cells", "A paper > Funding"]


@pytest.mark.parametrize(
    "labels", [("INTRODUCTION", "METHODS", "RESULTS"), ("1. Introduction", "2. Methods", "3. Results")]
)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n"])
def test_lines_that_hold_a_label_alone_are_headings(
    words: Tokenizer, record: Make, labels: tuple[str, ...], end: str
) -> None:
    text = "\n\n".join(f"{label}{end}{PROSE}" for label in labels)
    assert sections(words, record(text, kind="text")) == ["Introduction", "Methods", "Results"]


@pytest.mark.parametrize(
    "text",
    [
        f"OBJECTIVE: {PROSE}METHODS: {PROSE}RESULTS: {PROSE}CONCLUSIONS: {PROSE}",
        f"OBJECTIVE {PROSE}METHODS {PROSE}MAIN RESULTS {PROSE}CONCLUSION {PROSE}",
        f"Objective. {PROSE}Methods. {PROSE}Results. {PROSE}Conclusions. {PROSE}",
        f"**Aims:** {PROSE}\n\n**Methods:** {PROSE}\n\n**Findings**: {PROSE}\n\n**Conclusion** {PROSE}",
        f"- Objective: {PROSE}\n\nMethods: {PROSE}\nResults: {PROSE}\nConclusion — {PROSE}".removeprefix("- "),
    ],
    ids=["colons", "capitals", "stops", "bold", "lines"],
)
def test_labels_in_the_text_part_an_abstract(words: Tokenizer, record: Make, text: str) -> None:
    expected = ["Objective", "Methods", "Results", "Conclusion"]
    assert sections(words, record(text, kind="text")) == expected
    assert sections(words, record(f"A tool: {text}", name="A tool", kind="catalog")) == expected


def test_labels_below_an_abstract_are_its_parts(words: Tokenizer, record: Make) -> None:
    text = f"## Abstract\n\n**Background:** {PROSE}\n\n**Results:** {PROSE}\n\n## Introduction\n\n{PROSE}"
    assert sections(words, record(text)) == ["Abstract > Introduction", "Abstract > Results", "Introduction"]


def test_words_within_a_sentence_are_no_labels(words: Tokenizer, record: Make) -> None:
    text = f"{PROSE}These methods gave results: many. Methods were good. {PROSE}Our results. {PROSE}"
    assert sections(words, record(text, kind="text")) == [None]


def test_one_label_alone_makes_no_paper(words: Tokenizer, record: Make) -> None:
    made = record(f"# Tool\n\n{PROSE}\n\n## Background\n\n{PROSE}\n\n## Design\n\n{PROSE}")
    chunks = list(imrad(words, max_tokens=64).chunk(made))
    assert chunks == list(SectionChunker(words, max_tokens=64).chunk(made))


@pytest.mark.parametrize("kind", ["text", "catalog"])
def test_parts_never_share_a_chunk_however_short_they_are(words: Tokenizer, record: Make, kind: str) -> None:
    made = record("Introduction\n\nIt grows.\n\nMethods\n\nWe looked.\n\nResults\n\nSo it was.", kind=kind)
    chunks = list(imrad(words, max_tokens=512).chunk(made))
    assert [chunk.section for chunk in chunks] == ["Introduction", "Methods", "Results"]
    assert [chunk.text.split()[0] for chunk in chunks] == ["Introduction", "Methods", "Results"]
