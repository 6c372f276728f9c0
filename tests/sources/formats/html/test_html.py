"""Text, structure and metadata of HTML pages."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings, strategies as st
from sources.formats import layouts
from sources.formats.layouts import layout_of

from retrieve_cli.contracts import Parsed
from retrieve_cli.errors import BadDocument
from retrieve_cli.sources.formats.formats import ParsingLimits

pytest.importorskip("selectolax")


def parse(page: str | bytes, *, main: bool = True) -> Parsed:
    content = page.encode() if isinstance(page, str) else page
    return layouts.read("html", content, ParsingLimits(main_content=main))


BLOCKS = {
    "paragraph": "<p>{} <b>{}</b> {}</p>", "heading": "<h2>{} {} {}</h2>", "list": "<ul><li>{}<li>{}<li>{}</ul>",
    "links": "<p><a href=a>{}</a>, <a href=b>{}</a> <a href=c>{}</a></p>", "link": "<p><a href=a>{} {} {}</a></p>",
    "list of links": "<ol><li><a href=a>{}</a><li><a href=b>{}</a><li><a href=c>{}</a></ol>",
    "table of links": "<table><tr><th>{}<th>{}<tr><td><a href=a>{}</a><td></table>", "code": "<pre>{}\n{}\n{}</pre>",
    "terms": "<dl><dt>{}<dt>{}<dd>{}</dl>", "quote": "<blockquote><p>{}<p>{} {}</blockquote>",
    "panel": "<div role=tabpanel hidden><p>{} {} {}</div>", "details": "<details><summary>{}</summary>{} {}</details>",
    "accordion": "<h3><button aria-controls=x>{}</button></h3><div id=x aria-hidden=true>{} {}</div>",
    "layout": "<table><tr><td><h3>{}</h3><p>{}<td>{}</table>", "aside": "<aside><p>{} {} {}</aside>",
    "figure": "<figure><img alt='{}'><figcaption>{} {}</figcaption></figure>", "bare": "<div>{} <i>{}</i></div>{}",
}  # fmt: skip
CONTAINERS = ("{}", "<main>{}</main>", "<div role=main>{}</div>", "<div><section>{}</section></div>")
BESIDE = (
    "<nav>{}</nav>", "<div role=navigation><a href=a>{}</a></div>",
    "<footer>{}</footer>", "<p hidden>{}</p>", "<p style='display: none'>{}</p>", "<button>{}</button>", "",
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(sorted(BLOCKS)), min_size=1, max_size=6),
    st.sampled_from(CONTAINERS),
    st.lists(st.sampled_from(BESIDE), max_size=3),
)
def test_every_block_of_the_main_part_is_kept_and_all_that_is_beside_it_is_counted(
    kinds: list[str], container: str, beside: list[str]
) -> None:
    words = [f"w{number}" for number in range(3 * len(kinds))]
    body = "\n".join(BLOCKS[kind].format(*words[3 * n : 3 * n + 3]) for n, kind in enumerate(kinds))
    before = "".join(part.format(f"x{number}") for number, part in enumerate(beside))
    parsed = parse(f"<html><body>{before}{container.format(body)}</body></html>")
    assert re.findall(r"w\d+", parsed.text) == words
    skipped = [f"x{number}" for number, part in enumerate(beside) if part]
    assert re.findall(r"x\d+", parsed.text) == []
    assert sorted(" ".join(dropped.text for dropped in parsed.dropped).split()) == skipped


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<ol start=3><li>a<ul><li>b<p>more<li>c</ul><li value=9>d</ol>",
         [("list", "3. a\n  - b\n    more\n  - c\n9. d")]),
        ("<dl><dt>--flag</dt> <dt>-f</dt>\n<dd><p>What it does.</dl>", [("paragraph", "--flag\n-f\nWhat it does.")]),
        ("<ol><li>Run<pre>\n  a  b\n\nc<br>d\n</pre>then<li>stop</ol>",
         [("list", "1. Run"), ("code", "  a  b\n\nc\nd"), ("paragraph", "then"), ("list", "2. stop")]),
        ("<pre><div>a</div><div>b</div>\n<p>c</p>d</pre>", [("code", "a\nb\nc\nd")]),
        ("<table><caption>Sizes</caption><tr><th>a|b<th>c<tr><td rowspan=2>1<br>2<td>x<tr><td>y<tr><td colspan=2>wide",
         [("caption", "Sizes"), ("table", "| a\\|b | c |\n|---|---|\n| 1 2 | x |\n| 1 2 | y |\n| wide | wide |")]),
        ("<table><tr><td>1<td>2<tr><td>3<td><table><tr><td>4</table></table>",
         [("table", "|  |  |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |")]),
        ("<table><tr><td><h1>T</h1><p>one<td><table><tr><th>a<th>b<tr><td>1<td>2</table></table>",
         [("heading", "T"), ("paragraph", "one"), ("table", "| a | b |\n|---|---|\n| 1 | 2 |")]),
        ("<p>a<img alt=icon> b</p><figure><img alt='A lung'><figcaption>Figure 1</figcaption></figure>",
         [("paragraph", "a b"), ("caption", "A lung"), ("caption", "Figure 1")]),
        ("<p>a\n  <b>b</b>c&nbsp;d<br>e&shy;f<br><br>g</p>", [("paragraph", "a bc d\nef"), ("paragraph", "g")]),
        ("<blockquote>said</blockquote><math alttext='x^2'><mi>x</mi></math>",
         [("quote", "said"), ("paragraph", "x^2")]),
    ],
)  # fmt: skip
def test_blocks_have_their_kinds_and_texts(page: str, expected: list[tuple[str, str]]) -> None:
    assert layouts.blocks(parse(page)) == expected


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("10<sup>3</sup> m<sup>2</sup>", "10^3 m^2"),
        ("10<sup>-3</sup>", "10^-3"),
        ("word<sup>1</sup>, the 1<sup>st</sup>", "word^1, the 1st"),
        ("note<sup><a href='#n'>3</a></sup>", "note [3]"),
        ("note<a href='#n'><sup>[3]</sup></a>", "note [3]"),
        ("<b>H</b><sub>2</sub>O, V<sub>max</sub>", "H2O, V_max"),
        ("a <sup>1</sup>b", "a 1b"),
        ("e<sup>x + 1</sup>", "e^(x + 1)"),
        ("<sup>1</sup> first", "1 first"),
    ],
)
def test_a_superscript_does_not_run_into_the_word_before_it(page: str, text: str) -> None:
    assert parse(f"<p>{page}</p>").text == text
    assert parse(f"<table><tr><th>a<th>b<tr><td>{page}<td></table>").text.endswith(f"| {text} |  |")


def test_headings_have_the_anchors_that_links_use() -> None:
    page = """<h1 id=top>Top</h1><a name="old"></a><h2>By name</h2><section id="sec"><h2>By section</h2></section>
    <h3>Inner <a id="in"></a></h3><p id="p">text</p><h3>None</h3>
    <section id="s2"><span id="index-0"></span><h2>Marked<a class="headerlink" href="#s2">¶</a></h2></section>"""
    parsed = parse(page)
    headings = [block for block in layout_of(parsed).blocks if block.kind == "heading"]
    assert [(block.level, block.anchor, parsed.text[block.start : block.end]) for block in headings] == [
        (1, "top", "Top"), (2, "old", "By name"), (2, "sec", "By section"), (3, "in", "Inner"), (3, "", "None"),
        (2, "s2", "Marked"),
    ]  # fmt: skip


def test_a_page_of_navigation_alone_is_kept_whole_with_a_notice() -> None:
    parsed = parse("<nav><ul><li><a href=a>First chapter</a><li><a href=b>Second chapter</a></ul></nav>")
    assert "Second chapter" in parsed.text
    assert any("main part would be empty" in notice for notice in parsed.notices)
    assert parsed.dropped == ()


def test_metadata_is_read_and_bounded() -> None:
    page = """<html lang=de-CH><head><title>Lungen | Klinik</title><meta name=description content=" Über\nLungen ">
    <link rel=canonical href="https://example.org/lungs?x=1">
    <meta property=article:published_time content="2024-03-05T10:00:00+01:00"><meta name=author content="Ada Muster">
    <meta name=keywords content="lung, CT,lung"></head><body><p>Text</p></body></html>"""
    assert parse(page).metadata == {
        "title": "Lungen | Klinik", "description": "Über Lungen", "url": "https://example.org/lungs?x=1",
        "language": "de-CH", "created": "2024-03-05T10:00:00+01:00", "author": "Ada Muster", "keywords": ["lung", "CT"],
    }  # fmt: skip
    bad = "<link rel=canonical href='javascript:alert(1)'><meta name=date content=soon><html lang='x y'><p>Text"
    assert parse(bad).metadata == {}
    assert parse("<title>t | s</title><h1>Real</h1><p>x").metadata["title"] == "Real"
    assert parse("<h2>First</h2><h2>Second</h2>").title == "First"


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
        ("<meta charset=x-euc-jp><p>肺".encode("euc_jp"), "肺"),
        (b"<meta charset=rot13><p>nop", "nop"),
        (b"<p>caf\xe9", "café"),
        (b"<!-- <meta charset=koi8-r> --><p>" + "ü".encode(), "ü"),
    ],
)
def test_the_character_set_is_found(content: bytes, expected: str) -> None:
    assert parse(content).text == expected


def test_bad_bytes_are_named() -> None:
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
        ("<b>" * 20_000, "nested"),
        ("<div></b>" * 100_000, "nested"),
        ("<table><tr><td>" * 250, "nested"),
        ("".join(f"<p><b a={n}>x" for n in range(20_000)), "nested"),
        ("<p " + " ".join(f"a{n}=1" for n in range(50_000)) + ">x", "attributes"),
    ],
)
def test_a_page_that_cannot_be_read_says_why(page: str, reason: str) -> None:
    with pytest.raises(BadDocument, match=reason):
        parse(page)


@pytest.mark.parametrize(
    "page",
    [
        "<table>" + "<tr><td colspan=1000000 rowspan=65534>x<td>y" * 500, "<p>x<td>y</p>" * 20_000,
        "<table><tr>" + "<th>x" * 900 + "<tr><td>y" * 5000, "<li>x" * 20_000, "x<br>" * 20_000, "a<sup>1</sup>" * 9000,
        "<p hidden>y</p>" * 9000 + "x", "<table><tr><td>" * 60 + "x" * 9000,
    ],
)  # fmt: skip
def test_repetition_is_read_without_growing(page: str) -> None:
    assert 0 < len(parse(page).text) < 2 * len(page) + 1000


ELEMENTS = st.recursive(
    st.sampled_from(["w", " ", "&amp;", "<br>", "<img alt=x>"]),
    lambda inner: st.builds(
        lambda tag, parts: f"<{tag}>{''.join(parts)}</{tag.split()[0]}>",
        st.sampled_from("p h2 ul ol li pre div table tr td dl dt dd blockquote b a sup sub span figure".split()),
        st.lists(inner, max_size=4),
    ),
    max_leaves=25,
)


@settings(max_examples=80, deadline=None)
@given(st.one_of(st.lists(ELEMENTS, max_size=5).map("".join), st.text("<>/abp =\"'-!tdrulih1\n&;", max_size=300)))
def test_blocks_are_ordered_and_cover_the_text(page: str) -> None:
    try:
        parsed = parse(page)
    except BadDocument:
        return
    end = -2
    for block in layout_of(parsed).blocks:
        assert block.start == end + 2
        assert parsed.text[block.start : block.end].strip()
        end = block.end
    assert end == len(parsed.text)
    assert parse(page) == parsed
