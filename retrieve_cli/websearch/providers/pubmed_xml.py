"""Records of PubMed as items: `PubmedArticleSet` of efetch (https://dtd.nlm.nih.gov/ncbi/pubmed/doc/out/250101/)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from xml.etree.ElementTree import Element

from retrieve_cli.contracts.websearch import Id, Item, Response
from retrieve_cli.websearch import dates, ids, items
from retrieve_cli.websearch.replies import content, malformed, read_xml

PAGE = "https://pubmed.ncbi.nlm.nih.gov/"
_ARTICLE, _BOOK = "PubmedArticle", "PubmedBookArticle"
_RETRACTED_BY = frozenset({"RetractionIn", "RetractedandRepublishedIn"})
_ISSUE = re.compile(r"([0-9]{4})(?: ([A-Za-z]{3,9})(?: ([0-9]{1,2})(?![0-9]))?)?(.{0,60})")


def records(response: Response) -> Mapping[str, Item | None]:
    """Return the records by PMID; None for one that has no title.

    Raises:
        ProviderFailed: it is not a set of articles.
    """
    root = read_xml(response)
    if root.tag not in ("PubmedArticleSet", "PubmedBookArticleSet"):
        malformed("a PubmedArticleSet", response)
    known: dict[str, Item | None] = {}
    for element in root:
        if element.tag == _ARTICLE and (cited := element.find("MedlineCitation")) is not None:
            known.setdefault(_text(cited, "PMID"), _article(element, cited))
        elif element.tag == _BOOK and (document := element.find("BookDocument")) is not None:
            known.setdefault(_text(document, "PMID"), _chapter(document))
    return known


def sentence(title: str) -> str:
    """Return a title without what databases of the field add: a full stop, and brackets around a translation."""
    title = items.plain(title, items.TITLE)
    bare = title.removesuffix(".") if not title.endswith("..") else title
    return bare[1:-1] if bare.startswith("[") and bare.endswith("]") and "[" not in bare[1:] else bare


def issue_date(text: str) -> str:
    """Return the date of an issue as databases of the field write it, with the precision that it gives.

    `2023 Nov 5-12` is within a month; `2023 Nov-Dec`, `2023 Spring` and `1998 Dec-1999 Jan` only within a year.
    """
    found = _ISSUE.match(" ".join(text[:100].split()))
    if not found:
        return ""
    year, month, day, rest = found.groups()
    if any(char.isalpha() for char in rest):
        return dates.of_parts(year)
    return dates.of_parts(year, month or "", "" if rest else day or "")


def _article(record: Element, cited: Element) -> Item | None:
    pmid = _text(cited, "PMID")
    types = {content(kind) for kind in cited.iterfind("Article/PublicationTypeList/PublicationType")}
    references = cited.iterfind("CommentsCorrectionsList/CommentsCorrections")
    kinds = {reference.get("RefType", "") for reference in references}
    article = cited.find("Article")
    own = map(_identifier, record.iterfind("PubmedData/ArticleIdList/ArticleId"))  # references have separate lists
    places = (place for place in cited.iterfind("Article/ELocationID") if place.get("EIdType") == "doi")
    dois = (ids.doi(content(place)) for place in places if place.get("ValidYN", "Y") == "Y")
    return items.made(
        type="preprint" if "Preprint" in types else "dataset" if "Dataset" in types else "article",
        title=sentence(_text(cited, "Article/ArticleTitle")) or sentence(_text(cited, "Article/VernacularTitle")),
        ids_=[ids.pmid(pmid), *own, *dois],
        url=f"{PAGE}{pmid}/" if ids.pmid(pmid) else "",
        authors=_authors(cited.find("Article/AuthorList")),
        date=_date(cited.find("Article/ArticleDate")) or _date(cited.find("Article/Journal/JournalIssue/PubDate")),
        venue=_text(cited, "Article/Journal/Title") or _text(cited, "MedlineJournalInfo/MedlineTA"),
        abstract=_abstract(article.find("Abstract") if article is not None else None),
        retracted=True if "Retracted Publication" in types or kinds & _RETRACTED_BY else None,
    )


def _chapter(document: Element) -> Item | None:
    """Return a book of the NCBI Bookshelf, or a chapter of one, whose venue is the book."""
    pmid = _text(document, "PMID")
    chapter, book = _text(document, "ArticleTitle"), _text(document, "Book/BookTitle")
    authors = list(_authors(document.find("AuthorList"))) or list(_authors(document.find("Book/AuthorList")))
    return items.made(
        type="article",
        title=sentence(chapter or book),
        ids_=[ids.pmid(pmid), *map(_identifier, document.iterfind("ArticleIdList/ArticleId"))],
        url=f"{PAGE}{pmid}/" if ids.pmid(pmid) else "",
        authors=authors,
        date=_date(document.find("ContributionDate")) or _date(document.find("Book/PubDate")),
        venue=book if chapter else _text(document, "Book/Publisher/PublisherName"),
        abstract=_abstract(document.find("Abstract")),
    )


def _text(element: Element, path: str) -> str:
    return content(element.find(path)).strip()


def _identifier(element: Element) -> Id | None:
    kind, value = element.get("IdType"), content(element)
    return ids.doi(value) if kind == "doi" else ids.pmcid(value) if kind == "pmc" else None


def _authors(names: Element | None) -> Iterator[str]:
    """Yield the names of authors, and of groups."""
    for author in names.iterfind("Author") if names is not None else ():
        if author.get("ValidYN", "Y") == "N":  # an error, kept beside its correction
            continue
        family = _text(author, "LastName")
        given = _text(author, "ForeName") or _text(author, "Initials")
        parts = (given, family, _text(author, "Suffix")) if family else (_text(author, "CollectiveName"),)
        if any(parts):
            yield " ".join(part for part in parts if part)


def _abstract(element: Element | None) -> str:
    """Return the paragraphs of an abstract, each with its label if it has one: `METHODS: …`."""
    written = []
    for paragraph in element.iterfind("AbstractText") if element is not None else ():
        label, text = paragraph.get("Label", "").strip(), content(paragraph).strip()
        written.append(f"{label}: {text}" if text and label and label.upper() != "UNLABELLED" else text)
    return " ".join(text for text in written if text)


def _date(element: Element | None) -> str:
    if element is None:
        return ""
    if year := _text(element, "Year"):
        return dates.of_parts(year, _text(element, "Month"), _text(element, "Day"))
    return issue_date(_text(element, "MedlineDate"))
