"""Pages of Word documents: only those that the file itself notes."""

from sources.formats.docx.word_files import cell, p, r, read, t, table, word_file
from sources.formats.layouts import layout_of

from retrieve_cli.contracts.layout import DocumentPage

RENDERED = "<w:lastRenderedPageBreak/>"
BREAK = '<w:br w:type="page"/>'


def section(inner: str = "", kind: str = "") -> str:
    begins = f'<w:type w:val="{kind}"/>' if kind else ""
    return f"<w:sectPr>{begins}{inner}</w:sectPr>"


def pages(body: str) -> list[tuple[str, str]]:
    """Label and text of each page."""
    parsed = read(word_file(body))
    return [(page.label, parsed.text[page.start : page.end].strip()) for page in layout_of(parsed).pages]


def test_a_file_without_noted_pages_has_none() -> None:
    parsed = read(word_file(p("a", inner=r(BREAK)) + p("b") + section()))
    assert layout_of(parsed).pages == ()
    assert parsed.metadata == {}


def test_noted_pages_are_pages_as_last_saved() -> None:
    size = '<w:pgSz w:w="11900" w:h="16840"/>'
    parsed = read(word_file(p("one") + p("", inner=r(RENDERED + t("two"))) + section(size)))
    assert parsed.text == "one\n\ntwo"
    assert layout_of(parsed).pages == (DocumentPage(1, "", 595.0, 842.0, 0, 5), DocumentPage(2, "", 595.0, 842.0, 5, 8))
    assert parsed.metadata == {"pages": 2, "pages_as": "as last saved"}
    assert layout_of(parsed).place(5, 8).page == 2


def test_labels_follow_the_numbers_of_sections() -> None:
    roman = p("", section('<w:pgNumType w:fmt="lowerRoman"/>'))
    body = p("i") + p("", inner=r(RENDERED + t("ii"))) + roman + p("", inner=r(RENDERED + t("one")))
    body += p("", inner=r(RENDERED + t("two"))) + section('<w:pgNumType w:start="1"/>')
    assert pages(body) == [("i", "i"), ("ii", "ii"), ("1", "one"), ("2", "two")]


def test_cells_of_a_row_share_the_end_of_a_page() -> None:
    both = "".join(cell(p(name, inner=r(RENDERED + t(" rest")))) for name in "ab")
    found = pages(p("x") + table(both, cell(p("c")) + cell(p("d"))) + p("", inner=r(RENDERED + t("end"))))
    assert len(found) == 3
    assert found[1][1].endswith("| c | d |")
