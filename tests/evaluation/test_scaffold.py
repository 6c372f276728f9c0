"""Starter gold files: what is drawn from an index is fair, spread, and the same again."""

import json
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
    write,
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


def test_a_record_without_a_group_gives_a_line_without_one(of_tools: Catalog) -> None:
    made = from_descriptions(of_tools(tool("Scope", "Counts stars in night pictures.")), TextAnalyzer(), n=1, seed=0)
    assert made.lines[0].keys() == {"id", "query", "relevant", "synthetic"}


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


def test_a_catalog_name_that_many_records_mention_is_still_a_query(of_tools: Catalog) -> None:
    mentions = [tool(f"Plugin{number}", "Works in ImageJ.") for number in range(2 * CROWD)]
    assert "ImageJ" in queries(from_titles(of_tools(tool("ImageJ"), *mentions), TextAnalyzer(), n=99, seed=0))


def test_the_title_of_a_document_must_have_two_content_words(of_files: Folder) -> None:
    found = of_files({"a.md": page("Overview", "One thing"), "b.md": page("Old maps", "Another thing")})
    made = from_titles(found, TextAnalyzer(), n=9, seed=0)
    assert (queries(made), made.skipped) == ({"Old maps"}, {"short": 1})


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


def test_each_heading_of_a_chunk_that_several_sections_share_is_a_query(of_files: Folder) -> None:
    text = "# Munich\n\n## Night transport\n\nTrams run.\n\n## District heating\n\nHeat comes from wells.\n"
    made = from_headings(of_files({"munich.md": text}), TextAnalyzer(), n=9, seed=0)
    assert queries(made) == {"Night transport", "District heating"}


def test_a_heading_that_stands_twice_in_a_record_is_asked_once(of_files: Folder) -> None:
    made = from_headings(
        of_files({"a.md": page("Old maps", "Folding maps", "Folding maps")}), TextAnalyzer(), n=9, seed=0
    )
    assert [line["query"] for line in made.lines] == ["Folding maps"]


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


def test_another_seed_draws_others_and_more_begin_with_the_same(of_tools: Catalog) -> None:
    found = of_tools(*STARS)
    few, more, other = (
        from_descriptions(found, TextAnalyzer(), n=n, seed=seed) for n, seed in ((9, 0), (20, 0), (9, 1))
    )
    assert list(more.lines[:9]) == list(few.lines)
    assert queries(few) != queries(other)


def test_groups_take_turns(of_tools: Catalog) -> None:
    grouped = [{**each, "group": "few" if number < 3 else "many"} for number, each in enumerate(STARS)]
    made = from_descriptions(of_tools(*grouped), TextAnalyzer(), n=8, seed=0)
    assert Counter(line["group"] for line in made.lines) == {"few": 3, "many": 5}


def test_sources_take_turns(tmp_path: Path, retrieve: Program) -> None:
    write_catalog(tmp_path / "few.jsonl", STARS[:3])
    write_catalog(tmp_path / "many.jsonl", STARS[3:])
    listed = [{"kind": "catalog", "path": f"{name}.jsonl"} for name in ("few", "many")]
    (tmp_path / "config.yaml").write_text(json.dumps({"sources": {"list": listed}}))
    done = retrieve("build")
    assert done.code == 0, done.err
    made = from_descriptions(Generation(*Store(Path("artifacts")).open()), TextAnalyzer(), n=6, seed=0)
    few = {record["id"] for record in STARS[:3]}
    assert sum(bool(few & line["relevant"].keys()) for line in made.lines) == 3


def test_no_record_is_asked_for_twice_before_each_was_asked_for_once(of_files: Folder) -> None:
    sections = [f"Folding map{number}" for number in range(9)]
    found = of_files({"a/long.md": page("Old maps", *sections), "b/x.md": page("New maps", "Drawing coasts"),
                      "b/y.md": page("Odd maps", "Naming rivers")})  # fmt: skip
    made = from_headings(found, TextAnalyzer(), n=3, seed=0)
    assert {name for line in made.lines for name in line["relevant"]} == {"a/long.md", "b/x.md", "b/y.md"}


def test_where_nothing_is_fair_each_reason_is_said(of_tools: Catalog) -> None:
    found = of_tools(tool("Star", "A plugin."), tool("Sun"))
    with pytest.raises(UsageError, match="1 records without one, 1 with too few content words") as raised:
        starter(found, TextAnalyzer(), "descriptions", n=5, seed=0)
    assert "--from titles" in raised.value.hint


def test_the_file_is_lines_of_json_in_their_own_letters(of_tools: Catalog, tmp_path: Path) -> None:
    made = from_titles(of_tools(tool("Größe messen")), TextAnalyzer(), n=1, seed=0)
    write(made.lines, tmp_path / "gold.jsonl")
    text = (tmp_path / "gold.jsonl").read_text("utf-8")
    assert "Größe messen" in text
    assert [json.loads(line) for line in text.splitlines()] == list(made.lines)
