"""Rules for servers that others choose: only public addresses, so that no answer or name leads into this network.

Names are checked after resolving, on the very address that is connected to (`http/connecting.py`), so that a name which
resolves differently the second time gains nothing. The networks are from the IANA registries of special-purpose
addresses (RFC 6890), and the forms of IPv6 that contain an address of IPv4.
"""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from retrieve_cli.http.addresses import Permits, origin, place, shown
from retrieve_cli.http.failures import NotPermitted
from retrieve_cli.http.fetching import is_loopback

_SPECIAL_4 = [
    ip_network(network)
    for network in (
        "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 "
        "192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4"
    ).split()
]
_GLOBAL_6 = ip_network("2000::/3")
_SPECIAL_6 = [ip_network(network) for network in "2001::/23 2001:db8::/32 3fff::/20".split()]
_MAPPED, _COMPATIBLE, _NAT64, _SIX_TO_FOUR = map(ip_network, "::ffff:0:0/96 ::/96 64:ff9b::/96 2002::/16".split())
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)
"""Upper half of an interface identifier that contains an address of IPv4 (RFC 5214)."""
_LOCAL = ("localhost", "local", "internal", "lan", "home.arpa")
"""Domains that only this machine or its network knows."""


def is_public(address: str) -> bool:
    """Return True for a global unicast address, as text without brackets."""
    try:
        known = ip_address(address)
    except ValueError:
        return False
    if isinstance(known, IPv4Address):
        return not any(known in network for network in _SPECIAL_4)
    if known.scope_id is not None:
        return False
    if (inner := _embedded(known)) is not None and not is_public(str(inner)):
        return False
    if known in _NAT64:
        return True
    return known in _GLOBAL_6 and not any(known in network for network in _SPECIAL_6)


def _embedded(address: IPv6Address) -> IPv4Address | None:
    """Return the address of IPv4 that an address of IPv6 leads to; None if it contains none."""
    number = int(address)
    if any(address in network for network in (_MAPPED, _COMPATIBLE, _NAT64)):
        return IPv4Address(number & 0xFFFF_FFFF)
    if address in _SIX_TO_FOUR:
        return IPv4Address(number >> 80 & 0xFFFF_FFFF)
    return IPv4Address(number & 0xFFFF_FFFF) if number >> 32 & 0xFFFF_FFFF in _ISATAP else None


def rule(exempt: Collection[str]) -> Permits:
    """Return the rule for connections: any public address, and for the origins of `exempt` any address, or with http
    only addresses of this machine."""
    schemes = {place(url)[1:]: place(url)[0] for url in exempt}

    def permits(host: str, port: int, address: str) -> bool:
        scheme = schemes.get((host.strip("[]").lower(), port))
        if scheme is None:
            return is_public(address)
        return scheme == "https" or is_loopback(address)

    return permits


def check_target(url: str, exempt: Collection[str]) -> None:
    """Check an address before a request is sent to it; through a proxy, this is the only check.

    `exempt` are origins, as `origin` of addresses.py returns them, that are permitted in any form.

    Raises:
        NotPermitted: it is not https, contains a user, or its host is not public, or an unusual form of an address.
    """
    try:
        target, host = origin(url), (urlsplit(url).hostname or "").lower()
    except ValueError:
        raise _not_permitted(url, "is not the address of a web server") from None
    if target in exempt:
        return
    if not target.startswith("https:"):
        raise _not_permitted(url, "is not https")
    if not _is_public_host(host.rstrip(".")):
        raise _not_permitted(url, "is not a public server")


def _is_public_host(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        # The last label of a name is not a number; 127.1, 0x7f.1 and 2130706433 are forms of addresses.
        last = host.rpartition(".")[2]
        unusual = not host.isascii() or "." not in host or "%" in host or last[:1].isdigit()
        return not unusual and not any(host == name or host.endswith(f".{name}") for name in _LOCAL)
    return is_public(host)


def _not_permitted(url: str, reason: str) -> NotPermitted:
    hint = "only public https servers are reached, and the addresses that web.endpoints names"
    return NotPermitted(f"{shown(url)} {reason}", hint=hint)
