"""What acts as a heading without being one: listed titles, the labels of drug labels, lines in bold."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from retrieve_cli.contracts import Record, Tokenizer
from retrieve_cli.sources.chunking.markers import LABELS, Markers
from retrieve_cli.sources.chunking.section import SectionChunker

Make = Callable[..., Record]

PROSE = "Take one tablet with a glass of water in the morning and another one at night. " * 2


def sections(tokenizer: Tokenizer, made: Record, markers: Markers | None = None) -> list[str | None]:
    return [chunk.section for chunk in SectionChunker(tokenizer, max_tokens=64, markers=markers).chunk(made)]


@pytest.mark.parametrize("kind", ["markdown", "text", "catalog"])
@pytest.mark.parametrize("line", ["Night care", "NIGHT CARE:", "2. Night  care", "**Night care**", "__Night care:__"])
def test_lines_that_are_listed_titles_head_sections(words: Tokenizer, record: Make, kind: str, line: str) -> None:
    text = f"Wounds\n{PROSE}\n{line}\n{PROSE}\n\nNight care is needed.\n{PROSE}"
    made = record(text, kind=kind, metadata={"section_titles": ["Wounds", "Night care"]})
    assert list(dict.fromkeys(sections(words, made))) == ["Wounds", "Night care"]


def test_titled_sections_never_share_a_chunk_and_others_within_them_do(words: Tokenizer, record: Make) -> None:
    text = "Wounds\nClean.\n\nNight care\n\n**Sleep**\n\nLong.\n\n**Light**\n\nNone."
    titles = {"section_titles": ["Wounds", "Night care"]}
    chunks = SectionChunker(words, max_tokens=512).chunk(record(text, metadata=titles))
    assert [chunk.section for chunk in chunks] == ["Wounds", "Night care > Sleep, Light"]


@pytest.mark.parametrize(
    ("line", "heading"),
    [
        ("**What's new**", True),
        ("__What's new__  ", True),
        ("**What's new?**", False),
        ("**It is new.**", False),
        ("**Note:**", False),
        ("**Figure 3**", False),
        ("** What's new **", False),
        ("**What's** new", False),
        ("**What's** and **new**", False),
        ("**12**", False),
        ("**What's new**\nin this version", False),
    ],
)
def test_a_paragraph_of_one_bold_line_heads_a_section(words: Tokenizer, record: Make, line: str, heading: bool) -> None:
    text = f"# Guide\n\n{PROSE}\n\n{line}\n\n{PROSE}\n\n# End\n\n{PROSE}"
    below = "Guide > What's new" if heading else "Guide"
    found = sections(words, record(text))
    assert (found[0], found[-1]) == ("Guide", "End")
    assert set(found[1:-1]) == {below}


@pytest.mark.parametrize(
    ("heading", "name"),
    [
        ("1 INDICATIONS AND USAGE", "Indications and Usage"),
        ("Indications & Usage", "Indications and Usage"),
        ("Therapeutic indications", "Indications and Usage"),
        ("2. Dosage and Administration", "Dosage and Administration"),
        ("Dosage", "Dosage and Administration"),
        ("DOSAGE FORMS AND STRENGTHS", "Dosage Forms and Strengths"),
        ("Contra-indications:", "Contraindications"),
        ("5 Warnings and Precautions", "Warnings and Precautions"),
        ("WARNINGS", "Warnings and Precautions"),
        ("Boxed Warning", "Boxed Warning"),
        ("Undesirable effects", "Adverse Reactions"),
        ("7 DRUG INTERACTIONS", "Drug Interactions"),
        ("8 Use in Specific Populations", "Use in Specific Populations"),
        ("Overdose", "Overdosage"),
        ("11 DESCRIPTION", "Description"),
        ("Clinical Pharmacology", "Clinical Pharmacology"),
        ("Non-clinical toxicology", "Nonclinical Toxicology"),
        ("16 How Supplied/Storage and Handling", "How Supplied/Storage and Handling"),
        ("17 PATIENT COUNSELING INFORMATION", "Patient Counseling Information"),
        ("Dosage of the tablets", None),
        ("Methods", None),
    ],
)
def test_the_sections_of_a_drug_label_have_one_name(heading: str, name: str | None) -> None:
    assert LABELS["drug_label"].part(heading) == name


@pytest.mark.parametrize(
    "text",
    [
        "1 INDICATIONS AND USAGE Ex is for pain. 2 DOSAGE AND ADMINISTRATION One a day. 4 CONTRAINDICATIONS None.",
        "Indications and usage: For pain.\nDosage: One a day.\nContraindications: None.",
        "Indications\n\nFor pain.\n\nDosage and Administration\n\nOne a day.\n\nContraindications\n\nNone.",
        "## 1 Indications\n\nFor pain.\n\n## 2 Dosage\n\nOne a day.\n\n## 4 Contraindications\n\nNone.",
        "**Indications**\n\nFor pain.\n\n**Dosage**\n\nOne a day.\n\n**Contraindications**\n\nNone.",
    ],
    ids=["inline", "signed", "lines", "headings", "bold"],
)
@pytest.mark.parametrize("kind", ["markdown", "catalog"])
def test_a_drug_label_is_cut_at_its_sections(words: Tokenizer, record: Make, text: str, kind: str) -> None:
    expected = ["Indications and Usage", "Dosage and Administration", "Contraindications"]
    markers = Markers("drug_label", LABELS["drug_label"])
    assert sections(words, record(text, kind=kind), markers) == expected


FIGURE = "![cells under the microscope](cells.png)"
BEFORE = "We grew them for a week and a day and counted them again. " * 3


@pytest.mark.parametrize(
    ("blocks", "kept"),
    [
        ([FIGURE, "Figure 3. Cells in a row."], True),
        ([FIGURE, "*Cells in a row.*"], True),
        ([FIGURE, "**Fig. 2:** Cells in a row."], True),
        (["**Figure 1 | Cells in a row.**", FIGURE], True),
        (["Cells can be seen in a row below.", "FIGURE 4: Cells in a row."], True),
        (["<figure><img src='cells.png'></figure>", "Figure S1. Cells in a row."], True),
        ([FIGURE, "Figure 3 shows cells in a row."], False),
        (["Cells can be seen in a row below.", "*Cells in a row.*"], False),
    ],
)
def test_a_caption_stays_with_its_figure(words: Tokenizer, record: Make, blocks: list[str], kept: bool) -> None:
    """Wherever a section has to be cut: the sentences in front of the figure move the places."""
    apart = 0
    for sentences in range(1, 25):
        text = "# A\n\n" + "\n\n".join(["One more word here."] * sentences + [*blocks, BEFORE])
        chunks = [chunk.text for chunk in SectionChunker(words, max_tokens=70).chunk(record(text))]
        apart += not any(all(block in chunk for block in blocks) for chunk in chunks)
    assert (apart == 0) is kept


def test_a_figure_and_a_caption_that_do_not_fit_together_are_cut_apart(words: Tokenizer, record: Make) -> None:
    text = f"# A\n\n{FIGURE}\n\nFigure 3. {BEFORE * 3}"
    assert len(list(SectionChunker(words, max_tokens=70).chunk(record(text)))) > 1
