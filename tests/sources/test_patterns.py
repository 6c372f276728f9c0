"""Text from elsewhere that would take a pattern hours if its time grew with the square of the text."""

from collections.abc import Iterator

import pytest
from stalls import ending

from retrieve_cli.errors import UsageError
from retrieve_cli.sources.catalogs.linked import Term, records_of_triples
from retrieve_cli.sources.remote.http import _digest_for
from retrieve_cli.sources.remote.sparql import Template

SHA1 = "0123456789abcdef0123456789abcdef01234567"
MANY = 200_000


@pytest.fixture(autouse=True)
def _ends() -> Iterator[None]:
    """A pattern that stalls fails its test and does not hold up the others."""
    with ending():
        yield


@pytest.mark.parametrize("kind", ["decimal", "double", "float", "integer", "boolean"])
@pytest.mark.parametrize("text", ["1" * MANY + "x", "." + "0" * MANY + "e", "1" * MANY + ".x", "+" * MANY])
def test_a_literal_of_many_digits_that_is_no_number_stays_text(kind: str, text: str) -> None:
    tool = Term("iri", "https://x.org/a")
    literal = Term("literal", text, f"http://www.w3.org/2001/XMLSchema#{kind}")
    assert records_of_triples([(tool, "https://schema.org/size", literal)])[0]["size"] == text


@pytest.mark.parametrize("line", [f"{' ' * MANY}\f x", f"SHA1 ({') = ' * MANY}x", f"SHA1 ({')' * MANY}"])
def test_a_line_of_blanks_or_brackets_in_a_checksum_file_is_passed_over(line: str) -> None:
    assert _digest_for("tools.jsonl", f"{line}\n{SHA1}  other\n") == SHA1


@pytest.mark.parametrize("line", [f"{SHA1} {' ' * MANY}tools.jsonl{' ' * MANY}", f"SHA1 (tools.jsonl) = {SHA1}   "])
def test_blanks_around_the_name_in_a_checksum_file_are_no_part_of_it(line: str) -> None:
    assert _digest_for("tools.jsonl", line) == SHA1


@pytest.mark.parametrize(
    "piece", ['\\"', "\\'", '"""\\"', "'''\\'", ".", "é.", "a.", "1-", "<", "<a", "{graph", "?", "#", "@", "\\", "'\n"]
)
def test_a_query_of_one_piece_repeated_is_read_to_its_end(piece: str) -> None:
    text = f"SELECT ?id WHERE {{}}\n{piece * MANY}"
    assert Template.of(text, graph=None, page_size=None).form == "SELECT"
    with pytest.raises(UsageError, match="begins with"):
        Template.of(f"ASK {piece * MANY}", graph=None, page_size=None)


def test_a_quote_that_a_local_name_escapes_opens_no_string() -> None:
    text = "PREFIX ex: <http://x/> SELECT ?id WHERE { ?id ex:it\\'s ?x } ORDER BY ?id LIMIT {limit} OFFSET {offset}"
    assert Template.of(text, graph=None, page_size=7).at(14).endswith("LIMIT 7 OFFSET 14")
