"""The second factor over HTTP: the shapes of the API, every refusal, the limits, and the round trips of each request."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any
from xml.etree import ElementTree as ET

import psycopg
import pyotp
import pytest
import trio

from core.domain.identity.mfa import CODES_AT_SET_UP
from core.domain.mail import Mail
from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.http.application import build_application
from entrypoints.http.machinery.limits import MFA_CHANGES, MFA_SETUP, MFA_VERIFY
from tests.conftest import CapturedLog
from tests.http.client import Client, Received
from tests.http.conftest import SETTINGS
from tests.http.locks import behind
from tests.http.machinery.limited import until_refused
from tests.http.people import People, Person
from tests.meanwhile import meanwhile

STATUS, SET_UP, VERIFY = "/api/user/mfa/status", "/api/user/mfa/setup", "/api/user/mfa/verify"
DISABLE, RENEW = "/api/user/mfa", "/api/user/mfa/backup-codes/regenerate"
CHANGES = [("POST", SET_UP), ("POST", VERIFY), ("DELETE", DISABLE), ("POST", RENEW)]


@pytest.fixture
def unlimited(postern: Postern) -> Client:
    """Settings without the limits by address. Other tests cover these limits."""
    return Client(build_application(postern, replace(SETTINGS, rate_limits=False)))


class SecondFactorClient:
    """One person who calls the endpoints of the second factor."""

    def __init__(self, client: Client, token: str) -> None:
        self.client = client
        self.token = token
        self.secret = ""

    async def call(self, method: str, path: str, body: Any = None) -> Received:
        return await self.client.request(method, path, body=body, token=self.token)

    async def set_up(self) -> Received:
        answer = await self.call("POST", SET_UP)
        if answer.status == 200:
            self.secret = answer.json()["secret"]
        return answer

    async def verify(self, code: Any = None) -> Received:
        return await self.call("POST", VERIFY, {"code": pyotp.TOTP(self.secret).now() if code is None else code})

    async def status(self) -> Any:
        answer = await self.call("GET", STATUS)
        assert answer.status == 200
        return answer.json()


@pytest.fixture
async def ada(unlimited: Client, people: People) -> SecondFactorClient:
    return await walker(unlimited, people)


async def walker(client: Client, people: People, person: Person | None = None) -> SecondFactorClient:
    return SecondFactorClient(client, await people.token(person or people.add()))


def refused(answer: Received) -> tuple[int, str, str]:
    return answer.status, answer.error_code, answer.json()["error"]


async def test_the_whole_way_from_set_up_to_disabled(ada: SecondFactorClient) -> None:
    assert await ada.status() == {"enabled": False, "has_backup_codes": False}
    made = await ada.set_up()
    assert made.status == 200
    assert set(made.json()) == {"secret", "qr_code_svg", "qr_code_uri"}
    assert made.header("cache-control") == "no-store"
    assert pyotp.parse_uri(made.json()["qr_code_uri"]).secret == ada.secret
    assert ET.fromstring(made.json()["qr_code_svg"]).tag.endswith("svg")  # noqa: S314 - our own output
    assert await ada.status() == {"enabled": False, "has_backup_codes": False}

    enabled = await ada.verify()
    assert enabled.status == 200
    assert enabled.json()["enabled"] is True
    assert len(set(enabled.json()["backup_codes"])) == 10
    assert await ada.status() == {"enabled": True, "has_backup_codes": True}

    renewed = await ada.call("POST", RENEW)
    assert renewed.status == 200
    assert set(renewed.json()) == {"backup_codes"}
    assert not set(renewed.json()["backup_codes"]) & set(enabled.json()["backup_codes"])

    disabled = await ada.call("DELETE", DISABLE)
    assert (disabled.status, disabled.json()) == (200, {"success": True, "message": "MFA is disabled"})
    assert await ada.status() == {"enabled": False, "has_backup_codes": False}


async def test_every_step_out_of_order_is_refused(ada: SecondFactorClient) -> None:
    assert refused(await ada.verify("123456")) == (400, "BAD_REQUEST", "MFA is not set up: set it up first")
    assert refused(await ada.call("POST", RENEW)) == (400, "BAD_REQUEST", "MFA is not enabled")
    await ada.set_up()
    assert refused(await ada.call("POST", RENEW)) == (400, "BAD_REQUEST", "MFA is not enabled")
    assert refused(await ada.verify("000000")) == (400, "BAD_REQUEST", "The code is not valid")
    assert (await ada.verify()).status == 200
    assert refused(await ada.verify()) == (400, "BAD_REQUEST", "MFA is already enabled")
    assert refused(await ada.set_up()) == (400, "BAD_REQUEST", "MFA is already enabled")
    for _ in range(2):
        assert (await ada.call("DELETE", DISABLE)).status == 200
    assert refused(await ada.call("POST", RENEW)) == (400, "BAD_REQUEST", "MFA is not enabled")


async def test_a_set_up_belongs_to_the_session_that_began_it(unlimited: Client, people: People) -> None:
    person = people.add()
    here, elsewhere = await walker(unlimited, people, person), await walker(unlimited, people, people.session_of(person))
    await here.set_up()
    elsewhere.secret = here.secret
    not_here = (400, "BAD_REQUEST", "MFA is not set up: set it up first")
    assert refused(await elsewhere.verify()) == not_here
    # Another set-up replaces the first, and must be confirmed itself.
    await elsewhere.set_up()
    assert refused(await here.verify()) == not_here
    assert (await here.status()) == {"enabled": False, "has_backup_codes": False}
    assert (await elsewhere.verify()).status == 200
    # A session that has not shown the second factor is asked for it first.
    assert refused(await here.verify())[:2] == (401, "REAUTHENTICATION_REQUIRED")
    people.change("update sessions set second_factor_at = now()")
    assert refused(await here.verify()) == (400, "BAD_REQUEST", "MFA is already enabled")


async def test_one_that_the_release_before_began_is_confirmed_in_any(ada: SecondFactorClient, people: People) -> None:
    await ada.set_up()
    people.change("update mfa_secrets set session_id = null")
    assert (await ada.verify()).status == 200


HOSTILE_BODIES: Sequence[Any] = [
    {},
    {"code": None},
    {"code": 123456},
    {"code": ""},
    {"code": "12345"},
    {"code": "1234567"},
    {"code": "12345a"},
    {"code": "123456\n"},
    {"code": "\u0661\u0662\u0663\u0664\u0665\u0666"},
    {"code": "<b>12"},
    {"code": "1" * 60_000},
    {"code": ["123456"]},
    {"code": {"$ne": ""}},
    b'{"code": "12345\\u0000"}',
    b'{"code": "12345\\ud800"}',
    b'{"code": "12345\xff"}',
    b'["123456"]',
    b"code=123456",
]


async def test_what_is_no_code_is_a_400_and_counts_as_no_attempt(ada: SecondFactorClient) -> None:
    await ada.set_up()
    # More requests than the person's own limit allows.
    assert len(HOSTILE_BODIES) > CODES_AT_SET_UP.burst
    for body in HOSTILE_BODIES:
        answer = await ada.call("POST", VERIFY, body)
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST"), repr(body)[:50]
    assert await ada.status() == {"enabled": False, "has_backup_codes": False}
    assert (await ada.verify()).status == 200


async def test_nothing_that_a_body_says_changes_whose_it_is_or_what_it_does(
    ada: SecondFactorClient, unlimited: Client, people: People
) -> None:
    bob = people.add()
    await ada.set_up()
    code = pyotp.TOTP(ada.secret).now()
    answer = await ada.call("POST", VERIFY, {"code": code, "user": str(bob.user), "user_id": str(bob.user), "enabled": False})
    assert answer.status == 200
    assert await (await walker(unlimited, people, bob)).status() == {"enabled": False, "has_backup_codes": False}


async def test_one_persons_second_factor_is_nothing_to_another(ada: SecondFactorClient, unlimited: Client, people: People) -> None:
    bob = await walker(unlimited, people)
    await ada.set_up()
    await bob.set_up()
    assert (await bob.verify(pyotp.TOTP(ada.secret).now())).status == 400
    assert (await ada.verify()).status == 200
    assert await bob.status() == {"enabled": False, "has_backup_codes": False}
    assert (await bob.verify()).status == 200
    assert (await bob.call("DELETE", DISABLE)).status == 200
    assert await ada.status() == {"enabled": True, "has_backup_codes": True}


async def test_whoever_acts_in_anothers_name_learns_and_changes_nothing(unlimited: Client, people: People, postern: Postern) -> None:
    person, owner, impersonation = people.add(), people.add(platform_owner=True), postern.foundation.ids.new()
    mine = await walker(unlimited, people, person)
    await mine.set_up()
    await mine.verify()
    people.change(
        "update sessions set impersonator_id = %s, impersonation_id = %s where id = %s", owner.user, impersonation, person.session
    )
    claims: dict[str, Any] = {"impersonator": str(owner.user), "impersonation_session": str(impersonation), "act": {"sub": str(owner.user)}}
    theirs = SecondFactorClient(unlimited, await people.token(person, token_use="impersonation", **claims))
    before = people.rows("select * from mfa_secrets"), people.rows("select * from backup_codes")
    for method, path in [("GET", STATUS), *CHANGES]:
        answer = await theirs.call(method, path, {"code": "123456"} if path == VERIFY else None)
        assert (answer.status, answer.error_code) == (403, "FORBIDDEN"), path
    assert (people.rows("select * from mfa_secrets"), people.rows("select * from backup_codes")) == before


async def test_without_a_session_nobody_gets_anywhere(unlimited: Client, people: People) -> None:
    person = people.add()
    token = await people.token(person)
    people.change("update sessions set revoked_at = now() where id = %s", person.session)
    for method, path in [("GET", STATUS), *CHANGES]:
        body = {"code": "123456"} if path == VERIFY else None
        for one in (None, "rubbish", token):
            assert (await unlimited.request(method, path, body=body, token=one)).status == 401, path


async def test_its_owner_is_told_by_mail_when_it_is_enabled_and_when_it_is_disabled(
    unlimited: Client, people: People, postern: Postern
) -> None:
    person = people.add("ada@example.org")
    walking = await walker(unlimited, people, person)
    await walking.set_up()
    codes = (await walking.verify()).json()["backup_codes"]
    await walking.call("DELETE", DISABLE)
    jobs = await postern.foundation.jobs.claim(["mail"], 10, timedelta(minutes=1))
    mails = [Mail.of_job(job.payload) for job in jobs]
    assert [mail.to for mail in mails] == ["ada@example.org"] * 2
    assert mails[0].subject != mails[1].subject
    for mail in mails:
        assert "192.0.2.1" in mail.text
        for secret in (walking.secret, *codes):
            assert secret not in mail.text + mail.html


async def test_nothing_secret_reaches_the_log(ada: SecondFactorClient, log: CapturedLog) -> None:
    made = await ada.set_up()
    code = pyotp.TOTP(ada.secret).now()
    codes = (await ada.verify(code)).json()["backup_codes"]
    renewed = (await ada.call("POST", RENEW)).json()["backup_codes"]
    log.remember(ada.secret, made.json()["qr_code_uri"], *codes, *renewed)
    assert log.events("request")


LIMITS = {("POST", SET_UP): MFA_SETUP, ("POST", VERIFY): MFA_VERIFY, ("DELETE", DISABLE): MFA_CHANGES, ("POST", RENEW): MFA_CHANGES}


@pytest.mark.parametrize(("method", "path"), LIMITS)
async def test_each_address_is_limited(client: Client, people: People, method: str, path: str) -> None:
    walking = await walker(client, people)
    body = {"code": "123456"} if path == VERIFY else None
    await until_refused(LIMITS[method, path], lambda: walking.call(method, path, body))


async def test_the_limit_is_one_over_all_changes(client: Client, people: People) -> None:
    walking = await walker(client, people)
    for method, path in (("POST", SET_UP), ("DELETE", DISABLE), ("POST", RENEW), ("POST", SET_UP), ("DELETE", DISABLE)):
        assert (await walking.call(method, path)).status != 429
    answer = await walking.call("POST", SET_UP)
    assert (answer.status, answer.error_code) == (429, "RATE_LIMIT_EXCEEDED")
    assert int(answer.header("retry-after") or 0) > 0
    assert (await walking.status()) == {"enabled": False, "has_backup_codes": False}


async def test_guessing_from_many_addresses_ends_at_the_persons_own_limit(postern: Postern, people: People) -> None:
    application = build_application(postern, SETTINGS)
    token = await people.token(people.add())
    first = SecondFactorClient(Client(application, "192.0.2.1"), token)
    await first.set_up()
    statuses = [
        (await SecondFactorClient(Client(application, f"198.51.100.{number}"), token).verify("000000")).status
        for number in range(CODES_AT_SET_UP.burst)
    ]
    assert statuses == [400] * CODES_AT_SET_UP.burst
    answer = await SecondFactorClient(Client(application, "203.0.113.9"), token).call(
        "POST", VERIFY, {"code": pyotp.TOTP(first.secret).now()}
    )
    assert (answer.status, answer.error_code) == (429, "RATE_LIMIT_EXCEEDED")
    assert int(answer.header("retry-after") or 0) > 60


async def test_of_a_crowd_that_enables_with_one_code_one_is_shown_codes(ada: SecondFactorClient) -> None:
    await ada.set_up()
    code = pyotp.TOTP(ada.secret).now()
    statuses: list[int] = []

    async def one() -> None:
        statuses.append((await ada.verify(code)).status)

    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(one)
    assert statuses.count(200) == 1
    assert set(statuses) <= {200, 400, 429}


async def test_when_the_database_goes_away_nothing_is_half_done(lonely_client: Client, people: People) -> None:
    token = await people.token(people.add())
    for method, path in [("GET", STATUS), *CHANGES]:
        body = {"code": "123456"} if path == VERIFY else None
        assert (await lonely_client.request(method, path, body=body, token=token)).status in {429, 503}


async def test_a_fault_in_the_middle_leaves_it_as_it_was(unlimited: Client, people: People, database_url: str, log: CapturedLog) -> None:
    log.allow("request_failed")
    walking = await walker(unlimited, people)
    await walking.set_up()
    with psycopg.connect(database_url, autocommit=True) as connection:
        # The last row that enabling writes.
        connection.execute("alter table jobs rename to jobs_away")
        try:
            assert (await walking.verify()).status == 500
        finally:
            connection.execute("alter table jobs_away rename to jobs")
        assert connection.execute("select count(*) from events").fetchone() == (0,)
        assert connection.execute("select count(*) from backup_codes").fetchone() == (0,)
    assert await walking.status() == {"enabled": False, "has_backup_codes": False}
    assert (await walking.verify()).status == 200


# The caller's own look-up included, and without the limits by address, each of which takes one more.
ROUND_TRIPS = {("GET", STATUS): 2, ("POST", SET_UP): 4, ("POST", VERIFY): 6, ("POST", RENEW): 5, ("DELETE", DISABLE): 5}


async def test_round_trips(unlimited: Client, people: People, log: CapturedLog) -> None:
    warm = await walker(unlimited, people)
    measured: dict[tuple[str, str], int] = {}
    for walking in (warm, await walker(unlimited, people)):
        for method, path in ROUND_TRIPS:
            log.entries.clear()
            if path == SET_UP:
                await walking.set_up()
            elif path == VERIFY:
                await walking.verify()
            else:
                await walking.call(method, path)
            (line,) = log.events("request")
            assert line["status"] == 200
            measured[method, path] = line["db_round_trips"]
    assert measured == ROUND_TRIPS


@pytest.mark.parametrize("step", ["enabled", "new codes"])
async def test_the_account_is_held_before_its_second_factor(unlimited: Client, people: People, database_url: str, step: str) -> None:
    """Deleting or forgetting an account takes the two locks in this order, too, since backup codes refer to the account."""
    person = people.add()
    ada = await walker(unlimited, people, person)
    await ada.set_up()
    if step == "new codes":
        assert (await ada.verify()).status == 200
    request = ada.verify if step == "enabled" else partial(ada.call, "POST", RENEW)
    first = ("select from users where id = %s for update", person.user)
    then = ("select from mfa_secrets where user_id = %s for update", person.user)
    assert (await behind(people, database_url, first, then, request)).status == 200


async def test_whoever_is_deleted_meanwhile_sets_nothing_up(
    unlimited: Client, postern: Postern, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = people.add()
    ada = await walker(unlimited, people, person)
    meanwhile(monkeypatch, postern.identity.mfa.totp, "qr_code", lambda: people.change("delete from users where id = %s", person.user))
    assert refused(await ada.set_up())[:2] == (401, "UNAUTHORIZED")
