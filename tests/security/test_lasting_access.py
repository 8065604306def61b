"""Lasting access: a thief who holds an access token for a quarter of an hour gains nothing that outlasts the token."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyotp
import pytest

from core.domain.mail import Email
from entrypoints.bootstrap import Postern
from tests.authenticator import Passkey
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.client import Client, Received
from tests.http.people import BASE_URL, People, Person
from tests.http.postbox import Postbox, link_in
from tests.http.signing_in import LOGOUT, PASSWORD, REFRESH, SAFARI, Browser, unlimited
from tests.http.tenants import Tenants
from tests.meanwhile import meanwhile

database_url, postern, people = http.database_url, http.postern, http.people

CHANGE = {"current_password": PASSWORD, "new_password": "the sun over the mountains"}


@dataclass
class Stolen:
    """Ada is signed in, and owns acme. Somebody else has her access token, an hour after she signed in."""

    people: People
    client: Client
    ada: Person
    bob: Person
    tokens: Mapping[str, Any]

    async def thief(self, method: str, path: str, body: Any = None, token: str | None = None) -> Received:
        return await self.client.request(method, path, body=body, token=token or self.tokens["access_token"])

    async def opened(self) -> list[Mapping[str, Any]]:
        """Opens sessions from the stolen session in every possible way."""
        founded = await self.thief("POST", "/api/organizations", {"slug": "lair", "name": "Lair"})
        selected = await self.thief("POST", "/api/organizations/acme/select")
        further = await self.thief("POST", "/api/organizations/acme/select", token=selected.json()["access_token"])
        # The thief refreshes the last session's tokens.
        fresh = await self.client.post(REFRESH, {"refresh_token": further.json()["refresh_token"]})
        answers = [founded, selected, fresh]
        assert [answer.status for answer in answers] == [200] * 3
        return [answer.json() for answer in answers]

    def password_is_shown(self) -> None:
        """Ada gives her password again, in the session whose token was stolen."""
        self.people.change("update sessions set proved_at = now()")

    def password_grows_old(self) -> None:
        self.people.change("update sessions set proved_at = proved_at - interval '1 hour'")

    async def is_locked_out(self, opened: list[Mapping[str, Any]]) -> None:
        for one in opened:
            assert (await self.thief("GET", "/api/user", token=one["access_token"])).status == 401
            assert (await self.client.post(REFRESH, {"refresh_token": one["refresh_token"]})).status == 401


@pytest.fixture
async def stolen(postern: Postern, people: People) -> Stolen:
    client = unlimited(postern)
    ada = await people.with_password(PASSWORD, "ada@example.org")
    tenants = Tenants(postern, people)
    acme = tenants.add("acme")
    tenants.join(ada, acme, "owner")
    tokens = await Browser(client).tokens(ada)
    people.change("update sessions set proved_at = proved_at - interval '1 hour'")
    return Stolen(people, client, ada, tenants.member(acme), tokens)


async def test_what_was_opened_with_it_ends_when_its_owner_signs_out(stolen: Stolen) -> None:
    opened = await stolen.opened()
    assert (await stolen.thief("POST", LOGOUT)).status == 200
    await stolen.is_locked_out(opened)


async def test_what_was_opened_with_it_ends_when_its_owner_changes_the_password_elsewhere(stolen: Stolen) -> None:
    opened = await stolen.opened()
    elsewhere = (await Browser(stolen.client, SAFARI).tokens(stolen.ada))["access_token"]
    assert (await stolen.thief("POST", "/api/user/change-password", CHANGE, elsewhere)).status == 200
    await stolen.is_locked_out([stolen.tokens, *opened])


async def test_the_account_cannot_be_moved_to_another_address_with_it(stolen: Stolen) -> None:
    answer = await stolen.thief("PATCH", "/api/user", {"email": "thief@example.net"})
    assert (answer.status, answer.error_code) == (401, "REAUTHENTICATION_REQUIRED")
    assert stolen.people.rows("select from users where pending_email is not null") == []


async def test_no_second_factor_of_the_thiefs_own_locks_out_the_owner(stolen: Stolen) -> None:
    """Not even by a factor that Ada has begun to set up in that session, shortly before its fresh proof was too old."""
    answer = await stolen.thief("POST", "/api/user/mfa/setup")
    assert (answer.status, answer.error_code) == (401, "REAUTHENTICATION_REQUIRED")
    stolen.password_is_shown()
    secret = (await stolen.thief("POST", "/api/user/mfa/setup")).json()["secret"]
    stolen.password_grows_old()
    for token in (None, (await stolen.opened())[1]["access_token"]):
        for path, body in (
            ("/api/user/mfa/setup", None),
            ("/api/user/mfa/verify", {"code": pyotp.TOTP(secret).now()}),
            ("/api/user/mfa/passkeys", None),
        ):
            answer = await stolen.thief("POST", path, body, token)
            assert (answer.status, answer.error_code) == (401, "REAUTHENTICATION_REQUIRED"), path
    assert stolen.people.rows("select from mfa_secrets where enabled_at is not null") == []
    # Ada signs in by her password alone.
    await Browser(stolen.client, SAFARI).tokens(stolen.ada)


async def test_nor_by_a_second_factor_that_was_enabled_in_the_session(stolen: Stolen) -> None:
    stolen.password_is_shown()
    secret = (await stolen.thief("POST", "/api/user/mfa/setup")).json()["secret"]
    enabled = await stolen.thief("POST", "/api/user/mfa/verify", {"code": pyotp.TOTP(secret).now()})
    assert enabled.status == 200
    stolen.password_grows_old()
    code = enabled.json()["backup_codes"][0]
    assert (await stolen.thief("POST", "/api/auth/reauthenticate", {"code": code})).status == 200
    for method, path, body in (
        ("PATCH", "/api/user", {"email": "thief@example.net"}),
        ("POST", "/api/organizations/acme/transfer-ownership", {"new_owner_user_id": str(stolen.bob.user)}),
    ):
        answer = await stolen.thief(method, path, body)
        assert (answer.status, answer.error_code) == (401, "REAUTHENTICATION_REQUIRED")


async def test_nor_by_one_that_the_thief_takes_off_again(stolen: Stolen) -> None:
    """Once the factor is off, nothing records who had enabled it."""
    stolen.password_is_shown()
    secret = (await stolen.thief("POST", "/api/user/mfa/setup")).json()["secret"]
    assert (await stolen.thief("POST", "/api/user/mfa/verify", {"code": pyotp.TOTP(secret).now()})).status == 200
    stolen.password_grows_old()
    assert (await stolen.thief("DELETE", "/api/user/mfa")).status == 200
    for token in (None, (await stolen.opened())[1]["access_token"]):
        for method, path, body in (
            ("PATCH", "/api/user", {"email": "thief@example.net"}),
            ("POST", "/api/user/passkeys/options", None),
            ("POST", "/api/user/identities/codehost/link", None),
            ("POST", "/api/organizations/acme/transfer-ownership", {"new_owner_user_id": str(stolen.bob.user)}),
        ):
            answer = await stolen.thief(method, path, body, token)
            assert (answer.status, answer.error_code) == (401, "REAUTHENTICATION_REQUIRED"), path


async def test_no_first_password_is_chosen_with_it(stolen: Stolen) -> None:
    """Such a password would allow sign-ins, and would be a fresh proof."""
    stolen.people.change("update users set password_hash = null where id = %s", stolen.ada.user)
    elsewhere = stolen.people.session_of(stolen.ada)
    for token in (None, (await stolen.opened())[1]["access_token"]):
        answer = await stolen.thief("POST", "/api/user/set-password", {"new_password": "thieves like us 77"}, token)
        assert (answer.status, answer.error_code) == (401, "REAUTHENTICATION_REQUIRED")
    assert stolen.people.rows("select from users where id = %s and password_hash is not null", stolen.ada.user) == []
    assert (await stolen.client.get("/api/user", token=await stolen.people.token(elsewhere))).status == 200


async def test_no_platform_owner_is_made_and_no_second_factor_taken_away_with_that_of_one(stolen: Stolen) -> None:
    stolen.people.change("update users set is_platform_owner = true where id = %s", stolen.ada.user)
    stolen.people.change("update users set email_verified_at = now() where id = %s", stolen.bob.user)
    enabled = "insert into mfa_secrets (user_id, sealed_secret, created_at, enabled_at) values (%s, 'x', now(), now() - interval '1 day')"
    for person in (stolen.ada, stolen.bob):
        stolen.people.change(enabled, person.user)
    for method, path, body in (
        ("DELETE", f"/api/platform/users/{stolen.ada.user}/mfa", {"reason": "x"}),
        ("DELETE", f"/api/platform/users/{stolen.bob.user}/mfa", {"reason": "x"}),
        ("POST", "/api/platform/owners", {"user_id": str(stolen.bob.user)}),
        ("DELETE", f"/api/privacy/forget/{stolen.bob.user}", None),
        ("DELETE", "/api/organizations/acme", None),
    ):
        answer = await stolen.thief(method, path, body)
        assert (answer.status, answer.error_code) == (401, "REAUTHENTICATION_REQUIRED"), path
    assert len(stolen.people.rows("select from mfa_secrets")) == 2
    assert len(stolen.people.rows("select from users where is_platform_owner")) == 1


async def test_no_organization_is_given_away_with_it(stolen: Stolen) -> None:
    for token in (None, (await stolen.opened())[1]["access_token"]):
        body = {"new_owner_user_id": str(stolen.bob.user)}
        answer = await stolen.thief("POST", "/api/organizations/acme/transfer-ownership", body, token)
        assert (answer.status, answer.error_code) == (401, "REAUTHENTICATION_REQUIRED")
    (row,) = stolen.people.rows("select owner_user_id from organizations where slug = 'acme'")
    assert row["owner_user_id"] == stolen.ada.user


async def test_the_second_factor_is_neither_taken_away_nor_copied_with_it(stolen: Stolen) -> None:
    stolen.password_is_shown()
    secret = (await stolen.thief("POST", "/api/user/mfa/setup")).json()["secret"]
    enabled = await stolen.thief("POST", "/api/user/mfa/verify", {"code": pyotp.TOTP(secret).now()})
    assert enabled.status == 200
    stolen.password_grows_old()
    # As if Ada had done that long ago.
    stolen.people.change("update sessions set second_factor_at = now() - interval '1 hour'")
    for method, path in (("DELETE", "/api/user/mfa"), ("POST", "/api/user/mfa/backup-codes/regenerate")):
        answer = await stolen.thief(method, path)
        assert (answer.status, answer.error_code) == (401, "REAUTHENTICATION_REQUIRED")
        # The password, which a thief may have watched, is not enough either.
        assert (await stolen.thief("POST", "/api/auth/reauthenticate", {"password": PASSWORD})).status == 200
        assert (await stolen.thief(method, path)).status == 401
    assert len(stolen.people.rows("select from mfa_secrets where enabled_at is not null")) == 1


async def test_carrying_the_session_on_renews_no_proof(stolen: Stolen) -> None:
    fresh = (await stolen.client.post(REFRESH, {"refresh_token": stolen.tokens["refresh_token"]})).json()
    answer = await stolen.thief("PATCH", "/api/user", {"email": "thief@example.net"}, fresh["access_token"])
    assert answer.error_code == "REAUTHENTICATION_REQUIRED"


async def test_an_operator_who_resets_leaves_a_thief_with_nothing(postern: Postern, people: People, log: CapturedLog) -> None:
    """The thief knows the password, has signed in with it, and has added to the account everything that an account can have."""
    client = unlimited(postern)
    ada = await people.with_password(PASSWORD, "ada@example.org")
    thief = Browser(client, SAFARI)
    tokens = await thief.tokens(ada)
    bearer = tokens["access_token"]
    passkey = Passkey.made()
    options = (await client.post("/api/user/passkeys/options", token=bearer)).json()
    assert (await client.post("/api/user/passkeys", {"credential": passkey.create(options)}, token=bearer)).status == 201
    under_way = Passkey.made().create((await client.post("/api/user/passkeys/options", token=bearer)).json())
    assert (await client.request("PATCH", "/api/user", body={"email": "thief@evil.example"}, token=bearer)).status == 200
    theirs = [link_in(mail) for mail in await Postbox(postern).empty() if mail.to == "thief@evil.example"]

    reset = await postern.platform.account_administration.reset_password(Email(ada.email), "grace", by_mail=False)
    assert reset.link is not None
    log.remember(reset.link)
    assert (reset.ended.passkeys, reset.sessions) == (1, 1)
    by_passkey = passkey.get((await client.post("/api/auth/passkeys/options")).json())
    for answer in (
        await client.get("/api/user", token=bearer),
        await client.post(REFRESH, {"refresh_token": tokens["refresh_token"]}),
        await client.post("/api/auth/passkeys", {"credential": by_passkey}),
        await client.post("/api/user/passkeys", {"credential": under_way}, token=bearer),
        await client.post("/api/user/set-password", {"new_password": "thieves like us"}, token=bearer),
        await thief.login(ada),
    ):
        assert answer.status == 401, answer.body
    for link in theirs:
        assert (await client.get(link.removeprefix(BASE_URL))).status == 400
    # The owner's link still works.
    token = reset.link.reveal().partition("token=")[2]
    chosen = await client.post("/api/auth/reset-password", {"token": token, "new_password": CHANGE["new_password"]})
    assert chosen.status == 200, chosen.body
    entered = await client.post("/api/auth/login", {"email": ada.email, "password": CHANGE["new_password"]})
    assert (await client.get("/api/user", token=entered.json()["access_token"])).json()["email"] == ada.email
    assert people.rows("select from passkeys") == []


async def test_nor_with_what_was_under_way_when_the_operator_did(stolen: Stolen, postern: Postern, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thief has a fresh proof, and each request is let in before the operator ends the sessions."""
    people, accounts, mfa = stolen.people, postern.identity.accounts, postern.identity.mfa
    people.change("update sessions set proved_at = now()")
    secret = (await stolen.thief("POST", "/api/user/mfa/setup")).json()["secret"]
    reset = partial(postern.platform.account_administration.reset_password, Email(stolen.ada.email), "grace", by_mail=False)
    meanwhile(monkeypatch, accounts.buckets, "take", reset)
    meanwhile(monkeypatch, mfa, "_new_backup_codes", reset)
    for method, path, body in (
        ("PATCH", "/api/user", {"email": "thief@evil.example"}),
        ("POST", "/api/user/mfa/verify", {"code": pyotp.TOTP(secret).now()}),
    ):
        people.change("update sessions set revoked_at = null")
        assert (await stolen.thief(method, path, body)).status == 401, path
    assert [mail for mail in await Postbox(postern).empty() if mail.to == "thief@evil.example"] == []
    assert people.rows("select from users where pending_email is not null") == []
    assert people.rows("select from mfa_secrets where enabled_at is not null") == []
    people.change("update mfa_secrets set enabled_at = now() - interval '1 minute'")
    people.change("update sessions set revoked_at = null, second_factor_at = now()")
    assert (await stolen.thief("POST", "/api/user/mfa/backup-codes/regenerate")).status == 401
    assert people.rows("select from backup_codes") == []


async def test_nor_takes_away_what_keeps_others_out(stolen: Stolen, postern: Postern, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thief's requests were under way, with a fresh proof, when the owner signed out everywhere."""
    people, ada = stolen.people, stolen.ada
    people.change("update sessions set proved_at = now(), second_factor_at = now()")
    options = (await stolen.thief("POST", "/api/user/passkeys/options")).json()
    made = await stolen.thief("POST", "/api/user/passkeys", {"credential": Passkey.made().create(options)})
    people.connect(ada)
    people.change(
        "insert into mfa_secrets (user_id, sealed_secret, created_at, enabled_at) values (%s, 'x', now(), now() - interval '1 day')",
        ada.user,
    )
    ended = partial(people.change, "update sessions set revoked_at = now() where user_id = %s", ada.user)
    meanwhile(monkeypatch, postern.identity.reauthentication, "require", ended)
    for path in ("mfa", f"passkeys/{made.json()['id']}", "identities/websuite"):
        people.change("update sessions set revoked_at = null")
        assert (await stolen.thief("DELETE", f"/api/user/{path}")).status == 401, path
    for kept in ("mfa_secrets", "passkeys", "identities"):
        assert len(people.rows(f"select from {kept} where user_id = %s", ada.user)) == 1, kept
