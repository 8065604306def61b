"""Brute force and exhaustion: guesses are limited by address over all processes, simultaneous guesses get no more tries than the bucket
holds, and simultaneous sign-ins are answered in bounded memory or told to come back. Known devices have a file of their own.
"""

from collections import Counter
from itertools import count

import trio

from adapters.crypto.passwords import Argon2Parameters, Argon2Passwords
from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery import limits
from tests.changed_fields import put
from tests.http import conftest as http
from tests.http.client import Received
from tests.http.machinery.limited import until_refused
from tests.http.people import People
from tests.http.signing_in import LOGIN, PASSWORD, Browser, unlimited

database_url, postern, people = http.database_url, http.postern, http.people
UNLIMITED = replace(http.SETTINGS, rate_limits=False)


async def test_one_address_is_limited_over_all_processes_under_any_claim(postern: Postern, people: People) -> None:
    person = await people.with_password(PASSWORD)
    numbers = count(1)

    async def sign_in() -> Received:
        # Each Postern stands for another process, with buckets of its own.
        client, number = unlimited(postern, http.SETTINGS), next(numbers)
        claimed = f"203.0.113.{number}"
        forged = [("x-forwarded-for", claimed), ("forwarded", f"for={claimed}"), ("x-real-ip", claimed)]
        return await client.post(LOGIN, {"email": f"nobody{number}@example.org", "password": PASSWORD}, headers=forged)

    statuses, _ = await until_refused(limits.LOGIN, sign_in)
    assert set(statuses) == {401}
    assert (await Browser(unlimited(postern, http.SETTINGS, "198.51.100.7")).login(person)).status == 200


async def test_a_successful_try_does_not_count(postern: Postern, people: People) -> None:
    person = await people.with_password(PASSWORD)
    client = unlimited(postern, UNLIMITED)
    for _ in range(12):
        assert (await Browser(client).login(person)).status == 200


async def test_many_guesses_at_once_get_no_more_than_the_bucket_holds(postern: Postern, people: People) -> None:
    person = await people.with_password(PASSWORD)
    client = unlimited(postern, UNLIMITED)
    statuses: list[int] = []

    async def guess() -> None:
        statuses.append((await Browser(client).login(person, "a wrong one")).status)

    async with trio.open_nursery() as nursery:
        for _ in range(30):
            nursery.start_soon(guess)
    assert Counter(statuses) == {401: 10, 429: 20}


async def test_a_crowd_of_sign_ins_is_let_in_or_told_to_come_back(postern: Postern, people: People) -> None:
    persons = [await people.with_password(PASSWORD) for _ in range(20)]
    few = Argon2Passwords(Argon2Parameters(8192, 1, 1), 1, postern.foundation.metrics, most_queued=8)
    put(postern.identity.sign_in.passwords, passwords=few)
    client = unlimited(postern, UNLIMITED)
    told: list[tuple[int, bool]] = []
    inside: list[int] = []

    async def sign_in(number: int) -> None:
        answer = await Browser(client).login(persons[number % 20])
        inside.append(few._inside)
        told.append((answer.status, answer.header("retry-after") is not None))

    async with trio.open_nursery() as nursery:
        for number in range(100):
            nursery.start_soon(sign_in, number)
    # One password is hashed while eight wait, and two more from familiar addresses. These limits bound the memory for any number of
    # requests.
    assert max(inside) <= 11
    counted = Counter(told)
    assert set(counted) == {(200, False), (503, True)}
    assert counted[200, False] >= 9
    # Refused requests have left no rows, and have not used up tries.
    assert people.rows("select key from rate_limit_buckets where tokens < 9.9") == []
    assert len(people.rows("select id from login_events")) == counted[200, False]
    assert (await Browser(client).login(persons[0])).status == 200
