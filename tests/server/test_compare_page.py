"""The comparison of two configurations, and judging."""

from pathlib import Path

import pytest
from pages import Node, read_html
from samples import Program, write_catalog
from servers import served, state_of

from retrieve_cli.evaluation.judgments import read_gold
from retrieve_cli.evaluation.votes import Preference, Votes
from retrieve_cli.server.http.callers import Caller
from retrieve_cli.server.page.compare import verdict

OWN = {"Origin": "http://test"}


def titles(tree: Node) -> list[str]:
    return [node.text for node in tree.all("a", class_="hit")]


@pytest.mark.anyio
async def test_two_configurations_stand_beside_each_other_and_moved_hits_are_marked(index: Path) -> None:
    async with served(state_of(index)) as client:
        tree = read_html((await client.get("/compare?q=brain+images&b.mode=bm25&b.rerank=no")).content)
        sides = [side for side in tree.all("section") if side.attributes.get("aria-label", "")]
        searches = [{"query": "brain images"}, {"query": "brain images", "mode": "bm25", "rerank": False}]
        answers = [(await client.post("/search", json=body)).json() for body in searches]
        ranked = [[result["name"] for result in answer["results"]] for answer in answers]
        assert [titles(side) for side in sides] == ranked
        for own, other, side in ((ranked[0], ranked[1], sides[0]), (ranked[1], ranked[0], sides[1])):
            for rank, item in enumerate(side.one("ol").all("li")):
                moves = [node.text for node in item.all("p") if (node.attributes.get("class") or "").startswith("move")]
                name = own[rank]
                assert bool(moves) is (name not in other or other.index(name) != rank), name
                if name not in other:
                    assert moves == ["only here"]


@pytest.mark.anyio
async def test_two_generations_are_compared(index: Path, catalog: Path, retrieve: Program) -> None:
    state = state_of(index)
    first = state.live.index.generation
    write_catalog(catalog, [{"id": "new", "name": "NewOne", "description": "Segments lungs anew."}])
    assert retrieve("build", "--catalog", catalog).code == 0
    state.live.refresh()
    async with served(state) as client:
        page = read_html((await client.get(f"/compare?q=lungs&a.generation={first}")).content)
        sides = [titles(side) for side in page.all("section") if side.attributes.get("aria-label", "")]
        assert ("LungMapper" in sides[0], "NewOne" in sides[0]) == (True, False)
        assert sides[1] == ["NewOne"]
        gone = read_html((await client.get("/compare?q=lungs&a.generation=ffff")).content)
        assert gone.all("div", class_="box alert")


@pytest.mark.anyio
async def test_an_interleaved_list_tells_nothing_and_a_vote_is_gold(index: Path) -> None:
    async with served(state_of(index)) as client:
        path = "/compare?q=brain&b.mode=bm25&view=blind"
        tree = read_html((await client.get(path)).content)
        shown = tree.one("ol")
        assert not shown.all("details"), "reasons would tell the configurations apart"
        form = shown.one("form")
        fields = {field.attributes["name"]: field.attributes["value"] or "" for field in form.all("input")}
        done = await client.post("/judgments", data={**fields, "grade": "1"}, headers=OWN)
        assert (done.status_code, done.headers["Location"]) == (303, f"{path}#n1")
        (topic,) = read_gold(Votes(index, None).gold)
        assert (topic.text, topic.grades) == ("brain", {fields["id"]: 1})
        after = read_html((await client.get(path)).content)
        assert after.one("ol").one("button").attributes["aria-pressed"] == "true"
        assert "sign test p =" in after.one("section").text
        await client.post("/judgments", data={**fields, "grade": ""}, headers=OWN)
        assert Votes(index, None).last() == {}


@pytest.mark.anyio
async def test_judging_takes_the_scope_a_form_of_the_page_and_a_record_that_exists(
    index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = state_of(index, key="s3cret")
    vote = {"q": "brain", "id": "brain", "grade": "1"}
    key = {"Authorization": "Bearer s3cret"}
    async with served(state) as client:
        assert (await client.post("/judgments", data=vote, headers=OWN)).status_code == 401
        foreign = await client.post("/judgments", data=vote, headers={**key, "Origin": "http://evil.org"})
        assert foreign.status_code == 403
        for wrong in ({**vote, "id": "nope"}, {**vote, "grade": "9"}, {**vote, "q": " "}, {**vote, "team": "c"}):
            assert (await client.post("/judgments", data=wrong, headers={**key, **OWN})).status_code in (404, 422)
        assert not (index / "judgments").exists()
        reader = Caller(None, frozenset({"search"}), "reader")
        monkeypatch.setattr(state.callers, "of", lambda request, scope: reader)
        tree = read_html((await client.get("/compare?q=brain&view=blind&b.mode=bm25")).content)
        assert not tree.all("form", class_="vote")
        assert "scope judge" in tree.one("main").text


def test_a_verdict_says_who_is_ahead_and_whether_that_is_significant() -> None:
    assert verdict(Preference(0, 0, 0, None)) == "Nothing is judged yet."
    assert verdict(Preference(6, 0, 1, 0.03125)) == (
        "Of 7 queries, 6 prefer A, 0 prefer B and 1 neither; sign test p = 0.031, significant."
    )
    assert "sign test p <0.001, significant" in verdict(Preference(20, 0, 0, 2e-6))
    assert "not significant" in verdict(Preference(2, 1, 0, 1.0))
