"""What tests of the search page build on: records that attack a page, HTML as a tree, and axe-core."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from npm_packages import installed

AXE = "4.14.1"
CHROMIUM = Path("/usr/bin/chromium")
VOID = frozenset("area base br col embed hr img input link meta source track wbr".split())

ATTACKS = [
    "<script>window.pwned=1</script>",
    "</title><script>window.pwned=1</script>",
    "<img src=x onerror=window.pwned=1>",
    "<svg onload=window.pwned=1><animate onbegin=window.pwned=1 attributeName=x dur=1s>",
    "\"><img src=x onerror='window.pwned=1'>",
    "' autofocus onfocus='window.pwned=1",
    '" onmouseover="window.pwned=1" x="',
    "javascript:window.pwned=1",
    "JaVaScRiPt:window.pwned=1//",
    " java\tscript:window.pwned=1",
    "data:text/html,<script>window.pwned=1</script>",
    "vbscript:window.pwned=1",
    'https://example.org/"onclick="window.pwned=1',
    "https://user:pass@example.org/<script>window.pwned=1</script>",
    "{{ 7 * 7 }}{% for x in range(9) %}{{ self }}{% endfor %}",
    "{{ ''.__class__.__mro__ }}${window.pwned=1}#{window.pwned=1}",
    "<iframe srcdoc='<script>parent.pwned=1</script>'></iframe>",
    "<object data='data:text/html,<script>window.pwned=1</script>'></object>",
    "<style>*{background:url(javascript:window.pwned=1)}</style><link rel=stylesheet href=//example.org/x.css>",
    "<form action=javascript:window.pwned=1><button>send</button></form>",
    "<base href=//example.org/><meta http-equiv=refresh content='0;url=//example.org'>",
    "<math><mtext></table><mglyph><style><img src=x onerror=window.pwned=1>",
    "--><!-- </script></style></textarea></bdi></mark><script>window.pwned=1</script>",
    "\u202e\u2066 txet desrever \u2069\u202c\u200f",
    "null\x00byte \x07bell \x1b[31mred \x7f delete \u0085 next \u2028 line",
    "w" * 5000,
    "日本語" * 400,
    "e" + "\u0301" * 600,
    "&lt;script&gt;window.pwned=1&lt;/script&gt; &#60;b&#62; &amp;amp;",
    "<details open ontoggle=window.pwned=1><summary>x</summary></details>",
]
"""Thirty texts that a page must show and never run."""


def hostile_records() -> list[dict[str, Any]]:
    """Three hundred records with an attack in every field, each attack together with ten others."""
    records = []
    for number in range(300):
        attacks = [ATTACKS[(number + place * (1 + number // 30)) % len(ATTACKS)] for place in range(8)]
        records.append(
            {
                "id": f"h{number} {attacks[0]}"[:300].replace("\0", " "),  # as a build does
                "name": attacks[0],
                "description": f"victim text {attacks[1]} and more of it {attacks[2]}",
                "url": attacks[3],
                "license": attacks[4][:150],
                "keywords": [attacks[5], f"victim{number % 7}"],
                "group": f"<b>g{number % 3}</b>{{{{ 1 }}}}",
                f"field<script>{number % 2}": attacks[6],
                "supportingData": {"imagingModality": [attacks[7][:150]], "datasetFormat": ["<i>x</i>"]},
                "requires": [f"h{(number + 1) % 300} {ATTACKS[(number + 1) % 30]}"[:300]],
            }
        )
    return records


# ------------------------------------------------------------------------------------------------- HTML


@dataclass
class Node:
    """An element of a page."""

    tag: str
    attributes: dict[str, str | None]
    children: "list[Node | str]" = field(default_factory=list)

    @property
    def text(self) -> str:
        return " ".join("".join(self._texts()).split())

    def _texts(self) -> Iterator[str]:
        for child in self.children:
            yield from [child] if isinstance(child, str) else child._texts()

    def all(self, tag: str = "", **attributes: str) -> "list[Node]":
        """Return the elements of a kind, with these attributes: `class_` and `name` as they are called."""
        wanted = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
        found = []
        for child in self.children:
            if isinstance(child, Node):
                if tag in ("", child.tag) and all(child.attributes.get(key) == value for key, value in wanted.items()):
                    found.append(child)
                found += child.all(tag, **attributes)
        return found

    def one(self, tag: str = "", **attributes: str) -> "Node":
        """Return the first element of a kind."""
        found = self.all(tag, **attributes)
        assert found, f"no <{tag}> {attributes}"
        return found[0]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Node("", {})
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag, dict(attrs))
        self._open[-1].children.append(node)
        if tag not in VOID:
            self._open.append(node)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open[-1].children.append(Node(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open[-1].tag == tag, f"</{tag}> closes <{self._open[-1].tag}>"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        self._open[-1].children.append(data)


def read_html(html: bytes) -> Node:
    """Return a page as a tree; every element must be closed in order."""
    reader = _Reader()
    reader.feed(html.decode())
    reader.close()
    assert len(reader._open) == 1, [node.tag for node in reader._open]
    return reader.root


# ---------------------------------------------------------------------------------------------- axe-core


def axe_source() -> str:
    """Return the source of axe-core; the test is skipped if npm cannot fetch it."""
    script = installed("axe", f"axe-core@{AXE}") / "axe-core" / "axe.min.js"
    return script.read_text("utf-8")
