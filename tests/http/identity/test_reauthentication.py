"""A fresh proof: the requests that need it, the requests that renew it, and those that do not."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyotp
import pytest
import trio

from core.domain.identity.mfa import CODES_IN_SESSION
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.limits import LOGIN
from entrypoints.http.routes import ROUTES
from tests.changed_fields import answer_by
from tests.conftest import CapturedLog
from tests.http.cast import Cast
from tests.http.client import Received
from tests.http.conftest import SETTINGS
from tests.http.machinery.limited import until_refused
from tests.http.people import People
from tests.http.signing_in import PASSWORD, SAFARI, Browser, unlimited
from tests.meanwhile import meanwhile

REAUTHENTICATE: Final = "/api/auth/reauthenticate"
SET_UP: Final = ("POST", "/api/user/mfa/setup")
DISABLE, RENEW = ("DELETE", "/api/user/mfa"), ("POST", "/api/user/mfa/backup-codes/regenerate")
ADDRESS, TRANSFER = ("PATCH", "/api/user"), ("POST", "/api/organizations/acme/transfer-ownership")
CROWD: Final = 50


class ReauthenticationScene(Cast):
    """Ada owns acme, of which Bob is a member."""

    token = ""
    totp: pyotp.TOTP | None = None
    codes: Sequence[str] = ()

    async def move_in(self) -> None:
        self.browser = Browser(self.client)
        self.acme = self.tenants.add("acme")
        self.ada = self.tenants.join(await self.people.with_password(PASSWORD, "ada@example.org"), self.acme, "owner")
        self.bob = self.tenants.member(self.acme)

    async def sign_in(self) -> Mapping[str, Any]:
        tokens = await self.browser.tokens(self.ada)
        self.token = tokens["access_token"]
        return tokens

    async def enable_mfa(self) -> None:
        """Enables the second factor in this session."""
        secret = (await self.client.post("/api/user/mfa/setup", token=self.token)).json()["secret"]
        self.totp = pyotp.TOTP(secret)
        enabled = await self.client.post("/api/user/mfa/verify", {"code": self.totp.now()}, token=self.token)
        assert enabled.status == 200, enabled.body
        self.codes = enabled.json()["backup_codes"]
        self.log.remember(secret, *self.codes)
        self.people.change("update mfa_secrets set last_step = last_step - 120")

    async def enable_mfa_and_sign_in(self) -> None:
        await self.sign_in()
        await self.enable_mfa()
        self.people.change("update mfa_secrets set enabled_at = enabled_at - interval '1 day'")
        preauth = (await self.browser.tokens(self.ada))["access_token"]
        assert self.totp is not None
        answer = await self.browser.verify(preauth, self.totp.now())
        assert answer.status == 200, answer.body
        self.token = answer.json()["access_token"]
        self.people.change("update mfa_secrets set last_step = last_step - 120")

    def time_passes(self, interval: str = "11 minutes") -> None:
        for column in ("proved_at", "second_factor_at"):
            self.people.change(f"update sessions set {column} = {column} - interval '{interval}'")

    def password_grows_old(self) -> None:
        """Makes the proof by password old. The second factor stays fresh."""
        self.people.change("update sessions set proved_at = proved_at - interval '11 minutes'")

    async def ask(self, method: str, path: str, token: str | None = None) -> Received:
        body = None
        if (method, path) == ADDRESS:
            body = {"email": "ada@elsewhere.example"}
        elif (method, path) == TRANSFER:
            body = {"new_owner_user_id": str(self.bob.user)}
        return await self.client.request(method, path, body=body, token=token or self.token)

    async def prove(self, token: str | None = None, **body: Any) -> Received:
        return await self.browser.post(REAUTHENTICATE, body, token=token or self.token)

    async def is_refused(self, what: tuple[str, str], token: str | None = None) -> None:
        answer = await self.ask(*what, token=token)
        assert (answer.status, answer.error_code) == (401, "REAUTHENTICATION_REQUIRED"), what
        challenge = answer.header("www-authenticate") or ""
        assert challenge.startswith('Bearer error="insufficient_user_authentication", ')
        assert challenge.endswith('max_age="600"')

    def failures(self) -> list[str]:
        return [row["reason"] for row in self.people.rows("select reason from login_events where not success order by id")]


@pytest.fixture
async def house(postern: Postern, people: People, log: CapturedLog) -> ReauthenticationScene:
    house = ReauthenticationScene(postern, people, unlimited(postern), log)
    await house.move_in()
    return house


def test_these_routes_ask_for_a_fresh_proof() -> None:
    declared = {(one.method, one.path.replace("{org_slug}", "acme")) for one in ROUTES if one.step_up is not None}
    passkeys = {
        ("POST", "/api/user/mfa/setup"),
        ("POST", "/api/user/mfa/verify"),
        ("POST", "/api/user/mfa/passkeys"),
        ("POST", "/api/user/passkeys/options"),
        ("POST", "/api/user/passkeys"),
        ("DELETE", "/api/user/passkeys/{passkey_id}"),
    }
    platform = {
        ("POST", "/api/platform/owners"),
        ("DELETE", "/api/platform/owners/{user_id}"),
        ("DELETE", "/api/platform/users/{user_id}/mfa"),
        ("DELETE", "/api/platform/organizations/{org_id}"),
        *(("POST", f"/api/platform/users/{{user_id}}/{act}") for act in ("deactivate", "activate")),
        ("POST", "/api/platform/signing-keys/rotate"),
    }
    identities = {("POST", "/api/user/identities/{provider}/link"), ("DELETE", "/api/user/identities/{provider}")}
    routes, providers = "/api/organizations/acme/domain-routes", "/api/organizations/acme/upstream-providers"
    assert declared == {
        *(DISABLE, RENEW, TRANSFER, ("PATCH", "/api/organizations/acme/sign-in-rules")),
        *(("POST", routes), ("PATCH", f"{routes}/{{domain_id}}"), ("DELETE", f"{routes}/{{domain_id}}")),
        ("DELETE", "/api/organizations/acme/members/{user_id}/mfa"),
        *(
            ("POST", f"{place}/management-keys{act}")
            for place in ("/api/organizations/acme", "/api/platform")
            for act in ("", "/{key_id}/adopt")
        ),
        ("PATCH", "/api/organizations/acme/scim/settings"),
        *(("POST", providers), ("PATCH", f"{providers}/{{provider_id}}"), ("DELETE", f"{providers}/{{provider_id}}")),
        *(("POST", f"{providers}/{{provider_id}}/{act}") for act in ("test", "activate", "succeed", "metadata", "certificate")),
        *((method, f"{providers}/{{provider_id}}/certificate/waiting/{{fingerprint}}") for method in ("POST", "DELETE")),
        ("DELETE", f"{providers}/{{provider_id}}/certificate/former"),
        ("POST", "/api/organizations/acme/setup-links"),
        ("POST", "/api/organizations/acme/setup-links/{link_id}/drafts/{draft_id}/activate"),
        ("POST", "/api/platform/organizations/{org_id}/setup-links"),
        ("DELETE", "/api/organizations/acme/services/{service_slug}"),
        *(("DELETE", "/api/organizations/acme"), ("DELETE", "/api/privacy/forget/{user_id}"), ("POST", "/api/user/set-password")),
        *passkeys,
        *identities,
        *platform,
    }


async def test_each_of_them_refuses_who_has_none_before_it_looks_at_anything_else(house: ReauthenticationScene) -> None:
    """Even a platform owner who owns the organization is refused."""
    house.people.change("update users set is_platform_owner = true where id = %s", house.ada.user)
    await house.sign_in()
    house.time_passes()
    asking = [one for one in ROUTES if one.step_up is not None]
    assert len(asking) > 20
    for one in asking:
        path = re.sub(r"\{.*?\}", str(house.bob.user), one.path.replace("{org_slug}", "acme"))
        await house.is_refused((one.method, path))
    assert house.people.rows("select from organizations where slug = 'acme'") != []
    assert house.people.rows("select from users where anonymized_at is not null or is_platform_owner and id <> %s", house.ada.user) == []


@pytest.mark.parametrize("what", [DISABLE, ADDRESS, TRANSFER])
async def test_without_a_second_factor_the_password_proves_it(house: ReauthenticationScene, what: tuple[str, str]) -> None:
    await house.sign_in()
    house.time_passes("9 minutes")
    house.time_passes()
    await house.is_refused(what)
    answer = await house.prove(password=PASSWORD)
    assert (answer.status, answer.json()) == (200, {"message": "Your proof is renewed."})
    assert (await house.ask(*what)).status == 200


@pytest.mark.parametrize("what", [DISABLE, RENEW, ADDRESS, TRANSFER])
async def test_with_one_a_code_proves_it_and_the_password_alone_does_not(house: ReauthenticationScene, what: tuple[str, str]) -> None:
    await house.enable_mfa_and_sign_in()
    house.time_passes()
    await house.is_refused(what)
    assert (await house.prove(password=PASSWORD)).status == 200
    await house.is_refused(what)
    assert house.totp is not None
    assert (await house.prove(code=house.totp.now())).status == 200
    assert (await house.ask(*what)).status == 200


@pytest.mark.parametrize("what", [DISABLE, RENEW, ADDRESS, TRANSFER])
async def test_a_sign_in_is_a_fresh_proof(house: ReauthenticationScene, what: tuple[str, str]) -> None:
    await house.enable_mfa_and_sign_in()
    house.time_passes("9 minutes")
    assert (await house.ask(*what)).status == 200


async def test_a_trusted_device_signs_in_with_the_password_and_has_no_second_factor_to_show_for_it(house: ReauthenticationScene) -> None:
    await house.sign_in()
    await house.enable_mfa()
    house.people.change("update mfa_secrets set enabled_at = enabled_at - interval '1 day'")
    preauth = (await house.browser.tokens(house.ada))["access_token"]
    assert (await house.browser.verify(preauth, house.codes[0], trust_device=True)).status == 200
    tokens = await house.sign_in()
    assert "mfa_required" not in tokens
    await house.is_refused(DISABLE)
    assert (await house.prove(code=house.codes[1])).status == 200
    assert (await house.ask(*DISABLE)).status == 200


async def test_a_second_factor_that_is_gone_proves_only_itself(house: ReauthenticationScene) -> None:
    await house.sign_in()
    await house.enable_mfa()
    house.password_grows_old()
    for _ in range(2):
        assert (await house.ask(*DISABLE)).status == 200
    for what in (ADDRESS, TRANSFER):
        await house.is_refused(what)


async def test_what_was_shown_of_an_earlier_one_is_no_proof_of_the_next(house: ReauthenticationScene) -> None:
    """A thief enables a second factor and disables it. Then the owner, who is warned, enables one in another session."""
    await house.sign_in()
    await house.enable_mfa()
    house.password_grows_old()
    assert (await house.ask(*DISABLE)).status == 200
    stolen = house.token
    await house.sign_in()
    await house.enable_mfa()
    for what in (DISABLE, RENEW, ADDRESS):
        await house.is_refused(what, stolen)
    assert (await house.ask(*RENEW)).status == 200


async def test_enabling_the_second_factor_proves_it_for_this_session_and_for_itself(house: ReauthenticationScene) -> None:
    await house.sign_in()
    house.time_passes()
    elsewhere = await house.tenants.token(house.tenants.session(house.ada))
    assert (await house.prove(password=PASSWORD)).status == 200
    await house.enable_mfa()
    house.password_grows_old()
    await house.is_refused(RENEW, elsewhere)
    assert (await house.ask(*RENEW)).status == 200
    # The code proves possession of the secret. The password proves whose account it is.
    await house.is_refused(ADDRESS)
    assert (await house.prove(password=PASSWORD)).status == 200
    assert (await house.ask(*ADDRESS)).status == 200
    assert (await house.ask(*DISABLE)).status == 200


async def test_a_first_second_factor_asks_for_a_fresh_proof_at_both_steps(house: ReauthenticationScene) -> None:
    await house.sign_in()
    house.time_passes()
    await house.is_refused(SET_UP)
    assert house.people.rows("select from mfa_secrets") == []
    assert (await house.prove(password=PASSWORD)).status == 200
    app = pyotp.TOTP((await house.ask(*SET_UP)).json()["secret"])
    house.log.remember(app.secret)
    house.time_passes()
    answer = await house.client.post("/api/user/mfa/verify", {"code": app.now()}, token=house.token)
    assert (answer.status, answer.error_code) == (401, "REAUTHENTICATION_REQUIRED")
    assert house.people.rows("select from mfa_secrets where enabled_at is not null") == []
    assert (await house.prove(password=PASSWORD)).status == 200
    # The secret is unchanged, so nobody must scan it again.
    answer = await house.client.post("/api/user/mfa/verify", {"code": app.now()}, token=house.token)
    assert answer.status == 200, answer.body
    house.log.remember(*answer.json()["backup_codes"])


async def test_the_second_factor_that_is_off_again_is_no_proof_for_the_next(house: ReauthenticationScene) -> None:
    await house.sign_in()
    await house.enable_mfa()
    house.password_grows_old()
    assert (await house.ask(*DISABLE)).status == 200
    await house.is_refused(SET_UP)
    assert house.people.rows("select from mfa_secrets") == []


async def test_a_member_who_must_set_one_up_needs_a_fresh_proof_too_and_gets_to_it(house: ReauthenticationScene) -> None:
    house.people.change("update all_organizations set mfa_required_since = now() - interval '1 day' where id = %s", house.acme.id)
    house.people.change("update memberships set created_at = now() - interval '1 year'")
    await house.sign_in()
    house.time_passes()
    await house.is_refused(SET_UP)
    # A person without password or code signs in again.
    await house.sign_in()
    await house.enable_mfa()


async def test_what_does_not_name_an_address_asks_for_no_proof(house: ReauthenticationScene) -> None:
    await house.sign_in()
    house.time_passes()
    assert (await house.client.request("PATCH", "/api/user", body={}, token=house.token)).status == 200
    assert (await house.client.get("/api/user", token=house.token)).status == 200


async def test_a_refresh_renews_no_proof(house: ReauthenticationScene) -> None:
    tokens = await house.sign_in()
    house.time_passes()
    fresh = (await house.browser.refresh(tokens["refresh_token"])).json()
    await house.is_refused(ADDRESS, fresh["access_token"])


async def test_what_is_opened_from_a_session_has_its_proofs_and_renews_its_own(house: ReauthenticationScene) -> None:
    await house.enable_mfa_and_sign_in()
    house.time_passes("6 minutes")
    selected = (await house.client.post("/api/organizations/acme/select", token=house.token)).json()["access_token"]
    palace = await house.client.post("/api/organizations", {"slug": "palace", "name": "Palace"}, token=house.token)
    founded = palace.json()["access_token"]
    house.people.change("update organizations set status = 'active'")
    proofs = house.people.rows(
        "select distinct proved_at, second_factor_at from sessions where id in (select id from sessions order by id desc limit 3)"
    )
    assert len(proofs) == 1
    assert (await house.ask(*RENEW, token=selected)).status == 200
    house.time_passes("6 minutes")
    for token in (house.token, selected, founded):
        await house.is_refused(RENEW, token)
    assert (await house.prove(selected, code=house.codes[0])).status == 401, "the backup codes were renewed"
    assert house.totp is not None
    assert (await house.prove(selected, code=house.totp.now())).status == 200
    assert (await house.ask(*RENEW, token=selected)).status == 200
    await house.is_refused(RENEW)


@pytest.mark.parametrize("body", [{}, {"password": PASSWORD, "code": "123456"}, {"password": ""}, {"password": "x" * 5000}, {"code": ""}])
async def test_what_is_no_proof_is_refused(house: ReauthenticationScene, body: Mapping[str, str]) -> None:
    await house.sign_in()
    answer = await house.prove(**body)
    assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
    assert house.failures() == []


async def test_a_wrong_password_counts_as_a_failed_sign_in(house: ReauthenticationScene) -> None:
    await house.sign_in()
    house.time_passes()
    answer = await house.prove(password="not this one")
    assert (answer.status, answer.error_code) == (401, "UNAUTHORIZED")
    await house.is_refused(ADDRESS)
    assert house.failures() == ["wrong_password"]
    assert 'sso_login_failures_total{reason="wrong_password"} 1.0' in (await house.client.get("/metrics")).body.decode()


async def test_it_draws_from_the_same_tries_as_signing_in(house: ReauthenticationScene) -> None:
    await house.sign_in()
    statuses = [(await house.prove(password="not this one")).status for _ in range(11)]
    assert statuses == [401] * 10 + [429]
    assert (await house.browser.login(house.ada)).status == 429
    assert (await house.prove(password=PASSWORD)).status == 429


async def test_a_good_password_gives_its_try_back(house: ReauthenticationScene) -> None:
    await house.sign_in()
    assert [(await house.prove(password=PASSWORD)).status for _ in range(12)] == [200] * 12


async def test_it_stands_under_the_limits_of_signing_in_by_address(postern: Postern, house: ReauthenticationScene) -> None:
    await house.sign_in()
    limited = unlimited(postern, SETTINGS)
    await until_refused(LOGIN, lambda: limited.post(REAUTHENTICATE, {"code": "000000"}, token=house.token))


async def test_a_wrong_code_counts_as_a_failed_sign_in(house: ReauthenticationScene) -> None:
    await house.enable_mfa_and_sign_in()
    house.time_passes()
    answer = await house.prove(code="ABCD-EFGH")
    assert (answer.status, answer.error_code) == (401, "UNAUTHORIZED")
    await house.is_refused(RENEW)
    assert house.failures() == ["wrong_code"]


async def test_codes_are_limited_over_all_sessions_of_a_person(house: ReauthenticationScene) -> None:
    await house.enable_mfa_and_sign_in()
    selected = (await house.client.post("/api/organizations/acme/select", token=house.token)).json()["access_token"]
    statuses = [(await house.prove(token, code="ABCD-EFGH")).status for token in (house.token, selected) * 6]
    assert statuses == [401] * CODES_IN_SESSION.burst + [429] * 2
    assert (await house.prove(code=house.codes[0])).status == 429


async def test_a_thief_of_a_session_cannot_use_up_the_codes_that_its_owner_signs_in_with(house: ReauthenticationScene) -> None:
    await house.enable_mfa_and_sign_in()
    assert house.totp is not None
    while (await house.prove(code="ABCD-EFGH")).status != 429:
        pass
    elsewhere = Browser(house.client, SAFARI)
    preauth = (await elsewhere.tokens(house.ada))["access_token"]
    signed_in = await elsewhere.verify(preauth, house.totp.now())
    assert signed_in.status == 200
    # A sign-in is a proof, so the owner goes on, and may end the thief's session.
    assert (await house.ask(*RENEW, token=signed_in.json()["access_token"])).status == 200


async def test_a_thief_of_the_password_cannot_use_up_the_codes_of_a_session(house: ReauthenticationScene) -> None:
    await house.enable_mfa_and_sign_in()
    assert house.totp is not None
    thief = Browser(house.client, SAFARI)
    answered = 401
    while answered == 401:
        answered = (await thief.verify((await thief.tokens(house.ada))["access_token"], "ABCD-EFGH")).status
    assert answered == 429
    assert (await house.prove(code=house.totp.now())).status == 200


async def test_without_a_second_factor_no_code_is_good(house: ReauthenticationScene) -> None:
    await house.sign_in()
    assert (await house.prove(code="123456")).status == 401


async def test_a_code_counts_once(house: ReauthenticationScene) -> None:
    await house.enable_mfa_and_sign_in()
    assert house.totp is not None
    code = house.totp.now()
    assert (await house.prove(code=code)).status == 200
    assert (await house.prove(code=code)).status == 401
    preauth = (await house.browser.tokens(house.ada))["access_token"]
    assert (await house.browser.verify(preauth, code)).status == 401


async def test_of_fifty_with_one_backup_code_one_is_let_through(house: ReauthenticationScene) -> None:
    await house.enable_mfa_and_sign_in()
    statuses: list[int] = []

    async def prove() -> None:
        statuses.append((await house.prove(code=house.codes[0])).status)

    async with trio.open_nursery() as nursery:
        for _ in range(CROWD):
            nursery.start_soon(prove)
    assert statuses.count(200) == 1
    assert set(statuses) <= {200, 401, 429}


async def test_who_may_not(house: ReauthenticationScene) -> None:
    await house.sign_in()
    assert (await house.client.post(REAUTHENTICATE, {"password": PASSWORD})).status == 401
    service = house.tenants.service(house.acme, "shop")
    house.tenants.uses(house.ada, service)
    in_service = await house.tenants.token_in(house.ada, service)
    assert (await house.prove(in_service, password=PASSWORD)).status == 403
    owner = house.people.add(platform_owner=True)
    begun = await house.client.post(
        f"/api/platform/impersonate/{house.ada.user}", {"reason": "Ticket 1"}, token=await house.people.token(owner)
    )
    impersonating = begun.json()["access_token"]
    assert (await house.prove(impersonating, password=PASSWORD)).status == 403
    house.people.change("delete from login_events")
    # Another person's password or code proves nothing.
    assert (await house.prove(await house.people.token(house.bob), password=PASSWORD)).status == 401
    assert house.failures() == ["no_password"]


async def test_a_session_that_has_ended_is_not_brought_back(house: ReauthenticationScene) -> None:
    await house.sign_in()
    house.people.change("update sessions set revoked_at = now()")
    assert (await house.prove(password=PASSWORD)).status == 401
    await house.sign_in()


async def test_a_service_whose_organization_is_suspended_keeps_nobody_from_proving_who_they_are(house: ReauthenticationScene) -> None:
    await house.sign_in()
    selected = (await house.client.post("/api/organizations/acme/select", token=house.token)).json()["access_token"]
    house.people.change("update organizations set status = 'suspended'")
    assert (await house.prove(selected, password=PASSWORD)).status == 200


async def test_it_is_on_record_and_counted_and_shows_no_secret(house: ReauthenticationScene) -> None:
    house.log.remember(PASSWORD)
    await house.sign_in()
    assert (await house.prove(password=PASSWORD)).status == 200
    (entry,) = house.people.rows("select actor_id, target_id, success, details from audit_log where action like %s", "%reauth%")
    assert entry["actor_id"] == house.ada.user
    assert (entry["target_id"], entry["success"]) == (str(house.ada.user), True)
    assert set(entry["details"]) == {"session_id", "method"}
    assert entry["details"]["method"] == "password"
    page = (await house.client.get("/metrics")).body.decode()
    assert 'sso_reauthentications_total{method="password"} 1.0' in page
    assert 'sso_reauthentications_total{method="code"} 0.0' in page


async def test_a_password_that_changes_while_it_is_checked_proves_nothing(
    house: ReauthenticationScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.sign_in()
    house.time_passes()
    hasher = house.postern.identity.reauthentication.passwords.passwords
    meanwhile(monkeypatch, hasher, "examine", lambda: house.people.change("update users set password_hash = 'another'"))
    assert (await house.prove(password=PASSWORD)).status == 401
    await house.is_refused(ADDRESS)


async def test_the_password_of_who_took_over_the_address_proves_nothing(
    house: ReauthenticationScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.sign_in()
    house.time_passes()
    other = await house.people.with_password("the password of another")
    proofs = house.postern.identity.reauthentication.passwords
    make = proofs.make

    async def move_and_make(*asked: Any, **named: Any) -> Any:
        for person, address in ((house.ada, "ada@elsewhere.example"), (other, "ada@example.org")):
            house.people.change("update users set email = %s, email_key = %s where id = %s", address, address, person.user)
        return await make(*asked, **named)

    answer_by(monkeypatch, proofs, "make", move_and_make)
    assert (await house.prove(password="the password of another")).status == 401
    await house.is_refused(ADDRESS)


@pytest.mark.parametrize("what", [ADDRESS, TRANSFER])
async def test_a_session_that_ends_before_its_proof_is_looked_at_is_over(
    house: ReauthenticationScene, what: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.sign_in()
    require = house.postern.identity.reauthentication.require

    async def end_and_require(*asked: Any) -> None:
        house.people.change("update sessions set revoked_at = now()")
        await require(*asked)

    answer_by(monkeypatch, house.postern.identity.reauthentication, "require", end_and_require)
    answer = await house.ask(*what)
    assert (answer.status, answer.error_code) == (401, "UNAUTHORIZED")


async def test_a_body_that_comes_slowly_is_asked_for_its_proof_again(house: ReauthenticationScene) -> None:
    await house.sign_in()
    body = b'{"new_owner_user_id": "%s"}' % str(house.bob.user).encode()

    async def time_passes() -> None:
        await trio.sleep(0.15)
        house.time_passes()

    headers = [("authorization", f"Bearer {house.token}"), ("content-type", "application/json")]
    answer = await house.client.exchange(*TRANSFER, headers, [body[:5], time_passes, body[5:]])
    assert (answer.status, answer.error_code) == (401, "REAUTHENTICATION_REQUIRED")
