"""Texts of keys: a prefix that secret scanners recognise, 256 random bits, and a checksum of both."""

from __future__ import annotations

import hashlib
import secrets
import string
import zlib

PREFIX = "rtv_"
_DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase
_BITS = 256
_RANDOM, _CHECK = 43, 6
"""Digits in base 62 of 256 bits, and of the CRC-32."""
_LENGTH = len(PREFIX) + _RANDOM + _CHECK


def new_key() -> str:
    """Return a key that nobody else has."""
    body = PREFIX + _in_base_62(secrets.randbits(_BITS), _RANDOM)
    return body + _checksum(body)


def is_key(text: str) -> bool:
    """Return True if a text has the form of a key and its checksum is right: a mistyped key is not looked up."""
    if len(text) != _LENGTH or not text.startswith(PREFIX) or not text.isascii():
        return False
    return text[-_CHECK:] == _checksum(text[:-_CHECK])


def digest(key: str) -> str:
    """Return the SHA-256 of a key in hexadecimal. No salt and no slow hash: 256 random bits cannot be guessed."""
    return hashlib.sha256(key.encode()).hexdigest()


def _checksum(body: str) -> str:
    return _in_base_62(zlib.crc32(body.encode()), _CHECK)


def _in_base_62(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits))
