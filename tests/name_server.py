"""A name server on loopback."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager

import dns.asyncresolver
import dns.message
import dns.rcode
import dns.rrset
import trio


@asynccontextmanager
async def name_server(
    records: Mapping[tuple[str, str], Sequence[str]], failing: Collection[str] = ()
) -> AsyncIterator[dns.asyncresolver.Resolver]:
    """A name server with these records, which answers questions about `failing` names with a failure."""
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
                if name in failing:
                    answer.set_rcode(dns.rcode.SERVFAIL)
                elif found := records.get((name, kind)):
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
