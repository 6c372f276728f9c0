"""The search page in Chromium: as people use it, by keyboard alone, without scripts, with records that attack it."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from pages import CHROMIUM, axe_source, hostile_records
from samples import ROOT, write_catalog
from servers import Server, started
from waiting import PATIENCE_S, until

from retrieve_cli.cli.main import main
from retrieve_cli.server.page.address import record_url

NARROW, WIDE = {"width": 320, "height": 640}, {"width": 1280, "height": 800}
STATES = {
    "home": "/",
    "results": "/?q=segment+lungs",
    "filters": "/?q=segment+lungs&f=modality%3DCT&f=license%3DMIT&mode=bm25",
    "empty": "/?q=segment+lungs&f=modality%3DCT&f=domain%3Dmicroscopy&f=license%3DMIT",
    "wrong": "/?q=lungs&f=licence%3DMIT",
    "grouped": "/?q=segment+lungs&by=source",
    "no words": "/?q=%21%21%21",
    "record": "/r/3d-slicer",
    "API": "/docs",
    "missing": "/r/nope",
    "sign in": "/signin",
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is not there: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is missing: pip install playwright")
    with playwright.sync_playwright() as started_:
        chromium = started_.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield chromium
        chromium.close()


@contextmanager
def site_of(folder: Path, catalog: Path) -> Iterator[Server]:
    artifacts = folder / "artifacts"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RETRIEVE_ENCODER__KIND", "hashed")
        assert main(["build", "--catalog", str(catalog), "--artifacts", str(artifacts), "-q", "--max-fail", "300"]) == 0
    with started(artifacts, cwd=folder, RETRIEVE_ENCODER__KIND="hashed") as running:
        yield running


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with site_of(tmp_path_factory.mktemp("site"), ROOT / "catalogs" / "tools.jsonl") as running:
        yield running


@pytest.fixture
def open_page(browser: Any, site: Server) -> Iterator[Callable[..., Any]]:
    """Opens an address of the site in a context of its own."""
    contexts = []

    def opened(path: str = "/", **options: Any) -> Any:
        context = browser.new_context(base_url=site.url, **{"viewport": WIDE, **options})
        contexts.append(context)
        context.set_default_timeout(1000 * PATIENCE_S)
        page = context.new_page()
        page.goto(path)
        return page

    yield opened
    for context in contexts:
        context.close()


def expect(locator: Any) -> Any:
    """Return Playwright's assertions on a place, which wait."""
    from playwright.sync_api import expect as expected

    return expected(locator)


def first_hit(page: Any) -> str:
    text: str = page.locator("a.hit").first.inner_text()
    return text


# ------------------------------------------------------------------------------------------------ searching


def test_results_come_while_one_types_and_are_counted_aloud(open_page: Callable[..., Any]) -> None:
    page = open_page()
    page.keyboard.type("segment lungs")
    page.wait_for_selector("a.hit")
    page.wait_for_url(re.compile(r"\?q=segment\+lungs$"))
    assert first_hit(page)
    count = page.locator("#count")
    assert count.get_attribute("aria-live") == "polite"
    assert re.fullmatch(r"1–10 of \d+ matches", count.inner_text())
    assert page.evaluate("document.activeElement.id") == "q", "the box keeps the focus"
    assert page.input_value("#q") == "segment lungs"


def test_the_last_answer_wins_however_late_an_earlier_one_comes(open_page: Callable[..., Any]) -> None:
    page = open_page()
    held: list[Any] = []
    ended: list[str] = []
    for event in ("requestfinished", "requestfailed"):
        page.on(event, lambda request: ended.append(request.url))
    page.route(re.compile(r"q=lun$"), lambda route: held.append(route))  # noqa: PLW0108  Playwright marks it
    with page.expect_request(re.compile(r"q=lun$")):
        page.keyboard.type("lun")
    page.keyboard.type("gs")
    page.wait_for_url(re.compile(r"q=lungs$"))
    shown = first_hit(page)
    assert held
    for route in held:
        route.continue_()
    until(lambda: page.evaluate("true") and any(url.endswith("q=lun") for url in ended), "the end of the earlier one")
    assert (first_hit(page), page.input_value("#q")) == (shown, "lungs")
    assert page.url.endswith("q=lungs")


def test_back_forward_reload_and_a_shared_address_show_the_same(open_page: Callable[..., Any]) -> None:
    page = open_page("/?q=cells")
    before = page.locator("a.hit").all_inner_texts()
    page.locator("label", has_text="microscopy").first.locator("input").check()
    page.wait_for_selector(".chips")
    address, filtered = page.url, page.locator("a.hit").all_inner_texts()
    page.go_back()
    page.wait_for_selector(".chips", state="detached")
    assert page.locator("a.hit").all_inner_texts() == before
    page.go_forward()
    page.wait_for_selector(".chips")
    page.reload()
    assert page.locator("a.hit").all_inner_texts() == filtered
    assert open_page(address).locator("a.hit").all_inner_texts() == filtered


def test_a_server_that_does_not_answer_is_said(open_page: Callable[..., Any]) -> None:
    page = open_page("/?q=lungs")
    page.route(re.compile("q=brain"), lambda route: route.abort())
    page.fill("#q", "brain")
    expect(page.locator("#count")).to_have_text("The server does not answer.")


# ------------------------------------------------------------------------------------------------- keyboard


def test_everything_is_reached_by_keyboard_alone(open_page: Callable[..., Any]) -> None:
    page = open_page("/?q=segment+lungs")
    focused = "document.activeElement.id || document.activeElement.className"
    page.keyboard.press("/")
    assert page.evaluate(focused) == "q"
    titles = page.locator("a.hit").all_inner_texts()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.innerText") == titles[1]
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    assert page.evaluate(focused) == "q"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Escape")
    assert page.evaluate(focused) == "q"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/r/"))
    page.go_back()
    page.keyboard.press("/")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(page.locator("#q")).to_have_value("")


def test_a_request_is_tried_on_the_page_of_the_api(open_page: Callable[..., Any]) -> None:
    page = open_page("/docs#search")
    assert page.locator("#search").get_attribute("open") is not None, "its link unfolds it"
    page.locator("#search textarea").fill('{"query": "segment lungs", "limit": 1}')
    page.locator("#search form.try button").click()
    shown = page.locator("#search form.try pre")
    expect(shown).to_contain_text('"total_results": 1')
    page.locator("#search textarea").fill('{"query": ""}')
    page.locator("#search form.try button").click()
    expect(shown).to_contain_text("the query is empty")
    page.locator("#get_document summary").first.click()
    page.locator("#get_document input[name=id]").fill("3d-slicer")
    page.locator("#get_document form.try button").click()
    expect(page.locator("#get_document form.try pre")).to_contain_text('"name": "3D Slicer"')


# --------------------------------------------------------------------------------------- kinds of browsers


def test_the_page_is_complete_without_scripts(open_page: Callable[..., Any]) -> None:
    page = open_page("/", java_script_enabled=False)
    page.fill("#q", "segment lungs")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("q=segment"))
    assert page.locator("a.hit").count() >= 10
    page.locator(".facet").first.locator("input").first.check()
    page.get_by_role("button", name="Apply").click()
    page.wait_for_selector(".chips")
    page.locator(".why summary").first.click()
    assert page.locator(".why table").first.is_visible()
    assert page.locator("button[data-copy]:visible").count() == 0, "no button that does nothing"
    page.locator("a.hit").first.click()
    assert page.locator("dl.fields").is_visible()


@pytest.mark.parametrize("state", STATES)
def test_nothing_is_wider_than_a_narrow_screen_or_than_one_at_twice_the_size(
    open_page: Callable[..., Any], state: str
) -> None:
    too_wide = "document.documentElement.scrollWidth > innerWidth"
    page = open_page(STATES[state], viewport=NARROW)
    page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    assert not page.evaluate(too_wide), "320 px"
    page.set_viewport_size({"width": 640, "height": 400})
    assert not page.evaluate(too_wide), "1280 px at 200 %"
    page.evaluate("document.documentElement.style.fontSize = '200%'")
    assert not page.evaluate(too_wide), "text at twice its size"


def test_axe_finds_no_violation_in_any_state(open_page: Callable[..., Any]) -> None:
    source, violations = axe_source(), []
    page = open_page()
    for state, path in STATES.items():
        page.emulate_media(color_scheme="light")
        page.goto(path)
        page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
        page.evaluate(source)
        found = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
        page.emulate_media(color_scheme="dark")
        found += page.evaluate("axe.run({runOnly: ['color-contrast'], resultTypes: ['violations']})")["violations"]
        violations += [(state, rule["id"], [node["html"][:200] for node in rule["nodes"][:3]]) for rule in found]
    assert violations == []


# ------------------------------------------------------------------------------------------------- hostile


def test_three_hundred_hostile_records_run_nothing(browser: Any, tmp_path: Path) -> None:
    records = hostile_records()
    ran: list[str] = []
    context = browser.new_context(viewport=WIDE)
    context.add_init_script(
        "window.violations = []; document.addEventListener('securitypolicyviolation',"
        "(event) => window.violations.push(event.violatedDirective + ' ' + event.sourceFile));"
    )
    page = context.new_page()
    page.on("dialog", lambda dialog: (ran.append(f"dialog {dialog.message}"), dialog.dismiss()))
    page.on("pageerror", lambda error: ran.append(f"error {error}"))
    page.on("popup", lambda _: ran.append("popup"))
    with site_of(tmp_path, write_catalog(tmp_path / "records.jsonl", records)) as site:
        page.on("request", lambda sent: ran.append(sent.url) if not sent.url.startswith(site.url) else None)
        shown = 0
        paths = [f"/?q=victim&mode=bm25&page={number}" for number in range(1, 31)]
        pages = [record_url(record["id"]) for record in records[::7]]  # each attack as id and name, and as link
        for path in [*paths, *pages]:
            page.goto(site.url + path, wait_until="load")
            state = page.evaluate(
                "[window.pwned || 0, window.violations, document.querySelectorAll('a.hit, main.record h1').length,"
                "[...document.querySelectorAll('[href]')].filter((each) => !/^https?:/.test(each.href)).length,"
                "document.documentElement.scrollWidth > innerWidth]"
            )
            assert state[:2] == [0, []], path
            assert state[3:] == [0, False], path
            shown += min(state[2], 10)
        assert shown == len(records) + len(pages)
        page.goto(site.url)
        for attack in ("<img src=x onerror=window.pwned=1>", "</title><script>window.pwned=1</script>"):
            page.fill("#q", attack)
            page.wait_for_url(lambda url, attack=attack: parse_qs(urlsplit(url).query).get("q") == [attack])
        assert page.evaluate("window.pwned || 0") == 0
    assert ran == []
    context.close()
