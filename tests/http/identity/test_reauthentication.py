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
async def scene(postern: Postern, people: People, log: CapturedLog) -> ReauthenticationScene:
    scene = ReauthenticationScene(postern, people, unlimited(postern), log)
    await scene.move_in()
    return scene


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
        *(("POST", f"/api/platform/users/{{user_id}}/{act}") for act in ("deactivate", "activate", "lock")),
        ("POST", "/api/platform/signing-keys/rotate"),
        ("PUT", "/api/platform/risk-policies"),
        ("PUT", "/api/platform/text-rules"),
        *((method, "/api/platform/texts") for method in ("PATCH", "PUT")),
        *(("POST", f"/api/organizations/acme/services/{{service_slug}}/provisioning/runs/{{run_id}}/{act}") for act in ("go-on", "leave")),
        *(("POST", f"/api/organizations/acme/services/{{service_slug}}/provisioning/{act}") for act in ("activate", "end")),
        ("DELETE", "/api/organizations/acme/services/{service_slug}/provisioning"),
        *((method, "/api/organizations/acme/services/{service_slug}/signals") for method in ("PUT", "DELETE")),
        *((method, f"{place}/hooks/sign-in") for method in ("PUT", "DELETE") for place in ("/api/platform", "/api/organizations/acme")),
        *(
            ("POST", f"{place}/hooks/sign-in/{act}")
            for act in ("rotate-secret", "count", "shadow")
            for place in ("/api/platform", "/api/organizations/acme")
        ),
        *((method, f"{place}/terms") for method in ("PUT", "DELETE") for place in ("/api/platform", "/api/organizations/acme")),
        ("POST", "/api/user/requests/{request_id}/allow"),
        ("POST", "/api/organizations/acme/users/{user_id}/offboarding/evidence"),
        ("POST", "/api/platform/providers"),
        ("PATCH", "/api/platform/providers/{key}"),
        ("DELETE", "/api/platform/providers/{key}"),
        ("POST", "/api/platform/providers/{key}/activate"),
        ("PUT", "/api/platform/providers/{key}/logo"),
        ("DELETE", "/api/platform/providers/{key}/logo"),
    }
    # To connect one, tokens of people need it, and a page asks for it where an application asks: see `upstream/linking`.
    identities = {("DELETE", "/api/user/identities/{provider}")}
    routes, providers = "/api/organizations/acme/domain-routes", "/api/organizations/acme/upstream-providers"
    assert declared == {
        *(DISABLE, RENEW, TRANSFER, ("PATCH", "/api/organizations/acme/sign-in-rules")),
        ("PUT", "/api/organizations/acme/risk-policies"),
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
        *(("POST", f"{providers}/{{provider_id}}/runs/{{run_id}}/{act}") for act in ("go-on", "leave", "take-over", "keep", "end")),
        *((method, f"{providers}/{{provider_id}}/certificate/waiting/{{fingerprint}}") for method in ("POST", "DELETE")),
        *(("DELETE", f"{providers}/{{provider_id}}/certificate/former"), ("PUT", f"{providers}/{{provider_id}}/assertions")),
        ("POST", "/api/organizations/acme/setup-links"),
        ("POST", "/api/organizations/acme/setup-links/{link_id}/drafts/{draft_id}/activate"),
        ("POST", "/api/organizations/acme/proposals/{proposal_id}/apply"),
        ("POST", "/api/platform/organizations/{org_id}/setup-links"),
        ("DELETE", "/api/organizations/acme/services/{service_slug}"),
        *(("DELETE", "/api/organizations/acme"), ("DELETE", "/api/privacy/forget/{user_id}"), ("POST", "/api/user/set-password")),
        *passkeys,
        *identities,
        *platform,
    }


async def test_each_of_them_refuses_who_has_none_before_it_looks_at_anything_else(scene: ReauthenticationScene) -> None:
    """Even a platform owner who owns the organization is refused."""
    scene.people.change("update users set is_platform_owner = true where id = %s", scene.ada.user)
    await scene.sign_in()
    scene.time_passes()
    asking = [one for one in ROUTES if one.step_up is not None]
    assert len(asking) > 20
    for one in asking:
        path = re.sub(r"\{.*?\}", str(scene.bob.user), one.path.replace("{org_slug}", "acme"))
        await scene.is_refused((one.method, path))
    assert scene.people.rows("select from organizations where slug = 'acme'") != []
    assert scene.people.rows("select from users where anonymized_at is not null or is_platform_owner and id <> %s", scene.ada.user) == []


@pytest.mark.parametrize("what", [DISABLE, ADDRESS, TRANSFER])
async def test_without_a_second_factor_the_password_proves_it(scene: ReauthenticationScene, what: tuple[str, str]) -> None:
    await scene.sign_in()
    scene.time_passes("9 minutes")
    scene.time_passes()
    await scene.is_refused(what)
    answer = await scene.prove(password=PASSWORD)
    assert (answer.status, answer.json()) == (200, {"message": "Your identity is verified again."})
    assert (await scene.ask(*what)).status == 200


@pytest.mark.parametrize("what", [DISABLE, RENEW, ADDRESS, TRANSFER])
async def test_with_one_a_code_proves_it_and_the_password_alone_does_not(scene: ReauthenticationScene, what: tuple[str, str]) -> None:
    await scene.enable_mfa_and_sign_in()
    scene.time_passes()
    await scene.is_refused(what)
    assert (await scene.prove(password=PASSWORD)).status == 200
    await scene.is_refused(what)
    assert scene.totp is not None
    assert (await scene.prove(code=scene.totp.now())).status == 200
    assert (await scene.ask(*what)).status == 200


@pytest.mark.parametrize("what", [DISABLE, RENEW, ADDRESS, TRANSFER])
async def test_a_sign_in_is_a_fresh_proof(scene: ReauthenticationScene, what: tuple[str, str]) -> None:
    await scene.enable_mfa_and_sign_in()
    scene.time_passes("9 minutes")
    assert (await scene.ask(*what)).status == 200


async def test_a_trusted_device_signs_in_with_the_password_and_has_no_second_factor_to_show_for_it(scene: ReauthenticationScene) -> None:
    await scene.sign_in()
    await scene.enable_mfa()
    scene.people.change("update mfa_secrets set enabled_at = enabled_at - interval '1 day'")
    preauth = (await scene.browser.tokens(scene.ada))["access_token"]
    assert (await scene.browser.verify(preauth, scene.codes[0], trust_device=True)).status == 200
    tokens = await scene.sign_in()
    assert "mfa_required" not in tokens
    await scene.is_refused(DISABLE)
    assert (await scene.prove(code=scene.codes[1])).status == 200
    assert (await scene.ask(*DISABLE)).status == 200


async def test_a_second_factor_that_is_gone_proves_only_itself(scene: ReauthenticationScene) -> None:
    await scene.sign_in()
    await scene.enable_mfa()
    scene.password_grows_old()
    for _ in range(2):
        assert (await scene.ask(*DISABLE)).status == 200
    for what in (ADDRESS, TRANSFER):
        await scene.is_refused(what)


async def test_what_was_shown_of_an_earlier_one_is_no_proof_of_the_next(scene: ReauthenticationScene) -> None:
    """A thief enables a second factor and disables it. Then the owner, who is warned, enables one in another session."""
    await scene.sign_in()
    await scene.enable_mfa()
    scene.password_grows_old()
    assert (await scene.ask(*DISABLE)).status == 200
    stolen = scene.token
    await scene.sign_in()
    await scene.enable_mfa()
    for what in (DISABLE, RENEW, ADDRESS):
        await scene.is_refused(what, stolen)
    assert (await scene.ask(*RENEW)).status == 200


async def test_enabling_the_second_factor_proves_it_for_this_session_and_for_itself(scene: ReauthenticationScene) -> None:
    await scene.sign_in()
    scene.time_passes()
    elsewhere = await scene.tenants.token(scene.tenants.session(scene.ada))
    assert (await scene.prove(password=PASSWORD)).status == 200
    await scene.enable_mfa()
    scene.password_grows_old()
    await scene.is_refused(RENEW, elsewhere)
    assert (await scene.ask(*RENEW)).status == 200
    # The code proves possession of the secret. The password proves whose account it is.
    await scene.is_refused(ADDRESS)
    assert (await scene.prove(password=PASSWORD)).status == 200
    assert (await scene.ask(*ADDRESS)).status == 200
    assert (await scene.ask(*DISABLE)).status == 200


async def test_a_first_second_factor_asks_for_a_fresh_proof_at_both_steps(scene: ReauthenticationScene) -> None:
    await scene.sign_in()
    scene.time_passes()
    await scene.is_refused(SET_UP)
    assert scene.people.rows("select from mfa_secrets") == []
    assert (await scene.prove(password=PASSWORD)).status == 200
    app = pyotp.TOTP((await scene.ask(*SET_UP)).json()["secret"])
    scene.log.remember(app.secret)
    scene.time_passes()
    answer = await scene.client.post("/api/user/mfa/verify", {"code": app.now()}, token=scene.token)
    assert (answer.status, answer.error_code) == (401, "REAUTHENTICATION_REQUIRED")
    assert scene.people.rows("select from mfa_secrets where enabled_at is not null") == []
    assert (await scene.prove(password=PASSWORD)).status == 200
    # The secret is unchanged, so nobody must scan it again.
    answer = await scene.client.post("/api/user/mfa/verify", {"code": app.now()}, token=scene.token)
    assert answer.status == 200, answer.body
    scene.log.remember(*answer.json()["backup_codes"])


async def test_the_second_factor_that_is_off_again_is_no_proof_for_the_next(scene: ReauthenticationScene) -> None:
    await scene.sign_in()
    await scene.enable_mfa()
    scene.password_grows_old()
    assert (await scene.ask(*DISABLE)).status == 200
    await scene.is_refused(SET_UP)
    assert scene.people.rows("select from mfa_secrets") == []


async def test_a_member_who_must_set_one_up_needs_a_fresh_proof_too_and_gets_to_it(scene: ReauthenticationScene) -> None:
    scene.people.change("update all_organizations set mfa_required_since = now() - interval '1 day' where id = %s", scene.acme.id)
    scene.people.change("update memberships set created_at = now() - interval '1 year'")
    await scene.sign_in()
    scene.time_passes()
    await scene.is_refused(SET_UP)
    # A person without password or code signs in again.
    await scene.sign_in()
    await scene.enable_mfa()


async def test_what_does_not_name_an_address_asks_for_no_proof(scene: ReauthenticationScene) -> None:
    await scene.sign_in()
    scene.time_passes()
    assert (await scene.client.request("PATCH", "/api/user", body={}, token=scene.token)).status == 200
    assert (await scene.client.get("/api/user", token=scene.token)).status == 200


async def test_a_refresh_renews_no_proof(scene: ReauthenticationScene) -> None:
    tokens = await scene.sign_in()
    scene.time_passes()
    fresh = (await scene.browser.refresh(tokens["refresh_token"])).json()
    await scene.is_refused(ADDRESS, fresh["access_token"])


async def test_what_is_opened_from_a_session_has_its_proofs_and_renews_its_own(scene: ReauthenticationScene) -> None:
    await scene.enable_mfa_and_sign_in()
    scene.time_passes("6 minutes")
    selected = (await scene.client.post("/api/organizations/acme/select", token=scene.token)).json()["access_token"]
    palace = await scene.client.post("/api/organizations", {"slug": "palace", "name": "Palace"}, token=scene.token)
    founded = palace.json()["access_token"]
    scene.people.change("update organizations set status = 'active'")
    proofs = scene.people.rows(
        "select distinct proved_at, second_factor_at from sessions where id in (select id from sessions order by id desc limit 3)"
    )
    assert len(proofs) == 1
    assert (await scene.ask(*RENEW, token=selected)).status == 200
    scene.time_passes("6 minutes")
    for token in (scene.token, selected, founded):
        await scene.is_refused(RENEW, token)
    assert (await scene.prove(selected, code=scene.codes[0])).status == 401, "the backup codes were renewed"
    assert scene.totp is not None
    assert (await scene.prove(selected, code=scene.totp.now())).status == 200
    assert (await scene.ask(*RENEW, token=selected)).status == 200
    await scene.is_refused(RENEW)


@pytest.mark.parametrize("body", [{}, {"password": PASSWORD, "code": "123456"}, {"password": ""}, {"code": ""}])
async def test_what_is_no_proof_is_refused(scene: ReauthenticationScene, body: Mapping[str, str]) -> None:
    await scene.sign_in()
    answer = await scene.prove(**body)
    assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
    assert scene.failures() == []


async def test_a_wrong_password_counts_as_a_failed_sign_in(scene: ReauthenticationScene) -> None:
    await scene.sign_in()
    scene.time_passes()
    answer = await scene.prove(password="not this one")
    assert (answer.status, answer.error_code) == (401, "UNAUTHORIZED")
    await scene.is_refused(ADDRESS)
    assert scene.failures() == ["wrong_password"]
    assert 'sso_login_failures_total{reason="wrong_password"} 1.0' in (await scene.client.get("/metrics")).body.decode()


async def test_it_draws_from_the_same_tries_as_signing_in(scene: ReauthenticationScene) -> None:
    await scene.sign_in()
    statuses = [(await scene.prove(password="not this one")).status for _ in range(11)]
    assert statuses == [401] * 10 + [429]
    assert (await scene.browser.login(scene.ada)).status == 429
    assert (await scene.prove(password=PASSWORD)).status == 429


async def test_a_good_password_gives_its_try_back(scene: ReauthenticationScene) -> None:
    await scene.sign_in()
    assert [(await scene.prove(password=PASSWORD)).status for _ in range(12)] == [200] * 12


async def test_it_stands_under_the_limits_of_signing_in_by_address(postern: Postern, scene: ReauthenticationScene) -> None:
    await scene.sign_in()
    limited = unlimited(postern, SETTINGS)
    await until_refused(LOGIN, lambda: limited.post(REAUTHENTICATE, {"code": "000000"}, token=scene.token))


async def test_a_wrong_code_counts_as_a_failed_sign_in(scene: ReauthenticationScene) -> None:
    await scene.enable_mfa_and_sign_in()
    scene.time_passes()
    answer = await scene.prove(code="ABCD-EFGH")
    assert (answer.status, answer.error_code) == (401, "UNAUTHORIZED")
    await scene.is_refused(RENEW)
    assert scene.failures() == ["wrong_code"]


async def test_codes_are_limited_over_all_sessions_of_a_person(scene: ReauthenticationScene) -> None:
    await scene.enable_mfa_and_sign_in()
    selected = (await scene.client.post("/api/organizations/acme/select", token=scene.token)).json()["access_token"]
    statuses = [(await scene.prove(token, code="ABCD-EFGH")).status for token in (scene.token, selected) * 6]
    assert statuses == [401] * CODES_IN_SESSION.burst + [429] * 2
    assert (await scene.prove(code=scene.codes[0])).status == 429


async def test_a_thief_of_a_session_cannot_use_up_the_codes_that_its_owner_signs_in_with(scene: ReauthenticationScene) -> None:
    await scene.enable_mfa_and_sign_in()
    assert scene.totp is not None
    while (await scene.prove(code="ABCD-EFGH")).status != 429:
        pass
    elsewhere = Browser(scene.client, SAFARI)
    preauth = (await elsewhere.tokens(scene.ada))["access_token"]
    signed_in = await elsewhere.verify(preauth, scene.totp.now())
    assert signed_in.status == 200
    # A sign-in is a proof, so the owner goes on, and may end the thief's session.
    assert (await scene.ask(*RENEW, token=signed_in.json()["access_token"])).status == 200


async def test_a_thief_of_the_password_cannot_use_up_the_codes_of_a_session(scene: ReauthenticationScene) -> None:
    await scene.enable_mfa_and_sign_in()
    assert scene.totp is not None
    thief = Browser(scene.client, SAFARI)
    answered = 401
    while answered == 401:
        answered = (await thief.verify((await thief.tokens(scene.ada))["access_token"], "ABCD-EFGH")).status
    assert answered == 429
    assert (await scene.prove(code=scene.totp.now())).status == 200


async def test_without_a_second_factor_no_code_is_good(scene: ReauthenticationScene) -> None:
    await scene.sign_in()
    assert (await scene.prove(code="123456")).status == 401


async def test_a_code_counts_once(scene: ReauthenticationScene) -> None:
    await scene.enable_mfa_and_sign_in()
    assert scene.totp is not None
    code = scene.totp.now()
    assert (await scene.prove(code=code)).status == 200
    assert (await scene.prove(code=code)).status == 401
    preauth = (await scene.browser.tokens(scene.ada))["access_token"]
    assert (await scene.browser.verify(preauth, code)).status == 401


async def test_of_fifty_with_one_backup_code_one_is_let_through(scene: ReauthenticationScene) -> None:
    await scene.enable_mfa_and_sign_in()
    statuses: list[int] = []

    async def prove() -> None:
        statuses.append((await scene.prove(code=scene.codes[0])).status)

    async with trio.open_nursery() as nursery:
        for _ in range(CROWD):
            nursery.start_soon(prove)
    assert statuses.count(200) == 1
    assert set(statuses) <= {200, 401, 429}


async def test_who_may_not(scene: ReauthenticationScene) -> None:
    await scene.sign_in()
    assert (await scene.client.post(REAUTHENTICATE, {"password": PASSWORD})).status == 401
    service = scene.tenants.service(scene.acme, "shop")
    scene.tenants.uses(scene.ada, service)
    in_service = await scene.tenants.token_in(scene.ada, service)
    assert (await scene.prove(in_service, password=PASSWORD)).status == 403
    owner = scene.people.add(platform_owner=True)
    begun = await scene.client.post(
        f"/api/platform/impersonate/{scene.ada.user}", {"reason": "Ticket 1"}, token=await scene.people.token(owner)
    )
    impersonating = begun.json()["access_token"]
    assert (await scene.prove(impersonating, password=PASSWORD)).status == 403
    scene.people.change("delete from login_events")
    # Another person's password or code proves nothing.
    assert (await scene.prove(await scene.people.token(scene.bob), password=PASSWORD)).status == 401
    assert scene.failures() == ["no_password"]


async def test_a_session_that_has_ended_is_not_brought_back(scene: ReauthenticationScene) -> None:
    await scene.sign_in()
    scene.people.change("update sessions set revoked_at = now()")
    assert (await scene.prove(password=PASSWORD)).status == 401
    await scene.sign_in()


async def test_a_service_whose_organization_is_suspended_keeps_nobody_from_proving_who_they_are(scene: ReauthenticationScene) -> None:
    await scene.sign_in()
    selected = (await scene.client.post("/api/organizations/acme/select", token=scene.token)).json()["access_token"]
    scene.people.change("update organizations set status = 'suspended'")
    assert (await scene.prove(selected, password=PASSWORD)).status == 200


async def test_it_is_on_record_and_counted_and_shows_no_secret(scene: ReauthenticationScene) -> None:
    scene.log.remember(PASSWORD)
    await scene.sign_in()
    assert (await scene.prove(password=PASSWORD)).status == 200
    (entry,) = scene.people.rows("select actor_id, target_id, success, details from audit_log where action like %s", "%reauth%")
    assert entry["actor_id"] == scene.ada.user
    assert (entry["target_id"], entry["success"]) == (str(scene.ada.user), True)
    assert set(entry["details"]) == {"session_id", "method"}
    assert entry["details"]["method"] == "password"
    page = (await scene.client.get("/metrics")).body.decode()
    assert 'sso_reauthentications_total{method="password"} 1.0' in page
    assert 'sso_reauthentications_total{method="code"} 0.0' in page


async def test_a_password_that_changes_while_it_is_checked_proves_nothing(
    scene: ReauthenticationScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.sign_in()
    scene.time_passes()
    hasher = scene.postern.identity.reauthentication.passwords.passwords
    meanwhile(monkeypatch, hasher, "examine", lambda: scene.people.change("update users set password_hash = 'another'"))
    assert (await scene.prove(password=PASSWORD)).status == 401
    await scene.is_refused(ADDRESS)


async def test_the_password_of_who_took_over_the_address_proves_nothing(
    scene: ReauthenticationScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.sign_in()
    scene.time_passes()
    other = await scene.people.with_password("the password of another")
    proofs = scene.postern.identity.reauthentication.passwords
    make = proofs.make

    async def move_and_make(*asked: Any, **named: Any) -> Any:
        for person, address in ((scene.ada, "ada@elsewhere.example"), (other, "ada@example.org")):
            scene.people.change("update users set email = %s, email_key = %s where id = %s", address, address, person.user)
        return await make(*asked, **named)

    answer_by(monkeypatch, proofs, "make", move_and_make)
    assert (await scene.prove(password="the password of another")).status == 401
    await scene.is_refused(ADDRESS)


@pytest.mark.parametrize("what", [ADDRESS, TRANSFER])
async def test_a_session_that_ends_before_its_proof_is_looked_at_is_over(
    scene: ReauthenticationScene, what: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.sign_in()
    require = scene.postern.identity.reauthentication.require

    async def end_and_require(*asked: Any) -> None:
        scene.people.change("update sessions set revoked_at = now()")
        await require(*asked)

    answer_by(monkeypatch, scene.postern.identity.reauthentication, "require", end_and_require)
    answer = await scene.ask(*what)
    assert (answer.status, answer.error_code) == (401, "UNAUTHORIZED")


async def test_a_body_that_comes_slowly_is_asked_for_its_proof_again(scene: ReauthenticationScene) -> None:
    await scene.sign_in()
    body = b'{"new_owner_user_id": "%s"}' % str(scene.bob.user).encode()

    async def time_passes() -> None:
        await trio.sleep(0.15)
        scene.time_passes()

    headers = [("authorization", f"Bearer {scene.token}"), ("content-type", "application/json")]
    answer = await scene.client.exchange(*TRANSFER, headers, [body[:5], time_passes, body[5:]])
    assert (answer.status, answer.error_code) == (401, "REAUTHENTICATION_REQUIRED")
