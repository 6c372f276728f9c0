"""Catalogs behind a SPARQL endpoint."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from raw_servers import Conversation, serving
from waiting import PATIENCE_S, pause

from retrieve_cli.contracts import Record
from retrieve_cli.errors import SourceFailed, UsageError
from retrieve_cli.sources.fields import FieldMap, record_from
from retrieve_cli.sources.remote.sparql import SparqlFetcher
from sources.servers import changes, fetching

ALL = "CONSTRUCT { ?s ?p ?o } WHERE { ?s ?p ?o }"
ROWS = "PREFIX s: <https://schema.org/> SELECT ?id ?name WHERE { ?id a s:SoftwareSourceCode ; s:name ?name }"
INNER = """PREFIX s: <https://schema.org/>
CONSTRUCT { ?s ?p ?o . ?o ?q ?v } WHERE {
  { SELECT DISTINCT ?s WHERE { ?s a s:SoftwareSourceCode } ORDER BY ?s LIMIT {limit} OFFSET {offset} }
  ?s ?p ?o . OPTIONAL { ?o ?q ?v }
}"""


def tools(number: int) -> str:
    return "".join(
        f'x:t{at:02} a s:SoftwareSourceCode ; s:name "Tool {at}" ; s:keywords "k{at}", "image" ;'
        f" s:supportingData [ s:hasDimensionality {at} ] .\n"
        for at in range(number)
    )


def fetcher(url: str, query: str = ALL, **settings: Any) -> SparqlFetcher:
    return SparqlFetcher(url, query, **fetching(settings, timeout_s=PATIENCE_S))


def failure(url: str, query: str, target: Path, **settings: Any) -> SourceFailed:
    with pytest.raises(SourceFailed) as caught:
        fetcher(url, query, **settings).fetch(target)
    assert not target.exists()
    assert list(target.parent.glob(".*")) == []
    assert caught.value.hint
    assert caught.value.message.isprintable()
    return caught.value


def records(target: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in target.read_text("utf-8").splitlines()]


# --------------------------------------------------------------------------------------------------- graphs


def test_a_graph_becomes_a_catalog_with_its_digest_beside_it(endpoint, target: Path) -> None:
    endpoint.load(tools(2))
    fetcher(endpoint.url).fetch(target)
    first, second = records(target)
    assert first == {
        "id": "https://x.org/t00", "type": "SoftwareSourceCode", "name": "Tool 0", "keywords": ["image", "k0"],
        "supportingData": {"hasDimensionality": 0},
    }  # fmt: skip
    assert second["id"] == "https://x.org/t01"
    assert subprocess.run(["sha1sum", "-c", "tools.jsonl.sha1"], cwd=target.parent).returncode == 0
    made = record_from(second, FieldMap.of({}), source="c", line=1)
    assert isinstance(made, Record)
    assert made.supporting_data["dimensions"] == ["1D"]


FORMATS = ["application/n-triples", "text/turtle", "application/ld+json", "application/rdf+xml", "text/plain"]


@pytest.mark.parametrize("media_type", FORMATS)
def test_every_format_of_a_graph_gives_the_same_bytes(endpoint, target: Path, media_type: str) -> None:
    endpoint.load(tools(5))
    fetcher(endpoint.url).fetch(target)
    before = target.read_bytes()
    endpoint.media_type = media_type
    assert not changes(fetcher(endpoint.url), target)
    assert target.read_bytes() == before


def test_an_iri_that_is_none_does_not_cost_the_catalog(site, target: Path) -> None:
    body = '<http://x/a> <http://schema.org/url> <http://x/a file> .\n<http://x/a> <http://schema.org/name> "A" .\n'
    fetcher(site.put("/sparql", body, headers={"Content-Type": "application/n-triples"})).fetch(target)
    assert records(target) == [{"id": "http://x/a", "name": "A", "url": "http://x/a file"}]


# ----------------------------------------------------------------------------------------------------- rows


def test_rows_become_a_catalog(endpoint, target: Path) -> None:
    endpoint.load(tools(2))
    fetcher(endpoint.url, ROWS).fetch(target)
    assert records(target) == [{"id": f"https://x.org/t0{at}", "name": f"Tool {at}"} for at in range(2)]


def test_rows_of_triples_become_the_catalog_that_their_graph_does(endpoint, target: Path, tmp_path: Path) -> None:
    endpoint.load(tools(3))
    fetcher(endpoint.url).fetch(target)
    fetcher(endpoint.url, "SELECT * WHERE { ?s ?p ?o }").fetch(tmp_path / "rows.jsonl")
    assert (tmp_path / "rows.jsonl").read_bytes() == target.read_bytes()


def test_literals_as_older_servers_write_them_are_read(site, target: Path) -> None:
    size = {"type": "typed-literal", "value": "3", "datatype": "http://www.w3.org/2001/XMLSchema#integer"}
    answer = {
        "head": {"vars": ["id", "size"]},
        "results": {"bindings": [{"id": {"type": "uri", "value": "u"}, "size": size}]},
    }
    fetcher(site.put("/sparql", json.dumps(answer)), "SELECT * {}").fetch(target)
    assert records(target) == [{"id": "u", "size": 3}]


# --------------------------------------------------------------------------------------------------- graphs


GRAPHS = [
    "CONSTRUCT { ?s ?p ?o } WHERE { GRAPH <{graph}> { ?s ?p ?o } }",
    "CONSTRUCT { ?s ?p ?o } WHERE { GRAPH {graph} { ?s ?p ?o } } # {graph}",
    'CONSTRUCT { ?s ?p ?o } FROM <{graph}> WHERE {?s ?p ?o FILTER(?o != \'{graph}\' && ?o != """<{graph}>""")}',
]


@pytest.mark.parametrize("query", GRAPHS)
def test_the_graph_takes_its_placeholders_place(endpoint, target: Path, query: str) -> None:
    endpoint.load(tools(1), "https://x.org/graph")
    endpoint.load("x:other a s:SoftwareSourceCode .", "https://x.org/other")
    fetcher(endpoint.url, query, graph="https://x.org/graph").fetch(target)
    assert [record["id"] for record in records(target)] == ["https://x.org/t00"]
    assert endpoint.queries[0].count("<https://x.org/graph>") == 1


@pytest.mark.parametrize(
    "graph",
    ["http://x/a b", "http://x/a>", "http://x/<a", "http://x/'a", 'http://x/"a', "http://x/{a}", "http://x/a\\u003e",
     "http://x/\na", "graph", "", "http://x/\u2028a", "http://x/> } ; DROP ALL #"],
)  # fmt: skip
def test_a_graph_that_is_no_iri_is_refused(graph: str) -> None:
    with pytest.raises(UsageError, match="not an IRI"):
        fetcher("https://x.org/sparql", GRAPHS[0], graph=graph)


# ------------------------------------------------------------------------------------------------- the form


@pytest.mark.parametrize(
    "query",
    ["ASK {}", "DELETE WHERE { ?s ?p ?o }", "PREFIX a: <x:select> INSERT DATA { a:b a:c 'SELECT' }", "", "#x", "<a>"],
)
def test_a_query_that_gives_no_records_is_refused(query: str) -> None:
    with pytest.raises(UsageError, match="must be a SELECT, CONSTRUCT or DESCRIBE"):
        fetcher("https://x.org/sparql", query)


# ------------------------------------------------------------------------------------------------------ pages


@pytest.mark.parametrize("page_size", [1, 2, 3, 7, 8])
def test_rows_in_pages_are_the_rows(endpoint, target: Path, page_size: int) -> None:
    endpoint.load(tools(7))
    fetcher(endpoint.url, ROWS + " ORDER BY ?id # all", page_size=page_size).fetch(target)
    assert len(records(target)) == 7
    assert len(endpoint.queries) == 7 // page_size + 1


@pytest.mark.parametrize("page_size", [1, 2, 7, 50])
def test_a_graph_in_pages_is_the_graph(endpoint, target: Path, tmp_path: Path, page_size: int) -> None:
    endpoint.load(tools(7))
    fetcher(endpoint.url).fetch(target)
    fetcher(endpoint.url, INNER, page_size=page_size).fetch(tmp_path / "paged.jsonl")
    assert (tmp_path / "paged.jsonl").read_bytes() == target.read_bytes()


def test_a_page_of_known_triples_is_not_the_end(endpoint, target: Path) -> None:
    endpoint.load(
        'x:a s:name "A" ; s:keywords 1, 3, 4 . x:b s:name "B" ; s:keywords 2 . x:c s:name "C" ; s:keywords 5 .'
    )
    query = "PREFIX s: <https://schema.org/> CONSTRUCT { ?s s:name ?n } { ?s s:name ?n ; s:keywords ?k } ORDER BY ?k"
    fetcher(endpoint.url, query, page_size=2).fetch(target)
    assert [record["name"] for record in records(target)] == ["A", "B", "C"]


def test_what_an_endpoint_adds_to_every_page_is_not_taken_for_a_page(site, target: Path) -> None:
    added = '<x:page> <x:of> <x:catalog> .\n_:page <x:of> "this" .\n'
    for name in "ab":
        site.put("/sparql", f'{added}<x:{name}> <x:name> "{name}" .', headers={"Content-Type": "text/turtle"})
    url = site.put("/sparql", added, headers={"Content-Type": "text/turtle"})
    fetcher(url, ALL + " ORDER BY ?s", page_size=1).fetch(target)
    assert [record["id"] for record in records(target)] == ["x:a", "x:b", "x:page"]
    assert len(site.asked) == 4


@pytest.mark.parametrize("query", [ROWS + " ORDER BY ?id", INNER])
def test_a_server_that_ignores_the_offset_is_found_out(endpoint, target: Path, query: str) -> None:
    endpoint.load(tools(6))
    endpoint.rewrite = lambda asked: re.sub(r"OFFSET \d+", "", asked)
    error = failure(endpoint.url, query, target, page_size=2)
    assert "ignores OFFSET" in error.message
    assert len(endpoint.queries) == 2


@pytest.mark.parametrize(
    ("query", "page_size", "word"),
    [
        (ROWS, 5, "has no order"),
        (ALL + " # ORDER BY ?s", 5, "has no order"),
        ("SELECT ?id { { SELECT ?id { ?id ?p ?o } ORDER BY ?id } }", 5, "has no order"),
        (ROWS + " ORDER BY ?id LIMIT 7", 5, "its own LIMIT"),
        (ROWS + " ORDER BY ?id OFFSET 7", 5, "its own LIMIT"),
        (ROWS + " ORDER BY ?id VALUES ?id { <x:y> }", 5, "its own LIMIT"),
        (ROWS + " ORDER BY ?id LIMIT {limit}", 5, "one of"),
        (ROWS + " LIMIT {limit} OFFSET {offset}", 5, "has no order"),
        (ROWS + " ORDER BY ?id LIMIT {limit} OFFSET {offset}", None, "page_size is not set"),
        (ROWS + " ORDER BY ?id", 0, "above 0"),
    ],
)
def test_a_query_that_cannot_be_paged_is_refused(query: str, page_size: int | None, word: str) -> None:
    with pytest.raises(UsageError, match=word) as caught:
        fetcher("https://x.org/sparql", query, page_size=page_size)
    assert caught.value.hint


# ---------------------------------------------------------------------------------------------------- protocol


def test_the_query_goes_out_as_a_form_with_what_can_be_read(endpoint, target: Path) -> None:
    endpoint.load(tools(1))
    fetcher(endpoint.url).fetch(target)
    [asked] = endpoint.asked
    assert asked.method == "POST"
    assert asked.headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert asked.headers["Accept"].startswith("application/n-triples, text/turtle")
    fetcher(endpoint.url, ROWS).fetch(target)
    assert endpoint.asked[-1].headers["Accept"].startswith("application/sparql-results+json")


def test_an_endpoint_that_takes_no_post_is_asked_by_get(endpoint, target: Path) -> None:
    endpoint.load(tools(1))
    endpoint.refused = ("POST",)
    fetcher(endpoint.url + "?key=1").fetch(target)
    assert len(records(target)) == 1
    assert "key=1&query=CONSTRUCT" in endpoint.asked[-1].path
    endpoint.refused = ("POST", "GET")
    with pytest.raises(SourceFailed, match="405"):
        fetcher(endpoint.url).fetch(target)


# ----------------------------------------------------------------------------------------------- bad answers


@pytest.mark.parametrize("query", [ALL, ROWS, INNER])
def test_an_answer_without_a_record_is_a_failure(endpoint, target: Path, query: str) -> None:
    settings = {"page_size": 5} if query == INNER else {}
    assert "without a single record" in failure(endpoint.url, query, target, **settings).message


@pytest.mark.parametrize(
    ("query", "media_type", "body", "word"),
    [
        (ALL, "text/html", "<html>Welcome</html>", "not RDF: “<html>Welcome"),
        (ALL, "", "?", "no Content-Type"),
        (ALL, "text/turtle", "<a> <b> .", "cannot be parsed"),
        (ALL, "text/plain", "Virtuoso 42000 Error \x1b[31m", "cannot be parsed"),
        (ALL, "application/n-triples", "<x:a> <x:b> <x:c> .\n<x:a> <x:", "cannot be parsed"),
        (ALL, "application/ld+json", '{"@context": "https://schema.org", "name": "x"}', "cannot be parsed"),
        (ALL, "text/turtle", "<x:a> <x:b> <<( <x:c> <x:d> <x:e> )>> .", "triples about triples"),
        (ROWS, "text/html", "<html>Welcome</html>", "not JSON"),
        (ROWS, "application/json", '{"error": "busy"}', "not a table"),
        (ROWS, "application/json", '{"head": {}, "boolean": true}', "not a table"),
        (ROWS, "application/json", "[]", "not a table"),
        (ROWS, "application/json", '{"head": {"vars": []}, "results": {"bindings": [{}]}}', "without columns"),
        (ROWS, "application/json", '{"head": {"vars": ["id"]}, "results": {"bindings": [{"id": {"type": "triple"}}]}}',
         "not a table"),
    ],
)  # fmt: skip
def test_an_answer_that_cannot_be_read_is_shown(
    site, target: Path, query: str, media_type: str, body: str, word: str
) -> None:
    error = failure(site.put("/sparql", body, headers={"Content-Type": media_type}), query, target)
    assert word in error.message
    assert "curl" in error.hint


@pytest.mark.parametrize("headers", [{"X-SPARQL-MaxRows": "7"}, {"X-SQL-State": "S1TAT"}])
def test_an_answer_that_says_it_is_a_part_is_a_failure(endpoint, target: Path, headers: dict) -> None:
    endpoint.load(tools(7))
    endpoint.headers = headers
    assert "page_size" in failure(endpoint.url, ROWS, target).hint


def test_pages_have_one_deadline_together(target: Path) -> None:
    """Each page comes in time and has something new: without a deadline for all of them there is no end."""
    pages = iter(range(10**9))

    def say(talk: Conversation) -> None:
        pause(0.05, why="pages that come, each in its time")
        row = {"id": {"type": "uri", "value": f"https://x.org/{next(pages)}"}}
        answer = {"head": {"vars": ["id"]}, "results": {"bindings": [row]}}
        talk.answer(json.dumps(answer).encode(), "Content-Type: application/sparql-results+json")

    query = "SELECT ?id WHERE { ?id ?p ?o } ORDER BY ?id"
    with serving(say) as server:
        error = failure(server.url, query, target, page_size=1, deadline_s=1, retries=3)
    assert "no complete answer within 1 s" in error.message
    assert "deadline_s" in error.hint
