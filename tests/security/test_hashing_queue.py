"""The hashing queue: strangers who fill the queue keep no known person out, and do not learn who has an account."""

import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count

import pytest
import trio

from adapters.crypto.passwords import Argon2Parameters, Argon2Passwords
from core.frozen import replace
from entrypoints.bootstrap import Postern
from tests.changed_fields import put
from tests.http import conftest as http
from tests.http.client import Client, Received
from tests.http.people import People, Person
from tests.http.signing_in import LOGIN, PASSWORD, Browser, unlimited
from tests.patience import PATIENCE

database_url, postern, people = http.database_url, http.postern, http.people
UNLIMITED = replace(http.SETTINGS, rate_limits=False)
HOME = "192.0.2.1"
QUEUED = 5
KEPT = 2
TRIES = 12


class Strangers:
    """Strangers from the networks of one /56, each with an e-mail address that has no account."""

    def __init__(self, postern: Postern) -> None:
        self._application = unlimited(postern, UNLIMITED).application
        self._numbers = count()
        self.statuses: Counter[int] = Counter()

    async def guess(self) -> None:
        number = next(self._numbers)
        client = Client(self._application, f"2001:db8:0:{number % 256:02x}::1")
        answer = await client.post(LOGIN, {"email": f"nobody-{number}@example.org", "password": "a guess of theirs"})
        self.statuses[answer.status] += 1

    async def guess_on(self) -> None:
        while True:
            await self.guess()
            # A pause, because the machine has other work than these requests.
            await trio.sleep(0.005)

    @asynccontextmanager
    async def flooding(self) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            for _ in range(2 * QUEUED):
                nursery.start_soon(self.guess_on)
            with trio.fail_after(PATIENCE):
                while not self.statuses[503]:
                    await trio.sleep(0.001)
            yield
            nursery.cancel_scope.cancel()


@pytest.fixture
async def passwords(postern: Postern) -> Argon2Passwords:
    few = Argon2Passwords(Argon2Parameters(8192, 1, 1), 1, postern.foundation.metrics, most_queued=QUEUED)
    put(postern.identity.sign_in.passwords, passwords=few)
    # Else strangers who guess over many accounts would wait before the queue (0203).
    put(postern.identity.guesses, slows=False)
    return few


@pytest.fixture
def strangers(postern: Postern, passwords: Argon2Passwords) -> Strangers:  # noqa: ARG001 - the queue that they fill
    return Strangers(postern)


@pytest.fixture
async def ada(people: People) -> Person:
    return await people.with_password(PASSWORD, "ada@example.org")


async def test_a_known_device_gets_in_every_time(postern: Postern, strangers: Strangers, ada: Person) -> None:
    browser = Browser(unlimited(postern, UNLIMITED, HOME))
    await browser.tokens(ada)
    statuses: list[int] = []
    async with strangers.flooding():
        for number in range(TRIES):
            # The known device moves to another address each time.
            browser.client = unlimited(postern, UNLIMITED, f"198.51.100.{number}")
            statuses.append((await browser.login(ada)).status)
    assert statuses == [200] * TRIES
    assert set(strangers.statuses) == {401, 503}


async def test_an_address_that_has_signed_in_gets_in_every_time(postern: Postern, strangers: Strangers, ada: Person) -> None:
    await Browser(unlimited(postern, UNLIMITED, HOME)).tokens(ada)
    async with strangers.flooding():
        # On a new device each time.
        statuses = [(await Browser(unlimited(postern, UNLIMITED, HOME)).login(ada)).status for _ in range(TRIES)]
    assert statuses == [200] * TRIES


@pytest.fixture
def held(passwords: Argon2Passwords, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """No hash ends until this event is set."""
    opened = threading.Event()
    verify = passwords._argon2.verify

    def slowly(encoded: str, password: object, decoy: str) -> bool | None:
        opened.wait(30)
        return verify(encoded, password, decoy)  # type: ignore[arg-type]  # a password, as it came

    monkeypatch.setattr(passwords._argon2, "verify", slowly)
    yield opened
    opened.set()


def untimed(answer: Received) -> tuple[int, set[str], object]:
    return answer.status, {name for name, _ in answer.headers}, answer.json()["error"]


async def test_a_full_queue_tells_a_stranger_nothing_of_an_account(
    postern: Postern, passwords: Argon2Passwords, strangers: Strangers, ada: Person, held: threading.Event
) -> None:
    held.set()
    ada_at_home = Browser(unlimited(postern, UNLIMITED, HOME))
    await ada_at_home.tokens(ada)
    held.clear()
    nobody = replace(ada, email="nobody@example.org")
    answers: dict[tuple[str, str], Received] = {}

    async def ask(address: str, person: Person) -> None:
        answers[address, person.email] = await Browser(unlimited(postern, UNLIMITED, address)).login(person, "a guess of theirs")

    async with trio.open_nursery() as nursery:
        for _ in range(1 + QUEUED):
            nursery.start_soon(strangers.guess)
        with trio.fail_after(PATIENCE):
            while passwords._inside < 1 + QUEUED:
                await trio.sleep(0.001)
        for person in (ada, nobody):
            await ask("198.51.100.7", person)
            assert answers["198.51.100.7", person.email].status == 503
        # A stranger at an address where Ada signs in may queue, under any account.
        for person in (ada, nobody):
            nursery.start_soon(ask, HOME, person)
        with trio.fail_after(PATIENCE):
            while passwords._inside < 1 + QUEUED + KEPT:
                await trio.sleep(0.001)
        held.set()
    for address in ("198.51.100.7", HOME):
        assert untimed(answers[address, ada.email]) == untimed(answers[address, nobody.email])
    assert answers[HOME, ada.email].status == 401
