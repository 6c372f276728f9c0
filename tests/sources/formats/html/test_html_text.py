"""Text, structure and metadata of HTML pages, made here."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st
from sources.formats import layouts
from sources.formats.layouts import layout_of

from retrieve_cli.contracts import Parsed
from retrieve_cli.errors import BadDocument
from retrieve_cli.sources.formats.formats import ParsingLimits, format_of, looks_like_html
from retrieve_cli.sources.formats.html.html_reading import parse as parse_html

pytest.importorskip("selectolax")


def parse(page: str | bytes, *, main: bool = True, name: str = "page.html") -> Parsed:
    content = page.encode() if isinstance(page, str) else page
    limits = ParsingLimits(main_content=main)
    return parse_html(content, name=name, limits=limits, on_page=lambda page: None)


def blocks(page: str) -> list[tuple[str, str]]:
    """Kind and text of each block."""
    return layouts.blocks(parse(page))


def headings(page: str) -> list[tuple[int, str, str]]:
    """Level, anchor and text of each heading."""
    parsed = parse(page)
    chosen = [block for block in layout_of(parsed).blocks if block.kind == "heading"]
    return [(block.level, block.anchor, parsed.text[block.start : block.end]) for block in chosen]


def test_headings_have_the_anchors_that_links_use() -> None:
    page = """<h1 id=top>Top</h1><a name="old"></a><h2>By name</h2><section id="sec"><h2>By section</h2></section>
    <h3>Inner <a id="in"></a></h3><p id="p">text</p><h3>None</h3>
    <section id="s2"><span id="index-0"></span><h2>Marked<a class="headerlink" href="#s2">¶</a></h2></section>"""
    assert headings(page) == [
        (1, "top", "Top"), (2, "old", "By name"), (2, "sec", "By section"), (3, "in", "Inner"), (3, "", "None"),
        (2, "s2", "Marked"),
    ]  # fmt: skip


def test_lists_are_lines_with_marks_and_numbers() -> None:
    page = "<ol start=3><li>a<ul><li>b<p>more<li>c</ul><li value=9>d</ol><dl><dt>--flag<dt>-f<dd>What it does.</dl>"
    items = "3. a\n  - b\n    more\n  - c\n9. d"
    assert blocks(page) == [("list", items), ("paragraph", "--flag\n-f\nWhat it does.")]


def test_code_keeps_its_lines_and_divides_a_list() -> None:
    page = "<ol><li>Run<pre>\n  a  b\n\nc<br>d\n</pre>then<li>stop</ol>"
    assert blocks(page) == [("list", "1. Run"), ("code", "  a  b\n\nc\nd"), ("paragraph", "then"), ("list", "2. stop")]


def test_a_table_of_data_is_a_pipe_table() -> None:
    page = """<table><caption>Sizes</caption><tr><th>a|b<th>c</tr><tr><td rowspan=2>1<br>2<td>x<tr><td>y</tr>
    <tr><td colspan=2>wide</tr></table>"""
    table = "| a\\|b | c |\n|---|---|\n| 1 2 | x |\n| 1 2 | y |\n| wide | wide |"
    assert blocks(page) == [("caption", "Sizes"), ("table", table)]


def test_a_table_that_lays_out_the_page_is_read_cell_by_cell() -> None:
    page = "<table><tr><td><h1>T</h1><p>one</td><td><table><tr><th>a<th>b<tr><td>1<td>2</table></td></tr></table>"
    assert [kind for kind, _ in blocks(page)] == ["heading", "paragraph", "table"]


def test_line_numbers_beside_code_are_skipped() -> None:
    page = "<table><tr><td class=linenos><pre>1\n2\n3</pre></td><td><pre>x\ny\nz</pre></td></tr></table>"
    assert blocks(page) == [("code", "x\ny\nz")]


def test_only_images_in_figures_have_text() -> None:
    page = "<p>a<img alt=icon> b</p><figure><img alt='A lung'><figcaption>Figure 1. Lung</figcaption></figure>"
    assert blocks(page) == [("paragraph", "a b"), ("caption", "A lung"), ("caption", "Figure 1. Lung")]


def test_space_is_collapsed_and_line_breaks_are_kept() -> None:
    page = "<p>a\n  <b>b</b>c&nbsp;d<br>e&shy;f<br><br>g</p>note<sup><a href='#n'>3</a></sup>"
    assert blocks(page) == [("paragraph", "a bc d\nef"), ("paragraph", "g"), ("paragraph", "note [3]")]


def test_hidden_parts_scripts_and_controls_are_skipped() -> None:
    page = """<p>seen<span hidden>x</span><span style="display: none">x</span><span aria-hidden=true>x</span></p>
    <script>x</script><style>x</style><template><p>x</template><svg><text>x</text></svg><button>x</button>
    <details><summary>open</summary>inner</details>"""
    assert "x" not in parse(page).text.split()
    assert "inner" in parse(page).text


BODY = "<h1>Lungs</h1><p>" + "The lung is an organ of breathing. " * 5 + "</p>"


def test_the_main_element_is_taken_at_its_word() -> None:
    page = f"<header><h1>Site</h1></header><nav><a href=/>Home</a></nav><main>{BODY}<nav>in</nav></main><p>after</p>"
    assert parse(page).text.startswith("Lungs\n")
    assert not {"Site", "Home", "in", "after"} & set(parse(page).text.split())
    assert {"Site", "Home", "in", "after"} <= set(parse(page, main=False).text.split())


def test_navigation_is_removed_by_element_role_and_name() -> None:
    page = f"""<header><a href=/>Home</a></header><div role=navigation>menu</div>
    <div class="sideBar-nav"><a href=a>one</a> <a href=b>two</a></div>{BODY}
    <div id="cookie-consent">We use cookies <button>OK</button></div><footer>Copyright</footer>"""
    assert parse(page).text.split("\n")[0] == "Lungs"
    assert not {"Home", "menu", "one", "cookies", "Copyright"} & set(parse(page).text.split())


def test_a_header_with_the_title_and_a_part_without_links_stay() -> None:
    page = f"<header><h1>Title</h1><p>By Ada</p></header><div class=nav-notes>No links here at all</div>{BODY}"
    assert parse(page).text.startswith("Title\n\nBy Ada\n\nNo links here")


def test_a_page_without_marks_keeps_all_of_its_text() -> None:
    links = "<ul><li><a href=a>First chapter</a></ul><table><tr><th>Tool<th>At<tr><td><a href=b>e</a><td>f</table>"
    assert len(blocks(f"<p>One paragraph of text.</p>{links}<p><a href=c>Download</a></p>")) == 4


def test_a_page_of_links_alone_is_kept_whole_and_said() -> None:
    parsed = parse("<nav><ul><li><a href=a>First chapter</a><li><a href=b>Second chapter</a></ul></nav>")
    assert "Second chapter" in parsed.text
    assert any("main part would be empty" in notice for notice in parsed.notices)


def test_metadata_is_read_and_bounded() -> None:
    page = """<html lang=de-CH><head><title>Lungen | Klinik</title><meta name=description content=" Über\nLungen ">
    <meta property=og:site_name content=Klinik><link rel=canonical href="https://example.org/lungs?x=1">
    <meta property=article:published_time content="2024-03-05T10:00:00+01:00"><meta name=author content="Ada Muster">
    <meta name=keywords content="lung, CT,lung"></head><body><p>Text</p></body></html>"""
    assert parse(page).metadata == {
        "title": "Lungen", "description": "Über Lungen", "url": "https://example.org/lungs?x=1", "language": "de-CH",
        "created": "2024-03-05T10:00:00+01:00", "author": "Ada Muster", "keywords": ["lung", "CT"],
    }  # fmt: skip
    bad = "<link rel=canonical href='javascript:alert(1)'><meta name=date content=soon><html lang='x y'><p>Text"
    assert parse(bad).metadata == {}
    assert parse("<title>t | s</title><h1>Real</h1><p>x").metadata["title"] == "Real"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("<p>Zürich".encode(), "Zürich"),
        (b"\xef\xbb\xbf<meta charset=latin1><p>" + "ü".encode(), "ü"),
        ("<p>ü".encode("utf-16"), "ü"),
        (b"<meta charset='iso-8859-1'><p>\x93x\x94", "“x”"),
        (
            "<meta http-equiv=content-type content='text/html; charset=windows-1251'><p>Привет".encode("cp1251"),
            "Привет",
        ),
        ("<?xml version='1.0' encoding='shift_jis'?><p>肺".encode("cp932"), "肺"),
        (b"<p>caf\xe9", "café"),
        (b"<!-- <meta charset=koi8-r> --><p>" + "ü".encode(), "ü"),
    ],
)
def test_the_character_set_is_found(content: bytes, expected: str) -> None:
    assert parse(content).text == expected


def test_bad_bytes_are_said() -> None:
    assert parse(b"<p>caf\xe9").notices
    assert "position 24" in parse(b"<meta charset=utf-8><p>a\xff").notices[0]


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        ("<html><body></body></html>", "no text"),
        ("<frameset><frame src=a></frameset>", "frames"),
        ("<div id=root></div><script src=app.js></script>", "scripts"),
        ("<body><noscript>Enable JavaScript</noscript><p>Loading</p><script>x</script>", "scripts"),
        ("<meta http-equiv=refresh content='0; url=new.html'><p>Moved</p>", "new.html"),
        ("<div>" * 200_000, "nested"),
        ("<ul><li>" * 100_000, "nested"),
        ("<div></b>" * 100_000, "nested"),
        ("".join(f"<p><b a={n}>x" for n in range(20_000)), "nested"),
        ("<p " + " ".join(f"a{n}=1" for n in range(50_000)) + ">x", "attributes"),
    ],
)
def test_a_page_that_cannot_be_read_says_why(page: str, reason: str) -> None:
    with pytest.raises(BadDocument, match=reason):
        parse(page)


def test_spans_and_ragged_rows_do_not_multiply_a_table() -> None:
    spans = "<table>" + "<tr><td colspan=1000000 rowspan=65534>x<td>y" * 500
    ragged = "<table><tr>" + "<th>x" * 900 + "<tr><td>y" * 5000
    assert len(parse(spans).text) < 100_000
    assert len(parse(ragged).text) < 100_000


@pytest.mark.parametrize("page", ["<p>x<td>y</p>" * 20_000, "<li>x" * 20_000, "x<br>" * 20_000])
def test_repetition_without_nesting_is_read(page: str) -> None:
    assert "x" in parse(page).text


@pytest.mark.parametrize(
    ("head", "html"),
    [
        (b"<!DOCTYPE html>", True),
        (b"\xef\xbb\xbf \n<!-- a --><HTML lang=en>", True),
        (b"<?xml version='1.0'?>\n<html xmlns='x'>", True),
        (b"<?xml version='1.0'?><feed>", False),
        (b"<head>", True),
        (b"<header", False),
        (b"\0a < b", False),
        (b"", False),
    ],
)
def test_html_is_recognised_by_its_beginning(head: bytes, html: bool) -> None:
    assert looks_like_html(head) is html
    assert format_of("page", head) == ("html" if html else None)


KINDS = ("p", "h2", "ul", "ol", "pre", "div", "table", "dl", "blockquote", "text", "inline")
INLINE = ("span", "b", "a href=x", "em", "code")


@st.composite
def pages(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A page of random elements, with its words in order: each is unique."""
    words: list[str] = []

    def text() -> str:
        fresh = [f"w{len(words) + n}" for n in range(draw(st.integers(1, 4)))]
        words.extend(fresh)
        return " ".join(fresh)

    def inner(depth: int) -> str:
        parts = []
        for _ in range(draw(st.integers(1, 3))):
            kind = draw(st.sampled_from(KINDS))
            if kind in ("div", "blockquote") and depth < 4:
                parts.append(f"<{kind}>{inner(depth + 1)}</{kind}>")
            elif kind in ("ul", "ol"):
                count = draw(st.integers(1, 3))
                items = "".join(f"<li>{inner(depth + 1) if depth < 3 else text()}" for _ in range(count))
                parts.append(f"<{kind}>{items}</{kind}>")
            elif kind == "table":
                rows = "".join(f"<tr><td>{text()}<td>{text()}" for _ in range(draw(st.integers(1, 3))))
                parts.append(f"<table>{rows}</table>")
            elif kind == "dl":
                parts.append(f"<dl><dt>{text()}<dd>{text()}</dl>")
            elif kind in ("p", "h2", "pre"):
                parts.append(f"<{kind}>{text()}</{kind}>")
            else:
                tag = draw(st.sampled_from(INLINE))
                parts.append(f" <{tag}>{text()}</{tag.split()[0]}> ")
        return "\n".join(parts)

    return inner(0), words


@settings(max_examples=80, deadline=None)
@given(pages())
def test_every_visible_word_is_there_once_and_in_order(page: tuple[str, list[str]]) -> None:
    parsed = parse(page[0], main=False)
    assert [word for word in parsed.text.replace("|", " ").split() if word[0] == "w"] == page[1]


@settings(max_examples=80, deadline=None)
@given(st.one_of(pages().map(lambda page: page[0]), st.text("<>/abp =\"'-!tdrulih1\n&;", max_size=300)))
def test_blocks_are_ordered_and_cover_the_text(page: str) -> None:
    try:
        parsed = parse(page)
    except BadDocument:
        return
    end = -2
    for block in layout_of(parsed).blocks:
        assert block.start == end + 2
        assert block.end > block.start
        assert parsed.text[block.start : block.end].strip()
        end = block.end
    assert end == len(parsed.text)
    assert parse(page) == parsed
