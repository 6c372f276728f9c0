"""Records of PubMed for tests, as XML that the DTD of PubMed permits."""

from xml.sax.saxutils import escape

from websearch.taped import AT

from retrieve_cli.contracts.websearch import Response

DOCTYPE = (
    '<!DOCTYPE PubmedArticleSet PUBLIC "-//NLM//DTD PubMedArticle, 1st January 2025//EN" '
    '"https://dtd.nlm.nih.gov/ncbi/pubmed/out/pubmed_250101.dtd">'
)


def article(
    *,
    pmid: str,
    title: str,
    authors: tuple[tuple[str, ...], ...] = (),
    abstract: tuple[tuple[str, str], ...] = (),
    issue: tuple[str, ...] = ("2020",),
    electronic: tuple[str, ...] = (),
    types: tuple[str, ...] = (),
    updated_in: str = "",
) -> str:
    """Return the XML of a record that its DTD permits; title and paragraphs are XML, names are text."""

    def date(parts: tuple[str, ...]) -> str:
        names = ("Year", "Month", "Day")
        return "".join(f"<{name}>{part}</{name}>" for name, part in zip(names, parts, strict=False))

    people = "".join(
        f"<Author><CollectiveName>{escape(name[0])}</CollectiveName></Author>"
        if len(name) == 1
        else f"<Author><LastName>{escape(name[1])}</LastName><ForeName>{escape(name[0])}</ForeName></Author>"
        for name in authors
    )
    paragraphs = "".join(
        f'<AbstractText Label="{label}">{text}</AbstractText>' if label else f"<AbstractText>{text}</AbstractText>"
        for label, text in abstract
    )
    kinds = "".join(f"<PublicationType UI='D0'>{name}</PublicationType>" for name in types)
    listed = f"<PublicationTypeList>{kinds}</PublicationTypeList>" if kinds else ""
    update = f"<RefSource>{updated_in}</RefSource><PMID Version='1'>99000050</PMID>"
    update = f"<CommentsCorrections RefType='UpdateIn'>{update}</CommentsCorrections>"
    references = f"<CommentsCorrectionsList>{update}</CommentsCorrectionsList>" if updated_in else ""
    online = f"<ArticleDate DateType='Electronic'>{date(electronic)}</ArticleDate>" if electronic else ""
    return (
        f"<PubmedArticle><MedlineCitation Status='MEDLINE'><PMID Version='1'>{pmid}</PMID><Article PubModel='Print'>"
        f"<Journal><JournalIssue CitedMedium='Print'><PubDate>{date(issue)}</PubDate></JournalIssue></Journal>"
        f"<ArticleTitle>{title}</ArticleTitle>{f'<Abstract>{paragraphs}</Abstract>' if paragraphs else ''}"
        f"{f'<AuthorList>{people}</AuthorList>' if people else ''}<Language>eng</Language>{listed}{online}</Article>"
        f"{references}</MedlineCitation></PubmedArticle>"
    )


def answer(xml: str) -> Response:
    """Return the XML as the answer of a server."""
    return Response(200, "text/xml", xml.encode(), AT, "0" * 64)
