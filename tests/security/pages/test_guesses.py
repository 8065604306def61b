"""Guesses over many accounts: what is kept of the passwords, whose tries count, who makes others pay, and what waits."""

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import md5, sha1, sha256
from hmac import digest
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from adapters.crypto.key_ring import AesGcmKeyRing, generate_key
from adapters.postgres.driver.connection import Connection
from adapters.postgres.upkeep.housekeeping import STATEMENTS
from core.domain.identifiers import UserId
from core.domain.identity.devices import Client as Sender
from core.domain.identity.guards.guesses import GUESSING_BITS, SUSPICIONS, GuessKind, HourKey, guessed, hour_of_guess, origin_of
from core.domain.mail import Email
from core.domain.secrets import Password
from core.usecases.identity.guards import guesses as guarding
from core.usecases.identity.guards.guesses import WAITING_THERE
from entrypoints.bootstrap import Postern
from entrypoints.http.application import build_application
from ports.crypto import KeyRing
from tests.changed_fields import put
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.browsing import Tabs
from tests.http.client import Client, Received
from tests.http.conftest import SETTINGS, postern_on
from tests.http.pages.test_puzzles import asked_for_password, asks, solution_of
from tests.http.people import People
from tests.http.signing_in import FIREFOX, LOGIN, PASSWORD, SAFARI, Browser, unlimited
from tests.patience import PATIENCE
from tests.usecases.set_clock import SetClock

database_url, postern, people = http.database_url, http.postern, http.people

FAILURES, WIDE = SUSPICIONS[GuessKind.NETWORK].failures, SUSPICIONS[GuessKind.WIDE].failures
GUESS = "a guess that many lists have"
CHROME = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Safari/537.36"
# Half past: no test crosses an hour.
NOW = datetime.now(UTC).replace(minute=30, second=0, microsecond=0)


class Pauses:
    """Waits for nothing, and says for how long it would have."""

    def __init__(self) -> None:
        self.waited: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.waited.append(seconds)
        await trio.lowlevel.checkpoint()


def set_up(postern: Postern) -> Pauses:
    pauses = Pauses()
    put(postern.identity.guesses, clock=SetClock(NOW), pause=pauses)
    return pauses


@pytest.fixture
def pauses(postern: Postern) -> Pauses:
    return set_up(postern)


@pytest.fixture
async def another_process(database_url: str, tmp_path: Path) -> AsyncIterator[Postern]:
    async with postern_on(database_url, tmp_path / "another") as opened:
        yield opened


async def guess(
    postern: Postern, email: str, password: str = GUESS, *, address: str = "192.0.2.1", agent: str = FIREFOX, **headers: str
) -> Received:
    given = [("user-agent", agent), *((name.replace("_", "-"), value) for name, value in headers.items())]
    return await unlimited(postern, address=address).post(LOGIN, {"email": email, "password": password}, headers=given)


async def stuff(postern: Postern, count: int = FAILURES, **sent: str) -> None:
    """FailedGuess at one account after the other."""
    for number in range(count):
        assert (await guess(postern, f"nobody{number}@example.org", **sent)).status == 401


def key_of(ring: KeyRing, hour: datetime = NOW) -> HourKey:
    return HourKey(ring.derive(f"guesses {hour:%Y-%m-%dT%H}"))


def counts(people: People, kind: str) -> Sequence[dict[str, Any]]:
    return people.rows(f"select * from guess_counts where kind = '{kind}'")


async def test_whoever_guesses_over_many_accounts_waits_whatever_the_answer_and_in_every_process(
    postern: Postern, another_process: Postern, people: People, pauses: Pauses
) -> None:
    ada = await people.with_password(PASSWORD, "ada@example.org")
    await stuff(postern)
    assert pauses.waited == []
    answers = [
        await guess(postern, email, password) for email, password in ((ada.email, PASSWORD), (ada.email, GUESS), ("x@example.org", "-"))
    ]
    assert [answer.status for answer in answers] == [200, 401, 401]
    assert len(pauses.waited) == 3
    assert max(pauses.waited) - min(pauses.waited) < 0.1
    elsewhere = set_up(another_process)
    await guess(another_process, "y@example.org")
    assert len(elsewhere.waited) == 1


async def test_the_page_asks_them_for_a_puzzle_and_nobody_else(postern: Postern, pauses: Pauses) -> None:
    await stuff(postern)
    await guess(postern, "one-more@example.org")
    assert len(pauses.waited) == 1

    async def is_asked(address: str, agent: str) -> bool:
        return asks(await asked_for_password(Tabs(unlimited(postern, address=address), agent), "ada@example.org"))

    asked = [await is_asked(*client) for client in (("192.0.2.77", FIREFOX), ("192.0.2.77", SAFARI), ("198.51.100.1", FIREFOX))]
    assert asked == [True, False, False]
    client = Sender("192.0.2.77", FIREFOX)
    assert postern.identity.guesses.bits(client) == GUESSING_BITS
    assert postern.identity.guesses.bits(Sender("192.0.2.77", SAFARI)) == 0
    assert postern.identity.guesses.bits(Sender("198.51.100.1", FIREFOX)) == 0
    put(postern.identity.guesses, clock=SetClock(NOW + timedelta(hours=1)))
    assert postern.identity.guesses.bits(client) == 0


async def test_a_person_in_their_network_solves_it_waits_and_is_in_and_hears_when_too_many_wait(
    postern: Postern, people: People, pauses: Pauses, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = await people.with_password(PASSWORD, "ada@example.org")
    await stuff(postern)
    await guess(postern, "one-more@example.org")
    tab = await asked_for_password(Tabs(unlimited(postern, address="192.0.2.77"), FIREFOX), ada.email)
    monkeypatch.setattr(guarding, "WAITING_THERE", 0)
    await tab.send(password=PASSWORD, solution=solution_of(tab))
    assert (tab.status, tab.tabs.session, len(pauses.waited)) == (429, None, 1)
    assert int(tab.shown.header("retry-after") or 0) >= 1
    assert "Too many" in tab.page.text
    monkeypatch.setattr(guarding, "WAITING_THERE", WAITING_THERE)
    tab = await asked_for_password(tab.tabs, ada.email)
    await tab.send(password=PASSWORD, solution=solution_of(tab))
    assert tab.tabs.session is not None
    assert len(pauses.waited) == 2


async def test_no_wait_and_no_puzzle_on_the_persons_own_device_and_its_failures_do_not_count(
    postern: Postern, people: People, pauses: Pauses
) -> None:
    ada = await people.with_password(PASSWORD, "ada@example.org")
    known = Browser(unlimited(postern))
    assert (await known.login(ada)).status == 200
    for _ in range(5):
        assert (await known.login(ada, GUESS)).status == 401
    assert people.rows("select from guess_counts") == []
    await stuff(postern)
    assert [(await known.login(ada, word)).status for word in (GUESS, PASSWORD)] == [401, 200]
    assert pauses.waited == []
    # The device of one person is a stranger's to everybody else.
    bob = await people.with_password(PASSWORD, "bob@example.org")
    await known.login(bob, GUESS)
    assert len(pauses.waited) == 1
    assert {row["failures"] for row in counts(people, "network")} == {FAILURES + 1}


async def test_a_made_up_browser_is_no_new_family_and_changing_it_ends_at_the_network(postern: Postern, pauses: Pauses) -> None:
    for number in range(FAILURES):
        await guess(postern, f"nobody{number}@example.org", agent=f"Unheard-of/{number}")
    await guess(postern, "x@example.org", agent="Never/1")
    assert len(pauses.waited) == 1
    await guess(postern, "x@example.org", agent=SAFARI)
    assert len(pauses.waited) == 1
    agents = ("Edg/1", FIREFOX, CHROME, "OPR/1", "SamsungBrowser/1")
    for number in range(WIDE - FAILURES - 2):
        await guess(postern, f"nobody{number}@example.org", agent=agents[number % len(agents)])
    assert len(pauses.waited) == 1
    await guess(postern, "y@example.org", agent=SAFARI)
    assert len(pauses.waited) == 2


async def test_a_stranger_elsewhere_makes_no_victims_network_pay(postern: Postern, pauses: Pauses) -> None:
    await stuff(postern, address="203.0.113.9", x_forwarded_for="192.0.2.1", forwarded="for=192.0.2.1", x_real_ip="192.0.2.1")
    await guess(postern, "ada@example.org")
    assert pauses.waited == []
    assert postern.identity.guesses.bits(Sender("192.0.2.1", FIREFOX)) == 0


async def test_one_persons_many_failures_make_nobody_wait(postern: Postern, pauses: Pauses) -> None:
    for number in range(FAILURES + 5):
        await guess(postern, f"one{number % 3}@example.org", f"{GUESS} {number}")
    assert pauses.waited == []


async def test_few_answers_wait_at_once_and_the_rest_is_refused_without_a_look_or_a_write(postern: Postern, people: People) -> None:
    set_up(postern)
    await stuff(postern)
    await guess(postern, "noticed@example.org")
    inside, leave = 0, trio.Event()

    async def pause(_seconds: float) -> None:
        nonlocal inside
        inside += 1
        await leave.wait()

    put(postern.identity.guesses, pause=pause)
    statuses: list[int] = []

    async def one(number: int) -> None:
        statuses.append((await guess(postern, f"racer{number}@example.org")).status)

    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            for number in range(WAITING_THERE):
                nursery.start_soon(one, number)
            while inside < WAITING_THERE:
                await trio.testing.wait_all_tasks_blocked(0.01)
            # Those who wait hold no transaction and no lock.
            assert people.rows("select from pg_stat_activity where datname = current_database() and state like 'idle in %%'") == []
            trips = postern.foundation.database.count_round_trips()
            refused = await guess(postern, "late@example.org")
            trips.stop()
            assert (refused.status, trips.count) == (429, 0)
            assert int(refused.header("retry-after") or 0) >= 1
            # A client that shows some device token is looked up, and its try is given back.
            token = [("x-device-token", "A" * 43)]
            body = {"email": "late@example.org", "password": GUESS}
            headers = [("user-agent", FIREFOX), *token]
            assert (await unlimited(postern).post(LOGIN, body, headers=headers)).status == 429
            # Others go on.
            assert (await guess(postern, "late@example.org", address="198.51.100.1")).status == 401
            leave.set()
    assert statuses == [401] * WAITING_THERE


async def test_nothing_of_a_password_is_kept_beyond_sixteen_bits(postern: Postern, people: People, pauses: Pauses) -> None:
    ada = await people.with_password(PASSWORD, "ada@example.org")
    for number in range(20):
        await guess(postern, ada.email if number == 0 else f"nobody{number}@example.org")
    key = key_of(postern.foundation.keyring)
    secret = GUESS.encode()
    digests = [digest(key, text, "sha256") for text in (secret, b"password " + secret)]
    digests += [made(secret).digest() for made in (sha256, sha1, md5)]
    kept = everything(people)
    assert GUESS not in kept
    for one in digests:
        # Three bytes of it, in any form that a column shows.
        assert one[:8].hex() not in kept
        assert str(int.from_bytes(one[:8])) not in kept
        assert str(int.from_bytes(one[:4])) not in kept
    (row,) = counts(people, "password")
    # Sixteen bits, and neither whose password it was nor where it came from.
    slot = int.from_bytes(digests[1][:8]) % 65536
    assert (row["slot"], row["key"], row["user_id"], row["network"], row["family"]) == (slot, "", None, None, None)
    assert key.hex() not in kept
    made = guessed(key, Email(ada.email), Password(GUESS), origin_of(Sender("192.0.2.1", FIREFOX)), user=UserId(ada.user), now=NOW)
    assert repr(made) == f"FailedGuess({hour_of_guess(NOW)}, ***)"
    assert pauses.waited == []


def everything(people: People) -> str:
    """All rows of all tables, as text."""
    tables = people.rows("select quote_ident(tablename) as name from pg_tables where schemaname = 'public'")
    return "\n".join(row["whole"] for table in tables for row in people.rows(f"select t::text as whole from {table['name']} as t"))


async def test_no_row_tells_by_its_time_whose_password_it_was(postern: Postern, people: People, pauses: Pauses) -> None:
    """The row of a password is the only one that would say so, and it knows no time but the hour."""
    ada = await people.with_password(PASSWORD, "ada@example.org")
    await guess(postern, ada.email)
    (row,) = counts(people, "password")
    assert (row["first_at"], row["last_at"]) == (row["hour"], row["hour"]) == (hour_of_guess(NOW), hour_of_guess(NOW))
    assert {one["last_at"] for kind in ("account", "network", "wide") for one in counts(people, kind)} == {NOW}
    assert row["id"].version == 4
    assert pauses.waited == []


async def test_no_alert_tells_by_its_time_whose_try_had_the_password_of_many(postern: Postern, people: People, pauses: Pauses) -> None:
    """The alert has the id of the password's row. With the time of the last failure, the log of sign-ins would say who tried it."""
    ada = await people.with_password(PASSWORD, "ada@example.org")
    # So many accounts that their marks surely differ enough, and too few to slow anybody.
    await stuff(postern, FAILURES - 2)
    await guess(postern, ada.email)
    (alert,) = people.rows("select * from guess_alerts where type = 'one_password_over_many_accounts'")
    (row,) = counts(people, "password")
    assert alert["id"] == row["id"]
    assert (alert["first_at"], alert["last_at"]) == (hour_of_guess(NOW), hour_of_guess(NOW))
    assert pauses.waited == []


async def test_no_line_of_the_log_has_anything_of_them(postern: Postern, people: People, log: CapturedLog, pauses: Pauses) -> None:
    ada = await people.with_password(PASSWORD, "ada@example.org")
    await stuff(postern, FAILURES + 1)
    await guess(postern, ada.email, PASSWORD)
    log.remember(GUESS)
    key = key_of(postern.foundation.keyring)
    bits = int.from_bytes(digest(key, b"password " + GUESS.encode(), "sha256")[:8]) % 65536
    for event in log.entries:
        assert key.hex() not in repr(event)
        assert str(bits) not in {str(value) for value in event.values()}
    made = guessed(key, Email(ada.email), Password(GUESS), origin_of(Sender("192.0.2.1", FIREFOX)), user=None, now=NOW)
    assert (str(bits) in repr(made), key.hex() in repr(postern.identity.guesses)) == (False, False)
    assert len(pauses.waited) == 2


async def test_no_backup_has_the_counts(people: People) -> None:
    rows = people.rows("select relpersistence as kept from pg_class where relname in ('guess_counts', 'guess_alerts')")
    # Dumps are made with `--no-unlogged-table-data`.
    assert [row["kept"] for row in rows] == ["u", "u"]


def test_the_bits_are_those_of_this_ring_and_hour_and_of_every_process() -> None:
    keys = [generate_key(NOW)]
    ring, same, other = AesGcmKeyRing(keys), AesGcmKeyRing(keys), AesGcmKeyRing([generate_key(NOW)])

    def slots(ring: AesGcmKeyRing, hour: datetime) -> list[int]:
        key = key_of(ring, hour)
        origin = origin_of(Sender("192.0.2.1", FIREFOX))
        made = guessed(key, Email("ada@example.org"), Password(GUESS), origin, user=None, now=hour)
        return [one.place.slot for one in made.counts]

    assert slots(ring, NOW) == slots(same, NOW)
    for changed in (slots(other, NOW), slots(ring, NOW + timedelta(hours=1))):
        assert all(one != another for one, another in zip(slots(ring, NOW), changed, strict=True))


async def test_a_new_key_of_the_ring_begins_the_hour_anew_and_all_processes_agree_again(
    postern: Postern, another_process: Postern, people: People, pauses: Pauses
) -> None:
    """The first process has read the new key already, the second has not yet: neither lets anybody in, nor keeps anybody out by it."""
    old, new, now = generate_key(NOW), generate_key(NOW), [0.0]
    content = [old]
    rings = [AesGcmKeyRing([old], lambda: list(content), monotonic=lambda: now[0]) for _ in range(2)]
    elsewhere = set_up(another_process)
    for opened, ring in zip((postern, another_process), rings, strict=True):
        put(opened.identity.guesses, keyring=ring)
    ada = await people.with_password(PASSWORD, "ada@example.org")
    await stuff(postern, FAILURES - 1)
    await guess(another_process, "z@example.org")
    content.insert(0, new)
    now[0] = 6.0
    # The first look of a ring is a question of its own, so the second ring still has the old key in force.
    now_of_first = key_of(rings[0])
    now[0] = 0.0
    assert key_of(rings[1]) == key_of(AesGcmKeyRing([old])) != now_of_first
    await guess(postern, "a@example.org")
    await guess(another_process, "b@example.org")
    assert (pauses.waited, len(elsewhere.waited)) == ([], 1)
    assert (await guess(postern, ada.email, PASSWORD)).status == 200
    assert (await guess(another_process, ada.email, PASSWORD)).status == 200
    now[0] = 12.0
    assert key_of(rings[1]) == now_of_first
    # What was counted under the old key is over, and what fails from now on counts for both.
    for number in range(FAILURES - 1):
        await guess((postern, another_process)[number % 2], f"anew{number}@example.org")
    assert (len(pauses.waited), len(elsewhere.waited)) == (0, 2)
    for opened in (postern, another_process):
        await guess(opened, "last@example.org")
    assert (len(pauses.waited), len(elsewhere.waited)) == (1, 3)
    assert sorted(row["failures"] for row in counts(people, "network")) == [FAILURES + 1, FAILURES + 2]


async def test_a_sign_in_has_the_round_trips_and_the_statements_that_it_had(
    postern: Postern, people: People, log: CapturedLog, monkeypatch: pytest.MonkeyPatch, pauses: Pauses
) -> None:
    """The counts come with the first look, and a failure is counted in the statement that logs it."""
    sent, carry_out = [], Connection.carry_out

    async def counted(self: Connection, execution: Any) -> None:
        sent.append(execution)
        await carry_out(self, execution)

    monkeypatch.setattr(Connection, "carry_out", counted)
    ada = await people.with_password(PASSWORD, "ada@example.org")
    client = Client(build_application(postern, SETTINGS))
    known = Browser(client)
    for word in (PASSWORD, GUESS):
        await known.login(ada, word)  # the first prepares statements
    found = []
    for browser, word in ((known, PASSWORD), (known, GUESS), (Browser(client), PASSWORD), (Browser(client), GUESS)):
        sent.clear()
        status = (await browser.login(ada, word)).status
        found.append((status, log.events("request")[-1]["db_round_trips"], len(sent)))
    assert found == [(200, 4, 4), (401, 3, 3)] * 2
    assert [row["failures"] for row in counts(people, "network")] == [1]
    assert pauses.waited == []


async def test_what_is_counted_goes_with_the_account_from_what_owners_see(postern: Postern, people: People, pauses: Pauses) -> None:
    """A deleted person is in no alert, whatever strangers did; the rows are the janitor's."""
    owner = people.proved(platform_owner=True)
    ada = await people.with_password(PASSWORD, "ada@example.org")
    # So many that they leave enough marks, however the key of the hour places them.
    for number in range(FAILURES):
        await guess(postern, ada.email, f"{GUESS} {number}", address=f"198.51.{number}.1")

    async def told() -> set[str]:
        answer = await unlimited(postern).get("/api/platform/mfa/suspicious", token=await people.token(owner))
        return {one["email"] for one in answer.json()["alerts"] if one["alert_type"] == "many_passwords_over_one_account"}

    assert await told() == {"ada@example.org"}
    people.change("delete from users where id = %s", ada.user)
    assert await told() == set()
    people.change("update guess_alerts set last_at = now() - interval '25 hours'")
    people.change(STATEMENTS["PastGuessAlerts"].replace("%(limit)s", "100"))
    assert people.rows("select from guess_alerts") == []
    assert pauses.waited == []


async def test_the_bits_let_nobody_in_and_keep_nobody_out(postern: Postern, people: People, pauses: Pauses) -> None:
    """One password over many accounts, from as many networks: an alert, and nothing else."""
    ada = await people.with_password(GUESS, "ada@example.org")
    for number in range(FAILURES):
        await guess(postern, f"nobody{number}@example.org", address=f"198.51.{number}.1")
    assert (await guess(postern, ada.email, GUESS)).status == 200
    assert pauses.waited == []


async def test_the_counts_go_after_their_hour(people: People, pauses: Pauses, postern: Postern) -> None:
    await stuff(postern, 3)
    people.change("update guess_counts set hour = now() - interval '61 minutes' where kind <> 'wide'")
    people.change("update guess_counts set hour = now() + interval '61 minutes' where kind = 'wide'")
    people.change(STATEMENTS["PastGuesses"].replace("%(limit)s", "100"))
    assert people.rows("select from guess_counts") == []
    assert pauses.waited == []


async def test_platform_owners_see_the_three_kinds_of_alert(postern: Postern, people: People, pauses: Pauses) -> None:
    owner = people.proved(platform_owner=True)
    await stuff(postern, FAILURES + 1)
    victim = await people.with_password(PASSWORD, "ada@example.org")
    for number in range(FAILURES):
        await guess(postern, victim.email, f"{GUESS} {number}", address=f"198.51.{number}.1")
    answer = await unlimited(postern).get("/api/platform/mfa/suspicious", token=await people.token(owner))
    told = answer.json()
    assert {one["alert_type"] for one in told["guesses"]} == {"many_accounts_from_one_network", "one_password_over_many_accounts"}
    network = next(one for one in told["guesses"] if one["network"])
    assert (network["network"], network["browser"], network["failures"]) == ("192.0.2.0/24", "firefox", FAILURES)
    assert 25 <= network["accounts"] <= 60
    assert "many_passwords_over_one_account" in {one["alert_type"] for one in told["alerts"] if one["user_id"] == str(victim.user)}
    assert len(pauses.waited) == 1
