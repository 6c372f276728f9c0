"""`retrieve.build(records)`, and what a program does with the index: add, delete, sync, search, look at answers."""

import asyncio
import dataclasses
import datetime as dt
import decimal
import enum
import uuid
from collections import namedtuple
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
import pytest
from samples import TOOLS, Program, fails, succeeds, write_catalog

import retrieve_cli as retrieve
from retrieve_cli.api.answers import COLUMNS
from retrieve_cli.api.rows import rows_of
from retrieve_cli.contracts import Record
from retrieve_cli.errors import Conflict, NotFound, UsageError

PLAIN = [{"id": tool["id"], "name": tool["name"], "description": tool["description"]} for tool in TOOLS]


class Struct(msgspec.Struct):
    id: str
    name: str
    description: str


@dataclasses.dataclass
class Dataclass:
    id: str
    name: str
    description: str


Tuple = namedtuple("Tuple", "id name description")


def pydantic_models() -> object:
    from pydantic import create_model

    model = create_model("Model", id=(str, ...), name=(str, ...), description=(str, ...))
    return [model(**record) for record in PLAIN]


def pandas_frame() -> object:
    import pandas as pd

    return pd.DataFrame(PLAIN)


def pandas_frame_with_an_index() -> object:
    return pandas_frame().set_index("id")  # type: ignore[attr-defined]


def polars_frame() -> object:
    import polars as pl

    return pl.DataFrame(PLAIN)


def arrow_table() -> object:
    import pyarrow as pa

    return pa.Table.from_pylist(PLAIN)


KINDS: dict[str, Callable[[], object]] = {
    "dicts": lambda: PLAIN,
    "generator": lambda: (record for record in PLAIN),
    "dataclasses": lambda: [Dataclass(**record) for record in PLAIN],
    "structs": lambda: [Struct(**record) for record in PLAIN],
    "named tuples": lambda: tuple(Tuple(**record) for record in PLAIN),
    "pydantic": pydantic_models,
    "pandas": pandas_frame,
    "pandas with an index": pandas_frame_with_an_index,
    "polars": polars_frame,
    "arrow": arrow_table,
}


@pytest.mark.parametrize("kind", KINDS)
def test_records_of_any_kind_give_the_same_index(kind: str) -> None:
    index = retrieve.build(KINDS[kind](), "given")  # type: ignore[arg-type]
    plain = retrieve.build(PLAIN, "plain")
    assert index.generation == plain.generation
    assert [record["id"] for record in index.records()] == [record["id"] for record in PLAIN]


class Size(enum.IntEnum):
    small = 1


LOOP: dict[str, Any] = {}
LOOP["self"] = LOOP
CELLS: dict[str, tuple[Any, Any]] = {
    "None": (None, None),
    "NaN": (float("nan"), None),
    "NaN inside": ({"a": [1, float("nan"), None], "b": None}, {"a": [1]}),
    "date": (dt.date(2020, 2, 1), "2020-02-01"),
    "time": (dt.datetime(2020, 2, 1, 3, tzinfo=dt.UTC), "2020-02-01T03:00:00Z"),
    "decimal": (decimal.Decimal("2.5"), 2.5),
    "enum": (Size.small, 1),
    "uuid": (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    "path": (PurePosixPath("a/b"), "a/b"),
    "set": ({3, 1, 2}, [1, 2, 3]),
    "tuple": ((1, "x"), [1, "x"]),
    "record": (Struct("i", "n", "d"), {"id": "i", "name": "n", "description": "d"}),
    "infinity": (float("inf"), "its key 'key': inf is not a finite number"),
    "bytes": ([b"x"], "its key 'key': JSON has no bytes"),
    "object": (object(), "its key 'key': JSON has no object"),
    "loop": (LOOP, "it is nested too deeply"),
}


@pytest.mark.parametrize("cell", CELLS)
def test_a_value_becomes_the_one_of_json_or_a_reason(cell: str) -> None:
    value, expected = CELLS[cell]
    (row,) = rows_of([{"key": value}])
    assert row == (expected if str(expected).startswith("it") else {} if expected is None else {"key": expected})


def test_cells_of_tables_become_values_of_json() -> None:
    import numpy as np
    import pandas as pd

    frame = pd.DataFrame(
        {
            "text": ["a", None],
            "number": [1.5, np.nan],
            "time": pd.to_datetime(["2020-02-01", None]),
            "kind": pd.Categorical(["x", None]),
            "whole": pd.array([3, None], dtype="Int64"),
            "several": [np.arange(2), np.array(["2020-02-01", "NaT"], "datetime64[D]")],
            "scalar": [np.float32(0.5), np.bool_(True)],  # noqa: FBT003
            7: [pd.NA, pd.NaT],
        }
    )
    assert list(rows_of(frame)) == [
        {
            "text": "a",
            "number": 1.5,
            "time": "2020-02-01T00:00:00",
            "kind": "x",
            "whole": 3,
            "several": [0, 1],
            "scalar": 0.5,
        },
        {"several": ["2020-02-01"], "scalar": True},
    ]


def test_paths_are_built_as_the_command_line_builds_them(catalog: Path, retrieve: Program, tmp_path: Path) -> None:
    import retrieve_cli

    (folder := tmp_path / "notes").mkdir()
    (folder / "kettle.md").write_text("# Kettle\n\nBoils water.\n")
    messages: list[str] = []
    built = retrieve_cli.build([catalog, str(folder)], "here", progress=messages.append)
    assert succeeds(retrieve("build", catalog, folder, "--artifacts", "there")).code == 0
    assert built.generation == (Path("there") / "current").read_text().strip()
    assert "encoder: hashed-512" in messages[0]
    write_catalog(catalog, TOOLS[:4])
    assert (built.sync().records, len(built), built.report and built.report.status) == (5, 5, "published")
    assert repr(built.report).startswith(f"Report(published {built.generation}: 5 records")
    assert "\n" not in repr(built.report) + repr(built.report.changes)  # type: ignore[union-attr]
    assert len(repr(built.report)) < 120
    with pytest.raises(UsageError, match="cannot read"):
        retrieve_cli.build("nothing.jsonl")
    with pytest.raises(UsageError, match="both paths and records"):
        retrieve_cli.build([catalog, {"name": "a"}])


def test_a_build_of_records_has_these_records_and_no_others() -> None:
    first = retrieve.build(TOOLS)
    second = retrieve.build([*TOOLS[:2], {"id": "new", "name": "New"}])
    assert (len(first), [record["id"] for record in second.records()]) == (5, ["lungs", "cells", "new"])
    assert retrieve.build(TOOLS[:2]).generation == retrieve.build(TOOLS[:2], "elsewhere").generation


def test_rejected_records_are_named_with_their_reasons() -> None:
    given = [*TOOLS, {"id": "empty"}, TOOLS[0], 3, {"id": "x", "name": "x", "bad": float("inf")}]
    with pytest.warns(UserWarning, match="4 of 9 records are rejected: record 6: it has no text") as caught:
        index = retrieve.build(given)
    assert caught[0].filename == __file__
    assert index.report is not None
    reasons = [(item.line, item.reason) for item in index.report.rejected]
    assert [line for line, _ in reasons] == [6, 7, 8, 9]
    assert "duplicate id 'lungs'" in reasons[1][1]
    assert (index.report.status, index.report.quarantined, len(index)) == ("partial", 4, 5)


def test_a_build_with_too_many_rejected_records_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    index = retrieve.build(TOOLS)
    for given in ([], [{"id": "a"}], [{"id": str(n), "name": "x" * (n % 2)} for n in range(40)]):
        for store in (retrieve.build, index.add):
            with pytest.raises(UsageError) as caught:
                store(given)
            assert given == [] or "record 1: it has no text" in caught.value.hint
    assert (index.sync().status, len(retrieve.open())) == ("unchanged", 5)
    for wrong in (3, object()):
        with pytest.raises(UsageError, match="records are dicts or a table"):
            retrieve.build(wrong)  # type: ignore[arg-type]


def test_records_that_are_added_or_deleted_are_found_or_gone_at_once() -> None:
    index = retrieve.build(TOOLS)
    receipt = index.add({"id": "kettle", "name": "Kettle", "description": "Boils water.", "stars": 4})
    assert (receipt.sequence, [status.id for status in receipt.documents]) == (6, ["kettle"])
    assert (repr(receipt), len(index)) == ("Receipt(sequence=6, 1 document)", 6)
    assert [status.status for status in receipt.documents] == ["processed"]
    assert [result["stars"] for result in index.search("boils", filters="stars>3")] == [4]
    with pytest.warns(UserWarning, match="1 of 2 records"):
        assert len(index.add([{"id": "kettle", "name": "Teapot"}, {"id": "none"}]).rejected) == 1
    assert index.delete(["lungs", "cells"]).sequence == 9
    assert [record["name"] for record in index.records()] == ["BrainStrip", "TileJoin", "WarpAlign", "Teapot"]
    assert index.sync().status == "unchanged"


def test_records_that_only_a_sync_can_publish_wait_for_it() -> None:
    index = retrieve.build(TOOLS)
    Path("config.yaml").write_text("chunking: {size: 40}\n")
    again = retrieve.open()
    (status,) = again.add({"id": "kettle", "name": "Kettle", "description": "Boils water."}).documents
    assert (status.status, len(again)) == ("queued", 5)
    again.sync()
    assert (len(again), len(index)) == (6, 5)


def test_records_are_deleted_together_or_not_at_all(catalog: Path) -> None:
    index = retrieve.build(catalog)
    index.add([{"id": "a", "name": "Apple"}, {"id": "b", "name": "Pear"}])
    with pytest.raises(NotFound, match="there is no record 'c'"):
        index.delete(["a", "c"])
    with pytest.raises(Conflict, match=r"it comes from 'tools\.jsonl'"):
        index.delete(["a", "lungs"])
    assert index.sync().status == "unchanged"
    index.delete("a")
    assert len(index) == 6


def test_a_sync_follows_the_sources_of_the_configuration(catalog: Path) -> None:
    Path("config.yaml").write_text(f"sources: [{{kind: catalog, path: {catalog}}}]\n")
    messages: list[str] = []
    index = retrieve.build([{"id": "a", "name": "Apple"}], progress=messages.append)
    assert "note: `sources:` of the configuration is not used; the next sync follows it again" in messages
    assert (len(index), index.sync(progress=messages.append).records, len(index)) == (1, 6, 6)


def test_an_index_of_python_is_one_of_the_command_line(retrieve: Program) -> None:
    import retrieve_cli

    index = retrieve_cli.build(TOOLS)
    answer = index.search("brain scans", limit=5, filters={"license": "MIT"})
    printed = retrieve("query", "brain scans", "-k", "5", "--filter", "license=MIT", "--json").json
    assert [result["id"] for result in printed["results"]] == [result.id for result in answer]
    assert succeeds(retrieve("sync", "--verify")).code == 0
    fails(retrieve("sync", "--catalog", "tools.jsonl"), 2, "no source")


def test_a_result_is_a_row_with_the_keys_of_its_record() -> None:
    record = {"id": "a", "name": "Apple", "description": "Fruit.", "stars": 3, "score": "own", "nested": {"b": [1]}}
    index = retrieve.build([record])
    (result,) = answer = index.search("apple", mode="bm25")
    (row,) = answer.to_dicts()
    assert tuple(row)[: len(COLUMNS)] == COLUMNS
    assert {key: row[key] for key in ("rank", "id", "doc_id", "score")} == {
        "rank": 1, "id": "a#0", "doc_id": "a", "score": result.score,
    }  # fmt: skip
    assert (row["stars"], row["metadata.score"], row["nested"]) == (3, "own", {"b": [1]})
    assert isinstance(result, Mapping)
    assert (dict(result), result.get("nothing", 0), "stars" in result) == (row, 0, True)


def test_answers_are_tables_of_pandas_and_polars() -> None:
    import pandas as pd
    import polars as pl

    index = retrieve.build(TOOLS)
    answer = index.search("brain", limit=5, filters={"license": "MIT"})
    for frame in (pd.DataFrame(answer), pd.DataFrame(answer.results), answer.to_pandas()):
        assert list(frame["name"]) == [result.name for result in answer]
        assert set(frame["license"]) == {"MIT"}
        assert tuple(frame.columns)[: len(COLUMNS)] == COLUMNS
    assert pl.DataFrame(retrieve.build(PLAIN).search("brain", k=2).to_dicts())["rank"].to_list() == [1, 2]
    nothing = index.search("brain", doc_ids=["lungs"], mode="bm25").to_pandas()
    assert (len(nothing), tuple(nothing.columns)) == (0, COLUMNS)


HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e\u200b\"'&"


class Tags(HTMLParser):
    """Collects the tags and the addresses of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str | None] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value for name, value in attrs if name == "href"]


def test_what_is_shown_of_an_answer_fits_a_screen_and_drives_nothing() -> None:
    addresses = ["javascript:alert(1)", 'https://example.org/"onclick="x', "https://example.org/a"]
    records = [{"id": f"{HOSTILE}{n}", "name": f"apple {HOSTILE}", "description": f"{HOSTILE} " * 40,
                "url": addresses[n % 3]} for n in range(40)]  # fmt: skip
    index = retrieve.build(records)
    answer = index.search(f"apple {HOSTILE}", k=40)
    shown = repr(answer).splitlines()
    assert (len(shown), "… and 20 more" in shown) == (22, True)
    assert "40 of 40 matches" in shown[0]
    assert max(map(len, shown)) < 160
    row, record = repr(answer[0]), Record("id" + HOSTILE, "name", HOSTILE * 999, "catalog", "a.jsonl")
    assert len(row) < 400
    assert len(repr(record)) < 400
    assert not {"\x1b", "\u202e", "\u200b"} & {*repr(answer), *row, *answer._repr_html_(), *repr(index), *repr(record)}
    page = Tags(answer._repr_html_())
    assert page.tags == {"p", "table", "thead", "tbody", "tr", "th", "td", "a"}
    assert set(page.links) == set(addresses[1:])
    index.close()
    assert repr(index) == "Index('artifacts', closed)"


def test_a_search_of_a_task_that_is_cancelled_leaves_the_index_usable() -> None:
    index = retrieve.build(TOOLS)

    async def search() -> list[str]:
        task = asyncio.create_task(index.asearch("lungs"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        answers = await asyncio.gather(*(index.asearch(text, k=1) for text in ("lungs", "cells", "tiles")))
        return [answer[0].doc_id for answer in answers]

    assert asyncio.run(search()) == ["lungs", "cells", "stitch"]


def test_threads_add_search_and_sync_one_index() -> None:
    index = retrieve.build(TOOLS)
    with ThreadPoolExecutor(4) as threads:
        added = [threads.submit(index.add, [{"id": f"t{n}", "name": f"Teapot {n}"}]) for n in range(12)]
        found = [threads.submit(index.search, "lungs", k=1) for _ in range(12)]
        threads.submit(index.sync).result()
        assert {answer.result()[0].doc_id for answer in found} == {"lungs"}
        assert {receipt.result().sequence for receipt in added} == set(range(6, 18))
    index.sync()
    assert len(index) == 17
