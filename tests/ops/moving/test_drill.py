"""The drill's own instruments: a cable that is cut tells nobody, the ledger believes what clients were told, and a loss is counted."""

import json
from dataclasses import replace

import pytest
import trio

from ops.bench.load import Answer
from ops.bench.report import Outcome, table
from ops.drill.__main__ import main
from ops.drill.cables import Cable
from ops.drill.failover import Plan, failover
from ops.drill.faults import FAULTS
from ops.drill.ledger import NO_ANSWER, Asked, Ledger, Told


def answer(status: int, code: str = "", **body: str) -> Answer:
    return Answer(status, {}, json.dumps({**body, **({"error_code": code} if code else {})}).encode(), 0.1)


async def test_a_cut_cable_carries_nothing_and_tells_nobody_until_it_is_mended() -> None:
    async def echo(stream: trio.SocketStream) -> None:
        async for data in stream:
            await stream.send_all(data)

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, echo, 0)
        cable = await Cable(listeners[0].socket.getsockname()[1]).lay(nursery)
        async with await trio.open_tcp_stream("127.0.0.1", cable.port) as stream:
            await stream.send_all(b"one")
            assert await stream.receive_some() == b"one"
            cable.cut()
            await stream.send_all(b"two")
            async with await trio.open_tcp_stream("127.0.0.1", cable.port) as other:
                await other.send_all(b"three")
                with trio.move_on_after(0.2) as waiting:
                    await stream.receive_some()
                assert waiting.cancelled_caught
                cable.mend()
                assert await stream.receive_some() == b"two"
                assert await other.receive_some() == b"three"
        nursery.cancel_scope.cancel()


async def test_a_cable_to_nobody_hangs_up() -> None:
    async with trio.open_nursery() as nursery:
        cable = await Cable(lambda: 1).lay(nursery)
        async with await trio.open_tcp_stream("127.0.0.1", cable.port) as stream:
            assert await stream.receive_some() == b""
        nursery.cancel_scope.cancel()


async def test_the_ledger_tells_what_a_client_may_believe() -> None:
    ledger = Ledger()
    told = [
        ledger.note("sign-in", 0.0, given)
        for given in (
            answer(200),
            answer(503, "SERVICE_UNAVAILABLE"),
            answer(503, "OUTCOME_UNKNOWN"),
            answer(503, detail="The outcome of this request is unknown: check the state before you try again"),
            answer(500, "INTERNAL_ERROR"),
            None,
            answer(401, "UNAUTHORIZED"),
            answer(409),
        )
    ]
    assert told == [Told.DONE, Told.REFUSED, *[Told.UNKNOWN] * 4, Told.REFUSED, Told.REFUSED]
    assert ledger.codes(0.0) == {
        "503 OUTCOME_UNKNOWN": 2,
        "503 SERVICE_UNAVAILABLE": 1,
        "500 INTERNAL_ERROR": 1,
        NO_ANSWER: 1,
    }
    assert ledger.surprises() == {"sign-in: 401 UNAUTHORIZED": 1}


def test_a_thing_that_is_done_in_the_end_was_not_refused() -> None:
    ledger = Ledger()
    for told in (Told.REFUSED, Told.UNKNOWN, Told.DONE):
        ledger.promise("SCIM", "e-1", told)
    assert ledger.done["SCIM"] == {"e-1"}
    assert not ledger.refused["SCIM"] | ledger.unknown["SCIM"]


def test_failures_count_from_the_fault_on() -> None:
    ledger = Ledger([Asked("read", 0.0, 1.0, "503 X"), Asked("read", 0.5, 3.0, NO_ANSWER), Asked("read", 2.0, 3.0, "200")])
    assert [one.code for one in ledger.failures(2.0)] == [NO_ANSWER]


def test_each_fault_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["failover", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(FAULTS)
    assert all(len(line.split()) > 5 for line in lines)
    with pytest.raises(SystemExit):
        main(["failover", "earthquake"])


@pytest.mark.slow
async def test_a_synchronous_standby_loses_nothing_and_an_asynchronous_one_that_lags_does() -> None:
    plan = Plan(faults=("kill",), times=1, detection=1.0, settings={"fsync": "off"})
    figures = {figure.what: figure for figure in await failover(plan)}
    lost = "kill{}: answered as done and lost"
    (synchronous,) = [one for what, one in figures.items() if what.startswith(lost.format(""))]
    (asynchronous,) = [one for what, one in figures.items() if what.startswith(lost.format(", asynchronous"))]
    assert (synchronous.value, figures["kill: done twice"].value) == (0, 0), table([Outcome("failover", list(figures.values()))])
    assert figures["kill: refused, and done all the same"].value == 0
    assert asynchronous.value > 0
    # The times belong to a machine that does nothing else; here only the counts are asked for.
    assert not replace(asynchronous, bar=synchronous.bar).held
