"""Classifies IP addresses: which belong to this machine, and which may belong to one client."""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache

PREFIX = 64
"""Bits of an IPv6 address that name its network (RFC 4291, 2.5.4): one machine may own all addresses with the same
bits."""


def parsed_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An address without its zone; an IPv4 address mapped to IPv6 becomes IPv4. Raises ValueError."""
    address = ipaddress.ip_address(text.partition("%")[0])
    return getattr(address, "ipv4_mapped", None) or address


@lru_cache(maxsize=64)  # cached: every request that reads names a host, of up to 16 KiB
def is_address(text: str) -> bool:
    try:
        parsed_address(text)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=256)  # cached: every request asks, mostly about the same address
def is_loopback(text: str) -> bool:
    """Whether a text is an address of this machine that no other can send from."""
    return is_address(text) and parsed_address(text).is_loopback


@lru_cache(maxsize=256)
def client_network(text: str) -> str:
    """What counts as one client: an IPv4 address, or the /64 of an IPv6 address. Any other text is returned
    unchanged."""
    if ":" not in text or not is_address(text):
        return text
    address = parsed_address(text)
    if address.version == 4:
        return str(address)
    return str(ipaddress.ip_network((address, PREFIX), strict=False))


NO_URL = "its port is no number (in a password, / is written %2F and @ is %40)"
"""What is wrong with most URLs that cannot be asked. It quotes none: what looks like a port may be a password."""


def without_password(text: str) -> str:
    """A text without the users and passwords of its URLs, also of those that are none: a password may have a slash."""
    return re.sub(r"//[^\s\"']*@", "//", text)
