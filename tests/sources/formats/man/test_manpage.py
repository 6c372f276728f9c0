"""Manual pages in man(7) and mdoc(7): sections and words without marks."""

import pytest
from sources.formats.layouts import levelled, read

from retrieve_cli.contracts import Parsed
from retrieve_cli.errors import BadDocument, NotADocument


def parsed(text: str) -> Parsed:
    return read("man", text.encode())


MAN = r""".\" A comment
.de XX
not a text
..
.TH "ZEBRA" "1" "May 2026"
.SH "NAME"
zebra, zebractl \- show \fBstripes\fP in a caf\['e]
.SH SYNOPSIS
.BR zebra " [" \-n " " \fInumber\fR ]
.SH OPTIONS
.SS "Of stripes"
.TP
.BI \-n " number"
The number of stripes,
see
.BR stripes (7).\" a comment
.IP \(bu 2
One \(em and another
.PP
.XY "of an unknown" macro
For example:
.nf
zebra \e
  \-n 7
.fi
"""
MDOC = r""".Dd May 1, 2026
.Dt ZEBRA 8
.Sh NAME
.Nm zebra
.Nd serve stripes
.Sh SYNOPSIS
.Nm
.Op Fl n Ar number
.Op Fl -all
.Ar file ...
.Sh DESCRIPTION
.Dq Stripe Ns s ,
as
.Xr stripes 7
says.
.Bl -tag
.It Fl n Ar number
How many.
.El
"""


def test_macros_of_man_are_sections_items_and_code() -> None:
    made = parsed(MAN)
    assert made.metadata == {"title": "zebra(1)", "description": "show stripes in a café"}
    assert levelled(made) == [
        ("heading", 1, "NAME"),
        ("paragraph", 0, "zebra, zebractl - show stripes in a café"),
        ("heading", 1, "SYNOPSIS"),
        ("paragraph", 0, "zebra [-n number]"),
        ("heading", 1, "OPTIONS"),
        ("heading", 2, "Of stripes"),
        ("paragraph", 0, "-n number The number of stripes, see stripes(7)."),
        ("paragraph", 0, "• One — and another"),
        ("paragraph", 0, "of an unknown macro For example:"),
        ("code", 0, "zebra \\\n  -n 7"),
    ]


def test_macros_of_mdoc_are_words() -> None:
    made = parsed(MDOC)
    assert made.metadata == {"title": "zebra(8)", "description": "serve stripes"}
    assert made.text.split("\n\n") == [
        *("NAME", "zebra - serve stripes", "SYNOPSIS", "zebra -n number --all file ...", "DESCRIPTION"),
        *("Stripes, as stripes(7) says.", "-n number How many."),
    ]


def test_a_page_that_only_refers_to_another_is_not_a_document() -> None:
    with pytest.raises(NotADocument, match=r"refers to man1/zebra\.1"):
        parsed(".so man1/zebra.1\n")
    with pytest.raises(BadDocument, match="no text"):
        parsed(".TH X 1\n")
    assert "x.h" in parsed(".so x.h\n.SH NAME\na \\- b\n").notices[0]
