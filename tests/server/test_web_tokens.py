"""Signed tokens: valid ones name their caller, and whatever else is sent is not a credential."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from hypothesis import HealthCheck, given, settings as settings_of_hypothesis, strategies as st
from signed_tokens import ISSUER, claims, forged, key_set, private_key, public_jwk, public_pem, settings, signed
from told_servers import Answer, Asked, Server, running

from retrieve_cli.errors import RetrieveError, UsageError
from retrieve_cli.server.auth.web_tokens import KeySet, TokenVerifier, UrlOrigin, read_key_set

SECRET = "a secret that only the issuer and the server know"


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> TokenVerifier:
    entries = (public_jwk("RSA", kid="one"), public_jwk("EC", kid="two"), public_jwk("OKP", kid="three"))
    return TokenVerifier(settings(tmp_path_factory.mktemp("jwt"), *entries))


@pytest.mark.parametrize(("kind", "kid"), [("RSA", "one"), ("EC", "two"), ("OKP", "three")])
def test_a_token_of_the_issuer_names_its_caller(tokens: TokenVerifier, kind: str, kid: str) -> None:
    token = tokens.verify(signed(kind, headers={"kid": kid}, scope="search web openid"))
    assert token is not None
    assert token[:3] == (None, {"search", "web"}, "alice")


def test_a_token_without_a_key_id_fits_the_only_key_of_its_algorithm(tokens: TokenVerifier, tmp_path: Path) -> None:
    assert tokens.verify(signed(headers={}))
    twice = TokenVerifier(settings(tmp_path, public_jwk("RSA", kid="one"), public_jwk("RSA", 1, kid="two")))
    assert twice.verify(signed(headers={})) is None
    assert twice.verify(signed("RSA", 1, headers={"kid": "two"}))


NOW = int(time.time())
REJECTED: dict[str, Any] = {
    "empty": lambda: "",
    "not ASCII": lambda: signed().replace("e", "é"),
    "cut": lambda: signed()[:-5],
    "another payload": lambda: _with_payload(signed(), claims(scope="web")),
    "alg none": lambda: forged({"alg": "none", "kid": "one"}, claims()),
    "no alg": lambda: forged({"kid": "one"}, claims()),
    "HS256 with the public key": lambda: forged({"alg": "HS256", "kid": "one"}, claims(), public_pem("RSA")),
    "HS256 with the public key as JSON": lambda: forged(
        {"alg": "HS256", "kid": "one"}, claims(), json.dumps(public_jwk("RSA")).encode()
    ),
    "an algorithm that is not listed": lambda: jwt.encode(
        claims(), private_key("RSA"), "RS512", headers={"kid": "one"}
    ),
    "the key of another kind": lambda: signed("EC", headers={"kid": "one"}),
    "an unknown kid": lambda: signed(headers={"kid": "four"}),
    "a kid that is a path": lambda: signed("RSA", 1, headers={"kid": "../../../../dev/null"}),
    "a kid that is an address": lambda: signed("RSA", 1, headers={"kid": "http://127.0.0.1:9/jwks.json"}),
    "a kid that is not a text": lambda: forged({"alg": "RS256", "kid": {"$ne": 1}}, claims()),
    "its own key under our id": lambda: signed("RSA", 1, headers={"kid": "one", "jwk": public_jwk("RSA", 1)}),
    "a key set of its own": lambda: signed("RSA", 1, headers={"kid": "four", "jku": "http://127.0.0.1:9/"}),
    "a certificate of its own": lambda: signed("RSA", 1, headers={"kid": "one", "x5u": "http://127.0.0.1:9/"}),
    "a critical extension": lambda: signed(headers={"kid": "one", "crit": ["exp"], "exp": 1}),
    "another type": lambda: signed(headers={"kid": "one", "typ": "logout+jwt"}),
    "another audience": lambda: signed(aud="another"),
    "no audience": lambda: signed(aud=None),
    "another issuer": lambda: signed(iss="https://issuer.example.evil"),
    "no issuer": lambda: signed(iss=None),
    "an issuer that is a list": lambda: _encoded_claims(iss=[ISSUER]),
    "expired": lambda: signed(exp=NOW - 60),
    "no end": lambda: signed(exp=None),
    "an end that is a text": lambda: signed(exp=str(NOW + 300)),
    "an endless end": lambda: forged({"alg": "RS256", "kid": "one"}, b'{"exp": 1e999}'),
    "an end of 5,000 digits": lambda: forged({"alg": "RS256", "kid": "one"}, b'{"exp": ' + b"9" * 5000 + b"}"),
    "not yet valid": lambda: signed(nbf=NOW + 3600),
    "issued in the future": lambda: signed(iat=NOW + 3600),
    "oversized": lambda: signed(extra="x" * 8000),
    "a deeply nested payload": lambda: forged({"alg": "RS256", "kid": "one"}, b'{"a":' * 1100),
    "a payload that is a list": lambda: _signed_payload(b"[]"),
}
"""Ways to ask for what is not one's own."""


def _with_payload(token: str, payload: dict[str, Any]) -> str:
    head, _, signature = token.split(".")
    return f"{head}.{forged({}, payload).split('.')[1]}.{signature}"


def _signed_payload(payload: bytes) -> str:
    return jwt.api_jws.encode(payload, private_key("RSA"), "RS256", headers={"kid": "one"})


def _encoded_claims(**others: Any) -> str:
    return _signed_payload(json.dumps(claims(**others)).encode())


@pytest.mark.parametrize("way", REJECTED)
def test_whatever_is_not_a_valid_token_is_no_credential(tokens: TokenVerifier, way: str) -> None:
    text = REJECTED[way]()
    assert tokens.verify(text) is None
    tokens.due(text)
    tokens.must_wait(text)


@settings_of_hypothesis(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters(max_codepoint=255), max_size=300) | st.lists(st.text("ab.=-_{}")).map(".".join))
def test_no_text_breaks_the_verification(tokens: TokenVerifier, text: str) -> None:
    assert tokens.verify(text) is None
    assert not tokens.due(text)


def test_clocks_may_differ_by_the_leeway(tmp_path: Path) -> None:
    assert TokenVerifier(settings(tmp_path)).verify(signed(exp=int(time.time()) - 10))
    assert TokenVerifier(settings(tmp_path)).verify(signed(exp=int(time.time()) - 100)) is None


def test_claims_name_tenant_and_scopes(tmp_path: Path) -> None:
    chosen = {"tenant_claim": "https://example.org/tenant", "scope_claim": "roles"}
    tokens = TokenVerifier(settings(tmp_path, **chosen))

    def verified(**others: Any) -> Any:
        named = {"https://example.org/tenant" if name == "tenant" else name: value for name, value in others.items()}
        return tokens.verify(_encoded_claims(**named))

    token = verified(tenant="acme", roles=["search", "documents:write", "root"])
    assert token[:3] == ("acme", {"search", "documents:write"}, "alice")
    assert token.account == verified(tenant="acme", roles="web").account
    assert token.account != verified(tenant="globex").account
    for tenant in (None, "", " ", 7, ["acme"], {"a": 1}, "a\nb", "x" * 300):
        assert verified(tenant=tenant) is None


def test_a_shared_secret_is_used_only_where_it_is_configured(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("JWT_SECRET", SECRET)
    tokens = TokenVerifier(settings(tmp_path, secret_env="JWT_SECRET", algorithms=["HS256"]))
    assert tokens.verify(jwt.encode(claims(), SECRET, "HS256"))
    assert tokens.verify(jwt.encode(claims(), SECRET + "!", "HS256")) is None
    assert tokens.verify(signed()) is None
    assert tokens.verify(forged({"alg": "none"}, claims())) is None


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"issuer": None}, "jwt.issuer"),
        ({"jwks_file": None}, "one source of keys"),
        ({"jwks_url": "http://issuer.example/jwks.json"}, "https"),
        ({"algorithms": ["HS256"]}, "public keys"),
        ({"secret_env": "JWT_SECRET"}, "shared secret"),
        ({"secret_env": "JWT_SECRET", "algorithms": ["HS512"]}, "64"),
        ({"secret_env": "PEM", "algorithms": ["HS256"]}, "not a secret"),
        ({"jwks_file": Path("missing.json")}, "missing.json"),
    ],
)
def test_settings_that_do_not_fit_together_are_errors_at_the_start(tmp_path: Path, monkeypatch, keys, said) -> None:
    monkeypatch.setenv("JWT_SECRET", SECRET[:40])
    monkeypatch.setenv("PEM", public_pem("RSA").decode())
    with pytest.raises(RetrieveError) as caught:
        TokenVerifier(settings(tmp_path, **keys))
    assert said in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize(
    "content",
    [
        *("", "{", "[]", "7", '{"keys": 7}', '{"keys": []}', '{"keys": [[]]}', "[" * 100_000),
        key_set({"kty": "oct", "k": "c2VjcmV0", "alg": "HS256"}),
        key_set(public_jwk("weak")),
        key_set(public_jwk("RSA", use="enc")),
        key_set(public_jwk("RSA", alg="HS256")),
        key_set({"kty": "RSA", "n": "!", "e": "AQAB"}),
    ],
)
def test_a_key_set_without_a_public_key_for_signatures_is_an_error(content: str) -> None:
    with pytest.raises(UsageError):
        read_key_set(content.encode())


def test_damaged_keys_of_a_set_are_skipped_and_private_parts_are_not_read() -> None:
    private = json.loads(jwt.get_algorithm_by_name("RS256").to_jwk(private_key("RSA")))
    keys = read_key_set(key_set({"kty": "oct", "k": "eA"}, {**private, "use": "sig", "key_ops": ["verify"]}).encode())
    assert len(keys) == 1
    assert not hasattr(keys[0].key, "decrypt")


def test_a_key_set_in_a_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    said: list[str] = []
    tokens = TokenVerifier(settings(tmp_path), say=said.append)
    new = signed("RSA", 1, headers={"kid": "new"})
    assert not tokens.due(signed())
    assert tokens.verify(new) is None
    (tmp_path / "jwks.json").write_text(key_set(public_jwk("RSA", 1, kid="new"), public_jwk("EC", kid="other")))
    assert tokens.due(new)
    tokens.reload()
    assert tokens.verify(new)
    assert tokens.verify(signed()) is None  # its key was withdrawn
    (tmp_path / "jwks.json").write_text("{")
    tokens.reload()
    assert tokens.verify(new)  # the last good set
    assert len(said) == 1


class Issuer:
    """A server that answers with a key set, and counts its requests."""

    def __init__(self) -> None:
        self.says, self.asked = Answer(), 0
        self.server = Server(self._answer)
        self.url = f"http://127.0.0.1:{self.server.server_port}/jwks.json"

    def _answer(self, _: Asked) -> Answer:
        self.asked += 1
        return self.says


@pytest.fixture
def issuer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Issuer]:
    monkeypatch.setenv("NO_PROXY", "*")
    yield from running(Issuer())


def test_a_key_set_by_url_is_fetched_for_an_unknown_key_at_most_once_a_minute(issuer: Issuer) -> None:
    now, said = [0.0], []
    keys = KeySet(UrlOrigin(issuer.url, clock=lambda: now[0]), say=said.append)
    issuer.says = Answer(key_set(public_jwk("RSA", kid="one")).encode())
    assert keys.due("one")
    keys.reload()
    assert (keys.knows("one"), keys.due("one"), keys.due("two"), issuer.asked) == (True, False, False, 1)
    now[0] = 61.0
    assert (keys.due("one"), keys.due("two")) == (False, True)
    keys.reload()
    assert (keys.due("two"), issuer.asked) == (False, 2)
    now[0] = 700.0
    assert keys.due("one")  # a key that the issuer has withdrawn becomes invalid
    moved = Answer(status=302, headers={"Location": "http://127.0.0.1:9/elsewhere"})
    for issuer.says in (Answer(status=500), moved, Answer(b"{"), Answer(b"x" * 300_000)):
        keys.reload()
        assert keys.knows("one")
    assert len(said) == 4
    assert issuer.asked == 6
