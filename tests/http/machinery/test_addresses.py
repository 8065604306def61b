"""The client address of a request, behind proxies and with forged headers."""

from ipaddress import ip_network

import pytest

from entrypoints.http.machinery.addresses import ClientAddresses

TRUSTED = [ip_network("10.0.0.0/8"), ip_network("fd00::/8")]


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("10.0.0.1", None, "10.0.0.1"),
        ("10.0.0.1", b"198.51.100.7", "198.51.100.7"),
        ("10.0.0.1", b"1.1.1.1, 198.51.100.7, 10.0.0.2", "198.51.100.7"),
        ("10.0.0.1", b"1.1.1.1,198.51.100.7", "198.51.100.7"),
        ("10.0.0.1", b"10.0.0.3, 10.0.0.2", "10.0.0.3"),
        ("10.0.0.1", b"198.51.100.7:4711", "198.51.100.7"),
        ("10.0.0.1", b"[2001:db8::5]:4711", "2001:db8::5"),
        ("10.0.0.1", b"2001:DB8::5", "2001:db8::5"),
        ("10.0.0.1", b"fe80::1%eth0", "fe80::1"),
        ("fd00::1", b"::ffff:198.51.100.7", "198.51.100.7"),
        ("::ffff:10.0.0.1", b"198.51.100.7", "198.51.100.7"),
        ("10.0.0.1", b"198.51.100.7, unknown", "10.0.0.1"),
        ("10.0.0.1", b"198.51.100.7, _hidden, 10.0.0.9", "10.0.0.9"),
        ("10.0.0.1", b"", "10.0.0.1"),
        ("10.0.0.1", b"\xff\xfe, '; drop table", "10.0.0.1"),
        ("203.0.113.9", b"198.51.100.7", "203.0.113.9"),
        ("not an address", b"198.51.100.7", "not an address"),
        ("::ffff:203.0.113.9", b"198.51.100.7", "203.0.113.9"),
        (None, b"1.1.1.1, 198.51.100.7, 10.0.0.2", "198.51.100.7"),
        (None, None, "unknown"),
    ],
)
def test_the_client_is_the_right_most_address_that_is_no_proxy_of_ours(peer: str | None, forwarded: bytes | None, client: str) -> None:
    assert ClientAddresses(TRUSTED).of(peer, forwarded) == client


def test_without_proxies_nothing_that_is_forwarded_is_believed() -> None:
    assert ClientAddresses([]).of("10.0.0.1", b"198.51.100.7") == "10.0.0.1"
