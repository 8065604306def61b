"""Sign-in over HTTP: its answers, its records, and the facts that no answer reveals."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import jwt
import pytest
import trio

from core.domain.errors import Overloaded
from core.domain.identity.login_events import LoginFailure
from core.domain.identity.risk import RiskFactor
from core.frozen import replace
from entrypoints.bootstrap import Postern
from tests.changed_fields import put
from tests.conftest import CapturedLog
from tests.http.client import Client, Received
from tests.http.conftest import SETTINGS
from tests.http.people import People, Person
from tests.http.postbox import Postbox
from tests.http.signing_in import FIREFOX, LOGIN, PASSWORD, SAFARI, VERIFY, Browser, enable_mfa, unlimited
from tests.meanwhile import meanwhile

DEVICE, TRUST = "__Host-postern_device", "__Host-postern_device_trust"


@pytest.fixture
def door(postern: Postern) -> Client:
    return unlimited(postern)


@pytest.fixture
def browser(door: Client) -> Browser:
    return Browser(door)


@pytest.fixture
def postbox(postern: Postern) -> Postbox:
    return Postbox(postern)


def claims_of(token: str) -> dict[str, Any]:
    claims: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    return claims


def last_trips(log: CapturedLog) -> int:
    trips: int = log.events("request")[-1]["db_round_trips"]
    return trips


def login_events(people: People) -> Sequence[dict[str, Any]]:
    return people.rows("select * from login_events order by id")


async def test_the_right_password_opens_a_session(browser: Browser, people: People) -> None:
    person = await people.with_password(PASSWORD, "Ada@example.org")
    answer = await browser.post(LOGIN, {"email": "ADA@example.org", "password": PASSWORD})
    assert answer.status == 200
    tokens = answer.json()
    assert set(tokens) == {"access_token", "refresh_token", "expires_in"}
    claims = claims_of(tokens["access_token"])
    assert tokens["expires_in"] == claims["exp"] - claims["iat"] == 900
    assert (claims["sub"], claims["aud"], claims["token_use"], claims["amr"]) == (str(person.user), "platform", "access", ["pwd"])
    assert answer.header("cache-control") == "no-store"
    profile = await browser.client.get("/api/user", token=tokens["access_token"])
    assert profile.json()["email"] == "Ada@example.org"


async def test_it_costs_four_round_trips_a_refusal_four_at_most_and_a_request_with_its_token_one(
    postern: Postern, people: People, log: CapturedLog
) -> None:
    browser = Browser(Client(unlimited(postern, SETTINGS).application))
    person = await people.with_password(PASSWORD)
    await browser.tokens(person)
    await browser.tokens(person)
    # The limit by address, the look-up, the last look, and all writes.
    assert last_trips(log) == 4
    for password, email in ((PASSWORD + "!", person.email), (PASSWORD, "nobody@example.org")):
        assert (await browser.post(LOGIN, {"email": email, "password": password})).status == 401
        assert last_trips(log) <= 4
    tokens = await browser.tokens(person)
    assert (await browser.client.get("/api/user", token=tokens["access_token"])).status == 200
    assert last_trips(log) == 1


async def test_the_device_gets_a_token_as_header_and_cookie_and_is_known_by_either(browser: Browser, people: People) -> None:
    person = await people.with_password(PASSWORD)
    answer = await browser.login(person)
    token = answer.header("x-device-token")
    (cookie,) = [value for name, value in answer.headers if name == "set-cookie"]
    name, _, attributes = cookie.partition(";")
    assert name == f"{DEVICE}={token}"
    assert {part.strip() for part in attributes.split(";")} >= {"Path=/", "HttpOnly", "SameSite=Lax", "Secure"}
    assert "Domain" not in attributes
    await browser.login(person)
    bare = Browser(browser.client, SAFARI)
    headers = [("user-agent", SAFARI), ("x-device-token", token or "")]
    await bare.client.post(LOGIN, {"email": person.email, "password": PASSWORD}, headers=headers)
    assert len(people.rows("select id from devices")) == 1
    assert len(people.rows("select distinct device_id from sessions where device_id is not null")) == 1


async def test_nobody_learns_whether_there_is_an_account_or_how_it_stands(browser: Browser, people: People) -> None:
    known = await people.with_password(PASSWORD)
    unverified = await people.with_password(PASSWORD, verified=False)
    gone, without = await people.with_password(PASSWORD), people.add()
    people.change("update users set deactivated_at = now() where id = %s", gone.user)
    tries = {
        LoginFailure.WRONG_PASSWORD: (known.email, "a wrong one"),
        LoginFailure.UNKNOWN_ACCOUNT: ("nobody@example.org", PASSWORD),
        LoginFailure.NO_PASSWORD: (without.email, PASSWORD),
        LoginFailure.DEACTIVATED: (gone.email, PASSWORD),
    }
    answers = [await browser.post(LOGIN, {"email": email, "password": password}) for email, password in tries.values()]
    answers.append(await browser.post(LOGIN, {"email": unverified.email, "password": "a wrong one"}))
    assert {(answer.status, answer.error_code) for answer in answers} == {(401, "UNAUTHORIZED")}
    assert len({answer.json()["error"] for answer in answers}) == 1
    assert len({tuple((name, value) for name, value in answer.headers if name != "x-request-id") for answer in answers}) == 1
    assert [row["reason"] for row in login_events(people)] == [*(failure.value for failure in tries), "wrong_password"]
    assert not browser.cookies


async def test_whoever_knows_the_password_is_told_that_the_address_is_not_verified(browser: Browser, people: People) -> None:
    person = await people.with_password(PASSWORD, verified=False)
    answer = await browser.login(person)
    assert (answer.status, answer.json()["error"]) == (401, "The email address is not verified: open the link that was sent to it")
    (event,) = login_events(people)
    assert (event["reason"], event["success"]) == ("email_not_verified", False)


async def test_every_try_is_kept_with_its_circumstances(browser: Browser, people: People, postern: Postern) -> None:
    person = await people.with_password(PASSWORD)
    await browser.login(person, "a wrong one")
    await browser.login(person)
    failed, good = login_events(people)
    assert (failed["provider"], failed["success"], failed["reason"]) == ("password", False, "wrong_password")
    assert failed["user_id"] == good["user_id"] == person.user
    assert (str(good["address"]), good["user_agent"], good["flagged"]) == ("192.0.2.1", FIREFOX, False)
    assert good["risk_factors"] == [RiskFactor.NEW_DEVICE.value, RiskFactor.FAILED_ATTEMPTS.value]
    assert good["risk_score"] == pytest.approx(0.5)
    (device,) = people.rows("select id, risk_score from devices")
    assert (good["device_id"], device["risk_score"]) == (device["id"], good["risk_score"])
    events = people.rows("select name, target_id, details from events order by id")
    assert [(event["name"], event["target_id"]) for event in events] == [
        ("user.login.failed", str(person.user)),
        ("user.login.success", str(person.user)),
    ]
    page = postern.foundation.metrics.render().decode()
    assert 'sso_login_failures_total{reason="wrong_password"} 1.0' in page
    assert "sso_auth_tokens_issued_total 1.0" in page


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({}, "email"),
        ({"email": "ada@example.org"}, "password"),
        ({"email": "", "password": PASSWORD}, "email"),
        ({"email": "a" * 321, "password": PASSWORD}, "email"),
        ({"email": 5, "password": PASSWORD}, "email"),
        ({"email": "ada@example.org", "password": ""}, "password"),
        ({"email": "ada@example.org", "password": ["x"]}, "password"),
        ({"email": "ada@example.org", "password": "x\x00y"}, "password"),
        ({"email": "ada@example.org\x00", "password": "x"}, "email"),
        ({"email": "ada@example.org", "password": "x", "saml_state": 1}, "saml_state"),
        (b'{"email": "ada@example.org", "password": "\\ud800"}', "password"),
    ],
)
async def test_bad_input_is_named_and_costs_nobody_a_try(browser: Browser, people: People, body: Any, named: str) -> None:
    answer = await browser.post(LOGIN, body)
    assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
    assert named in answer.json()["error"]
    assert login_events(people) == []


@pytest.mark.parametrize("email", ["not an address", "<script>", "a@b@c", "' or 1=1 --", "ada@example.org%", "\u202eada@example.org"])
async def test_what_is_no_address_is_nobodys(browser: Browser, email: str) -> None:
    assert (await browser.post(LOGIN, {"email": email, "password": PASSWORD})).status == 401


async def test_neither_password_nor_tokens_are_logged_or_stored(browser: Browser, people: People, log: CapturedLog) -> None:
    person = await people.with_password(PASSWORD)
    answer = await browser.login(person)
    tokens = answer.json()
    kept = [PASSWORD, tokens["access_token"], tokens["refresh_token"], answer.header("x-device-token") or ""]
    log.remember(*kept)
    for (table,) in (row.values() for row in people.rows("select tablename from pg_tables where schemaname = 'public'")):
        dump = repr(people.rows(f"select {table}::text from {table}"))
        assert not [secret for secret in kept if secret in dump or secret.encode().hex() in dump], table


async def test_a_hash_with_other_parameters_is_renewed(browser: Browser, people: People, postern: Postern) -> None:
    person = await people.with_password(PASSWORD)
    from argon2 import PasswordHasher  # noqa: PLC0415 - an independent maker of hashes

    old = PasswordHasher(time_cost=1, memory_cost=8192, parallelism=1).hash(PASSWORD)
    people.change("update users set password_hash = %s where id = %s", old, person.user)
    await browser.login(person, "a wrong one")
    assert people.rows("select password_hash from users")[0]["password_hash"] == old
    await browser.tokens(person)
    renewed = people.rows("select password_hash, password_changed_at from users")[0]
    assert not postern.identity.passwords.is_outdated(renewed["password_hash"])
    assert renewed["password_changed_at"] is None
    await browser.tokens(person)


class TestNotices:
    async def test_a_new_device_is_told_of_but_not_the_first_of_all(self, browser: Browser, people: People, postbox: Postbox) -> None:
        person = await people.with_password(PASSWORD)
        await browser.tokens(person)
        await browser.tokens(person)
        assert await postbox.empty() == []
        await Browser(browser.client, SAFARI).tokens(person)
        (mail,) = await postbox.empty()
        assert mail.to == person.email
        assert "Safari" in mail.text
        assert "192.0.2.1" in mail.text

    async def test_so_it_is_of_one_that_showed_a_second_factor(self, browser: Browser, people: People, postbox: Postbox) -> None:
        person = await people.with_password(PASSWORD)
        await browser.tokens(person)
        totp = await enable_mfa(browser.client, people, person)
        await postbox.empty()
        stranger = Browser(browser.client, SAFARI)
        preauth = (await stranger.login(person)).json()["access_token"]
        assert await postbox.empty() == []
        assert (await stranger.verify(preauth, totp.now())).status == 200
        (mail,) = await postbox.empty()
        assert "Safari" in mail.text

    async def test_an_unusual_sign_in_is_flagged_and_told_of(self, browser: Browser, people: People, postbox: Postbox) -> None:
        person = await people.with_password(PASSWORD)
        for _ in range(4):
            await browser.login(person, "a wrong one")
        await browser.tokens(person)
        good = login_events(people)[-1]
        assert (good["success"], good["flagged"]) == (True, True)
        assert good["risk_score"] > 0.7
        (mail,) = await postbox.empty()
        assert "nusual" in mail.subject


class TestSecondFactor:
    @pytest.fixture
    async def person(self, people: People) -> Person:
        return await people.with_password(PASSWORD)

    async def test_it_is_asked_for_and_its_token_opens_nothing_else(self, browser: Browser, people: People, person: Person) -> None:
        await enable_mfa(browser.client, people, person)
        answer = await browser.login(person)
        body = answer.json()
        assert answer.status == 200
        assert (set(body), body["refresh_token"], body["expires_in"], body["mfa_required"]) == (
            {"access_token", "refresh_token", "expires_in", "mfa_required"},
            "",
            600,
            True,
        )
        assert not browser.cookies
        assert claims_of(body["access_token"])["token_use"] == "mfa_preauth"
        for path in ("/api/user", "/api/user/devices", "/api/user/mfa/status"):
            refused = await browser.client.get(path, token=body["access_token"])
            assert (refused.status, refused.error_code) == (401, "JWT_ERROR")
        assert (await browser.post("/api/auth/logout", token=body["access_token"])).status == 401
        assert (await browser.refresh(body["access_token"])).status == 401

    @pytest.mark.parametrize("in_body", [False, True])
    async def test_with_the_code_it_opens_a_session_once(self, browser: Browser, people: People, person: Person, in_body: bool) -> None:
        totp = await enable_mfa(browser.client, people, person)
        preauth = (await browser.login(person)).json()["access_token"]
        body = {"code": totp.now(), **({"preauth_token": preauth} if in_body else {})}
        answer = await browser.post(VERIFY, body, token=None if in_body else preauth)
        tokens = answer.json()
        assert answer.status == 200
        assert (set(tokens), tokens["token_type"]) == ({"access_token", "refresh_token", "expires_in", "token_type"}, "Bearer")
        assert claims_of(tokens["access_token"])["amr"] == ["pwd", "otp", "mfa"]
        assert (await browser.client.get("/api/user", token=tokens["access_token"])).status == 200
        assert DEVICE in browser.cookies
        again = await browser.post(VERIFY, body, token=None if in_body else preauth)
        assert (again.status, again.error_code) == (401, "UNAUTHORIZED")

    async def test_a_backup_code_does_as_well_once(self, browser: Browser, people: People, person: Person) -> None:
        await enable_mfa(browser.client, people, person)
        token = await people.token(person)
        codes = (await browser.client.post("/api/user/mfa/backup-codes/regenerate", token=token)).json()["backup_codes"]
        preauth = (await browser.login(person)).json()["access_token"]
        answer = await browser.verify(preauth, codes[0].lower())
        assert claims_of(answer.json()["access_token"])["amr"] == ["pwd", "mfa"]
        preauth = (await browser.login(person)).json()["access_token"]
        assert (await browser.verify(preauth, codes[0])).status == 401
        assert (await browser.verify(preauth, codes[1])).status == 200

    async def test_the_fifth_wrong_code_ends_the_token(self, browser: Browser, people: People, person: Person) -> None:
        totp = await enable_mfa(browser.client, people, person)
        preauth = (await browser.login(person)).json()["access_token"]
        for _ in range(5):
            answer = await browser.verify(preauth, "ABCD-EFGH")
            assert (answer.status, answer.json()["error"]) == (401, "The code is not valid")
        assert (await browser.verify(preauth, totp.now())).status == 401
        assert [row["reason"] for row in login_events(people)] == ["wrong_code"] * 5
        # This does not lock the account.
        preauth = (await browser.login(person)).json()["access_token"]
        assert (await browser.verify(preauth, totp.now())).status == 200

    async def test_a_code_without_a_good_token_is_refused(self, browser: Browser, people: People, person: Person) -> None:
        totp = await enable_mfa(browser.client, people, person)
        assert (await browser.post(VERIFY, {"code": totp.now()})).error_code == "UNAUTHORIZED"
        for token in ("rubbish", await people.token(person)):
            for answer in (
                await browser.post(VERIFY, {"code": totp.now(), "preauth_token": token}),
                await browser.verify(token, totp.now()),
            ):
                assert (answer.status, answer.error_code) == (401, "JWT_ERROR")
        forged = await people.token(person, token_use="mfa_preauth", aud="mfa")
        assert (await browser.verify(forged, totp.now())).status == 401
        odd = await people.token(person, token_use="mfa_preauth", aud="mfa", jti="odd")
        assert (await browser.verify(odd, totp.now())).error_code == "JWT_ERROR"
        # The sent token counts, not the sign-in that it names.
        preauth = claims_of((await browser.login(person)).json()["access_token"])
        stolen = await people.token(people.add(), token_use="mfa_preauth", aud="mfa", jti=preauth["jti"])
        assert (await browser.verify(stolen, totp.now())).status == 401

    @pytest.mark.parametrize("body", [{}, {"code": ""}, {"code": 123456}, {"code": "1" * 65}, {"code": "1", "trust_device": "yes"}])
    async def test_bad_input_is_no_guess(self, browser: Browser, people: People, person: Person, body: Any) -> None:
        await enable_mfa(browser.client, people, person)
        preauth = (await browser.login(person)).json()["access_token"]
        assert (await browser.post(VERIFY, body, token=preauth)).status == 400
        assert people.rows("select failures from preauthentications") == [{"failures": 0}]

    @pytest.mark.parametrize(
        "change",
        [
            "update users set deactivated_at = now() where id = %s",
            "update users set password_changed_at = now() where id = %s",
            "delete from users where id = %s",
            "update preauthentications set expires_at = now() where user_id = %s",
        ],
    )
    async def test_what_ended_meanwhile_is_not_finished(self, browser: Browser, people: People, person: Person, change: str) -> None:
        totp = await enable_mfa(browser.client, people, person)
        preauth = (await browser.login(person)).json()["access_token"]
        people.change(change, person.user)
        assert (await browser.verify(preauth, totp.now())).status == 401

    async def test_of_fifty_at_once_one_gets_in(self, browser: Browser, people: People, person: Person) -> None:
        totp = await enable_mfa(browser.client, people, person)
        preauth = (await browser.login(person)).json()["access_token"]
        answers: list[Received] = []

        async def redeem() -> None:
            answers.append(await browser.verify(preauth, totp.now()))

        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(redeem)
        assert sorted(answer.status for answer in answers) == [200] + [401] * 49

    async def test_a_trusted_device_is_not_asked_again(self, browser: Browser, people: People, person: Person) -> None:
        totp = await enable_mfa(browser.client, people, person)
        preauth = (await browser.login(person)).json()["access_token"]
        answer = await browser.verify(preauth, totp.now(), trust_device=True)
        assert answer.json()["device_trust_token"] == browser.cookies[TRUST]
        assert "mfa_required" not in (await browser.login(person)).json()
        # Neither token alone is enough, nor the trust token of another device.
        for missing in (DEVICE, TRUST):
            partly = Browser(browser.client)
            partly.cookies = {name: value for name, value in browser.cookies.items() if name != missing}
            assert (await partly.login(person)).json()["mfa_required"]

    async def test_a_trusted_device_is_asked_when_much_is_unusual(self, browser: Browser, people: People, person: Person) -> None:
        totp = await enable_mfa(browser.client, people, person)
        preauth = (await browser.login(person)).json()["access_token"]
        await browser.verify(preauth, totp.now(), trust_device=True)
        stranger = Browser(browser.client, SAFARI)
        for _ in range(3):
            await stranger.login(person, "a wrong one")
        assert "mfa_required" not in (await browser.login(person)).json()
        for _ in range(4):
            await stranger.login(person, "a wrong one")
        assert (await browser.login(person)).json()["mfa_required"]


@pytest.mark.parametrize("mfa", [False, True], ids=["password", "second factor awaited"])
async def test_a_password_that_changes_while_it_is_checked_opens_nothing(
    browser: Browser, people: People, postern: Postern, mfa: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = await people.with_password(PASSWORD)
    if mfa:
        await enable_mfa(browser.client, people, person)
    before = people.rows("select id from sessions")
    change = "update users set password_hash = 'changed' where id = %s"
    meanwhile(monkeypatch, postern.identity.passwords, "examine", lambda: people.change(change, person.user))
    assert (await browser.login(person)).status == 401
    assert people.rows("select id from sessions") == before
    assert people.rows("select id from preauthentications") == []


async def test_a_hash_that_cannot_be_renewed_now_is_renewed_another_time(
    browser: Browser, people: People, postern: Postern, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = await people.with_password(PASSWORD)

    async def busy(_encoded: str, _password: Any, _precedence: Any) -> str:
        raise Overloaded(retry_after=1)

    monkeypatch.setattr(postern.identity.passwords, "renew", busy)
    monkeypatch.setattr(postern.identity.passwords, "is_outdated", lambda _encoded: True)
    assert (await browser.login(person)).status == 200


async def test_a_password_that_changes_while_its_hash_is_renewed_signs_nobody_in(
    browser: Browser, people: People, postern: Postern, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = await people.with_password(PASSWORD)
    monkeypatch.setattr(postern.identity.passwords, "is_outdated", lambda _encoded: True)
    change = "update users set password_hash = 'another' where id = %s"
    meanwhile(monkeypatch, postern.identity.passwords, "renew", lambda: people.change(change, person.user))
    assert (await browser.login(person)).status == 401
    assert people.rows("select password_hash from users where id = %s", person.user) == [{"password_hash": "another"}]
    assert people.rows("select id from sessions") == []


async def test_while_too_many_passwords_wait_the_answer_says_when_to_come_back(
    browser: Browser, people: People, postern: Postern, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = await people.with_password(PASSWORD)

    async def busy(_encoded: str | None, _password: Any, _precedence: Any) -> bool:
        raise Overloaded(retry_after=3)

    monkeypatch.setattr(postern.identity.passwords, "examine", busy)
    answer = await browser.login(person)
    assert (answer.status, answer.header("retry-after")) == (503, "3")
    assert login_events(people) == []


async def test_a_code_is_refused_unseen_after_too_many(browser: Browser, people: People) -> None:
    person = await people.with_password(PASSWORD)
    totp = await enable_mfa(browser.client, people, person)
    statuses, preauth = [], ""
    for _ in range(3):
        preauth = (await browser.login(person)).json()["access_token"]
        statuses += [(await browser.verify(preauth, "ABCD-EFGH")).status for _ in range(4)]
    assert statuses == [401] * 10 + [429] * 2
    assert (await browser.verify(preauth, totp.now())).status == 429


async def test_fifty_who_use_one_code_at_once_in_as_many_sign_ins_are_one_person(browser: Browser, people: People) -> None:
    person = await people.with_password(PASSWORD)
    totp = await enable_mfa(browser.client, people, person)
    preauths = [(await browser.login(person)).json()["access_token"] for _ in range(8)]
    statuses: list[int] = []

    async def redeem(preauth: str) -> None:
        statuses.append((await browser.verify(preauth, totp.now())).status)

    async with trio.open_nursery() as nursery:
        for preauth in preauths:
            nursery.start_soon(redeem, preauth)
    assert sorted(statuses) == [200] + [401] * 7


async def test_a_token_that_ends_while_its_code_is_checked_is_over(browser: Browser, people: People, postern: Postern) -> None:
    person = await people.with_password(PASSWORD)
    totp = await enable_mfa(browser.client, people, person)
    preauth = (await browser.login(person)).json()["access_token"]

    class Later:
        def now(self) -> datetime:
            return postern.foundation.clock.now() + timedelta(minutes=11)

    put(postern.identity.sign_in.admission, system=replace(postern.foundation.system, clock=Later()))
    assert (await browser.verify(preauth, totp.now())).status == 401
    assert people.rows("select consumed_at from preauthentications") == [{"consumed_at": None}]
