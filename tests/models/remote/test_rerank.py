"""The scorer behind a rerank endpoint."""

from typing import Any

import numpy as np
import pytest
from models.remote.servers import Answer, Api, Asked

from retrieve_cli.errors import Unavailable
from retrieve_cli.models.remote.client import ServerFailed
from retrieve_cli.models.remote.rerank import RemoteScorer

PASSAGES = [f"passage {number} {'x' * number}" for number in range(10)]
MISSING = Answer(b'{"error": "missing field `texts`", "error_type": "validation"}', 422)


def value(text: str) -> float:
    return len(text) / 4


def ranked(texts: list[str], key: str) -> list[dict[str, Any]]:
    """Best first, as servers answer."""
    scored = [{"index": at, key: value(text)} for at, text in enumerate(texts)]
    return sorted(scored, key=lambda row: -row[key])


def jina(asked: Asked) -> Any:
    if "documents" not in asked.json:
        return Answer(b'{"detail": "documents: field required"}', 422)
    return {"model": asked.json["model"], "results": ranked(asked.json["documents"], "relevance_score")}


def tei(asked: Asked) -> Any:
    return ranked(asked.json["texts"], "score") if "texts" in asked.json else MISSING


@pytest.fixture
def scorer(api: Api, connect):
    api.respond = jina

    def make(**settings: Any) -> RemoteScorer:
        return RemoteScorer(connect(), **{"model": "bge", **settings})

    return make


@pytest.mark.parametrize(("server", "form"), [(jina, "jina"), (jina, "auto"), (tei, "tei"), (tei, "auto")])
@pytest.mark.parametrize("batch_size", [1, 3, 100])
def test_each_passage_has_its_score_whatever_the_form_and_the_batches(
    api: Api, scorer, server, form: str, batch_size: int
) -> None:
    api.respond = server
    made = scorer(form=form, batch_size=batch_size)
    for _ in range(2):
        found = made.score("q", PASSAGES)
        assert found.dtype == np.float32
        assert found.tolist() == [value(text) for text in PASSAGES]


def test_a_form_that_was_found_out_is_kept_to(api: Api, scorer) -> None:
    api.respond = tei
    made = scorer(batch_size=4)
    made.score("q", PASSAGES)
    assert ["texts" in asked.json for asked in api.asked] == [False, True, True, True]
    made.score("q", PASSAGES[:1])
    assert len(api.asked) == 5


def test_the_forms_ask_for_every_score_and_no_text(api: Api, scorer) -> None:
    scorer(form="jina").score("q", ["a", "b"])
    documents = {"documents": ["a", "b"], "top_n": 2, "return_documents": False}
    assert api.last.json == {"model": "bge", "query": "q", **documents}
    assert api.last.path == "/v1/rerank"
    api.respond = tei
    scorer(form="tei").score("q", ["a", "b"])
    flags = {"raw_scores": True, "return_text": False, "truncate": True}
    assert api.last.json == {"query": "q", "texts": ["a", "b"], **flags}


def test_passages_are_cut_where_that_is_asked_for_and_sent_as_they_are_else(api: Api, scorer) -> None:
    texts = ["Grüße 細胞", "\ud800x", ""]
    scorer().score("ü", texts)
    assert api.last.json["documents"] == ["Grüße 細胞", "\ufffdx", ""]
    scorer(max_chars=3).score("ü", texts)
    assert api.last.json["documents"] == ["Grü", "\ufffdx", ""]


def test_a_fixed_form_that_is_refused_is_not_changed(api: Api, scorer) -> None:
    api.respond = tei
    with pytest.raises(ServerFailed, match="missing field `texts`"):
        scorer(form="jina").score("q", ["a"])
    assert len(api.asked) == 1


def test_a_server_that_takes_neither_form_is_heard_on_the_first(api: Api, scorer) -> None:
    api.say({"error": "the model cannot rerank"}, status=400)
    api.say({"error": "what are texts"}, status=422)
    with pytest.raises(ServerFailed, match="the model cannot rerank"):
        scorer().score("q", ["a"])
    api.respond = lambda _: Answer(b"nothing here", 404)
    with pytest.raises(Unavailable, match="nothing here"):
        scorer().score("q", ["a"])


def test_a_refusal_for_another_reason_is_no_question_of_form(api: Api, scorer) -> None:
    api.respond = lambda _: Answer(b"who are you?", 401)
    with pytest.raises(Unavailable, match="who are you"):
        scorer().score("q", ["a"])
    assert len(api.asked) == 1
