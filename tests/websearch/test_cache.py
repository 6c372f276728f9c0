"""Answers that are kept for a day: by provider, question and owner; failures never."""

import sqlite3
import threading
from pathlib import Path

import pytest
from raw_servers import Server
from websearch.echoing import Echo, asking, item, titles
from websearch.test_asking import QUERY, summary

from retrieve_cli.contracts.websearch import Page
from retrieve_cli.frozen import replace
from retrieve_cli.websearch.cache import FILE, PageCache

PAGE = Page((item("a", "10.1/a", authors=("Å. B",), citations=3, open_access=False),), "sent", 7, ("note",))


@pytest.fixture
def cache(tmp_path: Path) -> PageCache:
    return PageCache(tmp_path / "artifacts" / FILE, keep_s=3600)


def got(cache: PageCache, owner: str = "", provider: str = "s2", k: int = 10, max_age_s: float = 60) -> Page | None:
    cached = cache.get(owner, provider, replace(QUERY, k=k), max_age_s=max_age_s)
    return cached and cached.page


def test_a_page_comes_back_as_it_was_for_its_owner_its_provider_and_its_question_alone(cache: PageCache) -> None:
    cache.put("acme", "s2", QUERY, PAGE)
    assert got(cache, "acme") == PAGE
    assert got(cache) is got(cache, "beta") is got(cache, "acme", "arxiv") is got(cache, "acme", k=9) is None


def test_a_page_is_not_used_beyond_its_age_and_is_removed_later(
    cache: PageCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time", lambda: 10_000.0)
    cache.put("", "s2", QUERY, PAGE)
    assert got(cache, max_age_s=0) is None
    monkeypatch.setattr("time.time", lambda: 10_061.0)
    assert got(cache) is None
    assert got(cache, max_age_s=3600) == PAGE
    monkeypatch.setattr("time.time", lambda: 20_000.0)
    cache.put("", "arxiv", QUERY, PAGE)
    with sqlite3.connect(tmp_path / "artifacts" / FILE) as database:
        assert database.execute("SELECT count(*) FROM answers").fetchone() == (1,)
    monkeypatch.setattr("time.time", lambda: 5_000.0)  # the clock was set back
    assert got(cache, provider="arxiv", max_age_s=1e6) is None


def test_a_failure_is_never_cached_and_a_page_is_asked_for_once(server: Server, tmp_path: Path) -> None:
    server.say = lambda talk: talk.answer(b"", status=403)
    ask = asking(server.url, tmp_path)
    assert summary(ask.ask([Echo()], QUERY, fallback=(), deadline_s=60)) == ["rejected"]
    server.say = titles
    first = ask.ask([Echo()], QUERY, fallback=(), deadline_s=60)
    (again,) = ask.ask([Echo()], QUERY, fallback=(), deadline_s=60)
    assert again is not None
    assert first[0] is not None
    assert (again.result, again.age_s is None, first[0].age_s) == (first[0].result, False, None)
    assert len(server.asked) == 2


def test_an_answer_of_one_tenant_is_never_that_of_another(server: Server, tmp_path: Path) -> None:
    for owner in ("acme", "beta", "acme"):
        asking(server.url, tmp_path, owner=owner).ask([Echo()], QUERY, fallback=(), deadline_s=60)
    assert len(server.asked) == 2


@pytest.mark.parametrize("content", [b"no database at all" * 100, b""])
def test_a_file_that_cannot_be_used_does_not_stop_a_search_and_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / FILE
    path.write_bytes(content)
    cache = PageCache(path, keep_s=60)
    cache.put("", "s2", QUERY, PAGE)
    assert got(cache) == (None if content else PAGE)
    assert (str(path) in cache.notice) == bool(content)


def test_a_row_that_is_damaged_is_no_page(cache: PageCache, tmp_path: Path) -> None:
    cache.put("", "s2", QUERY, PAGE)
    with sqlite3.connect(tmp_path / "artifacts" / FILE) as database:
        database.execute("UPDATE answers SET page = ?", (b'{"items": 7}',))
    assert got(cache) is None
    assert "not cached" in cache.notice


def test_others_cannot_read_the_file(cache: PageCache, tmp_path: Path) -> None:
    cache.put("", "s2", QUERY, PAGE)
    assert (tmp_path / "artifacts" / FILE).stat().st_mode & 0o077 == 0


def test_threads_write_and_read_it_together(cache: PageCache) -> None:
    def work(owner: str) -> None:
        for _ in range(5):
            cache.put(owner, "s2", QUERY, PAGE)
            pages.append(got(cache, owner))

    pages: list[Page | None] = []
    threads = [threading.Thread(target=work, args=(str(number),)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert pages == [PAGE] * 20
    assert cache.notice == ""
