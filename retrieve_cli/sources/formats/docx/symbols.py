"""Characters of symbol fonts, whose codes mean other characters than in Unicode."""

from __future__ import annotations

from functools import cache

_PRIVATE = 0xF000
"""Offset at which symbol fonts are mapped into the private use area."""
_SYMBOL = {
    0x22: "∀", 0x24: "∃", 0x27: "∋", 0x2A: "∗", 0x2D: "−", 0x40: "≅", 0x5C: "∴", 0x5E: "⊥",
    0xA1: "ϒ", 0xA2: "′", 0xA3: "≤", 0xA4: "⁄", 0xA5: "∞", 0xA6: "ƒ", 0xA7: "♣", 0xA8: "♦", 0xA9: "♥", 0xAA: "♠",
    0xAB: "↔", 0xAC: "←", 0xAD: "↑", 0xAE: "→", 0xAF: "↓", 0xB0: "°", 0xB1: "±", 0xB2: "″", 0xB3: "≥", 0xB4: "×",
    0xB5: "∝", 0xB6: "∂", 0xB7: "•", 0xB8: "÷", 0xB9: "≠", 0xBA: "≡", 0xBB: "≈", 0xBC: "…", 0xC5: "⊕", 0xC6: "∅",
    0xC4: "⊗", 0xC7: "∩", 0xC8: "∪", 0xC9: "⊃", 0xCA: "⊇", 0xCB: "⊄", 0xCC: "⊂", 0xCD: "⊆", 0xCE: "∈", 0xCF: "∉",
    0xD0: "∠", 0xD1: "∇", 0xD2: "®", 0xD3: "©", 0xD4: "™", 0xD5: "∏", 0xD6: "√", 0xD7: "⋅", 0xD8: "¬", 0xD9: "∧",
    0xDA: "∨", 0xDB: "⇔", 0xDC: "⇐", 0xDD: "⇑", 0xDE: "⇒", 0xDF: "⇓", 0xE0: "◊", 0xE5: "∑", 0xF2: "∫",
}  # fmt: skip
"""The Symbol font, beyond digits and letters."""
_GREEK = "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ", "αβχδεφγηιϕκλμνοπθρστυϖωξψζ"
"""The Symbol font from A and from a."""
_WINGDINGS = {
    0x6C: "●", 0x6D: "○", 0x6E: "■", 0x6F: "□", 0x71: "❑", 0x75: "◆", 0x76: "❖", 0x9F: "•", 0xA7: "▪", 0xA8: "◻",
    0xD8: "➢", 0xDF: "←", 0xE0: "→", 0xE1: "↑", 0xE2: "↓", 0xE8: "➔", 0xF0: "⇨", 0xFB: "✗", 0xFC: "✓", 0xFD: "☒",
    0xFE: "☑",
}  # fmt: skip


def symbol(code: str, font: str) -> str:
    """Return the character of a hexadecimal code in a font; empty if it has none."""
    try:
        number = int(code[:6], 16)
    except ValueError:
        return ""
    return character(number, font)


def character(number: int, font: str) -> str:
    """Return the character with a number in a font; empty for one in the private use area that is not known."""
    name = font.casefold()
    own = number - _PRIVATE if _PRIVATE <= number < _PRIVATE + 256 else number
    table = _table(name)
    if own in table:
        return table[own]
    if own != number:
        return chr(own) if name == "symbol" and 0x20 <= own < 0x7F else ""
    return chr(number) if 0x20 <= number < 0x110000 and not 0xD800 <= number < 0xE000 else ""


def from_font(text: str, font: str) -> str:
    """Return a text of the private use area as the font shows it."""
    return "".join(character(ord(char), font) if _PRIVATE <= ord(char) < _PRIVATE + 256 else char for char in text)


@cache
def _table(font: str) -> dict[int, str]:
    if font == "symbol":
        greek = {
            ord(first) + place: char
            for first, chars in zip("Aa", _GREEK, strict=True)
            for place, char in enumerate(chars)
        }
        return _SYMBOL | greek
    return _WINGDINGS if font == "wingdings" else {}
