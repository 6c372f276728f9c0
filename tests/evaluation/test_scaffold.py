"""Starter gold files: what is drawn from an index is fair, spread, and the same again."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from samples import TOOLS, Program, write_catalog

from retrieve_cli.errors import UsageError
from retrieve_cli.evaluation.scaffold import (
    CROWD,
    LONGEST,
    Starter,
    default_kind,
    from_descriptions,
    from_headings,
    from_titles,
    starter,
)
from retrieve_cli.retrieval.retrievers.analyzer import TextAnalyzer
from retrieve_cli.storage.generation import Generation
from retrieve_cli.storage.store import Store

Catalog = Callable[..., Generation]
Folder = Callable[[dict[str, str]], Generation]


@pytest.fixture
def of_tools(tmp_path: Path, retrieve: Program) -> Catalog:
    """The index of a catalog of these records."""

    def build(*records: dict[str, Any]) -> Generation:
        path = write_catalog(tmp_path / "made.jsonl", list(records))
        assert retrieve("build", "--catalog", path, "--artifacts", tmp_path / "made").code == 0
        return Generation(*Store(tmp_path / "made").open())

    return build


@pytest.fixture
def of_files(tmp_path: Path, retrieve: Program) -> Folder:
    """The index of a folder of these files."""

    def build(files: dict[str, str]) -> Generation:
        for name, text in files.items():
            path = tmp_path / "docs" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        assert retrieve("build", "--docs-dir", tmp_path / "docs", "--artifacts", tmp_path / "made").code == 0
        return Generation(*Store(tmp_path / "made").open())

    return build


def tool(name: str, description: str = "", **more: Any) -> dict[str, Any]:
    return {"id": name.lower().replace(" ", "-"), "name": name, "description": description, **more}


def queries(made: Starter) -> set[str]:
    return {line["query"] for line in made.lines}


def page(title: str, *sections: str) -> str:
    """A document with long sections, so that each becomes a chunk of its own."""
    filler = "Plain prose goes on and on without saying anything that matters here. " * 12
    return f"# {title}\n\n" + "".join(f"## {section}\n\n{filler}\n\n" for section in sections)


# -------------------------------------------------------------------------------------------- descriptions


def test_a_line_names_its_one_right_record_its_group_and_what_made_it(of_tools: Catalog) -> None:
    made = from_descriptions(of_tools(*TOOLS), TextAnalyzer(), n=50, seed=0)
    assert (len(made.lines), made.skipped) == (5, {})
    line = next(line for line in made.lines if line["relevant"] == {"brain": 1})
    assert line == {
        "id": line["id"],
        "query": "Removes the skull from brain MRI scans",
        "relevant": {"brain": 1},
        "group": "neuroimaging",
        "synthetic": "descriptions",
    }
    assert [line["id"] for line in made.lines] == [f"descriptions-{number:04}" for number in range(1, 6)]


@pytest.mark.parametrize(
    ("name", "description", "query"),
    [
        ("BigJoin", "The BigJoin is a package that aligns tiles. It is fast.", "package that aligns tiles"),
        ("Big Join", "big-join's tiles align without markers.", "tiles align without markers"),
        ("Find It (KNIME)", "Find It finds round spots in images.", "finds round spots in images"),
        ("MATLAB SpotTeller", "SpotTeller sees cells in MATLAB images.", "sees cells in MATLAB images"),
        ("Lung Viewer", "Shows the lung in pictures of mice.", "Shows the lung in pictures of mice"),
        ("Gauge", "Reads <b>sizes</b> &amp; [shapes](http://x.org) of cells.\n\nMore", "Reads sizes & shapes of cells"),
        ("Scope", "Opens pictures (e.g. tiles) of 1.2 files. More.", "Opens pictures (e.g. tiles) of 1.2 files"),
    ],
)  # fmt: skip
def test_the_first_sentence_is_asked_without_name_and_markup(
    of_tools: Catalog, name: str, description: str, query: str
) -> None:
    other = tool("Other", "Shows MATLAB pictures on walls of stone.")
    assert query in queries(from_descriptions(of_tools(tool(name, description), other), TextAnalyzer(), n=9, seed=0))


def test_what_is_missing_short_long_or_repeated_is_left_out_and_counted(of_tools: Catalog) -> None:
    records = [
        tool("None"),
        tool("Brief", "A plugin."),
        tool("Wordy", " ".join(f"word{letter}" for letter in "abcdefghijklmnopqrstuvwxyzabcdefg")),
        tool("One", "Counts stars in night pictures."),
        tool("Two", "Counting star in the night picture!"),
        tool("Fair", "Draws maps of old cities."),
    ]
    made = from_descriptions(of_tools(*records), TextAnalyzer(), n=9, seed=0)
    assert queries(made) == {"Draws maps of old cities"}
    assert made.skipped == {"missing": 1, "repeated": 2, "short": 1, "long": 1}
    assert f"1 with more than {LONGEST} words" in made.reasons


def test_a_query_whose_words_too_many_records_hold_is_vague(of_tools: Catalog) -> None:
    crowd = [tool(f"Tool{number}", f"Helps with cell image analysis in lab {number}0.") for number in range(CROWD)]
    vague = tool("Vague", "Cell image analysis.")
    made = from_descriptions(of_tools(vague, *crowd), TextAnalyzer(), n=99, seed=0)
    assert ("Cell image analysis" in queries(made), made.skipped) == (False, {"vague": 1})
    made = from_descriptions(of_tools(vague, *crowd[1:]), TextAnalyzer(), n=99, seed=0)
    assert ("Cell image analysis" in queries(made), made.skipped) == (True, {})


# --------------------------------------------------------------------------------------- titles, headings


def test_a_catalog_name_of_one_word_is_a_query_and_one_that_two_records_have_is_none(of_tools: Catalog) -> None:
    records = [tool("Cellpose"), tool("Cell Counter"), tool("cell counters", id="second"), tool("The")]
    made = from_titles(of_tools(*records), TextAnalyzer(), n=9, seed=0)
    assert queries(made) == {"Cellpose"}
    assert made.skipped == {"repeated": 2, "short": 1}


def test_headings_are_innermost_without_numbers_and_in_one_record_only(of_files: Folder) -> None:
    files = {
        "guide/a.md": page("Old maps", "Introduction to maps", "3.1. Folding `large` maps", "Ink"),
        "guide/b.md": page("New maps", "Introduction to maps", "Old maps", "New maps", "Globes > flat &amp; round"),
        "c.md": "No heading stands here.",
    }  # fmt: skip
    made = from_headings(of_files(files), TextAnalyzer(), n=9, seed=0)
    assert {(line["query"], *line["relevant"], line.get("group")) for line in made.lines} == {
        ("Folding large maps", "guide/a.md", "guide"),
        ("flat & round", "guide/b.md", "guide"),
    }
    assert made.skipped["repeated"] == 3, "the introductions, and what is the title of another document"
    assert (made.skipped["missing"], made.skipped["short"]) == (1, 1)
    assert made.skipped["own title"] >= 1


def test_the_default_is_headings_for_documents_and_descriptions_for_a_catalog_that_has_them(
    of_tools: Catalog, of_files: Folder
) -> None:
    assert default_kind(of_tools(*TOOLS)) == "descriptions"
    assert default_kind(of_tools(tool("Cellpose"), tool("Icy"))) == "titles"
    assert default_kind(of_files({"a.md": page("Old maps", "Folding maps")})) == "headings"


# ------------------------------------------------------------------------------------------------- drawing

STARS = [tool(f"Star{number}", f"Describes star number{number} in detail.") for number in range(30)]


def test_the_same_seed_draws_the_same_whatever_order_records_have(of_tools: Catalog) -> None:
    drawn = [
        from_descriptions(of_tools(*records), TextAnalyzer(), n=9, seed=7).lines for records in (STARS, STARS[::-1])
    ]
    assert drawn[0] == drawn[1]


def test_groups_take_turns(of_tools: Catalog) -> None:
    grouped = [{**each, "group": "few" if number < 3 else "many"} for number, each in enumerate(STARS)]
    made = from_descriptions(of_tools(*grouped), TextAnalyzer(), n=8, seed=0)
    assert Counter(line["group"] for line in made.lines) == {"few": 3, "many": 5}


def test_where_nothing_is_fair_each_reason_is_said(of_tools: Catalog) -> None:
    found = of_tools(tool("Star", "A plugin."), tool("Sun"))
    with pytest.raises(UsageError, match="1 records without one, 1 with too few content words") as raised:
        starter(found, TextAnalyzer(), "descriptions", n=5, seed=0)
    assert "--from titles" in raised.value.hint
