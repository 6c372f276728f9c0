"""PubMed: what is sent, records as items, and failures that are never an empty page."""

import calendar
import html
import json
import re
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pytest
from hypothesis import given, settings, strategies as st
from websearch.answering import Answering
from websearch.taped import AT, Taped, body_of

from retrieve_cli.contracts.websearch import (
    Malformed,
    Page,
    ProviderFailed,
    Rate,
    RateLimited,
    Rejected,
    Response,
    WebQuery,
)
from retrieve_cli.contracts.works import Id, Item
from retrieve_cli.websearch.pubmed import PubMed, _without_unknown_tags
from retrieve_cli.websearch.pubmed_xml import issue_date, records, sentence
from retrieve_cli.websearch.syntax import balanced

QUERY = WebQuery("guides", 3)
HTML = (
    b"<!DOCTYPE html><html><head><title>Error</title></head><body>The server is temporarily unavailable</body></html>"
)
FOUND = {"esearchresult": {"count": "2", "idlist": ["99000001", "99000002"]}}
DOCTYPE = (
    '<!DOCTYPE PubmedArticleSet PUBLIC "-//NLM//DTD PubMedArticle, 1st January 2025//EN" '
    '"https://dtd.nlm.nih.gov/ncbi/pubmed/out/pubmed_250101.dtd">'
)


@pytest.fixture
def page() -> Page:
    taped = Taped("pubmed")
    return PubMed().search(taped.query, taped)


@pytest.fixture(scope="module")
def entrez(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Biopython's reader, with the DTDs of its own installation."""
    module = pytest.importorskip("Bio.Entrez", reason="biopython is not installed")
    module.local_cache = str(tmp_path_factory.mktemp("entrez"))
    return module


def by_pmid(page: Page, pmid: str) -> Item:
    return next(item for item in page.items if Id("pmid", pmid) in item.ids)


def answer(xml: str) -> Response:
    return Response(200, "text/xml", xml.encode(), AT, "0" * 64)


def failure(*answers: Any) -> Any:
    with pytest.raises(ProviderFailed) as failed:
        PubMed().search(QUERY, Answering(*answers))
    return failed.value.failure


# ----------------------------------------------------------------------------------------------- what is sent


def test_a_question_is_sent_with_its_operators_and_its_date_and_the_page_says_so(page: Page) -> None:
    assert page.query == '"guide RNA"[tiab] mismatch xqzzy (datetype=pdat, mindate=2019/06, maxdate=3000)'


def test_results_have_the_order_of_the_search_whatever_that_of_the_records(page: Page) -> None:
    pmids = [next(one.value for one in item.ids if one.kind == "pmid") for item in page.items]
    assert pmids == ["99000003", "99000001", "99000007", "99000002", "99000004", "99000005", "99000006"]
    assert page.total == 41


def test_credentials_and_the_contact_address_are_places_and_never_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCBI_API_KEY", "a-secret-key")
    monkeypatch.setenv("NCBI_EMAIL", "someone@example.org")
    taped = Taped("pubmed")
    PubMed().search(taped.query, taped)
    assert len(taped.calls) == 2
    for call in taped.calls:
        assert call.parameters["tool"] == "retrieve-cli"
        assert {(place.variable, place.name, place.where) for place in call.keys} == {
            ("NCBI_EMAIL", "email", "parameter"),
            ("NCBI_API_KEY", "api_key", "parameter"),
        }
        assert "secret" not in repr(call)
        assert "someone" not in repr(call)


def test_the_rate_is_higher_with_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NCBI_API_KEY", raising=False)
    assert PubMed().rate == Rate(3, 1.0)
    monkeypatch.setenv("NCBI_API_KEY", "a-key")
    assert PubMed().rate == Rate(10, 1.0)


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ('"base editing"[ti] AND (human OR mouse)', '"base editing"[ti] AND (human OR mouse)'),
        ("cancer[mh:noexp] gene[Title/Abstract:~3]", "cancer[mh:noexp] gene[Title/Abstract:~3]"),
        ("2020:2023[dp] NOT review[pt]", "2020:2023[dp] NOT review[pt]"),
        ("“smart quotes” stay", '"smart quotes" stay'),
        ('an "unfinished phrase', "an unfinished phrase"),
        ("one) of (these", "one of these"),
        ("((nested) once", "(nested) once"),
        ("((a) OR ((b c)))", "((a) OR ((b c)))"),
        ("nothing () between", "nothing between"),
        ("[18F]FDG uptake", "18F FDG uptake"),
        ("benzo[a]pyrene adducts", "benzo a pyrene adducts"),
        ("open [bracket", "open bracket"),
        ("gene #1", "gene 1"),
        ("AND a word OR", "a word"),
    ],
)
def test_operators_stay_and_what_does_not_balance_is_text(text: str, sent: str) -> None:
    fetch = Answering({"esearchresult": {"count": "0", "idlist": []}})
    page = PubMed().search(WebQuery(text, 5), fetch)
    assert fetch.calls[0].parameters["term"] == sent
    assert page.query == sent


@given(st.text(alphabet='ab ()[]{}"“”#\\ANDORT:*', max_size=40))
def test_every_question_balances_and_keeps_its_words(text: str) -> None:
    sent = balanced(text, _without_unknown_tags)
    assert sent.count('"') % 2 == 0
    depth = 0
    for char in re.sub(r'"[^"]*"', "", sent):
        depth += {"(": 1, ")": -1}.get(char, 0)
        assert depth >= 0
    assert depth == 0
    words = [word for word in re.findall(r"[^\W_]+", text) if word not in ("AND", "OR", "NOT")]
    assert [word for word in re.findall(r"[^\W_]+", sent) if word not in ("AND", "OR", "NOT")] == words
    assert balanced(sent, _without_unknown_tags) == sent


@pytest.mark.parametrize("text", ['"', "()", "[]", "AND", "…", '" "'])
def test_a_question_without_a_word_fails_before_anything_is_sent(text: str) -> None:
    fetch = Answering()
    with pytest.raises(ProviderFailed) as failed:
        PubMed().search(WebQuery(text, 5), fetch)
    assert isinstance(failed.value.failure, Rejected)
    assert fetch.calls == []


def test_categories_are_skipped_with_a_notice() -> None:
    fetch = Answering({"esearchresult": {"count": "0", "idlist": []}})
    page = PubMed().search(WebQuery("guides", 5, categories=("q-bio",)), fetch)
    assert [notice for notice in page.notices if "categories" in notice]


# ----------------------------------------------------------------------------------------------- records as items


def test_an_abstract_is_complete_with_the_labels_of_its_parts_and_without_markup(page: Page) -> None:
    item = by_pmid(page, "99000001")
    assert item.title == "Mismatch tolerance of guide RNAs in Exempla ficta: CO2 stress & repair at p < 0.01"
    assert item.abstract == (
        "BACKGROUND: Guides tolerate some mismatches, and nobody counts them the same way. "
        "METHODS: We invented 1,200 guides in E. ficta and counted edits. "
        "RESULTS: Tolerance fell with distance from the seed (r=0.8). Code is at https://example.org/guides."
    )


def test_authors_are_people_with_suffixes_and_groups_without_withdrawn_spellings(page: Page) -> None:
    item = by_pmid(page, "99000001")
    assert item.authors == ("Inês M Ferreira", "Chidi Okafor", "Nils Lindqvist Jr", "Guide RNA Example Consortium")
    assert item.first_family == "Ferreira"
    assert by_pmid(page, "99000004").authors == ("P Novak",)


def test_identifiers_are_those_of_the_article_and_not_of_what_it_cites(page: Page) -> None:
    ids = {one for one in by_pmid(page, "99000001").ids if one.kind != "url"}
    assert ids == {Id("pmid", "99000001"), Id("pmcid", "PMC99000001"), Id("doi", "10.5555/jig.2024.0301")}


def test_an_identifier_that_is_marked_as_wrong_is_not_taken() -> None:
    places = "<ELocationID EIdType='doi' ValidYN='N'>10.5555/wrong</ELocationID>"
    places += "<ELocationID EIdType='pii' ValidYN='Y'>S0000</ELocationID>"
    places += "<ELocationID EIdType='doi' ValidYN='Y'>10.5555/right</ELocationID>"
    xml = article(pmid="99000001", title="Guides").replace("<Language>", f"{places}<Language>")
    item = records(answer(f"<PubmedArticleSet>{xml}</PubmedArticleSet>"))["99000001"]
    assert item is not None
    assert [one.value for one in item.ids if one.kind == "doi"] == ["10.5555/right"]


def test_a_date_has_the_precision_that_the_record_gives(page: Page) -> None:
    dates = {pmid: by_pmid(page, pmid).date for pmid in (f"9900000{number}" for number in range(1, 8))}
    assert dates == {
        "99000001": "2024-02-09",  # electronic, before the issue of March
        "99000002": "2023-02-03",
        "99000003": "2024-04",
        "99000004": "2020-12-01",
        "99000005": "2022",  # Nov-Dec
        "99000006": "2021",  # Summer
        "99000007": "2023-08-07",
    }


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("2023 Nov-Dec", "2023"),
        ("2023 Nov 5-12", "2023-11"),
        ("2023 Nov 5", "2023-11-05"),
        ("2023 Sept", "2023-09"),
        ("1998 Dec-1999 Jan", "1998"),
        ("1978-1979", "1978"),
        ("2000 Spring", "2000"),
        ("2000 Nov 31", "2000-11"),
        ("2015", "2015"),
        ("Winter", ""),
        ("", ""),
    ],
)
def test_a_date_of_an_issue_is_as_precise_as_its_text(text: str, date: str) -> None:
    assert issue_date(text) == date


def test_types_distinguish_preprints_datasets_and_comments_from_articles(page: Page) -> None:
    types = {item.ids[0].value: item.type for item in page.items}
    assert types == {
        "99000001": "article",
        "99000002": "preprint",
        "99000003": "review",
        "99000004": "article",
        "99000005": "article",  # a review article
        "99000006": "dataset",
        "99000007": "article",
    }


def test_a_preprint_and_its_article_are_related_both_ways(page: Page) -> None:
    published = {other for kind, other in by_pmid(page, "99000002").relations if kind == "published_as"}
    assert published == {Id("pmid", "99000001"), Id("doi", "10.5555/jig.2024.0301")}
    versions = {other for kind, other in by_pmid(page, "99000001").relations if kind == "version_of"}
    assert versions == {Id("pmid", "99000002"), Id("doi", "10.1101/2023.02.03.999001")}


def test_a_later_preprint_of_a_preprint_is_a_version_and_not_its_publication() -> None:
    xml = article(pmid="99000001", title="Guides", types=("Preprint",), updated_in="Res Sq. 2023 May 1:rs.3.rs-999001.")
    item = records(answer(f"<PubmedArticleSet>{xml}</PubmedArticleSet>"))["99000001"]
    assert item is not None
    assert item.relations == (("version_of", Id("pmid", "99000050")),)


def test_a_comment_reviews_the_article_and_is_not_a_version_of_it(page: Page) -> None:
    assert ("reviews", Id("pmid", "99000001")) in by_pmid(page, "99000003").relations
    assert ("reviewed_by", Id("pmid", "99000003")) in by_pmid(page, "99000001").relations


def test_a_retraction_is_reported_and_its_absence_is_not_a_claim(page: Page) -> None:
    assert by_pmid(page, "99000004").retracted is True
    assert by_pmid(page, "99000001").retracted is None


def test_a_chapter_of_a_book_has_the_book_as_venue(page: Page) -> None:
    item = by_pmid(page, "99000007")
    assert (item.title, item.venue) == ("Mismatches at the Bench", "Handbook of Imaginary Guides")
    assert item.authors == ("Claire Moreau",)


def test_a_whole_book_has_its_editors_its_date_and_its_publisher() -> None:
    xml = (
        "<PubmedBookArticle><BookDocument><PMID>99000001</PMID><Book><Publisher><PublisherName>Press</PublisherName>"
        "</Publisher><BookTitle>Handbook</BookTitle><PubDate><Year>2024</Year><Month>01</Month></PubDate>"
        "<AuthorList><Author><LastName>Sato</LastName><ForeName>Emi</ForeName></Author></AuthorList></Book>"
        "</BookDocument></PubmedBookArticle>"
    )
    item = records(answer(f"<PubmedArticleSet>{xml}</PubmedArticleSet>"))["99000001"]
    assert item is not None
    assert (item.title, item.authors, item.date, item.venue) == ("Handbook", ("Emi Sato",), "2024-01", "Press")


@pytest.mark.parametrize(
    ("given_title", "shown"),
    [
        ("A title.", "A title"),
        ("[A translation].", "A translation"),
        ("[a] and [b].", "[a] and [b]"),
        ("Why...", "Why..."),
    ],
)
def test_a_title_is_without_the_full_stop_and_brackets_of_the_database(given_title: str, shown: str) -> None:
    assert sentence(given_title) == shown


def test_a_record_that_is_missing_or_has_no_title_is_a_notice(page: Page) -> None:
    assert [notice for notice in page.notices if "99000008" in notice]
    body = article(pmid="99000001", title="") + article(pmid="99000002", title="Guides")
    found = PubMed().search(QUERY, Answering(FOUND, f"<PubmedArticleSet>{body}</PubmedArticleSet>".encode()))
    assert [item.title for item in found.items] == ["Guides"]
    assert [notice for notice in found.notices if "99000001" in notice]


def test_words_that_pubmed_drops_are_notices(page: Page) -> None:
    assert "PubMed does not know “xqzzy” and searched without it" in page.notices


# ----------------------------------------------------------------------------------------------- failures


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (HTML, Malformed),
        (b"", Malformed),
        (b'{"esearchresult": {"count": "2", "idlist": ["990', Malformed),
        (b"[]", Malformed),
        (b'{"header": {"type": "esearch"}}', Malformed),
        (b'{"esearchresult": {"count": "2", "idlist": []}}', Malformed),
        (b'{"esearchresult": {"count": "1", "idlist": ["<html>"]}}', Malformed),
        (b'{"esearchresult": {"idlist": ["99000001"]}}', Malformed),
        (b'{"esearchresult": {"ERROR": "Search Backend failed: no response"}}', Rejected),
        (b'{"error": "error forwarding request", "api-key": "a-secret-key"}', Rejected),
        (b"<eSearchResult><ERROR>Empty term</ERROR></eSearchResult>", Rejected),
        (b'{"error": "API rate limit exceeded", "api-key": "a-secret-key", "count": "4"}', RateLimited),
        (b'{"error": "API rate limit exceeded", "api-key": "a-secret-key', Malformed),
    ],
)
def test_a_search_without_a_result_is_a_failure_with_a_reason(body: bytes, kind: type) -> None:
    said = failure(body)
    assert isinstance(said, kind)
    assert str(said)
    assert "secret" not in str(said)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (HTML, Malformed),
        (b"", Malformed),
        (b"<PubmedArticleSet><PubmedArticle>", Malformed),
        (b"<PubmedArticleSet></PubmedArticleSet>", Malformed),
        (b"<eSummaryResult></eSummaryResult>", Malformed),
        (b'<!DOCTYPE a [<!ENTITY b "c">]><PubmedArticleSet>&b;</PubmedArticleSet>', Malformed),
        (b"<eFetchResult><ERROR>Unable to obtain query #1</ERROR></eFetchResult>", Rejected),
        (b'{"error": "API rate limit exceeded", "api-key": "a-secret-key"}', RateLimited),
        (b'{"error": "no", "api-key": "a-secret-key"}', Rejected),
    ],
)
def test_records_that_do_not_come_are_a_failure_and_not_an_empty_page(body: bytes, kind: type) -> None:
    said = failure(FOUND, body)
    assert isinstance(said, kind)
    assert "secret" not in str(said)


def test_a_rate_limit_of_either_request_stays_one() -> None:
    assert failure(RateLimited(2.0)) == RateLimited(2.0)
    assert failure(FOUND, RateLimited(None)) == RateLimited(None)


def test_nothing_found_is_an_empty_page_and_one_request() -> None:
    nothing = {"count": "0", "idlist": [], "warninglist": {"outputmessages": ["No items found."]}}
    fetch = Answering({"esearchresult": nothing})
    page = PubMed().search(QUERY, fetch)
    assert (page.items, page.total, page.notices) == ((), 0, ())
    assert len(fetch.calls) == 1


# ----------------------------------------------------------------------------------------------- beside biopython


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


WORD = st.sampled_from(
    [
        "guide",
        "RNA",
        "Ångström",
        "β-catenin",
        "p &lt; 0.05",
        "A &amp; B",
        "<i>E. ficta</i>",
        "CO<sub>2</sub>",
        "中文",
        "3'",
    ]
)
LINE = st.lists(WORD, min_size=1, max_size=6).map(" ".join)
NAME = st.text(alphabet="aéñ'-王 .", min_size=1, max_size=8).map(lambda name: f"N{name}".strip())
YEAR = st.integers(1800, 2100).map(str)
MONTH = st.integers(1, 12).map(lambda number: f"{number:02}") | st.sampled_from(calendar.month_abbr[1:])
DAY = st.integers(1, 28).map(str)
DATE = st.tuples(YEAR) | st.tuples(YEAR, MONTH) | st.tuples(YEAR, MONTH, DAY)
ARTICLES = st.lists(
    st.fixed_dictionaries(
        {
            "pmid": st.integers(1, 10**8).map(str),
            "title": LINE,
            "authors": st.lists(st.tuples(NAME) | st.tuples(NAME, NAME), max_size=4).map(tuple),
            "abstract": st.lists(st.tuples(st.sampled_from(["", "METHODS"]), LINE), max_size=3).map(tuple),
            "issue": DATE,
            "electronic": st.just(()) | st.tuples(YEAR, MONTH, DAY),
        }
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda parts: parts["pmid"],
)


def shown(text: str) -> str:
    """Return a text of biopython, which keeps tags and escapes, as a reader sees it."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", text)).split())


def written_date(parts: Mapping[str, str]) -> str:
    month = parts.get("Month", "")
    names = {name: number for number, name in enumerate(calendar.month_abbr)}
    numbers = [int(parts["Year"]), names.get(month) or int(month)] if month else [int(parts["Year"])]
    numbers += [int(parts["Day"])] if "Day" in parts else []
    return "-".join(f"{number:02}" for number in numbers)


def described(cited: Any) -> tuple[Any, ...]:
    """Return PMID, title, authors, abstract and date of a record of biopython."""
    one = cited["Article"]
    authors = [
        " ".join(
            filter(None, (person.get("ForeName") or person.get("Initials"), person["LastName"], person.get("Suffix")))
        )
        if "LastName" in person
        else str(person["CollectiveName"])
        for person in one.get("AuthorList", [])
        if person.attributes.get("ValidYN") != "N"
    ]
    paragraphs = [
        f"{label}: {shown(text)}"
        if (label := text.attributes.get("Label", "UNLABELLED")) != "UNLABELLED"
        else shown(text)
        for text in one.get("Abstract", {}).get("AbstractText", [])
    ]
    issue = one["Journal"]["JournalIssue"]["PubDate"]
    dates = [parts for parts in (*one["ArticleDate"], issue) if "Year" in parts and "Season" not in parts]
    date = written_date(dates[0]) if dates else None
    return str(cited["PMID"]), shown(one["ArticleTitle"]), authors, " ".join(paragraphs), date


def assert_reads_the_same(xml: str, entrez: Any) -> int:
    """Compare each record with biopython's, and return their number."""
    theirs = entrez.read(BytesIO(xml.encode()), escape=True)["PubmedArticle"]
    ours = records(answer(xml))
    for record in theirs:
        pmid, title, authors, abstract, date = described(record["MedlineCitation"])
        item = ours[pmid]
        assert item is not None
        assert Id("pmid", pmid) in item.ids
        assert item.title == sentence(title)
        assert list(item.authors) == [" ".join(name.split()) for name in authors]
        assert item.abstract == abstract
        assert date is None or item.date == date
    return len(theirs)


def test_the_recorded_records_read_as_with_biopython(entrez: Any) -> None:
    exchange = next(one for one in Taped("pubmed").file["exchanges"] if one["request"]["url"].endswith("efetch.fcgi"))
    assert assert_reads_the_same(body_of(exchange["response"]).decode(), entrez) == 6


@settings(deadline=None, max_examples=60)
@given(articles=ARTICLES)
def test_generated_records_read_as_with_biopython(entrez: Any, articles: list[dict[str, Any]]) -> None:
    body = "".join(article(**parts) for parts in articles)
    xml = f'<?xml version="1.0"?>\n{DOCTYPE}\n<PubmedArticleSet>{body}</PubmedArticleSet>'
    assert assert_reads_the_same(xml, entrez) == len(articles)


def test_recorded_exchanges_have_neither_keys_nor_addresses() -> None:
    text = (Path(__file__).parent / "providers" / "pubmed.json").read_text("utf-8")
    requests = [one["request"] for one in json.loads(text)["exchanges"]]
    assert not any({"api_key", "email"} & set(request["parameters"]) for request in requests)
