"""Equations (Office Math) as one line of text: `(a + b)/c`, `x^2`, `√(x)`."""

from __future__ import annotations

from retrieve_cli.documents.docx.markup import Node

_BETWEEN = {"m:f": "/", "m:sSub": "_", "m:sSup": "^", "m:limLow": "_", "m:limUpp": "^"}
_DROPPED_ENDING = "Pr"
"""Ending of the names of properties, such as `m:fPr`."""


def equation(node: Node) -> str:
    """Return the text of an equation, or of a part of one."""
    if node.name == "m:t":
        return node.text
    if node.name == "w:t":
        return node.text
    parts = [child for child in node.children if not child.name.endswith(_DROPPED_ENDING)]
    texts = [equation(child) for child in parts]
    between = _BETWEEN.get(node.name)
    if between is not None:
        return between.join(map(_grouped, texts))
    write = {"m:rad": _root, "m:d": _delimited, "m:nary": _operator, "m:m": _matrix, "m:sSubSup": _scripts}.get(
        node.name
    )
    return write(node, texts) if write else "".join(texts)


def _grouped(text: str) -> str:
    """Return a text in brackets if it has more than one part."""
    return text if len(text) < 2 or text.isalnum() or (text[0] == "(" and text[-1] == ")") else f"({text})"


def _root(_: Node, texts: list[str]) -> str:
    degree = texts[0] if len(texts) > 1 else ""
    return f"{degree}√({texts[-1]})" if texts else ""


def _delimited(node: Node, texts: list[str]) -> str:
    opening, closing = (_mark(node, "m:dPr", name, other) for name, other in (("m:begChr", "("), ("m:endChr", ")")))
    return opening + ", ".join(texts) + closing


def _operator(node: Node, texts: list[str]) -> str:
    """Return a sum or an integral with its limits."""
    low, high, *body = [*texts, "", ""][: max(len(texts), 2)]
    limits = (f"_{_grouped(low)}" if low else "") + (f"^{_grouped(high)}" if high else "")
    return f"{_mark(node, 'm:naryPr', 'm:chr', '∫')}{limits} {''.join(body)}"


def _matrix(_: Node, texts: list[str]) -> str:
    return "; ".join(texts)


def _scripts(_: Node, texts: list[str]) -> str:
    return "".join(mark + _grouped(text) for mark, text in zip(("", "_", "^"), texts, strict=False))


def _mark(node: Node, properties: str, name: str, other: str) -> str:
    """Return a character that the properties choose; `other` if they don't."""
    chosen = node.child(properties, name)
    return other if chosen is None else chosen.get("m:val")[:1]
