"""The tab "Web": shown only to those who may search, complete without scripts, and nothing of a result is markup."""

from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import web_answers as made
from pages import ATTACKS, Node, read_html
from server.doors import web_client
from servers import built

from retrieve_cli.contracts.works import Cited, FieldConflict, Id, Linked, Version
from retrieve_cli.search.web_answer import ProviderStatus, WebOptions
from retrieve_cli.server.page.rendering import POLICY


async def page(client: Any, status: int = 200, headers: dict[str, str] | None = None, **parameters: str) -> Node:
    answer = await client.get(f"/web?{urlencode(parameters)}" if parameters else "/web", headers=headers)
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Security-Policy"] == POLICY
    return read_html(answer.content)


@pytest.mark.anyio
async def test_the_tab_is_there_only_for_callers_that_may_search_the_web(tmp_path: Path) -> None:
    artifacts, search = built(tmp_path), made.Canned(made.answer())
    async with web_client(artifacts, search) as client:
        for path in ("/", "/?q=lungs", "/r/lungs", "/web"):
            tabs = read_html((await client.get(path)).content).one("nav", class_="tabs").all("a")
            assert [tab.attributes["href"] for tab in tabs] == ["/", "/web"]
            marked = [tab.text for tab in tabs if tab.attributes.get("aria-current") == "page"]
            assert marked == ["Web" if path == "/web" else "Index"]
    async with web_client(artifacts, search, "search") as client:
        assert not read_html((await client.get("/")).content).all("nav", class_="tabs")
        assert (await client.get("/web")).status_code == 403
    async with web_client(artifacts, search, "search,web") as client:
        assert read_html((await client.get("/")).content).all("nav", class_="tabs")
    async with web_client(artifacts, None, "search,web") as client:
        assert not read_html((await client.get("/")).content).all("nav", class_="tabs")


@pytest.mark.anyio
async def test_the_form_alone_sends_nothing_and_an_answer_keeps_what_was_chosen(artifacts: Path) -> None:
    search = made.Canned(made.answer(made.work()))
    async with web_client(artifacts, search) as client:
        empty = await page(client)
        assert "sent to providers on the internet: tavily, serper, serpapi, pubmed," in empty.one("main").text
        assert not empty.all("article")
        assert search.asked == []
        tree = await page(client, q="off-target", kind="literature", since="2024", category="q-bio, cs.AI")
    assert search.asked == [WebOptions("off-target", kind="literature", since="2024", categories=("q-bio", "cs.AI"))]
    assert tree.one("input", name="q").attributes["value"] == "off-target"
    assert tree.one("input", name="since").attributes["value"] == "2024"
    assert tree.one("select", name="kind").one("option", value="literature").attributes.keys() >= {"selected"}
    assert tree.one("p", id="count").text == "1 of 17 works. the query names a study"
    assert "data-live" not in tree.one("form", id="search").attributes, "no query is sent while one types"


@pytest.mark.anyio
async def test_a_result_shows_type_venue_date_providers_versions_and_that_it_is_retracted(artifacts: Path) -> None:
    async with web_client(artifacts, made.Canned(made.answer(made.PREPRINT, made.PAGE))) as client:
        tree = await page(client, q="guides")
    first, second = tree.all("article")
    badges = [badge.text for badge in first.all("span") if "badge" in str(badge.attributes.get("class"))]
    assert badges == ["preprint", "pubmed", "europepmc", "open access"]
    assert "Ada Example, Bo Sample, Cy Case, Di Datum · 2024-03 · Journal of Examples" in first.text
    assert first.one("strong").text == "Retracted"
    assert [node.text for node in first.one("ul").all("li")] == [
        "other version: A draft on guides · 2024-01 · arxiv:2401.01234v1",
        "review of it: doi:10.1000/review1",
    ]
    facts = {row.one("dt").text: row.one("dd").text for row in first.one("dl").all("div")}
    assert facts["arxiv"] == "2401.01234"
    assert facts["citations"] == "1,200 (s2)"
    assert facts["date elsewhere"] == "2023 (s2)"
    assert not second.all("strong")
    assert second.one("p", class_="snippet").text == "A guide for beginners."
    for link in [*first.all("a"), *second.all("a")]:
        assert link.attributes["rel"] == "noopener noreferrer nofollow"
    addresses = [link.attributes["href"] for link in first.all("a")]
    assert addresses == ["https://doi.org/10.1000/w2", "https://arxiv.org/pdf/2401.01234"]


@pytest.mark.anyio
async def test_the_state_of_each_provider_is_shown_and_a_failure_is_no_empty_answer(artifacts: Path) -> None:
    stored = made.OK._replace(provider="europepmc", age_s=7200.0, notices=("categories are not applied",))
    idle = ProviderStatus("arxiv", "provider", "not_asked")
    answer = made.answer(statuses=(made.OK, stored, made.FAILED, idle))
    async with web_client(artifacts, made.Canned(answer)) as client:
        tree = await page(client, q="guides")
    states = {row.one("dt").text: row.one("dd").text for row in tree.one("dl", class_="providers").all("div")}
    assert states == {
        "pubmed": "answered: 2 of 17 results",
        "europepmc": "answered: 2 of 17 results, stored 2 h ago; categories are not applied",
        "s2": "rate limited: it permits no further requests for 3 s; ask again in 3 s, or set S2_API_KEY",
        "arxiv": "not asked",
    }
    assert "s2: rate limited" in tree.one("div", role="alert").text
    assert "does not mean that there is nothing" in tree.one("main").text


@pytest.mark.anyio
async def test_a_wrong_choice_is_a_message_on_the_page(artifacts: Path) -> None:
    search = made.Canned(made.answer())
    async with web_client(artifacts, search) as client:
        tree = await page(client, 422, q="x", since="2024-99")
    assert "`since` of the address is not a date: '2024-99'" in tree.one("div", role="alert").text
    assert search.asked == []


@pytest.mark.anyio
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_another_site_cannot_send_a_query_in_the_name_of_the_user(artifacts: Path, site: str) -> None:
    search = made.Canned(made.answer(made.work()))
    async with web_client(artifacts, search) as client:
        tree = await page(client, headers={"Sec-Fetch-Site": site}, q="secret")
        assert search.asked == []
        assert tree.one("input", name="q").attributes["value"] == "secret", "the user may still send it"
        for own in ("same-origin", "none"):
            assert (await page(client, headers={"Sec-Fetch-Site": own}, q="mine")).all("article")
    assert len(search.asked) == 2


@pytest.mark.anyio
async def test_nothing_of_a_result_or_a_provider_is_markup_or_an_unsafe_link(artifacts: Path) -> None:
    for number, attack in enumerate(ATTACKS):
        other = ATTACKS[(number + 7) % len(ATTACKS)]
        evil = made.work(
            title=attack,
            abstract=other,
            authors=(attack, other),
            venue=attack,
            date=attack,
            url=attack,
            pdf_url=other,
            license=attack,
            ids=(Id("doi", attack),),
            citations=Cited(3, other, attack),
            versions=(Version(attack, "preprint", "preprint_of", other, attack, other),),
            linked=(Linked(attack, "reviews"),),
            conflicts={"title": (FieldConflict(attack, other),)},
        )
        status = made.FAILED._replace(message=attack, hint=other)
        answer = made.answer(evil, statuses=(made.OK._replace(notices=(attack,)), status), notices=(attack,))
        async with web_client(artifacts, made.Canned(answer)) as client:
            tree = await page(client, q=attack[:2000], since="", category="")
        assert len(tree.all("article")) == 1
        assert len(tree.all("script")) == 1, "that of the page itself"
        assert not [node for tag in ("img", "iframe", "object", "style", "base") for node in tree.all(tag)]
        for node in tree.all():
            assert not [name for name in node.attributes if name.startswith("on")], (attack, node.tag)
        for link in tree.one("main").all("a"):
            assert str(link.attributes["href"]).startswith(("http://", "https://")), attack
            assert link.attributes["rel"] == "noopener noreferrer nofollow"
