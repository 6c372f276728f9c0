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


def test_a_page_may_end_within_a_paragraph() -> None:
    assert [text for _, text in pages(p("a b", inner=r(RENDERED + t(" c d"))))] == ["a b", "c d"]


def test_an_explicit_break_and_its_note_are_one_end() -> None:
    body = p("one", inner=r(BREAK)) + p("", inner=r(RENDERED + t("two"))) + p("three", inner=r(RENDERED + t("four")))
    assert [text for _, text in pages(body)] == ["one", "two\n\nthree", "four"]


def test_an_empty_page_between_breaks_is_a_page() -> None:
    body = p("one", inner=r(BREAK)) + p("", inner=r(RENDERED + BREAK)) + p("", inner=r(RENDERED + t("three")))
    assert [text for _, text in pages(body)] == ["one", "", "three"]


def test_a_paragraph_that_begins_a_page_ends_one_once() -> None:
    before = "<w:pageBreakBefore/>"
    body = p("title", before) + p("two", before, inner=r(t(" x"))) + p("", before, inner=r(RENDERED + t("three")))
    assert [text for _, text in pages(body)] == ["title", "two x", "three"]


def test_labels_follow_the_numbers_of_sections() -> None:
    roman = p("", section('<w:pgNumType w:fmt="lowerRoman"/>'))
    body = p("i") + p("", inner=r(RENDERED + t("ii"))) + roman + p("", inner=r(RENDERED + t("one")))
    body += p("", inner=r(RENDERED + t("two"))) + section('<w:pgNumType w:start="1"/>')
    assert pages(body) == [("i", "i"), ("ii", "ii"), ("1", "one"), ("2", "two")]


def test_a_continuous_section_does_not_end_a_page() -> None:
    body = p("a") + p("", section()) + p("b") + p("", inner=r(RENDERED + t("c"))) + section(kind="continuous")
    assert [text for _, text in pages(body)] == ["a\n\nb", "c"]


def test_a_section_on_an_odd_page_skips_a_number() -> None:
    body = p("a") + p("", inner=r(RENDERED + t("b"))) + p("", section('<w:pgNumType w:start="2"/>'))
    body += p("", inner=r(RENDERED + t("c"))) + section(kind="oddPage")
    assert [label for label, _ in pages(body)] == ["2", "3", "5"]


def test_cells_of_a_row_share_the_end_of_a_page() -> None:
    both = "".join(cell(p(name, inner=r(RENDERED + t(" rest")))) for name in "ab")
    found = pages(p("x") + table(both, cell(p("c")) + cell(p("d"))) + p("", inner=r(RENDERED + t("end"))))
    assert len(found) == 3
    assert found[1][1].endswith("| c | d |")


def test_text_boxes_and_notes_have_no_pages_of_their_own() -> None:
    inner = f"<w:txbxContent>{p('', inner=r(RENDERED + t('box')))}</w:txbxContent>"
    box = f"<w:pict><v:textbox>{inner}</v:textbox></w:pict>"
    assert len(pages(p("a", inner=r(box)) + p("", inner=r(RENDERED + t("b"))))) == 2
