"""Several hosts, of which none takes writes: reads go on where a host answers, as long as it cannot show what was ended since."""

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, LiteralString

import psycopg
import pytest
import trio

from adapters.postgres.driver.lookout import HostState, Lookout, SeenHost, Watch, seen_hosts
from adapters.postgres.driver.pool import NoWriter, Pool
from adapters.postgres.failures import RETRY_AFTER, translated
from core.domain.errors import Unavailable
from ops.free_ports import free_port
from tests.adapters.postgres.driver.pair import TwoServers, running_pair
from tests.adapters.postgres.questions import one
from tests.conftest import CapturedLog
from tests.patience import PATIENCE
from tests.places import open_directory

_LONG: Final = 3600.0
_WHO: Final = "select inet_server_port()"
_HURRIED: Final = 0.05


@pytest.fixture
async def pair() -> AsyncIterator[TwoServers]:
    with open_directory() as place:
        async with running_pair(place) as running:
            await running.write("create table words (word text); grant all on words to public")
            await running.caught_up()
            yield running


class PoolWithLookout:
    """A pool and its lookout, as a process has them."""

    def __init__(self, url: str, standby_reads: float = _LONG) -> None:
        self.pool = Pool(url, timeout=1, switchover=_HURRIED)
        self.lookout = Lookout(self.pool, standby_reads=standby_reads, patience=0.3)

    async def ask(self, statement: LiteralString = _WHO) -> Any:
        async with self.pool.connection() as connection:
            return await one(connection, statement)

    async def first_asked(self) -> Any:
        """The first connection takes longer than the pool waits where the machine is busy."""
        with trio.fail_after(PATIENCE):
            while True:
                with suppress(psycopg.OperationalError):
                    return await self.ask()

    async def until_away(self, *, readable: bool) -> None:
        with trio.fail_after(PATIENCE):
            while self.pool.away is None or self.pool.away.readable is not readable:
                with suppress(psycopg.OperationalError):
                    await self.ask()
                await self.lookout.look()

    async def until_it_writes(self) -> None:
        with trio.fail_after(PATIENCE):
            while True:
                await self.lookout.look()
                with suppress(psycopg.Error):
                    async with self.pool.connection() as connection:
                        await connection.execute("insert into words values ('after')")
                        return

    async def refused_write(self) -> Unavailable:
        with pytest.raises(Unavailable) as refused, translated():
            async with self.pool.connection() as connection:
                await connection.execute("insert into words values ('between')")
        return refused.value


@pytest.fixture
async def reader(pair: TwoServers) -> AsyncIterator[PoolWithLookout]:
    made = PoolWithLookout(pair.url)
    assert await made.first_asked() == pair.first.port
    await made.lookout.look()
    await pair.caught_up()
    yield made
    await made.pool.aclose()


def told(hosts: Sequence[SeenHost]) -> str:
    return "; ".join(map(str, hosts))


async def test_each_host_is_seen_as_it_is(pair: TwoServers) -> None:
    nobody = free_port()
    url = pair.url.replace("port=", f"port={nobody},").replace("host=", "host=127.0.0.1,")
    seen = await seen_hosts(url)
    assert [host.state for host in seen] == [HostState.SILENT, HostState.WRITES, HostState.READS]
    assert told(seen[1:]) == pair.told("takes writes", "takes no writes")
    assert seen[1].best.end == seen[2].best.end
    assert "refused" in str(seen[0].best.detail)
    pair.fall_silent()
    assert told(await seen_hosts(pair.url, 0.2)) == pair.told("no answer", "takes no writes")
    pair.speak_again()
    wrong = await seen_hosts(pair.url.replace("dbname=postern", "dbname=another"))
    assert [host.state for host in wrong] == [HostState.REFUSES, HostState.REFUSES]
    # One host, or another kind of host that is wanted: there is nobody to look for.
    assert await seen_hosts(pair.url_of(pair.first)) == await seen_hosts(pair.url + " target_session_attrs=any") == []
    assert len(await seen_hosts(pair.url + " target_session_attrs=read-write")) == 2


async def test_a_name_that_nobody_knows_is_a_host_without_an_answer(pair: TwoServers) -> None:
    (first, _) = await seen_hosts(pair.url.replace("host=127.0.0.1,", "host=nowhere.invalid,"))
    assert first.state is HostState.SILENT
    assert str(first.best.detail).startswith("the name cannot be resolved")


async def test_reads_go_on_at_the_standby_and_writes_are_refused_at_once(
    pair: TwoServers, reader: PoolWithLookout, log: CapturedLog
) -> None:
    pair.fall_silent()
    watch = Watch(reader.pool, pair.url, long=_HURRIED, patience=0.2)
    told_so = trio.Event()

    async def wait_for_the_silent_one() -> None:
        with pytest.raises(psycopg.OperationalError):
            await reader.ask()
        told_so.set()

    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_for_the_silent_one)
            while not told_so.is_set():
                await watch.look()
                await trio.sleep(0.01)
    await reader.until_away(readable=True)
    assert told(reader.lookout.hosts) == pair.told("no answer", "takes no writes")
    # From now on nobody waits for the silent host: it has not been asked by any of these.
    silent = await connections_of(pair)
    for _ in range(20):
        assert await reader.ask() == pair.second.port
    assert (await reader.refused_write()).retry_after == RETRY_AFTER
    assert reader.pool.statistics().idle == 1
    assert await connections_of(pair) == silent
    assert len(log.events("no_database_host_takes_writes")) == 1
    pair.speak_again()
    await reader.until_it_writes()
    assert await reader.ask() == pair.first.port
    assert len(log.events("database_host_found")) == 1


async def connections_of(pair: TwoServers) -> int:
    """How many connections wait in the queue of the first server's port, or stand there."""
    lines = (await trio.Path("/proc/net/tcp").read_text()).splitlines()
    return sum(1 for line in lines if line.split()[2].endswith(f":{pair.first.port:04X}"))


async def test_writes_go_on_when_the_standby_is_promoted(pair: TwoServers, reader: PoolWithLookout) -> None:
    await trio.to_thread.run_sync(pair.first.end)
    await reader.until_away(readable=True)
    assert await reader.ask() == pair.second.port
    await pair.promote()
    await reader.until_it_writes()
    assert await reader.ask() == pair.second.port
    assert told(reader.lookout.hosts) == pair.told("no answer", "takes writes")


async def test_a_checkout_that_asks_a_silent_host_is_called_back(pair: TwoServers) -> None:
    """It began before anybody knew, and has time for more than the rest of this test."""
    patient = Pool(pair.url + " connect_timeout=3600", timeout=7200, switchover=_HURRIED)
    lookout = Lookout(patient, standby_reads=_LONG, patience=0.3)
    async with patient.connection():
        await lookout.look()
    await pair.caught_up()
    patient.drop_idle()
    pair.fall_silent()
    answers: list[object] = []

    async def ask() -> None:
        async with patient.connection() as connection:
            answers.append(await one(connection, _WHO))

    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            while not answers:
                await lookout.look()
                await trio.sleep(0.01)
    assert answers == [pair.second.port]
    pair.speak_again()
    await patient.aclose()


async def test_what_lacks_the_newest_of_the_primary_is_not_read_when_its_time_is_over(pair: TwoServers, reader: PoolWithLookout) -> None:
    """A session that is ended where the standby does not see it is honoured for as long as is said."""
    pair.fall_silent()
    reader.pool.drop_idle()
    await reader.until_away(readable=True)
    away = reader.pool.away
    assert away is not None
    # The time is counted from when the primary was seen, not from when it was missed.
    newest, _ = reader.lookout._ends[-1]
    assert away.until == newest + _LONG
    assert await reader.ask() == pair.second.port
    async with reader.pool.connection() as in_use:
        reader.lookout._standby_reads = 0
        reader.pool.writer_is_away(replace(away, until=trio.current_time()))
        with pytest.raises(NoWriter, match="none may be read"):
            await reader.ask()
    # Whoever comes next does not get the connection that was in use then.
    assert in_use.closed
    await reader.until_away(readable=False)
    refused = await reader.refused_write()
    assert "no answer" in str(refused.detail)
    pair.speak_again()
    await reader.until_it_writes()


async def test_a_standby_that_was_behind_when_the_primary_fell_silent_is_not_read(pair: TwoServers, reader: PoolWithLookout) -> None:
    reader.lookout._ends.clear()
    await pair.part()
    await pair.write("insert into words values ('the end of a session')")
    await reader.lookout.look()
    pair.fall_silent()
    reader.pool.drop_idle()
    await reader.until_away(readable=False)
    with pytest.raises(NoWriter, match="takes no writes"):
        await reader.ask()
    pair.speak_again()
    await reader.until_it_writes()


async def test_a_standby_of_another_line_of_the_log_is_not_read(pair: TwoServers, reader: PoolWithLookout) -> None:
    """It may be further by its number, and lack what was written on the new line."""
    await trio.to_thread.run_sync(pair.first.end)
    await pair.promote()
    await reader.until_it_writes()
    await reader.lookout.look()
    newest = reader.lookout._ends[-1][1]
    (_, second) = await seen_hosts(pair.url)
    assert second.best.end is not None
    assert (newest.timeline, second.best.end.timeline) == (2, 2)
    reader.lookout._ends.clear()
    reader.lookout._ends.append((trio.current_time(), type(newest)(1, 0)))
    assert reader.lookout._proved(newest) == float("-inf")


async def test_a_process_that_has_seen_no_primary_reads_nowhere(pair: TwoServers) -> None:
    pair.fall_silent()
    reader = PoolWithLookout(pair.url)
    await reader.until_away(readable=False)
    with pytest.raises(NoWriter):
        await reader.ask()
    pair.speak_again()
    await reader.until_it_writes()
    await reader.pool.aclose()


async def test_with_no_time_nobody_reads(pair: TwoServers) -> None:
    reader = PoolWithLookout(pair.url, standby_reads=0)
    await reader.ask()
    await reader.lookout.look()
    await trio.to_thread.run_sync(pair.first.end)
    await reader.until_away(readable=False)
    await reader.pool.aclose()


async def test_while_all_hosts_answer_and_none_takes_writes_the_time_begins_anew(pair: TwoServers) -> None:
    """A primary that somebody made read-only. Nobody can end a session there or elsewhere."""
    reader = PoolWithLookout(pair.url, standby_reads=_LONG)
    await reader.ask()
    await reader.lookout.look()
    await trio.to_thread.run_sync(pair.first.set, "default_transaction_read_only", "on")
    with trio.fail_after(PATIENCE):
        while reader.pool.away is None:
            with suppress(psycopg.Error):
                async with reader.pool.connection() as connection:
                    await connection.execute("insert into words values ('refused')")
            await reader.lookout.look()
    before = reader.pool.away.until
    await reader.lookout.look()
    assert reader.pool.away is not None
    assert reader.pool.away.until > before
    assert told(reader.lookout.hosts) == pair.told("takes no writes", "takes no writes")
    assert await reader.ask() in {pair.first.port, pair.second.port}
    await trio.to_thread.run_sync(pair.first.set, "default_transaction_read_only", "off")
    await reader.until_it_writes()
    await reader.pool.aclose()


async def test_a_lookout_that_looks_no_more_is_not_believed_for_long(
    pair: TwoServers, reader: PoolWithLookout, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.fall_silent()
    reader.pool.drop_idle()
    await reader.until_away(readable=True)
    monkeypatch.setattr("adapters.postgres.driver.pool._BELIEVED", -1.0)
    pair.speak_again()
    assert await reader.ask() == pair.first.port
    assert reader.pool.away is None


async def test_while_nobody_answers_each_checkout_tries_for_itself(pair: TwoServers, reader: PoolWithLookout) -> None:
    pair.fall_silent()
    reader.pool.drop_idle()
    await reader.until_away(readable=True)
    await trio.to_thread.run_sync(pair.second.end)
    with trio.fail_after(PATIENCE):
        while reader.pool.away is not None:
            await reader.lookout.look()
    pair.speak_again()
    assert await reader.ask() == pair.first.port


async def test_a_standby_that_does_not_answer_changes_nothing_and_is_seen_at_the_next_round(pair: TwoServers) -> None:
    pool = Pool(pair.url)
    lookout = Lookout(pool, standby_reads=_LONG, pause=0.0)
    await lookout.look()
    assert told(lookout.hosts) == pair.told("takes writes", "takes no writes")
    await trio.to_thread.run_sync(pair.second.end)
    await lookout.look()
    assert told(lookout.hosts) == pair.told("takes writes", "no answer")
    assert pool.away is None
    await pool.aclose()


async def test_of_a_server_with_another_log_there_is_no_end(pair: TwoServers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adapters.postgres.driver.lookout._END", "select no_such_function()")
    assert [host.best.end for host in await seen_hosts(pair.url)] == [None, None]


async def test_a_pool_without_a_free_connection_is_not_asked_for_the_end_of_the_log(
    pair: TwoServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adapters.postgres.driver.lookout._END_WITHIN", 0.05)
    pool = Pool(pair.url, max_size=1)
    lookout = Lookout(pool, standby_reads=_LONG)
    async with pool.connection():
        await lookout.look()
    assert not lookout._ends
    await pool.aclose()
