"""The kind of search that a question calls for."""

import pytest

from retrieve_cli.websearch.kinds import choose


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("crispr off-target", "literature"),
        ("systematic review of statins", "literature"),
        ("latest release of scanpy", "web"),
        ("latest papers on protein folding", "literature"),
        ("price of a sequencer and papers about it", "both"),
        ("10.1000/xyz123 news", "literature"),
        ("arXiv:2401.01234v2", "literature"),
        ("UPDATES of the kernel", "web"),
    ],
)
def test_words_of_the_question_choose_the_kind(text: str, kind: str) -> None:
    assert choose(text).kind == kind


def test_the_reason_names_the_word_that_decided() -> None:
    assert "“price”" in choose("what is the price of a pipette").reason


def test_categories_ask_for_literature_whatever_the_words_are() -> None:
    assert choose("latest news", has_categories=True).kind == "literature"
