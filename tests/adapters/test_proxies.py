"""The operator's list of VPN and proxy networks."""

import random
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest

from adapters.ip_addresses import ListedProxies, ProxyListUnusable, read_networks
from core.domain.identity.guards.traffic import Network


def test_without_a_list_nothing_is_known() -> None:
    assert ListedProxies([]).contain("192.0.2.1") is None


@pytest.mark.parametrize(
    ("address", "contained"),
    [
        ("192.0.2.0", True),
        ("192.0.2.255", True),
        ("192.0.1.255", False),
        ("192.0.3.0", False),
        ("0.0.0.0", False),  # noqa: S104 - an address that is looked up
        ("255.255.255.255", False),
        ("198.51.100.9", True),
        ("2001:db8::ffff", True),
        ("2001:db9::", False),
        ("fe80::1%eth0", False),
        ("unknown", None),
        ("", None),
        (None, None),
    ],
)
def test_an_address_is_in_the_list_or_not(address: str | None, contained: bool | None) -> None:
    listed = ListedProxies([ip_network(one) for one in ("192.0.2.0/24", "198.51.100.9/32", "192.0.2.128/25", "2001:db8::/32")])
    assert listed.contain(address) is contained


def test_the_quick_answer_is_the_plain_one() -> None:
    chance = random.Random(7)  # noqa: S311 - the same every time
    networks: list[Network] = [ip_network((chance.getrandbits(32), chance.choice((8, 16, 20, 24, 32))), strict=False) for _ in range(60)]
    listed = ListedProxies(networks)
    edges = [int(edge) + step for one in networks for edge in (one.network_address, one.broadcast_address) for step in (-1, 0, 1)]
    for number in [*edges, *(chance.getrandbits(32) for _ in range(300))]:
        address = ip_address(number % (1 << 32))
        assert listed.contain(str(address)) is any(address in one for one in networks)


def test_a_file_has_one_network_a_line_and_comments(tmp_path: Path) -> None:
    file = tmp_path / "networks.txt"
    file.write_text("# known VPNs\n192.0.2.0/24\n\n 2001:db8::/32  # a second one\r\n198.51.100.9\n203.0.113.9/24\n", encoding="utf-8")
    assert [str(one) for one in read_networks(file)] == ["192.0.2.0/24", "2001:db8::/32", "198.51.100.9/32", "203.0.113.0/24"]


@pytest.mark.parametrize(
    ("content", "said"), [(b"192.0.2.0/24\nnowhere\n", "line 2"), (b"192.0.2.0/33", "line 1"), (b"\xff\xfe", "not text"), (None, "No such")]
)
def test_a_file_that_cannot_be_used_is_refused_with_a_sentence(tmp_path: Path, content: bytes | None, said: str) -> None:
    file = tmp_path / "networks.txt"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ProxyListUnusable, match=said):
        read_networks(file)
