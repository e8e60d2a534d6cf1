"""Addresses that no endpoint may have, in whatever form they come."""

from __future__ import annotations

import pytest
from sexton.public_address import why_refused

REFUSED = """
    0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.127.255.254 127.0.0.1 127.255.255.254 169.254.0.1
    169.254.169.254 169.254.170.2 172.16.0.1 172.31.255.255 192.0.0.1 192.0.0.170 192.0.2.1 192.88.99.1 192.168.0.1
    198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255
    :: ::1 ::127.0.0.1 ::a9fe:a9fe ::ffff:127.0.0.1 ::ffff:169.254.169.254 ::ffff:8.8.8.8 ::ffff:0:127.0.0.1
    64:ff9b::127.0.0.1 64:ff9b::8.8.8.8 64:ff9b:1::1 100::1 2001::1 2001:0:a00:1::1 2001:20::1 2001:db8::1
    2002:7f00:1::1 2002:a9fe:a9fe::1 3fff::1 5f00::1 fc00::1 fd00:ec2::254 fd00::1 fe80::1 fe80::1%eth0 fec0::1
    ff02::1 2600::1%eth0 localhost 0177.0.0.1 0x7f.0.0.1 2130706433 127.1
"""
PUBLIC = "8.8.8.8 93.184.216.34 52.95.110.1 99.255.255.255 100.63.255.255 172.32.0.1 2600:1f18::1 2a00:1450::1"


@pytest.mark.parametrize("address", [*REFUSED.split(), ""])
def test_what_is_not_public_is_refused(address: str) -> None:
    assert why_refused(address)


@pytest.mark.parametrize("address", PUBLIC.split())
def test_what_is_public_is_not(address: str) -> None:
    assert why_refused(address) is None


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.53", "::1"])
def test_on_the_local_stage_only_loopback_is_allowed(address: str) -> None:
    assert why_refused(address, local=True) is None


@pytest.mark.parametrize(
    "address", [*PUBLIC.split(), "10.0.0.1", "169.254.169.254", "::", "0.0.0.0", "::ffff:10.0.0.1"]
)
def test_and_nothing_else(address: str) -> None:
    assert why_refused(address, local=True)
