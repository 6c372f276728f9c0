"""An issuer of signed tokens for tests: its keys, key sets, and tokens of any kind, forged ones included."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from retrieve_cli.config.settings import JwtSettings

ISSUER, AUDIENCE = "https://issuer.example", "retrieve"


def private_key(kind: str, number: int = 0) -> Any:
    """A private key, one per kind and number."""
    return _generated(kind, number)


@cache
def _generated(kind: str, number: int) -> Any:
    del number
    if kind == "RSA":
        return rsa.generate_private_key(public_exponent=65537, key_size=2048)
    if kind == "weak":
        return rsa.generate_private_key(public_exponent=65537, key_size=1024)
    return ec.generate_private_key(ec.SECP256R1()) if kind == "EC" else ed25519.Ed25519PrivateKey.generate()


def public_jwk(kind: str, number: int = 0, **members: Any) -> dict[str, Any]:
    """The public half as an entry of a key set."""
    algorithms = {"RSA": "RS256", "weak": "RS256", "EC": "ES256", "OKP": "EdDSA"}
    algorithm = jwt.get_algorithm_by_name(algorithms[kind])
    entry = json.loads(algorithm.to_jwk(private_key(kind, number).public_key()))
    return {**{name: entry[name] for name in entry if name not in ("key_ops", "use")}, **members}


def public_pem(kind: str) -> bytes:
    """The public half as people paste it."""
    key = private_key(kind).public_key()
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def key_set(*entries: Mapping[str, Any]) -> str:
    return json.dumps({"keys": list(entries)})


def claims(**others: Any) -> dict[str, Any]:
    """Claims of a valid token, with others in their place; None removes one."""
    now = int(time.time())
    base = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "iat": now, "exp": now + 300, "scope": "search"}
    return {name: value for name, value in {**base, **others}.items() if value is not None}


def signed(kind: str = "RSA", number: int = 0, *, headers: Mapping[str, Any] | None = None, **others: Any) -> str:
    """A token that a key signs."""
    algorithm = {"RSA": "RS256", "weak": "RS256", "EC": "ES256", "OKP": "EdDSA"}[kind]
    sent = {"kid": "one"} if headers is None else dict(headers)
    return jwt.encode(claims(**others), private_key(kind, number), algorithm, headers=sent)


def forged(header: Any, payload: Any, secret: bytes | None = None) -> str:
    """A token of any header and payload, texts as they are; signed by HMAC-SHA256 if there is a secret."""
    parts = [_encoded(part if isinstance(part, bytes) else json.dumps(part).encode()) for part in (header, payload)]
    body = ".".join(parts)
    signature = b"" if secret is None else hmac.new(secret, body.encode(), hashlib.sha256).digest()
    return f"{body}.{_encoded(signature)}"


def settings(folder: Path, *entries: Mapping[str, Any], **others: Any) -> JwtSettings:
    """Settings of the issuer, with its key set in a file unless they name another source."""
    values: dict[str, Any] = {"issuer": ISSUER, "audience": AUDIENCE, **others}
    if not {"jwks_url", "secret_env", "jwks_file"} & values.keys():
        values["jwks_file"] = folder / "jwks.json"
        values["jwks_file"].write_text(key_set(*(entries or [public_jwk("RSA", kid="one")])))
    return JwtSettings(**values)


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
