"""Addresses of web servers: the same ones are refused for models and for sources, each in its own words."""

import pytest
from hypothesis import given, strategies as st

from retrieve_cli.errors import UsageError
from retrieve_cli.http.addresses import Wording, check_url, shown, without_user
from retrieve_cli.models.remote.client import wording
from retrieve_cli.sources.remote.transfer import ADDRESS

BASE_URL = wording("")
WORDINGS = [BASE_URL, ADDRESS]


@pytest.mark.parametrize("wording", WORDINGS)
@pytest.mark.parametrize("url", ["http://host", "https://host:8443/v1?version=2", "http://[::1]:8080/v1"])
def test_an_address_of_a_web_server_is_taken(wording: Wording, url: str) -> None:
    check_url(url, wording)


@pytest.mark.parametrize("wording", WORDINGS)
@pytest.mark.parametrize("url", ["", "host", "ftp://host", "http://", "http://host/a b", "http://host/\x1b[2J"])
def test_what_is_no_address_of_a_web_server_is_refused(wording: Wording, url: str) -> None:
    with pytest.raises(UsageError, match="is not an http or https address"):
        check_url(url, wording)


@pytest.mark.parametrize(
    ("wording", "broken", "user"),
    [
        (BASE_URL, "the base_url is not a URL", "the base_url http://host/v1 has a user in it"),
        (ADDRESS, "the address is not a URL", "the address of http://host/v1 contains a user"),
    ],
)
def test_each_room_says_in_its_own_words_what_is_wrong(wording: Wording, broken: str, user: str) -> None:
    with pytest.raises(UsageError, match=broken):
        check_url("http://host:99999", wording)
    with pytest.raises(UsageError, match=user) as caught:
        check_url("http://anna:secret@host/v1", wording)
    assert "secret" not in f"{caught.value.message} {caught.value.hint}"


LETTERS = st.text("abcdefghij", min_size=1)


@given(user=LETTERS, secret=LETTERS, query=LETTERS)
def test_an_address_for_people_has_neither_credentials_nor_a_query(user: str, secret: str, query: str) -> None:
    assert shown(f"https://{user}:{secret}@HOST:1/PATH?{query}#{query}") == "https://HOST:1/PATH?…"
    assert without_user(f"https://{user}:{secret}@HOST:1/PATH?{query}") == f"https://HOST:1/PATH?{query}"
