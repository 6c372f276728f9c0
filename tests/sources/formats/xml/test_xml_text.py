"""Sections of XML documents by their tags: articles in JATS, labels of drugs, and any other schema."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from sources.formats.layouts import blocks, headings, layout_of, levelled, read

from retrieve_cli.contracts import Parsed
from retrieve_cli.errors import BadDocument, NotADocument

ARTICLE = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE article PUBLIC "-//NLM//DTD JATS Journal Archiving DTD v1.2//EN" "JATS-archivearticle1.dtd">
<article xmlns:mml="http://www.w3.org/1998/Math/MathML" xml:lang="en"><front>
<journal-meta><journal-title-group><journal-title>Journal of Kettles</journal-title></journal-title-group>
</journal-meta>
<article-meta><article-id pub-id-type="pmid">1</article-id><article-id pub-id-type="doi">10.5555/k.1</article-id>
<title-group><article-title>Lime in <italic>kettles</italic></article-title><subtitle>A trial</subtitle></title-group>
<contrib-group><contrib contrib-type="author"><name><surname>Doe</surname><given-names>Jane A.</given-names></name>
<xref ref-type="aff" rid="a1">1</xref></contrib><contrib contrib-type="author"><collab>The Group</collab></contrib>
<contrib contrib-type="editor"><name><surname>Editor</surname></name></contrib><aff id="a1">An institute</aff>
</contrib-group><pub-date pub-type="collection"><year>2023</year></pub-date>
<pub-date pub-type="epub"><day>3</day><month>5</month><year>2022</year></pub-date>
<abstract><sec><title>Background</title><p>Lime is hard.</p></sec></abstract>
<kwd-group><kwd>lime</kwd><kwd>citric acid</kwd></kwd-group></article-meta></front>
<body><sec id="s1"><label>1</label><title>Introduction</title>
<p>Lime grows<sup><xref ref-type="bibr" rid="B1">1</xref></sup> in H<sub>2</sub>O &mdash; slowly.</p>
<fig id="F1"><label>Figure 1.</label><caption><title>A kettle.</title><p>From the left.</p></caption></fig></sec>
<sec id="s2"><title>Methods</title><sec><title>Acids</title><p>We tried <list list-type="order">
<list-item><p>citric acid</p></list-item><list-item><p>vinegar</p></list-item></list></p>
<table-wrap><label>Table 1</label><caption><p>Doses</p></caption><table><thead><tr><th>acid</th><th>g</th></tr></thead>
<tbody><tr><td>citric</td><td/></tr><tr><td>acetic</td><td>7</td></tr></tbody></table></table-wrap>
<disp-formula><alternatives><mml:math><mml:mi>x</mml:mi><mml:mo>=</mml:mo><mml:mn>1</mml:mn></mml:math>
<tex-math>\\documentclass{minimal}</tex-math></alternatives></disp-formula></sec></sec>
<sec><title>Results</title><p>It dissolves.</p></sec></body>
<back><ack><p>We thank.</p></ack><ref-list><ref id="B1"><label>1</label><element-citation><name><surname>Roe</surname>
<given-names>R</given-names></name><article-title>On lime</article-title><year>2001</year></element-citation></ref>
<ref><mixed-citation>Poe P. <source>Steam</source>. 2002.</mixed-citation></ref></ref-list></back></article>"""
LABEL = "<label><indications>{} pain.</indications><dosage><p>One tablet.</p><p>Twice a day.</p></dosage></label>"


def parse(text: str | bytes) -> Parsed:
    return read("xml", text.encode() if isinstance(text, str) else text)


def reason(text: str | bytes) -> str:
    with pytest.raises(BadDocument) as caught:
        parse(text)
    return caught.value.message


def test_the_parts_of_an_article_are_its_sections() -> None:
    assert levelled(parse(ARTICLE)) == [
        ("heading", 1, "Lime in kettles: A trial"), ("heading", 2, "Abstract"), ("heading", 3, "Background"),
        ("paragraph", 0, "Lime is hard."), ("heading", 2, "1 Introduction"),
        ("paragraph", 0, "Lime grows [1] in H2O — slowly."), ("caption", 0, "Figure 1. A kettle. From the left."),
        ("heading", 2, "Methods"), ("heading", 3, "Acids"), ("paragraph", 0, "We tried"),
        ("list", 0, "1. citric acid\n2. vinegar"), ("caption", 0, "Table 1 Doses"),
        ("table", 0, "| acid | g |\n|---|---|\n| citric |  |\n| acetic | 7 |"), ("paragraph", 0, "x = 1"),
        ("heading", 2, "Results"), ("paragraph", 0, "It dissolves."), ("heading", 2, "Acknowledgments"),
        ("paragraph", 0, "We thank."), ("heading", 2, "References"), ("paragraph", 0, "1 Roe R On lime 2001"),
        ("paragraph", 0, "Poe P. Steam. 2002."),
    ]  # fmt: skip


def test_an_article_has_the_metadata_of_its_journal() -> None:
    assert parse(ARTICLE).metadata == {
        "title": "Lime in kettles: A trial", "language": "en", "created": "2022-05-03",
        "author": "Jane A. Doe, The Group", "keywords": ["lime", "citric acid"], "journal": "Journal of Kettles",
        "doi": "10.5555/k.1", "url": "https://doi.org/10.5555/k.1",
    }  # fmt: skip


def test_a_namespace_makes_no_difference() -> None:
    spaced = ARTICLE.replace("<article ", '<article xmlns="https://jats.nlm.nih.gov/ns/archiving/1.3/" ')
    assert parse(spaced) == parse(ARTICLE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (LABEL.format("Treats"), [(1, "Indications"), (1, "Dosage")]),
        ("<d><title>Ex</title><howSupplied>Box.</howSupplied><X_Y><p>a</p></X_Y></d>",
         [(1, "Ex"), (2, "How supplied"), (2, "X y")]),
        ("<r><Chapter><Head>One</Head><part><p>a</p></part><Section><heading>Two</heading>b</Section></Chapter></r>",
         [(1, "One"), (2, "Two")]),
        ("<r><p>a</p><head><title>Not a title</title><p>b</p></head><Title>Title</Title></r>",
         [(1, "Title"), (2, "Not a title")]),
        ("<r><t1><t2><t3><t4><t5><t6><t7>deep</t7></t6></t5></t4></t3></t2></t1></r>",
         [(min(6, level), f"T{level}") for level in range(1, 8)]),
        ("<a><empty><code value='1'/></empty><p>b</p></a>", []),
    ],
)  # fmt: skip
def test_other_elements_are_sections_by_their_title_or_tag(text: str, expected: list[tuple[int, str]]) -> None:
    assert headings(parse(text)) == expected


def test_repeated_leaves_are_paragraphs_and_elements_within_a_sentence_stay_in_it() -> None:
    steps = "<step>Open <tool>it</tool>.</step><step>Close.</step>"
    text = f"<a>{steps}<who><n>A</n> and <n>B</n></who><list><item>c</item></list></a>"
    expected = ["Open it.", "Close.", "Who", "A and B", "- c"]
    assert [text for _, text in blocks(parse(text))] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('<!DOCTYPE x [\n<!ENTITY a "aa"><!ENTITY b "&a;&a;">]><x>&b;</x>', "declares entities or attributes (line 2)"),
        ('<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><x>&a;</x>', "it declares entities"),
        ('<!DOCTYPE x [<!ENTITY % a SYSTEM "http://127.0.0.1/x.dtd"> %a;]><x>y</x>', "it declares entities"),
        ('<!DOCTYPE x [<!ATTLIST y z CDATA "many">]><x>y</x>', "it declares entities or attributes"),
        ("\n" + "<x>" * 5000, "256 levels (line 2)"),
        ("<a>\n <b></a>", "it is not valid XML: mismatched tag: line 2, column 6"),
        ("<a>&lime;</a>", "it is not valid XML: undefined entity"),
        (b'<?xml version="1.0" encoding="none"?><a/>', "it is not valid XML: unknown encoding"),
        (b"<a>\xff</a>", "it is not valid XML: not well-formed (invalid token): line 1"),
        ("", "it is not valid XML: no element found"),
    ],
)  # fmt: skip
def test_hostile_and_malformed_documents_are_rejected_with_their_place(text: str | bytes, expected: str) -> None:
    assert expected in reason(text)


def test_files_that_a_document_type_names_are_never_read(tmp_path: Path) -> None:
    (tmp_path / "x.dtd").write_text('<!ENTITY secret "read">')
    parsed = parse(f'<!DOCTYPE x SYSTEM "{(tmp_path / "x.dtd").as_uri()}"><x>a&nbsp;&secret;</x>')
    assert parsed.text == "a &secret;"


def test_a_document_without_text_is_skipped() -> None:
    with pytest.raises(NotADocument, match="it has no text"):
        parse("<a><b c='d'/>&#45;</a>")


elements = st.recursive(
    st.sampled_from(["word", " ", "&amp;"]),
    lambda inner: st.builds(
        lambda tag, parts: f"<{tag}>{''.join(parts)}</{tag}>",
        st.sampled_from("a label title sec p list item table tr td caption head note sup dl term alternatives".split()),
        st.lists(inner, max_size=4),
    ),
    max_leaves=25,
)


@given(st.lists(elements, max_size=4))
def test_every_word_of_a_document_is_read_once(parts: list[str]) -> None:
    text = f"<r>{''.join(parts)} end</r>"
    parsed = parse(text)
    assert parsed.text.count("word") == text.count("word")
    assert all(parsed.text[block.start : block.end].strip() for block in layout_of(parsed).blocks)
