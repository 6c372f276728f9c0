"""Headings, printed numbers, tables and notes of Word documents."""

import pytest
from sources.formats.docx.word_files import cell, item, level, p, r, read, t, table, text_of, word_file
from sources.formats.layouts import layout_of, levelled

from retrieve_cli.sources.formats.docx.numbering import printed


def style(identifier: str, name: str = "", properties: str = "", *, based: str = "", kind: str = "paragraph") -> str:
    based_on = f'<w:basedOn w:val="{based}"/>' if based else ""
    named = f'<w:name w:val="{name}"/>' if name else ""
    return f'<w:style w:type="{kind}" w:styleId="{identifier}">{named}{based_on}<w:pPr>{properties}</w:pPr></w:style>'


def headed(text: str, identifier: str, inner: str = "") -> str:
    return p(text, f'<w:pStyle w:val="{identifier}"/>', inner=inner)


def lists(*definitions: str, more: str = "") -> str:
    """Numbering part: definitions from 0, each with the instance of the next number."""
    abstract = "".join(
        f'<w:abstractNum w:abstractNumId="{place}">{levels}</w:abstractNum>' for place, levels in enumerate(definitions)
    )
    instances = "".join(
        f'<w:num w:numId="{place + 1}"><w:abstractNumId w:val="{place}"/></w:num>' for place in range(len(definitions))
    )
    return abstract + instances + more


DECIMAL = level(0, "decimal", "%1.") + level(1, "decimal", "%1.%2") + level(2, "lowerRoman", "(%3)")


def test_headings_have_the_outline_level_of_their_style_or_its_ancestors() -> None:
    styles = (
        style("berschrift1", "heading 1")
        + style("X", "Kapitel", '<w:outlineLvl w:val="1"/>')
        + style("Y", based="X")
        + style("Z", based="Y", properties='<w:outlineLvl w:val="9"/>')
        + style("Deep", "heading 9")
    )
    body = headed("A", "berschrift1") + headed("B", "Y") + headed("no", "Z") + headed("C", "Deep")
    direct = p("D", '<w:outlineLvl w:val="2"/>')
    parsed = read(word_file(body + direct, parts={"styles": styles}))
    first, second = [("heading", 1, "A"), ("heading", 2, "B")], [("heading", 6, "C"), ("heading", 3, "D")]
    assert levelled(parsed) == [*first, ("paragraph", 0, "no"), *second]


def test_styles_that_are_based_on_each_other_end() -> None:
    styles = style("A", based="B") + style("B", based="A")
    assert text_of(headed("x", "A"), styles=styles) == "x"


def test_headings_show_their_numbers() -> None:
    numbering = lists(
        level(0, "upperRoman", "%1", more='<w:pStyle w:val="H1"/>')
        + level(1, "decimal", "%1.%2", more='<w:isLgl/><w:pStyle w:val="H2"/>')
    )
    number = '<w:numPr><w:numId w:val="1"/></w:numPr>'
    styles = style("H1", "heading 1", number) + style("H2", "heading 2", number)
    body = headed("Intro", "H1") + headed("Aim", "H2") + headed("Plan", "H2") + headed("End", "H1")
    blocks = levelled(read(word_file(body, parts={"styles": styles, "numbering": numbering})))
    assert [text for _, _, text in blocks] == ["I Intro", "1.1 Aim", "1.2 Plan", "II End"]


def test_list_items_have_printed_numbers_and_indentation() -> None:
    body = item("a", 1) + item("b", 1, 1) + item("c", 1, 2) + item("d", 1, 1) + item("e", 1) + item("f", 1, 1)
    expected = "1. a\n  1.1 b\n    (i) c\n  1.2 d\n2. e\n  2.1 f"
    parsed = read(word_file(body, parts={"numbering": lists(DECIMAL)}))
    assert levelled(parsed) == [("list", 0, expected)]


def test_lists_of_one_definition_continue_unless_they_restart() -> None:
    again = (
        '<w:num w:numId="5"><w:abstractNumId w:val="0"/></w:num><w:num w:numId="6"><w:abstractNumId w:val="0"/>'
        '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="7"/></w:lvlOverride></w:num>'
    )
    body = item("a", 1) + p("x") + item("b", 5) + p("y") + item("c", 6) + item("d", 6)
    assert text_of(body, numbering=lists(DECIMAL, more=again)) == "1. a\n\nx\n\n2. b\n\ny\n\n7. c\n8. d"


def test_a_level_restarts_only_after_the_level_that_it_names() -> None:
    definition = (
        level(0, "decimal", "%1")
        + level(1, "decimal", "%2)", more='<w:lvlRestart w:val="0"/>')
        + level(2, "upperLetter", "%3", more='<w:lvlRestart w:val="1"/>')
    )
    body = "".join(item("x", 1, depth) for depth in (0, 1, 2, 1, 2, 0, 1, 2))
    labels = [line.split()[0] for line in text_of(body, numbering=lists(definition)).splitlines()]
    assert labels == ["1", "1)", "A", "2)", "B", "2", "3)", "A"]


def test_empty_items_are_counted_and_hidden_ones_are_not() -> None:
    hidden = p("", '<w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr><w:rPr><w:vanish/></w:rPr>')
    assert text_of(item("a", 1) + item("", 1) + hidden + item("b", 1), numbering=lists(DECIMAL)) == "1. a\n3. b"


@pytest.mark.parametrize(
    ("number", "form", "expected"),
    [
        (1994, "upperRoman", "MCMXCIV"),
        (8, "lowerRoman", "viii"),
        (28, "lowerLetter", "bb"),
        (7, "decimalZero", "07"),
        (12, "ordinal", "12th"),
        (23, "ordinal", "23rd"),
        (3, "numberInDash", "- 3 -"),
        (5, "chineseCounting", "5"),
        (10**9, "upperLetter", "32767"),
    ],
)
def test_numbers_are_printed_as_word_prints_them(number: int, form: str, expected: str) -> None:
    assert printed(number, form) == expected


def test_merged_cells_have_their_text_once() -> None:
    wide = cell(p("both"), '<w:gridSpan w:val="2"/>')
    tall = cell(p("tall"), '<w:vMerge w:val="restart"/>')
    rest = cell(p(""), "<w:vMerge/>")
    found = text_of(table(wide + cell(p("c")), tall + cell(p("1")) + cell(p("2")), rest + cell(p("3")) + cell(p("4"))))
    assert found == "| both |  | c |\n|---|---|---|\n| tall | 1 | 2 |\n|  | 3 | 4 |"


def test_cells_hold_paragraphs_lists_and_inner_tables_in_one_line() -> None:
    inner = table(cell(p("x | y")) + cell(p("z")))
    found = text_of(table(cell(p("a") + p("b") + inner) + cell(item("i", 1) + item("j", 1))), numbering=lists(DECIMAL))
    assert found == "| a b x \\| y z | 1. i 2. j |\n|---|---|"


def note(kind: str, number: int, text: str) -> str:
    mark = r(f"<w:{kind}Ref/>")
    return f'<w:{kind} w:id="{number}">{p("", inner=mark + r(t(text)))}</w:{kind}>'


def reference(kind: str, number: int) -> str:
    return r(f'<w:{kind}Reference w:id="{number}"/>')


def test_notes_follow_their_paragraph_with_printed_numbers() -> None:
    parts = {
        "footnotes": note("footnote", 5, " First note.") + note("footnote", 2, " Second."),
        "endnotes": note("endnote", 1, "At the end."),
    }
    body = p("One", inner=reference("footnote", 5) + r(t(" and")) + reference("endnote", 1)) + p(
        "Two", inner=reference("footnote", 2)
    )
    found = read(word_file(body, parts=parts)).text
    assert found == "One[1] and[i]\n\n[1] First note.\n\n[i] At the end.\n\nTwo[2]\n\n[2] Second."


@pytest.mark.parametrize(
    ("names", "anchor"),
    [(("_Toc12", "methods", "_GoBack"), "methods"), (("_GoBack", "_Toc12"), "_Toc12"), (("_GoBack",), ""), ((), "")],
)
def test_bookmarks_of_a_heading_are_its_anchor(names: tuple[str, ...], anchor: str) -> None:
    marks = "".join(f'<w:bookmarkStart w:id="{place}" w:name="{name}"/>' for place, name in enumerate(names))
    parsed = read(word_file(p("A", '<w:outlineLvl w:val="0"/>', inner=marks)))
    assert layout_of(parsed).blocks[0].anchor == anchor
