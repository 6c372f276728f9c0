"""Works that providers found at ranks, and answers of a web search with them."""

from typing import Any

import web_answers as made

from retrieve_cli.contracts import Evidence, Hit
from retrieve_cli.contracts.works import Id, Work
from retrieve_cli.frozen import replace
from retrieve_cli.search.web_answer import WebAnswer, WebHit


def work(name: str, *found: tuple[str, int | None], **given: Any) -> Work:
    """Return a work that providers found at ranks."""
    values: dict[str, Any] = {
        "type": "article",
        "title": f"On {name}",
        "ids": (Id("doi", f"10.1000/{name}"),),
        "url": f"https://example.org/{name}",
        "provenance": {"title": found[0][0]} if found else {},
        **given,
    }
    return Work(id=f"doi:10.1000/{name}", found_by=tuple(made.source(*each) for each in found), **values)


def hit(of: Work) -> WebHit:
    """Return a work as the fusion of ranks returns it."""
    ranked = [(each.provider, each.rank, 1 / (60 + each.rank)) for each in of.found_by if each.rank]
    evidence = tuple(Evidence(provider, rank, score, score, 1.0) for provider, rank, score in ranked)
    return WebHit(of, Hit(of.id, 0, 0, 0.5, evidence))


def answer(*works: Work, **values: Any) -> WebAnswer:
    """Return an answer with these works, best first, and with their ranks as evidence."""
    return replace(made.answer(*works, **values), hits=tuple(map(hit, works)))
