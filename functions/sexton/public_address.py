"""Which addresses an endpoint may have: those of the public internet, and no address that stands for another."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

# Of IPv6 only global unicast is meant; of that, what carries an IPv4 address or a route within it, and examples.
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_NOT_PUBLIC = tuple(
    ip_network(each)
    for each in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16"),
        *("192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3"),
        *("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"),
    )
)


def why_refused(text: str, local: bool = False) -> str | None:
    """Why no call may go to this address, in words; None where one may.

    Private, loopback, link-local (among them AWS's metadata), shared, multicast and reserved ones are refused, and
    those that stand for an IPv4 address in any form of IPv6. `local`: loopback alone is allowed, for an emulator.
    """
    try:
        address = ip_address(text)
    except ValueError:
        return f"{text!r} is no address"
    if local:
        return None if address.is_loopback else f"{address} is not the loopback address of the local stage"
    return None if _public(address) else f"{address} is not a public address"


def _public(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv6Address) and (address not in _GLOBAL_UNICAST or address.scope_id):
        return False
    return address.is_global and not any(address in network for network in _NOT_PUBLIC)
