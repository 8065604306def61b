"""A yes from afar: an application asks for a person who is elsewhere, the person answers, and the application fetches its tokens once."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from core.domain.federation.backchannel_requests import LONGEST_EXPIRY, SHORTEST_EXPIRY
from core.domain.identifiers import BackchannelRequestId, ServiceId, UserId
from core.domain.record.events import Actor
from tests.http.cast import all_at_once
from tests.http.federation.backchannel.asking import BLOCKED, CIBA, ORDERS, READ, REQUESTS, RULES, Afar
from tests.http.federation.relying import claims_of, oauth
from tests.http.people import Person

PENDING: Final = (400, "authorization_pending")
SLOW: Final = (400, "slow_down")
DENIED: Final = (400, "access_denied")
GONE: Final = (400, "invalid_grant")
EXPIRED: Final = (400, "expired_token")


async def test_an_agent_gets_its_yes(afar: Afar) -> None:
    request = await afar.requested()
    assert oauth(await afar.poll(request)) == PENDING
    assert not afar.people.rows("select id from sessions where service_id = %s", afar.helper.service.id)
    (shown,) = await afar.waiting()
    assert (shown["service_name"], shown["organization_name"], shown["is_agent"]) == ("Helper", "Acme", True)
    assert (shown["identifier"], shown["api"], shown["foreign_scopes"], shown["says"]) == (
        *(ORDERS, "Orders", ["orders:read", "orders:write"]),
        ["See your orders", "Order in your name"],
    )
    assert shown["binding_message"] == "Invoice 4711"
    # The person takes a tick away, and chooses the end.
    assert (await afar.allow(scopes=[READ], days=7)).status == 204
    assert await afar.waiting() == []
    tokens = afar.kept((await afar.poll(request)).ok())
    assert (tokens["scope"], tokens["expires_in"], "id_token" in tokens) == (READ, 300, False)
    claims = claims_of(tokens["access_token"])
    assert (claims["sub"], claims["act"], claims["aud"]) == (str(afar.ada.user), {"sub": afar.helper.client_id}, ORDERS)
    assert abs(afar.grant()["expires_at"] - datetime.now(UTC) - timedelta(days=7)) < timedelta(minutes=5)
    # Once only.
    assert oauth(await afar.poll(request)) == GONE
    # It hangs on no browser.
    afar.people.change("update sessions set revoked_at = now() where id = %s", afar.ada.session)
    assert (await afar.refresh(afar.helper, tokens["refresh_token"])).status == 200
    (allowed,) = afar.audited("user.afar_request.allowed")
    assert (allowed["actor_id"], allowed["details"]["resources"]) == (afar.ada.user, [ORDERS])
    (given,) = afar.audited("user.consent.given")
    assert given["details"]["resources"] == [ORDERS]


async def test_a_confidential_application_signs_the_person_in(afar: Afar) -> None:
    tokens = await afar.fetched(afar.shop, scope="openid email", resource=None)
    assert claims_of(tokens["id_token"])["sub"] == str(afar.ada.user)
    assert claims_of(tokens["id_token"])["email"] == afar.ada.email
    afar.people.change("update sessions set revoked_at = now() where id = %s", afar.ada.session)
    assert (await afar.refresh(afar.shop, tokens["refresh_token"])).status == 200
    await afar.requested(afar.shop, scope="openid orders:read")
    assert oauth(await afar.send(afar.shop, scope="email", resource=None)) == (400, "invalid_scope")


async def test_of_fifty_racers_one_gets_the_tokens(afar: Afar) -> None:
    request = await afar.requested()
    await afar.allow()
    answers = await all_at_once(*[lambda: afar.poll(request)] * 50)
    assert sorted(answer.status for answer in answers) == [200, *[400] * 49]
    assert {oauth(answer) for answer in answers if answer.status == 400} == {GONE}
    (count,) = afar.people.rows("select count(*) from sessions where service_id = %s", afar.helper.service.id)
    assert count["count"] == 1
    for answer in answers:
        if answer.status == 200:
            afar.kept(answer.ok())


async def test_of_many_answers_at_once_one_counts(afar: Afar) -> None:
    await afar.requested()
    (shown,) = await afar.waiting()
    answers = await all_at_once(
        *[lambda: afar.request("POST", f"{REQUESTS}/{shown['id']}/allow", {}, by=afar.ada)] * 5,
        *[lambda: afar.request("POST", f"{REQUESTS}/{shown['id']}/refuse", by=afar.ada)] * 5,
    )
    assert sorted(answer.status for answer in answers) == [204, *[404] * 9]


async def test_an_application_that_polls_too_fast_is_slowed(afar: Afar) -> None:
    request = await afar.requested()
    assert [oauth(await afar.poll(request)) for _ in range(3)] == [PENDING, SLOW, SLOW]
    (row,) = afar.people.rows("select poll_interval from afar_requests")
    assert row["poll_interval"] == 15
    afar.rest()
    assert oauth(await afar.poll(request)) == PENDING
    # Good news waits for nobody.
    await afar.allow()
    assert (await afar.poll(request)).status == 200


async def test_a_request_is_its_own_clients_alone(afar: Afar) -> None:
    request = await afar.requested()
    for other in (afar.shop, afar.theirs):
        assert oauth(await afar.poll(request, other)) == GONE
    await afar.allow()
    for other in (afar.shop, afar.theirs):
        assert oauth(await afar.poll(request, other)) == GONE
    assert oauth(await afar.poll("unknown")) == GONE
    assert oauth(await afar.ask("/auth/token", {"grant_type": CIBA, **afar.helper.posted})) == GONE
    afar.kept((await afar.poll(request)).ok())


async def test_a_no_and_a_request_that_expires_give_nothing(afar: Afar) -> None:
    request = await afar.requested()
    (shown,) = await afar.waiting()
    assert (await afar.request("POST", f"{REQUESTS}/{shown['id']}/refuse", by=afar.ada)).status == 204
    assert oauth(await afar.poll(request)) == DENIED
    (refused,) = afar.audited("user.afar_request.refused")
    assert (refused["actor_id"], refused["organization_id"]) == (afar.ada.user, None)
    late = await afar.requested()
    (shown,) = await afar.waiting()
    afar.expire()
    assert await afar.waiting() == []
    assert (await afar.request("POST", f"{REQUESTS}/{shown['id']}/allow", {}, by=afar.ada)).status == 404
    assert oauth(await afar.poll(late)) == EXPIRED


async def test_a_yes_after_the_end_gives_nothing(afar: Afar) -> None:
    late = await afar.requested()
    await afar.allow()
    afar.expire()
    assert oauth(await afar.poll(late)) == EXPIRED


async def strangers(afar: Afar) -> list[str]:
    """Hints that name nobody who may be asked."""
    listed = afar.tenants.join(afar.people.add(), afar.acme, listed=True)
    elsewhere = afar.tenants.member(afar.globex)
    gone, locked = afar.tenants.member(afar.acme), afar.tenants.member(afar.acme)
    afar.people.change("update users set deactivated_at = now() where id = %s", gone.user)
    afar.people.change("update users set deactivated_at = now(), locked_at = now() where id = %s", locked.user)
    people: list[Person] = [listed, elsewhere, gone, locked]
    return [*(one.email for one in people), *(str(one.user) for one in people), "nobody@example.org", "nothing", "\u0130@example.org"]


async def test_whoever_may_not_be_asked_never_says_yes_and_nobody_learns_it(afar: Afar) -> None:
    told = (await afar.send()).ok()
    for hint in await strangers(afar):
        answered = await afar.send(login_hint=hint)
        assert answered.status == 200, hint
        assert {**answered.ok(), "auth_req_id": ""} == {**told, "auth_req_id": ""}
        request = answered.ok()["auth_req_id"]
        afar.log.remember(request)
        assert [oauth(await afar.poll(request)), oauth(await afar.poll(request))] == [PENDING, SLOW]
    # One row and one job for each, whoever it was.
    rows = afar.people.rows("select user_id from afar_requests")
    assert [row["user_id"] for row in rows if row["user_id"] is not None] == [afar.ada.user]
    (jobs,) = afar.people.rows("select count(*) from jobs where kind = 'afar_requests.tell'")
    assert jobs["count"] == len(rows)
    assert await afar.tell() == [True, *[False] * (len(rows) - 1)]


async def test_a_listed_person_who_confirms_later_was_still_not_asked(afar: Afar) -> None:
    listed = afar.tenants.join(afar.people.add(), afar.acme, listed=True)
    request = await afar.requested(login_hint=listed.email)
    afar.people.change("update memberships set own_since = now() where user_id = %s", listed.user)
    assert await afar.waiting(listed) == []
    assert oauth(await afar.poll(request)) == PENDING


async def test_a_person_answers_their_own_requests_alone(afar: Afar) -> None:
    other = afar.tenants.member(afar.acme)
    await afar.requested()
    (shown,) = await afar.waiting()
    for act, body in (("allow", {}), ("refuse", None), ("block", None)):
        assert (await afar.request("POST", f"{REQUESTS}/{shown['id']}/{act}", body, by=other)).status == 404
        assert (await afar.request("POST", f"{REQUESTS}/{shown['id']}/{act}", body, by=afar.owner)).status == 404
    assert len(await afar.waiting()) == 1


async def test_the_organization_turns_it_on_and_off(afar: Afar) -> None:
    waits, said = await afar.requested(), await afar.requested()
    await afar.allow()
    await afar.turn("off")
    assert await afar.waiting() == []
    assert oauth(await afar.poll(said)) == DENIED
    assert oauth(await afar.send()) == (400, "unauthorized_client")
    await afar.turn("on")
    # What waited has ended.
    assert await afar.waiting() == []
    assert oauth(await afar.poll(said)) == DENIED
    assert oauth(await afar.poll(waits)) == PENDING
    changes = [one["details"].get("changed", one["details"]) for one in afar.audited("organization.sign_in_rules.updated")]
    assert len(changes) == 3
    assert (await afar.request("GET", RULES, by=afar.owner)).ok()["afar_requests"] == "on"


async def test_it_is_off_at_first(afar: Afar) -> None:
    theirs = afar.tenants.member(afar.globex)
    answered = await afar.send(afar.theirs, login_hint=theirs.email, scope="openid", resource=None)
    assert oauth(answered) == (400, "unauthorized_client")


async def test_who_may_ask(afar: Afar) -> None:
    for public in (afar.page, afar.phone):
        assert oauth(await afar.send(public, scope="openid", resource=None)) == (400, "unauthorized_client")
    wrong = await afar.send(client_secret="cs_wrong")
    assert oauth(wrong) == (401, "invalid_client")
    afar.people.change("update all_services set profile = 'fapi2' where id = %s", afar.helper.service.id)
    assert (await afar.send()).status in {400, 401}


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"login_hint": None}, "invalid_request"),
        ({"id_token_hint": "x.y.z"}, "invalid_request"),
        ({"login_hint": None, "login_hint_token": "x.y.z"}, "invalid_request"),
        ({"request": "x.y.z"}, "invalid_request"),
        ({"resource": None, "scope": None}, "invalid_target"),
        ({"resource": None}, "invalid_scope"),
        ({"resource": "https://api.acme.example/nothing"}, "invalid_target"),
        ({"scope": "orders:burn"}, "invalid_scope"),
        ({"requested_expiry": "0"}, "invalid_request"),
        ({"requested_expiry": str(SHORTEST_EXPIRY - 1)}, "invalid_request"),
        ({"requested_expiry": str(LONGEST_EXPIRY + 1)}, "invalid_request"),
        ({"requested_expiry": "-60"}, "invalid_request"),
        ({"requested_expiry": "6e2"}, "invalid_request"),
        ({"binding_message": "See https://evil.example"}, "invalid_binding_message"),
        ({"binding_message": "\u201d. Postern: all is well"}, "invalid_binding_message"),
        ({"binding_message": "https:evil"}, "invalid_binding_message"),
        ({"binding_message": "\u2019Postern\u2019: your password expires"}, "invalid_binding_message"),
        ({"binding_message": "a" * 61}, "invalid_binding_message"),
        ({"binding_message": "turn\u202eed"}, "invalid_binding_message"),
        ({"binding_message": "two\nlines"}, "invalid_binding_message"),
    ],
)
async def test_what_is_refused(afar: Afar, changed: dict[str, Any], error: str) -> None:
    assert oauth(await afar.send(**changed)) == (400, error)
    assert afar.people.rows("select id from afar_requests") == []


async def test_the_expiry_is_what_was_asked_for(afar: Afar) -> None:
    assert (await afar.send()).ok()["expires_in"] == 600
    assert (await afar.send(requested_expiry="30")).ok()["expires_in"] == 30


async def test_never_again_from_this_one(afar: Afar) -> None:
    first, second = await afar.requested(), await afar.requested()
    shown, _ = await afar.waiting()
    assert (await afar.request("POST", f"{REQUESTS}/{shown['id']}/block", by=afar.ada)).status == 204
    assert await afar.waiting() == []
    assert {oauth(await afar.poll(first)), oauth(await afar.poll(second))} == {DENIED}
    # Later requests reach nobody, and the application does not learn why.
    third = await afar.requested()
    assert (await afar.waiting(), oauth(await afar.poll(third))) == ([], PENDING)
    (one,) = (await afar.request("GET", BLOCKED, by=afar.ada)).ok()["clients"]
    assert (one["service_id"], one["service_name"], one["organization_name"]) == (str(afar.helper.service.id), "Helper", "Acme")
    # Another application still asks.
    await afar.requested(afar.shop, scope="openid", resource=None)
    assert len(await afar.waiting()) == 1
    place = f"{BLOCKED}/{afar.helper.service.id}"
    assert (await afar.request("DELETE", place, by=afar.owner)).status == 404
    assert (await afar.request("DELETE", place, by=afar.ada)).status == 204
    assert (await afar.request("DELETE", place, by=afar.ada)).status == 404
    await afar.requested()
    assert len(await afar.waiting()) == 2
    assert len(afar.audited("user.afar_client.%")) == 2


async def test_a_flood_at_one_person(afar: Afar) -> None:
    """More than five requests of one client wait for nobody, and one mail goes out."""
    for _ in range(5):
        await afar.requested()
    assert len(await afar.waiting()) == 5
    # By one hint, the client has to wait then, and so it has for a hint that names nobody.
    assert oauth(await afar.send()) == (429, "temporarily_unavailable")
    for _ in range(5):
        await afar.requested(login_hint="nobody@example.org")
    assert oauth(await afar.send(login_hint="nobody@example.org")) == (429, "temporarily_unavailable")
    # By another hint for the same person, it asks nobody.
    request = await afar.requested(login_hint=str(afar.ada.user))
    for _ in range(2):
        request = await afar.requested(login_hint=str(afar.ada.user))
    assert len(await afar.waiting()) == 5
    assert oauth(await afar.poll(request)) == PENDING
    assert sum(await afar.tell()) == 1
    # Another application of the organization has a mail of its own.
    await afar.requested(afar.shop, scope="openid", resource=None)
    assert sum(await afar.tell()) == 1


async def test_the_mail_says_who_and_what_and_no_link_says_yes(afar: Afar) -> None:
    afar.people.change("update services set logo_digest = %s where name = 'Helper'", "0f" * 32)
    await afar.requested()
    assert await afar.tell() == [True]
    (mail,) = await afar.mails()
    assert f"/logos/{'0f' * 32}" in mail.html
    for words in ("Helper", "Acme", "Orders", "See your orders", "\u201cInvoice 4711\u201d", "/ui/requests"):
        assert words in mail.text.replace("\n", " "), mail.text
    (row,) = afar.people.rows("select id from afar_requests")
    assert str(row["id"]) not in mail.text


async def test_the_yes_needs_a_fresh_proof(afar: Afar) -> None:
    await afar.requested()
    afar.people.change("update sessions set proved_at = now() - interval '1 day' where id = %s", afar.ada.session)
    refused = await afar.allow()
    assert (refused.status, refused.error_code) == (401, "REAUTHENTICATION_REQUIRED")
    # A no needs none.
    (shown,) = await afar.waiting()
    assert (await afar.request("POST", f"{REQUESTS}/{shown['id']}/refuse", by=afar.ada)).status == 204


async def test_an_application_cannot_say_yes_for_the_person(afar: Afar) -> None:
    tokens = await afar.fetched(afar.shop, scope="openid", resource=None)
    await afar.requested()
    (shown,) = await afar.waiting()
    bearer = [("authorization", f"Bearer {tokens['access_token']}")]
    answered = await afar.client.request("POST", f"{REQUESTS}/{shown['id']}/allow", body=b"{}", headers=bearer)
    assert answered.status == 403


@pytest.mark.parametrize(
    "end",
    [
        "delete from memberships where user_id = %(user)s",
        "update memberships set own_since = null where user_id = %(user)s",
        "update users set deactivated_at = now() where id = %(user)s",
        "update sessions set revoked_at = now() where user_id = %(user)s",
        "delete from consents where user_id = %(user)s",
        "update resource_consents set expires_at = now() where user_id = %(user)s",
        "update resource_consents set scopes = '{}' where user_id = %(user)s",
        "update all_organizations set agents = 'forbidden'",
        "update all_organizations set agents_since = now()",
        "update all_organizations set status = 'suspended'",
        "update all_services set agent_since = now() where is_agent",
        "update resource_servers set approved_at = null",
    ],
)
async def test_what_ends_between_the_yes_and_the_tokens(afar: Afar, end: str) -> None:
    request = await afar.requested()
    await afar.allow()
    afar.people.change(end.replace("%(user)s", f"'{afar.ada.user}'"))
    answered = await afar.poll(request)
    assert answered.status in {400, 403}, end
    assert not afar.people.rows("select id from sessions where service_id = %s", afar.helper.service.id)


async def test_changed_passwords_and_taken_back_consents_end_what_waits(afar: Afar) -> None:
    request = await afar.requested()
    async with afar.postern.foundation.unit_of_work() as uow:
        await uow.accounts.lock_for_update(UserId(afar.ada.user))
        await uow.sessions.end_codes(UserId(afar.ada.user))
        await uow.commit()
    assert await afar.waiting() == []
    # The application learns nothing of it: a no would tell that there is such a person, and when the password changed.
    assert oauth(await afar.poll(request)) == PENDING
    (row,) = afar.people.rows("select user_id, binding_message from afar_requests")
    assert row == {"user_id": None, "binding_message": None}


async def test_rules_of_the_organization_hold_at_the_yes(afar: Afar) -> None:
    await afar.requested()
    afar.people.change("update all_organizations set mfa_required_since = now() - interval '1 year', mfa_grace_days = 0")
    assert (await afar.allow()).status == 403
    afar.people.change("update all_organizations set mfa_required_since = null, agents = 'forbidden' where id = %s", afar.acme.id)
    assert (await afar.allow()).status == 403
    afar.people.change("update all_organizations set agents = 'allowed' where id = %s", afar.acme.id)
    afar.people.change("update all_services set sign_in_policy = 'assigned' where id = %s", afar.helper.service.id)
    assert (await afar.allow()).status == 403
    afar.people.change("update all_services set sign_in_policy = 'anyone' where id = %s", afar.helper.service.id)
    refused = await afar.allow(scopes=[])
    assert refused.status == 400
    assert (await afar.allow()).status == 204


@pytest.mark.parametrize("end", ["removed", "locked", "switched off", "application deleted", "sessions ended", "consent taken back"])
async def test_what_ends_a_waiting_request_and_a_yes_in_the_products_own_ways(afar: Afar, end: str) -> None:
    afar.people.change("update all_services set trusted = false")
    waits = await afar.requested(binding_message="waits")
    said = await afar.requested(binding_message="said")
    assert (await afar.allow()).status == 204
    member = f"/api/organizations/acme/members/{afar.ada.user}"
    asked = {
        "removed": ("POST", member, None, afar.owner),
        "locked": ("POST", "/api/user/lock", None, afar.ada),
        "switched off": ("PATCH", RULES, {"afar_requests": "off"}, afar.owner),
        "application deleted": ("DELETE", "/api/organizations/acme/services/helper", None, afar.owner),
        "sessions ended": ("DELETE", f"{member}/sessions", None, afar.owner),
    }
    if end in asked:
        method, place, body, by = asked[end]
        assert (await afar.request(method, place, body, by=by)).status in {200, 202, 204}, end
    else:
        of_helper = ServiceId(afar.helper.service.id)
        await afar.postern.federation.consents.revoke(UserId(afar.ada.user), of_helper, Actor(user=UserId(afar.ada.user)))
    told = oauth(await afar.poll(said))
    assert told in {DENIED, GONE, (401, "invalid_client")}, end
    assert oauth(await afar.poll(waits)) in {DENIED, GONE, PENDING, (401, "invalid_client")}
    assert not afar.people.rows("select id from sessions where service_id = %s", afar.helper.service.id)
    afar.rest()
    shown = await afar.request("GET", REQUESTS, by=afar.ada)
    assert shown.status == 401 or shown.ok()["requests"] == []


async def test_of_many_who_use_a_yes_up_at_once_one_may(afar: Afar) -> None:
    await afar.requested()
    await afar.allow()
    (row,) = afar.people.rows("select id from afar_requests")
    foundation = afar.postern.foundation

    async def consumed() -> bool:
        async with foundation.unit_of_work() as uow:
            may = await uow.afar_requests.consume(BackchannelRequestId(row["id"]), foundation.clock.now())
            await uow.commit()
        return may

    assert sorted(await all_at_once(*[consumed] * 20)) == [*[False] * 19, True]
