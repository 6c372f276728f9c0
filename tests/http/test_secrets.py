"""Credentials stay out of whatever is shown."""

import json
from urllib.parse import quote

from hypothesis import given, strategies as st

from retrieve_cli.http.secrets import Authorization, Secret, hide, quoted

KEYS = st.text('abc/+" ü', min_size=1, max_size=8)
TEXTS = st.text('abc/+" ü%2', max_size=40)


@given(st.lists(TEXTS), st.lists(KEYS, min_size=1, max_size=3), st.data())
def test_no_secret_is_in_what_is_left_of_a_text(texts: list[str], keys: list[str], data: st.DataObject) -> None:
    spelled = [spell(key) for key in keys for spell in (str, lambda key: json.dumps(key)[1:-1], quote)]
    text = "".join(data.draw(st.permutations([*texts, *spelled])))
    left = hide(text, map(Secret, keys))
    for each in spelled:
        assert each not in left


@given(TEXTS)
def test_a_text_without_secrets_stays_as_it_is(text: str) -> None:
    assert hide(text, []) == text
    assert hide(text, [Secret(""), Secret("zzz")]) == text


@given(st.text("xyz", max_size=20), st.integers(4, 12))
def test_a_secret_that_a_text_breaks_off_in_is_hidden_too(before: str, size: int) -> None:
    key = "sk-0123456789"
    assert quoted(before + key[:size], [Secret(key)], most=99) == f"“{before}***”"


@given(st.text(max_size=400), st.integers(1, 50))
def test_a_quotation_is_one_short_line_that_drives_no_terminal(said: str, most: int) -> None:
    shown = quoted(said, [], most=most)
    assert len(shown) <= most + 3
    assert not any(char in shown for char in "\n\r\x1b\x00\u2028")


def test_a_secret_shows_in_no_representation() -> None:
    secret = Secret("sesame")
    shown = [repr(secret), str(secret), f"{secret}", f"{[secret]} {Authorization(secret, (secret,))}"]
    assert "sesame" not in "".join(shown)
    assert secret.reveal() == "sesame"
    assert not hasattr(secret, "__dict__")
