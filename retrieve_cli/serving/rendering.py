"""An answer in another format than JSON, as `retrieve query` prints it: `POST /search?format=text&width=100`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.output import formats
from retrieve_cli.output.page import Page
from retrieve_cli.serving.shapes.modular import SHAPE

if TYPE_CHECKING:
    from starlette.requests import Request

    from retrieve_cli.search.answer import Answer

_KINDS = {
    "text": "text/plain",
    "jsonl": "application/x-ndjson",
    "csv": "text/csv",
    "md": "text/markdown",
    "trec": "text/plain",
}
_NARROWEST, _WIDEST, _USUAL = 40, 120, 100
FORM = ("format", "width", "color", SHAPE)
"""Parameters on the form of the answer: they are no part of the request."""
PARAMETERS: Sequence[Mapping[str, Json]] = (
    {"name": "format", "in": "query", "schema": {"type": "string", "enum": ["json", *_KINDS]},
     "description": "Format of the answer, as `retrieve query --format` has it."},
    {"name": "width", "in": "query", "schema": {"type": "integer", "minimum": 0, "maximum": 99_999},
     "description": "Columns of `format=text`."},
    {"name": "color", "in": "query", "schema": {"type": "string", "enum": ["true", "false"]},
     "description": "Colours in `format=text`."},
)  # fmt: skip
"""The same as OpenAPI describes them."""
_BESIDE_A_BODY = (*FORM, "explain")


class Rendering(NamedTuple):
    """A format, and what is chosen of it."""

    form: str
    page: Page
    explain: bool

    @property
    def media_type(self) -> str:
        """The type of the body."""
        return _KINDS[self.form]

    def of(self, answer: Answer) -> bytes:
        """Return an answer in the format."""
        if self.form == "text":
            from retrieve_cli.output.text import as_text

            return as_text(answer, self.page, explain=self.explain).encode()
        written = formats.as_trec if self.form == "trec" else formats.FORMATS[self.form]
        return written([answer]).encode()


def expect_form_alone(request: Request) -> None:
    """Raises: UsageError: a request with a body has parameters besides those of its form."""
    for name in request.query_params:
        if name not in _BESIDE_A_BODY:
            hint = f"parameters: {', '.join(_BESIDE_A_BODY)}; the query belongs into the body"
            raise UsageError(f"the parameter {quoted(name)} is unknown", hint=hint)


def rendering_of(request: Request) -> Rendering | None:
    """Return the format that the parameters of a request ask for; None for JSON.

    Raises:
        UsageError: the value of a parameter is not one that it takes.
    """
    given = dict(request.query_params)
    form = given.get("format", "json")
    if form == "json":
        return None
    if form not in _KINDS:
        raise UsageError(f"the format {quoted(form)} is unknown", hint=f"formats: json, {', '.join(_KINDS)}")
    width = given.get("width", str(_USUAL))
    if not (width.isascii() and width.isdecimal() and len(width) < 6):
        raise UsageError(f"the width {quoted(width)} is not a number of columns", hint="width=100")
    styled = given.get("color") == "true"
    page = Page(min(max(int(width), _NARROWEST), _WIDEST), styled=styled, linked=False)
    return Rendering(form, page, given.get("explain") == "true")
