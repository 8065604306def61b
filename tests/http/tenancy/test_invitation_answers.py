"""Answering an invitation over HTTP: by the mailed link, from the person's own list, or by an administrator in their place; and by fifty at
once.
"""

import base64
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
import trio

from adapters.postgres.tenancy.members import MemberRows
from core.domain.identifiers import InvitationId, SessionId, UserId
from core.domain.tenancy.listed_tokens import ListedToken
from core.domain.tenancy.members import Membership
from core.domain.tenancy.roles import Capability
from core.usecases.tenancy.invitations import LISTED_TOKENS
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.limits import INVITATION_ANSWERS
from tests.conftest import CapturedLog
from tests.http.client import Client
from tests.http.inviting import ACCEPT, DECLINE, OWN, Inviting, at_once
from tests.http.people import BASE_URL, People, Person
from tests.http.postbox import token_in
from tests.http.signing_in import unlimited

ROUNDS = 3
PAGE = "/ui/invitations/accept"


@pytest.fixture
def house(postern: Postern, people: People, log: CapturedLog) -> Inviting:
    return Inviting(postern, people, unlimited(postern), log)


async def test_somebody_with_an_account_becomes_a_member(house: Inviting) -> None:
    bob = house.verified("bob@example.org")
    issued = await house.invite("BOB@example.org", "admin")
    house.log.entries.clear()
    answer = await house.accept(issued["token"])
    assert (answer.status, answer.body) == (200, b"{}")
    assert house.members() == {"ada@acme.example": "owner", "bob@example.org": "admin"}
    assert house.statuses() == ["accepted"]
    assert house.people.rows("select id, password_hash, email_verified_at is not null as verified from users where id = %s", bob.user) == [
        {"id": bob.user, "password_hash": None, "verified": True}
    ]
    # The person has the role's rights at once.
    answer = await house.client.get("/api/organizations/acme/members", token=await house.people.token(bob))
    assert answer.status == 200
    assert [mail.to for mail in await house.postbox.empty()] == ["BOB@example.org"]  # the invitation alone


async def test_joining_is_on_record(house: Inviting) -> None:
    bob = house.verified("bob@example.org")
    issued = await house.invite()
    await house.accept(issued["token"])
    _, joined, accepted = house.events()
    invitation = issued["invitation"]["id"]
    # The inviter has the link, too, so the entry says who joined, but not who acted.
    by_link = {"actor_id": None, "impersonator_id": None, "organization_id": house.acme.id, "success": True, "address": "192.0.2.1"}
    assert joined == {
        **by_link,
        "action": "user.joined",
        "target_type": "user",
        "target_id": str(bob.user),
        "details": {"invitation_id": invitation, "role": "member"},
    }
    assert accepted == {
        **by_link,
        "action": "invitation.accepted",
        "target_type": "invitation",
        "target_id": invitation,
        "details": {"role": "member", "user_id": str(bob.user), "way": "link", "invited_email": "bob@example.org"},
    }


async def test_a_role_of_the_organizations_own_comes_with_what_it_permits(house: Inviting) -> None:
    house.role("auditor", Capability.AUDIT_LOGS_VIEW)
    bob = house.verified("bob@example.org")
    await house.accept((await house.invite(role="auditor"))["token"])
    assert house.members()["bob@example.org"] == "auditor"
    member = await house.postern.tenancy.callers.resolve_member(await house.people.token(bob), "acme")
    assert member.capabilities == {Capability.AUDIT_LOGS_VIEW}


async def test_without_an_account_there_is_one_and_a_link_to_choose_a_password(house: Inviting) -> None:
    issued = await house.invite("new@example.org")
    await house.postbox.empty()
    assert (await house.accept(issued["token"])).status == 200
    (user,) = house.people.rows("select * from users where email = 'new@example.org'")
    # The holder of the token need not own the mailbox: the inviter has seen the token, too.
    assert (user["password_hash"], user["email_verified_at"], user["is_platform_owner"]) == (None, None, False)
    assert house.members() == {"ada@acme.example": "owner", "new@example.org": "member"}
    (mail,) = await house.postbox.empty()
    assert mail.to == "new@example.org"
    link = next(word for word in mail.text.split() if "?token=" in word)
    assert link.startswith(f"{BASE_URL}/ui/set-password?token=")
    assert "Acme" in mail.subject
    (signup,) = house.people.rows("select actor_id, target_id, details from audit_log where action = 'user.signup.success'")
    assert signup == {"actor_id": None, "target_id": str(user["id"]), "details": {"provider": "invitation"}}
    password = "a fresh and lively password"
    chosen = await house.client.post("/api/auth/reset-password", {"token": token_in(link), "new_password": password})
    assert chosen.status == 200, chosen.body
    signed_in = await house.client.post("/api/auth/login", {"email": "new@example.org", "password": password})
    assert signed_in.status == 200, signed_in.body


async def test_an_account_that_nobody_proved_is_freed_of_its_strangers_password(house: Inviting) -> None:
    stranger = await house.people.with_password("the stranger's own", "new@example.org", verified=False)
    house.people.change(
        "insert into sessions (id, user_id, created_at, last_seen_at, expires_at) values (%s, %s, now(), now(), now() + interval '1 day')",
        uuid4(),
        stranger.user,
    )
    await house.client.post("/api/auth/resend-verification", {"email": "new@example.org"})
    issued = await house.invite("new@example.org")
    await house.postbox.empty()
    assert (await house.accept(issued["token"])).status == 200
    (user,) = house.people.rows("select id, password_hash, email_verified_at from users where email = 'new@example.org'")
    assert user == {"id": stranger.user, "password_hash": None, "email_verified_at": None}
    assert house.people.rows("select id from sessions where user_id = %s and revoked_at is null", stranger.user) == []
    assert house.people.rows("select digest from mailed_tokens where used_at is null") == []
    assert house.members()["new@example.org"] == "member"
    assert [(to, bool(token)) for to, token in await house.mailed()] == [("new@example.org", True)]


async def test_a_deactivated_account_does_not_join(house: Inviting) -> None:
    bob = house.verified("bob@example.org")
    issued = await house.invite()
    house.people.change("update users set deactivated_at = now() where id = %s", bob.user)
    for answer in (await house.accept(issued["token"]), await house.ask("POST", f"/{issued['invitation']['id']}/accept")):
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
        assert "deactivated" not in answer.body.decode()
    assert house.statuses() == ["pending"]
    assert house.members() == {"ada@acme.example": "owner"}


@pytest.mark.parametrize("path", [ACCEPT, DECLINE])
async def test_a_token_works_once(path: str, house: Inviting) -> None:
    issued = await house.invite()
    assert (await house.client.post(path, {"token": issued["token"]})).status == 200
    before = (house.happened(), house.members(), house.statuses())
    for again, says in ((ACCEPT, "already" if path == ACCEPT else "declined"), (DECLINE, "already" if path == ACCEPT else "declined")):
        answer = await house.client.post(again, {"token": issued["token"]})
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
        assert says in answer.json()["error"]
    assert (await house.ask("POST", f"/{issued['invitation']['id']}/accept")).status == 400
    assert (house.happened(), house.members(), house.statuses()) == before


async def test_declining_adds_nobody(house: Inviting) -> None:
    issued = await house.invite("new@example.org")
    answer = await house.decline(issued["token"])
    assert (answer.status, answer.body) == (200, b"{}")
    assert house.statuses() == ["rejected"]
    assert house.members() == {"ada@acme.example": "owner"}
    assert house.people.rows("select id from users where email = 'new@example.org'") == []
    event = house.events()[-1]
    assert (event["action"], event["actor_id"], event["address"]) == ("invitation.declined", None, "192.0.2.1")
    assert event["details"] == {"role": "member", "way": "link", "invited_email": "new@example.org"}


async def test_an_inviter_who_declines_by_the_link_learns_of_no_account_and_blames_nobody(house: Inviting) -> None:
    told = []
    house.verified("known@example.org")
    for email in ("known@example.org", "unknown@example.org"):
        await house.decline((await house.invite(email))["token"])
        listed = await house.client.get(
            "/api/organizations/acme/audit-log?action=invitation.declined&limit=1", token=await house.people.token(house.ada)
        )
        (entry,) = listed.json()["logs"]
        (event,) = house.people.rows("select * from events where name = 'invitation.declined' order by id desc limit 1")
        assert (entry["actor"], entry["impersonator"], event["actor_id"], event["impersonator_id"]) == (None, None, None, None)
        assert entry["ip_address"] == "192.0.2.1"
        told.append((entry, event))
    for known, unknown in zip(*told, strict=True):
        for one in (known, unknown):
            in_entry = "created_at" in one
            del one["id"], one["target_id"], one["created_at" if in_entry else "occurred_at"]
            del one["details" if in_entry else "personal"]["invited_email"]
            one.pop("request_id", None)
        assert known == unknown


async def test_one_whose_time_has_passed_is_not_accepted_and_that_is_on_record(house: Inviting) -> None:
    issued = await house.invite()
    house.overdue()
    answer = await house.accept(issued["token"])
    assert (answer.status, answer.error_code) == (400, "INVITATION_EXPIRED")
    assert house.statuses() == ["expired"]
    assert house.happened() == ["user.invited", "invitation.expired"]
    assert house.events()[-1]["actor_id"] is None
    for answer in (await house.accept(issued["token"]), await house.decline(issued["token"])):
        assert (answer.status, answer.error_code) == (400, "INVITATION_EXPIRED")
    assert house.happened() == ["user.invited", "invitation.expired"]
    assert house.members() == {"ada@acme.example": "owner"}


async def test_one_whose_time_has_passed_can_be_declined_until_that_is_written_down(house: Inviting) -> None:
    issued = await house.invite()
    house.overdue()
    assert (await house.decline(issued["token"])).status == 200
    assert house.statuses() == ["rejected"]


async def test_one_whose_time_has_passed_is_not_accepted_in_somebodys_place_either(house: Inviting) -> None:
    issued = await house.invite()
    house.overdue()
    answer = await house.ask("POST", f"/{issued['invitation']['id']}/accept")
    assert (answer.status, answer.error_code) == (400, "INVITATION_EXPIRED")
    assert house.statuses() == ["expired"]


async def test_there_is_room_for_so_many_members_when_it_is_accepted(house: Inviting) -> None:
    house.people.change("update organizations set max_users = 2")
    one, two, three = [await house.invite(f"p{number}@example.org") for number in range(3)]
    assert (await house.accept(one["token"])).status == 200
    for answer in (await house.accept(two["token"]), await house.ask("POST", f"/{two['invitation']['id']}/accept")):
        assert (answer.status, answer.error_code) == (400, "TEAM_LIMIT_EXCEEDED")
    assert house.statuses() == ["accepted", "pending", "pending"]
    assert house.people.rows("select id from users where email like 'p1%%' or email like 'p2%%'") == []
    # The invitation stays, and works when there is room again.
    house.people.change("update organizations set max_users = 3")
    assert (await house.accept(two["token"])).status == 200
    house.people.change("update organizations set max_users = 0")
    assert (await house.accept(three["token"])).error_code == "TEAM_LIMIT_EXCEEDED"


async def test_without_a_number_of_its_own_the_organization_has_its_tiers(house: Inviting) -> None:
    issued = await house.invite()
    house.people.change("update all_organizations set member_count = 100")
    assert (await house.accept(issued["token"])).error_code == "TEAM_LIMIT_EXCEEDED"
    house.people.change("update all_organizations set member_count = 100, tier_id = (select id from tiers where name = 'professional')")
    assert (await house.accept(issued["token"])).status == 200


@pytest.mark.parametrize("status", ["pending", "suspended", "rejected"])
async def test_an_organization_that_is_not_active_takes_nobody_in(status: str, house: Inviting) -> None:
    issued = await house.invite()
    house.people.change("update organizations set status = %s", status)
    answer = await house.accept(issued["token"])
    assert (answer.status, answer.error_code) == (403, "ORGANIZATION_NOT_ACTIVE")
    assert house.statuses() == ["pending"]
    assert (await house.decline(issued["token"])).status == 200  # to say no, it need not be


async def test_an_organization_that_is_being_deleted_is_gone_with_its_invitations(house: Inviting) -> None:
    bob = house.verified("bob@example.org")
    issued = await house.invite()
    (own,) = await house.own(bob)
    house.people.change("update all_organizations set deleted_at = now()")
    for token in (issued["token"], own["token"]):
        for answer in (await house.accept(token), await house.decline(token)):
            assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
    assert await house.own(bob) == []


async def test_who_is_a_member_already_does_not_join_again(house: Inviting) -> None:
    issued = await house.invite(role="admin")
    house.tenants.join(house.verified("bob@example.org"), house.acme)
    for answer in (await house.accept(issued["token"]), await house.ask("POST", f"/{issued['invitation']['id']}/accept")):
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
        assert "already a member" in answer.json()["error"]
    assert house.members()["bob@example.org"] == "member"


HOSTILE: list[Any] = [
    *("", " ", "x", str(uuid4()), str(uuid4()).upper(), "{" + str(uuid4()) + "}", "'; drop table invitations --", "\u202e", "ü" * 36),
    *("x" * 118, "A" * 118, "ü" * 118, "-_" * 59, "=" * 118, "x" * 60_000, base64.urlsafe_b64encode(b"\0" * 88).rstrip(b"=").decode()),
]


MALFORMED: list[Any] = [
    *({}, {"token": None}, {"token": 5}, {"token": ["x"]}, [], b"{", rb'{"token": "\u0000"}', rb'{"token": "\ud800"}'),
]


@pytest.mark.parametrize("path", [ACCEPT, DECLINE])
async def test_what_is_no_token_is_refused(path: str, house: Inviting) -> None:
    issued = await house.invite()
    digest = issued["invitation"]["token"]
    for token in (*HOSTILE, digest, issued["invitation"]["id"], issued["token"].upper(), issued["token"] + " "):
        answer = await house.client.post(path, {"token": token})
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST"), token[:200]
        assert "not valid" in answer.json()["error"]
    for body in MALFORMED:
        answer = await house.client.post(path, body)
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST"), body
    assert house.statuses() == ["pending"]
    assert house.happened() == ["user.invited"]


async def test_a_person_sees_what_they_are_invited_to_and_answers_there(house: Inviting) -> None:
    bob = house.verified("bob@example.org")
    other = house.tenants.add("other", name="The Others")
    eve = house.tenants.member(other, "owner", "eve@other.example")
    first = await house.invite("BOB@example.org")
    second = await house.invite("bob@example.org", "admin", by=eve, of=other)
    await house.invite("somebody@example.org")
    listed = await house.own(bob)
    assert [one["id"] for one in listed] == [second["invitation"]["id"], first["invitation"]["id"]]
    assert set(listed[0]) == {"id", "email", "role", "token", "expires_at", "created_at", "organization"}
    assert listed[0]["organization"] == {"slug": "other", "name": "The Others"}
    assert (listed[1]["email"], listed[1]["role"]) == ("BOB@example.org", "member")
    assert listed[1]["expires_at"] == first["invitation"]["expires_at"]
    house.log.remember(*(one["token"] for one in listed))
    for table in ("invitations", "audit_entries", "audit_personal", "events"):
        assert not any(one["token"] in repr(house.people.rows(f"select * from {table}")) for one in listed)

    assert (await house.accept(listed[1]["token"])).status == 200
    assert (await house.decline(listed[0]["token"])).status == 200
    assert house.members()["bob@example.org"] == "member"
    assert await house.own(bob) == []
    accepted, declined = house.events()[-2:]
    assert (accepted["action"], accepted["actor_id"], accepted["details"]["way"]) == ("invitation.accepted", bob.user, "own_list")
    assert (declined["action"], declined["actor_id"], declined["details"]["way"]) == ("invitation.declined", bob.user, "own_list")
    for one in listed:
        assert (await house.accept(one["token"])).status == 400


async def test_only_what_can_be_answered_is_in_ones_own_list(house: Inviting) -> None:
    bob = house.verified("bob@example.org")
    issued = await house.invite()
    assert len(await house.own(bob)) == 1
    house.people.change("update users set email_verified_at = null where id = %s", bob.user)
    assert await house.own(bob) == []  # an address that nobody has proved is nobody's
    house.people.change("update users set email_verified_at = now() where id = %s", bob.user)
    house.people.change("update organizations set status = 'suspended'")
    assert await house.own(bob) == []
    house.people.change("update organizations set status = 'active'")
    house.overdue()
    assert await house.own(bob) == []
    house.people.change("update invitations set expires_at = now() + interval '1 day'")
    assert len(await house.own(bob)) == 1
    await house.ask("POST", f"/{issued['invitation']['id']}")
    assert await house.own(bob) == []


async def test_who_may_see_their_own_list(house: Inviting) -> None:
    bob = house.verified("bob@example.org")
    await house.invite()
    assert (await house.client.get(OWN)).status == 401
    away = house.tenants.add("away", status="suspended")
    house.tenants.join(bob, away)
    # A token for a suspended organization can still answer. A token for a service cannot, since the application could accept with it.
    token = await house.tenants.token_in(bob, away)
    answer = await house.client.get(OWN, token=token)
    assert (answer.status, len(answer.json())) == (200, 1)
    service = house.tenants.service(house.tenants.add("shop"), "till")
    house.tenants.uses(bob, service)
    answer = await house.client.get(OWN, token=await house.tenants.token_in(bob, service))
    assert (answer.status, answer.error_code) == (403, "FORBIDDEN")


async def test_a_listed_token_is_for_its_person_as_long_as_they_have_the_address(house: Inviting) -> None:
    bob = house.verified("bob@example.org")
    await house.invite()
    (own,) = await house.own(bob)
    house.people.change("update users set email = 'new@example.org', email_key = 'new@example.org' where id = %s", bob.user)
    for answer in (await house.accept(own["token"]), await house.decline(own["token"])):
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
    house.verified("bob@example.org")  # somebody else by now
    for answer in (await house.accept(own["token"]), await house.decline(own["token"])):
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
    assert house.statuses() == ["pending"]


async def derived(house: Inviting, person: Person, issued: dict[str, Any], minutes: float, key: bytes | None = None) -> str:
    until = house.postern.foundation.clock.now() + timedelta(minutes=minutes)
    invitation = InvitationId(UUID(issued["invitation"]["id"]))
    token = ListedToken(invitation, UserId(person.user), SessionId(person.session), None, until)
    return token.signed(key or await house.postern.foundation.server_secrets.get(LISTED_TOKENS)).reveal()


async def test_a_listed_token_lasts_a_quarter_of_an_hour_and_cannot_be_made_up(house: Inviting) -> None:
    bob = house.verified("bob@example.org")
    issued = await house.invite()
    late = await derived(house, bob, issued, -0.1)
    for answer in (await house.accept(late), await house.decline(late)):
        assert (answer.status, answer.error_code) == (400, "INVITATION_EXPIRED")
    forged = await derived(house, bob, issued, 10, b"?" * 32)
    (own,) = await house.own(bob)
    broken = [own["token"][:at] + ("A" if own["token"][at] != "A" else "B") + own["token"][at + 1 :] for at in range(0, 138, 9)]
    for token in (forged, *broken, own["token"] + "A", own["token"][:-1]):
        answer = await house.accept(token)
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST"), token
    assert house.statuses() == ["pending"]
    assert (await house.accept(await derived(house, bob, issued, 0.5))).status == 200


async def test_what_is_answered_while_impersonating_names_the_impersonator(house: Inviting) -> None:
    root = house.people.add("root@example.org", platform_owner=True)
    bob = house.verified("bob@example.org")
    await house.invite()
    begun = await house.client.post(f"/api/platform/impersonate/{bob.user}", {"reason": "Support"}, token=await house.people.token(root))
    assert begun.status == 200, begun.body
    answer = await house.client.get(OWN, token=begun.json()["access_token"])
    assert (await house.accept(answer.json()[0]["token"])).status == 200
    joined, accepted = house.events()[-2:]
    for event in (joined, accepted):
        assert (event["actor_id"], event["impersonator_id"]) == (bob.user, root.user)


async def test_a_listed_token_ends_with_the_session_that_it_was_given_to(house: Inviting) -> None:
    """After a sign-out, and after the end of an impersonation, the listed tokens and links no longer answer an invitation."""
    root = house.people.add("root@example.org", platform_owner=True)
    bob = house.verified("bob@example.org")
    await house.invite()
    begun = await house.client.post(f"/api/platform/impersonate/{bob.user}", {"reason": "Support"}, token=await house.people.token(root))
    impersonating = begun.json()["access_token"]
    answer = await house.client.get(OWN, token=impersonating)
    (own,) = await house.own(bob)
    assert (await house.client.post("/api/auth/logout", token=impersonating)).status == 200
    assert (await house.client.post("/api/auth/logout", token=await house.people.token(bob))).status == 200
    for token in (answer.json()[0]["token"], own["token"]):
        for refused in (await house.accept(token), await house.decline(token), await house.client.get(f"{PAGE}?token={token}")):
            assert refused.status == 400
    assert house.statuses() == ["pending"]


async def test_a_manager_accepts_in_the_persons_place(house: Inviting) -> None:
    house.verified("bob@example.org")
    admin = house.tenants.member(house.acme, "admin", "admin@acme.example")
    issued = await house.invite(role="admin")
    await house.postbox.empty()
    answer = await house.ask("POST", f"/{issued['invitation']['id']}/accept", by=admin)
    assert (answer.status, answer.body) == (200, b"{}")
    assert house.members()["bob@example.org"] == "admin"
    joined, accepted = house.events()[-2:]
    assert (joined["action"], joined["actor_id"]) == ("user.joined", admin.user)
    assert (accepted["actor_id"], accepted["details"]["way"]) == (admin.user, "on_behalf")
    assert await house.postbox.empty() == []


async def test_accepted_in_their_place_somebody_new_gets_an_account_too(house: Inviting) -> None:
    issued = await house.invite("new@example.org")
    await house.postbox.empty()
    assert (await house.ask("POST", f"/{issued['invitation']['id']}/accept")).status == 200
    assert house.members()["new@example.org"] == "member"
    assert [to for to, _ in await house.mailed()] == ["new@example.org"]
    (signup,) = house.people.rows("select actor_id from audit_log where action = 'user.signup.success'")
    assert signup == {"actor_id": house.ada.user}


VIEWS = (Capability.MEMBERS_VIEW, Capability.SERVICES_VIEW, Capability.END_USERS_VIEW)


@pytest.mark.parametrize(
    ("held", "role", "status"),
    [
        ((Capability.MEMBERS_MANAGE,), "member", 200),
        ((Capability.MEMBERS_MANAGE, *VIEWS), "member", 200),
        ((Capability.MEMBERS_MANAGE, *VIEWS), "admin", 403),
        ((Capability.MEMBERS_MANAGE, *VIEWS), "auditor", 403),
        ((Capability.MEMBERS_MANAGE, Capability.ROLES_MANAGE, *VIEWS), "auditor", 403),
        ((Capability.MEMBERS_MANAGE, Capability.ROLES_MANAGE, Capability.AUDIT_LOGS_VIEW), "auditor", 200),
        (VIEWS, "member", 403),
    ],
)
async def test_nobody_brings_in_more_than_they_hold(held: tuple[Capability, ...], role: str, status: int, house: Inviting) -> None:
    house.role("auditor", Capability.AUDIT_LOGS_VIEW)
    issued = await house.invite(role=role)
    manager = house.tenants.member(house.acme, house.role("manager", *held))
    answer = await house.ask("POST", f"/{issued['invitation']['id']}/accept", by=manager)
    assert answer.status == status
    assert house.statuses() == ["accepted" if status == 200 else "pending"]


async def test_of_fifty_for_the_last_seat_one_gets_it(house: Inviting) -> None:
    for turn in range(ROUNDS):
        invited = [await house.invite(f"p{number}.{turn}@example.org") for number in range(50)]
        house.people.change("update organizations set max_users = member_count + 1")
        before = len(house.members())
        answers = await at_once(50, lambda number, invited=invited: house.accept(invited[number]["token"]))  # type: ignore[misc]  # mypy knows no default here
        assert sorted(answer.status for answer in answers) == [200] + [400] * 49
        assert {answer.error_code for answer in answers if answer.status == 400} == {"TEAM_LIMIT_EXCEEDED"}
        assert len(house.members()) == before + 1
        assert house.statuses().count("accepted") == turn + 1
    assert house.happened().count("user.joined") == ROUNDS
    # People who did not get in have no account either.
    (made,) = house.people.rows("select count(*) as n from users where email like 'p%%'")
    assert made["n"] == ROUNDS


async def test_of_fifty_with_one_token_one_gets_in(house: Inviting) -> None:
    house.verified("bob@example.org")
    for email in ("bob@example.org", "new@example.org"):
        issued = await house.invite(email)
        answers = await at_once(50, lambda _, token=issued["token"]: house.accept(token))  # type: ignore[misc]  # mypy knows no default here
        assert sorted(answer.status for answer in answers) == [200] + [400] * 49
        assert house.statuses()[-1] == "accepted"
    assert house.happened().count("user.joined") == house.happened().count("invitation.accepted") == 2
    assert len(house.members()) == 3


async def test_of_all_the_ways_to_end_one_invitation_one_wins(house: Inviting) -> None:
    bob = house.verified("bob@example.org")
    manager = await house.people.token(house.ada)
    ends = {"accepted": "invitation.accepted", "rejected": "invitation.declined", "cancelled": "invitation.revoked"}
    for _ in range(4):
        issued = await house.invite()
        (own,) = await house.own(bob)
        one = f"{house.path()}/{issued['invitation']['id']}"
        ways = [
            lambda own=own: house.accept(own["token"]),
            lambda issued=issued: house.accept(issued["token"]),
            lambda issued=issued: house.decline(issued["token"]),
            lambda one=one: house.client.post(one, token=manager),
            lambda one=one: house.client.post(f"{one}/accept", token=manager),
        ]
        before = len(house.happened())
        answers = await at_once(50, lambda number, ways=ways: ways[number % len(ways)]())  # type: ignore[misc]  # mypy knows no default here
        assert [answer.status for answer in answers].count(200) == 1, [answer.body for answer in answers]
        assert {answer.status for answer in answers} <= {200, 400, 404}
        status = house.statuses()[-1]
        assert ends[status] in house.happened()[before:]
        assert ("bob@example.org" in house.members()) == (status == "accepted")
        house.people.change("delete from relations where user_id = %s", bob.user)
        house.people.change("delete from memberships where user_id = %s", bob.user)
        house.people.change("delete from invitations")


async def test_one_new_person_accepts_everywhere_at_once(house: Inviting) -> None:
    tenants = [house.tenants.add(f"org{number}") for number in range(10)]
    issued = []
    for tenant in tenants:
        house.tenants.join(house.ada, tenant, "owner")
        issued.append(await house.invite("new@example.org", of=tenant))
    answers = await at_once(10, lambda number: house.accept(issued[number]["token"]))
    assert [answer.status for answer in answers] == [200] * 10
    assert len(house.people.rows("select id from users where email = 'new@example.org'")) == 1
    assert all(house.members(tenant)["new@example.org"] == "member" for tenant in tenants)


@pytest.mark.parametrize("by_manager", [False, True])
async def test_who_registers_at_the_same_moment_is_found_at_the_second_look(by_manager: bool, house: Inviting, database_url: str) -> None:
    """The registration is uncommitted when the acceptance looks for the account, and committed when the acceptance adds it."""
    issued = await house.invite("new@example.org")
    answers: list[int] = []

    async def answer() -> None:
        if by_manager:
            answers.append((await house.ask("POST", f"/{issued['invitation']['id']}/accept")).status)
        else:
            answers.append((await house.accept(issued["token"])).status)

    user = uuid4()
    with psycopg.connect(database_url) as registration:
        registration.execute("insert into users (id, email, email_key) values (%s, 'New@example.org', 'new@example.org')", (user,))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            await house.people.somebody_waits()
            registration.commit()
    assert answers == [200]
    assert house.members() == {"ada@acme.example": "owner", "New@example.org": "member"}


async def test_an_account_that_is_deleted_at_the_same_moment_is_made_anew(house: Inviting, database_url: str) -> None:
    bob = house.verified("bob@example.org")
    issued = await house.invite(bob.email)
    answers: list[int] = []

    async def answer() -> None:
        answers.append((await house.accept(issued["token"])).status)

    with psycopg.connect(database_url) as deletion:
        deletion.execute("delete from users where id = %s", (bob.user,))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            await house.people.somebody_waits()
            deletion.commit()
    assert answers == [200]
    assert house.members()[bob.email] == "member"
    assert house.people.rows("select from users where id = %s", bob.user) == []


async def test_a_membership_that_appears_past_everybody_is_seen_at_the_second_look(
    house: Inviting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every statement that adds a member locks the organization first. Should one not, no event is sent twice."""
    bob = house.verified("bob@example.org")
    issued = await house.invite()

    async def late(_rows: MemberRows, _membership: Membership) -> bool:
        monkeypatch.undo()
        return False

    monkeypatch.setattr(MemberRows, "add", late)
    assert (await house.accept(issued["token"])).status == 200
    assert house.members()[bob.email] == "member"
    assert house.happened().count("user.joined") == 1


async def test_the_mailed_link_leads_to_the_frontend(house: Inviting) -> None:
    issued = await house.invite()
    ((_, token),) = await house.mailed()
    # The inviter gets another token, which is no proof of reading the mail.
    assert token != issued["token"]
    for _ in range(3):
        answer = await house.client.get(f"/invitations/accept?token={token}")
        assert answer.status == 301
        assert answer.header("location") == f"{BASE_URL}/ui/invitations/accept?token={token}"
        assert answer.header("cache-control") == "no-store"
        assert answer.body == b""
    assert (await house.client.request("HEAD", f"/invitations/accept?token={token}")).status == 301
    assert house.statuses() == ["pending"]


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("https://evil.example/", "https%3A%2F%2Fevil.example%2F"),
        ("%0d%0aset-cookie:x=1", "%0D%0Aset-cookie%3Ax%3D1"),
        ("x%26token=y%23z", "x%26token%3Dy%23z"),
        ("../../..", "..%2F..%2F.."),
        ("%e2%80%ae", "%E2%80%AE"),
        ("", ""),
    ],
)
async def test_a_link_leads_nowhere_else_whatever_its_token(given: str, sent: str, house: Inviting) -> None:
    poisoned = (("host", "evil.example"), ("x-forwarded-host", "evil.example"))
    answer = await house.client.get(f"/invitations/accept?token={given}", headers=poisoned)
    assert answer.status == 301
    assert answer.header("location") == f"{BASE_URL}/ui/invitations/accept?token={sent}"


@pytest.mark.parametrize("query", ["", "?x=1", "?token=a&token=b", "?token=%00", "?token=%ff"])
async def test_a_link_without_a_token_is_refused(query: str, house: Inviting) -> None:
    assert (await house.client.get(f"/invitations/accept{query}")).status == 400


async def test_without_a_database_there_is_an_answer(lonely_client: Client) -> None:
    assert (await lonely_client.post(ACCEPT, {"token": str(uuid4())})).status == 503
    assert (await lonely_client.get("/invitations/accept?token=x")).status == 301


async def test_nobody_answers_without_end(client: Client) -> None:
    """Accepting and declining share one limit."""
    for _ in range(INVITATION_ANSWERS.burst // 2):
        for path in (ACCEPT, DECLINE):
            assert (await client.post(path, {"token": "guess"})).status == 400
    answer = await client.post(ACCEPT, {"token": "guess"})
    while answer.status == 400:  # one more for each second that this has taken
        answer = await client.post(ACCEPT, {"token": "guess"})
    assert (answer.status, answer.error_code) == (429, "RATE_LIMIT_EXCEEDED")
    assert answer.header("retry-after")


async def test_round_trips(house: Inviting) -> None:
    measured: dict[str, int] = {}
    for turn in ("warm", "measured"):
        bob = house.verified(f"bob.{turn}@example.org")
        await house.people.with_password("the stranger's own", f"eve.{turn}@example.org", verified=False)
        await house.people.with_password("the stranger's own", f"joe.{turn}@example.org", verified=False)
        for email in ("bob", "eve", "new"):
            await house.accept((await house.invite(f"{email}.{turn}@example.org"))["token"])
            measured[f"accept, {email}"] = house.trips()
        for email in ("joe", "newer"):
            issued = await house.invite(f"{email}.{turn}@example.org")
            await house.ask("POST", f"/{issued['invitation']['id']}/accept")
            measured[f"on behalf, {email}"] = house.trips()
        issued = await house.invite(f"late.{turn}@example.org")
        await house.decline(issued["token"])
        measured["decline"] = house.trips()
        issued = await house.invite(f"later.{turn}@example.org")
        house.overdue(issued)
        await house.accept(issued["token"])
        measured["accept, too late"] = house.trips()
        await house.own(bob)
        measured["own list"] = house.trips()
        await house.client.get("/invitations/accept?token=x")
        measured["link"] = house.trips()
    assert measured == {
        "accept, bob": 3,
        "accept, eve": 5,
        "accept, new": 4,
        "on behalf, joe": 6,
        "on behalf, newer": 5,
        "decline": 2,
        "accept, too late": 2,
        "own list": 2,
        "link": 0,
    }
