"""Elements of HTML by their role in a text."""

from __future__ import annotations

VOID = frozenset("area base br col embed hr img input link meta param source track wbr keygen frame basefont".split())
"""Elements without content."""
RAW_TEXT = frozenset("script style textarea title xmp iframe noembed noframes".split())
"""Elements whose content has no tags."""
FORMATTING = frozenset("a b big code em font i nobr s small strike strong tt u".split())
"""Elements that a parser opens again in the next block if they were not closed ("active formatting elements")."""
HEADINGS = {f"h{level}": level for level in range(1, 7)}
BLOCKS = frozenset(
    "address article aside blockquote body caption center dd details dialog dir div dl dt fieldset figcaption figure "
    "footer form frameset h1 h2 h3 h4 h5 h6 header hgroup hr legend li listing main menu nav ol optgroup option p pre "
    "search section summary table tbody td tfoot th thead tr ul xmp".split()
)
"""Elements that begin and end a block of text."""
LISTS = frozenset(("ul", "ol", "menu", "dir"))
CODE = frozenset(("pre", "xmp", "listing"))
TABLE_PARTS = frozenset(("thead", "tbody", "tfoot"))
SKIPPED = frozenset(
    "script style template noscript svg iframe object embed applet audio video canvas map head title noframes noembed "
    "button input select textarea datalist progress meter dialog annotation annotation-xml".split()
)
"""Elements without text for readers: code, media, and controls."""
