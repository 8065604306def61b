"""Journeys through sign-in and second factor: every step in a wrong order, and credentials that must no longer work."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

import pyotp
import pytest
import trio

from core.domain.identifiers import PreauthenticationId, UserId
from core.domain.identity.mfa import CODES_AT_SIGN_IN, MOST_WRONG_CODES, PREAUTHENTICATION_LIFETIME, Preauthentication
from core.domain.identity.sign_in import preauthentication_claims
from core.domain.mail import Email
from core.domain.record.events import SYSTEM
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.client import Client, Received
from tests.http.people import BASE_URL, People, Person
from tests.http.signing_in import PASSWORD, SAFARI, Browser, unlimited

SET_UP, ENABLE = "/api/user/mfa/setup", "/api/user/mfa/verify"
DISABLE, RENEW, STATUS = "/api/user/mfa", "/api/user/mfa/backup-codes/regenerate", "/api/user/mfa/status"
NEW_PASSWORD = "the sun over the mountains"
WRONG = "ABCD-EFGH"
CROWD = 50


@dataclass
class Traveller:
    """A person with a password, a browser, an authenticator and a list of backup codes."""

    postern: Postern
    people: People
    person: Person
    browser: Browser
    totp: pyotp.TOTP
    codes: Sequence[str] = ()
    token: str = ""

    async def sign_in(self) -> None:
        """Signs in without a second factor, or on a device that skips it."""
        self.token = (await self.browser.tokens(self.person))["access_token"]

    async def call(self, method: str, path: str, body: object = None) -> Received:
        return await self.browser.client.request(method, path, body=body, token=self.token)

    async def enable(self) -> None:
        made = await self.call("POST", SET_UP)
        assert made.status == 200, made.body
        self.totp = pyotp.TOTP(made.json()["secret"])
        enabled = await self.call("POST", ENABLE, {"code": self.totp.now()})
        assert enabled.status == 200, enabled.body
        self.codes = enabled.json()["backup_codes"]
        self.an_hour_passes()

    def an_hour_passes(self) -> None:
        """Makes used codes an hour older, since the test cannot move the clock."""
        self.people.change("update mfa_secrets set last_step = last_step - 120 where user_id = %s", self.person.user)

    async def preauth(self) -> str:
        answer = await self.browser.login(self.person)
        assert answer.status == 200, answer.body
        assert answer.json()["mfa_required"] is True
        return str(answer.json()["access_token"])

    async def made_preauth(self) -> str:
        """The pre-authentication that a sign-in leaves, made without hashing a password, for tests that need many."""
        now = self.postern.foundation.clock.now()
        made = Preauthentication(
            PreauthenticationId(self.postern.foundation.ids.new()),
            UserId(self.person.user),
            None,
            None,
            now,
            now + PREAUTHENTICATION_LIFETIME,
        )
        async with self.postern.foundation.unit_of_work() as uow:
            await uow.mfa.add_preauthentication(made)
            await uow.commit()
        claims = preauthentication_claims(made.user, str(made.id), issuer=BASE_URL, now=now, expires_at=made.expires_at)
        return await self.postern.foundation.token_signer.sign_access(claims)

    async def is_asked(self, browser: Browser | None = None) -> bool:
        answer = await (browser or self.browser).login(self.person)
        assert answer.status == 200, answer.body
        return bool(answer.json().get("mfa_required", False))

    def sessions(self) -> int:
        (row,) = self.people.rows("select count(*) as n from sessions where user_id = %s and revoked_at is null", self.person.user)
        number: int = row["n"]
        return number


async def arrive(postern: Postern, people: People, door: Client) -> Traveller:
    person = await people.with_password(PASSWORD)
    traveller = Traveller(postern, people, person, Browser(door), pyotp.TOTP(pyotp.random_base32()))
    await traveller.sign_in()
    return traveller


@pytest.fixture
def door(postern: Postern) -> Client:
    return unlimited(postern)


@pytest.fixture
async def ada(postern: Postern, people: People, door: Client) -> Traveller:
    """Ada, signed in, with the second factor on."""
    traveller = await arrive(postern, people, door)
    await traveller.enable()
    return traveller


async def test_a_set_up_that_waits_for_its_code_is_not_asked_for(postern: Postern, people: People, door: Client) -> None:
    bob = await arrive(postern, people, door)
    await bob.call("POST", SET_UP)
    assert not await bob.is_asked()
    await bob.enable()
    assert await bob.is_asked()
    # A person who was signed in stays signed in.
    assert (await bob.call("GET", STATUS)).json() == {"enabled": True, "has_backup_codes": True}


async def test_the_whole_journey_there_and_back(ada: Traveller) -> None:
    first = await ada.browser.verify(await ada.preauth(), ada.totp.now())
    assert first.status == 200
    ada.token = first.json()["access_token"]
    renewed = (await ada.call("POST", RENEW)).json()["backup_codes"]
    assert (await ada.browser.verify(await ada.preauth(), ada.codes[0])).status == 401
    by_backup_code = await ada.browser.verify(await ada.preauth(), renewed[0])
    assert by_backup_code.status == 200
    ada.token = by_backup_code.json()["access_token"]
    assert (await ada.call("DELETE", DISABLE)).status == 200
    assert not await ada.is_asked()


async def test_a_pre_auth_token_changes_nothing_about_the_second_factor(ada: Traveller) -> None:
    ada.token = await ada.preauth()
    for method, path in (("GET", STATUS), ("POST", SET_UP), ("POST", ENABLE), ("DELETE", DISABLE), ("POST", RENEW)):
        answer = await ada.call(method, path, {"code": ada.totp.now()} if path == ENABLE else None)
        assert (answer.status, answer.error_code) == (401, "JWT_ERROR"), path
    assert await ada.is_asked()


async def test_the_code_that_enabled_it_does_not_sign_in(postern: Postern, people: People, door: Client) -> None:
    bob = await arrive(postern, people, door)
    bob.totp = pyotp.TOTP((await bob.call("POST", SET_UP)).json()["secret"])
    code = bob.totp.now()
    assert (await bob.call("POST", ENABLE, {"code": code})).status == 200
    assert (await bob.browser.verify(await bob.preauth(), code)).status == 401


async def test_a_code_that_signed_in_once_does_not_with_another_pre_auth_token(ada: Traveller) -> None:
    code = ada.totp.at(int(time.time()) + 30)
    one, other = await ada.preauth(), await ada.preauth()
    assert (await ada.browser.verify(one, code)).status == 200
    assert (await ada.browser.verify(other, code)).status == 401
    # An earlier token that was never used does not work either.
    assert (await ada.browser.verify(other, ada.totp.now())).status == 401
    assert (await ada.browser.verify(other, ada.codes[0])).status == 200


@pytest.mark.parametrize("backup", [False, True])
async def test_of_a_crowd_with_pre_auth_tokens_of_their_own_and_one_code_one_gets_in(ada: Traveller, backup: bool) -> None:
    tokens = [await ada.made_preauth() for _ in range(CROWD)]
    code = ada.codes[0] if backup else ada.totp.now()
    before = ada.sessions()
    statuses: list[int] = []

    async def one(token: str) -> None:
        statuses.append((await Browser(ada.browser.client).verify(token, code)).status)

    async with trio.open_nursery() as nursery:
        for token in tokens:
            nursery.start_soon(one, token)
    assert (len(statuses), statuses.count(200)) == (CROWD, 1)
    assert set(statuses) <= {200, 401, 429}
    assert ada.sessions() == before + 1


async def test_one_persons_codes_do_not_finish_anothers_sign_in(postern: Postern, people: People, door: Client, ada: Traveller) -> None:
    bob = await arrive(postern, people, door)
    await bob.enable()
    preauth = await bob.preauth()
    assert (await bob.browser.verify(preauth, ada.totp.now())).status == 401
    assert (await bob.browser.verify(preauth, ada.codes[0])).status == 401
    assert (await ada.browser.verify(await ada.preauth(), ada.codes[0])).status == 200
    assert (await bob.browser.verify(preauth, bob.totp.now())).status == 200


async def test_a_sign_in_that_waits_is_not_finished_after_the_second_factor_went_away(ada: Traveller) -> None:
    preauth = await ada.preauth()
    await ada.call("DELETE", DISABLE)
    for code in (ada.totp.now(), ada.codes[0]):
        assert (await ada.browser.verify(preauth, code)).status == 401
    assert not await ada.is_asked()


async def test_after_a_new_set_up_the_old_authenticator_and_the_old_codes_are_nothing(ada: Traveller) -> None:
    preauth = await ada.preauth()
    old_totp, old_codes = ada.totp, ada.codes
    await ada.call("DELETE", DISABLE)
    await ada.enable()
    assert (await ada.browser.verify(preauth, old_totp.now())).status == 401
    assert (await ada.browser.verify(preauth, old_codes[0])).status == 401
    assert (await ada.browser.verify(preauth, ada.totp.now())).status == 200


async def test_codes_renewed_while_a_sign_in_waits_are_the_ones_that_finish_it(ada: Traveller) -> None:
    preauth = await ada.preauth()
    renewed = (await ada.call("POST", RENEW)).json()["backup_codes"]
    assert (await ada.browser.verify(preauth, ada.codes[0])).status == 401
    assert (await ada.browser.verify(preauth, renewed[0])).status == 200


async def renew(ada: Traveller) -> None:
    assert (await ada.call("POST", RENEW)).status == 200


async def set_up_anew(ada: Traveller) -> None:
    assert (await ada.call("DELETE", DISABLE)).status == 200
    await ada.enable()


async def forced_off_and_set_up_anew(ada: Traveller) -> None:
    assert await ada.postern.identity.mfa.force_disable(UserId(ada.person.user), Email(ada.person.email), SYSTEM, "lost phone")
    await ada.enable()


async def change_password(ada: Traveller) -> None:
    body = {"current_password": PASSWORD, "new_password": NEW_PASSWORD}
    assert (await ada.call("POST", "/api/user/change-password", body)).status == 200


@pytest.mark.parametrize("change", [renew, set_up_anew, forced_off_and_set_up_anew, change_password])
async def test_a_trusted_device_is_asked_again_after(ada: Traveller, change: Callable[[Traveller], Awaitable[None]]) -> None:
    trusting = await ada.browser.verify(await ada.preauth(), ada.totp.now(), trust_device=True)
    ada.token = trusting.json()["access_token"]
    ada.an_hour_passes()
    assert not await ada.is_asked()
    await change(ada)
    password = NEW_PASSWORD if change is change_password else PASSWORD
    answer = await ada.browser.login(ada.person, password)
    assert answer.json().get("mfa_required") is True


async def test_no_device_is_trusted_after_a_wrong_code(ada: Traveller) -> None:
    preauth = await ada.preauth()
    refused = await ada.browser.verify(preauth, WRONG, trust_device=True)
    assert refused.status == 401
    assert not ada.browser.cookies.keys() - {"__Host-postern_device"}
    assert await ada.is_asked()


async def test_another_browser_is_asked_while_one_is_trusted(ada: Traveller) -> None:
    await ada.browser.verify(await ada.preauth(), ada.totp.now(), trust_device=True)
    assert not await ada.is_asked()
    assert await ada.is_asked(Browser(ada.browser.client, SAFARI))
    assert await ada.is_asked(Browser(ada.browser.client))


async def test_guessing_goes_no_further_with_one_pre_auth_token_after_the_other_from_address_after_address(ada: Traveller) -> None:
    looked_at = 0
    for number in range(4):
        stranger = Browser(Client(ada.browser.client.application, f"198.51.100.{number}"))
        preauth = await ada.made_preauth()
        for _ in range(MOST_WRONG_CODES + 1):
            answer = await stranger.verify(preauth, WRONG)
            looked_at += answer.status == 401 and answer.json()["error"] == "The code is not valid"
    assert looked_at == CODES_AT_SIGN_IN.burst
    refused = await ada.browser.verify(await ada.made_preauth(), ada.totp.now())
    assert (refused.status, refused.error_code) == (429, "RATE_LIMIT_EXCEEDED")
    assert 0 < int(refused.header("retry-after") or 0) <= CODES_AT_SIGN_IN.seconds_per_request


async def test_whoever_guesses_with_the_password_does_not_lock_out_a_trusted_device(ada: Traveller) -> None:
    await ada.browser.verify(await ada.preauth(), ada.totp.now(), trust_device=True)
    ada.an_hour_passes()
    strangers = [Browser(Client(ada.browser.client.application, f"198.51.100.{number}")) for number in range(3)]
    for stranger in strangers:
        preauth = await ada.made_preauth()
        for _ in range(MOST_WRONG_CODES):
            await stranger.verify(preauth, WRONG)
    assert (await strangers[0].verify(await ada.made_preauth(), WRONG)).status == 429
    # After so many wrong codes even a trusted device needs a code, which is counted against the device now.
    assert (await ada.browser.verify(await ada.preauth(), ada.totp.now())).status == 200
    # The device's user agent, and its device token without the trust token, are not enough.
    ada.an_hour_passes()
    del ada.browser.cookies["__Host-postern_device_trust"]
    assert (await ada.browser.verify(await ada.made_preauth(), ada.totp.now())).status == 429


async def test_many_guesses_at_once_on_one_pre_auth_token_are_no_more_than_five(ada: Traveller) -> None:
    preauth = await ada.made_preauth()
    answers: list[Received] = []

    async def guess() -> None:
        answers.append(await ada.browser.verify(preauth, WRONG))

    async with trio.open_nursery() as nursery:
        for _ in range(CROWD):
            nursery.start_soon(guess)
    assert {answer.status for answer in answers} == {401}
    assert [answer.json()["error"] for answer in answers].count("The code is not valid") == MOST_WRONG_CODES


async def test_what_was_tried_is_on_record(ada: Traveller) -> None:
    ada.people.change("delete from mfa_events")
    preauth = await ada.preauth()
    await ada.browser.verify(preauth, WRONG)
    await ada.browser.verify(preauth, ada.codes[0])
    rows = ada.people.rows("select name, success, host(address) as host, user_id from mfa_events order by id")
    assert [(row["name"], row["success"]) for row in rows] == [
        ("mfa_verify_attempt", False),
        ("mfa_verify_failed", False),
        ("mfa_verify_attempt", True),
        ("mfa_verify_success", True),
        ("backup_code_used", True),
    ]
    assert {(row["host"], row["user_id"]) for row in rows} == {("192.0.2.1", ada.person.user)}
    failures = ada.people.rows("select reason, user_id from login_events where not success")
    assert failures == [{"reason": "wrong_code", "user_id": ada.person.user}]


async def test_the_last_backup_code_is_the_last(ada: Traveller) -> None:
    for code in ada.codes:
        ada.people.change("delete from rate_limit_buckets where limit_name = %s", CODES_AT_SIGN_IN.name)
        assert (await ada.browser.verify(await ada.made_preauth(), code)).status == 200
    assert (await ada.call("GET", STATUS)).json() == {"enabled": True, "has_backup_codes": False}
    ada.people.change("delete from rate_limit_buckets where limit_name = %s", CODES_AT_SIGN_IN.name)
    preauth = await ada.made_preauth()
    assert (await ada.browser.verify(preauth, ada.codes[0])).status == 401
    assert (await ada.browser.verify(preauth, ada.totp.now())).status == 200


async def test_a_pre_auth_token_ends_after_ten_minutes(ada: Traveller, postern: Postern) -> None:
    now = postern.foundation.clock.now() - PREAUTHENTICATION_LIFETIME - timedelta(minutes=1)
    token_id = str(postern.foundation.ids.new())
    claims = preauthentication_claims(
        UserId(ada.person.user), token_id, issuer=BASE_URL, now=now, expires_at=now + PREAUTHENTICATION_LIFETIME
    )
    answer = await ada.browser.verify(await postern.foundation.token_signer.sign_access(claims), ada.totp.now())
    assert (answer.status, answer.error_code) == (401, "TOKEN_EXPIRED")


async def test_no_code_and_no_token_of_the_journey_is_logged(ada: Traveller, log: CapturedLog) -> None:
    preauth, code = await ada.preauth(), ada.totp.now()
    tokens = (await ada.browser.verify(preauth, code, trust_device=True)).json()
    log.remember(preauth, ada.totp.secret, *ada.codes, *ada.browser.cookies.values())
    log.remember(tokens["access_token"], tokens["refresh_token"], tokens["device_trust_token"])


async def test_a_second_factor_takes_seven_round_trips(ada: Traveller, log: CapturedLog) -> None:
    await ada.browser.verify(await ada.made_preauth(), ada.totp.now())
    ada.an_hour_passes()
    await ada.browser.verify(await ada.made_preauth(), ada.totp.now())
    # Pre-authentication; account, bucket and secret; the used step; the device's history; pre-authentication again; commit.
    assert log.events("request")[-1]["db_round_trips"] == 7
