"""Works and answers of a web search, made by hand."""

from typing import Any

from retrieve_cli.contracts import Evidence, Hit
from retrieve_cli.contracts.works import Cited, Conflict, Id, Source, Version, Work
from retrieve_cli.search.web_answer import ProviderStatus, WebAnswer, WebHit, WebOptions

AT = "2026-11-23T04:00:00Z"
DIGEST = "0" * 64


def source(provider: str, rank: int | None) -> Source:
    return Source(provider, rank, "guide rna", AT, DIGEST)


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
    return Work(id=f"doi:10.1000/{name}", found_by=tuple(source(*each) for each in found), **values)


def hit(of: Work, score: float = 0.5) -> WebHit:
    evidence = tuple(
        Evidence(each.provider, each.rank, 1 / (60 + each.rank), 1 / (60 + each.rank), 1.0)
        for each in of.found_by
        if each.rank
    )
    return WebHit(of, Hit(of.id, 0, 0, score, evidence))


def answer(*works: Work, statuses: tuple[ProviderStatus, ...] = (), text: str = "guide rna") -> WebAnswer:
    return WebAnswer(
        options=WebOptions(text),
        kind="literature",
        kind_reason="no word of the question asks for the web",
        hits=tuple(hit(each) for each in works),
        statuses=statuses or (ProviderStatus("pubmed", "provider", "ok", results=len(works), at=AT, digest=DIGEST),),
        total_works=len(works),
        pipeline="rrf(pubmed; k=60)",
        reranked=False,
    )


RICH = work(
    "rich",
    ("pubmed", 1),
    ("arxiv", 3),
    authors=("Ada Quill", "Ben Rook", "Cy Sand", "Di Tarn"),
    date="2024-03",
    venue="Journal of Samples",
    abstract="Guides bind. " * 60,
    citations=Cited(7, "s2", AT),
    open_access=True,
    license="CC-BY-4.0",
    retracted=True,
    versions=(
        Version(
            "arxiv:2401.00001", "preprint", "preprint_of", "On rich", "2024-01-02", "https://arxiv.org/abs/2401.00001"
        ),
    ),
    conflicts={"date": (Conflict("2023", "arxiv"),)},
)
FAILED = ProviderStatus("s2", "provider", "rate_limited", "it permits no further requests for 5 s", "ask later", 5.0)
