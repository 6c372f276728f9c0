"""Text of Word documents, in the order and with the marks that Word shows."""

import io

import docx
import pytest
from sources.formats.docx.word_files import W, archive, cell, members_of, p, r, read, t, table, text_of, word_file
from sources.formats.layouts import layout_of, levelled

BOX = "<w:txbxContent>{}</w:txbxContent>"
SHAPE = f"<wps:wsp><wps:txbx>{BOX}</wps:txbx></wps:wsp>"
GRAPHIC = f"<a:graphic><a:graphicData>{SHAPE}</a:graphicData></a:graphic>"
DRAWN = f"<w:drawing><wp:anchor>{GRAPHIC}</wp:anchor></w:drawing>"
VML = f"<w:pict><v:shape><v:textbox>{BOX}</v:textbox></v:shape></w:pict>"
FIELD = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>'


def either(choice: str, fallback: str) -> str:
    branches = f"<mc:Choice Requires='wps'>{choice}</mc:Choice><mc:Fallback>{fallback}</mc:Fallback>"
    return f"<mc:AlternateContent>{branches}</mc:AlternateContent>"


def field(code: str, result: str) -> str:
    begin, middle, end = (FIELD.format(kind) for kind in ("begin", "separate", "end"))
    return f"{begin}<w:r><w:instrText>{code}</w:instrText></w:r>{middle}{r(t(result))}{end}"


def test_a_document_of_another_library_is_read_in_its_order() -> None:
    document = docx.Document()
    document.add_heading("Methods", 1)
    document.add_paragraph("We measured mice.")
    document.add_paragraph("first", style="List Bullet")
    document.add_paragraph("inner", style="List Bullet")
    rows = document.add_table(2, 2).rows
    for row, words in zip(rows, (("dose", "effect"), ("1 mg", "none")), strict=True):
        for place, word in zip(row.cells, words, strict=True):
            place.text = word
    document.add_heading("Results", 2)
    document.add_paragraph("Mice slept.").add_run(" Long.").bold = True
    stream = io.BytesIO()
    document.save(stream)
    parsed = read(stream.getvalue())
    assert levelled(parsed) == [
        ("heading", 1, "Methods"),
        ("paragraph", 0, "We measured mice."),
        ("list", 0, "- first\n- inner"),
        ("table", 0, "| dose | effect |\n|---|---|\n| 1 mg | none |"),
        ("heading", 2, "Results"),
        ("paragraph", 0, "Mice slept. Long."),
    ]
    words = []
    for part in docx.Document(io.BytesIO(stream.getvalue())).iter_inner_content():
        cells = [each.text for row in part.rows for each in row.cells] if hasattr(part, "rows") else [part.text]
        words += " ".join(cells).split()
    assert [word for word in parsed.text.split() if word not in ("-", "|", "|---|---|")] == words


def test_blocks_are_in_order_with_a_blank_line_between_them() -> None:
    parsed = read(word_file(p("a") + table(cell(p("b")) + cell(p("c"))) + p("d")))
    ends = [0]
    for block in layout_of(parsed).blocks:
        assert block.start == 0 or parsed.text[ends[-1] : block.start] == "\n\n"
        ends.append(block.end)
    assert ends[-1] == len(parsed.text)


def test_insertions_are_kept_and_deletions_dropped() -> None:
    moved = f"<w:moveFrom>{r(t('gone'))}</w:moveFrom><w:moveTo>{r(t(' here'))}</w:moveTo>"
    deleted = "<w:del><w:r><w:delText>old</w:delText></w:r></w:del>"
    assert text_of(p("kept", inner=f"{deleted}<w:ins>{r(t(' new'))}</w:ins>{moved}")) == "kept new here"


def test_deleted_rows_are_dropped() -> None:
    gone = f"<w:trPr><w:del/></w:trPr>{cell(p('x'))}{cell(p('y'))}"
    assert "x" not in text_of(table(cell(p("a")) + cell(p("b")), gone, cell(p("c")) + cell(p("d"))))


def test_hidden_text_is_dropped_by_run_and_by_styles() -> None:
    styles = (
        '<w:style w:type="character" w:styleId="H"><w:rPr><w:vanish/></w:rPr></w:style>'
        '<w:style w:type="paragraph" w:styleId="P"><w:rPr><w:vanish/></w:rPr></w:style>'
    )
    by_run = r(t("a"), "<w:vanish/>") + r(t("b"), '<w:vanish w:val="0"/>') + r(t("c"), '<w:rStyle w:val="H"/>')
    assert text_of(p("seen ", inner=by_run), styles=styles) == "seen b"
    shown = r(t("shown"), '<w:vanish w:val="false"/>') + r(t("both"), '<w:rStyle w:val="H"/>')
    assert text_of(p("x", '<w:pStyle w:val="P"/>', inner=shown), styles=styles) == "shownboth"


def test_results_of_fields_are_kept_and_instructions_dropped() -> None:
    nested = FIELD.format("begin") + field("PAGE", "7") + FIELD.format("separate") + r(t("yes")) + FIELD.format("end")
    simple = f'<w:fldSimple w:instr=" REF x ">{r(t(" ref"))}</w:fldSimple>'
    assert text_of(p("see ", inner=field(" HYPERLINK x ", "the site") + simple)) == "see the site ref"
    assert text_of(p(inner=nested)) == "yes"


def test_the_result_of_a_field_may_go_on_over_paragraphs() -> None:
    begun = FIELD.format("begin") + "<w:r><w:instrText>X</w:instrText></w:r>" + FIELD.format("separate") + r(t("one"))
    assert text_of(p(inner=begun) + p("two", inner=FIELD.format("end"))) == "one\n\ntwo"


def test_links_controls_and_smart_tags_keep_their_text() -> None:
    control = f"<w:sdt><w:sdtPr/><w:sdtContent>{r(t('b'))}</w:sdtContent></w:sdt>"
    prompt = f"<w:sdt><w:sdtPr><w:showingPlcHdr/></w:sdtPr><w:sdtContent>{r(t('Click'))}</w:sdtContent></w:sdt>"
    link = f"<w:hyperlink>{r(t('a'))}</w:hyperlink>"
    assert text_of(p(inner=link + control + prompt + f"<w:smartTag>{r(t('c'))}</w:smartTag>")) == "abc"
    assert text_of(f"<w:sdt><w:sdtContent>{p('block')}</w:sdtContent></w:sdt>") == "block"


def test_symbols_are_characters_of_their_font() -> None:
    signs = '<w:sym w:font="Symbol" w:char="F061"/><w:sym w:font="Wingdings" w:char="F0FC"/>'
    private = r(t("\uf0b3"), '<w:rFonts w:ascii="Symbol"/>')
    assert text_of(p(inner=r(signs) + private)) == "α✓≥"
    assert text_of(p("a", inner=r('<w:sym w:font="Other" w:char="F0FC"/><w:sym w:font="x" w:char="zz"/>'))) == "a"


def test_equations_are_one_line() -> None:
    half = "<m:f><m:num><m:r><m:t>a+b</m:t></m:r></m:num><m:den><m:r><m:t>2</m:t></m:r></m:den></m:f>"
    root = "<m:rad><m:radPr/><m:deg/><m:e><m:r><m:t>x</m:t></m:r></m:e></m:rad>"
    power = "<m:sSup><m:e><m:r><m:t>y</m:t></m:r></m:e><m:sup><m:r><m:t>2</m:t></m:r></m:sup></m:sSup>"
    assert text_of(p("so ", inner=f"<m:oMath>{half}{root}{power}</m:oMath>")) == "so (a+b)/2√(x)y^2"


def test_right_to_left_text_is_in_logical_order() -> None:
    words = r(t("שלום "), "<w:rtl/>") + f"<w:bdo w:val='rtl'>{r(t('עולם'))}</w:bdo>"
    assert text_of(p("", "<w:bidi/>", inner=words)) == "שלום עולם"


def test_comments_headers_and_footers_are_dropped() -> None:
    body = p("text", inner=r('<w:commentReference w:id="1"/>'))
    parts = {"comments": f'<w:comment w:id="1">{p("remark")}</w:comment>', "header1": p("head"), "footer1": p("foot")}
    assert read(word_file(body, parts=parts)).text == "text"


@pytest.mark.parametrize(
    "box", [DRAWN, VML, either(DRAWN, VML), either("<w:new/>", VML)], ids=["drawn", "vml", "either", "newer"]
)
def test_a_text_box_follows_its_paragraph_once(box: str) -> None:
    content = p("in the box") + p("twice")
    body = p("before", inner=r(box.replace("{}", content))) + p("after")
    assert text_of(body) == "before\n\nin the box\n\ntwice\n\nafter"


def test_captions_are_known_by_their_style_or_their_counter() -> None:
    styles = (
        '<w:style w:type="paragraph" w:styleId="Beschriftung"><w:name w:val="caption"/></w:style>'
        '<w:style w:type="paragraph" w:styleId="Own"><w:basedOn w:val="Beschriftung"/></w:style>'
    )
    body = p("Abb. 1", '<w:pStyle w:val="Own"/>') + p("Table ", inner=field("SEQ Table", "2") + r(t(": Doses")))
    counted = p("E = m + ", inner=field("SEQ Equation", "1"))
    kinds = [kind for kind, _, _ in levelled(read(word_file(body + counted, parts={"styles": styles})))]
    assert kinds == ["caption", "caption", "paragraph"]


def test_code_keeps_its_lines_and_indentation() -> None:
    styles = '<w:style w:type="paragraph" w:styleId="C"><w:name w:val="HTML Preformatted"/></w:style>'
    code = "".join(p(line, '<w:pStyle w:val="C"/>') for line in ("if x:", "    y()", "", "z()"))
    parsed = read(word_file(p("text") + code, parts={"styles": styles}))
    assert levelled(parsed)[1] == ("code", 0, "if x:\n    y()\n\nz()")


def test_the_table_of_contents_is_one_block() -> None:
    styles = '<w:style w:type="paragraph" w:styleId="Inhalt"><w:name w:val="toc 1"/></w:style>'
    lines = "".join(p(line, '<w:pStyle w:val="Inhalt"/>') for line in ("Intro 1", "End 9"))
    assert [block[2] for block in levelled(read(word_file(lines, parts={"styles": styles})))] == ["Intro 1\nEnd 9"]


def test_the_strict_form_of_the_format_is_read() -> None:
    main = W.encode(), b"http://purl.oclc.org/ooxml/wordprocessingml/main"
    office = b"openxmlformats.org/officeDocument/2006", b"purl.oclc.org/ooxml"
    members = members_of(word_file(p("strict"), parts={"styles": ""}))
    strict = {name: content.replace(*main).replace(*office) for name, content in members.items()}
    assert read(archive(strict)).text == "strict"


def test_metadata_are_the_core_properties() -> None:
    core = (
        "<dc:title>Mice</dc:title><dc:creator>A. Author</dc:creator><cp:keywords>mouse; sleep, rest</cp:keywords>"
        "<dc:subject>On sleep</dc:subject><dc:language>en-GB</dc:language>"
        "<dcterms:created>2024-01-02T03:04:05Z</dcterms:created>"
    )
    titles = {"title": "Mice", "author": "A. Author", "description": "On sleep", "keywords": ["mouse", "sleep", "rest"]}
    others = {"created": "2024-01-02T03:04:05Z", "language": "en-GB"}
    assert read(word_file(p("x"), core=core)).metadata == {**titles, **others}
