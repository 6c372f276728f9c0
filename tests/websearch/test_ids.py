"""Identifiers in normal form: equal ones are equal texts, and other texts are none."""

import pytest
from hypothesis import given, strategies as st

from retrieve_cli.contracts.websearch import Id
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


ADDRESSES = """HTTP://www.Example.org:80/a/?utm_source=x&b=2&a=1#part https://example.org/a?a=1&b=2
https://example.org./a/?b=2&a=1&fbclid=77""".split()


@pytest.mark.parametrize("text", ADDRESSES)
def test_an_address_has_one_form(text: str) -> None:
    assert ids.url(text) == Id("url", "https://example.org/a?a=1&b=2")


@pytest.mark.parametrize(
    ("address", "identifier"),
    [
        ("https://doi.org/10.1000/abc", "doi:10.1000/abc"),
        ("https://arxiv.org/pdf/2401.01234v2", "arxiv:2401.01234"),
        ("https://pubmed.ncbi.nlm.nih.gov/12345/", "pmid:12345"),
        ("https://pmc.ncbi.nlm.nih.gov/articles/PMC77/", "pmcid:PMC77"),
        ("https://www.ncbi.nlm.nih.gov/pmc/articles/PMC77", "pmcid:PMC77"),
        ("https://www.semanticscholar.org/paper/A-title/" + "ab" * 20, "s2:" + "ab" * 20),
    ],
)
def test_the_address_of_a_work_names_its_identifier(address: str, identifier: str) -> None:
    assert str(ids.of_address(address)) == identifier


@given(st.text(max_size=60))
def test_normal_forms_are_stable(text: str) -> None:
    for read in (ids.doi, ids.arxiv, ids.pmid, ids.pmcid, ids.s2, ids.url):
        identifier = read(text)
        assert identifier is None or read(identifier.value) == identifier
