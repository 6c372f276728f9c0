"""Europe PMC: what is sent, results as items, and failures that are never an empty page."""

from typing import Any

import pytest
from hypothesis import given, strategies as st
from websearch.answering import Answering, json_values
from websearch.taped import Taped

from retrieve_cli.contracts.websearch import Page, ProviderFailed, WebQuery
from retrieve_cli.contracts.works import Id, Item
from retrieve_cli.websearch.providers.europepmc import EuropePmc, item

PROVIDER = "europepmc"
EMPTY = {"version": "6.9", "hitCount": 0, "resultList": {"result": []}}


def sent(text: str, since: str = "") -> str:
    fetch = Answering(EMPTY)
    page = EuropePmc().search(WebQuery(text, 5, since), fetch)
    assert fetch.calls[0].parameters["query"] == page.query
    return page.query


def made(**fields: Any) -> Item:
    described = item({"id": "99000011", "source": "MED", "pmid": "99000011", "title": "Guides", **fields})
    assert described is not None
    return described


# ----------------------------------------------------------------------------------------------- what is sent


def test_a_question_is_sent_without_patents_and_with_its_date() -> None:
    for since, first in (("2024-03", "2024-03-01"), ("2024", "2024-01-01"), ("2024-03-05", "2024-03-05")):
        assert sent("guide RNA", since) == f"(guide RNA) AND FIRST_PDATE:[{first} TO 3000-12-31] NOT SRC:PAT"


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ('AUTH:"Smith J" AND PUB_YEAR:[2020 TO 2024]', 'AUTH:"Smith J" AND PUB_YEAR:[2020 TO 2024]'),
        ("DOI:10.5555/jig.2024.0301", "DOI:10.5555/jig.2024.0301"),
        ("(a OR b) NOT gene*", "(a OR b) NOT gene*"),
        ("CRISPR: does it cut?", "CRISPR does it cut"),
        ("NOTAFIELD:x y", "NOTAFIELD x y"),
        ("NOTAFIELD:[1 TO 2]", "NOTAFIELD 1 TO 2"),
        ("-minus COVID-19 (-x)", "minus COVID-19 ( x)"),
        ("*omics [18F]FDG x^2 ~y", "omics 18F FDG x 2 y"),
        ('an "unfinished (phrase', "an unfinished phrase"),
        ("ending with AUTH:", "ending with AUTH"),
        ('ending with AUTH:"', "ending with AUTH"),
    ],
)
def test_documented_fields_and_operators_stay_and_other_syntax_is_text(text: str, asked: str) -> None:
    assert sent(text) == f"({asked}) NOT SRC:PAT"


@given(st.text(alphabet='ab ()[]{}"“\\^~*?!+-:&|TOAUH_', max_size=40))
def test_every_question_balances(text: str) -> None:
    fetch = Answering(EMPTY)
    try:
        query = EuropePmc().search(WebQuery(text, 5), fetch).query
    except ProviderFailed:
        assert fetch.calls == []
        assert not any(char.isalnum() for char in text.replace("AND", "").replace("OR", ""))
        return
    assert query.count('"') % 2 == 0
    assert query.count("(") == query.count(")")
    assert not set("{}^~\\!?+&|") & set(query)


@pytest.mark.usefixtures("page")
def test_one_request_asks_for_full_descriptions(taped: Taped) -> None:
    (call,) = taped.calls
    assert (call.parameters["resultType"], call.parameters["pageSize"]) == ("core", str(taped.query.k))
    assert call.keys == ()


# ----------------------------------------------------------------------------------------------- results as items


def test_an_article_has_all_that_europe_pmc_says_of_it(page: Page) -> None:
    article = page.items[0]
    assert article.type == "article"
    assert article.title == "Mismatch tolerance of guide RNAs in Exempla ficta: CO2 stress & repair"
    assert {one for one in article.ids if one.kind != "url"} == {
        Id("doi", "10.5555/jig.2024.0301"),
        Id("pmid", "99000001"),
        Id("pmcid", "PMC99000001"),
    }
    assert article.authors == ("Inês M Ferreira", "Chidi Okafor", "Guide RNA Example Consortium")
    assert article.first_family == "Ferreira"
    assert article.venue == "Journal of Invented Genomics"
    assert (article.open_access, article.license, article.citations) == (True, "cc by", 17)
    assert article.pdf_url == "https://europepmc.org/articles/PMC99000001?pdf=render"
    assert article.url == "https://europepmc.org/article/MED/99000001"
    assert page.total == 1234


def test_headings_of_an_abstract_are_labels(page: Page) -> None:
    assert page.items[0].abstract == (
        "Background: Guides tolerate some mismatches. Results: Tolerance fell with distance from the seed."
    )
    markup = "<title>Methods</title><p>We <b>cut</b> in CO<sub>2</sub>.</p><p>Twice.</p>"
    assert made(abstractText=markup).abstract == "Methods: We cut in CO2. Twice."


def test_a_preprint_has_its_version_and_is_related_to_its_article_both_ways(page: Page) -> None:
    article, preprint = page.items[:2]
    assert (preprint.type, preprint.version, preprint.venue) == ("preprint", "2", "bioRxiv")
    assert ("published_as", Id("pmid", "99000001")) in preprint.relations
    assert ("version_of", Id("url", "https://europepmc.org/article/PPR/PPR999000")) in preprint.relations
    own = next(one for one in preprint.ids if one.kind == "url")
    assert own not in {other for _, other in preprint.relations}
    assert ("version_of", own) in article.relations


def test_a_comment_reviews_an_article_and_a_review_article_is_an_article(page: Page) -> None:
    comment = page.items[3]
    assert comment.type == "review"
    assert comment.relations == (("reviews", Id("pmid", "99000001")),)
    assert page.items[2].type == "article"


def test_a_retraction_is_reported_and_its_absence_is_not_a_claim(page: Page) -> None:
    assert page.items[4].retracted is True
    assert page.items[0].retracted is None
    assert made(pubTypeList={"pubType": ["Preprint", "preprint-withdrawal"]}).retracted is True
    assert made(pubTypeList={"pubType": ["Retraction of Publication"]}).retracted is None


def test_a_date_that_only_stands_for_an_issue_has_the_precision_of_the_issue(page: Page) -> None:
    assert [one.date for one in page.items] == ["2024-02-09", "2023-02-03", "1999", "2024-04", "2020-12-01"]


def test_an_article_outside_the_open_subset_may_be_open_elsewhere() -> None:
    assert made(isOpenAccess="N").open_access is None
    link = {"availabilityCode": "OA", "documentStyle": "html", "url": "https://example.org/full"}
    assert made(isOpenAccess="N", fullTextUrlList={"fullTextUrl": [link]}).open_access is True


def test_a_pdf_behind_a_subscription_is_not_offered() -> None:
    link = {"availabilityCode": "S", "documentStyle": "pdf", "url": "https://example.org/paid.pdf"}
    free = {"availabilityCode": "F", "documentStyle": "pdf", "url": "https://example.org/free.pdf"}
    assert made(fullTextUrlList={"fullTextUrl": [link]}).pdf_url == ""
    assert made(fullTextUrlList={"fullTextUrl": [link, free]}).pdf_url == "https://example.org/free.pdf"


def test_names_of_citations_are_put_in_order(page: Page) -> None:
    assert page.items[2].authors == ("J Brandt", "E Sato")
    assert page.items[2].first_family == "Brandt"
    given = "Ferreira van der Berg IM, Some Group."
    assert made(authorString=given).authors == ("IM Ferreira van der Berg", "Some Group")


def test_a_licence_of_biorxiv_is_that_of_creative_commons_4() -> None:
    assert made(license="cc by-nc", bookOrReportDetails={"publisher": "medRxiv"}).license == "CC-BY-NC-4.0"
    assert made(license="cc by-nc", bookOrReportDetails={"publisher": "Elsewhere"}).license == "cc by-nc"
    assert made(license="cc0", bookOrReportDetails={"publisher": "bioRxiv"}).license == "CC0-1.0"


def test_a_record_without_a_title_is_a_notice(page: Page) -> None:
    assert [notice for notice in page.notices if "CTX C999" in notice]
    assert len(page.items) == 5


@given(
    json_values(st.text(max_size=3)),
    st.sampled_from(
        "authorList authorString pubTypeList journalInfo fullTextUrlList commentCorrectionList versionList license "
        "citedByCount firstPublicationDate source id abstractText doi".split()
    ),
)
def test_a_field_of_another_shape_is_absent_and_the_record_stays(value: Any, key: str) -> None:
    assert made(**{key: value}).title == "Guides"
