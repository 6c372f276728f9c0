"""Records of PubMed as items, beside biopython as another reader of the same XML."""

import calendar
import html
import re
from collections.abc import Mapping
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from websearch.pubmed_articles import DOCTYPE, answer, article
from websearch.taped import Taped, body_of

from retrieve_cli.contracts.works import Id
from retrieve_cli.websearch.providers.pubmed_xml import records, sentence


@pytest.fixture(scope="module")
def entrez(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Biopython's reader, with the DTDs of its own installation."""
    module = pytest.importorskip("Bio.Entrez", reason="biopython is not installed")
    module.local_cache = str(tmp_path_factory.mktemp("entrez"))
    return module


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


@settings(deadline=None, max_examples=20)
@given(articles=ARTICLES)
def test_generated_records_read_as_with_biopython(entrez: Any, articles: list[dict[str, Any]]) -> None:
    body = "".join(article(**parts) for parts in articles)
    xml = f'<?xml version="1.0"?>\n{DOCTYPE}\n<PubmedArticleSet>{body}</PubmedArticleSet>'
    assert assert_reads_the_same(xml, entrez) == len(articles)
