"""Structure of reStructuredText files; titles and levels agree with docutils."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st
from sources.formats import layouts
from sources.formats.layouts import headings, layout_of

from retrieve_cli.contracts import Parsed
from retrieve_cli.errors import BadDocument
from retrieve_cli.sources.formats.formats import ParsingLimits
from retrieve_cli.sources.formats.rst import parse as parse_rst

PAGE = """\
.. a comment
   over two lines

=====
Title
=====

Intro of *words*::

    code line

    more code

.. _the_label:

First part
----------
1. one
2. two

   still two

- bullet
  goes on

.. code-block:: python
   :linenos:

   print(1)

.. figure:: lung.png
   :alt: x

   Figure 1. A lung.

====  ====
a     b
====  ====
1     2

3     4
====  ====

+---+---+
| a | b |
+---+---+

Deeper
~~~~~~
.. note:: Careful

   Inner text.

A. Einstein was
no list.

----

>>> 1 + 1
2

Second part
-----------
End.
"""


def parse(text: str) -> Parsed:
    return parse_rst(text.encode(), name="page.rst", limits=ParsingLimits(), on_page=lambda page: None)


def blocks(text: str) -> list[tuple[str, str]]:
    parsed = parse(text)
    assert parsed.text == text
    return layouts.blocks(parsed)


def test_the_text_is_unchanged_and_its_blocks_are_found() -> None:
    assert [(kind, text.split("\n")[0]) for kind, text in blocks(PAGE)] == [
        ("heading", "Title"), ("paragraph", "Intro of *words*::"), ("code", "    code line"),
        ("heading", "First part"),
        ("list", "1. one"), ("code", ".. code-block:: python"), ("caption", ".. figure:: lung.png"),
        ("paragraph", "====  ===="), ("paragraph", "+---+---+"), ("heading", "Deeper"),
        ("paragraph", ".. note:: Careful"),
        ("paragraph", "   Inner text."), ("paragraph", "A. Einstein was"), ("code", ">>> 1 + 1"),
        ("heading", "Second part"), ("paragraph", "End."),
    ]  # fmt: skip


def test_levels_and_anchors_of_titles() -> None:
    titles = [block for block in layout_of(parse(PAGE)).blocks if block.kind == "heading"]
    assert [(title.level, title.anchor) for title in titles] == [(1, ""), (2, "the-label"), (3, ""), (2, "")]
    assert parse(PAGE).metadata == {"title": "Title"}


def test_a_file_without_text_is_rejected() -> None:
    with pytest.raises(BadDocument, match="no text"):
        parse("====\n\n..\n")


def titles_of_docutils(text: str) -> list[tuple[int, str]]:
    """Level and words of each title as docutils reads them."""
    core = pytest.importorskip("docutils.core")
    from docutils import nodes

    settings = {"report_level": 5, "halt_level": 6, "doctitle_xform": False, "file_insertion_enabled": False}
    document = core.publish_doctree(text, settings_overrides=settings)
    titles = []
    for title in document.findall(nodes.title):
        if isinstance(title.parent, nodes.section):
            level, node = 0, title.parent
            while isinstance(node, nodes.section):
                level, node = level + 1, node.parent
            titles.append((level, title.astext()))
    return titles


BETWEEN = ("Text.\n", "- item\n\n  more\n", "A::\n\n  x\n  ---\n", "\n----\n\nT\n")
"""What stands below titles: a paragraph, a list, code, a rule."""


@st.composite
def nested_titles(draw: st.DrawFn) -> str:
    """Sections with paragraphs and lists between them, each no more than one level deeper than the one above."""
    styles = draw(st.permutations([("=", True), ("=", False), ("-", False), ("~", False), ("^", True), ("#", False)]))
    lines: list[str] = ["Intro.", ""]
    level = 0
    for number in range(draw(st.integers(1, 8))):
        level = draw(st.integers(1, min(level + 1, 6)))
        words = f"{draw(st.sampled_from(('Part', '1. Part', 'Über', 'A. Part', 'x')))} {number}"
        mark, over = styles[level - 1]
        rule = mark * (len(words) + draw(st.integers(0, 3)))
        lines += [*([rule] if over else []), words, rule, *draw(st.sampled_from(([], [""])))]
        lines += draw(st.sampled_from(BETWEEN)).split("\n")
    return "\n".join(lines) + "\n"


@settings(max_examples=25, deadline=None)
@given(nested_titles())
def test_titles_and_levels_agree_with_docutils(text: str) -> None:
    assert headings(parse(text)) == titles_of_docutils(text)


@settings(max_examples=100, deadline=None)
@given(st.text("=-~.:*+1a \n\t>|_`", max_size=200))
def test_blocks_are_ordered_and_inside_the_text(text: str) -> None:
    try:
        layout = layout_of(parse(text))
    except BadDocument:
        return
    end = 0
    for block in layout.blocks:
        assert end <= block.start < block.end <= len(text)
        end = block.end
