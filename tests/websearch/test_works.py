"""A work as the answer shows it: version, identifiers, fields with their providers, conflicts, links and sources."""

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from websearch.generated import generated
from websearch.samples_of_works import AT, TITLE, found, merged, one

from retrieve_cli.contracts.works import Cited, FieldConflict, Found, Linked, Version
from retrieve_cli.frozen import replace
from retrieve_cli.websearch.merging import works

PREPRINT = "doi:10.1101/2023.01.02.123456"
ARTICLE = "doi:10.1000/a"


def preprint(version: int = 1, *, provider: str = "biorxiv", **given: object) -> Found:
    known = {"type": "preprint", "version": str(version), "rank": version, "date": f"2023-0{version}-02"}
    return found(provider, PREPRINT, **{"relations": [("preprint_of", ARTICLE)], **known, **given})  # type: ignore[arg-type]


# ----------------------------------------------------------------------------------------------- versions


def test_the_published_article_stands_for_a_work() -> None:
    work = one(preprint(), found("s2", ARTICLE))
    assert (work.id, work.type, work.date) == (ARTICLE, "article", "2024")
    assert work.versions == (Version(PREPRINT, "preprint", "preprint_of", TITLE, "2023-01-02", ""),)


def test_the_latest_version_stands_for_a_preprint() -> None:
    work = one(preprint(1, relations=()), preprint(3, relations=()), preprint(2, relations=()))
    assert (work.id, work.type, work.date) == (PREPRINT, "preprint", "2023-03-02")
    versions = [(version.relation, version.date) for version in work.versions]
    assert versions == [("version_of", "2023-02-02"), ("version_of", "2023-01-02")]


def test_an_item_without_version_describes_the_latest_one() -> None:
    work = one(preprint(1, relations=()), preprint(2, relations=()), found("s2", PREPRINT, citations=4))
    assert len(work.versions) == 1
    assert work.type == "preprint"


def test_an_article_of_which_only_the_doi_is_known_is_a_version() -> None:
    work = one(preprint())
    assert work.id == PREPRINT
    assert work.versions == (Version(ARTICLE, "article", "published_as", "", "", "https://doi.org/10.1000/a"),)


def test_the_doi_of_the_article_in_the_record_of_a_preprint_is_not_that_of_the_preprint() -> None:
    work = one(found("arxiv", "arxiv:2401.01234", ARTICLE, type="preprint"))
    assert (work.id, [version.id for version in work.versions]) == ("arxiv:2401.01234", [ARTICLE])


def test_a_record_of_both_versions_has_the_identifiers_of_the_article() -> None:
    work = one(found("s2", ARTICLE, "arxiv:2401.01234"), found("arxiv", "arxiv:2401.01234", type="preprint"))
    assert [str(identifier) for identifier in work.ids] == [ARTICLE, "arxiv:2401.01234"]
    assert [version.id for version in work.versions] == ["arxiv:2401.01234"]


def test_the_identifier_of_arxiv_is_the_id_even_if_only_its_doi_is_known() -> None:
    assert one(found("s2", "doi:10.48550/arxiv.2401.01234", type="preprint")).id == "arxiv:2401.01234"


def test_a_page_belongs_to_the_version_whose_address_it_is() -> None:
    address = "https://www.biorxiv.org/content/10.1101/2023.01.02.123456v1.full"
    page = found("tavily", type="web", title="bioRxiv", authors=[], date="", url=address)
    article = found("pubmed", ARTICLE, url="https://pubmed.ncbi.nlm.nih.gov/1/")
    work = one(preprint(), page, article)
    assert work.url == "https://pubmed.ncbi.nlm.nih.gov/1/"
    assert {source.provider for source in work.found_by} == {"biorxiv", "pubmed", "tavily"}


# ----------------------------------------------------------------------------------------------- fields


def test_each_field_comes_from_the_provider_that_knows_it_best() -> None:
    work = one(
        found("s2", ARTICLE, citations=7, abstract="Short.", license="CC BY 4.0", venue="Lakes"),
        found("pubmed", ARTICLE, abstract="A longer abstract of the same article.", venue="Journal of Lakes"),
        found("crossref", ARTICLE, rank=None, citations=5, license="MIT", open_access=True),
    )
    assert (work.citations, work.abstract) == (Cited(7, "s2", AT), "A longer abstract of the same article.")
    assert (work.license, work.open_access, work.venue) == ("MIT", True, "Journal of Lakes")
    assert work.provenance["license"] == work.provenance["open_access"] == "crossref"
    assert work.provenance.items() >= {"citations": "s2", "abstract": "pubmed", "title": "pubmed"}.items()


def test_every_field_that_has_a_value_has_a_provider() -> None:
    for work in works.merge(generated(5, records=200).found):
        for name in ("title", "authors", "date", "venue", "abstract", "snippet", "url", "citations", "retracted"):
            assert (name in work.provenance) is (getattr(work, name) not in (None, "", ()))


def test_the_most_precise_date_that_agrees_is_shown_and_others_conflict() -> None:
    work = one(found("crossref", ARTICLE, date="2024"), found("pubmed", ARTICLE, date="2024-03-05"))
    assert (work.date, work.provenance["date"], "date" in work.conflicts) == ("2024-03-05", "pubmed", False)
    work = one(found("crossref", ARTICLE, date="2024-03"), found("pubmed", ARTICLE, date="2024-04-01"))
    assert (work.date, work.conflicts["date"]) == ("2024-03", (FieldConflict("2024-04-01", "pubmed"),))


def test_titles_conflict_beyond_spelling() -> None:
    spelled = one(found("pubmed", ARTICLE, title=f"{TITLE}."), found("s2", ARTICLE, title=TITLE.upper()))
    other = one(found("pubmed", ARTICLE), found("s2", ARTICLE, title="Microbes of frozen lakes"))
    assert "title" not in spelled.conflicts
    assert other.conflicts["title"] == (FieldConflict("Microbes of frozen lakes", "s2"),)


def test_rights_conflict_within_a_version_only() -> None:
    work = one(preprint(license="MIT", open_access=True), found("s2", ARTICLE, license="CC BY 4.0", open_access=False))
    assert (work.license, work.open_access, dict(work.conflicts)) == ("CC-BY-4.0", False, {})
    work = one(found("crossref", ARTICLE, license="MIT"), found("s2", ARTICLE, license="CC BY 4.0"))
    assert work.conflicts["license"] == (FieldConflict("CC-BY-4.0", "s2"),)


def test_abstract_and_citations_of_a_preprint_stand_in_for_those_of_the_article() -> None:
    work = one(preprint(abstract="Only the preprint has one.", citations=2), found("pubmed", ARTICLE))
    assert (work.abstract, work.provenance["abstract"]) == ("Only the preprint has one.", "biorxiv")
    assert work.citations == Cited(2, "biorxiv", AT)


@pytest.mark.parametrize(
    ("first", "second", "expected"), [(None, None, None), (None, False, False), (True, False, True), (None, True, True)]
)
def test_a_work_is_retracted_if_anybody_says_so(first: object, second: object, expected: object) -> None:
    work = one(found("pubmed", ARTICLE, retracted=first), found("s2", ARTICLE, retracted=second))
    assert work.retracted is expected
    assert ("retracted" in work.conflicts) is ({first, second} == {True, False})


def test_a_title_and_a_notice_say_that_a_work_is_retracted() -> None:
    assert one(found("pubmed", ARTICLE, title=f"RETRACTED: {TITLE}"), found("s2", ARTICLE)).retracted is True
    notice = found("crossref", "doi:10.1000/n", title=f"Retraction notice to “{TITLE}”", rank=None)
    work = one(found("pubmed", ARTICLE), notice)
    assert (work.retracted, work.provenance["retracted"]) == (True, "crossref")


# ----------------------------------------------------------------------------------------------- links


REVIEW = "doi:10.1000/r"


@pytest.mark.parametrize(
    ("title", "of_article", "of_review"),
    [
        (f"Review for “{TITLE}”", (), ()),
        ("Referee report", [("reviewed_by", REVIEW)], ()),
        ("Referee report", (), [("reviews", ARTICLE)]),
    ],
    ids=["by its title", "reviewed_by", "reviews"],
)
def test_a_review_is_linked_both_ways_by_title_or_declaration(title: str, of_article: Any, of_review: Any) -> None:
    article = found("pubmed", ARTICLE, relations=of_article)
    review = found("crossref", REVIEW, type="review", rank=2, title=title, authors=[], relations=of_review)
    work, linked = merged(article, review)
    assert (work.type, work.linked) == ("article", (Linked(REVIEW, "reviews"),))
    assert (linked.type, linked.linked) == ("review", (Linked(ARTICLE, "reviewed_by"),))


def test_a_declared_review_that_nobody_found_and_a_doi_that_continues_the_one_of_the_work_are_linked() -> None:
    assert one(found("pubmed", ARTICLE, relations=[("reviewed_by", REVIEW)])).linked == (Linked(REVIEW, "reviews"),)
    letter = found("crossref", f"{ARTICLE}.sa1", title="Decision letter", rank=None, type="review", authors=[])
    assert one(found("pubmed", ARTICLE), letter).linked == (Linked(f"{ARTICLE}.sa1", "reviews"),)


def test_a_title_of_two_works_does_not_link() -> None:
    reply = found("s2", "doi:10.1000/r", rank=3, title=f"Reply to: {TITLE}")
    twins = [found("pubmed", f"doi:10.1000/{name}", rank=rank) for rank, name in enumerate("ab", 1)]
    assert [work.linked for work in merged(reply, *twins)] == [(), (), ()]


def test_what_only_enrichers_brought_is_linked_or_joined_and_is_not_a_work() -> None:
    review = found("crossref", "doi:10.1000/r", type="review", rank=None, title=f"Review for “{TITLE}”")
    other = found("crossref", "doi:10.1000/b", rank=None, title="Thermal limits of alpine beetles")
    known = found("crossref", ARTICLE, rank=None, citations=3)
    work = one(found("pubmed", ARTICLE), review, other, known)
    assert (work.linked, work.citations) == ((Linked("doi:10.1000/r", "reviews"),), Cited(3, "crossref", AT))
    assert [source.rank for source in work.found_by] == [None, 1]


# ----------------------------------------------------------------------------------------------- the list


def test_works_are_in_the_order_of_their_best_rank() -> None:
    pages = [
        found("pubmed", "doi:10.1000/a", rank=3),
        found("s2", "doi:10.1000/b", rank=2, title="Thermal limits of alpine beetles"),
        found("s2", "doi:10.1000/a", rank=1),
        found("pubmed", "doi:10.1000/c", rank=1, title="Seed dormancy under drought in dry grasslands"),
    ]
    assert [work.id for work in merged(*pages)] == ["doi:10.1000/a", "doi:10.1000/c", "doi:10.1000/b"]


def test_nothing_makes_no_works() -> None:
    assert works.merge([]) == []


def test_no_two_works_have_one_id() -> None:
    other = {"title": "Thermal limits of alpine beetles", "authors": ["Jana Novák"]}
    pages = [found("pubmed", "pmid:1"), found("s2", "pmid:1", rank=2, **other), found("europepmc", "pmid:1")]
    assert [work.id for work in merged(*pages)] == ["pmid:1", "pmid:1#2"]
    for seed in range(3):
        made = works.merge(generated(seed, records=600).found)
        assert len({work.id for work in made}) == len(made)


@pytest.mark.parametrize("seed", [11, 12])
def test_works_share_no_identifier_and_every_ranked_source_is_in_one_work(seed: int) -> None:
    items = generated(seed, records=600).found
    made = works.merge(items)
    identifiers = [identifier for work in made for identifier in {str(identifier) for identifier in work.ids}]
    assert len(identifiers) == len(set(identifiers))
    sources = [source for work in made for source in work.found_by]
    assert len(sources) == len(set(sources))
    assert {one.source for one in items if one.source.rank is not None} <= set(sources)


def test_many_items_with_one_title_author_and_doi_are_merged_in_bounded_time() -> None:
    same = [found("s2", f"s2:{number:040x}", "doi:10.1000/a", rank=number) for number in range(1, 2001)]
    assert len(works.merge(same)) == 1
    different = [found("s2", f"doi:10.1000/{number}", rank=number) for number in range(1, 2001)]
    assert len(works.merge(different)) == 2000


@settings(max_examples=20)
@given(st.lists(st.text(alphabet="ab1αé .:[]<>$\\{}“", max_size=40), min_size=1, max_size=6))
def test_titles_of_any_kind_are_merged(titles: list[str]) -> None:
    article = found("pubmed", ARTICLE)
    pages = [
        Found(replace(article.item, title=title, ids=article.item.ids[:1]), article.source._replace(rank=rank))
        for rank, title in enumerate(titles, 1)
    ]
    assert sum(len(work.found_by) for work in merged(*pages)) == len(pages)
