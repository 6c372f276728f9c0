"""A configuration file is changed in place: the values asked for, and not a character more."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given, strategies as st

from retrieve_cli.config.editing import changed
from retrieve_cli.errors import UsageError

SHIPPED = (Path(__file__).parents[2] / "config.yaml").read_text("utf-8")


def test_only_the_lines_of_the_values_change() -> None:
    changes = {"fusion": {"rrf_k": 70, "weights": {"dense": 0.7, "bm25": 0.3}}, "bm25": {"k1": 0.9}}
    after = changed(SHIPPED, changes, where="config.yaml")
    differing = [(a, b) for a, b in zip(SHIPPED.split("\n"), after.split("\n"), strict=True) if a != b]
    assert [(a.strip()[:4], _undone(b) == a) for a, b in differing] == [("k1: ", True), ("rrf_", True), ("weig", True)]


def _undone(line: str) -> str:
    """A line of the shipped file as it was before the change."""
    return line.replace("0.9", "1.2").replace("70", "60").replace("{bm25: 0.3, dense: 0.7}", "{}")


@pytest.mark.parametrize(
    ("text", "weights"),
    [
        ("", {"dense": 0.7, "bm25": 0.3}),
        ("fusion: {method: weighted}\n", {"dense": 0.7, "bm25": 0.3}),
        ("fusion:\n  weights: {}\n", {"dense": 0.7, "bm25": 0.3}),
        ("fusion:\n  weights: {toy: 1, dense: 0.5}  # mine\n", {"toy": 1, "dense": 0.7, "bm25": 0.3}),
        ("fusion:\n  weights:\n    dense: 0.5  # mine\n    # ours\n", {"dense": 0.7, "bm25": 0.3}),
    ],
)
def test_of_a_mapping_the_keys_that_change_are_changed_and_no_others(text: str, weights: dict[str, float]) -> None:
    after = changed(text, {"fusion": {"weights": {"dense": 0.7, "bm25": 0.3}}}, where="f")
    assert yaml.safe_load(after)["fusion"]["weights"] == weights
    assert after.count("#") == text.count("#")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing yet\n",
        "fusion:\n",
        "fusion:",
        "fusion: {}\n",
        "fusion: {rrf_k: 60}  # flow\n",
        "fusion:\n    rrf_k: 60  # four blanks\n    # and a comment\nsearch: {k: 3}\n",
        "fusion:\n  dense_weight: 0.5 # old\n",
        "search:\n  k: 3\n# the end",
        '"fusion": {"dense_weight": 0.5}',
        "fusion: {dense_weight: !!float 0.5}\n",
    ],
)
def test_however_it_is_written_it_says_what_it_said_with_the_change(text: str) -> None:
    before = yaml.safe_load(text) or {}
    after = changed(text, {"fusion": {"dense_weight": 0.7, "method": "rrf"}}, where="f")
    fusion = {**(before.get("fusion") or {}), "dense_weight": 0.7, "method": "rrf"}
    assert yaml.safe_load(after) == {**before, "fusion": fusion}
    comments = [[line for line in each.split("\n") if line.startswith("#")] for each in (text, after)]
    assert comments[0] == comments[1]


@pytest.mark.parametrize(
    "text",
    [
        "a: &x {dense_weight: 1}\nfusion: *x\n",
        "base: &x 0.5\nfusion:\n  dense_weight: *x\n",
        "fusion: [1, 2]\n",
        "- fusion\n",
        "fusion: 3\n",
        "fusion:\n  dense_weight: [1]\n",
        "a: 1\n---\nb: 2\n",
        "fusion: {",
    ],
)
def test_what_cannot_be_changed_in_place_is_said_with_what_to_set_by_hand(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        changed(text, {"fusion": {"dense_weight": 0.7}}, where="my.yaml")
    assert "my.yaml" in caught.value.message
    assert caught.value.hint == "set by hand: fusion.dense_weight: 0.7"


sections = st.sampled_from(["fusion", "search", "bm25"])
values = st.sampled_from([1, 0.5, "rrf", None, True])
keys = st.dictionaries(st.sampled_from(["k", "b", "method"]), values, min_size=1)


@given(st.dictionaries(sections, keys, max_size=3), st.booleans())
def test_any_file_that_a_dumper_writes_can_be_changed(value: dict[str, dict[str, object]], flow: bool) -> None:
    text = yaml.safe_dump(value, default_flow_style=flow)
    after = changed(text, {"search": {"k": 7}, "bm25": {"b": 0.25}}, where="f")
    search, bm25 = {**value.get("search", {}), "k": 7}, {**value.get("bm25", {}), "b": 0.25}
    assert yaml.safe_load(after) == {**value, "search": search, "bm25": bm25}
