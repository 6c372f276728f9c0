"""Crossref: declared relations, retractions and licences of DOIs, and failures."""

from typing import Any

import pytest
from hypothesis import given, strategies as st
from websearch.answering import Answering, failure, json_values
from websearch.taped import Taped

from retrieve_cli.contracts.websearch import Fetch, KeyPlace, Page, Rate, Rejected
from retrieve_cli.contracts.works import Id, Item
from retrieve_cli.websearch.providers.crossref import Crossref

CC = "https://creativecommons.org/licenses/by/4.0/"
ARTICLE, PREPRINT = "10.5555/jige.2024.0101", "10.1101/2024.13.45.999999"
NOTICE, RETRACTED = "10.5555/biotech.2025.n3", "10.5555/biotech.2024.7"
REVIEW = f"{ARTICLE}/v1/review2"


def item(*dois: str, title: str = "A title") -> Item:
    return Item(type="article", title=title, ids=tuple(Id("doi", doi) for doi in dois))


def listed(*records: Any) -> dict[str, Any]:
    return {"status": "ok", "message-type": "work-list", "message": {"total-results": len(records), "items": records}}


def enriched(body: Any) -> Page:
    page = lookup(Answering(body))
    assert page is not None
    return page


def lookup(fetch: Fetch) -> Page | None:
    return Crossref().enrich([item("10.5555/a.1")], fetch)


def read(**given_: Any) -> Item:
    record = {"DOI": "10.5555/A.1", "type": "journal-article", "title": ["A title"], **given_}
    (described,) = enriched(listed(record)).items
    return described


@pytest.fixture
def taped() -> dict[str, Item]:
    """Return the items of the recorded answer by DOI."""
    fetch = Taped("crossref-enrich")
    page = Crossref().enrich([item(one.removeprefix("doi:")) for one in fetch.file["ids"]], fetch)
    assert page is not None
    return {one.ids[0].value: one for one in page.items}


def relation(other: str, kind: str = "doi") -> dict[str, str]:
    return {"id-type": kind, "id": other, "asserted-by": "subject"}


# --------------------------------------------------------------------------------------------- the answer


def test_records_become_items(taped: dict[str, Item]) -> None:
    article = taped[ARTICLE]
    assert (article.type, article.date, article.citations) == ("article", "2024-06-11", 38)
    assert article.title == "Forecasting off-target cleavage with a mismatch-aware attention network"
    assert article.authors == ("Ilse Varga", "Tomás Ø. Quill", "Invented Screens Consortium")
    assert (article.first_family, article.venue) == ("Varga", "Journal of Invented Genome Editing")
    assert (article.license, article.open_access, article.retracted) == ("CC-BY-4.0", True, None)
    assert article.url == f"https://doi.org/{ARTICLE}"
    assert taped[PREPRINT].title == "Bulged sites dominate off-target cleavage in primary cells", "without markup"
    data = taped["10.5555/data.7781"]
    assert (data.type, data.title, data.date) == ("dataset", "A title", ""), "the title is that of the work"
    assert len(taped) == 6
    assert "10.5555/unknown.1" not in taped, "Crossref does not know it"


def test_a_preprint_and_its_article_are_related(taped: dict[str, Item]) -> None:
    assert taped[PREPRINT].type == "preprint"
    assert taped[PREPRINT].relations == (("preprint_of", Id("doi", "10.5555/cell.2025.31")),)
    assert ("version_of", Id("arxiv", "2401.99001")) in taped[ARTICLE].relations


def test_a_review_is_linked_in_both_directions(taped: dict[str, Item]) -> None:
    assert taped[REVIEW].type == "review"
    assert taped[REVIEW].relations == (("reviews", Id("doi", ARTICLE)),)
    assert ("reviewed_by", Id("doi", REVIEW)) in taped[ARTICLE].relations


def test_a_notice_is_linked_even_as_a_declared_version_and_retracts_the_article_alone(taped: dict[str, Item]) -> None:
    assert (taped[RETRACTED].retracted, taped[NOTICE].retracted) == (True, None)
    assert taped[NOTICE].type == "review"
    assert taped[NOTICE].relations == (("reviews", Id("doi", RETRACTED)),)
    assert taped[RETRACTED].relations == (("reviewed_by", Id("doi", NOTICE)),)


KINDS = {
    "preprint_of": "is-preprint-of",
    "version_of": "has-preprint is-version-of has-version is-manuscript-of",
    "same_as": "is-identical-to",
    "reviews": "is-review-of is-comment-on is-reply-to",
    "reviewed_by": "has-review has-comment has-reply",
}


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for kind, names in KINDS.items() for name in names.split()])
def test_relations_read_from_left_to_right(name: str, kind: str) -> None:
    assert read(relation={name: [relation("10.5555/B.2")]}).relations == ((kind, Id("doi", "10.5555/b.2")),)


@pytest.mark.parametrize("name", ["references", "is-supplemented-by", "is-part-of", "is-translation-of", "cites"])
def test_relations_of_other_works_are_not_read(name: str) -> None:
    assert read(relation={name: [relation("10.5555/b.2")]}).relations == ()


@pytest.mark.parametrize(
    ("entry", "other"),
    [
        (relation("https://doi.org/10.5555/B.2", "DOI"), Id("doi", "10.5555/b.2")),
        (relation("arXiv:2401.99001v2", "arxiv"), Id("arxiv", "2401.99001")),
        (relation("99000101", "pmid"), Id("pmid", "99000101")),
        (relation("PMC99000101", "pmcid"), Id("pmcid", "PMC99000101")),
        (relation("https://arxiv.org/abs/2401.99001", "uri"), Id("arxiv", "2401.99001")),
        (relation("https://example.org/a/", "uri"), Id("url", "https://example.org/a")),
    ],
)
def test_relations_name_works_by_identifiers_of_many_kinds(entry: dict[str, str], other: Id) -> None:
    assert read(relation={"is-preprint-of": [entry]}).relations == (("preprint_of", other),)


@pytest.mark.parametrize(
    "value",
    [
        {"is-version-of": [relation("10.5555/a.1")]},
        {"is-version-of": [relation("1234-5678", "issn"), relation("no DOI"), {}, None, "10.5555/b.2"]},
        {"is-version-of": "10.5555/b.2"},
        [],
        None,
    ],
)
def test_relations_to_itself_or_to_nothing_are_skipped(value: Any) -> None:
    assert read(relation=value).relations == ()


@pytest.mark.parametrize("kind", ["retraction", "withdrawal", "removal", "Retraction"])
def test_any_kind_of_retraction_counts(kind: str) -> None:
    assert read(**{"updated-by": [{"DOI": "10.5555/n.1", "type": kind}]}).retracted is True


@pytest.mark.parametrize("kind", ["correction", "erratum", "expression_of_concern", "partial_retraction", "addendum"])
def test_other_notices_are_linked_and_do_not_retract(kind: str) -> None:
    updated = read(**{"updated-by": [{"DOI": "10.5555/n.1", "type": kind}]})
    assert updated.retracted is None
    assert updated.relations == (("reviewed_by", Id("doi", "10.5555/n.1")),)


@pytest.mark.parametrize(
    ("doi", "kind", "retracted", "relations"),
    [
        ("10.5555/a.1", "withdrawal", True, ()),
        ("10.5555/a.0", "new_version", None, (("version_of", Id("doi", "10.5555/a.0")),)),
        ("10.5555/b.2", "version_of_record", None, ()),
    ],
    ids=["retracted in place", "a new version is not a notice", "an unknown kind says nothing"],
)
def test_an_update_retracts_or_relates_by_its_kind(doi: str, kind: str, retracted: object, relations: object) -> None:
    updated = read(**{"update-to": [{"DOI": doi, "type": kind}]})
    assert (updated.type, updated.retracted, updated.relations) == ("article", retracted, relations)


OTHER_TYPES = {"posted-content": "preprint", "peer-review": "review", "dataset": "dataset"}


@pytest.mark.parametrize("kind", ["journal-article", "proceedings-article", "book-chapter", "", *OTHER_TYPES])
def test_types_say_what_a_work_is(kind: str) -> None:
    assert read(type=kind).type == OTHER_TYPES.get(kind, "article")


def licence(url: str, version: str = "vor", *start: int) -> dict[str, Any]:
    return {"URL": url, "content-version": version, "start": {"date-parts": [list(start or (2024, 1, 1))]}}


@pytest.mark.parametrize(
    ("licences", "expected"),
    [
        ([licence(CC)], ("CC-BY-4.0", True)),
        ([licence("https://example.org/terms"), licence(CC, "am")], ("CC-BY-4.0", True)),
        ([licence("https://example.org/terms")], ("https://example.org/terms", None)),
        ([licence(CC, "tdm")], ("", None)),
        ([licence(CC, "vor", 2099, 1)], ("", None)),
        ([licence("https://creativecommons.org.example.org/licenses/by/4.0/")], None),
        ([], ("", None)),
        (None, ("", None)),
    ],
)
def test_licences_are_those_for_readers_that_apply(licences: Any, expected: tuple[str, bool | None] | None) -> None:
    described = read(license=licences)
    if expected is None:
        assert described.open_access is None
    else:
        assert (described.license, described.open_access) == expected


@pytest.mark.parametrize("parts", [[2024, 3, 5], [2024, 3], [2024]], ids=str)
def test_dates_have_the_precision_that_is_declared(parts: list[int]) -> None:
    assert read(issued={"date-parts": [parts]}).date == "-".join(f"{part:02}" for part in parts)


@pytest.mark.parametrize("parts", [[[None]], [], None], ids=str)
def test_a_date_without_parts_is_none(parts: Any) -> None:
    assert read(issued={"date-parts": parts}).date == ""


# --------------------------------------------------------------------------------------------- the question


def test_dois_are_looked_up_fifty_at_a_time_and_a_hundred_in_all() -> None:
    fetch = Answering(listed({"DOI": "10.5555/a.1", "title": ["A title"]}))
    page = Crossref().enrich([item(f"10.5555/a.{number}") for number in range(120)], fetch)
    assert page is not None
    assert [call.parameters["rows"] for call in fetch.calls] == ["50", "50"]
    assert fetch.calls[0].parameters["filter"].startswith("doi:10.5555/a.0,doi:10.5555/a.1,")
    assert page.notices == ("20 of 120 DOIs were not looked up: at most 100 are, and none with a comma",)


def test_a_doi_is_looked_up_once_and_never_as_two_conditions() -> None:
    fetch = Answering(listed())
    dois = ["10.5555/a.1", "10.5555/a.1", "10.5555/b,type:dataset"]
    Crossref().enrich([item(doi) for doi in dois], fetch)
    assert [call.parameters["filter"] for call in fetch.calls] == ["doi:10.5555/a.1"]


def test_works_without_a_doi_of_crossref_are_not_looked_up() -> None:
    fetch = Answering(listed())
    page = Item(type="web", title="A page", ids=(Id("url", "https://example.org"),))
    assert Crossref().enrich([item("10.48550/arxiv.2401.99001"), page], fetch) is None
    assert fetch.calls == []


def test_the_contact_address_is_only_named_and_raises_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    fetch = Answering(listed())
    Crossref().enrich([item("10.5555/a.1")], fetch)
    assert fetch.calls[0].keys == (KeyPlace("NCBI_EMAIL", "parameter", "mailto"),)
    assert "mailto" not in fetch.calls[0].parameters
    monkeypatch.delenv("NCBI_EMAIL", raising=False)
    assert Crossref().rate == Rate(1, 1.0)
    monkeypatch.setenv("NCBI_EMAIL", "someone@example.org")
    assert Crossref().rate == Rate(3, 1.0)


# --------------------------------------------------------------------------------------------- failures


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ([{"type": "parameter-not-allowed", "message": "No x here"}, {"message": "No y"}], "No x here; No y"),
        ("Too busy", "Too busy"),
        (None, "no reason given"),
    ],
)
def test_a_validation_failure_is_a_rejection_with_its_reasons(message: Any, said: str) -> None:
    body = {"status": "failed", "message-type": "validation-failure", "message": message}
    assert failure(lookup, body) == Rejected(f"Crossref rejects the request: {said}", 200)


def test_a_failure_of_the_second_call_is_a_failure() -> None:
    works = [item(f"10.5555/a.{number}") for number in range(60)]
    first = listed({"DOI": "10.5555/a.1", "title": ["A title"]})
    assert failure(lambda fetch: Crossref().enrich(works, fetch), first, Rejected("no", 503)) == Rejected("no", 503)


KEYS = ["URL", "type", "title", "author", "issued", "container-title", "license", "relation", "update-to", "updated-by"]


@given(st.dictionaries(st.sampled_from(KEYS), json_values(st.sampled_from(["id", "DOI", "type", "x"]))))
def test_values_of_any_kind_are_skipped_and_never_a_fault(values: dict[str, Any]) -> None:
    assert read(**{"title": ["A title"], **values}).ids[0] == Id("doi", "10.5555/a.1")
