"""reStructuredText: HTML by docutils, without other files, raw markup or configuration."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from typing import Any, ClassVar

from retrieve_cli.contracts import Json, Parsed
from retrieve_cli.errors import BadDocument, shortened
from retrieve_cli.sources.formats.formats import ParsingLimits
from retrieve_cli.sources.formats.html.html_reading import html_document
from retrieve_cli.sources.formats.html.metadata import words_of
from retrieve_cli.sources.formats.html.text import one_line
from retrieve_cli.sources.formats.markdown import decoded

_SETTINGS = {
    "file_insertion_enabled": False, "raw_enabled": False, "_disable_config": True, "halt_level": 5,
    "report_level": 2, "warning_stream": False, "doctitle_xform": False, "docinfo_xform": False,
    "syntax_highlight": "none", "math_output": "LaTeX", "line_length_limit": 10**6,
    "initial_header_level": 1, "embed_stylesheet": False, "output_encoding": "unicode",
}  # fmt: skip
_DIRECTIVE = re.compile(r"^[ \t]*\.\. (?:\|[^|\n]{1,99}\| )?([A-Za-z][\w:.+-]{0,99}?) ?::(?=\s|\Z)", re.MULTILINE)
_ROLE = re.compile(r":([A-Za-z][\w.+-]{0,49}(?::[\w.+-]{1,49}){0,2}):`")
_TARGET = re.compile(r"[!~]?([^<]*[^<\s])\s*<[^<>]*>")
_TITLE = re.compile(r"<title>[^<]*</title>")
_CODE = (
    "code code-block sourcecode literalinclude doctest testcode testoutput prompt ipython graphviz"
    " plot highlight productionlist".split()
)
_VERSIONS = ("versionadded", "versionchanged", "deprecated")
"""Directives whose name is a part of their words."""
_NAMES = {"authors": "author", "date": "created", "tags": "keywords", "summary": "description"}
_LONGEST = 1000


def parse(content: bytes, *, name: str, limits: ParsingLimits, on_page: Callable[[int], None]) -> Parsed:  # noqa: ARG001
    """Return the text of a file; unknown directives and roles are read as text.

    Raises:
        BadDocument: it is not a text, cannot be read, or has none.
    """
    from docutils import core, nodes

    text, notices = decoded(content)
    unknown = _register(text)
    try:
        tree = core.publish_doctree(text, settings_overrides=_SETTINGS)
        for message in list(tree.findall(nodes.system_message)):  # with the source of its part
            message.parent.replace(message, list(message.findall(nodes.literal_block)))
        for image in tree.findall(nodes.image):
            image.setdefault("alt", "")  # it would be the name of its file
        tree.parse_messages.clear()
        tree.transform_messages.clear()
        html = core.publish_from_doctree(tree, writer="html5", settings_overrides=_SETTINGS)
    except Exception as error:
        reason = shortened(f"{type(error).__name__}: {error}")
        raise BadDocument(f"docutils cannot read it ({reason})") from error
    if unknown:
        reason = f"unknown directives are read as text: {shortened(', '.join(unknown))}"
        notices = (*notices, reason)
    metadata = _metadata(tree)
    html = _TITLE.sub("", html, count=1)
    return html_document(html, main_content=False, metadata=metadata, notices=notices)


def _metadata(tree: Any) -> dict[str, Json]:
    """Return the first title, and the fields at the top of a document or below its title."""
    from docutils import nodes

    title = next(iter(tree.findall(nodes.title)), None)
    metadata: dict[str, Json] = {"title": title.astext()[:_LONGEST]} if title else {}
    for top in (tree, *tree.findall(nodes.section))[:2]:
        skipped = (nodes.title, nodes.comment, nodes.target)
        first = next((part for part in top if not isinstance(part, skipped)), None)
        for field in first if isinstance(first, nodes.field_list) else ():
            name, value = (one_line(part.astext())[:_LONGEST] for part in field)
            name = _NAMES.get(name.lower(), name.lower())
            metadata |= {name: words_of([value]) if name == "keywords" else value} if value else {}
    return metadata


def _register(text: str) -> list[str]:
    """Let unknown directives be paragraphs and code, and unknown roles their text.

    Return the names of such directives.
    """
    from docutils.parsers.rst import directives, roles
    from docutils.parsers.rst.languages import en

    known = {*en.directives, *_CODE}
    names = dict.fromkeys(name.lower() for name in _DIRECTIVE.findall(text))
    unknown = [name for name in names if name not in known]
    for name in (*unknown, *_CODE):
        directives.register_directive(name, _unknown_directive())
    for role in {name.lower() for name in _ROLE.findall(text)} - en.roles.keys():
        roles.register_local_role(role, _unknown_role)
    return unknown


def _unknown_directive() -> Any:
    from docutils import nodes
    from docutils.parsers.rst import Directive

    class Unknown(Directive):  # type: ignore[misc]  # it has no types
        optional_arguments, final_argument_whitespace, has_content = 1, True, True
        option_spec: ClassVar = defaultdict(lambda: str, name=str)

        def run(self) -> list[Any]:
            words = " ".join((*(self.name,) * (self.name in _VERSIONS), *self.arguments))
            if self.name.lower() in _CODE:
                lines = "\n".join(self.content) or words
                return [nodes.literal_block(lines, lines)]
            block = nodes.container()
            if words:
                block += nodes.paragraph(words, words)
            self.state.nested_parse(self.content, self.content_offset, block)
            return [block]

    return Unknown


def _unknown_role(_: str, source: str, text: str, *__: object, **___: object) -> tuple[list[Any], list[Any]]:
    from docutils import nodes

    target = _TARGET.fullmatch(text)
    words = target[1] if target else text.lstrip("!~")
    return [nodes.inline(source, words)], []
