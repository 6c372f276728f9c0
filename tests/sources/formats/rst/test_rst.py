"""reStructuredText as docutils reads it, without files, raw markup, and loss of unknown parts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st
from sources.formats.layouts import blocks, headings, read

from retrieve_cli.contracts import Parsed
from retrieve_cli.errors import BadDocument

pytest.importorskip("docutils")

PAGE = """\
.. a comment
.. meta::
   :description: About lungs

=====
Title
=====

:Author: Ada
:Keywords: lung, CT

Intro of *words*, :func:`~a.b` and :ref:`the label <label>`, |undefined|::

    code line

.. _the_label:

First part
----------
1. one
2. two

   still two

.. code-block:: python
   :emphasize-lines: 2

   print(1)

.. figure:: lung.png

   Figure 1. A lung.

================  =============
a                 b
================  =============
H\\ :sub:`2`\\ O    10\\ :sup:`3`
================  =============

Deeper
~~~~~~
.. note:: Careful

.. py:function:: foo(x, *args)

   Does foo [1]_.

.. [1] The note.

.. include:: /etc/passwd

.. versionadded:: 2.0
"""


def parse(text: str) -> Parsed:
    return read("rst", text.encode())


def test_blocks_are_those_of_docutils_and_unknown_parts_are_text() -> None:
    parsed = parse(PAGE)
    assert blocks(parsed) == [
        ("heading", "Title"), ("paragraph", "Author:\nAda"), ("paragraph", "Keywords:\nlung, CT"),
        ("paragraph", "Intro of words, a.b and the label, |undefined|:"), ("code", "code line"),
        ("heading", "First part"), ("list", "1. one\n2. two\n  still two"), ("code", "print(1)"),
        ("caption", "Figure 1. A lung."), ("table", "| a | b |\n|---|---|\n| H2O | 10^3 |"), ("heading", "Deeper"),
        ("paragraph", "Note"), ("paragraph", "Careful"), ("paragraph", "foo(x, *args)"), ("paragraph", "Does foo [1]."),
        ("paragraph", "[1]"), ("paragraph", "The note."), ("code", ".. include:: /etc/passwd"),
        ("paragraph", "versionadded 2.0"),
    ]  # fmt: skip
    assert headings(parsed) == [(1, "Title"), (2, "First part"), (3, "Deeper")]
    assert parsed.metadata == {
        "title": "Title", "author": "Ada", "keywords": ["lung", "CT"], "description": "About lungs", "language": "en",
    }  # fmt: skip
    assert parsed.notices == ("unknown directives are read as text: py:function, versionadded",)


def test_a_file_without_text_is_rejected() -> None:
    with pytest.raises(BadDocument, match="no text"):
        parse("..\n")


WORDS = st.lists(st.integers(0, 99).map("w{}".format), min_size=1, max_size=4).map(" ".join)
DIRECTIVES = st.tuples(st.sampled_from(("note", "unknown", "py:class", "figure", "code-block", "topic")), WORDS)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.one_of(WORDS, WORDS.map("- {}".format), DIRECTIVES), min_size=1, max_size=6))
def test_every_word_of_the_text_is_read_once(parts: list[str | tuple[str, str]]) -> None:
    texts = [part if isinstance(part, str) else f".. {part[0]}:: a\n\n   {part[1]}" for part in parts]
    expected = [word for text in texts for word in text.split() if word[0] == "w"]
    parsed = parse("\n\n".join(texts))
    assert [word for word in parsed.text.split() if word[0] == "w"] == expected
