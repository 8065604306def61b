"""Names to addresses, by the machine's list and by a name server on loopback."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path

import dns.asyncresolver
import dns.message
import dns.rcode
import dns.rrset
import pytest
import trio

from adapters.outbound.names import SystemNames


@asynccontextmanager
async def name_server(records: Mapping[tuple[str, str], Sequence[str]]) -> AsyncIterator[dns.asyncresolver.Resolver]:
    with trio.socket.socket(type=trio.socket.SOCK_DGRAM) as socket:
        await socket.bind(("127.0.0.1", 0))

        async def serve() -> None:
            while True:
                data, client = await socket.recvfrom(4096)
                asked = dns.message.from_wire(data)
                (question,) = asked.question
                answer = dns.message.make_response(asked)
                kind = question.to_text().rpartition(" ")[2]
                name = question.name.to_text(omit_final_dot=True)
                if found := records.get((name, kind)):
                    answer.answer.append(dns.rrset.from_text(question.name, 60, "IN", kind, *found))
                elif not any(known == name for known, _ in records):
                    answer.set_rcode(dns.rcode.NXDOMAIN)
                await socket.sendto(answer.to_wire(), client)

        resolver = dns.asyncresolver.Resolver(configure=False)
        resolver.nameservers = ["127.0.0.1"]
        resolver.port = socket.getsockname()[1]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            yield resolver
            nursery.cancel_scope.cancel()


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
