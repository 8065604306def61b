"""Names to addresses, by the machine's list and by a name server on loopback."""

from ipaddress import ip_address
from pathlib import Path

import dns.resolver
import pytest

from adapters.outbound.dialer import SystemNames
from tests.name_server import name_server


async def test_all_addresses_are_found_those_of_ipv4_first(tmp_path: Path) -> None:
    records = {
        ("both.example", "A"): ["192.0.2.1", "192.0.2.2"],
        ("both.example", "AAAA"): ["2001:db8::1"],
        ("six.example", "AAAA"): ["::1"],
    }
    async with name_server(records) as resolver:
        names = SystemNames(tmp_path / "none", resolver)
        found = await names.addresses("both.example")
        assert found[-1] == ip_address("2001:db8::1")
        assert set(found) == {ip_address(one) for one in ("192.0.2.1", "192.0.2.2", "2001:db8::1")}
        assert await names.addresses("six.example") == [ip_address("::1")]
        assert await names.addresses("none.example") == ()


async def test_the_machines_own_list_comes_first(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("# ours\n192.0.2.9 Own.example own  # both\nnonsense line\n\n::1 own.example\n")
    async with name_server({("own.example", "A"): ["192.0.2.1"]}) as resolver:
        names = SystemNames(hosts, resolver)
        assert await names.addresses("own.example") == [ip_address("192.0.2.9"), ip_address("::1")]
        assert await names.addresses("own") == [ip_address("192.0.2.9")]


async def test_a_machine_without_name_servers_knows_its_own_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n")

    def none() -> None:
        raise dns.resolver.NoResolverConfiguration

    monkeypatch.setattr("dns.asyncresolver.Resolver", none)
    names = SystemNames(hosts)
    assert await names.addresses("localhost") == [ip_address("127.0.0.1")]
    assert await names.addresses("else.example") == ()


async def test_texts_are_put_together_from_their_parts(tmp_path: Path) -> None:
    records = {("proof.example", "TXT"): ['"one"', '"in " "two parts"'], ("other.example", "A"): ["192.0.2.1"]}
    async with name_server(records) as resolver:
        names = SystemNames(tmp_path / "none", resolver)
        assert sorted(await names.texts("proof.example") or ()) == ["in two parts", "one"]
        assert await names.texts("other.example") == ()
        assert await names.texts("none.example") == ()


async def test_a_name_server_that_fails_says_nothing_of_texts(tmp_path: Path) -> None:
    async with name_server({}, failing={"proof.example"}) as resolver:
        assert await SystemNames(tmp_path / "none", resolver).texts("proof.example") is None


async def test_a_machine_without_name_servers_knows_no_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise dns.resolver.NoResolverConfiguration

    monkeypatch.setattr("dns.asyncresolver.Resolver", none)
    assert await SystemNames(tmp_path / "none").texts("proof.example") == ()
