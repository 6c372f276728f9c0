"""bioRxiv and medRxiv: keywords through Europe PMC, and published versions from their own API.

The API of bioRxiv has no search by keyword (https://api.biorxiv.org/), only records by DOI and by date. Its record of a
preprint names the article that it became.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.websearch import Call, Need, Page, ProviderFailed, Rate, WebKind
from retrieve_cli.contracts.works import Id, Item
from retrieve_cli.errors import printable, shortened
from retrieve_cli.frozen import Frozen
from retrieve_cli.websearch import dates, ids, items
from retrieve_cli.websearch.providers import europepmc
from retrieve_cli.websearch.replies import listed, malformed, number, objects, read_object, rejected, text

if TYPE_CHECKING:
    from retrieve_cli.contracts.websearch import Failure, Fetch, Response, WebQuery

_ORIGIN = "https://api.biorxiv.org"
_TERMS = "https://www.biorxiv.org/about-biorxiv"
_RESTRICTION = 'AND SRC:PPR AND (PUBLISHER:"bioRxiv" OR PUBLISHER:"medRxiv")'
_MOST = 10
"""Preprints that are looked up: one request each."""
_PREPRINT = re.compile(r"(10\.(?:1101|64898)/(?:[0-9]{4}\.[0-9]{2}\.[0-9]{2}\.)?([0-9]{6,8}))(?:v[0-9]{1,3})?")
"""DOI of a preprint; 10.1101 also has journals of Cold Spring Harbor. Numbers of medRxiv have eight digits."""
_MEDRXIV_DIGITS = 8
_NAMES = {"biorxiv": "bioRxiv", "medrxiv": "medRxiv"}
_LICENSES = {
    "cc_by": "CC-BY-4.0",
    "cc_by_nc": "CC-BY-NC-4.0",
    "cc_by_nd": "CC-BY-ND-4.0",
    "cc_by_nc_nd": "CC-BY-NC-ND-4.0",
    "cc0": "CC0-1.0",
    "cc0_ng": "CC0-1.0",
    "cc_no": "all rights reserved",
}
"""Licences by the names of the API; bioRxiv offers version 4.0 of Creative Commons."""
_FINAL = ("rate_limited", "timeout", "unreachable")
"""Failures that the next request would repeat."""


class BioRxiv(Frozen):
    """Preprints of biology and medicine."""

    name: str = "biorxiv"
    title: str = "bioRxiv and medRxiv (through Europe PMC)"
    kind: WebKind = "literature"
    needs: tuple[Need, ...] = ()
    rate: Rate = europepmc.RATE
    terms: str = europepmc.TERMS
    servers: tuple[str, ...] = (europepmc.ORIGIN,)

    def search(self, query: WebQuery, fetch: Fetch) -> Page:
        return europepmc.results(query, fetch, restriction=_RESTRICTION)


class Published(Frozen):
    """Published versions, versions and licences of preprints that were found."""

    name: str = "biorxiv"
    title: str = "bioRxiv and medRxiv"
    rate: Rate = Rate(4, 1.0)  # the API names none
    terms: str = _TERMS
    servers: tuple[str, ...] = (_ORIGIN,)

    def enrich(self, items: Sequence[Item], fetch: Fetch) -> Page | None:
        preprints = _preprints(items)
        if not preprints:
            return None
        asked = preprints[:_MOST]
        answers, failures = _answers(asked, fetch)
        if not answers:
            raise ProviderFailed(failures[0])
        unknown = [doi for doi, _, item in answers if item is None]
        notices = [f"{self.title} have no record of {', '.join(unknown)}"] if unknown else []
        if failures:
            notices.append(f"{len(asked) - len(answers)} of {len(asked)} preprints were not looked up: {failures[0]}")
        if len(preprints) > len(asked):
            notices.append(f"only the first {len(asked)} of {len(preprints)} preprints were looked up")
        known = tuple(item for _, _, item in answers if item)
        return Page(known, " ".join(doi for doi, _ in asked), answers[0][1], len(known), tuple(notices))


def _preprints(found: Sequence[Item]) -> list[tuple[str, str]]:
    """Return the DOI and the server of each preprint of bioRxiv or medRxiv, in order."""
    preprints: dict[str, str] = {}
    for item in found:
        for known in item.ids:
            if known.kind == "doi" and (named := _PREPRINT.fullmatch(known.value)):
                medical = len(named[2]) >= _MEDRXIV_DIGITS or "medrxiv" in item.venue.lower()
                preprints.setdefault(named[1], "medrxiv" if medical else "biorxiv")
    return list(preprints.items())


def _answers(
    asked: Sequence[tuple[str, str]], fetch: Fetch
) -> tuple[list[tuple[str, Response, Item | None]], list[Failure]]:
    """Return answer and item of each preprint, None if the server has no record of it, and the failures of others."""
    answers: list[tuple[str, Response, Item | None]] = []
    failures: list[Failure] = []
    for doi, server in asked:
        try:
            response = fetch(Call(f"{_ORIGIN}/details/{server}/{doi}/na/json"))
            answers.append((doi, response, _described(doi, server, response)))
        except ProviderFailed as failed:
            failures.append(failed.failure)
            if failed.failure.kind in _FINAL:
                break
    return answers, failures


def _described(doi: str, server: str, response: Response) -> Item | None:
    """Return a preprint with its latest title and the date of its first version; None if there is no record.

    Raises:
        ProviderFailed: the server reports an error, or its answer is not a list of versions of this preprint.
    """
    answer = read_object(response)
    status = next((text(message, "status") for message in objects(answer, "messages")), "")
    if status.lower().startswith("no posts found"):
        return None
    if status.lower() != "ok":
        if status:
            rejected(f"it reports an error: “{printable(shortened(status))}”", response)
        malformed("an object with `messages` and `collection`", response)
    versions = sorted(listed(answer.get("collection"), response, "collection"), key=_version)
    if not versions or any(ids.doi(text(version, "doi")) != Id("doi", doi) for version in versions):
        malformed(f"a list of the versions of {doi}", response)
    return _item(doi, server, versions) or malformed(f"a list of versions of {doi} with titles", response)


def _version(entry: Mapping[str, Json]) -> int:
    return number(entry, "version") or 0


def _item(doi: str, server: str, versions: Sequence[Mapping[str, Json]]) -> Item | None:
    latest, named = versions[-1], text(versions[-1], "version")
    authors = [_name(author) for author in text(latest, "authors").split(";")]
    license_ = text(latest, "license").lower()
    page = f"https://www.{server}.org/content/{doi}v{_version(latest) or 1}"
    return items.made(
        type="preprint",
        title=text(latest, "title"),
        ids_=[ids.doi(doi)],
        url=page,
        pdf_url=f"{page}.full.pdf",
        authors=[name for name, _ in authors],
        first_family=authors[0][1],
        date=min(filter(None, (dates.of_text(text(version, "date")) for version in versions)), default=""),
        venue=_NAMES[server],
        abstract=text(latest, "abstract"),
        open_access=True if license_.startswith(("cc_by", "cc0")) else None,
        license=_LICENSES.get(license_, license_),
        retracted=True if any("withdraw" in text(version, "type").lower() for version in versions) else None,
        version=named,
        relations=[("published_as", ids.doi(text(version, "published"))) for version in reversed(versions)],
    )


def _name(author: str) -> tuple[str, str]:
    """Return `Given Family` and the family name of an author that the server writes as `Family, Given`."""
    family, _, given = (part.strip() for part in author.partition(","))
    return (f"{given} {family}", family) if given else (family, "")
