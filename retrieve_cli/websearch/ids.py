"""Identifiers of publications and addresses of pages in one normal form each, so that equal ones are equal texts.

DOI: lower case without a resolver (ISO 26324: DOIs are compared without case); PMID: digits; PMCID: `PMC` and digits;
arXiv: `2401.01234` or `hep-th/9901001`, without version; Semantic Scholar: its 40 hexadecimal digits.
"""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from retrieve_cli.contracts.websearch import Id

_LONGEST = 2000
"""Characters of the longest identifier or address that is read."""
_DOI = re.compile(r"10\.[0-9]{4,9}(?:\.[0-9]{1,9}){0,4}/[^\s\"<>]{1,1000}")
_RESOLVER = re.compile(r"(?:https?://)?(?:dx\.)?doi\.org/|doi:\s*", re.IGNORECASE)
_ARXIV = re.compile(r"([0-9]{4}\.[0-9]{4,5}|[a-z-]{2,20}(?:\.[a-z]{2})?/[0-9]{7})(?:v[0-9]{1,3})?", re.IGNORECASE)
_ARXIV_PREFIX = re.compile(
    r"(?:https?://)?(?:export\.|www\.)?arxiv\.org/(?:abs|pdf|html)/|arxiv:\s*"
    r"|(?:(?:https?://)?(?:dx\.)?doi\.org/|doi:\s*)?10\.48550/arxiv\.",
    re.IGNORECASE,
)
_PMID = re.compile(r"[0-9]{1,9}")
_PMCID = re.compile(r"PMC([0-9]{1,9})(?:\.[0-9]{1,3})?", re.IGNORECASE)
_S2 = re.compile(r"[0-9a-f]{40}")
_TRACKING = re.compile(r"utm_[a-z_]{1,30}|fbclid|gclid|dclid|msclkid|yclid|mc_cid|mc_eid|igshid|ref_src|srsltid")
_PORTS = {"http": 80, "https": 443}


def doi(text: str) -> Id | None:
    """Return the DOI that a text is, with or without a resolver; None for other texts."""
    text = text.strip()[:_LONGEST]
    bare = unquote(_RESOLVER.sub("", text, count=1) if _RESOLVER.match(text) else text)
    bare = bare.strip().rstrip(".,;").lower()
    return Id("doi", bare) if _DOI.fullmatch(bare) else None


def arxiv(text: str) -> Id | None:
    """Return the arXiv identifier that a text is, an address or an arXiv DOI included, without its version."""
    text = text.strip()[:_LONGEST]
    bare = _ARXIV_PREFIX.sub("", text, count=1) if _ARXIV_PREFIX.match(text) else text
    match = _ARXIV.fullmatch(bare.removesuffix(".pdf"))
    return match and Id("arxiv", match[1].lower())


def pmid(text: str) -> Id | None:
    """Return the PubMed identifier that a text is: digits."""
    text = text.strip()
    return Id("pmid", text.lstrip("0")) if _PMID.fullmatch(text) and text.strip("0") else None


def pmcid(text: str) -> Id | None:
    """Return the identifier of PubMed Central that a text is: `PMC` and digits, without version."""
    match = _PMCID.fullmatch(text.strip())
    return match and Id("pmcid", f"PMC{match[1].lstrip('0')}")


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
    pairs = []
    if parts.query.count("&") < 100:
        pairs = parse_qsl(parts.query, keep_blank_values=True, max_num_fields=100)
    kept = sorted((name, value) for name, value in pairs if not _TRACKING.fullmatch(name.lower()))
    path = parts.path.rstrip("/")
    return Id("url", urlunsplit(("https", place.removeprefix("www."), path, urlencode(kept), "")))


def of_address(text: str) -> Id | None:
    """Return the identifier of a publication that an address of doi.org, arXiv, PubMed, PubMed Central or Semantic
    Scholar names; None for other addresses."""
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
    if host == "pubmed.ncbi.nlm.nih.gov":
        return pmid(last)
    if host in ("pmc.ncbi.nlm.nih.gov", "ncbi.nlm.nih.gov"):
        return pmcid(last)
    return s2(last) if host == "semanticscholar.org" else None
