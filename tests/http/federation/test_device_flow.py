"""The device flow over HTTP: codes, polls, and the devices that get in."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID, uuid4

import pytest
import trio

from core.domain.errors import Forbidden, NotFound, OrganizationNotActive, RateLimited, Refusal, Unauthorized, Unavailable
from core.domain.federation.oauth.device_flow import ENTRIES_OF_PERSON, AskingClient, DeviceCodeExpired, UserCodeUnknown
from core.domain.identifiers import ClientId, DeviceCodeId, ServiceId
from core.domain.rate_limits import RateLimit
from core.domain.secrets import Secret
from core.usecases.platform.account_administration import AccountAdministration
from entrypoints.bootstrap import Postern
from entrypoints.http.application import build_application
from entrypoints.http.routes.federation import grants
from tests.conftest import CapturedLog
from tests.http.client import Client, Received, refused
from tests.http.conftest import SETTINGS
from tests.http.federation.devices import BROWSER, CODE, DEVICE_CODE, VERIFY, Codes, Sets
from tests.http.federation.relying import FORM, basic, claims_of, oauth
from tests.http.identity.test_sign_in import last_trips
from tests.http.people import BASE_URL, People
from tests.http.signing_in import unlimited
from tests.meanwhile import meanwhile

PENDING: Final = (400, "authorization_pending")


@pytest.fixture
def sets(postern: Postern, people: People, log: CapturedLog) -> Sets:
    return Sets(postern, people, unlimited(postern), log)


async def test_a_device_gets_in_when_its_person_approves(sets: Sets) -> None:
    codes = await sets.ask_for_codes(scope="openid email unknown")
    told = dict(codes.told)
    assert (told.pop("expires_in"), told.pop("interval")) == (300, 5)
    assert told == {
        "device_code": codes.device_code,
        "user_code": codes.user_code,
        "verification_uri": f"{BASE_URL}/ui/device",
        "verification_uri_complete": f"{BASE_URL}/ui/device?user_code={codes.user_code}",
    }
    answer = await sets.poll(codes)
    assert oauth(answer) == PENDING
    assert answer.json()["error_code"] == "DEVICE_CODE_PENDING"

    tokens = await sets.let_in(codes)
    assert (tokens["token_type"], tokens["expires_in"], tokens["scope"]) == ("Bearer", 900, "openid email")
    claims = claims_of(tokens["access_token"])
    assert (claims["sub"], claims["aud"], claims["client_id"]) == (str(sets.ada.user), "service:acme/tv", sets.tv.client_id)
    assert claims_of(tokens["id_token"])["email"] == "ada@example.org"
    (session,) = sets.people.rows("select * from sessions where id = %s", claims["sid"])
    assert (session["parent_id"], session["depth"], session["service_id"]) == (None, 0, sets.tv.service.id)
    assert (session["scopes"], session["proved_at"] is not None) == (["openid", "email"], True)
    assert (await sets.client.get("/api/user", token=tokens["access_token"])).ok()["service"] == "tv"
    refreshed = sets.kept((await sets.refresh(sets.tv, tokens["refresh_token"])).ok())
    assert claims_of(refreshed["access_token"])["sid"] == claims["sid"]
    # A device code works once.
    assert oauth(await sets.poll(codes)) == (400, "invalid_grant")


async def test_the_sign_in_and_the_device_are_on_record(sets: Sets) -> None:
    tokens = await sets.let_in(await sets.ask_for_codes())
    (event,) = sets.people.rows("select provider, service_id, success, host(address) as address, device_id from login_events")
    (device,) = sets.people.rows("select id, name from devices where user_id = %s", sets.ada.user)
    assert event == {
        "provider": "device",
        "service_id": sets.tv.service.id,
        "success": True,
        "address": "192.0.2.1",
        "device_id": device["id"],
    }
    (approved,) = sets.audited("user.device.approved")
    assert (approved["organization_id"], approved["actor_id"], approved["target_id"]) == (
        sets.acme.id,
        sets.ada.user,
        str(sets.tv.service.id),
    )
    # The person revokes the device, which ends the session.
    token = await sets.tenants.token(sets.ada)
    assert (await sets.client.request("DELETE", f"/api/user/devices/{device['id']}", token=token)).status == 200
    assert (await sets.client.get("/api/user", token=tokens["access_token"])).status == 401


async def test_who_denies_is_on_record_where_no_organization_reads(sets: Sets) -> None:
    codes = await sets.ask_for_codes()
    await sets.deny(codes)
    assert oauth(await sets.poll(codes)) == (400, "access_denied")
    (denied,) = sets.audited("user.device.denied")
    assert (denied["organization_id"], denied["actor_id"]) == (None, sets.ada.user)
    assert sets.people.rows("select * from service_users") == []


async def test_a_client_with_a_secret_shows_it(sets: Sets) -> None:
    codes = await sets.ask_for_codes(sets.box)
    alone = {"device_code": codes.device_code}
    await sets.approve(codes)
    for headers, fields in (
        ((), alone),
        ((), {**alone, "client_id": sets.box.client_id}),
        ((), {**alone, "client_id": sets.box.client_id, "client_secret": "wrong"}),
        ((basic(sets.box.client_id, "wrong"),), alone),
    ):
        assert oauth(await sets.ask(fields=fields, headers=headers)) == (401, "invalid_client")
    tokens = sets.kept((await sets.ask(fields={**alone, "grant_type": DEVICE_CODE}, headers=sets.box.basic)).ok())
    assert claims_of(tokens["access_token"])["aud"] == "service:acme/box"
    # The address of the client's servers says nothing about the person.
    assert sets.people.rows("select address from login_events") == [{"address": None}]


async def test_a_client_with_a_key_shows_it(sets: Sets) -> None:
    sets.keyed(sets.page)
    codes = await sets.ask_for_codes(sets.page)
    await sets.approve(codes)
    assert oauth(await sets.poll(codes)) == (401, "invalid_client")
    shown = {
        "client_assertion": sets.assertion(sets.page),
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
    }
    sets.kept((await sets.poll(codes, **shown)).ok())


async def test_a_client_may_ask_by_form_and_with_its_credential(sets: Sets) -> None:
    for secret, status in ((sets.box.secret or "", 200), ("wrong", 401)):
        body = urlencode({"scope": "email", "org": ""}).encode()
        answer = await sets.client.post(CODE, body, headers=[FORM, basic(sets.box.client_id, secret)])
        assert answer.status == status


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, (400, "invalid_request")),
        ({"client_id": "tv"}, (401, "invalid_client")),
        ({"client_id": str(uuid4())}, (401, "invalid_client")),
        ({"client_id": "tv's", "org": "globex"}, (401, "invalid_client")),
        ({"client_id": "tv's", "org": "acme", "service": "shop"}, (401, "invalid_client")),
        ({"client_id": "tv's", "scope": "everything"}, (400, "invalid_scope")),
    ],
)
async def test_who_gets_no_code(fields: dict[str, str], told: tuple[int, str], sets: Sets) -> None:
    sent = {**fields, "client_id": sets.tv.client_id} if fields.get("client_id") == "tv's" else fields
    assert oauth(await sets.client.post(CODE, sent)) == told
    assert oauth(await sets.ask(CODE, sent)) == told


async def test_a_suspended_organization_has_no_devices(sets: Sets) -> None:
    codes = await sets.ask_for_codes()
    sets.people.change("update organizations set status = 'suspended'")
    assert oauth(await sets.client.post(CODE, {"client_id": sets.tv.client_id})) == (403, "access_denied")
    assert oauth(await sets.poll(codes)) == (403, "access_denied")
    assert refused(await sets.client.post(VERIFY, {"user_code": codes.user_code})) == (403, "ORGANIZATION_NOT_ACTIVE")


async def test_a_service_may_have_a_page_of_its_own(sets: Sets) -> None:
    sets.people.change("update services set device_activation_uri = 'https://tv.example/link' where id = %s", sets.tv.service.id)
    told = (await sets.ask_for_codes()).told
    assert told["verification_uri"] == "https://tv.example/link"
    assert told["verification_uri_complete"] == f"https://tv.example/link?user_code={told['user_code']}"


async def test_what_a_user_code_belongs_to(sets: Sets) -> None:
    codes = await sets.ask_for_codes()
    for typed in (codes.user_code, codes.user_code.lower(), codes.user_code.replace("-", ""), f" {codes.user_code.replace('-', ' ')}"):
        verified = (await sets.client.post(VERIFY, {"user_code": typed})).ok()
        assert verified == {"org_slug": "acme", "service_slug": "tv", "available_providers": ["password"]}
    for typed in ("BCDF-GHJK", "nonsense", "x" * 100):
        assert refused(await sets.client.post(VERIFY, {"user_code": typed})) == (404, "NOT_FOUND")
    sets.expire()
    assert refused(await sets.client.post(VERIFY, {"user_code": codes.user_code})) == (400, "DEVICE_CODE_EXPIRED")
    assert oauth(await sets.poll(codes)) == (400, "expired_token")
    other = await sets.ask_for_codes()
    await sets.approve(other)
    assert refused(await sets.client.post(VERIFY, {"user_code": other.user_code})) == (404, "NOT_FOUND")


async def test_polls_that_come_too_soon_are_slowed_down(sets: Sets) -> None:
    codes = await sets.ask_for_codes()
    seen = [oauth(await sets.poll(codes))[1] for _ in range(3)]
    sets.rest()
    seen.append(oauth(await sets.poll(codes))[1])
    assert seen == ["authorization_pending", "slow_down", "slow_down", "authorization_pending"]
    assert sets.people.rows("select poll_interval from device_codes") == [{"poll_interval": 15}]


async def test_a_library_may_try_two_ways_to_authenticate_in_one_try(sets: Sets) -> None:
    """Go's library authenticates by the header first. It takes every answer without tokens for a failure, and repeats the poll
    by the body.
    """
    for application in (sets.box, sets.tv):
        fields = {"grant_type": DEVICE_CODE, "device_code": (await sets.ask_for_codes(application)).device_code}
        for _ in range(3):
            sets.rest(6)
            assert oauth(await sets.ask(fields=fields, headers=application.basic)) == PENDING
            assert oauth(await sets.ask(fields={**fields, **application.posted})) == PENDING
        # Both requests count as one poll. The interval is counted from the first.
        assert oauth(await sets.ask(fields={**fields, **application.posted})) == (400, "slow_down")
        assert oauth(await sets.ask(fields=fields, headers=application.basic)) == (400, "slow_down")
        sets.rest(2)
        assert oauth(await sets.ask(fields={**fields, **application.posted})) == (400, "slow_down")
    assert [row["poll_interval"] for row in sets.people.rows("select poll_interval from device_codes")] == [20, 20]


async def test_a_try_that_came_too_soon_is_told_so_in_both_ways(sets: Sets) -> None:
    """Go's library reads only the second answer."""
    for application in (sets.box, sets.tv):
        fields = {"grant_type": DEVICE_CODE, "device_code": (await sets.ask_for_codes(application)).device_code}
        seen = []
        for _ in range(3):
            sets.rest(3)
            for way, told in ((fields, application.basic), ({**fields, **application.posted}, [])):
                seen.append(oauth(await sets.ask(fields=way, headers=told)))
        assert seen == [PENDING, PENDING, *[(400, "slow_down")] * 4]
    assert [row["poll_interval"] for row in sets.people.rows("select poll_interval from device_codes")] == [15, 15]


async def test_a_poll_is_one_round_trip(sets: Sets) -> None:
    await sets.ask_for_codes()
    for application in (sets.tv, sets.box):
        codes = await sets.ask_for_codes(application)
        assert last_trips(sets.log) == 1
        await sets.poll(codes)
        assert last_trips(sets.log) == 1


async def test_another_client_polls_in_vain(sets: Sets) -> None:
    codes = await sets.ask_for_codes()
    await sets.approve(codes)
    fields = {"device_code": codes.device_code, "grant_type": DEVICE_CODE}
    for other in (sets.phone, sets.shop, sets.theirs):
        assert oauth(await sets.ask(fields={**fields, **other.posted})) == (400, "invalid_grant")
    assert oauth(await sets.ask(fields={**fields, "client_id": str(uuid4())})) == (401, "invalid_client")
    assert oauth(await sets.ask(fields={"device_code": "another"})) == (400, "invalid_grant")
    assert oauth(await sets.ask(fields={"grant_type": DEVICE_CODE, **sets.tv.posted})) == (400, "invalid_request")
    sets.kept((await sets.ask(fields={**fields, **sets.tv.posted})).ok())


async def test_of_fifty_polls_one_gets_in(sets: Sets) -> None:
    for _ in range(2):
        codes = await sets.ask_for_codes()
        await sets.approve(codes)
        answers: list[Received] = []

        async def one(codes: Codes = codes, answers: list[Received] = answers) -> None:
            answers.append(await sets.poll(codes))

        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(one)
        assert Counter(answer.status for answer in answers) == {200: 1, 400: 49}
        assert {answer.json()["error"] for answer in answers if answer.status == 400} == {"invalid_grant"}
        (won,) = [answer.json() for answer in answers if answer.status == 200]
        sets.kept(won)
        assert (await sets.client.get("/api/user", token=won["access_token"])).status == 200
    assert sets.living() == 2


async def test_a_poll_that_another_overtakes_gets_nothing(sets: Sets, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = await sets.ask_for_codes()
    await sets.approve(codes)
    meanwhile(
        monkeypatch,
        sets.postern.federation.device_flow.codes,
        "poll",
        lambda: sets.people.change("update device_codes set state = 'consumed'"),
    )
    assert oauth(await sets.poll(codes)) == (400, "invalid_grant")


async def _revoke_sessions(sets: Sets) -> None:
    administration: AccountAdministration = sets.postern.platform.account_administration
    await administration.revoke_sessions(sets.caller().email, "operator")


async def _sign_out_others(sets: Sets) -> None:
    await sets.postern.identity.sessions.sign_out_others(sets.caller().user, sets.caller().session, BROWSER.actor(sets.caller().user))


async def _take_back(sets: Sets) -> None:
    sets.people.change(
        "insert into consents (id, user_id, service_id, scopes, granted_at) values (%s, %s, %s, '{openid}', now())",
        sets.postern.foundation.ids.new(),
        sets.ada.user,
        sets.tv.service.id,
    )
    await sets.postern.federation.consents.revoke(sets.caller().user, ServiceId(sets.tv.service.id), BROWSER.actor(sets.caller().user))


def _change(statement: str) -> Callable[[Sets], Any]:
    async def changed(sets: Sets) -> None:
        await trio.lowlevel.checkpoint()
        sets.people.change(statement)

    return changed


AFTER_THE_APPROVAL: Final = {
    "deactivated": (_change("update users set deactivated_at = now()"), (400, "access_denied")),
    "new password": (_change("update users set password_changed_at = now()"), (400, "access_denied")),
    "sessions revoked": (_revoke_sessions, (400, "access_denied")),
    "signed out everywhere else": (_sign_out_others, (400, "access_denied")),
    "members only": (_change("update services set sign_in_policy = 'members'"), (400, "access_denied")),
    "suspended": (_change("update organizations set status = 'suspended'"), (403, "access_denied")),
    "service deleted": (_change("update all_services set deleted_at = now()"), (400, "invalid_grant")),
    "expired": (_change("update device_codes set expires_at = now()"), (400, "expired_token")),
    "consent taken back": (_take_back, (400, "access_denied")),
    "sign-in too old": (_change("update organizations set session_hours = 1"), (400, "invalid_grant")),
}


@pytest.mark.parametrize("what", AFTER_THE_APPROVAL)
async def test_what_happens_between_the_approval_and_the_poll(what: str, sets: Sets) -> None:
    happens, told = AFTER_THE_APPROVAL[what]
    codes = await sets.ask_for_codes()
    sets.people.change("update sessions set proved_at = now() - interval '61 minutes'")
    await sets.approve(codes)
    await happens(sets)
    assert oauth(await sets.poll(codes)) == told
    assert sets.living() == 0


async def test_a_secret_that_is_gone_lets_no_device_in(sets: Sets) -> None:
    codes = await sets.ask_for_codes(sets.box)
    await sets.approve(codes)
    sets.secret_of(sets.box.service)
    sets.people.change("delete from client_secrets where digest = %s", Secret(sets.box.secret or "").digest())
    assert oauth(await sets.poll(codes)) == (401, "invalid_client")


@pytest.mark.parametrize("service_type", ["web", "api"])
async def test_a_device_code_of_a_client_that_loses_its_credential_is_worth_nothing_alone(sets: Sets, service_type: str) -> None:
    """The code was given to a client that authenticates. A client that has always been public needs no credential."""
    sets.people.change("update services set service_type = %s where id = %s", service_type, sets.box.service.id)
    codes = await sets.ask_for_codes(sets.box)
    await sets.approve(codes)
    sets.people.change("delete from client_secrets where digest = %s", Secret(sets.box.secret or "").digest())
    alone = replace(codes, application=replace(sets.box, secret=None))
    for shown in ({}, {"client_id": sets.box.client_id}):
        assert oauth(await sets.poll(alone, **shown))[1] in {"invalid_grant", "invalid_client"}
    assert sets.living() == 0
    sets.people.change("update services set credential_removed_at = credential_removed_at - interval '1 minute'")
    later = await sets.ask_for_codes(alone.application)
    await sets.let_in(later)


async def test_signing_out_in_the_browser_leaves_the_device(sets: Sets) -> None:
    codes = await sets.ask_for_codes()
    await sets.approve(codes)
    signed_out = sets.caller()
    await sets.postern.identity.sessions.sign_out(signed_out.session, BROWSER.actor(signed_out.user))
    token = sets.kept((await sets.poll(codes)).ok())["access_token"]
    assert (await sets.client.get("/api/user", token=token)).status == 200
    await _revoke_sessions(sets)
    assert (await sets.client.get("/api/user", token=token)).status == 401


async def test_one_person_decides_and_may_repeat_it(sets: Sets) -> None:
    flow, eve = sets.postern.federation.device_flow, sets.people.add("eve@example.org")
    codes, denied = await sets.ask_for_codes(), await sets.ask_for_codes()
    id_, of_denied = (await sets.approve(codes)).id, (await sets.deny(denied)).id
    assert (await flow.approve(id_, sets.caller(), BROWSER)).id == id_
    assert (await flow.deny(of_denied, sets.caller(), BROWSER)).id == of_denied
    await sets.poll(codes)
    assert (await flow.approve(id_, sets.caller(), BROWSER)).id == id_
    for code, decide in ((id_, flow.deny), (of_denied, flow.approve)):
        for person in (sets.ada, eve):
            with pytest.raises(UserCodeUnknown):
                await decide(code, sets.caller(person), BROWSER)
    for decide in (flow.approve, flow.deny):
        with pytest.raises(UserCodeUnknown):
            await decide(DeviceCodeId(uuid4()), sets.caller(), BROWSER)


@pytest.mark.parametrize("decide", ["approve", "deny"])
async def test_of_two_who_decide_at_once_one_does(decide: str, sets: Sets, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once another person decides first, and once the same person in another tab."""
    eve = sets.people.add("eve@example.org")
    flow = sets.postern.federation.device_flow
    state = "approved" if decide == "approve" else "denied"
    for quicker in (eve, sets.ada):
        found = await sets.entered(await sets.ask_for_codes())
        statement = (
            "update device_codes set state = %s, user_id = %s, decided_at = now(), authenticated_by = '{pwd}' where state = 'pending'"
        )
        with monkeypatch.context() as patch:
            meanwhile(patch, flow.codes, "find", partial(sets.people.change, statement, state, quicker.user))
            if quicker == sets.ada:
                assert (await getattr(flow, decide)(found.id, sets.caller(), BROWSER)).id == found.id
            else:
                with pytest.raises(UserCodeUnknown):
                    await getattr(flow, decide)(found.id, sets.caller(), BROWSER)


REFUSED_APPROVALS: Final = {
    "expired": ("update device_codes set expires_at = now()", DeviceCodeExpired),
    "suspended": ("update organizations set status = 'suspended'", OrganizationNotActive),
    "service deleted": ("update all_services set deleted_at = now()", NotFound),
    "members only": ("update services set sign_in_policy = 'members'", Forbidden),
    "deactivated": ("update users set deactivated_at = now()", Unauthorized),
    "session ended": ("update sessions set revoked_at = now()", Unauthorized),
}


@pytest.mark.parametrize("why", REFUSED_APPROVALS)
async def test_who_may_not_approve(why: str, sets: Sets) -> None:
    statement, refusal = REFUSED_APPROVALS[why]
    codes = await sets.ask_for_codes()
    found = await sets.entered(codes)
    sets.people.change(statement)
    with pytest.raises(refusal):
        await sets.postern.federation.device_flow.approve(found.id, sets.caller(), BROWSER)
    assert sets.people.rows("select state from device_codes") == [{"state": "pending"}]


async def test_members_get_in_where_only_members_do(sets: Sets) -> None:
    sets.people.change("update services set sign_in_policy = 'members'")
    sets.tenants.join(sets.ada, sets.acme, "admin")
    tokens = await sets.let_in(await sets.ask_for_codes(scope="openid organization"))
    assert claims_of(tokens["id_token"])["organization"]["role"] == "admin"


async def test_the_second_factor_of_the_browser_counts_for_the_device(sets: Sets) -> None:
    sets.people.change("update sessions set second_factor_at = proved_at, authenticated_by = '{pwd,otp,mfa}'")
    tokens = await sets.let_in(await sets.ask_for_codes())
    assert claims_of(tokens["access_token"])["amr"] == ["pwd", "otp", "mfa"]


async def test_one_person_may_not_try_code_after_code(sets: Sets) -> None:
    flow, user = sets.postern.federation.device_flow, sets.caller().user
    seen: list[type[Refusal]] = []
    for _ in range(ENTRIES_OF_PERSON.burst + 1):
        with pytest.raises(Refusal) as refusal:
            await flow.find_entered("BCDF-GHJK", user)
        seen.append(type(refusal.value))
    assert seen == [UserCodeUnknown] * ENTRIES_OF_PERSON.burst + [RateLimited]


async def test_a_user_code_that_is_on_a_screen_is_made_anew(sets: Sets, monkeypatch: pytest.MonkeyPatch) -> None:
    made = iter(["BCDFGHJK", "BCDFGHJK", "LMNPQRST", *["BCDFGHJK"] * 3])
    monkeypatch.setattr(type(sets.postern.foundation.secrets), "letters", lambda *_: Secret(next(made)))
    assert [(await sets.ask_for_codes()).user_code for _ in range(2)] == ["BCDF-GHJK", "LMNP-QRST"]
    with pytest.raises(Unavailable):
        await sets.postern.federation.device_flow.ask(AskingClient(id=ClientId(str(UUID(sets.tv.client_id)))), (), BROWSER)


async def test_the_device_group_has_one_limit_for_each_address(sets: Sets) -> None:
    limited = Client(build_application(sets.postern, SETTINGS))
    codes = await sets.ask_for_codes(client=limited)
    answers = [await limited.post("/auth/token", {"device_code": codes.device_code}) for _ in range(5)]
    answers += [await limited.post(VERIFY, {"user_code": "BCDF-GHJK"}) for _ in range(4)]
    assert 429 not in {answer.status for answer in answers}
    for path, body in (
        ("/auth/token", {"grant_type": DEVICE_CODE}),
        (VERIFY, {"user_code": codes.user_code}),
        (CODE, {"client_id": sets.tv.client_id}),
    ):
        answer = await limited.post(path, body)
        assert answer.status == 429
        assert 1 <= int(answer.header("retry-after") or 0) <= 5
    # After most other error codes a device gives up (RFC 8628 section 3.5). An unknown code gets the same error.
    for device_code in (codes.device_code, "nobody's"):
        answer = await limited.post("/auth/token", {"device_code": device_code})
        assert oauth(answer) == (429, "slow_down")
        assert 1 <= int(answer.header("retry-after") or 0) <= 5
    await sets.approve(codes)
    sets.kept((await sets.client.post("/auth/token", {"device_code": codes.device_code})).ok())


async def test_a_client_with_a_secret_polls_from_one_address_for_many_people(sets: Sets) -> None:
    limited = Client(build_application(sets.postern, SETTINGS))
    codes = await sets.ask_for_codes(sets.box, client=limited)
    fields = {"device_code": codes.device_code, **sets.box.posted}
    assert {(await limited.post("/auth/token", fields)).status for _ in range(25)} == {400}
    await sets.approve(codes)
    sets.kept((await limited.post("/auth/token", fields)).ok())
    # Wrong secrets count against the address.
    wrong = {**fields, "client_secret": "wrong"}
    assert Counter([(await limited.post("/auth/token", wrong)).status for _ in range(12)]) == {401: 9, 429: 3}


async def test_a_client_whose_bucket_is_empty_does_not_lose_its_tokens(sets: Sets, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grants, "OF_CLIENT", RateLimit("client", burst=1, seconds_per_request=1000))
    limited = Client(build_application(sets.postern, SETTINGS))
    codes = await sets.ask_for_codes(sets.box)
    fields = {"device_code": codes.device_code, **sets.box.posted}
    assert [oauth(await limited.post("/auth/token", fields)) for _ in range(2)] == [PENDING, (429, "slow_down")]
    await sets.approve(codes)
    sets.kept((await limited.post("/auth/token", fields)).ok())


async def test_how_far_devices_came_is_counted(sets: Sets) -> None:
    await sets.let_in(await sets.ask_for_codes())
    await sets.deny(await sets.ask_for_codes())
    page = sets.postern.foundation.metrics.render().decode()
    for step, times in (("started", 2), ("approved", 1), ("denied", 1), ("let_in", 1)):
        assert f'sso_device_flow_total{{step="{step}"}} {times}.0' in page
