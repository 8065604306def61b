"""An organization's invitations over HTTP: made, listed, cancelled; their makers, receivers and roles; and their events."""

from hashlib import sha256
from typing import Any
from uuid import UUID, uuid4

import pytest

from core.domain.errors import Forbidden, NotFound
from core.domain.mail import Email
from core.domain.record.events import SYSTEM
from core.domain.tenancy.invitations import MOST_IN_ALL
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.client import Client
from tests.http.identity.test_accounts import BAD_ADDRESSES, BAD_VALUES
from tests.http.inviting import Inviting, at_once
from tests.http.people import BASE_URL, People
from tests.http.postbox import link_in, token_in
from tests.http.tenants import Tenant

RECORD = {"id", "org_id", "email", "role", "invited_by", "status", "token", "expires_at", "created_at"}
GONE = {"id": "unknown", "email": "deleted-user@unknown", "created_at": "1970-01-01T00:00:00Z", "name": None}


@pytest.fixture
def scene(client: Client, postern: Postern, people: People, log: CapturedLog) -> Inviting:
    return Inviting(postern, people, client, log)


async def test_somebody_is_invited_by_mail_for_a_week(scene: Inviting) -> None:
    issued = await scene.invite("Bob@Example.org")
    assert set(issued) == {"invitation", "inviter", "token"}
    invitation, token = issued["invitation"], issued["token"]
    assert set(invitation) == RECORD
    assert UUID(token).version == 4
    assert (invitation["email"], invitation["role"], invitation["status"]) == ("Bob@Example.org", "member", "pending")
    assert (invitation["org_id"], invitation["invited_by"]) == (str(scene.acme.id), str(scene.ada.user))
    assert invitation["token"] == sha256(token.encode()).hexdigest()
    (row,) = scene.people.rows("select *, expires_at - created_at as lasts from invitations")
    assert row["lasts"].days == 7
    assert row["token_digest"] == sha256(token.encode()).digest()
    assert token not in repr(row)
    (inviter,) = scene.people.rows("select created_at from users where id = %s", scene.ada.user)
    assert issued["inviter"].keys() == GONE.keys()
    assert (issued["inviter"]["id"], issued["inviter"]["email"]) == (str(scene.ada.user), "ada@acme.example")
    assert issued["inviter"]["created_at"].startswith(f"{inviter['created_at']:%Y-%m-%dT%H:%M}")

    (mail,) = await scene.postbox.empty()
    assert (mail.to, mail.subject) == ("Bob@Example.org", "Invitation to Acme")
    mailed = token_in(link_in(mail))
    assert link_in(mail) == f"{BASE_URL}/invitations/accept?token={mailed}"
    assert row["mailed_digest"] == sha256(mailed.encode()).digest() != row["token_digest"]
    assert "ada@acme.example" in mail.text


async def test_it_is_on_record_and_offered_to_webhooks_without_its_secret(scene: Inviting) -> None:
    issued = await scene.invite()
    invitation = issued["invitation"]["id"]
    (event,) = scene.events()
    assert event == {
        "action": "user.invited",
        "actor_id": scene.ada.user,
        "impersonator_id": None,
        "organization_id": scene.acme.id,
        "target_type": "user",
        "target_id": invitation,
        "details": {"invitation_id": invitation, "role": "member", "invited_email": "bob@example.org"},
        "success": True,
        "address": "192.0.2.1",
    }
    (published,) = scene.people.rows("select name, organization_id, details from events")
    assert (published["name"], published["organization_id"]) == ("user.invited", scene.acme.id)
    # Forgetting who it was leaves the entry as it is.
    (entry,) = scene.people.rows("select details from audit_entries")
    assert "bob" not in repr(entry)
    for table in ("audit_entries", "audit_personal", "events", "invitations"):
        assert issued["token"] not in repr(scene.people.rows(f"select * from {table}"))


async def test_the_organizations_looks_are_on_the_mail(scene: Inviting) -> None:
    scene.people.change("update organizations set name = 'Acme & <b>', primary_color = '#ffd166' where id = %s", scene.acme.id)
    await scene.invite()
    (mail,) = await scene.postbox.empty()
    assert mail.subject == "Invitation to Acme & <b>"
    assert "Acme &amp; &lt;b&gt;" in mail.html
    assert "#ffd166" in mail.html


@pytest.mark.parametrize("role", ["owner", "OWNER", "boss", "", "x" * 51, "adm in", "holder", "org.members.manage", "'; --", "admin\x00"])
async def test_an_unknown_role_and_one_that_is_only_transferred_are_refused(role: str, scene: Inviting) -> None:
    answer = await scene.ask("POST", "", {"email": "bob@example.org", "role": role})
    assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
    assert "role" in answer.json()["error"]
    assert scene.statuses() == []
    assert await scene.postbox.empty() == []


async def test_a_role_of_the_organizations_own_can_be_given(scene: Inviting) -> None:
    role = scene.role("auditor", Capability.AUDIT_LOGS_VIEW)
    issued = await scene.invite(role="auditor")
    assert issued["invitation"]["role"] == "auditor"
    (row,) = scene.people.rows("select role, role_id from invitations")
    assert row == {"role": "auditor", "role_id": role.id}


async def test_a_role_of_another_organization_is_unknown(scene: Inviting) -> None:
    other = scene.tenants.add("other")
    scene.role("auditor", Capability.AUDIT_LOGS_VIEW, of=other)
    answer = await scene.ask("POST", "", {"email": "bob@example.org", "role": "auditor"})
    assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")


VIEWS = (Capability.MEMBERS_VIEW, Capability.SERVICES_VIEW, Capability.END_USERS_VIEW)
MANAGES, ROLES = Capability.MEMBERS_MANAGE, Capability.ROLES_MANAGE


@pytest.mark.parametrize(
    ("held", "role", "status"),
    [
        ((MANAGES, *VIEWS), "member", 200),
        ((MANAGES, *VIEWS), "admin", 403),
        ((MANAGES, *VIEWS), "auditor", 403),
        ((MANAGES, *VIEWS, ROLES), "admin", 403),  # who does not hold what an admin does
        ((MANAGES, *VIEWS, ROLES), "auditor", 403),
        ((MANAGES, *VIEWS, Capability.AUDIT_LOGS_VIEW), "auditor", 403),  # who does not manage roles
        ((MANAGES, *VIEWS, ROLES, Capability.AUDIT_LOGS_VIEW), "auditor", 200),
        (tuple(Capability), "admin", 200),
        ((MANAGES,), "member", 200),  # who has the views of a member by managing them
        ((MANAGES,), "auditor", 403),
        ((VIEWS[0], VIEWS[1]), "member", 403),
        ((ROLES, *VIEWS), "member", 403),
        (VIEWS, "member", 403),
    ],
)
async def test_nobody_gives_what_they_do_not_hold(held: tuple[Capability, ...], role: str, status: int, scene: Inviting) -> None:
    scene.role("auditor", Capability.AUDIT_LOGS_VIEW)
    manager = scene.tenants.member(scene.acme, scene.role("manager", *held))
    answer = await scene.ask("POST", "", {"email": "bob@example.org", "role": role}, by=manager)
    assert answer.status == status
    assert scene.statuses() == (["pending"] if status == 200 else [])


async def test_admins_invite_and_members_and_strangers_do_not(scene: Inviting) -> None:
    admin, member = scene.tenants.member(scene.acme, "admin"), scene.tenants.member(scene.acme)
    await scene.invite("one@example.org", "admin", by=admin)
    for who in (member, scene.people.add()):
        for method, rest in (("POST", ""), ("GET", ""), ("POST", f"/{uuid4()}"), ("POST", f"/{uuid4()}/accept")):
            answer = await scene.ask(method, rest, {"email": "two@example.org", "role": "member"} if not rest else None, by=who)
            assert (answer.status, answer.error_code) == (403, "FORBIDDEN"), (method, rest)
    assert (await scene.client.get(scene.path())).status == 401


async def test_who_is_a_member_is_not_invited(scene: Inviting) -> None:
    scene.tenants.member(scene.acme, "member", "bob@example.org")
    for email in ("bob@example.org", "BOB@EXAMPLE.ORG", "ada@acme.example"):
        answer = await scene.ask("POST", "", {"email": email, "role": "member"})
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
        assert "already a member" in answer.json()["error"]
    # Members of another organization, and people with only an account, can be invited.
    scene.tenants.member(scene.tenants.add("other"), "member", "eve@example.org")
    scene.people.add("joe@example.org")
    await scene.invite("eve@example.org")
    await scene.invite("joe@example.org")


async def test_an_address_is_invited_once_at_a_time(scene: Inviting) -> None:
    issued = await scene.invite("bob@example.org")
    answer = await scene.ask("POST", "", {"email": "BOB@example.org", "role": "member"})
    assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
    assert "a pending invitation" in answer.json()["error"]
    await scene.invite("bob@example.org", of=_other(scene))  # what others do does not matter
    assert (await scene.ask("POST", f"/{issued['invitation']['id']}")).status == 200
    await scene.invite("bob@example.org")


def _other(scene: Inviting) -> Tenant:
    other = scene.tenants.add("other")
    scene.tenants.join(scene.ada, other, "owner")
    return other


async def test_one_is_sent_again_with_another_link(scene: Inviting) -> None:
    former = await scene.invite("bob@example.org", "admin")
    repeat = {"email": "BOB@example.org", "role": "admin", "replaces": former["invitation"]["id"]}
    answer = await scene.ask("POST", "", repeat)
    assert answer.status == 200
    assert answer.json()["token"] != former["token"]
    assert scene.statuses() == ["cancelled", "pending"]
    assert scene.happened() == ["user.invited", "invitation.revoked", "user.invited"]
    refused = await scene.client.post("/api/invitations/accept", {"token": former["token"]})
    assert (refused.status, refused.json()["error"]) == (400, "This invitation has been withdrawn")
    # Sent twice, the request finds nothing to send again.
    assert (await scene.ask("POST", "", repeat)).status == 404
    assert scene.statuses() == ["cancelled", "pending"]


async def test_one_to_somebody_else_is_not_sent_again(scene: Inviting) -> None:
    former = await scene.invite("bob@example.org")
    to_carol = {"email": "carol@example.org", "replaces": former["invitation"]["id"]}
    for wrong in (to_carol, {"email": "bob@example.org", "replaces": str(uuid4())}):
        answer = await scene.ask("POST", "", {"role": "member", **wrong})
        assert answer.status == 404, wrong
    assert scene.statuses() == ["pending"]


async def test_another_organizations_is_not_sent_again(scene: Inviting) -> None:
    former = await scene.invite("bob@example.org")
    globex = scene.tenants.add("globex")
    theirs = await scene.people.token(scene.tenants.member(globex, "owner"))
    body = {"email": "bob@example.org", "role": "member", "replaces": former["invitation"]["id"]}
    answer = await scene.client.post("/api/organizations/globex/invitations", body, token=theirs)
    assert answer.status == 404
    assert scene.statuses() == ["pending"]


async def test_of_fifty_that_invite_the_same_address_at_once_one_does(scene: Inviting) -> None:
    token = await scene.people.token(scene.ada)
    answers = await at_once(50, lambda _: scene.client.post(scene.path(), {"email": "bob@example.org", "role": "member"}, token=token))
    assert sorted(answer.status for answer in answers) == [200] + [400] * 49
    assert scene.statuses() == ["pending"]
    assert len(await scene.postbox.empty()) == 1
    assert scene.happened() == ["user.invited"]


async def test_one_whose_time_has_passed_is_in_nobodys_way(scene: Inviting) -> None:
    first = await scene.invite("bob@example.org", "admin")
    scene.overdue()
    await scene.invite("BOB@example.org")
    assert scene.statuses() == ["expired", "pending"]
    assert scene.happened() == ["user.invited", "invitation.expired", "user.invited"]
    expired = scene.events()[1]
    assert (expired["actor_id"], expired["address"], expired["target_type"]) == (None, None, "invitation")
    assert expired["target_id"] == first["invitation"]["id"]
    assert expired["details"] == {"role": "admin", "invited_email": "bob@example.org"}


async def test_a_mailbox_is_not_buried(scene: Inviting) -> None:
    for _ in range(5):
        issued = await scene.invite("bob@example.org")
        assert (await scene.ask("POST", f"/{issued['invitation']['id']}")).status == 200
    answer = await scene.ask("POST", "", {"email": "Bob@example.org", "role": "member"})
    assert (answer.status, answer.error_code) == (429, "RATE_LIMIT_EXCEEDED")
    assert 3500 < int(answer.header("retry-after") or 0) <= 3600
    assert len(await scene.postbox.empty()) == 5
    await scene.invite("eve@example.org")
    await scene.invite("bob@example.org", of=_other(scene))  # nor does it tell what other organizations do
    scene.people.change("update invitations set created_at = created_at - interval '61 minutes'")
    await scene.invite("bob@example.org")


async def test_strangers_are_not_mailed_without_end(scene: Inviting) -> None:
    statement = (
        "insert into invitations (id, org_id, email, email_key, role, token_digest, status, expires_at, created_at, closed_at)"
        " select cast(lpad(to_hex((extract(epoch from made) * 1000)::bigint), 12, '0') || substr(md5(n::text), 13) as uuid), %s,"
        "        n || '@example.com', n || '@example.com', 'member', sha256(n::text::bytea), 'cancelled', made, made, made"
        "   from generate_series(1, %s) as n, lateral (select now() - interval '59 minutes' as made) as earlier"
    )
    scene.people.change(statement, scene.acme.id, MOST_IN_ALL - 1)
    await scene.invite("bob@example.org")
    answer = await scene.ask("POST", "", {"email": "eve@example.org", "role": "member"})
    assert (answer.status, answer.error_code) == (429, "RATE_LIMIT_EXCEEDED")
    assert 0 < int(answer.header("retry-after") or 0) <= 60
    await scene.invite("eve@example.org", of=_other(scene))
    scene.people.change("update invitations set created_at = created_at - interval '2 minutes'")
    await scene.invite("eve@example.org")
    assert [mail.to for mail in await scene.postbox.empty()] == ["bob@example.org", "eve@example.org", "eve@example.org"]


async def test_bad_input_names_its_field_and_changes_nothing(scene: Inviting) -> None:
    bodies: list[tuple[str, Any]] = [("email", {"role": "member"}), ("role", {"email": "bob@example.org"})]
    bodies += [("email", {"email": value, "role": "member"}) for value in (*BAD_VALUES, *BAD_ADDRESSES)]
    bodies += [("role", {"email": "bob@example.org", "role": value}) for value in BAD_VALUES]
    bodies += [("email", rb'{"email": "b\u0000b@example.org", "role": "member"}'), ("JSON", b"{"), ("object", b"[]")]
    for field, body in bodies:
        answer = await scene.ask("POST", "", body)
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST"), body
        assert field in answer.json()["error"], (body, answer.body)
    for table in ("invitations", "jobs", "events", "audit_entries"):
        assert scene.people.rows(f"select * from {table}") == []


async def test_the_list_is_the_newest_first_in_pages_and_by_status(scene: Inviting) -> None:
    issued = [await scene.invite(f"p{number}@example.org") for number in range(7)]
    ids = [one["invitation"]["id"] for one in issued]
    await scene.ask("POST", f"/{ids[0]}")
    assert (await scene.accept(issued[1]["token"])).status == 200
    assert (await scene.decline(issued[2]["token"])).status == 200
    scene.overdue(issued[3])
    scene.overdue(issued[4])
    scene.people.change("update invitations set status = 'expired', closed_at = now() where id = %s", ids[4])

    listed = await scene.listing()
    assert [one["invitation"]["id"] for one in listed] == ids[::-1]
    assert all(set(one) == {"invitation", "inviter", "management_key"} and set(one["invitation"]) == RECORD for one in listed)
    assert all(one["inviter"]["email"] == "ada@acme.example" for one in listed)
    states = ["cancelled", "accepted", "rejected", "expired", "expired", "pending", "pending"]
    assert [one["invitation"]["status"] for one in listed] == states[::-1]
    assert listed[0]["invitation"]["token"] == sha256(issued[6]["token"].encode()).hexdigest()
    for status in set(states):
        wanted = [one["invitation"] for one in listed if one["invitation"]["status"] == status]
        assert [one["invitation"] for one in await scene.listing(f"?status={status}")] == wanted, status
        assert [one["invitation"] for one in await scene.listing(f"?status={status}&limit=1")] == wanted[:1], status
        assert [one["invitation"] for one in await scene.listing(f"?status={status}&limit=1&page=2")] == wanted[1:2], status
    assert [one["invitation"]["id"] for one in await scene.listing("?limit=3&page=2")] == ids[3:0:-1]
    assert await scene.listing("?page=9") == []
    assert await scene.listing("?page=10000000&limit=100") == []


@pytest.mark.parametrize(
    "query", ["page=0", "page=-1", "page=x", "page=99999999999999999999", "limit=0", "limit=101", "status=lost", "status="]
)
async def test_a_bad_query_is_refused(query: str, scene: Inviting) -> None:
    answer = await scene.ask("GET", f"?{query}")
    assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")


async def test_an_inviter_who_is_gone_is_told_as_unknown(scene: Inviting) -> None:
    admin = scene.tenants.member(scene.acme, "admin")
    await scene.invite(by=admin)
    scene.people.change("delete from users where id = %s", admin.user)
    (one,) = await scene.listing()
    assert one["inviter"] == GONE
    assert one["invitation"]["invited_by"] is None


async def test_cancelling_ends_the_link_once(scene: Inviting) -> None:
    issued = await scene.invite()
    path = f"/{issued['invitation']['id']}"
    answer = await scene.ask("POST", path)
    assert (answer.status, answer.body) == (200, b"{}")
    assert scene.statuses() == ["cancelled"]
    assert scene.happened() == ["user.invited", "invitation.revoked"]
    revoked = scene.events()[-1]
    assert (revoked["actor_id"], revoked["target_type"], revoked["target_id"]) == (scene.ada.user, "invitation", issued["invitation"]["id"])
    for again in (await scene.ask("POST", path), await scene.ask("POST", f"{path}/accept")):
        assert again.status in {400, 404}
    refused = await scene.accept(issued["token"])
    assert (refused.status, refused.error_code) == (400, "BAD_REQUEST")
    assert "withdrawn" in refused.json()["error"]
    assert (await scene.decline(issued["token"])).status == 400
    assert scene.happened() == ["user.invited", "invitation.revoked"]


@pytest.mark.parametrize("end", ["accept", "decline", "overdue", "expired"])
async def test_what_is_over_cannot_be_cancelled(end: str, scene: Inviting) -> None:
    issued = await scene.invite()
    match end:
        case "accept":
            await scene.accept(issued["token"])
        case "decline":
            await scene.decline(issued["token"])
        case _:
            scene.overdue()
    if end == "expired":
        scene.people.change("update invitations set status = 'expired', closed_at = now()")
    before = scene.happened()
    answer = await scene.ask("POST", f"/{issued['invitation']['id']}")
    assert (answer.status, answer.error_code) == (404, "NOT_FOUND")
    assert scene.happened() == before


@pytest.mark.parametrize("invitation", ["x", "1", "0", "0199d3a0-0000-7000-8000-000000000001", "%00", "' or true --", "9" * 400])
async def test_an_unknown_one_is_not_found(invitation: str, scene: Inviting) -> None:
    await scene.invite()
    for rest in (f"/{invitation}", f"/{invitation}/accept"):
        answer = await scene.ask("POST", rest.replace(" ", "%20"))
        assert (answer.status, answer.error_code) == (404, "NOT_FOUND")


async def test_another_organizations_invitations_are_neither_seen_nor_touched(scene: Inviting) -> None:
    other = scene.tenants.add("other")
    eve = scene.tenants.member(other, "owner", "eve@other.example")
    issued = await scene.invite()
    theirs = await scene.invite("joe@example.org", by=eve, of=other)
    assert [one["invitation"]["email"] for one in await scene.listing()] == ["bob@example.org"]
    for rest in ("", "/accept"):
        answer = await scene.ask("POST", f"/{issued['invitation']['id']}{rest}", by=eve, of=other)
        assert (answer.status, answer.error_code) == (404, "NOT_FOUND")
        answer = await scene.ask("POST", f"/{theirs['invitation']['id']}{rest}")
        assert (answer.status, answer.error_code) == (404, "NOT_FOUND")
    for answer in (await scene.ask("GET", by=eve), await scene.ask("POST", f"/{issued['invitation']['id']}", by=eve)):
        assert (answer.status, answer.error_code) == (403, "FORBIDDEN")
    token = await scene.tenants.token_in(scene.tenants.join(scene.ada, other, "admin"), other)
    assert (await scene.client.get(scene.path(), token=token)).status == 403  # a token for the other one
    assert scene.statuses() == ["pending", "pending"]
    assert scene.happened() == ["user.invited", "user.invited"]


@pytest.mark.parametrize("status", ["pending", "suspended", "rejected"])
async def test_an_organization_that_is_not_active_invites_nobody(status: str, scene: Inviting) -> None:
    issued = await scene.invite()
    scene.people.change("update organizations set status = %s", status)
    for method, rest, body in (
        ("POST", "", {"email": "eve@example.org", "role": "member"}),
        ("GET", "", None),
        ("POST", f"/{issued['invitation']['id']}", None),
        ("POST", f"/{issued['invitation']['id']}/accept", None),
    ):
        answer = await scene.ask(method, rest, body)
        assert (answer.status, answer.error_code) == (403, "ORGANIZATION_NOT_ACTIVE")


async def test_what_an_inviter_may_is_asked_once_more_when_it_counts(scene: Inviting) -> None:
    """The inviter was admitted, and then lost their role to a request that came first."""
    admin = scene.tenants.member(scene.acme, "admin")
    member = await scene.postern.tenancy.callers.resolve_member(await scene.people.token(admin), "acme")
    scene.people.change("update relations set relation = 'member' where user_id = %s", admin.user)
    with pytest.raises(Forbidden):
        await scene.postern.tenancy.invitations.create(member, Email("bob@example.org"), "member", SYSTEM)
    scene.people.change("update all_organizations set deleted_at = now()")
    with pytest.raises(NotFound):
        await scene.postern.tenancy.invitations.create(member, Email("bob@example.org"), "member", SYSTEM)
    assert scene.statuses() == []


# With the caller's own question; those with a role of the organization's own ask for it.
async def test_round_trips(scene: Inviting) -> None:
    scene.role("auditor", Capability.AUDIT_LOGS_VIEW)
    measured: dict[str, int] = {}
    for turn in ("warm", "measured"):
        issued = await scene.invite(f"{turn}@example.org")
        measured["create"] = scene.trips()
        await scene.invite(f"{turn}.auditor@example.org", "auditor")
        measured["create with an own role"] = scene.trips()
        scene.people.change("update invitations set expires_at = now() where email = %s", f"{turn}.auditor@example.org")
        await scene.invite(f"{turn}.auditor@example.org", "auditor")
        measured["create after one has lapsed"] = scene.trips()
        await scene.listing()
        measured["list"] = scene.trips()
        await scene.ask("POST", f"/{issued['invitation']['id']}")
        measured["cancel"] = scene.trips()
    assert measured == {
        "create": 4,
        "create with an own role": 5,
        "create after one has lapsed": 5,
        "list": 2,
        "cancel": 3,
    }
