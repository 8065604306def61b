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
from core.domain.tenancy.invitations import ListedToken
from core.domain.tenancy.members import Membership
from core.domain.tenancy.roles import Capability
from core.usecases.tenancy.invitations import LISTED_TOKENS
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.limits import INVITATION_ANSWERS
from tests.conftest import CapturedLog
from tests.http.client import Client, Received
from tests.http.inviting import ACCEPT, DECLINE, OWN, Inviting, at_once
from tests.http.people import BASE_URL, People, Person
from tests.http.postbox import token_in
from tests.http.signing_in import unlimited

ROUNDS = 3
PAGE = "/ui/invitations/accept"


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> Inviting:
    return Inviting(postern, people, unlimited(postern), log)


async def test_somebody_with_an_account_becomes_a_member(scene: Inviting) -> None:
    bob = scene.verified("bob@example.org")
    issued = await scene.invite("BOB@example.org", "admin")
    scene.log.entries.clear()
    answer = await scene.accept(issued["token"])
    assert (answer.status, answer.body) == (200, b"{}")
    assert scene.members() == {"ada@acme.example": "owner", "bob@example.org": "admin"}
    assert scene.statuses() == ["accepted"]
    assert scene.people.rows("select id, password_hash, email_verified_at is not null as verified from users where id = %s", bob.user) == [
        {"id": bob.user, "password_hash": None, "verified": True}
    ]
    # The person has the role's rights at once.
    answer = await scene.client.get("/api/organizations/acme/members", token=await scene.people.token(bob))
    assert answer.status == 200
    assert [mail.to for mail in await scene.postbox.empty()] == ["BOB@example.org"]  # the invitation alone


async def test_joining_is_on_record(scene: Inviting) -> None:
    bob = scene.verified("bob@example.org")
    issued = await scene.invite()
    await scene.accept(issued["token"])
    _, joined, accepted = scene.events()
    invitation = issued["invitation"]["id"]
    # The inviter has the link, too, so the entry says who joined, but not who acted.
    by_link = {"actor_id": None, "impersonator_id": None, "organization_id": scene.acme.id, "success": True, "address": "192.0.2.1"}
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


async def test_a_role_of_the_organizations_own_comes_with_what_it_permits(scene: Inviting) -> None:
    scene.role("auditor", Capability.AUDIT_LOGS_VIEW)
    bob = scene.verified("bob@example.org")
    await scene.accept((await scene.invite(role="auditor"))["token"])
    assert scene.members()["bob@example.org"] == "auditor"
    member = await scene.postern.tenancy.callers.resolve_member(await scene.people.token(bob), "acme")
    assert member.capabilities == {Capability.AUDIT_LOGS_VIEW}


async def test_without_an_account_there_is_one_and_a_link_to_choose_a_password(scene: Inviting) -> None:
    issued = await scene.invite("new@example.org")
    await scene.postbox.empty()
    assert (await scene.accept(issued["token"])).status == 200
    (user,) = scene.people.rows("select * from users where email = 'new@example.org'")
    # The holder of the token need not own the mailbox: the inviter has seen the token, too.
    assert (user["password_hash"], user["email_verified_at"], user["is_platform_owner"]) == (None, None, False)
    assert scene.members() == {"ada@acme.example": "owner", "new@example.org": "member"}
    (mail,) = await scene.postbox.empty()
    assert mail.to == "new@example.org"
    link = next(word for word in mail.text.split() if "?token=" in word)
    assert link.startswith(f"{BASE_URL}/ui/set-password?token=")
    assert "Acme" in mail.subject
    (signup,) = scene.people.rows("select actor_id, target_id, details from audit_log where action = 'user.signup.success'")
    assert signup == {"actor_id": None, "target_id": str(user["id"]), "details": {"provider": "invitation"}}
    password = "a fresh and lively password"
    chosen = await scene.client.post("/api/auth/reset-password", {"token": token_in(link), "new_password": password})
    assert chosen.status == 200, chosen.body
    signed_in = await scene.client.post("/api/auth/login", {"email": "new@example.org", "password": password})
    assert signed_in.status == 200, signed_in.body


async def test_an_account_that_nobody_proved_is_freed_of_its_strangers_password(scene: Inviting) -> None:
    stranger = await scene.people.with_password("the stranger's own", "new@example.org", verified=False)
    scene.people.change(
        "insert into sessions (id, user_id, created_at, last_seen_at, expires_at) values (%s, %s, now(), now(), now() + interval '1 day')",
        uuid4(),
        stranger.user,
    )
    await scene.client.post("/api/auth/resend-verification", {"email": "new@example.org"})
    issued = await scene.invite("new@example.org")
    await scene.postbox.empty()
    assert (await scene.accept(issued["token"])).status == 200
    (user,) = scene.people.rows("select id, password_hash, email_verified_at from users where email = 'new@example.org'")
    assert user == {"id": stranger.user, "password_hash": None, "email_verified_at": None}
    assert scene.people.rows("select id from sessions where user_id = %s and revoked_at is null", stranger.user) == []
    assert scene.people.rows("select digest from mailed_tokens where used_at is null") == []
    assert scene.members()["new@example.org"] == "member"
    assert [(to, bool(token)) for to, token in await scene.mailed()] == [("new@example.org", True)]


async def test_a_deactivated_account_does_not_join_and_is_listed_as_anybody(scene: Inviting) -> None:
    bob = scene.verified("bob@example.org")
    issued = await scene.invite()
    ((_, mailed),) = await scene.mailed()
    scene.people.change("update users set deactivated_at = now() where id = %s", bob.user)
    answer = await scene.accept(mailed)
    assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
    assert "deactivated" not in answer.body.decode()
    assert scene.statuses() == ["pending"]
    assert scene.members() == {"ada@acme.example": "owner"}
    # The organization, which must not learn of it, lists the person.
    assert (await scene.ask("POST", f"/{issued['invitation']['id']}/accept")).status == 200
    assert scene.people.rows("select own_since from memberships where user_id = %s", bob.user) == [{"own_since": None}]
    assert scene.people.rows("select from users where id = %s and deactivated_at is not null", bob.user) != []


@pytest.mark.parametrize("path", [ACCEPT, DECLINE])
async def test_a_token_works_once(path: str, scene: Inviting) -> None:
    issued = await scene.invite()
    assert (await scene.client.post(path, {"token": issued["token"]})).status == 200
    before = (scene.happened(), scene.members(), scene.statuses())
    for again, says in ((ACCEPT, "already" if path == ACCEPT else "declined"), (DECLINE, "already" if path == ACCEPT else "declined")):
        answer = await scene.client.post(again, {"token": issued["token"]})
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
        assert says in answer.json()["error"]
    assert (await scene.ask("POST", f"/{issued['invitation']['id']}/accept")).status == 400
    assert (scene.happened(), scene.members(), scene.statuses()) == before


async def test_declining_adds_nobody(scene: Inviting) -> None:
    issued = await scene.invite("new@example.org")
    answer = await scene.decline(issued["token"])
    assert (answer.status, answer.body) == (200, b"{}")
    assert scene.statuses() == ["rejected"]
    assert scene.members() == {"ada@acme.example": "owner"}
    assert scene.people.rows("select id from users where email = 'new@example.org'") == []
    event = scene.events()[-1]
    assert (event["action"], event["actor_id"], event["address"]) == ("invitation.declined", None, "192.0.2.1")
    assert event["details"] == {"role": "member", "way": "link", "invited_email": "new@example.org"}


async def test_an_inviter_who_declines_by_the_link_learns_of_no_account_and_blames_nobody(scene: Inviting) -> None:
    told = []
    scene.verified("known@example.org")
    for email in ("known@example.org", "unknown@example.org"):
        await scene.decline((await scene.invite(email))["token"])
        listed = await scene.client.get(
            "/api/organizations/acme/audit-log?action=invitation.declined&limit=1", token=await scene.people.token(scene.ada)
        )
        (entry,) = listed.json()["logs"]
        (event,) = scene.people.rows("select * from events where name = 'invitation.declined' order by id desc limit 1")
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


async def test_one_whose_time_has_passed_is_not_accepted_and_that_is_on_record(scene: Inviting) -> None:
    issued = await scene.invite()
    scene.overdue()
    answer = await scene.accept(issued["token"])
    assert (answer.status, answer.error_code) == (400, "INVITATION_EXPIRED")
    assert scene.statuses() == ["expired"]
    assert scene.happened() == ["user.invited", "invitation.expired"]
    assert scene.events()[-1]["actor_id"] is None
    for answer in (await scene.accept(issued["token"]), await scene.decline(issued["token"])):
        assert (answer.status, answer.error_code) == (400, "INVITATION_EXPIRED")
    assert scene.happened() == ["user.invited", "invitation.expired"]
    assert scene.members() == {"ada@acme.example": "owner"}


async def test_one_whose_time_has_passed_can_be_declined_until_that_is_written_down(scene: Inviting) -> None:
    issued = await scene.invite()
    scene.overdue()
    assert (await scene.decline(issued["token"])).status == 200
    assert scene.statuses() == ["rejected"]


async def test_one_whose_time_has_passed_is_not_accepted_in_somebodys_place_either(scene: Inviting) -> None:
    issued = await scene.invite()
    scene.overdue()
    answer = await scene.ask("POST", f"/{issued['invitation']['id']}/accept")
    assert (answer.status, answer.error_code) == (400, "INVITATION_EXPIRED")
    assert scene.statuses() == ["expired"]


async def test_there_is_room_for_so_many_members_when_it_is_accepted(scene: Inviting) -> None:
    scene.people.change("update organizations set max_users = 2")
    one, two, three = [await scene.invite(f"p{number}@example.org") for number in range(3)]
    assert (await scene.accept(one["token"])).status == 200
    for answer in (await scene.accept(two["token"]), await scene.ask("POST", f"/{two['invitation']['id']}/accept")):
        assert (answer.status, answer.error_code) == (400, "TEAM_LIMIT_EXCEEDED")
    assert scene.statuses() == ["accepted", "pending", "pending"]
    assert scene.people.rows("select id from users where email like 'p1%%' or email like 'p2%%'") == []
    # The invitation stays, and works when there is room again.
    scene.people.change("update organizations set max_users = 3")
    assert (await scene.accept(two["token"])).status == 200
    scene.people.change("update organizations set max_users = 0")
    assert (await scene.accept(three["token"])).error_code == "TEAM_LIMIT_EXCEEDED"


async def test_without_a_number_of_its_own_the_organization_has_its_tiers(scene: Inviting) -> None:
    issued = await scene.invite()
    scene.people.change("update all_organizations set member_count = 100")
    assert (await scene.accept(issued["token"])).error_code == "TEAM_LIMIT_EXCEEDED"
    scene.people.change("update all_organizations set member_count = 100, tier_id = (select id from tiers where name = 'professional')")
    assert (await scene.accept(issued["token"])).status == 200


@pytest.mark.parametrize("status", ["pending", "suspended", "rejected"])
async def test_an_organization_that_is_not_active_takes_nobody_in(status: str, scene: Inviting) -> None:
    issued = await scene.invite()
    scene.people.change("update organizations set status = %s", status)
    answer = await scene.accept(issued["token"])
    assert (answer.status, answer.error_code) == (403, "ORGANIZATION_NOT_ACTIVE")
    assert scene.statuses() == ["pending"]
    assert (await scene.decline(issued["token"])).status == 200  # to say no, it need not be


async def test_an_organization_that_is_being_deleted_is_gone_with_its_invitations(scene: Inviting) -> None:
    bob = scene.verified("bob@example.org")
    issued = await scene.invite()
    (own,) = await scene.own(bob)
    scene.people.change("update all_organizations set deleted_at = now()")
    for token in (issued["token"], own["token"]):
        for answer in (await scene.accept(token), await scene.decline(token)):
            assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
    assert await scene.own(bob) == []


async def test_who_is_a_member_already_does_not_join_again(scene: Inviting) -> None:
    issued = await scene.invite(role="admin")
    scene.tenants.join(scene.verified("bob@example.org"), scene.acme)
    for answer in (await scene.accept(issued["token"]), await scene.ask("POST", f"/{issued['invitation']['id']}/accept")):
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
        assert "already a member" in answer.json()["error"]
    assert scene.members()["bob@example.org"] == "member"


HOSTILE: list[Any] = [
    *("", " ", "x", str(uuid4()), str(uuid4()).upper(), "{" + str(uuid4()) + "}", "'; drop table invitations --", "\u202e", "ü" * 36),
    *("x" * 118, "A" * 118, "ü" * 118, "-_" * 59, "=" * 118, "x" * 60_000, base64.urlsafe_b64encode(b"\0" * 88).rstrip(b"=").decode()),
]


MALFORMED: list[Any] = [
    *({}, {"token": None}, {"token": 5}, {"token": ["x"]}, [], b"{", rb'{"token": "\u0000"}', rb'{"token": "\ud800"}'),
]


@pytest.mark.parametrize("path", [ACCEPT, DECLINE])
async def test_what_is_no_token_is_refused(path: str, scene: Inviting) -> None:
    issued = await scene.invite()
    digest = issued["invitation"]["token"]
    for token in (*HOSTILE, digest, issued["invitation"]["id"], issued["token"].upper(), issued["token"] + " "):
        answer = await scene.client.post(path, {"token": token})
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST"), token[:200]
        assert "not valid" in answer.json()["error"]
    for body in MALFORMED:
        answer = await scene.client.post(path, body)
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST"), body
    assert scene.statuses() == ["pending"]
    assert scene.happened() == ["user.invited"]


async def test_a_person_sees_what_they_are_invited_to_and_answers_there(scene: Inviting) -> None:
    bob = scene.verified("bob@example.org")
    other = scene.tenants.add("other", name="The Others")
    eve = scene.tenants.member(other, "owner", "eve@other.example")
    first = await scene.invite("BOB@example.org")
    second = await scene.invite("bob@example.org", "admin", by=eve, of=other)
    await scene.invite("somebody@example.org")
    listed = await scene.own(bob)
    assert [one["id"] for one in listed] == [second["invitation"]["id"], first["invitation"]["id"]]
    assert set(listed[0]) == {"id", "email", "role", "token", "expires_at", "created_at", "organization"}
    assert listed[0]["organization"] == {"slug": "other", "name": "The Others"}
    assert (listed[1]["email"], listed[1]["role"]) == ("BOB@example.org", "member")
    assert listed[1]["expires_at"] == first["invitation"]["expires_at"]
    scene.log.remember(*(one["token"] for one in listed))
    for table in ("invitations", "audit_entries", "audit_personal", "events"):
        assert not any(one["token"] in repr(scene.people.rows(f"select * from {table}")) for one in listed)

    assert (await scene.accept(listed[1]["token"])).status == 200
    assert (await scene.decline(listed[0]["token"])).status == 200
    assert scene.members()["bob@example.org"] == "member"
    assert await scene.own(bob) == []
    accepted, declined = scene.events()[-2:]
    assert (accepted["action"], accepted["actor_id"], accepted["details"]["way"]) == ("invitation.accepted", bob.user, "own_list")
    assert (declined["action"], declined["actor_id"], declined["details"]["way"]) == ("invitation.declined", bob.user, "own_list")
    for one in listed:
        assert (await scene.accept(one["token"])).status == 400


async def test_only_what_can_be_answered_is_in_ones_own_list(scene: Inviting) -> None:
    bob = scene.verified("bob@example.org")
    issued = await scene.invite()
    assert len(await scene.own(bob)) == 1
    scene.people.change("update users set email_verified_at = null where id = %s", bob.user)
    assert await scene.own(bob) == []  # an address that nobody has proved is nobody's
    scene.people.change("update users set email_verified_at = now() where id = %s", bob.user)
    scene.people.change("update organizations set status = 'suspended'")
    assert await scene.own(bob) == []
    scene.people.change("update organizations set status = 'active'")
    scene.overdue()
    assert await scene.own(bob) == []
    scene.people.change("update invitations set expires_at = now() + interval '1 day'")
    assert len(await scene.own(bob)) == 1
    await scene.ask("POST", f"/{issued['invitation']['id']}")
    assert await scene.own(bob) == []


async def test_who_may_see_their_own_list(scene: Inviting) -> None:
    bob = scene.verified("bob@example.org")
    await scene.invite()
    assert (await scene.client.get(OWN)).status == 401
    away = scene.tenants.add("away", status="suspended")
    scene.tenants.join(bob, away)
    # A token for a suspended organization can still answer. A token for a service cannot, since the application could accept with it.
    token = await scene.tenants.token_in(bob, away)
    answer = await scene.client.get(OWN, token=token)
    assert (answer.status, len(answer.json())) == (200, 1)
    service = scene.tenants.service(scene.tenants.add("shop"), "till")
    scene.tenants.uses(bob, service)
    answer = await scene.client.get(OWN, token=await scene.tenants.token_in(bob, service))
    assert (answer.status, answer.error_code) == (403, "FORBIDDEN")


async def test_a_listed_token_is_for_its_person_as_long_as_they_have_the_address(scene: Inviting) -> None:
    bob = scene.verified("bob@example.org")
    await scene.invite()
    (own,) = await scene.own(bob)
    scene.people.change("update users set email = 'new@example.org', email_key = 'new@example.org' where id = %s", bob.user)
    for answer in (await scene.accept(own["token"]), await scene.decline(own["token"])):
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
    scene.verified("bob@example.org")  # somebody else by now
    for answer in (await scene.accept(own["token"]), await scene.decline(own["token"])):
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
    assert scene.statuses() == ["pending"]


async def derived(scene: Inviting, person: Person, issued: dict[str, Any], minutes: float, key: bytes | None = None) -> str:
    until = scene.postern.foundation.clock.now() + timedelta(minutes=minutes)
    invitation = InvitationId(UUID(issued["invitation"]["id"]))
    token = ListedToken(invitation, UserId(person.user), SessionId(person.session), None, until)
    return token.signed(key or await scene.postern.foundation.server_secrets.get(LISTED_TOKENS)).reveal()


async def test_a_listed_token_lasts_a_quarter_of_an_hour_and_cannot_be_made_up(scene: Inviting) -> None:
    bob = scene.verified("bob@example.org")
    issued = await scene.invite()
    late = await derived(scene, bob, issued, -0.1)
    for answer in (await scene.accept(late), await scene.decline(late)):
        assert (answer.status, answer.error_code) == (400, "INVITATION_EXPIRED")
    forged = await derived(scene, bob, issued, 10, b"?" * 32)
    (own,) = await scene.own(bob)
    broken = [own["token"][:at] + ("A" if own["token"][at] != "A" else "B") + own["token"][at + 1 :] for at in range(0, 138, 9)]
    for token in (forged, *broken, own["token"] + "A", own["token"][:-1]):
        answer = await scene.accept(token)
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST"), token
    assert scene.statuses() == ["pending"]
    assert (await scene.accept(await derived(scene, bob, issued, 0.5))).status == 200


async def test_what_is_answered_while_impersonating_names_the_impersonator(scene: Inviting) -> None:
    root = scene.people.add("root@example.org", platform_owner=True)
    bob = scene.verified("bob@example.org")
    await scene.invite()
    begun = await scene.client.post(f"/api/platform/impersonate/{bob.user}", {"reason": "Support"}, token=await scene.people.token(root))
    assert begun.status == 200, begun.body
    answer = await scene.client.get(OWN, token=begun.json()["access_token"])
    assert (await scene.accept(answer.json()[0]["token"])).status == 200
    joined, accepted = scene.events()[-2:]
    for event in (joined, accepted):
        assert (event["actor_id"], event["impersonator_id"]) == (bob.user, root.user)


async def test_a_listed_token_ends_with_the_session_that_it_was_given_to(scene: Inviting) -> None:
    """After a sign-out, and after the end of an impersonation, the listed tokens and links no longer answer an invitation."""
    root = scene.people.add("root@example.org", platform_owner=True)
    bob = scene.verified("bob@example.org")
    await scene.invite()
    begun = await scene.client.post(f"/api/platform/impersonate/{bob.user}", {"reason": "Support"}, token=await scene.people.token(root))
    impersonating = begun.json()["access_token"]
    answer = await scene.client.get(OWN, token=impersonating)
    (own,) = await scene.own(bob)
    assert (await scene.client.post("/api/auth/logout", token=impersonating)).status == 200
    assert (await scene.client.post("/api/auth/logout", token=await scene.people.token(bob))).status == 200
    for token in (answer.json()[0]["token"], own["token"]):
        for refused in (await scene.accept(token), await scene.decline(token), await scene.client.get(f"{PAGE}?token={token}")):
            assert refused.status == 400
    assert scene.statuses() == ["pending"]


async def test_a_manager_accepts_in_the_persons_place(scene: Inviting) -> None:
    scene.verified("bob@example.org")
    admin = scene.tenants.member(scene.acme, "admin", "admin@acme.example")
    issued = await scene.invite(role="admin")
    await scene.postbox.empty()
    answer = await scene.ask("POST", f"/{issued['invitation']['id']}/accept", by=admin)
    assert (answer.status, answer.body) == (200, b"{}")
    assert scene.members()["bob@example.org"] == "admin"
    joined, accepted = scene.events()[-2:]
    assert (joined["action"], joined["actor_id"]) == ("user.joined", admin.user)
    assert (accepted["actor_id"], accepted["details"]["way"]) == (admin.user, "on_behalf")
    assert await scene.postbox.empty() == []


async def test_accepted_in_their_place_somebody_new_gets_an_account_too(scene: Inviting) -> None:
    issued = await scene.invite("new@example.org")
    await scene.postbox.empty()
    assert (await scene.ask("POST", f"/{issued['invitation']['id']}/accept")).status == 200
    assert scene.members()["new@example.org"] == "member"
    assert [to for to, _ in await scene.mailed()] == ["new@example.org"]
    (signup,) = scene.people.rows("select actor_id from audit_log where action = 'user.signup.success'")
    assert signup == {"actor_id": scene.ada.user}


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
async def test_nobody_brings_in_more_than_they_hold(held: tuple[Capability, ...], role: str, status: int, scene: Inviting) -> None:
    scene.role("auditor", Capability.AUDIT_LOGS_VIEW)
    issued = await scene.invite(role=role)
    manager = scene.tenants.member(scene.acme, scene.role("manager", *held))
    answer = await scene.ask("POST", f"/{issued['invitation']['id']}/accept", by=manager)
    assert answer.status == status
    assert scene.statuses() == ["accepted" if status == 200 else "pending"]


async def accept_in_the_end(scene: Inviting, token: str) -> Received:
    """A busy machine answers some of a crowd with 503, and they ask again."""
    while (answer := await scene.accept(token)).status == 503:
        pass
    return answer


async def test_of_fifty_for_the_last_seat_one_gets_it(scene: Inviting) -> None:
    for turn in range(ROUNDS):
        invited = [await scene.invite(f"p{number}.{turn}@example.org") for number in range(50)]
        scene.people.change("update organizations set max_users = member_count + 1")
        before = len(scene.members())
        answers = await at_once(50, lambda number, invited=invited: accept_in_the_end(scene, invited[number]["token"]))  # type: ignore[misc]  # mypy knows no default here
        assert sorted(answer.status for answer in answers) == [200] + [400] * 49
        assert {answer.error_code for answer in answers if answer.status == 400} == {"TEAM_LIMIT_EXCEEDED"}
        assert len(scene.members()) == before + 1
        assert scene.statuses().count("accepted") == turn + 1
    assert scene.happened().count("user.joined") == ROUNDS
    # People who did not get in have no account either.
    (made,) = scene.people.rows("select count(*) as n from users where email like 'p%%'")
    assert made["n"] == ROUNDS


async def test_of_fifty_with_one_token_one_gets_in(scene: Inviting) -> None:
    scene.verified("bob@example.org")
    for email in ("bob@example.org", "new@example.org"):
        issued = await scene.invite(email)
        answers = await at_once(50, lambda _, token=issued["token"]: scene.accept(token))  # type: ignore[misc]  # mypy knows no default here
        assert sorted(answer.status for answer in answers) == [200] + [400] * 49
        assert scene.statuses()[-1] == "accepted"
    assert scene.happened().count("user.joined") == scene.happened().count("invitation.accepted") == 2
    assert len(scene.members()) == 3


async def test_of_all_the_ways_to_end_one_invitation_one_wins(scene: Inviting) -> None:
    bob = scene.verified("bob@example.org")
    manager = await scene.people.token(scene.ada)
    ends = {"accepted": "invitation.accepted", "rejected": "invitation.declined", "cancelled": "invitation.revoked"}
    for _ in range(4):
        issued = await scene.invite()
        (own,) = await scene.own(bob)
        one = f"{scene.path()}/{issued['invitation']['id']}"
        ways = [
            lambda own=own: scene.accept(own["token"]),
            lambda issued=issued: scene.accept(issued["token"]),
            lambda issued=issued: scene.decline(issued["token"]),
            lambda one=one: scene.client.post(one, token=manager),
            lambda one=one: scene.client.post(f"{one}/accept", token=manager),
        ]
        before = len(scene.happened())
        answers = await at_once(50, lambda number, ways=ways: ways[number % len(ways)]())  # type: ignore[misc]  # mypy knows no default here
        assert [answer.status for answer in answers].count(200) == 1, [answer.body for answer in answers]
        assert {answer.status for answer in answers} <= {200, 400, 404}
        status = scene.statuses()[-1]
        assert ends[status] in scene.happened()[before:]
        assert ("bob@example.org" in scene.members()) == (status == "accepted")
        scene.people.change("delete from relations where user_id = %s", bob.user)
        scene.people.change("delete from memberships where user_id = %s", bob.user)
        scene.people.change("delete from invitations")


async def test_one_new_person_accepts_everywhere_at_once(scene: Inviting) -> None:
    tenants = [scene.tenants.add(f"org{number}") for number in range(10)]
    issued = []
    for tenant in tenants:
        scene.tenants.join(scene.ada, tenant, "owner")
        issued.append(await scene.invite("new@example.org", of=tenant))
    answers = await at_once(10, lambda number: scene.accept(issued[number]["token"]))
    assert [answer.status for answer in answers] == [200] * 10
    assert len(scene.people.rows("select id from users where email = 'new@example.org'")) == 1
    assert all(scene.members(tenant)["new@example.org"] == "member" for tenant in tenants)


@pytest.mark.parametrize("by_manager", [False, True])
async def test_who_registers_at_the_same_moment_is_found_at_the_second_look(by_manager: bool, scene: Inviting, database_url: str) -> None:
    """The registration is uncommitted when the acceptance looks for the account, and committed when the acceptance adds it."""
    issued = await scene.invite("new@example.org")
    answers: list[int] = []

    async def answer() -> None:
        if by_manager:
            answers.append((await scene.ask("POST", f"/{issued['invitation']['id']}/accept")).status)
        else:
            answers.append((await scene.accept(issued["token"])).status)

    user = uuid4()
    with psycopg.connect(database_url) as registration:
        registration.execute("insert into users (id, email, email_key) values (%s, 'New@example.org', 'new@example.org')", (user,))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            await scene.people.somebody_waits()
            registration.commit()
    assert answers == [200]
    assert scene.members() == {"ada@acme.example": "owner", "New@example.org": "member"}


async def test_an_account_that_is_deleted_at_the_same_moment_is_made_anew(scene: Inviting, database_url: str) -> None:
    bob = scene.verified("bob@example.org")
    issued = await scene.invite(bob.email)
    answers: list[int] = []

    async def answer() -> None:
        answers.append((await scene.accept(issued["token"])).status)

    with psycopg.connect(database_url) as deletion:
        deletion.execute("delete from users where id = %s", (bob.user,))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            await scene.people.somebody_waits()
            deletion.commit()
    assert answers == [200]
    assert scene.members()[bob.email] == "member"
    assert scene.people.rows("select from users where id = %s", bob.user) == []


async def test_a_membership_that_appears_past_everybody_is_seen_at_the_second_look(
    scene: Inviting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every statement that adds a member locks the organization first. Should one not, no event is sent twice."""
    bob = scene.verified("bob@example.org")
    issued = await scene.invite()

    async def late(_rows: MemberRows, _membership: Membership) -> bool:
        monkeypatch.undo()
        return False

    monkeypatch.setattr(MemberRows, "add", late)
    assert (await scene.accept(issued["token"])).status == 200
    assert scene.members()[bob.email] == "member"
    assert scene.happened().count("user.joined") == 1


async def test_the_mailed_link_leads_to_the_frontend(scene: Inviting) -> None:
    issued = await scene.invite()
    ((_, token),) = await scene.mailed()
    # The inviter gets another token, which is no proof of reading the mail.
    assert token != issued["token"]
    for _ in range(3):
        answer = await scene.client.get(f"/invitations/accept?token={token}")
        assert answer.status == 301
        assert answer.header("location") == f"{BASE_URL}/ui/invitations/accept?token={token}"
        assert answer.header("cache-control") == "no-store"
        assert answer.body == b""
    assert (await scene.client.request("HEAD", f"/invitations/accept?token={token}")).status == 301
    assert scene.statuses() == ["pending"]


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
async def test_a_link_leads_nowhere_else_whatever_its_token(given: str, sent: str, scene: Inviting) -> None:
    poisoned = (("host", "evil.example"), ("x-forwarded-host", "evil.example"))
    answer = await scene.client.get(f"/invitations/accept?token={given}", headers=poisoned)
    assert answer.status == 301
    assert answer.header("location") == f"{BASE_URL}/ui/invitations/accept?token={sent}"


@pytest.mark.parametrize("query", ["", "?x=1", "?token=a&token=b", "?token=%00", "?token=%ff"])
async def test_a_link_without_a_token_is_refused(query: str, scene: Inviting) -> None:
    assert (await scene.client.get(f"/invitations/accept{query}")).status == 400


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


async def test_round_trips(scene: Inviting) -> None:
    measured: dict[str, int] = {}
    for turn in ("warm", "measured"):
        bob = scene.verified(f"bob.{turn}@example.org")
        await scene.people.with_password("the stranger's own", f"eve.{turn}@example.org", verified=False)
        await scene.people.with_password("the stranger's own", f"joe.{turn}@example.org", verified=False)
        for email in ("bob", "eve", "new"):
            await scene.accept((await scene.invite(f"{email}.{turn}@example.org"))["token"])
            measured[f"accept, {email}"] = scene.trips()
        for email in ("joe", "newer"):
            issued = await scene.invite(f"{email}.{turn}@example.org")
            await scene.ask("POST", f"/{issued['invitation']['id']}/accept")
            measured[f"on behalf, {email}"] = scene.trips()
        issued = await scene.invite(f"late.{turn}@example.org")
        await scene.decline(issued["token"])
        measured["decline"] = scene.trips()
        issued = await scene.invite(f"later.{turn}@example.org")
        scene.overdue(issued)
        await scene.accept(issued["token"])
        measured["accept, too late"] = scene.trips()
        await scene.own(bob)
        measured["own list"] = scene.trips()
        await scene.client.get("/invitations/accept?token=x")
        measured["link"] = scene.trips()
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
