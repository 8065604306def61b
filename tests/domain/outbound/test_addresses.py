"""Public addresses, and addresses that the operator can permit."""

from ipaddress import ip_address, ip_network

import pytest

from core.domain.outbound import is_permitted, is_public, unwrapped
from tests.hostile_addresses import HOSTILE_ADDRESSES

PUBLIC = ("93.184.215.14", "1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1", "2a00:1450:4001::8a", "2001:4860:4860::8888")


@pytest.mark.parametrize("text", HOSTILE_ADDRESSES)
def test_nothing_that_only_we_can_reach_is_permitted(text: str) -> None:
    assert not is_permitted(ip_address(text), ())


@pytest.mark.parametrize("text", PUBLIC)
def test_public_addresses_are_permitted(text: str) -> None:
    assert is_public(ip_address(text))
    assert is_permitted(ip_address(text), ())


def test_a_public_address_in_other_clothes_is_what_it_leads_to() -> None:
    for text in ("::ffff:93.184.215.14", "64:ff9b::93.184.215.14", "2002:5db8:d70e::1"):
        assert unwrapped(ip_address(text)) == ip_address("93.184.215.14")
        assert is_permitted(ip_address(text), ())


def test_the_operator_permits_a_network_and_nothing_beside_it() -> None:
    allowed = [ip_network("10.1.0.0/16"), ip_network("fd00:1::/32")]
    for text in ("10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::10.1.2.3", "2002:a01:203::1", "fd00:1::5"):
        assert is_permitted(ip_address(text), allowed), text
    for text in ("10.2.0.1", "::ffff:10.2.0.1", "fd00:2::5", "127.0.0.1"):
        assert not is_permitted(ip_address(text), allowed), text
