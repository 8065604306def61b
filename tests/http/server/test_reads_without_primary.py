"""Postern on two database hosts, of which one falls silent: people go on reading, and everybody learns why nothing can be changed."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import trio

from actors.watchers import DatabaseWatcher
from adapters.crypto.key_ring import EncryptionKey
from adapters.postgres.migrate import migrate
from entrypoints import checks
from entrypoints.bootstrap import Postern
from entrypoints.checks import Verdict
from entrypoints.cli import doctor
from entrypoints.settings import read
from tests.adapters.postgres.driver.pair import PASSWORD, TwoServers, running_pair
from tests.http.client import Client
from tests.http.conftest import postern_on, with_keys
from tests.http.people import People
from tests.patience import PATIENCE
from tests.places import open_directory


@pytest.fixture
async def pair() -> AsyncIterator[TwoServers]:
    with open_directory() as place:
        async with running_pair(place) as running:
            await migrate(running.url_of(running.first), lambda _line: None)
            yield running


@pytest.fixture
async def postern(pair: TwoServers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Postern]:
    monkeypatch.setattr("adapters.postgres.driver.pool.SWITCHOVER", 0.05)
    async with postern_on(pair.url, tmp_path, {"POSTERN_STANDBY_READS": "1d"}) as opened, trio.open_nursery() as nursery:
        await with_keys(opened)
        await nursery.start(DatabaseWatcher(opened.foundation.metrics, opened.foundation.database).run)
        yield opened
        nursery.cancel_scope.cancel()


@pytest.fixture
def people(pair: TwoServers, postern: Postern) -> Iterator[People]:
    """Their rows are written on the first server, past Postern."""
    with People(postern, pair.url_of(pair.first)) as made:
        yield made


async def until_ready(client: Client, *, reason: str | None) -> None:
    """Until the probe gets this reason, or none."""
    with trio.fail_after(PATIENCE):
        while True:
            answer = await client.get("/health/ready")
            if (answer.status, answer.json().get("reason")) == (200 if reason is None else 503, reason):
                assert answer.json()["database"] == "connected"
                return
            await trio.sleep(0.05)


def gauge(postern: Postern, name: str) -> float:
    lines = postern.foundation.metrics.render().decode().splitlines()
    return float(next(line.rpartition(" ")[2] for line in lines if line.startswith(f"{name} ")))


async def test_people_go_on_reading_and_nobody_waits_for_the_silent_host(
    pair: TwoServers, postern: Postern, client: Client, people: People
) -> None:
    ada, eve = people.proved(), people.proved()
    bearer, ended = await people.token(ada), await people.token(eve)
    owner = await people.token(people.proved(platform_owner=True))
    assert (await client.get("/api/user", token=ended)).status == 200
    people.change("update sessions set revoked_at = now() where id = %s", eve.session)
    await pair.caught_up()
    # The lookout has seen the primary after the last write.
    await postern.foundation.database.look_at_hosts()
    await pair.caught_up()
    pair.fall_silent()
    missed = pair.told("no answer", "takes no writes")
    await until_ready(client, reason=f"no host takes writes: {missed}")
    answer = await client.get("/api/user", token=bearer)
    assert (answer.status, answer.json()["email"]) == (200, ada.email)
    # Counts of guesses are on no standby: a list with them waits, and breaks nothing.
    answer = await client.get("/api/platform/mfa/suspicious", token=owner)
    assert (answer.status, answer.header("retry-after")) == (503, "2")
    # What was ended before is ended here, too.
    assert (await client.get("/api/user", token=ended)).status == 401
    for refused in (
        await client.request("PATCH", "/api/user", body={"name": "Ada Lovelace"}, token=bearer),
        await client.post("/api/auth/login", {"email": ada.email, "password": "a wrong password"}),
    ):
        assert (refused.status, refused.header("retry-after")) == (503, "2")
    with trio.fail_after(PATIENCE):
        while not gauge(postern, 'sso_db_writes_failing{reason="read_only"}'):
            await trio.sleep(0.05)
    assert gauge(postern, f'sso_db_host_state{{host="127.0.0.1:{pair.first.port}",state="no_answer"}}') == 1
    assert gauge(postern, f'sso_db_host_state{{host="127.0.0.1:{pair.first.port}",state="takes_writes"}}') == 0
    assert gauge(postern, f'sso_db_host_state{{host="127.0.0.1:{pair.second.port}",state="takes_no_writes"}}') == 1
    found = dict(await checks.of_running(postern))["database hosts"]
    reasons = missed.replace("no answer", "no answer (nothing within 2 s)")
    assert (found.verdict, found.text) == (Verdict.FAIL, f"none takes writes: {reasons}")
    pair.speak_again()
    await until_ready(client, reason=None)
    changed = await client.request("PATCH", "/api/user", body={"name": "Ada Lovelace"}, token=bearer)
    assert changed.status == 200


async def test_reads_are_refused_where_the_end_of_a_session_may_be_missing(
    pair: TwoServers, postern: Postern, client: Client, people: People
) -> None:
    ada = people.proved()
    bearer = await people.token(ada)
    assert (await client.get("/api/user", token=bearer)).status == 200
    await pair.caught_up()
    await pair.part()
    # Another process ends the session, and the standby never learns of it.
    people.change("update sessions set revoked_at = now() where id = %s", ada.session)
    postern.foundation.database._lookout._ends.clear()
    await postern.foundation.database.look_at_hosts()
    pair.fall_silent()
    await until_ready(client, reason=f"no host takes writes, and reads are refused: {pair.told('no answer', 'takes no writes')}")
    refused = await client.get("/api/user", token=bearer)
    assert (refused.status, refused.header("retry-after")) == (503, "2")
    with trio.fail_after(PATIENCE):
        while not gauge(postern, 'sso_db_writes_failing{reason="read_only"}'):
            await trio.sleep(0.05)
    pair.speak_again()
    await until_ready(client, reason=None)
    assert (await client.get("/api/user", token=bearer)).status == 401


async def test_the_doctor_names_each_host_with_its_own_reason(pair: TwoServers, capsys: pytest.CaptureFixture[str]) -> None:
    keys = EncryptionKey("test", b"k" * 32).line()
    settings = read({"POSTERN_DATABASE_URL": pair.url, "POSTERN_ENCRYPTION_KEYS": keys, "POSTERN_MAIL": "console"})
    assert await doctor._examine(settings, None, None, False) in {0, 1}
    assert f"ok    database hosts     {pair.told('takes writes', 'takes no writes')}" in capsys.readouterr().out
    await trio.to_thread.run_sync(pair.second.end)
    await doctor._examine(settings, None, None, False)
    assert f"warn  database hosts     {pair.told('takes writes', 'no answer')}" in capsys.readouterr().out
    pair.fall_silent()
    assert await doctor._examine(settings, None, None, False) == 1
    told = capsys.readouterr().out
    assert "FAIL  database hosts     none takes writes: " in told
    assert "refused" in told
    assert PASSWORD not in told
    pair.speak_again()
