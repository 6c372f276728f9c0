"""Mail: headers, bodies, attachments, messages within messages, and broken ones."""

from __future__ import annotations

from email.message import EmailMessage

import pytest
from sources.formats.layouts import levelled, read

from retrieve_cli.errors import BadDocument

PAGE = "<h1>Price list</h1><table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>"


def mail(**headers: str) -> EmailMessage:
    message = EmailMessage()
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    return message


def test_a_mail_has_its_headers_text_attachments_and_inner_messages() -> None:
    inner = mail(Subject="Offer", From="shop@x.org")
    inner.set_content(PAGE, subtype="html")
    message = mail(
        Subject="Größe", From="Ada <ada@x.org>", To="Böb <b@x.org>, c@x.org", Date="Mon, 4 May 2026 10:00:00 +0200",
        Message_ID="<1@x>", In_Reply_To="<0@x>", List_Id="tea",
    )  # fmt: skip
    message.set_content("Hello,\n\n> quoted\n> twice\n\nCafé\n-- \nAda")
    message.add_alternative(PAGE, subtype="html")
    message.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename="Übung.pdf")
    message.add_attachment(inner)
    made = read("eml", bytes(message))
    assert made.metadata == {
        "title": "Größe", "from": "Ada <ada@x.org>", "to": ["Böb <b@x.org>", "c@x.org"],
        "date": "2026-05-04T10:00:00+02:00", "message_id": "1@x", "in_reply_to": "0@x", "list_id": "tea",
    }  # fmt: skip
    assert levelled(made) == [
        ("heading", 1, "Größe"),
        ("paragraph", 0, "From: Ada <ada@x.org>\nTo: Böb <b@x.org>, c@x.org\nDate: 2026-05-04T10:00:00+02:00"),
        ("paragraph", 0, "Hello,"), ("paragraph", 0, "> quoted\n> twice"), ("paragraph", 0, "Café\n-- \nAda"),
        ("list", 0, "Attachments:\n- Übung.pdf (application/pdf)"),
        ("heading", 2, "Offer"), ("paragraph", 0, "From: shop@x.org"),
        ("heading", 3, "Price list"), ("table", 0, "| a | b |\n|---|---|\n| 1 | 2 |"),
    ]  # fmt: skip
    assert [(text.reason, text.text) for text in made.dropped] == [("attachment", "Übung.pdf (application/pdf)")]


@pytest.mark.parametrize(
    ("head", "body", "expected"),
    [
        (b"Content-Type: text/plain; charset=iso-8859-1", "Käse".encode("latin-1"), "Käse"),
        (b"Content-Type: text/plain; charset=windows-1251", "Чай".encode("cp1251"), "Чай"),
        (b"Content-Type: text/plain; charset=nonsense", "Käse".encode(), "Käse"),
        (b"Content-Transfer-Encoding: quoted-printable", b"K=C3=A4=\r\nse", "Käse"),
        (b"Content-Transfer-Encoding: base64", b"S8Okc2U=", "Käse"),
        (b"Content-Type: multipart/mixed; boundary=b", b"no part begins", "no part begins"),
        (b"Content-Type: multipart/mixed; boundary=b", b"--b\n\none\n--b\n\ntwo", "one\n\ntwo"),
        (b"Content-Type: ;;;", b"text", "text"),
        (b"Content-Type: text/html", b"<h1>x</h1><p>text", "text"),
    ],
)
def test_a_body_is_decoded_as_far_as_it_can_be(head: bytes, body: bytes, expected: str) -> None:
    assert read("eml", b"Subject: x\n" + head + b"\n\n" + body).text == f"x\n\n{expected}"


def test_headers_that_are_broken_stay_as_they_are() -> None:
    head = "Subject: =?utf-8?q?K=C3=A4se?= =?bad?x?\nFrom: é <a@b\nTo: nobody:;\nDate: someday\nDate: later\n\ntext"
    made = read("eml", head.encode())
    assert made.metadata["title"] == "Käse =?bad?x?"
    assert made.metadata["date"] == "someday"
    assert made.metadata["to"] == ["nobody:;"]
    assert "é" in str(made.metadata["from"])
    with pytest.raises(BadDocument, match="does not begin with headers"):
        read("eml", b"\nplain text")
    with pytest.raises(BadDocument, match="nested too deeply"):
        read("eml", b"Subject: x\n" + b"Content-Type: message/rfc822\n\n" * 3000)
