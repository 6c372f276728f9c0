"""One list of several: rows with the same identifier are one, with all their sources, by reciprocal ranks."""

from collections import Counter

from hypothesis import given, strategies as st
from websearch.taped import AT

from retrieve_cli.contracts.websearch import Id, Item, Page
from retrieve_cli.websearch.fusing import Answered, fuse
from retrieve_cli.websearch.items import made


def item(*ids: Id, **values: object) -> Item:
    return Item(**{"type": "article", "title": "A title", "ids": ids, **values})


def pages(**given: list[Item]) -> list[Answered]:
    return [Answered(name, Page(tuple(items), f"of {name}"), AT) for name, items in given.items()]


DOI, PMID, ARXIV = Id("doi", "10.1000/a"), Id("pmid", "7"), Id("arxiv", "2401.01234")


def test_a_row_has_all_its_sources_and_what_each_of_them_knows() -> None:
    page = made(type="web", title="Page", ids_=(), url="https://doi.org/10.1000/A?utm_source=x", snippet="Excerpt")
    assert page is not None
    one = item(DOI, authors=("Ada",))
    other = item(PMID, DOI, abstract="Abstract", retracted=True, citations=3)
    (row,) = fuse(pages(tavily=[page], arxiv=[one], pubmed=[item(Id("pmid", "9")), other]))[:1]
    assert (row.id, row.item.type, row.item.title) == ("doi:10.1000/a", "article", "Page")
    assert (row.item.authors, row.item.abstract, row.item.snippet) == (("Ada",), "Abstract", "Excerpt")
    assert (row.item.retracted, row.item.citations) == (True, 3)
    assert {DOI, PMID} <= set(row.item.ids)
    assert [(one.provider, one.rank, one.query) for one in row.found_by] == [
        ("tavily", 1, "of tavily"),
        ("arxiv", 1, "of arxiv"),
        ("pubmed", 2, "of pubmed"),
    ]
    assert row.score == sum(one.score for one in row.found_by) == 1 / 61 + 1 / 61 + 1 / 62


def test_an_identifier_in_common_joins_rows_that_had_none() -> None:
    rows = fuse(pages(pubmed=[item(DOI), item(ARXIV)], s2=[item(DOI, ARXIV)]))
    assert len(rows) == 1
    assert [(one.provider, one.rank) for one in rows[0].found_by] == [("pubmed", 1), ("s2", 1)]


def test_what_several_providers_found_is_before_what_one_ranks_first() -> None:
    rows = fuse(pages(pubmed=[item(PMID), item(DOI)], s2=[item(ARXIV), item(DOI)]))
    assert [row.id for row in rows] == ["doi:10.1000/a", "arxiv:2401.01234", "pmid:7"]


IDS = st.sampled_from([Id(kind, str(number)) for kind in ("doi", "pmid", "arxiv", "url") for number in range(4)])  # type: ignore[arg-type]
ITEMS = st.lists(IDS, min_size=1, max_size=3, unique=True).map(lambda ids: item(*ids))


@given(st.dictionaries(st.sampled_from("abc"), st.lists(ITEMS, max_size=6)))
def test_rows_partition_the_items_by_identifiers(found: dict[str, list[Item]]) -> None:
    rows = fuse(pages(**found))
    every = [one for items in found.values() for one in items]
    of_rows = Counter(id_ for row in rows for id_ in row.item.ids)
    assert set(of_rows) == {id_ for one in every for id_ in one.ids}
    assert set(of_rows.values()) <= {1}, "no identifier is in two rows"
    assert all(any(set(one.ids) <= set(row.item.ids) for row in rows) for one in every), "no item is in two rows"
    scores = [round(row.score, 6) for row in rows]
    assert scores == sorted(scores, reverse=True)
    assert all(row.score == sum(one.score for one in row.found_by) for row in rows)
