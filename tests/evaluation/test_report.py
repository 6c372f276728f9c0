"""The report shows what was measured, whatever the queries hold, in one file that asks for nothing."""

import re
import sys
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import pytest
from samples import Program

from retrieve_cli.contracts.terms.figures import rounded
from retrieve_cli.errors import Unavailable
from retrieve_cli.evaluation import measures
from retrieve_cli.evaluation.evaluate import Evaluation, judge, latency
from retrieve_cli.evaluation.judgments import Run, Topic
from retrieve_cli.evaluation.report import write
from retrieve_cli.evaluation.statistics import Difference, Interval, differences
from retrieve_cli.frozen import replace

MEASURES = measures.parse(["nDCG@10", "RR@10"])
TOPICS = [
    Topic("q1", "segment lungs in CT", {"lungs": 3, "brains": 1, "cells": 0}, group="radiology"),
    Topic("q2", "count cells", {"cells": 2}),
    Topic("q3", "register brains", {"brains": 1, "atlas": 1}),
    Topic("q4", "bones", {"bones": 1}),
]
BASE: Run = {
    "q1": {"lungs": 3.0, "cells": 2.0, "brains": 1.0},
    "q2": {"cells": 1.0},
    "q3": {"lungs": 0.9, "brains": 0.8},
    "q4": {},
}
OTHER: Run = {
    "q1": {"cells": 5.0, "atlas": 4.0, "lungs": 3.0},
    "q2": {"cells": 1.0, "lungs": 0.5},
    "q3": {"brains": 2.0, "atlas": 1.5},
    "q4": {"lungs": 1.0},
}
VOID = {"meta", "br", "link", "img", "input", "hr", "base"}


@dataclass
class Table:
    caption: str = ""
    rows: list[list[str]] = field(default_factory=list)


class Page(HTMLParser):
    """What a browser would make of a page: its elements, the texts of its tables, its headings."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.tables: list[Table] = []
        self.headings: list[tuple[str, str]] = []
        self.data = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs)
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)
        if tag == "table":
            self.tables.append(Table())
        elif tag == "tr":
            self.tables[-1].rows.append([])
        elif tag in ("td", "th"):
            self.tables[-1].rows[-1].append("")
        elif tag in ("h1", "h2", "h3"):
            self.headings.append((tag, ""))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.data += data
        if "caption" in self._open:
            self.tables[-1].caption += data
        elif "td" in self._open or "th" in self._open:
            self.tables[-1].rows[-1][-1] += data
        elif self._open and (heading := {"h1", "h2", "h3"} & set(self._open)):
            self.headings[-1] = (heading.pop(), self.headings[-1][1] + data)

    def table(self, caption: str) -> Table:
        return next(table for table in self.tables if table.caption.startswith(caption))

    def said(self) -> str:
        return " ".join(self.data.split())


ORIGIN = {
    "Collection": ["tools.jsonl: 5 records", "5 chunks"],
    "Judgments": ["gold.jsonl"],
    "Date": ["2026-01-31 12:00 UTC"],
    "Command": ["retrieve eval --gold gold.jsonl --report page"],
    "Settings": ["fusion.method: rrf"],
}
Runs = Mapping[str, Evaluation]


def timed(found: Evaluation, scale: float) -> Evaluation:
    samples = {stage: [scale * (1 + number / 7) for number in range(20)] for stage in ("encode", "search", "total")}
    return replace(found, latency_ms=latency({**samples, "rerank": [0.0]}), generation="883840ed9a6c")


def runs() -> dict[str, Evaluation]:
    base = timed(judge(BASE, TOPICS, MEASURES, pipeline="fuse(bm25@200, dense@200)"), 4.0)
    return {"as configured": base, "other.run": judge(OTHER, TOPICS, MEASURES, pipeline="other.run")}


def compared(runs: Runs) -> list[Difference]:
    (_, base), *others = runs.items()
    return differences(base.per_query, {name: run.per_query for name, run in others})


def written(
    runs: Runs,
    topics: Sequence[Topic] = TOPICS,
    *,
    notes: Sequence[str] = (),
    describe: Callable[[str], str | None] = str.title,
    folder: Path = Path("report"),
) -> str:
    path = write(
        folder, runs=runs, topics=topics, compared=compared(runs), describe=describe, notes=notes, origin=ORIGIN
    )
    assert path == folder / "index.html"
    return path.read_text("utf-8")


def plain(cells: Sequence[str]) -> list[str]:
    return [" ".join(cell.replace("−", "-").split()) for cell in cells]


def test_every_mean_interval_and_time_is_that_of_the_evaluation() -> None:
    shown = {row[0]: plain(row[1:]) for row in Page(written(runs())).table("Mean over").rows[1:]}
    for name in ("nDCG@10", "RR@10"):
        cells = []
        for run in runs().values():
            found = run.intervals[name]
            cells += [f"{found.mean:.4f} {found.low:.4f}–{found.high:.4f}", "4"]
        assert shown[name] == cells
    assert shown["p95, ms"] == [rounded(runs()["as configured"].latency_ms["p95"]), "", "–", ""]


def test_the_queries_that_lost_most_come_first_and_then_the_lowest() -> None:
    page = Page(written(runs()))
    assert [text.split(". ")[1] for tag, text in page.headings if tag == "h3"] == [
        "segment lungs in CT q1", "bones q4", "register brains q3", "count cells q2",
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------ hostile text

HOSTILE = [
    "<script>alert(1)</script>",
    '" onmouseover="alert(1)" x="',
    "</style></title><img src=https://example.org/x onerror=alert(1)>",
    "<!-- ]]> {{ 7*7 }} {% raw %} &amp; $x^2$",
    "\u202eשלום עולם",
    "bell\x07 \x1b[31m \x9b nul\x00",
    "half \ud83d of it",
    "x" * 10_000,
]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    texts = [(at, text, text.replace("\ud83d", "")) for at, text in enumerate(HOSTILE)]
    topics = [Topic(f"{name}{at}", text, {name: 2, f"r{at}": 1}, text, text) for at, text, name in texts]
    good: Run = {topic.id: dict.fromkeys(topic.grades, 1.0) for topic in topics}
    found = {
        HOSTILE[at]: judge(run, topics, MEASURES, pipeline=HOSTILE[at])
        for at, run in enumerate([good, {topics[0].id: {"zzz": 1.0}}])
    }
    folder = tmp_path_factory.mktemp("hostile")
    return written(found, topics, notes=HOSTILE, describe=lambda name: name + name, folder=folder)


def test_text_of_a_user_opens_no_element_and_sets_no_attribute(hostile: str) -> None:
    page = Page(hostile)
    assert not {"script", "link", "iframe", "object", "base", "form"} & {tag for tag, _ in page.elements}
    known = set("lang charset name content class scope alt src colspan".split())
    assert {name for _, attributes in page.elements for name in attributes} <= known
    assert "<script>alert(1)</script>" in page.data
    assert "{{ 7*7 }}" in page.data


def test_nothing_is_fetched_and_plots_are_images_with_a_name(hostile: str) -> None:
    for text, plots in ((hostile, 3), (written(runs()), 3)):
        images = [attributes for tag, attributes in Page(text).elements if tag == "img"]
        assert len(images) == plots
        for image in images:
            kind, _, data = str(image["src"]).partition(",")
            assert (kind, bool(image["alt"])) == ("data:image/svg+xml;base64", True)
            assert set(re.findall(rb'(?:url\(|href=")(.)', b64decode(data))) <= {b"#"}
        assert "@import" not in text
        assert "url(" not in text


# -------------------------------------------------------------------------------------------------- form


def test_the_report_of_the_program_names_its_collection_command_and_settings(
    index: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gold = tmp_path / "gold.jsonl"
    gold.write_text('{"query": "lungs in CT", "relevant": ["lungs"]}\n')
    monkeypatch.setenv("RETRIEVE_FUSION__METHOD", "rrf")
    monkeypatch.setattr("sys.argv", ["retrieve", "eval", "--gold", str(gold), "--report", "page"])
    assert retrieve("eval", "--gold", gold, "--report", "page").code == 0
    said = Page(Path("page/index.html").read_text("utf-8")).said()
    assert "tools.jsonl: 5 records" in said
    assert f"retrieve eval --gold {gold} --report page" in said
    assert "fusion.method: rrf" in said
    assert f"Date{datetime.now(UTC):%Y}" in said.replace(" ", "")


# ------------------------------------------------------------------------------------------------- edges


def test_a_measure_of_some_queries_and_queries_without_grades_make_a_page() -> None:
    topics = [Topic("a", "lungs", group="radiology"), Topic("b", "cells", quote="counts cells")]
    found = Evaluation({"group@1": {"a": 1.0}}, {"group@1": Interval(1.0, 1.0, 1.0)}, [], {"a": {"x": 1.0}}, "p", 2)
    page = Page(written({"one": found}, topics))
    assert not any(tag == "img" for tag, _ in page.elements)
    assert plain(page.table("First").rows[1]) == ["1", "X x 1"]
    assert plain(page.table("Mean over").rows[1]) == ["group@1", "1.0000 1.0000–1.0000", "1"]


def test_a_page_that_cannot_be_finished_leaves_the_old_one() -> None:
    first = written(runs())
    with pytest.raises(ZeroDivisionError):
        written(runs(), describe=lambda _: str(1 // 0))
    assert [path.name for path in Path("report").iterdir()] == ["index.html"]
    assert Path("report/index.html").read_text("utf-8") == first


@pytest.mark.parametrize("package", ["matplotlib", "jinja2"])
def test_a_missing_package_is_named_with_what_installs_it(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(Unavailable, match=package) as caught:
        written(runs())
    assert caught.value.hint == "pip install 'retrieve-cli[eval]'"
