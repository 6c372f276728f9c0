"""A query that finds too little is asked again by fewer of its words."""

from hypothesis import given, strategies as st

from retrieve_cli.search.relaxation import broader


def test_the_first_three_words_then_the_first_two() -> None:
    assert broader(["segment", "tiny", "lungs", "robustly"], most=2) == ["segment tiny lungs", "segment tiny"]
    assert broader(["segment", "tiny", "lungs", "robustly"], most=1) == ["segment tiny lungs"]
    assert broader(["segment", "tiny", "lungs"], most=2) == ["segment tiny"]


@given(st.lists(st.text(min_size=1, alphabet="abc"), max_size=6), st.integers(0, 4))
def test_each_text_is_a_shorter_beginning_than_the_one_before(words: list[str], most: int) -> None:
    texts = broader(words, most=most)
    assert len(texts) <= most
    lengths = [len(words), *(len(text.split(" ")) for text in texts)]
    assert lengths == sorted(set(lengths), reverse=True)
    assert all(" ".join(words).startswith(text) for text in texts)
