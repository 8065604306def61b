"""The users of a service over the service API: made, listed, moved to another address, and deleted."""

from collections import Counter
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

import psycopg
import pytest
import trio

from core.domain.errors import Unavailable
from core.domain.identifiers import ApiKeyId, OrganizationId, ServiceId
from core.domain.mail import Email
from core.domain.record.events import SYSTEM
from core.domain.services.api_keys import KeyHolder, Permission
from tests.http.client import Received, refused
from tests.http.forgetting import finish_forgetting
from tests.http.people import Person
from tests.http.service_interface import PROFILE, USERS, Backend, leave_traces, traces
from tests.http.signing_in import PASSWORD, Browser
from tests.http.subscribing import Market

ADA: Final = "ada@example.org"


def account(market: Market, user: UUID | str) -> dict[str, Any]:
    (row,) = market.people.rows("select * from users where id = %s", user)
    return row


async def users_of(backend: Backend, query: str = "") -> tuple[list[str], int]:
    answer = await backend.ask("GET", f"{USERS}{query}")
    assert answer.status == 200, answer.body
    body = answer.json()
    assert set(body) == {"users", "total"}
    return [user["id"] for user in body["users"]], body["total"]


async def test_an_unknown_address_becomes_an_account_without_a_password_and_nobody_is_mailed(market: Market, shop: Backend) -> None:
    began = market.now
    answer = await shop.ask("POST", body={"email": ADA})
    body = answer.json()
    assert (answer.status, set(body), body["email"]) == (200, {"id", "email", "name", "created_at"}, ADA)
    assert timedelta(0) <= datetime.fromisoformat(body["created_at"]) - began < timedelta(minutes=1)
    made = account(market, body["id"])
    assert (made["password_hash"], made["email_verified_at"], made["origin_service_id"]) == (None, None, market.shop.id)
    (joined,) = market.people.rows("select * from service_users")
    assert (joined["service_id"], joined["org_id"], str(joined["user_id"])) == (market.shop.id, market.acme.id, body["id"])
    assert (joined["first_login_at"], joined["last_login_at"]) == (None, None)
    assert market.people.rows("select from jobs where kind like 'mail%%' or kind like 'account%%'") == []
    assert (await shop.ask("GET", f"{USERS}/{body['id']}")).json() == {**body, "metadata": {}, "profile": {}}
    assert (await shop.ask("GET")).json() == {"users": [body], "total": 1}


async def test_a_key_names_nobody_and_the_same_address_is_the_same_user(market: Market, shop: Backend) -> None:
    """A profile is the person's own."""
    made = (await shop.ask("POST", body={"email": ADA})).ok()
    again = await shop.ask("POST", body={"email": ADA})
    assert (again.status, again.json()) == (200, made)
    # What the endpoint does not know says nothing.
    named = (await shop.ask("POST", body={"email": "new@example.org", "name": "Ada Lovelace"})).ok()
    assert [account(market, one["id"])["name"] for one in (made, named)] == [None, None]


async def test_webhooks_and_the_audit_log_hear_of_a_new_account_and_by_which_key(market: Market, shop: Backend) -> None:
    ada = await shop.create(ADA)
    (key,) = market.people.rows("select id from api_keys")
    expected = {
        "name": "user.signup.success",
        "organization_id": market.acme.id,
        "actor_id": None,
        "target_type": "user",
        "target_id": str(ada.user),
        "details": {"provider": "api_key", "service_id": str(market.shop.id), "service_slug": "shop", "api_key_id": str(key["id"])},
    }
    assert market.told() == [expected]
    assert market.told("audit_log") == [market.by_key(expected)]


async def test_a_known_address_is_answered_with_its_account_which_stays_as_it_is(market: Market, shop: Backend) -> None:
    ada = await market.people.with_password(PASSWORD, "Ada@Example.org")
    before = account(market, ada.user)
    answer = await shop.ask("POST", body={"email": "ADA@example.ORG"})
    assert (answer.status, answer.json()["id"], answer.json()["email"]) == (200, str(ada.user), "Ada@Example.org")
    # The time at which she became a user of the shop, which learns nothing of her account.
    (joined,) = market.people.rows("select created_at from service_users where user_id = %s", ada.user)
    assert datetime.fromisoformat(answer.json()["created_at"]) == joined["created_at"] > before["created_at"]
    assert account(market, ada.user) == before
    assert before["origin_service_id"] is None
    assert [event["name"] for event in market.told()] == ["user.joined"]
    # A repeated request changes nothing, and sends no event.
    assert (await shop.ask("POST", body={"email": ADA})).json() == answer.json()
    assert len(market.told()) == len(market.told("audit_log")) == 1
    assert await users_of(shop) == ([str(ada.user)], 1)
    # She signs in as before.
    assert (await Browser(market.client).login(ada)).status == 200


@pytest.mark.parametrize("known", [False, True])
async def test_of_fifty_at_once_all_are_answered_alike_and_there_is_one_account(market: Market, shop: Backend, *, known: bool) -> None:
    if known:
        market.people.add(ADA)
    answers: list[Received] = []

    async def create(email: str) -> None:
        answers.append(await shop.ask("POST", body={"email": email}))

    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(create, ADA)
    assert [answer.status for answer in answers] == [200] * 50
    (body,) = {answer.body for answer in answers}
    assert market.people.rows("select id::text from users where email_key = %s", ADA) == [{"id": answers[0].json()["id"]}]
    assert await users_of(shop) == ([answers[0].json()["id"]], 1)
    assert [event["name"] for event in market.told()] == ["user.joined" if known else "user.signup.success"], body


async def test_two_services_at_once_have_one_account_that_came_through_one_of_them(market: Market, shop: Backend) -> None:
    app = Backend(market, market.app)
    for number in range(10):
        made: list[Person] = []

        async def create(backend: Backend, email: str, made: list[Person] = made) -> None:
            made.append(await backend.create(email))

        async with trio.open_nursery() as nursery:
            for backend in (shop, app):
                nursery.start_soon(create, backend, f"u{number}@example.org")
        assert made[0] == made[1]
        assert account(market, made[0].user)["origin_service_id"] in {market.shop.id, market.app.id}
    assert (await users_of(shop))[1] == (await users_of(app))[1] == 10
    assert Counter(event["name"] for event in market.told()) == {"user.signup.success": 10, "user.joined": 10}


@pytest.mark.parametrize(
    "email", ["", "x", "a@", "@b", "a b@example.org", "a@example.org\n", "a@example.org, b@example.org", "ﬁ@example.org"]
)
async def test_what_is_no_address_is_refused(market: Market, shop: Backend, email: str) -> None:
    assert refused(await shop.ask("POST", body={"email": email})) == (400, "BAD_REQUEST")
    ada = await shop.create(ADA)
    assert refused(await shop.move(ada, email)) == (400, "BAD_REQUEST")
    assert account(market, ada.user)["email"] == ADA


@pytest.mark.parametrize("body", [{}, {"email": None}, {"email": 1}, {"email": [ADA]}, [], "x"])
async def test_an_address_must_be_named_and_be_text(shop: Backend, body: Any) -> None:
    assert refused(await shop.ask("POST", body=body)) == (400, "BAD_REQUEST")
    if body:
        ada = await shop.create(ADA)
        assert refused(await shop.ask("PATCH", f"{USERS}/{ada.user}", body)) == (400, "BAD_REQUEST")


async def test_a_person_who_was_added_gets_in_by_a_reset_of_the_password(market: Market, shop: Backend) -> None:
    ada = await shop.create(ADA)
    browser = Browser(market.client)
    assert (await browser.post("/api/auth/register", {"email": ADA, "password": PASSWORD})).status == 409
    assert (await browser.login(ada)).status == 401
    market.people.change(
        "insert into mailed_tokens (digest, purpose, user_id, email, created_at, expires_at)"
        " values (sha256('11111111-1111-4111-8111-111111111111'), 'reset_password', %s, %s, now(), now() + interval '1 hour')",
        ada.user,
        ADA,
    )
    reset = {"token": "11111111-1111-4111-8111-111111111111", "new_password": PASSWORD}
    assert (await browser.post("/api/auth/reset-password", reset)).status == 200
    assert (await browser.login(ada)).status == 200


async def test_pages_hang_together_in_the_order_of_joining(market: Market, shop: Backend) -> None:
    # The youngest account first, so that the order of the accounts is another.
    people = [market.people.add() for _ in range(9)]
    for person in reversed(people):
        market.tenants.uses(person, market.shop)
    market.user(market.app)
    everybody = [str(person.user) for person in reversed(people)]
    for limit in (1, 2, 4, 100):
        for offset in range(12):
            assert await users_of(shop, f"?limit={limit}&offset={offset}") == (everybody[offset : offset + limit], 9), (limit, offset)
    assert await users_of(shop, "?limit=100&offset=1000000000") == ([], 9)
    assert await users_of(Backend(market, market.theirs)) == ([], 0)


async def test_fifty_a_page_when_nothing_is_said(market: Market, shop: Backend) -> None:
    for _ in range(51):
        market.user()
    found, total = await users_of(shop)
    assert (len(found), total) == (50, 51)


async def test_what_is_no_page_or_no_id_is_refused(shop: Backend) -> None:
    for query in ("limit=0", "limit=101", "limit=x", "limit=", "offset=-1", "offset=x", f"offset={10**30}", "limit=1&limit=2"):
        assert refused(await shop.ask("GET", f"{USERS}?{query}")) == (400, "BAD_REQUEST"), query
    for who in ("x", "0", "%00", "..%2F..", "{0199d3a0-0000-7000-8000-000000000001}"):
        for method in ("GET", "PATCH", "DELETE"):
            assert (await shop.ask(method, f"{USERS}/{who}", {} if method == "PATCH" else None)).status in {400, 404}, who


async def test_whoever_is_no_user_of_the_service_does_not_exist_here(market: Market, shop: Backend) -> None:
    strangers = [market.people.add(), market.user(market.app), market.user(market.theirs), market.admin]
    before = [account(market, person.user) for person in strangers]
    for person in (*strangers, Person(uuid4(), uuid4(), "")):
        for answer in (await shop.get(person), await shop.move(person, "new@example.org"), await shop.delete(person)):
            assert refused(answer) == (404, "NOT_FOUND")
    assert [account(market, person.user) for person in strangers] == before
    assert await users_of(shop) == ([], 0)
    assert market.told() == []


async def test_an_address_changes_and_has_to_be_proved_again(market: Market, shop: Backend) -> None:
    ada = await shop.create(ADA)
    market.people.change("update users set pending_email = 'x@y.z', pending_email_key = 'x@y.z'")
    leave_traces(market, ada, market.shop)
    market.people.change("update devices set trust_digest = '1', trusted_until = now() + interval '1 day'")
    signed_in = market.tenants.session(ada, market.shop)
    token = await market.tenants.token(signed_in, market.shop)
    assert (await market.client.get("/api/user", token=token)).status == 200
    answer = await shop.move(ada, "Grace@example.org")
    assert (answer.status, answer.json()["id"], answer.json()["email"]) == (200, str(ada.user), "Grace@example.org")
    assert (await shop.get(ada)).json() == answer.json()
    moved = account(market, ada.user)
    assert (moved["email"], moved["email_key"]) == ("Grace@example.org", "grace@example.org")
    assert (moved["email_verified_at"], moved["pending_email"], moved["pending_email_key"]) == (None, None, None)
    assert (await market.client.get("/api/user", token=token)).status == 401
    for living in (
        "sessions where revoked_at is null and user_id = %s",
        "mailed_tokens where used_at is null and user_id = %s",
        "preauthentications where consumed_at is null and user_id = %s",
        "devices where trusted_until is not null and user_id = %s",
    ):
        assert market.people.rows(f"select from {living}", ada.user) == [], living
    told = market.told("audit_log")
    names = [event["name"] for event in told if event["name"] != "x"]
    assert names == ["user.signup.success", "security.mfa.disabled", "user.email.changed"]
    (key,) = market.people.rows("select id from api_keys")
    assert told[-1]["details"].keys() == {"service_id", "service_slug", "api_key_id", "acting_key"}
    assert (told[-1]["actor_id"], told[-1]["organization_id"]) == (key["id"], market.acme.id)
    # The address before is free.
    assert (await shop.create(ADA)).user != ada.user


async def test_what_is_not_said_or_nothing_new_stays(market: Market, shop: Backend) -> None:
    ada = await shop.create(ADA)
    stranger = market.user()
    for person, body in ((ada, {}), (ada, {"email": ADA}), (ada, None), (stranger, {}), (stranger, {"email": stranger.email})):
        before = account(market, person.user)
        answer = await shop.ask("PATCH", f"{USERS}/{person.user}", body)
        assert (answer.status, answer.json()) == (200, (await shop.get(person)).json())
        assert account(market, person.user) == before
    assert [event["name"] for event in market.told()] == ["user.signup.success"]


async def test_an_address_may_change_its_letters_alone(market: Market, shop: Backend) -> None:
    ada = await shop.create(ADA)
    assert (await shop.move(ada, "ADA@example.org")).json()["email"] == "ADA@example.org"
    assert account(market, ada.user)["email_key"] == ADA


async def test_an_address_that_is_taken_is_refused(market: Market, shop: Backend) -> None:
    ada, grace = await shop.create(ADA), market.people.add("grace@example.org")
    answer = await shop.move(ada, "GRACE@example.org")
    assert refused(answer) == (400, "BAD_REQUEST")
    assert answer.json()["error"] == "email: this e-mail address is taken"
    assert (account(market, ada.user)["email"], account(market, grace.user)["email"]) == (ADA, "grace@example.org")
    assert [event["name"] for event in market.told()] == ["user.signup.success"]


async def test_of_many_that_move_to_one_address_at_once_one_gets_it(market: Market, shop: Backend) -> None:
    for number in range(5):
        people = [await shop.create(f"u{number}-{each}@example.org") for each in range(6)]
        answers: list[Received] = []

        async def move(person: Person, email: str, answers: list[Received] = answers) -> None:
            answers.append(await shop.move(person, email))

        async with trio.open_nursery() as nursery:
            for person in people:
                nursery.start_soon(move, person, f"wanted{number}@example.org")
        assert sorted(answer.status for answer in answers) == [200] + [400] * 5
    assert sum(event["name"] == "user.email.changed" for event in market.told("audit_log")) == 5


async def test_a_deleted_user_is_gone_with_everything(market: Market, shop: Backend) -> None:
    ada, grace = await shop.create(ADA), await shop.create("grace@example.org")
    for person in (ada, grace):
        leave_traces(market, person, market.shop)
        await market.subscribed(person, market.plan())
    left = traces(market, grace)
    assert set(left) == {
        "users", "sessions", "refresh_tokens", "devices", "mailed_tokens", "mfa_secrets", "backup_codes", "mfa_events",
        "preauthentications", "login_events", "service_users", "subscriptions", "audit_personal",
    }  # fmt: skip
    assert traces(market, ada) == left
    entries = market.people.rows("select id from audit_entries")
    (session,) = market.people.rows("select id from sessions where user_id = %s and service_id is null", ada.user)
    token = await market.people.token(Person(ada.user, session["id"], ADA))
    assert (await market.client.get("/api/user", token=token)).status == 200
    answer = await shop.delete(ada)
    assert (answer.status, answer.body) == (204, b"")
    assert (await market.client.get("/api/user", token=token)).status == 401
    # The deletion's own entry has the address of the caller.
    assert traces(market, ada) == {"audit_personal": 1}
    assert traces(market, grace) == left
    kept = market.people.rows("select id from audit_entries")
    assert len(kept) == len(entries) + 1
    assert {row["id"] for row in entries} < {row["id"] for row in kept}
    assert await users_of(shop) == ([str(grace.user)], 1)
    assert refused(await shop.get(ada)) == (404, "NOT_FOUND")
    assert refused(await shop.delete(ada)) == (404, "NOT_FOUND")
    told = market.told()[-1]
    assert (told["name"], told["target_id"], told["actor_id"]) == ("user.removed", str(ada.user), None)
    assert told["details"].keys() == {"account", "service_id", "service_slug", "api_key_id"}
    assert told["details"]["account"] == "deleted"
    assert (await shop.create(ADA)).user != ada.user


async def test_what_the_log_says_of_an_acceptance_by_link_is_forgotten_with_the_account(market: Market, shop: Backend) -> None:
    ada = await shop.create(ADA)
    # An accepted invitation takes the service's say about an unproved account away.
    market.people.change("update users set email_verified_at = now() where id = %s", ada.user)
    token = await market.tenants.token(market.tenants.member(market.globex, "owner"))
    invited = await market.client.post("/api/organizations/globex/invitations", {"email": ADA, "role": "member"}, token=token)
    assert (await market.client.post("/api/invitations/accept", {"token": invited.json()["token"]})).status == 200
    assert (await market.client.post(f"/api/organizations/globex/members/{ada.user}", token=token)).status == 200
    joining = (
        "select action, actor_id, details ->> 'invited_email' as email, host(address) as address from audit_log"
        " where action in ('user.joined', 'invitation.accepted') order by id"
    )
    joined = {"action": "user.joined", "actor_id": None, "email": None, "address": "192.0.2.1"}
    accepted = {**joined, "action": "invitation.accepted", "email": ADA}
    assert market.people.rows(joining) == [joined, accepted]
    # The person who has proved the address holds the account.
    market.people.change("update users set email_verified_at = null where id = %s", ada.user)
    assert (await shop.delete(ada)).status == 204
    assert market.people.rows(joining) == [{**one, "email": None, "address": None} for one in (joined, accepted)]


async def test_deleting_an_account_whose_address_nobody_has_proved_ends_no_invitation_of_others(market: Market, shop: Backend) -> None:
    """A service chooses any address for its users."""
    token = await market.tenants.token(market.tenants.member(market.globex, "owner"))
    (await market.client.post("/api/organizations/globex/invitations", {"email": ADA, "role": "member"}, token=token)).ok()
    before = market.people.rows("select * from invitations")
    assert (await shop.delete(await shop.create(ADA))).status == 204
    assert await finish_forgetting(market.postern, market.people) == 1
    assert market.people.rows("select * from invitations") == before


async def test_the_audit_chains_hold_after_somebody_was_forgotten(market: Market, shop: Backend) -> None:
    ada = await shop.create(ADA)
    await shop.move(ada, "new@example.org")
    await market.postern.record.audit.link()
    await shop.delete(ada)
    await market.postern.record.audit.link()
    findings: list[Any] = []
    checked: list[Any] = []
    await market.postern.record.audit.verify(lambda name, finding: findings.append((name, finding)), checked.append)
    assert findings == []
    assert [(chain.name, chain.links, chain.forgotten) for chain in checked] == [("acme", 3, 2)]


async def test_a_person_with_other_ties_loses_only_what_is_the_services(market: Market, shop: Backend) -> None:
    """The account was made through the shop, and is a user of another organization's app by now."""
    ada = await shop.create(ADA)
    market.tenants.uses(ada, market.theirs)
    # As when the person had signed in there.
    market.people.change("insert into held_accounts (user_id, held_since) values (%s, now())", ada.user)
    leave_traces(market, ada, market.shop, market.theirs)
    await market.subscribed(ada, market.plan())
    other = market.plan(market.theirs)
    assert (await market.subscribe(ada, other, key=market.key_of(market.theirs))).status == 200
    before = traces(market, ada)
    (theirs,) = market.people.rows("select * from subscriptions where plan_id = %s", other)
    assert (await shop.delete(ada)).status == 204
    gone = before - traces(market, ada)
    # Acme had two entries in the audit log: her arrival and the administrator's act. Her departure has been added.
    assert gone == {"sessions": 1, "refresh_tokens": 1, "preauthentications": 1, "login_events": 1, "service_users": 1, "subscriptions": 1,
                    "audit_personal": 1}  # fmt: skip
    for table in ("sessions", "preauthentications", "login_events", "service_users"):
        services = {row["service_id"] for row in market.people.rows(f"select service_id from {table} where user_id = %s", ada.user)}
        assert services == ({market.theirs.id} if table == "service_users" else {None, market.theirs.id})
    assert market.people.rows("select * from subscriptions") == [theirs]
    assert (await users_of(shop), (await users_of(Backend(market, market.theirs)))[1]) == (([], 0), 1)
    assert market.told()[-1]["details"]["account"] == "kept"
    # The shop has given up the account, whatever happens to the account elsewhere.
    assert account(market, ada.user)["origin_service_id"] is None
    assert (await shop.create(ADA)).user == ada.user
    market.people.change("delete from service_users where service_id = %s", market.theirs.id)
    assert refused(await shop.move(ada, "mine@evil.example")) == (403, "FORBIDDEN")
    assert (await shop.delete(ada)).status == 204
    assert account(market, ada.user)["email"] == ADA


async def test_a_key_does_not_reach_what_the_log_says_of_members(market: Market, shop: Backend) -> None:
    """A member of the organization also uses its shop. Deleting the user must not remove entries about acts on the member."""
    mallory = market.tenants.member(market.acme, "admin")
    market.tenants.uses(mallory, market.shop)
    leave_traces(market, mallory, market.shop)
    before = traces(market, mallory)["audit_personal"]
    assert (await shop.delete(mallory)).status == 204
    assert traces(market, mallory)["audit_personal"] == before + 1
    assert market.people.rows("select role from memberships where user_id = %s", mallory.user) == [{"role": "admin"}]


async def test_owners_are_not_removed(market: Market, shop: Backend) -> None:
    own = market.tenants.add("own", status="pending")
    people = {
        "owner of the organization": market.tenants.member(market.acme, "owner"),
        "owner of another": market.tenants.member(market.globex, "owner"),
        "platform owner": market.people.add(platform_owner=True),
        "made here, and owner since": await shop.create(ADA),
        "made here, and in office since": await shop.create("root@example.org"),
    }
    market.tenants.join(people["made here, and owner since"], own, "owner")
    market.people.change("update users set is_platform_owner = true where email = 'root@example.org'")
    for name, person in people.items():
        market.people.change(
            "insert into service_users (service_id, user_id, org_id, created_at) values (%s, %s, %s, now()) on conflict do nothing",
            market.shop.id,
            person.user,
            market.acme.id,
        )
        before, left = account(market, person.user), traces(market, person)
        assert refused(await shop.delete(person)) == (403, "FORBIDDEN"), name
        assert refused(await shop.move(person, "new@evil.example")) == (403, "FORBIDDEN"), name
        assert (account(market, person.user), traces(market, person)) == (before, left), name
    assert (await users_of(shop))[1] == len(people)


async def test_what_others_made_somebody_the_owner_of_keeps_them_in_no_service(market: Market, shop: Backend) -> None:
    heir = market.tenants.member(market.globex, "owner")
    market.people.change(
        "insert into ownerships (org_id, membership_id, former_role, since) select org_id, id, 'member', now() from memberships"
        " where user_id = %s",
        heir.user,
    )
    market.tenants.uses(heir, market.shop)
    assert (await shop.delete(heir)).status == 204
    # The account is theirs, and so is what they own until they say otherwise.
    assert market.people.rows("select role from memberships where user_id = %s", heir.user) == [{"role": "owner"}]


async def test_sessions_in_the_service_end_on_the_next_request_and_others_go_on(market: Market, shop: Backend) -> None:
    ada = market.user(market.shop, market.app)
    tokens = {place: await market.tenants.token_in(ada, place) for place in (market.shop, market.app, None)}
    assert (await shop.delete(ada)).status == 204
    statuses = {place: (await market.client.get("/api/user", token=token)).status for place, token in tokens.items()}
    assert statuses == {market.shop: 401, market.app: 200, None: 200}


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("select from devices where user_id = %s for no key update", "update sessions set revoked_at = now() where user_id = %s"),
        ("delete from mfa_secrets where user_id = %s", "update devices set trusted_until = null where user_id = %s"),
    ],
    ids=["a device is revoked", "the second factor is disabled"],
)
async def test_a_deletion_waits_for_whoever_takes_the_same_rows_in_their_order(
    market: Market, shop: Backend, database_url: str, first: str, then: str
) -> None:
    """Two transactions that lock the same rows in different orders would wait for each other, and one would fail."""
    ada = await shop.create(ADA)
    leave_traces(market, ada, market.shop)
    statuses = []

    async def delete() -> None:
        statuses.append((await shop.delete(ada)).status)

    with psycopg.connect(database_url) as other:
        other.execute(first.encode(), [ada.user])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(delete)
            await market.people.somebody_waits()
            await trio.to_thread.run_sync(other.execute, then.encode(), [ada.user])
            other.commit()
    assert statuses == [204]
    assert traces(market, ada) == {"audit_personal": 1}


async def test_an_account_that_is_deleted_while_others_come_to_hold_it_goes_whole_or_stays(market: Market, shop: Backend) -> None:
    """Signing up elsewhere, subscribing and deleting, all at once, leave no orphaned rows and cause no server error."""
    app, plan, statuses = Backend(market, market.theirs), market.plan(), Counter[tuple[str, int]]()

    async def one(name: str, answer: Any) -> None:
        statuses[name, (await answer).status] += 1

    for number in range(25):
        email = f"u{number}@example.org"
        ada = await shop.create(email)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one, "delete", shop.delete(ada))
            nursery.start_soon(one, "attach", app.ask("POST", body={"email": email}))
            nursery.start_soon(one, "subscribe", market.subscribe(ada, plan))
            nursery.start_soon(one, "move", shop.move(ada, f"moved{number}@example.org"))
        (total,) = market.people.rows("select user_count from services where id = %s", market.theirs.id)
        assert len(market.people.rows("select from service_users where service_id = %s", market.theirs.id)) == total["user_count"]
        living = market.people.rows("select id from users where id = %s", ada.user)
        assert bool(living) == bool(traces(market, ada) - Counter(audit_personal=9))
    allowed = {"delete": {204}, "attach": {200, 503}, "subscribe": {200, 404}, "move": {200, 403, 404}}
    assert all(status in allowed[name] for name, status in statuses), statuses


async def test_each_endpoint_asks_for_its_own_permission(market: Market, shop: Backend) -> None:
    ada = await shop.create(ADA)
    needed = {
        ("GET", USERS): Permission.READ_USERS,
        ("GET", f"{USERS}/{ada.user}"): Permission.READ_USERS,
        ("POST", USERS): Permission.WRITE_USERS,
        ("PATCH", f"{USERS}/{ada.user}"): Permission.WRITE_USERS,
        ("DELETE", f"{USERS}/{ada.user}"): Permission.DELETE_USERS,
    }
    for (method, path), permission in needed.items():
        body = {"email": ADA} if method in {"POST", "PATCH"} else None
        shop.key = market.key_of(market.shop, [each for each in Permission if each is not permission])
        assert refused(await shop.ask(method, path, body)) == (403, "FORBIDDEN")
        shop.key = market.key_of(market.shop, [permission])
        assert (await shop.ask(method, path, body)).status in {200, 204}


# With the key's own question.
ROUND_TRIPS: Final = {"create": 5, "again": 5, "list": 2, "get": 2, "move": 6, "keep": 4, "leave": 4, "delete": 5}


async def test_round_trips(market: Market, shop: Backend) -> None:
    measured: dict[str, int] = {}
    field = {"key": "floor", "label": "Floor", "kind": "text", "written_by": ["service"]}
    (await market.request("POST", "/api/organizations/acme/profile-fields", field)).ok(201)
    for turn in ("warm", "measured"):
        person = market.user()
        made = await shop.create(f"{turn}-made@example.org")
        calls: dict[str, tuple[str, str, Any]] = {
            "create": ("POST", USERS, {"email": f"{turn}@example.org"}),
            "again": ("POST", USERS, {"email": f"{turn}@example.org"}),
            "list": ("GET", USERS, None),
            "get": ("GET", f"{USERS}/{made.user}", None),
            "move": ("PATCH", f"{USERS}/{made.user}", {"email": f"{turn}-moved@example.org"}),
            "keep": ("PATCH", f"{USERS}/{made.user}", {"metadata": {"turn": turn}, "profile": {"floor": turn}}),
            "leave": ("DELETE", f"{USERS}/{person.user}", None),
            "delete": ("DELETE", f"{USERS}/{made.user}", None),
        }
        for name, (method, path, body) in calls.items():
            market.log.entries.clear()
            assert (await shop.ask(method, path, body)).status in {200, 204}
            (line,) = market.log.events("request")
            measured[name] = line["db_round_trips"]
    assert measured == ROUND_TRIPS


async def test_neither_key_nor_address_shows_in_the_log(market: Market, shop: Backend) -> None:
    market.log.remember(shop.key, ADA, "new@example.org")
    ada = await shop.create(ADA)
    await shop.move(ada, "new@example.org")
    await shop.delete(ada)


async def test_a_service_that_goes_at_this_moment_makes_no_account(market: Market, shop: Backend) -> None:
    """The key was valid when the request came in."""
    (key,) = market.people.rows("select id from api_keys")
    shop_id, acme_id = ServiceId(market.shop.id), OrganizationId(market.acme.id)
    holder = KeyHolder(ApiKeyId(key["id"]), shop_id, "shop", acme_id, "acme", frozenset(Permission), "backend", "sk_abc123", PROFILE)
    ada = await shop.create(ADA)
    before = market.people.rows("select id from users")
    market.people.change("update all_services set deleted_at = now() where id = %s", market.shop.id)
    for email in ("new@example.org", ADA):
        with pytest.raises(Unavailable):
            await market.postern.services.service_users.add(holder, Email(email), SYSTEM)
    assert market.people.rows("select id from users") == before
    listed = await market.postern.services.service_users.list(holder, 50, 0)
    assert (listed.items, listed.total) == ([], 0)
    assert (await shop.get(ada)).status == 401


async def test_a_service_keeps_metadata_of_its_user_and_leaves_the_profile(market: Market, shop: Backend) -> None:
    ada = await shop.create(ADA)
    path, kept = f"{USERS}/{ada.user}", {"plan": [1, None, True]}
    told = len(market.told())
    for _ in range(2):
        changed = (await shop.ask("PATCH", path, {"metadata": kept})).ok()
        assert (changed["metadata"], changed["profile"]) == (kept, {})
    # The same again is no change.
    assert len(market.told()) == told + 1
    assert market.people.rows("select from profile_values") == []


async def test_a_user_who_leaves_at_this_moment_gets_no_profile(market: Market, shop: Backend, database_url: str) -> None:
    ada, answers = await shop.create(ADA), list[Received]()

    async def change() -> None:
        answers.append(await shop.ask("PATCH", f"{USERS}/{ada.user}", {"profile": {}}))

    with psycopg.connect(database_url) as other:
        other.execute("delete from service_users where user_id = %s", [ada.user])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(change)
            await market.people.somebody_waits()
            other.commit()
    assert refused(answers[0]) == (404, "NOT_FOUND")
    assert market.people.rows("select from profile_values") == []
