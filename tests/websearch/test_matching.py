"""Items that are of one work, and items that only look so."""

from random import Random
from string import ascii_lowercase
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from websearch.generated import generated, pairs
from websearch.samples_of_works import TITLE, found, merged

from retrieve_cli.contracts.works import Found, Item
from retrieve_cli.websearch.merging import names, titles, works
from retrieve_cli.websearch.merging.titles import Likeness, likeness

PRECISION, RECALL = 0.999, 0.99


OTHER = {"title": "Thermal limits of alpine beetles", "authors": ["Jana Novák"]}
"""Title and author of another work."""


def count(*given: Found) -> int:
    return len(merged(*given))


def count_of_titles(one: str, other: str) -> int:
    """Return the number of works of two titles, by the same authors, without an identifier in common."""
    return count(found("pubmed", "pmid:1", title=one), found("s2", "s2:" + "a" * 40, title=other))


# ----------------------------------------------------------------------------------------------- identifiers


@pytest.mark.parametrize("identifier", ["doi:10.1000/a", "pmid:7", "pmcid:PMC7", "arxiv:2401.01234", "s2:" + "a" * 40])
def test_an_identifier_in_common_joins(identifier: str) -> None:
    assert count(found("pubmed", identifier), found("s2", identifier, title=f"{TITLE}: a survey")) == 1


def test_a_doi_joins_a_title_and_its_translation_by_one_author() -> None:
    other = "Gletscherseen als Speicher ruhender mikrobieller Gemeinschaften"
    assert count(found("pubmed", "doi:10.1000/a"), found("crossref", "doi:10.1000/a", title=other)) == 1


def test_one_doi_of_works_with_other_titles_and_authors_is_wrong() -> None:
    assert count(found("pubmed", "doi:10.1000/a"), found("s2", "doi:10.1000/a", **OTHER)) == 2


def test_a_wrong_pmid_does_not_chain_two_works() -> None:
    pages = [
        found("pubmed", "pmid:1", "doi:10.1000/a"),
        found("s2", "pmid:2", "doi:10.1000/a", rank=2),
        found("pubmed", "pmid:2", "doi:10.1000/b", rank=2, **OTHER),
        found("s2", "doi:10.1000/b", rank=1, **OTHER),
    ]
    assert [str(work.ids[0]) for work in merged(*pages)] == ["doi:10.1000/a", "doi:10.1000/b"]


def test_a_doi_of_another_work_does_not_keep_a_record_from_its_own() -> None:
    other = found("crossref", "doi:10.1000/b", **OTHER)
    assert count(found("pubmed", "doi:10.1000/a"), found("s2", "doi:10.1000/b"), other) == 2


def test_a_chain_of_years_does_not_join_what_is_far_apart() -> None:
    given = (("pubmed", "pmid:1", "2020"), ("s2", "s2:" + "a" * 40, "2022"), ("tavily", "s2:" + "b" * 40, "2024"))
    years = [found(name, identifier, date=date) for name, identifier, date in given]
    assert count(*years) == 2


def test_a_mistyped_doi_does_not_split_a_record() -> None:
    work = merged(found("pubmed", "pmid:1", "doi:10.1000/a"), found("europepmc", "pmid:1", "doi:10.1000/aa"))
    assert len(work) == 1
    assert [conflict.value for conflict in work[0].conflicts["doi"]] == ["10.1000/aa"]


def test_versions_of_a_preprint_are_one_work() -> None:
    versions = [f"doi:10.21203/rs.3.rs-9/v{number}" for number in (1, 2)]
    assert count(*(found("europepmc", doi, type="preprint", rank=rank) for rank, doi in enumerate(versions, 1))) == 1


def test_an_arxiv_identifier_and_the_doi_of_arxiv_are_the_same() -> None:
    by_doi = found("s2", "doi:10.48550/arxiv.2401.01234", authors=[])
    assert count(found("arxiv", "arxiv:2401.01234", type="preprint"), by_doi) == 1


def test_a_page_of_a_publisher_is_of_the_article() -> None:
    page = found("tavily", type="web", title="Sign in", authors=[], date="", url="https://j.example/doi/full/10.1000/a")
    assert count(found("pubmed", "doi:10.1000/a"), page) == 1


def test_pages_of_one_address_are_one() -> None:
    addresses = (("tavily", "https://lakes.example/a/"), ("serper", "http://www.lakes.example/a#top"))
    pages = [found(name, type="web", title=name, authors=[], date="", url=address) for name, address in addresses]
    assert count(*pages) == 1


# ----------------------------------------------------------------------------------------------- relations


@pytest.mark.parametrize("kind", ["preprint_of", "published_as", "version_of", "same_as"])
def test_a_declared_relation_joins_whatever_the_title(kind: str) -> None:
    preprint = found("biorxiv", "doi:10.1101/2023.01.02.123456", type="preprint", title="Frozen lakes wake up slowly",
                     relations=[(kind, "doi:10.1000/a")])  # fmt: skip
    assert count(preprint, found("pubmed", "doi:10.1000/a")) == 1


def test_preprints_of_one_article_that_nobody_found_are_one_work() -> None:
    of_article: dict[str, Any] = {"type": "preprint", "relations": [("preprint_of", "doi:10.1000/a")]}
    first = found("arxiv", "arxiv:2401.01234", **of_article)
    second = found("biorxiv", "doi:10.1101/2023.01.02.123456", title="Frozen lakes wake up slowly", **of_article)
    assert count(first, second) == 1


def test_a_preprint_does_not_join_two_articles() -> None:
    preprint = found("biorxiv", "doi:10.1101/2023.01.02.123456", type="preprint",
                     relations=[("preprint_of", "doi:10.1000/a"), ("preprint_of", "doi:10.1000/b")])  # fmt: skip
    articles = [found("pubmed", f"doi:10.1000/{name}", rank=rank) for rank, name in enumerate("ab", 1)]
    assert count(preprint, *articles) == 2


def test_an_article_and_its_republication_are_joined_if_declared() -> None:
    second = found("crossref", "doi:10.1000/b", relations=[("version_of", "doi:10.1000/a")])
    assert count(found("pubmed", "doi:10.1000/a"), second) == 1


# ----------------------------------------------------------------------------------------------- titles


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (TITLE, TITLE.upper() + "."),
        ("Tumour behaviour in <i>D. rerio</i> &amp; its modelling", "Tumor behavior in D. rerio and its modeling"),
        ("Aggregates of α-synuclein in aged neurons", "Aggregates of alpha-synuclein in aged neurons"),
        ("Bounds on $\\alpha$-decay of H$_2$O clusters", "Bounds on α-decay of H₂O clusters"),
        ("Off-target effects of base editors in rice", "Off target effects of base editors in rice"),
        (f"{TITLE}: a circumpolar survey", TITLE),
        (f"RETRACTED ARTICLE: {TITLE}", TITLE),
        (f"{TITLE} [version 2; peer review: 2 approved]", TITLE),
        ("[Frozen lakes and their dormant communities]", "Frozen lakes and their dormant communities. [Russian]"),
        ("气候变化对高山湖泊微生物群落的影响研究", "气候变化对高山湖泊微生物群落的影响研究。"),
    ],
)
def test_spelling_and_markup_make_no_difference(one: str, other: str) -> None:
    assert count_of_titles(one, other) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (f"{TITLE}. Part I", f"{TITLE}. Part II"),
        (f"{TITLE} 1", f"{TITLE} 2"),
        (TITLE, f"{TITLE}, part 2"),
        (f"{TITLE}: the third season", f"{TITLE}: the fourth season"),
        ("Statins and plasma lipids of severely obese mice", "Statins and plasma lipids of severely obese rats"),
        ("Hepatitis B among nurses of rural hospitals", "Hepatitis C among nurses of rural hospitals"),
        ("Editorial", "Editorial"),
        ("Letter to the editor", "Letter to the editor"),
        ("Guest editorial: glacial lakes and their microbes", "Guest editorial: glacial lakes and their microbes"),
        ("Introduction to the special issue", "Introduction to the special issue"),
        ("Sepsis", "Sepsis"),
    ],
)  # fmt: skip
def test_other_parts_other_words_and_titles_of_many_works_do_not_join(one: str, other: str) -> None:
    assert count_of_titles(one, other) == 2


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"authors": ["A. Okafor"]}, 1),
        ({"authors": ["Okafor A"]}, 1),
        ({"authors": ["Okafor, Amara"]}, 1),
        ({"authors": ["B. Okafor"]}, 2),
        ({"authors": ["Lei Zhou", "Amara Okafor"]}, 2),
        ({"authors": []}, 2),
        ({"date": "2026-01"}, 1),
        ({"date": ""}, 1),
        ({"date": "2027"}, 2),
        ({"date": "2023", "venue": "Annals of Ice"}, 2),
    ],
)
def test_a_title_joins_with_the_same_first_author_near_in_time(change: dict[str, object], expected: int) -> None:
    article = found("pubmed", "pmid:1", venue="Journal of Lakes")
    assert count(article, found("s2", "s2:" + "a" * 40, **{"venue": "J Lakes", **change})) == expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (("article", "doi:10.1000/a"), ("article", "doi:10.1000/b"), 2),
        (("preprint", "doi:10.1101/2023.01.02.123456"), ("article", "doi:10.1000/a"), 1),
        (("preprint", "doi:10.1101/2023.01.02.123456"), ("preprint", "doi:10.1101/2023.09.09.654321"), 2),
        (("preprint", "doi:10.1101/2023.01.02.123456"), ("preprint", "arxiv:2401.01234"), 1),
        (("preprint", "arxiv:2401.01234"), ("preprint", "arxiv:2402.01234"), 2),
        (("article", "doi:10.1000/a"), ("dataset", "doi:10.5281/zenodo.1"), 2),
    ],
)
def test_dois_of_equal_type_that_differ_are_of_different_works(
    one: tuple[str, str], other: tuple[str, str], expected: int
) -> None:
    pages = [found(name, doi, type=kind) for name, (kind, doi) in (("pubmed", one), ("s2", other))]  # type: ignore[arg-type]
    assert count(*pages) == expected


def test_pmids_of_those_who_assign_them_tell_articles_apart() -> None:
    assert count(found("pubmed", "pmid:1"), found("pubmed", "pmid:2", rank=2)) == 2
    assert count(found("pubmed", "pmid:1"), found("s2", "pmid:2")) == 1, "others make mistakes"


def test_a_preprint_does_not_join_two_articles_of_one_title() -> None:
    articles = [found("pubmed", f"doi:10.1000/{name}", rank=rank) for rank, name in enumerate("ab", 1)]
    assert count(*articles, found("arxiv", "arxiv:2401.01234", type="preprint", date="2023")) == 3


def test_a_title_that_came_again_is_not_evidence() -> None:
    first = found("pubmed", "doi:10.1000/a", rank=0, date="2020")
    again = found("pubmed", "doi:10.1000/b", rank=1, date="2021")
    assert count(first, again, found("s2", "s2:" + "a" * 40, date="2020")) == 3


def test_abstracts_decide_about_replaced_words() -> None:
    one, other = f"{TITLE} revealed by sequencing", f"{TITLE} explored by sequencing"
    text = " ".join(f"{name}bacteria {name}sediment thawing" for name in ("arctic", "alpine", "boreal", "polar") * 6)
    text += " " + " ".join("".join(sorted(set(TITLE[n : n + 9].replace(" ", "")))) for n in range(0, 50, 2))
    preprint = found("arxiv", "arxiv:2401.01234", type="preprint", title=one, abstract=text)
    assert count(preprint, found("s2", "doi:10.1000/a", title=other, abstract=text)) == 1
    assert count(preprint, found("s2", "doi:10.1000/a", title=other)) == 2


def test_abstracts_of_other_words_contradict_equal_titles() -> None:
    one, other = (" ".join(f"{start}{letter}word" for letter in ascii_lowercase) for start in ("one", "two"))
    assert count(found("pubmed", "pmid:1", abstract=one), found("s2", "pmcid:PMC1", abstract=other)) == 2
    assert count(found("pubmed", "pmid:1", abstract=one), found("s2", "pmcid:PMC1", abstract=one)) == 1


# ----------------------------------------------------------------------------------------------- reviews


FORMS = (
    "Review for “{}”|Peer review report 1 for {}|Decision letter: {}|Author response: {}|Reply to: {}|"
    "Reply to comment on “{}”|Comment on '{}'|{}: authors' reply|Correction to: {}|Author Correction: {}|Erratum: {}|"
    "Retraction: {}|Expression of concern: {}|Reviewer #2 (Public Review): {}"
).split("|")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("identifier", ["doi:10.1000/r", "doi:10.1000/a"])
def test_what_is_written_about_a_work_is_not_joined_to_it(form: str, identifier: str) -> None:
    assert count(found("pubmed", "doi:10.1000/a"), found("s2", identifier, title=form.format(TITLE))) == 2


def test_a_review_with_the_title_and_doi_of_the_work_is_not_joined_to_it() -> None:
    review = found("crossref", "doi:10.1000/a", type="review", authors=["Jana Novák"])
    assert count(found("pubmed", "doi:10.1000/a"), review) == 2


@pytest.mark.parametrize(
    "title",
    [
        "Correction of scoliosis with magnetic rods",
        "Retraction of the lung during thoracoscopy",
        "Review of soil respiration models",
        "Recommendations for the care of premature infants",
    ],
)
def test_titles_that_only_begin_like_those_are_of_works(title: str) -> None:
    assert titles.read(title).quoting == ""


# ----------------------------------------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("John A. Smith", "Smith JA", True),
        ("John A. Smith", "J. Smith", True),
        ("John A. Smith", "Mary Smith", False),
        ("Jürgen Müller", "Mueller J", True),
        ("Jens Østergaard", "Ostergaard, Jens", True),
        ("Ludwig van den Berg", "Berg L", True),
        ("Ludwig van den Berg", "van den Berg L", True),
        ("Gabriel García Márquez", "Garcia G", True),
        ("Gabriel García Márquez", "García-Márquez, Gabriel", True),
        ("Wei Zhang", "Zhang Wei", True),
        ("Wei Zhang", "Wei Li", False),
        ("O’Brien K", "Kate O'Brien", True),
        ("Martin Luther Jones Jr", "Jones M", True),
        ("Abcd Consortium", "Efgh Consortium", False),
    ],
)
def test_first_authors_agree_in_family_name_and_initial(one: str, other: str, *, expected: bool) -> None:
    first, second = (names.first_author(Item("article", "x", (), (name,))) for name in (one, other))
    assert names.agree(first, second) is names.agree(second, first) is expected
    assert names.differ(first, second) is not expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("Proc Natl Acad Sci U S A", "Proceedings of the National Academy of Sciences", True),
        ("PNAS", "Proceedings of the National Academy of Sciences", True),
        ("Nat Rev Nephrol", "Nature Reviews Nephrology", True),
        ("Annals of Ice", "Journal of Lakes", False),
        ("", "Journal of Lakes", True),
    ],
)
def test_journals_agree_in_their_abbreviations(one: str, other: str, *, expected: bool) -> None:
    assert names.venues_agree(one, other) is names.venues_agree(other, one) is expected


@given(st.text(max_size=80), st.text(max_size=80))
def test_likeness_is_symmetric_and_a_title_is_like_itself(one: str, other: str) -> None:
    first, second = titles.read(one), titles.read(other)
    assert likeness(first, second) is likeness(second, first)
    assert likeness(first, first) is Likeness.SAME


# ----------------------------------------------------------------------------------------------- generated records


@pytest.mark.parametrize("seed", range(4))
def test_generated_records_are_joined_as_they_belong(seed: int) -> None:
    made = generated(seed)
    answer = works.merge(made.found)
    of_source = {source: number for number, work in enumerate(answer) for source in work.found_by}
    labels = [of_source.get(one.source, -number) for number, one in enumerate(made.found, 1)]
    precision, recall = pairs(made.works, labels)
    assert (precision >= PRECISION, recall >= RECALL) == (True, True), (precision, recall)


@settings(max_examples=12)
@given(st.integers(0, 10**6), st.randoms(use_true_random=False))
def test_the_order_of_the_items_makes_no_difference(seed: int, chance: Random) -> None:
    found = generated(seed, records=120).found
    shuffled = [*found]
    chance.shuffle(shuffled)
    answer = works.merge(found)
    assert works.merge(shuffled) == answer
    assert works.merge([*shuffled, *found]) == answer, "nor do repetitions"
