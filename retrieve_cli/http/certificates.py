"""The certificate of a server, and its private key, checked before anything starts."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

from retrieve_cli.errors import UsageError
from retrieve_cli.untrusted.files import CONFIG, read_bytes

_OTHERS = 0o077
"""Permissions of users other than the owner."""
_EXAMPLE = "--tls-cert cert.pem --tls-key key.pem"


def check_pair(
    certificate: Path | None, key: Path | None, *, warn: Callable[[str], None] = lambda _: None
) -> tuple[Path, Path] | None:
    """Return a certificate and its key if the server has them; None if neither is named.

    `warn` receives a warning if other users may read the key.

    Raises:
        UsageError: one of them is missing, cannot be read, or does not belong to the other.
    """
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        flag = "--tls-cert" if certificate is None else "--tls-key"
        raise UsageError(f"TLS needs a certificate and its private key; {flag} is missing", hint=_EXAMPLE)
    for flag, path in (("--tls-cert", certificate), ("--tls-key", key)):
        try:
            read_bytes(path, limit=CONFIG)
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror}", hint=f"check {flag}") from error
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=_no_password)
    except (ssl.SSLError, ValueError) as error:
        raise UsageError(_reason(certificate, key, error), hint=f"both in PEM form: {_EXAMPLE}") from error
    if key.stat().st_mode & _OTHERS:
        warn(f"warning: other users may read the private key; chmod 600 {key}")
    return certificate, key


def _no_password() -> str:
    """Return no password: asking for one would stop a server that has no operator."""
    return ""


def _reason(certificate: Path, key: Path, error: Exception) -> str:
    if getattr(error, "reason", "") == "KEY_VALUES_MISMATCH":
        return f"the private key {key} does not belong to the certificate {certificate}"
    if isinstance(error, ssl.SSLError) and "PEM" not in str(error):
        return f"cannot load the certificate {certificate} with the private key {key}; keys with a password do not work"
    return f"{certificate} is not a certificate, or {key} is not a private key without a password"
