"""Works: publications and web pages as described by providers, and the merged descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from retrieve_cli.frozen import Frozen

WorkType = Literal["article", "preprint", "review", "dataset", "web"]
"""Type of a work. `review` is a review or a comment of one other work (a peer review report, a decision letter): it is
linked to that work. A review article is an `article`."""
IdKind = Literal["doi", "pmid", "pmcid", "arxiv", "s2", "url"]
"""Kind of an identifier, in the order in which the id of a work is chosen."""
RelationKind = Literal["preprint_of", "published_as", "version_of", "same_as", "reviews", "reviewed_by"]
"""Relation of a work to another one, read from left to right: this work is a `preprint_of` the other; it was
`published_as` the other; it is another `version_of` it; it `reviews` it (as a report, comment or reply does)."""
LINKS: frozenset[RelationKind] = frozenset({"reviews", "reviewed_by"})
"""Relations between different works, which are linked; by all others two descriptions are of one work."""


class Id(NamedTuple):
    """A normalised identifier: see `websearch/ids.py`."""

    kind: IdKind
    value: str

    def __str__(self) -> str:
        """Return the form that answers and `--add` use: `doi:10.1000/xyz`; an address is printed unchanged."""
        return self.value if self.kind == "url" else f"{self.kind}:{self.value}"


class Item(Frozen):
    """One result of a provider: its description of a work. Empty or None: not given."""

    type: WorkType
    title: str
    ids: tuple[Id, ...]
    authors: tuple[str, ...] = ()
    """Names in the order of the work, `Given Family` where the provider separates them."""
    first_family: str = ""
    """Family name of the first author, if the provider separates it."""
    date: str = ""
    """Date of publication with the precision that is known: `2024`, `2024-03` or `2024-03-05`."""
    venue: str = ""
    abstract: str = ""
    snippet: str = ""
    """Excerpt that a search engine shows; for providers without abstracts."""
    url: str = ""
    pdf_url: str = ""
    open_access: bool | None = None
    license: str = ""
    """Licence as an SPDX identifier if it is known as one (`terms/licences.py`), else as the provider names it."""
    citations: int | None = None
    retracted: bool | None = None
    version: str = ""
    """Version of a preprint: `2`."""
    relations: tuple[tuple[RelationKind, Id], ...] = ()
    """Relations that the provider declares."""


class Source(NamedTuple):
    """Finding of a work by a provider."""

    provider: str
    rank: int | None
    """Rank of the item on its page, from 1; None: the description is of an enricher, which does not rank."""
    query: str
    """The query as sent."""
    at: str
    """Time of the response, ISO 8601 in UTC."""
    digest: str
    """SHA-256 of the body of the response."""

    @property
    def order(self) -> tuple[bool, int]:
        """A key that sorts findings by rank, those without one last."""
        return (self.rank is None, self.rank or 0)


class Found(NamedTuple):
    """An item with its source."""

    item: Item
    source: Source


class Version(NamedTuple):
    """Another version of a work than its main version."""

    id: str
    type: WorkType
    relation: RelationKind
    """Its relation to the main version of the work: `preprint_of`, `version_of`."""
    title: str
    date: str
    url: str


class Linked(NamedTuple):
    """Another work that is linked and not merged."""

    id: str
    relation: RelationKind
    """Relation of the linked work to this one: `reviews`, `reviewed_by`."""


class Cited(NamedTuple):
    """Number of citations that a provider counts."""

    number: int
    source: str
    at: str


class FieldConflict(NamedTuple):
    """A value of a field that differs from the one shown."""

    value: str
    source: str
    """Provider."""


class Work(Frozen):
    """A publication or page: all items that describe it, merged. A field is taken from the first provider, in the order
    of `provenance`, that has it; empty or None: no provider has it."""

    id: str
    """Its best identifier as text: `doi:10.1000/xyz`, `arxiv:2401.01234`, or an address."""
    type: WorkType
    title: str
    found_by: tuple[Source, ...]
    """In the order of providers, then ranks."""
    ids: tuple[Id, ...]
    """Ids of the main version of the work, at most one of each kind; in the order of `IdKind`."""
    authors: tuple[str, ...] = ()
    date: str = ""
    venue: str = ""
    abstract: str = ""
    snippet: str = ""
    url: str = ""
    pdf_url: str = ""
    open_access: bool | None = None
    license: str = ""
    citations: Cited | None = None
    retracted: bool | None = None
    """True if any provider reports a retraction; False if one denies it and none reports it."""
    versions: tuple[Version, ...] = ()
    linked: tuple[Linked, ...] = ()
    provenance: Mapping[str, str] = {}
    """Provider of each field that has a value."""
    conflicts: Mapping[str, tuple[FieldConflict, ...]] = {}
    """By field, values that differ from the one shown: title, date, license, open_access, retracted, doi."""
