"""Identifiers of publications and addresses of pages in one normal form each, so that equal ones are equal texts.

DOI: lower case without a resolver (ISO 26324: DOIs are compared without case); PMID: digits; PMCID: `PMC` and digits;
arXiv: `2401.01234` or `hep-th/9901001`, without version; Semantic Scholar: its 40 hexadecimal digits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from retrieve_cli.contracts.works import Id

_REMEMBERED = 8192
"""Identifiers whose properties are cached."""
_LONGEST = 2000
"""Characters of the longest identifier or address that is read."""
_DOI = re.compile(r"10\.[0-9]{4,9}(?:\.[0-9]{1,9}){0,4}/[^\s\"<>]{1,1000}")
_RESOLVER = re.compile(r"(?:https?://)?(?:dx\.)?doi\.org/|doi:\s*", re.IGNORECASE)
_ARXIV = re.compile(r"([0-9]{4}\.[0-9]{4,5}|[a-z-]{2,20}(?:\.[a-z]{2})?/[0-9]{7})(?:v([0-9]{1,3}))?", re.IGNORECASE)
_ARXIV_PREFIX = re.compile(r"(?:https?://)?(?:export\.|www\.)?arxiv\.org/(?:abs|pdf|html)/|arxiv:\s*", re.IGNORECASE)
ARXIV = "10.48550"
"""Registrant of the DOIs of arXiv."""
_ARXIV_DOI = f"{ARXIV}/arxiv."
_PMID = re.compile(r"[0-9]{1,9}")
_PMCID = re.compile(r"PMC([0-9]{1,9})(?:\.[0-9]{1,3})?", re.IGNORECASE)
_S2 = re.compile(r"[0-9a-f]{40}")
_TRACKING = re.compile(
    r"utm_[a-z_]{1,30}|fbclid|gclid|dclid|msclkid|yclid|mc_cid|mc_eid|igshid|ref_src|srsltid|_hsenc|_hsmi"
)
_PORTS = {"http": 80, "https": 443}
_PREPRINT = re.compile(
    r"10\.1101/(?:[0-9]{6}|20[0-9]{2}\.[0-9]{2}\.[0-9]{2}\.[0-9]{6,8})(?:v[0-9]{1,2})?"  # not the journals of CSHL
    r"|10\.48550/arxiv\..{1,100}|10\.64898/.{1,100}|10\.21203/rs\..{1,100}|10\.20944/preprints.{1,100}"
    r"|10\.26434/chemrxiv.{1,100}|10\.33774/.{1,100}|10\.312(?:19|2[0-9]|3[0-9])/.{1,100}|10\.32942/.{1,100}"
    r"|10\.35542/.{1,100}|10\.2139/ssrn\..{1,100}|10\.36227/techrxiv\..{1,100}|10\.7287/peerj\.preprints\..{1,100}"
    r"|10\.22541/(?:au|essoar)\..{1,100}|10\.1002/essoar\..{1,100}|10\.1590/scielopreprints\..{1,100}"
    r"|10\.2196/preprints\..{1,100}|10\.5194/egusphere-[0-9]{4}-[0-9]{1,6}"
)
"""DOIs that servers of preprints register: the registrant alone, or the prefix that it uses for preprints."""
_VERSION = re.compile(r"[/._-]?v([0-9]{1,2})")
"""Last part of the DOI of a version, at preprint servers: `10.21203/rs.3.rs-1/v2`, `10.31234/osf.io/ab_v2`."""
_LONGEST_VERSION = 4
_NUMBERED = re.compile(r"(10\.(?:12688/[a-z0-9]{1,30}\.[0-9]{1,9}|7554/elife\.[0-9]{1,9}))\.([0-9]{1,2})")
"""DOIs of the versions of an article under open review: of F1000 and its siblings, and of eLife."""
_PAGE_OF_DOI = frozenset(
    "doi doi.org abs abstract full fulltext pdf epdf pdfdirect epub reader content article articles chapter book "
    "biorxiv medrxiv early".split()
)
"""Parts of a path that publishers write before a DOI on the page of the work itself."""
_VIEWS = "/full /abstract /pdf /html /meta /fulltext .full .abstract .full-text .pdf .html".split()
"""Endings of a path behind a DOI that select a view of the work."""


def doi(text: str) -> Id | None:
    """Return the DOI that a text is, with or without a resolver; None for other texts. A DOI of arXiv counts too."""
    text = text.strip()[:_LONGEST]
    bare = _RESOLVER.sub("", text, count=1) if _RESOLVER.match(text) else text
    bare = unquote(bare).strip().rstrip(".,;").lower()
    return Id("doi", bare) if _DOI.fullmatch(bare) else None


@lru_cache(_REMEMBERED)
def is_preprint(identifier: Id) -> bool:
    """Return True for identifiers that only preprints have: arXiv identifiers, and DOIs of other preprint servers."""
    if identifier.kind == "arxiv":
        return True
    return identifier.kind == "doi" and _PREPRINT.fullmatch(identifier.value) is not None


def server(identifier: Id) -> str:
    """Return the registrant of a DOI, `10.1101`; for an arXiv identifier, the registrant of arXiv."""
    return ARXIV if identifier.kind == "arxiv" else identifier.value.partition("/")[0]


@lru_cache(_REMEMBERED)
def unversioned(identifier: Id) -> Id:
    """Return the identifier that all versions of a work share: without the version in a DOI of a preprint server or a
    journal with open review, and the identifier of arXiv for its DOI."""
    if identifier.kind != "doi":
        return identifier
    if identifier.value.startswith(_ARXIV_DOI):
        return arxiv(identifier.value) or identifier
    if numbered := _NUMBERED.fullmatch(identifier.value):
        return Id("doi", numbered[1])
    return Id("doi", identifier.value[: _version_at(identifier)])


def doi_version(identifier: Id) -> str:
    """Return the version that a DOI of a preprint or of an openly reviewed article names: `2`; empty if none."""
    if numbered := _NUMBERED.fullmatch(identifier.value):
        return numbered[2]
    return identifier.value[_version_at(identifier) :].lstrip("/._-v")


def _version_at(identifier: Id) -> int:
    """Return the place in a DOI at which its version begins; its end if it has none."""
    value = identifier.value
    places = range(max(len(value) - _LONGEST_VERSION, 0), len(value)) if is_preprint(identifier) else ()
    return next((place for place in places if _VERSION.fullmatch(value, place)), len(value))


def arxiv(text: str) -> Id | None:
    """Return the arXiv identifier that a text is, an address or an arXiv DOI included, without its version."""
    found = _arxiv(text)
    return found and Id("arxiv", found[1].lower())


def arxiv_version(text: str) -> str:
    """Return the version that an arXiv identifier or address names: `2`; empty if none."""
    found = _arxiv(text)
    return (found and found[2]) or ""


def _arxiv(text: str) -> re.Match[str] | None:
    text = text.strip()[:_LONGEST]
    bare = _RESOLVER.sub("", text, count=1) if _RESOLVER.match(text) else text
    if bare.lower().startswith(_ARXIV_DOI):
        bare = bare[len(_ARXIV_DOI) :]
    bare = _ARXIV_PREFIX.sub("", bare, count=1) if _ARXIV_PREFIX.match(bare) else bare
    return _ARXIV.fullmatch(bare.removesuffix(".pdf"))


def pmid(text: str) -> Id | None:
    """Return the PubMed identifier that a text is: digits."""
    text = text.strip()
    return Id("pmid", text.lstrip("0")) if _PMID.fullmatch(text) and text.strip("0") else None


def pmcid(text: str) -> Id | None:
    """Return the identifier of PubMed Central that a text is: `PMC` and digits, without version."""
    found = _PMCID.fullmatch(text.strip())
    return found and Id("pmcid", f"PMC{found[1].lstrip('0')}")


def s2(text: str) -> Id | None:
    """Return the identifier of Semantic Scholar that a text is."""
    text = text.strip().lower()
    return Id("s2", text) if _S2.fullmatch(text) else None


def url(text: str) -> Id | None:
    """Return an address in normal form (RFC 3986, 6.2.2): lower case of scheme and host, no default port, no fragment,
    no parameters that only track, the others in order, `https` for `http`, no final slash. None: not a web address."""
    text = text.strip()
    if len(text) > _LONGEST or not text.isprintable():
        return None
    try:
        parts = urlsplit(text)
        host, port = (parts.hostname or "").lower().rstrip("."), parts.port
    except ValueError:
        return None
    if parts.scheme.lower() not in _PORTS or not host or "@" in parts.netloc or " " in text:
        return None
    host = f"[{host}]" if ":" in host else host
    place = host if port in (None, *_PORTS.values()) else f"{host}:{port}"
    pairs = parse_qsl(parts.query, keep_blank_values=True, max_num_fields=100) if parts.query.count("&") < 100 else []
    kept = sorted((name, value) for name, value in pairs if not _TRACKING.fullmatch(name.lower()))
    path = parts.path.rstrip("/")
    return Id("url", urlunsplit(("https", place.removeprefix("www."), path, urlencode(kept), "")))


def of_address(text: str) -> Id | None:
    """Return the identifier of a publication that an address names: of doi.org, arXiv, PubMed, PubMed Central, Europe
    PMC, Semantic Scholar, and of publishers that write the DOI into the path of the page of a work."""
    address = url(text)
    if address is None:
        return None
    parts = urlsplit(address.value)
    host, path = parts.netloc, parts.path.strip("/")
    last = path.rpartition("/")[2]
    if host in ("doi.org", "dx.doi.org"):
        return doi(path)
    if host == "arxiv.org" or host.endswith(".arxiv.org"):
        return arxiv(f"arxiv.org/{path}")
    if host == "pubmed.ncbi.nlm.nih.gov" or path.startswith(("pubmed/", "article/MED/", "abstract/MED/")):
        return pmid(last)
    if host in ("pmc.ncbi.nlm.nih.gov", "ncbi.nlm.nih.gov", "europepmc.org"):
        return pmcid(last)
    if host == "semanticscholar.org":
        return s2(last)
    return _doi_of_page(path, dict(parse_qsl(parts.query, max_num_fields=100)) if len(parts.query) < 200 else {})


def _doi_of_page(path: str, parameters: Mapping[str, str]) -> Id | None:
    """Return the DOI of the work whose page has this path; other pages with a DOI only write about the work."""
    before, _, after = f"/{path}".partition("/10.")
    if not after:
        shown = path.endswith(("plosone/article", "article")) and parameters.get("id", "").startswith("10.1371/")
        return doi(parameters["id"]) if shown else None
    if not set(before.strip("/").lower().split("/")) <= _PAGE_OF_DOI or not before:
        return None
    value = f"10.{after}"
    for _ in range(2):
        value = next((value.removesuffix(view) for view in _VIEWS if value.endswith(view)), value)
    identifier = doi(value)
    if identifier and is_preprint(identifier) and server(identifier) in ("10.1101", "10.64898"):
        return unversioned(identifier)  # the version is in the address alone
    return identifier
