"""The same rows give the same records, ids, fields and answers in every format of a table, for every type of value."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import retrieve_cli

START = datetime(2023, 1, 1)  # noqa: DTZ001  a workbook knows no zones
KINDS: Mapping[str, Callable[[random.Random], Any]] = {
    "whole": lambda chance: chance.randint(-3, 2030),
    "broken": lambda chance: round(chance.uniform(-5, 1e6), 2),
    "yes": lambda chance: chance.random() < 0.5,
    "day": lambda chance: pd.Timestamp(START + timedelta(days=chance.randint(0, 800))),
    "moment": lambda chance: pd.Timestamp(START + timedelta(seconds=chance.randint(1, 70_000_000))),
    "code": lambda chance: chance.choice(["007", "1.10", "1e5", "N/A", "a,b", "x;y", "Ü 1", "-", "0"]),
    "word": lambda chance: chance.choice(["red", "Blau", "über alles", "NaN", "null", "True"]),
}
"""Values of each type, as pandas has them."""
WRITERS: Mapping[str, Callable[[pd.DataFrame, Path], Any]] = {
    "csv": lambda frame, path: frame.to_csv(path, index=False),
    "tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    "json": lambda frame, path: path.write_text(json.dumps(plain(frame)), "utf-8"),
    "jsonl": lambda frame, path: path.write_text("\n".join(map(json.dumps, plain(frame))), "utf-8"),
    "parquet": lambda frame, path: frame.to_parquet(path),
    "feather": lambda frame, path: frame.to_feather(path),
    "xlsx": lambda frame, path: frame.to_excel(path, index=False),
}


def plain(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows as JSON has them: without numbers that are none, times in ISO 8601."""
    return json.loads(frame.to_json(orient="records", date_format="iso"))


def generated(chance: random.Random) -> pd.DataFrame:
    rows = [
        {
            "sku": f"s{number:02}",
            "title": f"pump {number}",
            "text": f"It moves {chance.choice(['water', 'oil', 'air'])} {number} times.",
            **{name: None if chance.random() < 0.15 else make(chance) for name, make in KINDS.items()},
        }
        for number in range(20)
    ]
    return pd.DataFrame(rows)


def asked(frame: pd.DataFrame) -> list[str]:
    """Return conditions on values that rows have: equal, other, ordered, and parts of dates."""
    conditions = []
    for name in KINDS:
        value = frame[name].dropna().iloc[0]
        is_time = isinstance(value, pd.Timestamp)
        text = value.isoformat() if is_time else json.dumps(str(value)) if name in ("code", "word") else str(value)
        conditions += [f"{name}={text}", f"{name}!={text}", f"!{name}={text}"]
        conditions += [f"{name}>={text}", f"{name}<{text}"] if name in ("whole", "broken") or is_time else []
        conditions += [f"{name}={text[:7]}", f"{name}={text[:4]}"] if is_time else []
    return conditions


def told(index: retrieve_cli.Index, conditions: list[str]) -> dict[str, Any]:
    """Return what an index answers, and its records."""
    answers: dict[str, Any] = {one: ids(index.search("", filters=one, k=50)) for one in conditions}
    answers |= {f"by {name}": ids(index.search("", sort=f"{name}:desc", k=50)) for name in KINDS}
    answers["pump"] = ids(index.search("pump water", mode="bm25", k=50))
    answers["records"] = [(row["id"], row["name"], index.record(row["id"])["text"]) for row in index.records()]
    return answers


def ids(answer: Any) -> list[str]:
    return [str(result.id).partition("#")[0] for result in answer.results]


@pytest.mark.parametrize("seed", range(2))
def test_the_same_rows_answer_alike_in_every_format(seed: int, tmp_path: Path) -> None:
    frame = generated(random.Random(seed))
    conditions = asked(frame)
    wanted = told(retrieve_cli.build(frame, tmp_path / "frame"), conditions)
    assert len(wanted["records"]) == len(frame)
    for suffix, write in WRITERS.items():
        table = tmp_path / f"rows.{suffix}"
        write(frame, table)
        found = told(retrieve_cli.build(str(table), tmp_path / suffix), conditions)
        differing = {key: (found[key], wanted[key]) for key in wanted if found[key] != wanted[key]}
        assert not differing, suffix
