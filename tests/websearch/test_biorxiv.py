"""bioRxiv: keywords through Europe PMC, published versions from its own API, and failures that are never silence."""

from typing import Any

import pytest
from websearch.answering import Answering, failure as failure_of
from websearch.taped import Taped

from retrieve_cli.contracts.websearch import (
    Page,
    RateLimited,
    Timeout,
    Unreachable,
)
from retrieve_cli.contracts.works import Id, Item
from retrieve_cli.websearch.providers.biorxiv import BioRxiv, Published

FIRST, SECOND, UNKNOWN = "10.1101/2023.02.03.999001", "10.64898/2026.01.05.26999002", "10.1101/999003"
NONE = {"messages": [{"status": "no posts found"}], "collection": []}
HTML = b"<html><head><title>Error 522</title></head><body>Origin is unreachable</body></html>"


def item(doi: str, venue: str = "") -> Item:
    return Item("preprint", "Guides", (Id("doi", doi),), venue=venue)


def record(doi: str, **fields: Any) -> dict[str, Any]:
    version = {"doi": doi, "title": "Guides", "authors": "Ferreira, I. M.", "date": "2023-02-03", "version": "1"}
    return {"messages": [{"status": "ok"}], "collection": [{**version, "published": "NA", **fields}]}


def enriched(*dois: str, answers: tuple[Any, ...]) -> Page:
    page = Published().enrich([item(doi) for doi in dois], Answering(*answers))
    assert page is not None
    return page


@pytest.fixture
def found() -> Page:
    page = Published().enrich([item(FIRST), item(SECOND), item(UNKNOWN)], Taped("biorxiv-enrich"))
    assert page is not None
    return page


# ----------------------------------------------------------------------------------------------- keywords


def test_keywords_ask_europe_pmc_for_preprints_of_both_servers() -> None:
    taped = Taped("biorxiv")
    page = BioRxiv().search(taped.query, taped)
    assert page.query == (
        "(guide RNA mismatch) AND FIRST_PDATE:[2023-01-01 TO 3000-12-31] "
        'AND SRC:PPR AND (PUBLISHER:"bioRxiv" OR PUBLISHER:"medRxiv")'
    )
    assert [(one.type, one.venue) for one in page.items] == [("preprint", "bioRxiv"), ("preprint", "medRxiv")]
    assert [one.license for one in page.items] == ["", "CC-BY-NC-ND-4.0"]
    assert {call.url for call in taped.calls} == {"https://www.ebi.ac.uk/europepmc/webservices/rest/search"}


# ----------------------------------------------------------------------------------------------- published versions


def test_a_preprint_that_was_published_names_its_article(found: Page) -> None:
    assert found.items[0].relations == (("published_as", Id("doi", "10.5555/jig.2024.0301")),)
    assert found.items[1].relations == ()


def test_the_latest_version_describes_a_preprint_and_the_first_one_dates_it(found: Page) -> None:
    preprint = found.items[0]
    assert [one.venue for one in found.items] == ["bioRxiv", "medRxiv"]
    assert (preprint.title, preprint.version) == ("Guide RNAs in Exempla ficta tolerate mismatches", "2")
    assert preprint.date == "2023-02-03"
    assert preprint.url == f"https://www.biorxiv.org/content/{FIRST}v2"
    assert preprint.pdf_url == f"https://www.biorxiv.org/content/{FIRST}v2.full.pdf"
    assert (preprint.authors, preprint.first_family) == (("I. M. Ferreira", "C. Okafor"), "Ferreira")


def test_versions_are_ordered_by_number_and_not_by_text() -> None:
    versions = [{"version": version, "title": f"Version {version}"} for version in ("10", "9", "2")]
    answer = record(FIRST)
    answer["collection"] = [{**answer["collection"][0], **version} for version in versions]
    assert enriched(FIRST, answers=(answer,)).items[0].title == "Version 10"


@pytest.mark.parametrize(
    ("named", "license_", "open_access"),
    [
        ("cc_by", "CC-BY-4.0", True),
        ("cc_by_nc_nd", "CC-BY-NC-ND-4.0", True),
        ("cc0", "CC0-1.0", True),
        ("cc_no", "all rights reserved", None),
        ("something_new", "something_new", None),
        ("", "", None),
    ],
)
def test_a_licence_has_the_name_of_its_standard(named: str, license_: str, open_access: bool | None) -> None:
    preprint = enriched(FIRST, answers=(record(FIRST, license=named),)).items[0]
    assert (preprint.license, preprint.open_access) == (license_, open_access)


def test_a_withdrawn_preprint_is_retracted() -> None:
    assert enriched(FIRST, answers=(record(FIRST, type="WITHDRAWN"),)).items[0].retracted is True
    assert enriched(FIRST, answers=(record(FIRST, type="new results"),)).items[0].retracted is None


@pytest.mark.parametrize(
    ("doi", "venue", "asked"),
    [
        (FIRST, "", f"biorxiv/{FIRST}"),
        (SECOND, "", f"medrxiv/{SECOND}"),
        ("10.1101/2020.03.04.20031112", "", "medrxiv/10.1101/2020.03.04.20031112"),
        ("10.1101/19000001", "medRxiv", "medrxiv/10.1101/19000001"),
        (UNKNOWN, "", f"biorxiv/{UNKNOWN}"),
        (f"{FIRST}v3", "", f"biorxiv/{FIRST}"),
    ],
)
def test_a_preprint_is_asked_for_at_its_own_server(doi: str, venue: str, asked: str) -> None:
    fetch = Answering(NONE)
    Published().enrich([item(doi, venue)], fetch)
    assert [call.url for call in fetch.calls] == [f"https://api.biorxiv.org/details/{asked}/na/json"]


def test_other_dois_are_not_looked_up() -> None:
    others = ("10.1101/gr.123456.111", "10.5555/jig.2024.0301", "10.48550/arxiv.2401.00001", "10.1101/2023.02.03.99")
    fetch = Answering()
    assert Published().enrich([item(doi) for doi in others], fetch) is None
    assert Published().enrich([], fetch) is None
    assert fetch.calls == []


def test_each_preprint_is_looked_up_once_and_ten_at_most_with_a_notice() -> None:
    dois = [f"10.1101/2023.02.03.99900{number}" for number in range(10)] + ["10.1101/2023.02.03.999010", FIRST]
    fetch = Answering(*[NONE] * 10)
    page = Published().enrich([item(doi) for doi in dois], fetch)
    assert page is not None
    assert len(fetch.calls) == 10
    assert [notice for notice in page.notices if "first 10 of 11" in notice]


def test_a_preprint_that_the_server_does_not_have_is_a_notice(found: Page) -> None:
    assert len(found.items) == 2
    assert [notice for notice in found.notices if UNKNOWN in notice]


def test_the_page_says_which_preprints_were_looked_up(found: Page) -> None:
    assert found.query == f"{FIRST} {SECOND} {UNKNOWN}"


# ----------------------------------------------------------------------------------------------- failures


def test_facts_that_came_before_a_failure_stay_and_the_failure_is_a_notice() -> None:
    page = enriched(FIRST, SECOND, UNKNOWN, answers=(record(FIRST), HTML, NONE))
    assert len(page.items) == 1
    assert [notice for notice in page.notices if "1 of 3 preprints" in notice]


@pytest.mark.parametrize("failure", [RateLimited(5.0), Timeout("it takes too long"), Unreachable("no connection")])
def test_a_failure_that_would_repeat_ends_the_requests(failure: Any) -> None:
    fetch = Answering(record(FIRST), failure)
    page = Published().enrich([item(FIRST), item(SECOND), item(UNKNOWN)], fetch)
    assert page is not None
    assert len(fetch.calls) == 2
    assert [notice for notice in page.notices if "2 of 3 preprints" in notice and str(failure) in notice]
    assert failure_of(lambda fetch: Published().enrich([item(FIRST)], fetch), failure) == failure
