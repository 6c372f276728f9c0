"""The search page as HTML: complete without JavaScript, and nothing of a record is markup."""

import html
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

import httpx
import pytest
from pages import ATTACKS, Node, hostile_records, read_html
from samples import TOOLS
from servers import Server, built, client_of, sent, served, started, state_of

from retrieve_cli.errors import UsageError
from retrieve_cli.server.http.app import server_app
from retrieve_cli.server.page.address import Address, record_url
from retrieve_cli.server.page.rendering import link, static_file

LONG: list[dict[str, object]] = [
    {"id": f"many{number}", "name": f"Many {number}", "description": "microscope text", "group": "many"}
    for number in range(25)
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("page")
    docs = folder / "docs"
    docs.mkdir()
    sections = [f"## Part {number}\n\nText of part {number}. " * 40 for number in range(40)]
    (docs / "guide.md").write_text("\n\n".join(["# Guide", *sections]))
    artifacts = built(folder, [*TOOLS, *LONG], "--docs-dir", str(docs))
    with started(artifacts, cwd=folder, RETRIEVE_ENCODER__KIND="hashed") as running:
        yield running


def page(server: Server, path: str = "/", **parameters: object) -> Node:
    answer = server.get(f"{path}?{urlencode(parameters, doseq=True)}" if parameters else path)
    assert answer.status == 200, answer.data
    return read_html(answer.data)


def hits(tree: Node) -> list[str]:
    return [node.text for node in tree.all("a", class_="hit")]


# ------------------------------------------------------------------------------------------------ search


def test_a_search_shows_title_snippet_source_lines_and_badges(server: Server) -> None:
    tree = page(server, q="segment lungs")
    first = tree.one("article")
    assert first.one("a", class_="hit").text == "LungMapper"
    assert [mark.text for mark in first.one("p", class_="snippet").all("mark")][:1] == ["Segments"]
    assert "tools.jsonl, line 1" in first.one("p", class_="meta").text
    assert first.one("span", class_="badge licence").text == "MIT"


def test_the_why_table_adds_up_to_the_score_of_the_answer(server: Server) -> None:
    tree = page(server, q="segment lungs", rerank="no")
    result = server.search(query="segment lungs", rerank=False)["results"][0]
    rows = {row.one("th").text: [cell.text for cell in row.all("td")] for row in tree.one("tbody").all("tr")}
    assert set(rows) == set(result["source_scores"])
    for source, evidence in result["source_scores"].items():
        assert rows[source][0] == str(evidence["rank"])
        assert float(rows[source][3]) == pytest.approx(evidence["normalized"] * evidence["weight"], rel=0.01)
    assert float(tree.one("tfoot").one("td").text) == pytest.approx(result["score"], rel=0.001)


def test_a_record_leads_to_records_like_it_and_a_chip_takes_the_example_back(server: Server) -> None:
    record = page(server, "/r/lungs")
    assert "/?like=lungs" in [node.attributes["href"] for node in record.all("a") if node.text == "More like this"]
    like = page(server, like="lungs")
    answer = server.search(like=["lungs"], limit=10)
    assert hits(like) == [result["name"] for result in answer["results"]]
    assert "LungMapper" not in hits(like)
    assert [node.attributes["href"] for node in like.one("ul", class_="chips").all("a")] == ["/"]


def test_pages_follow_one_another_without_gap_or_repetition(server: Server) -> None:
    first = page(server, q="microscope text")
    follow = first.one("a", rel="next").attributes["href"]
    assert follow is not None
    second = page(server, follow)
    assert second.one("ol").attributes["start"] == "11"
    assert len({*hits(first), *hits(second)}) == 20
    assert second.one("a", rel="prev").attributes["href"] == "/?q=microscope+text"


def test_facets_have_counts_and_ticked_values_and_chips_take_them_back(server: Server) -> None:
    tree = page(server, q="brain volumes cells", f=["group=neuroimaging"])
    boxes = {box.attributes["value"]: box.attributes for box in tree.all("input", type="checkbox")}
    assert "checked" in boxes["group=neuroimaging"]
    assert "checked" not in boxes["group=microscopy"], "values of a field can be joined"
    chip = tree.one("ul", class_="chips").one("a")
    assert chip.attributes["href"] == "/?q=brain+volumes+cells"
    assert {"BrainStrip", "WarpAlign"} >= set(hits(tree)) != set()


def test_an_empty_answer_says_which_stage_took_the_last_hit(server: Server) -> None:
    filtered = page(server, q="lungs", f=["license=MIT", "group=microscopy"]).one("div", class_="box").text
    assert "No record passes all filters." in filtered
    assert "pass license=MIT" in filtered
    nothing = page(server, q="qqqqzzzz", mode="bm25").one("div", class_="box").text
    assert "found nothing that matches" in nothing


def test_results_are_grouped_by_their_source(server: Server) -> None:
    plain, grouped = page(server, q="text"), page(server, q="text", by="source")
    assert [node.text for node in grouped.all("h2", class_="of")] == ["docs", "tools.jsonl"]
    assert sorted(hits(plain)) == sorted(hits(grouped))
    ranks = {node.one("a", class_="hit").text: node.attributes["value"] for node in plain.one("ol").all("li")}
    assert {name: ranks[name] for name in ranks} == {
        node.one("a", class_="hit").text: node.attributes["value"]
        for listed in grouped.all("ol", class_="hits")
        for node in listed.all("li")
    }
    assert "by=source" in (grouped.one("a", rel="next").attributes["href"] or "")


def test_a_wrong_filter_is_a_message_with_a_hint_on_the_page(server: Server) -> None:
    answer = server.get("/?q=lungs&f=licence%3DMIT")
    tree = read_html(answer.data)
    assert answer.status == 422
    assert "did you mean `license`" in tree.one("div", role="alert").text
    assert tree.one("ul", class_="chips").text.endswith("licence=MIT ×")


# ------------------------------------------------------------------------------------------------ record


def test_the_page_of_a_record_has_its_fields_and_its_text(server: Server) -> None:
    tree = page(server, "/r/lungs")
    fields = {row.one("dt").text: row.one("dd").text for row in tree.one("dl", class_="fields").all("div")}
    assert fields["License"] == "MIT"
    assert fields["Keywords"] == "lung, CT"
    assert "Segments lungs and lobes" in tree.one("div", class_="text").text


def test_a_long_document_is_shown_in_parts_with_places_to_link_to(server: Server) -> None:
    tree = page(server, "/r/guide.md")
    assert tree.one("article", id="c0")
    follow = tree.one("a", rel="next").attributes["href"]
    assert follow is not None
    assert page(server, follow.partition("#")[0]).one("article", id="c30")


# ---------------------------------------------------------------------------------------------- protocol


def test_every_page_forbids_scripts_styles_and_frames_from_elsewhere(server: Server) -> None:
    for path in ("/", "/?q=lungs", "/r/lungs", "/r/nope", "/signin", "/nowhere"):
        answer = server.get(path, Accept="text/html")
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "unsafe" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "same-origin"
        tree = read_html(answer.data)
        inline = [node.tag for node in tree.all() if node.tag == "style" or "style" in node.attributes]
        inline += [node.tag for node in tree.all("script") if "src" not in node.attributes]
        inline += [name for node in tree.all() for name in node.attributes if name.startswith("on")]
        assert inline == []


def test_an_unknown_address_is_a_page_for_browsers_and_an_object_for_programs(server: Server) -> None:
    browser = server.get("/nowhere", Accept="text/html,application/xhtml+xml,*/*;q=0.8")
    program = server.get("/nowhere", Accept="application/json")
    assert (browser.status, program.status) == (404, 404)
    assert "No page has this address." in read_html(browser.data).one("main").text
    assert program.json()["error"]["kind"] == "not_found"


def test_static_files_are_kept_for_good_under_an_address_with_their_digest(server: Server) -> None:
    tree = page(server)
    address = tree.one("script").attributes["src"]
    assert address is not None
    answer = server.get(address)
    assert "immutable" in answer.headers["Cache-Control"]
    assert answer.data == static_file("page.js").content
    assert server.get("/static/..%2F__init__.py").status == 404


def test_the_first_page_is_at_most_30_kb_and_the_script_15(server: Server) -> None:
    files = {name: len(static_file(name).content) for name in ("page.css", "page.js", "icon.svg")}
    assert files["page.js"] <= 15_000
    assert len(server.get("/").data) + sum(files.values()) <= 30_000
    compressed = server.get("/?q=microscope", **{"Accept-Encoding": "gzip"})
    assert int(compressed.headers["Content-Length"]) + sum(files.values()) <= 30_000, "with results, by gzip"


# --------------------------------------------------------------------------------------------- hostile text


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("hostile"), hostile_records(), "--max-fail", "300")


@pytest.mark.anyio
async def test_nothing_of_a_record_is_markup_or_an_address_that_runs(hostile: Path) -> None:
    state = state_of(hostile)
    records = state.live.index.records()
    assert len(records) == 300
    paths = [f"/?q=victim&mode=bm25&page={number}" for number in range(1, 31)]
    paths += [record_url(record["id"]) for record in records]
    paths += [f"/?{urlencode({'q': attack, 'f': 'group=' + attack})}" for attack in ATTACKS if len(attack) < 1000]
    known = None
    async with served(state) as client:
        for path in paths:
            answer = await client.get(path)
            assert answer.status_code in ((200, 422) if "&f=" in path else (200,)), path
            tree = read_html(answer.content)
            assert [node.attributes for node in tree.all("script")] == [
                {"type": "module", "src": f"/static/page.js?v={static_file('page.js').digest}"}
            ]
            tags = {node.tag for node in tree.all()}
            assert not tags & {"img", "iframe", "object", "embed", "style", "base", "math", "mglyph", "animate"}, path
            for node in tree.all():
                assert not any(name.startswith("on") for name in node.attributes), path
                address = node.attributes.get("href") or node.attributes.get("action") or "/"
                assert address.startswith(("/", "#", "http://", "https://")), (path, address)
                assert not address.startswith("//"), (path, address)
            text = tree.text
            assert not set(text) & set("\u202e\u2066\x00\x07\x1b\x7f\u0085\u2028"), path
            assert "4949" not in text or "49" in path, "templates in records are not run"
            known = known or tree
    assert known is not None
    assert len(hits(known)) == 10


@pytest.mark.parametrize(
    "address", ["javascript:x", "data:text/html,x", "//evil.org", "ftp://x", "https://", "http://[", "x"]
)
def test_only_addresses_of_web_servers_are_links(address: str) -> None:
    assert link(address) is None
    assert link(f" {address}") is None
    assert link(None) is None


# ------------------------------------------------------------------------------------------------- address


def test_the_address_is_the_state() -> None:
    choices = (("min_score", "0.5"), ("mode", "bm25"), ("rerank", "no"), ("generation", "3f2a"))
    address = Address("größe & co", ("license=MIT", "dims>=3"), choices, 3)
    assert Address.of(parse_qsl(address.url().partition("?")[2])) == address
    assert Address.of([("q", " x "), ("page", "-1"), ("rerank", "maybe"), ("z", "1")]) == Address("x")


# ----------------------------------------------------------------------------------- keys, tenants, signing in


@pytest.mark.anyio
async def test_with_keys_the_page_asks_for_one_and_keeps_it_in_a_cookie_that_scripts_cannot_read(index: Path) -> None:
    async with served(state_of(index, key="s3cret")) as client:
        asked = await client.get("/?q=lungs&f=license%3DMIT")
        assert asked.status_code == 401
        form = read_html(asked.content).one("form", class_="signin")
        following = form.one("input", name="next").attributes["value"]
        assert following == "/?q=lungs&f=license%3DMIT"
        own = {"Origin": "http://test"}
        wrong = await client.post("/signin", data={"key": "no", "next": following}, headers=own)
        assert wrong.status_code == 401
        assert "not valid" in read_html(wrong.content).one("p", role="alert").text
        done = await client.post("/signin", data={"key": "s3cret", "next": following}, headers=own)
        assert (done.status_code, done.headers["Location"]) == (303, following)
        cookie = done.headers["Set-Cookie"]
        assert "retrieve_key=s3cret" in cookie
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        signed = await client.get("/?q=lungs")
        assert signed.status_code == 200
        assert read_html(signed.content).one("form", action="/signout").attributes["method"] == "post"
        assert (await client.post("/search", json={"query": "lungs"})).status_code == 401, "the cookie is the page's"
        out = await client.post("/signout", headers=own)
        assert out.status_code == 303
        client.cookies.clear()
        assert (await client.get("/?q=lungs")).status_code == 401


@pytest.mark.anyio
async def test_a_form_of_another_site_is_rejected_and_no_address_leads_away(index: Path) -> None:
    async with served(state_of(index, key="s3cret")) as client:
        for origin in ("http://evil.org", "null", "http://test.evil.org"):
            answer = await client.post("/signin", data={"key": "s3cret"}, headers={"Origin": origin})
            assert answer.status_code == 403
            assert "Set-Cookie" not in answer.headers
        for following in ("//evil.org", "https://evil.org", "/\\evil.org", "\\\\evil.org", "/a\r\nSet-Cookie: x=1"):
            data = {"key": "s3cret", "next": following}
            done = await client.post("/signin", data=data, headers={"Origin": "http://test"})
            assert done.headers["Location"] == "/"
            client.cookies.clear()


PICTURED = {
    "id": "pictured", "name": "Pictured", "description": "A tool with a picture.",
    "logo_url": "https://pictures.example.org/logo.png", "image": "https://evil.example.org/track.gif",
    "screenshot": "http://pictures.example.org/plain.png",
}  # fmt: skip


def test_a_picture_is_shown_only_of_a_server_that_the_operator_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_ENCODER__KIND", "hashed")
    monkeypatch.chdir(tmp_path)
    artifacts = built(tmp_path, [PICTURED])

    def shown() -> tuple[list[str | None], str]:
        state = state_of(artifacts)
        try:
            (answer,) = sent(server_app(state), ("GET", "/?q=tool", {}))
        finally:
            state.close()
        pictures = [node.attributes["src"] for node in read_html(answer.content).all("img", class_="thumb")]
        return pictures, answer.headers["Content-Security-Policy"]

    none, policy = shown()
    assert none == []
    assert "img-src 'self';" in policy
    monkeypatch.setenv("RETRIEVE_SERVE__PICTURE_HOSTS", "[pictures.example.org]")
    some, policy = shown()
    assert some == [PICTURED["logo_url"]]
    assert "img-src 'self' https://pictures.example.org;" in policy
    monkeypatch.setenv("RETRIEVE_SERVE__PICTURE_HOSTS", '["x.org; script-src *"]')
    with pytest.raises(UsageError, match="picture_hosts"):
        shown()


def test_a_corrected_search_links_to_the_words_as_typed(server: Server) -> None:
    tree = page(server, q="segmment ribs")
    (address,) = [node.attributes["href"] for node in tree.all("a") if node.text == "Search for the words as typed"]
    assert dict(parse_qsl(address.partition("?")[2])) == {"q": "segmment ribs", "exact_words": "yes"}
    exact = page(server, address)
    assert [node for node in exact.all("a") if node.text == "Search for the words as typed"] == []


LINKS = re.compile(r'(?:href|src|action)="(/[^"]*)"')


@pytest.mark.anyio
@pytest.mark.parametrize("root", ["/search", "/tools/find"])
async def test_below_a_path_of_a_proxy_every_link_and_every_route_works(root: str, tmp_path: Path) -> None:
    """A proxy passes the path on or not, and says so or not; /search is a route of this server, too."""
    state = state_of(built(tmp_path))
    app = server_app(state)
    async with client_of(app) as client:
        plain = (await client.get("/", params={"q": "lungs"})).text
        for configured, told, before in (
            (root, {}, ""),
            (root, {}, root),
            ("", {"X-Forwarded-Prefix": root}, ""),
            ("/other", {"X-Forwarded-Prefix": f"{root}/"}, ""),
        ):
            app.root = configured
            client.headers = httpx.Headers(told)
            text = (await client.get(f"{before}/", params={"q": "lungs"})).text
            assert LINKS.findall(text) == [root + link for link in LINKS.findall(plain)]
            for link in LINKS.findall(text):
                assert (await client.get(html.unescape(before + link.removeprefix(root)))).status_code == 200, link
            answer = await client.post(f"{before}/search", json={"query": "lungs"})
            assert answer.json()["results"][0]["doc_id"] == "lungs"
            described = (await client.get(f"{before}/openapi.json")).json()
            assert described["servers"][0] == {"url": root}
        app.root = ""
        for odd in ("//evil.example", "/a b", 'x"', "/\u00e9"):
            client.headers = httpx.Headers({"X-Forwarded-Prefix": odd.encode("latin-1")})  # type: ignore[dict-item]
            assert LINKS.findall((await client.get("/", params={"q": "lungs"})).text) == LINKS.findall(plain)
    state.close()
