"""The report shows what was measured, whatever the queries hold, in one file that asks for nothing."""

import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import ir_measures
import pytest
from hypothesis import given, strategies as st
from samples import Program

from retrieve_cli.contracts.terms.figures import chance, rounded
from retrieve_cli.errors import Unavailable
from retrieve_cli.evaluation import measures
from retrieve_cli.evaluation.evaluate import Evaluation, judge, latency
from retrieve_cli.evaluation.judgments import Run, Topic
from retrieve_cli.evaluation.measures import curves, ranked
from retrieve_cli.evaluation.report.page import About, NamedEvaluation, verdict, write
from retrieve_cli.evaluation.statistics import Difference, Interval, Wins, differences
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
names = st.sampled_from(["a", "ab", "b", "Z", "é", "éa"])
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


ABOUT = About(
    collection=["tools.jsonl: 5 records", "5 chunks"],
    judgments="gold.jsonl",
    date="2026-01-31 12:00 UTC",
    version="0.1.0",
    command="retrieve eval --gold gold.jsonl --report page",
    changed={"fusion.method": "rrf"},
    settings={"fusion.method": "rrf", "search.k": 10},
)
STAGES = ("encode", "search", "rerank", "total")


def timed(found: Evaluation, scale: float) -> Evaluation:
    samples = {stage: [scale * (1 + number / 7) for number in range(20)] for stage in STAGES}
    return replace(found, samples_ms=samples, latency_ms=latency(samples), generation="883840ed9a6c")


def runs() -> list[NamedEvaluation]:
    base = timed(judge(BASE, TOPICS, MEASURES, pipeline="fuse(bm25@200, dense@200)"), 4.0)
    return [
        NamedEvaluation("as configured", base),
        NamedEvaluation("other.run", judge(OTHER, TOPICS, MEASURES, pipeline="other.run")),
    ]


def compared(runs: Sequence[NamedEvaluation]) -> list[Difference]:
    return differences(runs[0].evaluation.per_query, {run.name: run.evaluation.per_query for run in runs[1:]})


def written(
    runs: Sequence[NamedEvaluation],
    topics: Sequence[Topic] = TOPICS,
    *,
    notes: Sequence[str] = (),
    describe: Callable[[str], str | None] = str.title,
    folder: Path = Path("report"),
) -> str:
    path = write(folder, runs=runs, topics=topics, compared=compared(runs), describe=describe, notes=notes, about=ABOUT)
    assert path == folder / "index.html"
    return path.read_text("utf-8")


def plain(cells: Sequence[str]) -> list[str]:
    return [" ".join(cell.replace("−", "-").split()) for cell in cells]


# ----------------------------------------------------------------------------------------------- figures


def test_every_mean_and_interval_is_that_of_the_evaluation() -> None:
    shown = {row[0]: plain(row[1:]) for row in Page(written(runs())).table("Mean over").rows[2:]}
    for name in ("nDCG@10", "RR@10"):
        figures = ["4"]
        for run in runs():
            found = run.evaluation.intervals[name]
            figures += [f"{found.mean:.4f}", f"{found.low:.4f}–{found.high:.4f}"]
        assert shown[name] == figures


def test_every_time_is_that_of_the_evaluation_and_a_run_has_none() -> None:
    shown = {row[0]: plain(row[1:]) for row in Page(written(runs())).table("Mean over").rows[2:]}
    times = runs()[0].evaluation.latency_ms
    for stage, prefix in (("whole", ""), ("encoding", "encode_"), ("search", "search_")):
        for share in ("p50", "p95"):
            assert shown[f"{stage}, {share}"] == ["", rounded(times[prefix + share]), "", "–", ""]


def test_every_difference_is_that_of_the_comparison() -> None:
    table = Page(written(runs())).table("Each run less the baseline")
    assert plain(table.rows[1]) == ["B other.run"]
    for row, found in zip(table.rows[2:], compared(runs()), strict=True):
        bounds = found.interval
        assert plain(row) == [
            found.measure,
            f"{bounds.mean:+.4f}",
            f"{bounds.low:+.4f} to {bounds.high:+.4f}",
            *("–" if p is None else chance(p) for p in (found.p, found.p_holm, found.p_t)),
            *map(str, (found.wins.won, found.wins.lost, found.wins.tied)),
            f"{found.detectable:.4f}",
            verdict(found),
        ]


@pytest.mark.parametrize(
    ("lost", "p", "said"),
    [(0, 1.0, "no query differs"), (3, 0.05, "significant"), *((3, p, "not significant") for p in (0.0501, 1.0))],
)
def test_the_verdict_is_that_of_the_corrected_p(lost: int, p: float, said: str) -> None:
    found = Difference("run", "m", Interval(-0.1, -0.2, 0.0), 0.01, 0.01, p, Wins(0, lost, 5), 0.1, [])
    assert verdict(found) == said


def test_every_point_of_the_curves_is_in_their_table() -> None:
    page = Page(written(runs()))
    found = [curves({topic.id: topic.grades for topic in TOPICS}, run.evaluation.run) for run in runs()]
    assert all(found)
    for caption, name in (("Interpolated precision", "precision"), ("nDCG@k", "ndcg")):
        rows = page.table(caption).rows[1:]
        expected = zip(*(getattr(each, name) for each in found), strict=True)
        assert [row[1:] for row in rows] == [[f"{mean:.4f}" for _, mean in points] for points in expected]
        assert [float(row[0]) for row in rows] == [x for x, _ in getattr(found[0], name)]


def test_the_head_says_what_was_measured() -> None:
    page = Page(written(runs(), notes=["3 queries have no judgment: left out"]))
    assert "4 judged queries, 1 unanswered by the baseline; 1 other run is compared with it." in page.said()
    assert "3 queries have no judgment: left out" in page.said()
    assert [plain(row) for row in page.table("Runs").rows[1:]] == [
        ["A as configured", "fuse(bm25@200, dense@200)", "883840ed9a6c", "1"],
        ["B other.run", "other.run", "–", "0"],
    ]


def test_notes_of_every_arm_are_said_once() -> None:
    some = [
        NamedEvaluation(run.name, replace(run.evaluation, notes=["no groups", f"{run.name} limps"])) for run in runs()
    ]
    said = Page(written(some, notes=["no groups"])).said()
    assert said.count("no groups") == 1
    assert "B: other.run limps" in said


def test_more_notes_than_can_be_read_are_counted() -> None:
    assert "and 80 more notes" in Page(written(runs(), notes=[f"note {number}" for number in range(100)])).said()


# ----------------------------------------------------------------------------------------------- queries


def test_the_queries_that_lost_most_come_first() -> None:
    page = Page(written(runs()))
    assert [text for tag, text in page.headings if tag == "h3"][1:] == ["1. segment lungs in CT"]
    assert ("h2", "Largest drops") in page.headings


def test_alone_the_lowest_values_come_first_and_ties_in_the_order_of_the_judgments() -> None:
    topics = [*TOPICS, Topic("q5", "nothing either", {"x": 1})]
    page = Page(written([NamedEvaluation("one", judge(BASE, topics, MEASURES, pipeline="p"))], topics))
    shown = [text.split(". ")[1] for tag, text in page.headings if tag == "h3"]
    assert shown == ["bones", "nothing either", "register brains", "segment lungs in CT", "count cells"]


def test_where_no_arm_lost_the_lowest_values_of_the_baseline_are_shown() -> None:
    page = Page(written([runs()[0], NamedEvaluation("twin", runs()[0].evaluation)]))
    assert "No run lost a query" in page.said()
    assert ("h3", "1. bones") in page.headings


def test_hits_of_all_arms_stand_side_by_side_with_their_grades() -> None:
    rows = [plain(row) for row in Page(written(runs())).table("First hits").rows]
    values = [run.evaluation.per_query["nDCG@10"]["q1"] for run in runs()]
    assert rows == [
        ["Rank", f"A as configured{values[0]:.4f}", f"B other.run{values[1]:.4f} ({values[1] - values[0]:+.4f})"],
        ["1", "Lungs lungsrelevant, grade 3 · 3", "Cells cellsnot relevant, grade 0 · 5"],
        ["2", "Cells cellsnot relevant, grade 0 · 2", "Atlas atlasnot judged · 4"],
        ["3", "Brains brainsrelevant, grade 1 · 1", "Lungs lungsrelevant, grade 3 · 3"],
    ]


def test_relevant_records_have_the_rank_at_which_each_arm_found_them() -> None:
    rows = [plain(row) for row in Page(written(runs())).table("Relevant records").rows]
    assert rows == [
        ["Record", "Grade", "A", "B"],
        ["Lungs lungs", "3", "1", "3"],
        ["Brains brains", "1", "3", "not found"],
    ]


def test_a_record_without_a_name_is_shown_by_its_id() -> None:
    page = Page(written(runs(), describe=lambda _: None))
    assert plain(page.table("Relevant records").rows[1])[0] == "lungs"


@given(st.dictionaries(names, st.floats(-2, 2) | st.sampled_from([1.0, 1 + 1e-12, 1 - 1e-12])), names)
def test_hits_are_in_the_order_in_which_they_are_measured(scores: dict[str, float], relevant: str) -> None:
    found = [name for name, _ in ranked(scores)]
    rank = found.index(relevant) + 1 if relevant in found else 0
    measured = ir_measures.calc_aggregate([ir_measures.RR], {"q": {relevant: 1}}, {"q": scores})[ir_measures.RR]
    assert measured == pytest.approx(1 / rank if rank else 0.0)


def test_queries_at_either_end_of_a_plot_are_named() -> None:
    said = Page(written(runs())).said().replace("−", "-")
    change = {name: value - runs()[0].evaluation.per_query["nDCG@10"][name]
              for name, value in runs()[1].evaluation.per_query["nDCG@10"].items()}  # fmt: skip
    assert "other.run: 1 won, 1 lost, 2 tied" in said
    assert f"Largest gains{change['q3']:+.4f}register brains" in said.replace("Largest gains ", "Largest gains")
    assert f"Largest drops{change['q1']:+.4f}segment lungs in CT" in said.replace("Largest drops ", "Largest drops")


# ------------------------------------------------------------------------------------------ hostile text

HOSTILE = [
    "<script>alert(1)</script>",
    '" onmouseover="alert(1)" x="',
    "' onfocus='alert(1)",
    "</style></title><img src=https://example.org/x onerror=alert(1)>",
    "<!-- ]]> {{ 7*7 }} {% raw %} &amp; $x^2$",
    "👩‍🔬 emoji",
    "\u202eשלום עולם",
    "bell\x07 \x1b[31m \x9b nul\x00",
    "half \ud83d of it",
    "x" * 10_000,
    "long " * 2_000,
]
ATTRIBUTES = set(
    "lang charset name content class role aria-label aria-hidden tabindex scope rowspan colspan viewbox d style id "
    "clip-path xlink:href x y transform width height".split()
)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    topics = [Topic(f"{text}{at}", text, {text: 2, f"r{at}": 1}, text, text) for at, text in enumerate(HOSTILE)]
    topics = [replace(topic, id=f"half{at}") if "\ud83d" in topic.id else topic for at, topic in enumerate(topics)]
    topics = [replace(topic, grades={}) if "\ud83d" in topic.text else topic for topic in topics]
    good: Run = {topic.id: dict.fromkeys(topic.grades, 1.0) for topic in topics}
    runs = [good, {topics[0].id: {"zzz": 1.0}}]
    found = [judge(run, topics, MEASURES, pipeline=HOSTILE[at]) for at, run in enumerate(runs)]
    folder = tmp_path_factory.mktemp("hostile")
    some = [NamedEvaluation(HOSTILE[at], each) for at, each in enumerate(found)]
    return written(some, topics, notes=HOSTILE, describe=lambda name: name + name, folder=folder)


def test_text_of_a_user_opens_no_element_and_sets_no_attribute(hostile: str) -> None:
    page = Page(hostile)
    assert not {"script", "img", "link", "iframe", "object", "base", "form"} & {tag for tag, _ in page.elements}
    assert {name for _, attributes in page.elements for name in attributes} <= ATTRIBUTES
    assert "<script>alert(1)</script>" in page.data
    assert "{{ 7*7 }}" in page.data


def test_what_no_reader_sees_is_replaced_and_what_no_reader_reads_is_cut(hostile: str) -> None:
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", hostile)
    assert "half \ufffd of it" in hostile
    assert "x" * 401 not in hostile
    assert len(hostile) < 300_000


def test_text_of_a_user_never_turns_its_surroundings_around(hostile: str) -> None:
    assert "\u202e" not in re.sub(r"<bdi>[^<]*</bdi>", "", hostile)


def test_nothing_is_fetched(hostile: str) -> None:
    for text in (hostile, written(runs())):
        for _, attributes in Page(text).elements:
            assert "src" not in attributes
            assert (attributes.get("href") or attributes.get("xlink:href") or "#").startswith("#")
        style = text[text.index("<style>") : text.index("</style>")]
        assert "@import" not in style
        assert "url(" not in style
        assert set(re.findall(r"url\((.)", text)) == {"#"}


# -------------------------------------------------------------------------------------------------- form


def test_the_same_evaluation_gives_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    import matplotlib as mpl

    first = written(runs())
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    with mpl.rc_context({"font.size": 20, "axes.grid": True, "svg.fonttype": "path"}):
        assert written(runs(), folder=Path("again")) == first
        assert mpl.rcParams["font.size"] == 20


def test_the_page_says_what_it_takes_to_repeat_the_evaluation() -> None:
    said = Page(written(runs())).said()
    for text in (*ABOUT.collection, ABOUT.judgments, ABOUT.date, ABOUT.version, ABOUT.command, "fusion.method: rrf"):
        assert text in said
    aside = written(runs()).partition("<aside")[2].partition("</dl>")[0]
    assert "search.k" not in aside  # a default stands among all settings only
    assert "search.k: 10" in said


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


def test_an_id_stands_once_and_every_reference_has_its_target() -> None:
    some = [*runs(), NamedEvaluation("third", timed(judge(BASE, TOPICS, MEASURES, pipeline="p"), 90.0))]
    text = written(some)
    ids = [attributes["id"] for _, attributes in Page(text).elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:url\(#|href="#)([^")]+)', text)) <= set(ids)


def test_charts_are_images_with_a_name_or_decoration() -> None:
    charts = [attributes for tag, attributes in Page(written(runs())).elements if tag == "svg"]
    assert len(charts) == 2 + 2 + 1 + 1  # swatches, curves, differences, latency
    for chart in charts:
        assert chart.get("aria-hidden") == "true" or (chart["role"] == "img" and chart["aria-label"])


def test_the_page_has_a_language_a_title_and_headings_in_order() -> None:
    text = written(runs())
    page = Page(text)
    assert ("html", {"lang": "en"}) in page.elements
    assert "<title>Retrieval evaluation of gold.jsonl, 4 queries</title>" in text
    levels = [int(tag[1]) for tag, _ in page.headings]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert all(table.caption for table in page.tables)
    assert all("scope" in attributes for tag, attributes in page.elements if tag == "th")


def test_a_thousand_queries_and_ten_arms_fit_into_a_small_page() -> None:
    topics = [Topic(str(number), f"query number {number}", {f"d{number}": 1}) for number in range(1354)]
    run: Run = {topic.id: {f"d{topic.id}": 1.0, "other": 0.5} for topic in topics}
    values: list[Mapping[str, Mapping[str, float]]] = [
        {"m": {topic.id: (int(topic.id) * (7 + run) % 1000) / 1000 for topic in topics}} for run in range(11)
    ]
    some = [NamedEvaluation(f"run {at}", Evaluation(each, {"m": Interval(0.5, 0.4, 0.6)}, [], run, "p", 1354))
            for at, each in enumerate(values)]  # fmt: skip
    path = write(Path("report"), runs=some, topics=topics, compared=[], describe=lambda _: None, notes=[], about=ABOUT)
    assert path.stat().st_size < 2_000_000


# ------------------------------------------------------------------------------------------------- edges


def test_without_grades_the_page_says_why_there_are_no_curves() -> None:
    topics = [Topic("a", "lungs", group="radiology"), Topic("b", "cells", quote="counts cells")]
    found = Evaluation({"group@1": {"a": 1.0}}, {"group@1": Interval(1.0, 1.0, 1.0)}, [], {"a": {"x": 1.0}}, "p", 2)
    page = Page(written([NamedEvaluation("one", found)], topics))
    assert "There are no curves: no query grades a record" in page.said()
    assert not any(tag == "svg" for tag, _ in page.elements)
    assert plain(page.table("First hits").rows[1]) == ["1", "X x1"]
    assert "No record is graded for it" in page.said()


def test_a_measure_of_some_queries_or_some_arms_says_so() -> None:
    first, second = runs()
    more = {**first.evaluation.per_query, "group@1": {"q1": 1.0}}
    intervals = {**first.evaluation.intervals, "group@1": Interval(1.0, 1.0, 1.0)}
    some = [NamedEvaluation(first.name, replace(first.evaluation, per_query=more, intervals=intervals)), second]
    shown = {row[0]: plain(row[1:]) for row in Page(written(some)).table("Mean over").rows[2:]}
    assert shown["group@1"] == ["1", "1.0000", "1.0000–1.0000", "–", ""]


@pytest.mark.parametrize("run", [{"q": {"a": 1.0}}, {"q": {}}], ids=["found", "not found"])
def test_a_single_query_makes_a_page(run: Run) -> None:
    topics = [Topic("q", "one", {"a": 1})]
    found = judge(run, topics, MEASURES, pipeline="p")
    page = Page(written([NamedEvaluation("one", found), NamedEvaluation("two", found)], topics))
    assert "1 judged query" in page.said()
    assert plain(page.table("Each run less").rows[2])[-2:] == ["–", "no query differs"]


def test_an_evaluation_that_measured_nothing_makes_a_page() -> None:
    nothing = NamedEvaluation("one", Evaluation({}, {}, ["q1"], {}, "p", 1))
    assert "There are no measures." in Page(written([nothing], [Topic("q1", "one", group="g")])).said()


def test_a_run_was_not_timed() -> None:
    page = Page(written([runs()[1]]))
    assert "No run was timed." in page.said()
    assert ("h2", "Latency") not in page.headings


@pytest.mark.parametrize("samples", [[0.0], [5.0] * 3, [0.01, 900.0]], ids=str)
def test_any_times_can_be_drawn(samples: list[float]) -> None:
    stages = dict.fromkeys(STAGES, samples)
    found = replace(runs()[0].evaluation, samples_ms=stages, latency_ms=latency(stages))
    assert ("h2", "Latency") in Page(written([NamedEvaluation("one", found)])).headings


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


def test_importing_the_report_loads_no_package_that_draws() -> None:
    drawing = "{'matplotlib', 'jinja2'}"
    code = f"import sys, retrieve_cli.evaluation.report.page; sys.exit(bool({drawing} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
