"""The pictures of the program are there, small, and need nothing from the network."""

import importlib.util
import re

import pytest
from samples import ROOT

FOLDER = ROOT / "docs" / "screens"
SPEC = importlib.util.spec_from_file_location("make_screens", FOLDER / "make.py")
assert SPEC is not None
assert SPEC.loader is not None
make = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(make)
NAMES = [
    f"{screen.name}-{theme}-{width}.svg" for screen in make.SCREENS for width in screen.widths for theme in make.THEMES
]


def test_there_is_a_picture_of_each_screen_width_and_theme_and_no_other() -> None:
    assert sorted(path.name for path in FOLDER.glob("*.svg")) == sorted(NAMES)
    assert {60, 80, 120} <= {width for screen in make.SCREENS for width in screen.widths}


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_is_small_and_loads_nothing(name: str) -> None:
    text = (FOLDER / name).read_text("utf-8")
    assert len(text) < 40_000
    assert re.findall(r"""(?:="|\(['"]?)(https?://[^"')]+)""", text) == ["http://www.w3.org/2000/svg"]
    assert "url(#" in text
    assert "@import" not in text


def test_a_command_and_its_output_make_the_same_picture_each_time() -> None:
    shown = make.picture(("query", "two words"), "\x1b[1mlungs\x1b[0m\n", width=40, name="query-dark-40")
    assert shown == make.picture(("query", "two words"), "\x1b[1mlungs\x1b[0m\n", width=40, name="query-dark-40")
    assert "lungs" in shown
