"""Identifiers in normal form: equal ones are equal texts, and other texts are none."""

import pytest
from hypothesis import given, strategies as st

from retrieve_cli.contracts.works import Id
from retrieve_cli.websearch import ids

DOIS = """10.1000/AbC.1 doi:10.1000/abc.1 https://doi.org/10.1000/abc.1 http://dx.doi.org/10.1000%2Fabc.1""".split()


@pytest.mark.parametrize("text", [*DOIS, "DOI: 10.1000/abc.1", " 10.1000/abc.1. "])
def test_a_doi_has_one_form(text: str) -> None:
    assert ids.doi(text) == Id("doi", "10.1000/abc.1")


@pytest.mark.parametrize(
    "text", ["", "10.1000", "10.1/abc", "11.1000/abc", "10.1000/a b", "https://example.org/10.1000"]
)
def test_other_texts_are_not_dois(text: str) -> None:
    assert ids.doi(text) is None


ARXIV = """2401.01234 2401.01234v3 arXiv:2401.01234 https://arxiv.org/abs/2401.01234v2 10.48550/arXiv.2401.01234
http://export.arxiv.org/pdf/2401.01234v2.pdf https://doi.org/10.48550/ARXIV.2401.01234""".split()


@pytest.mark.parametrize("text", ARXIV)
def test_an_arxiv_identifier_has_one_form_without_version(text: str) -> None:
    assert ids.arxiv(text) == Id("arxiv", "2401.01234")


def test_the_version_of_an_arxiv_identifier_is_read_apart() -> None:
    assert [ids.arxiv_version(text) for text in ("2401.01234v3", "hep-th/9901001v1", "2401.01234")] == ["3", "1", ""]


@pytest.mark.parametrize(
    ("text", "value"), [("012345", "12345"), (" 7 ", "7"), ("0", None), ("PMC1", None), ("1234567890", None)]
)
def test_a_pmid_is_digits(text: str, value: str | None) -> None:
    assert ids.pmid(text) == (value and Id("pmid", value))


def test_a_pmcid_has_no_version() -> None:
    assert ids.pmcid("pmc0123.2") == Id("pmcid", "PMC123")


ADDRESSES = """HTTP://www.Example.org:80/a/?utm_source=x&b=2&a=1#part https://example.org/a?a=1&b=2
https://example.org./a/?b=2&a=1&fbclid=77""".split()


@pytest.mark.parametrize("text", ADDRESSES)
def test_an_address_has_one_form(text: str) -> None:
    assert ids.url(text) == Id("url", "https://example.org/a?a=1&b=2")


@pytest.mark.parametrize("text", ["ftp://example.org", "https://", "https://a@example.org", "javascript:alert(1)", "x"])
def test_other_texts_are_not_addresses(text: str) -> None:
    assert ids.url(text) is None


@pytest.mark.parametrize(
    ("address", "identifier"),
    [
        ("https://doi.org/10.1000/abc", "doi:10.1000/abc"),
        ("https://arxiv.org/pdf/2401.01234v2", "arxiv:2401.01234"),
        ("https://pubmed.ncbi.nlm.nih.gov/12345/", "pmid:12345"),
        ("https://www.ncbi.nlm.nih.gov/pubmed/12345", "pmid:12345"),
        ("https://europepmc.org/article/MED/12345", "pmid:12345"),
        ("https://pmc.ncbi.nlm.nih.gov/articles/PMC77/", "pmcid:PMC77"),
        ("https://www.ncbi.nlm.nih.gov/pmc/articles/PMC77", "pmcid:PMC77"),
        ("https://www.semanticscholar.org/paper/A-title/" + "ab" * 20, "s2:" + "ab" * 20),
        ("https://www.biorxiv.org/content/10.1101/2023.01.02.123456v2.full.pdf", "doi:10.1101/2023.01.02.123456"),
        ("https://journal.example/doi/full/10.1000/abc", "doi:10.1000/abc"),
        ("https://journal.example/articles/10.3389/abc.2024.1/full", "doi:10.3389/abc.2024.1"),
        ("https://journals.plos.org/plosone/article?id=10.1371/journal.pone.00001", "doi:10.1371/journal.pone.00001"),
    ],
)
def test_the_address_of_a_work_names_its_identifier(address: str, identifier: str) -> None:
    assert str(ids.of_address(address)) == identifier


ABOUT_A_WORK = """https://news.example/stories/10.1000/abc https://metrics.example/details?doi=10.1000/abc
https://review.example/reports/10.1000/abc https://example.org/10.1000/abc https://arxiv.org/list/cs.AI/recent""".split()


@pytest.mark.parametrize("address", ABOUT_A_WORK)
def test_a_page_about_a_work_does_not_name_it(address: str) -> None:
    assert ids.of_address(address) is None


@pytest.mark.parametrize(
    ("doi", "same", "version"),
    [
        ("10.21203/rs.3.rs-12345/v2", "doi:10.21203/rs.3.rs-12345", "2"),
        ("10.20944/preprints202401.0001.v1", "doi:10.20944/preprints202401.0001", "1"),
        ("10.26434/chemrxiv-2024-ab1cd-v3", "doi:10.26434/chemrxiv-2024-ab1cd", "3"),
        ("10.31234/osf.io/abcde_v2", "doi:10.31234/osf.io/abcde", "2"),
        ("10.12688/f1000research.12345.2", "doi:10.12688/f1000research.12345", "2"),
        ("10.7554/elife.85111.1", "doi:10.7554/elife.85111", "1"),
        ("10.48550/arxiv.2401.01234", "arxiv:2401.01234", ""),
        ("10.1000/journal.v2", "doi:10.1000/journal.v2", ""),
        ("10.1101/gr.123456.121", "doi:10.1101/gr.123456.121", ""),
    ],
)
def test_versions_of_a_work_share_an_identifier(doi: str, same: str, version: str) -> None:
    identifier = Id("doi", doi)
    assert (str(ids.unversioned(identifier)), ids.doi_version(identifier)) == (same, version)


PREPRINTS = """10.1101/2023.01.02.123456 10.1101/123456 10.64898/2026.01.02.123456 10.2139/ssrn.1234567
10.5194/egusphere-2024-12""".split()
ARTICLES = ["10.1101/gad.123456.121", "10.5194/acp-24-1-2024", "10.1038/s41586-024-00001-1"]


@pytest.mark.parametrize("doi", PREPRINTS + ARTICLES)
def test_dois_of_preprint_servers_are_known(doi: str) -> None:
    assert ids.is_preprint(Id("doi", doi)) is (doi in PREPRINTS)


@given(st.text(max_size=60))
def test_normal_forms_are_stable(text: str) -> None:
    for read in (ids.doi, ids.arxiv, ids.pmid, ids.pmcid, ids.s2, ids.url):
        identifier = read(text)
        assert identifier is None or read(identifier.value) == identifier


@given(st.from_regex(r"10\.21203/rs\.3\.rs-[0-9]{1,7}", fullmatch=True), st.integers(1, 99), st.sampled_from("/._-"))
def test_all_versions_of_a_preprint_share_an_identifier(doi: str, version: int, mark: str) -> None:
    identifier = Id("doi", f"{doi}{mark}v{version}")
    assert ids.unversioned(identifier) == Id("doi", doi)
    assert ids.doi_version(identifier) == str(version)
