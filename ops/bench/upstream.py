"""The cost of a sign-in through a provider on loopback, against `GET /api/user` of the same server in the same run."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial
from itertools import count
from operator import attrgetter
from time import thread_time
from typing import Any, Final
from urllib.parse import urlencode

import trio

from adapters.outbound.client import PlainClient
from adapters.outbound.dialer import EVERYWHERE, Dialer, SystemNames
from core.domain.outbound import destination
from ops.bench.cases.identity import people
from ops.bench.harness import DidNotStart, Options, Server, directory, generate, kept, serving
from ops.bench.inside import bearers_for
from ops.bench.load import Answer, Client, Summary, Tally, Target
from ops.bench.paired import Contestant, Side, ratio, take_turns
from ops.bench.report import Figure, at_most, complain
from ops.bench.shared_postgres import shared_postgres
from ops.stand_ins.fake_providers import FakeWebSuite, settings_of
from ports.outbound import OutboundRequest

PEOPLE: Final = 200
TURNS: Final = 5
AT_ONCE: Final = 4
CALLS: Final = 300
USER: Final = "GET /api/user"
CPU: Final = attrgetter("server")


async def upstream(options: Options) -> Sequence[Figure]:
    """Sign-ins through a provider on loopback, from the way there to the way back: our CPU against `GET /api/user`."""
    seconds = max(1.0, options.seconds / 2)
    async with AsyncExitStack() as stack:
        place = stack.enter_context(directory())
        postgres = stack.enter_context(shared_postgres(place))
        fake = stack.enter_context(FakeWebSuite(client_id="bench"))
        data_dir = place / "postern"
        data_dir.mkdir()
        settings = settings_of("websuite", fake)
        server = await stack.enter_async_context(serving(data_dir, database_url=postgres.create("postern"), settings=settings))
        persons = await people(server, PEOPLE)
        tokens = [f"Authorization: {header['Authorization']}" for header in await bearers_for(server.settings, persons)]
        asked = kept(server.data_dir / "asked", tokens)
        side = Side(server.pid, "postern", postgres)
        user = Contestant(USER, side, partial(generate, server.target("/api/user"), AT_ONCE, seconds, tokens=asked))
        numbers = count()
        sign_in = Contestant("sign-in through a provider", side, partial(sign_ins, server, fake, numbers, seconds))
        complain("upstream: everybody for the first time …")
        await make_accounts(server, fake)
        complain("upstream: 4 at once …")
        await trio.to_thread.run_sync(postgres.settle)
        await take_turns([user, sign_in], TURNS)
        call = await _call(fake)
    own = sign_in.median(CPU) - call
    return [
        *(Figure(f"{one.name}: CPU each", one.median(CPU), "µs", beside=one.described()) for one in (user, sign_in)),
        Figure("one call of the token endpoint, as the sign-in makes it: CPU", call, "µs"),
        Figure(f"sign-in through a provider against {USER}: CPU, with the call", ratio(sign_in, user, CPU)),
        Figure(f"sign-in through a provider against {USER}: CPU, besides the call", own / user.median(CPU), bar=at_most(6.0)),
        Figure("requests that failed", user.failures + sign_in.failures, bar=at_most(0)),
    ]


async def make_accounts(server: Server, fake: FakeWebSuite) -> None:
    """The first sign-in of each person creates an account, and no case measures that."""
    async with Client.connected(server.target("/auth/websuite")) as client:
        for number in range(PEOPLE):
            await _signed_in(client, server, fake, number)


async def sign_ins(server: Server, fake: FakeWebSuite, numbers: "count[int]", seconds: float) -> Summary:
    """Each sign-in has its own person and its own browser."""
    tally, until, began = Tally(), trio.current_time() + seconds, trio.current_time()

    async def one_after_another() -> None:
        async with Client.connected(server.target("/auth/websuite")) as client:
            while trio.current_time() < until:
                tally.answered(await _signed_in(client, server, fake, next(numbers) % PEOPLE))

    async with trio.open_nursery() as nursery:
        for _ in range(AT_ONCE):
            nursery.start_soon(one_after_another)
    tally.seconds = trio.current_time() - began
    return tally.summary()


async def _signed_in(client: Client, server: Server, fake: FakeWebSuite, number: int) -> Answer:
    left = await _answer(client, server.target("/auth/websuite"))
    cookie = left.headers["set-cookie"].partition(";")[0]
    person: dict[str, Any] = {"sub": str(number), "email": f"bench{number}@gmail.com", "email_verified": True}
    back = await _answer(client, server.target(fake.consent(left.headers["location"], **person), {"Cookie": cookie}))
    # A sign-in answers with a redirect, and the tally counts everything but 2xx as failed.
    return Answer(200 if back.status == 303 else back.status, back.headers, back.body, left.seconds + back.seconds)


async def _answer(client: Client, target: Target) -> Answer:
    answer = await client.ask(target)
    if answer.status not in {302, 303}:
        raise DidNotStart(f"{target.path.partition('?')[0]} answers {answer}")
    return answer


async def _call(fake: FakeWebSuite) -> float:
    """Microseconds of one call by the same client, in this process. Only its own thread counts, so the provider does not."""
    client = PlainClient(Dialer(SystemNames(), EVERYWHERE))
    body = urlencode({"grant_type": "authorization_code", "code": "x" * 40, "code_verifier": "y" * 43}).encode()
    request = OutboundRequest(destination(f"{fake.url}/token"), body, {"content-type": "application/x-www-form-urlencoded"})
    try:
        for _ in range(10):
            await client.post(request, timedelta(seconds=5))
        began = thread_time()
        for _ in range(CALLS):
            await client.post(request, timedelta(seconds=5))
        return (thread_time() - began) * 1e6 / CALLS
    finally:
        await client.aclose()
