"""Membership by the domain of a person's address: at the end of a sign-in, at once or by a request."""

from functools import partial
from typing import Any, Final, LiteralString
from uuid import UUID, uuid4

import psycopg
import pytest
import trio

from adapters.postgres.tenancy.members import MemberRows
from core.domain.errors import Unavailable
from core.domain.identifiers import UserId
from core.domain.mail import Email
from core.domain.secrets import Password
from core.domain.tenancy.members import Membership
from core.domain.tenancy.roles import BuiltInRole, Capability
from core.frozen import replace
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.browsing import Tabs
from tests.http.cast import Shops, all_at_once
from tests.http.client import Received, refused
from tests.http.forgetting import finish_forgetting
from tests.http.people import People, Person
from tests.http.postbox import Postbox, link_in
from tests.http.routing import change_route, route
from tests.http.signing_in import PASSWORD, Browser, enable_mfa, unlimited

NAME: Final = "acme.example"
NOWHERE: Final = str(uuid4())
BAD_REQUEST, FORBIDDEN, NOT_FOUND = (400, "BAD_REQUEST"), (403, "FORBIDDEN"), (404, "NOT_FOUND")


class JoinRequestScene(Shops):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.owner = self.resident(self.acme, "owner")
        self.admin = self.speaker = self.resident(self.acme, "admin")
        self.member = self.resident(self.acme, "member")
        self.stranger = self.resident(self.globex, "owner")
        self.box = Postbox(self.postern)

    def route(self, join: str, domain: str = NAME, **more: Any) -> None:
        route(self.people, self.acme, domain, join=join, **{"login": "password_allowed", **more})

    async def newcomer(self, name: str = "ada", domain: str = NAME, *, verified: bool = True) -> Person:
        return await self.people.with_password(PASSWORD, f"{name}@{domain}", verified=verified)

    async def sign_in(self, person: Person, **more: Any) -> Received:
        answer = await Browser(self.client).login(person, **more)
        assert answer.status == 200, answer.body
        return answer

    async def ask(self, method: str, path: str = "", *, of: str = "acme", by: Person | None = None) -> Received:
        return await self.request(method, f"/api/organizations/{of}/join-requests{path}", by=by)

    async def listed(self, query: str = "", **more: Any) -> list[dict[str, Any]]:
        answer = await self.ask("GET", query, **more)
        assert answer.status == 200, answer.body
        requests: list[dict[str, Any]] = answer.json()
        return requests

    async def asked(self, name: str = "ada") -> tuple[Person, dict[str, Any]]:
        """A person who has asked, and the request."""
        person = await self.newcomer(name)
        await self.sign_in(person)
        (request,) = [one for one in await self.listed() if one["user_id"] == str(person.user)]
        return person, request

    def belongs(self, person: Person) -> str | None:
        rows = self.people.rows("select role from memberships where org_id = %s and user_id = %s", self.acme.id, person.user)
        return rows[0]["role"] if rows else None

    def limit(self, most: int) -> None:
        self.people.change("update organizations set max_users = %s where id = %s", most, self.acme.id)

    def recorded(self) -> list[tuple[str, UUID | None, dict[str, Any]]]:
        told = self.people.rows(
            "select action, actor_id, details from audit_log where action = 'user.joined' or action like 'join_request.%%' order by id"
        )
        return [(one["action"], one["actor_id"], one["details"]) for one in told]


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> JoinRequestScene:
    return JoinRequestScene(postern, people, unlimited(postern), log)


async def test_where_it_is_on_a_sign_in_makes_a_member(scene: JoinRequestScene) -> None:
    scene.route("on")
    person = await scene.newcomer()
    tokens = (await scene.sign_in(person)).json()
    assert scene.belongs(person) == "member"
    (entry,) = scene.recorded()
    assert entry == ("user.joined", person.user, {"role": "member", "domain": NAME})
    # Where they were is none of the organization's business.
    assert scene.people.rows("select address, user_agent from audit_log where action = 'user.joined'") == [
        {"address": None, "user_agent": None}
    ]
    assert [event["details"] for event in scene.told() if event["name"] == "user.joined"] == [{"role": "member", "domain": NAME}]
    assert (await scene.client.post("/api/organizations/acme/select", token=tokens["access_token"])).status == 200
    assert scene.log.events("joined_by_domain")[-1]["outcome"] == "member"
    # Once.
    await scene.sign_in(person)
    assert len(scene.recorded()) == 1
    assert await scene.listed() == []


async def test_where_it_is_on_a_link_makes_a_member_too(scene: JoinRequestScene) -> None:
    scene.route("on", provider=None)
    person = await scene.newcomer()
    await scene.client.post("/api/auth/magic-link", {"email": person.email})
    (mail,) = await scene.box.empty()
    tabs = Tabs(scene.client)
    tab = await tabs.tab().open(link_in(mail).removeprefix("https://id.example.org"))
    await tab.send()
    assert tabs.session
    assert scene.belongs(person) == "member"


async def test_whoever_owes_a_second_factor_joins_with_it_or_before(scene: JoinRequestScene) -> None:
    scene.route("on")
    person = await scene.newcomer()
    totp = await enable_mfa(scene.client, scene.people, person)
    browser = Browser(scene.client)
    preauth = (await browser.login(person)).json()["access_token"]
    assert (await browser.verify(preauth, totp.now())).status == 200
    assert scene.belongs(person) == "member"


async def test_a_service_for_members_alone_lets_them_in_at_once(scene: JoinRequestScene) -> None:
    scene.route("on")
    scene.people.change("update services set sign_in_policy = 'members'")
    person = await scene.newcomer()
    await scene.sign_in(person, org_slug="acme", service_slug="shop")
    assert scene.belongs(person) == "member"


async def test_where_it_is_off_nothing_happens(scene: JoinRequestScene) -> None:
    scene.route("off")
    person = await scene.newcomer()
    await scene.sign_in(person)
    assert (scene.belongs(person), await scene.listed(), scene.recorded()) == (None, [], [])


async def test_where_they_have_to_ask_a_request_is_made_once(scene: JoinRequestScene) -> None:
    scene.route("ask")
    person = await scene.newcomer()
    await scene.sign_in(person)
    await scene.sign_in(person)
    (request,) = await scene.listed()
    assert request == {
        "id": request["id"],
        "user_id": str(person.user),
        "email": person.email,
        "status": "pending",
        "created_at": request["created_at"],
        "decided_at": None,
        "decided_by": None,
    }
    assert scene.belongs(person) is None
    told = {"join_request_id": request["id"], "domain": NAME, "email": person.email}
    assert scene.recorded() == [("join_request.created", person.user, told)]
    assert scene.log.events("joined_by_domain")[-1]["outcome"] == "asked"
    mails = await scene.box.empty()
    assert sorted(mail.to for mail in mails if "join" in mail.subject) == [scene.admin.email, scene.owner.email]
    assert all(person.email in mail.text for mail in mails)


async def test_of_the_requests_of_a_day_the_first_is_mailed(scene: JoinRequestScene) -> None:
    scene.route("ask")
    for name in ("ada", "grace"):
        await scene.sign_in(await scene.newcomer(name))
    assert len([mail for mail in await scene.box.empty() if "join" in mail.subject]) == 2
    scene.people.change("update join_requests set created_at = created_at - interval '1 day'")
    await scene.sign_in(await scene.newcomer("edsger"))
    assert len([mail for mail in await scene.box.empty() if "join" in mail.subject]) == 2


async def test_two_sign_ins_at_once_ask_or_join_once(scene: JoinRequestScene) -> None:
    for join in ("ask", "on"):
        scene.people.change("delete from domain_routes")
        scene.route(join)
        person = await scene.newcomer(join)
        await all_at_once(*[partial(scene.sign_in, person)] * 4)
        assert (scene.belongs(person) == "member") is (join == "on")
    assert [action for action, _, _ in scene.recorded()] == ["join_request.created", "user.joined"]


async def test_an_approved_request_makes_a_member(scene: JoinRequestScene) -> None:
    scene.route("ask")
    person, request = await scene.asked()
    await scene.box.empty()
    answer = await scene.ask("POST", f"/{request['id']}/approve")
    assert (answer.status, answer.json()) == (200, {})
    assert scene.belongs(person) == "member"
    (closed,) = await scene.listed("?status=approved")
    assert (closed["status"], closed["decided_by"], closed["decided_at"] is not None) == ("approved", str(scene.admin.user), True)
    told = {"join_request_id": request["id"]}
    assert scene.recorded()[1:] == [
        ("user.joined", scene.admin.user, {"role": "member", **told}),
        ("join_request.approved", scene.admin.user, {**told, "email": person.email}),
    ]
    (mail,) = await scene.box.empty()
    assert (mail.to, "Acme" in mail.subject) == (person.email, True)
    for path in ("approve", "decline"):
        assert refused(await scene.ask("POST", f"/{request['id']}/{path}")) == BAD_REQUEST


async def test_a_declined_request_stays_declined(scene: JoinRequestScene) -> None:
    scene.route("ask")
    person, request = await scene.asked()
    assert (await scene.ask("POST", f"/{request['id']}/decline")).status == 200
    assert await scene.listed("?status=pending") == []
    assert [one["status"] for one in await scene.listed("?status=declined")] == ["declined"]
    assert [action for action, _, _ in scene.recorded()] == ["join_request.created", "join_request.declined"]
    for join in ("ask", "on"):
        change_route(scene.people, NAME, join_policy=join)
        await scene.sign_in(person)
    assert scene.belongs(person) is None
    assert len(await scene.listed()) == 1


async def test_of_two_who_answer_one_does(scene: JoinRequestScene) -> None:
    scene.route("ask")
    _, request = await scene.asked()
    answers = await all_at_once(
        partial(scene.ask, "POST", f"/{request['id']}/approve"),
        partial(scene.ask, "POST", f"/{request['id']}/decline", by=scene.owner),
    )
    assert sorted(one.status for one in answers) == [200, 400]


async def test_a_full_organization_gets_a_request_instead(scene: JoinRequestScene) -> None:
    scene.route("on")
    scene.limit(3)
    person = await scene.newcomer()
    await scene.sign_in(person)
    assert scene.belongs(person) is None
    (request,) = await scene.listed("?status=pending")
    assert scene.log.events("joined_by_domain")[-1]["outcome"] == "full"
    assert refused(await scene.ask("POST", f"/{request['id']}/approve")) == (400, "TEAM_LIMIT_EXCEEDED")
    await scene.sign_in(person)
    assert len(await scene.listed()) == 1
    # With room again, the next sign-in does what it says.
    scene.limit(4)
    await scene.sign_in(person)
    assert scene.belongs(person) == "member"
    assert [(one["status"], one["decided_by"]) for one in await scene.listed()] == [("approved", None)]


async def test_the_last_place_is_given_once(scene: JoinRequestScene) -> None:
    scene.route("on")
    scene.limit(4)
    newcomers = [await scene.newcomer(name) for name in ("ada", "grace", "edsger")]
    await all_at_once(*(partial(scene.sign_in, person) for person in newcomers))
    assert sorted(str(scene.belongs(person)) for person in newcomers) == ["None", "None", "member"]
    assert len(await scene.listed("?status=pending")) == 2


FORGOTTEN = """
    update users
       set email = 'gone@deleted.local', email_key = 'gone@deleted.local', password_hash = null, deactivated_at = now(),
           anonymized_at = now()
     where id = %s
"""
DELETED = "delete from users where id = %s"


@pytest.mark.parametrize("change", [FORGOTTEN, DELETED], ids=["forgotten", "deleted"])
@pytest.mark.parametrize("join", ["on", "ask"])
async def test_whoever_is_gone_on_the_way_neither_joins_nor_asks(
    scene: JoinRequestScene, database_url: str, join: str, change: LiteralString
) -> None:
    scene.route(join)
    person = await scene.newcomer()
    answers: list[Received] = []

    async def sign_in() -> None:
        answers.append(await Browser(scene.client).login(person))

    with psycopg.connect(database_url) as other:
        other.execute(change, [person.user])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sign_in)
            await scene.people.somebody_waits()
            other.commit()
    assert [answer.status for answer in answers] == [401]
    assert (scene.belongs(person), await scene.listed(), scene.recorded()) == (None, [], [])
    assert scene.log.events("joined_by_domain") == []


@pytest.mark.parametrize("change", [FORGOTTEN, DELETED], ids=["forgotten", "deleted"])
async def test_nobody_lets_in_whoever_is_gone(scene: JoinRequestScene, database_url: str, change: LiteralString) -> None:
    scene.route("ask")
    person, request = await scene.asked()
    before, answers = scene.recorded(), list[Received]()

    async def approve() -> None:
        answers.append(await scene.ask("POST", f"/{request['id']}/approve"))

    with psycopg.connect(database_url) as other:
        other.execute(change, [person.user])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(approve)
            await scene.people.somebody_waits()
            other.commit()
    assert [answer.status for answer in answers] == [400 if change is FORGOTTEN else 404]
    assert (scene.belongs(person), scene.recorded()) == (None, before)


async def test_a_membership_that_appears_past_everybody_is_not_told_of(scene: JoinRequestScene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every statement that adds a member or removes an account takes the lock first. Should one not, no event is sent."""
    scene.route("ask")
    _, request = await scene.asked()
    before = scene.recorded()

    async def late(_rows: MemberRows, _membership: Membership) -> bool:
        return False

    monkeypatch.setattr(MemberRows, "add", late)
    assert refused(await scene.ask("POST", f"/{request['id']}/approve")) == NOT_FOUND
    change_route(scene.people, NAME, join_policy="on")
    await scene.sign_in(await scene.newcomer("bob"))
    assert scene.recorded() == before
    assert scene.log.events("joined_by_domain")[-1]["outcome"] == "asked"


async def test_whoever_joins_otherwise_need_not_be_answered(scene: JoinRequestScene) -> None:
    scene.route("ask")
    person, request = await scene.asked()
    invited = await scene.request("POST", "/api/organizations/acme/invitations", {"email": person.email, "role": "member"})
    assert (await scene.client.post("/api/invitations/accept", {"token": invited.json()["token"]})).status == 200
    assert await scene.listed("?status=pending") == []
    assert refused(await scene.ask("POST", f"/{request['id']}/approve")) == BAD_REQUEST


@pytest.mark.parametrize("join", ["ask", "on"])
async def test_whoever_was_removed_does_not_come_back_by_the_domain(scene: JoinRequestScene, join: str) -> None:
    scene.route(join)
    person = scene.resident(scene.acme, "member", "gone")
    scene.people.change(
        "update users set password_hash = %s, email_verified_at = now() where id = %s",
        await scene.postern.identity.passwords.hash(Password(PASSWORD)),
        person.user,
    )
    assert (await scene.request("POST", f"/api/organizations/acme/members/{person.user}")).status == 200
    await scene.sign_in(person)
    assert (scene.belongs(person), await scene.listed()) == (None, [])


class Turned(JoinRequestScene):
    """Ada was removed or declined, and another account has her address now."""

    async def away(self, how: str, *, moves: str = "afterwards") -> tuple[Person, Person]:
        first = await self.newcomer()
        if moves == "before":
            self.move(first)
        if how == "removed":
            self.tenants.join(first, self.acme)
            assert (await self.request("POST", f"/api/organizations/acme/members/{first.user}")).status == 200
        else:
            if moves == "before":
                self.people.change(
                    "update users set email = 'ada.l@acme.example', email_key = 'ada.l@acme.example' where id = %s", first.user
                )
            await self.sign_in(replace(first, email=self.address(first)))
            (request,) = await self.listed("?status=pending")
            (await self.ask("POST", f"/{request['id']}/decline")).ok()
        if moves == "afterwards":
            self.move(first)
        return first, await self.newcomer()

    def address(self, person: Person) -> str:
        (row,) = self.people.rows("select email from users where id = %s", person.user)
        return str(row["email"])

    def move(self, person: Person, email: str = "ada@home.example") -> None:
        self.people.change("update users set email = %s, email_key = %s where id = %s", email, email, person.user)


@pytest.fixture
def turned(postern: Postern, people: People, log: CapturedLog) -> Turned:
    return Turned(postern, people, unlimited(postern), log)


@pytest.mark.parametrize("how", ["removed", "declined"])
@pytest.mark.parametrize("moves", ["afterwards", "before"])
@pytest.mark.parametrize("join", ["ask", "on"])
async def test_whoever_was_turned_away_does_not_come_back_as_somebody_else(turned: Turned, how: str, moves: str, join: str) -> None:
    turned.route("ask")
    _, second = await turned.away(how, moves=moves)
    change_route(turned.people, NAME, join_policy=join)
    before = turned.recorded(), await turned.listed()
    await turned.sign_in(second)
    # Nor by a provider, whose sign-in has not checked this before.
    await turned.postern.identity.joining.join_at_sign_in(UserId(second.user), Email(second.email))
    assert turned.belongs(second) is None
    assert (turned.recorded(), await turned.listed()) == before
    # An invitation brings them back, also this account.
    body = {"email": second.email, "role": "member"}
    invited = (await turned.request("POST", "/api/organizations/acme/invitations", body)).ok()
    (await turned.client.post("/api/invitations/accept", {"token": invited["token"]})).ok()
    assert turned.belongs(second) == "member"


@pytest.mark.parametrize("how", ["removed", "declined"])
async def test_other_organizations_and_other_addresses_are_not_concerned(turned: Turned, how: str) -> None:
    turned.route("ask")
    await turned.away(how)
    turned.people.change("update domain_routes set org_id = %s, join_policy = 'on'", turned.globex.id)
    other = await turned.newcomer("grace")
    (second,) = turned.people.rows("select id, email from users where email = 'ada@acme.example'")
    for user, email in ((other.user, other.email), (second["id"], second["email"])):
        await turned.postern.identity.joining.join_at_sign_in(UserId(user), Email(email))
    rows = turned.people.rows("select user_id from memberships where org_id = %s and role = 'member'", turned.globex.id)
    assert {row["user_id"] for row in rows} == {other.user, second["id"]}


@pytest.mark.parametrize("how", ["removed", "declined"])
async def test_whoever_is_forgotten_takes_it_along(turned: Turned, how: str) -> None:
    turned.route("ask")
    first, second = await turned.away(how)
    governor = turned.people.add("governor@example.org", platform_owner=True)
    (await turned.request("DELETE", f"/api/privacy/forget/{first.user}", by=governor)).ok()
    await finish_forgetting(turned.postern, turned.people)
    assert turned.people.rows("select from former_addresses") == []
    change_route(turned.people, NAME, join_policy="on")
    await turned.sign_in(second)
    assert turned.belongs(second) == "member"


@pytest.mark.parametrize("join", ["ask", "on"])
@pytest.mark.parametrize("ends", ["accepted", "cancelled", "expired"])
async def test_whoever_is_offered_more_is_not_made_a_plain_member_first(scene: JoinRequestScene, join: str, ends: str) -> None:
    scene.route(join)
    person = await scene.newcomer()
    invitations = "/api/organizations/acme/invitations"
    made = (await scene.request("POST", invitations, {"email": person.email, "role": "admin"})).ok()
    await scene.sign_in(person)
    await scene.postern.identity.joining.join_at_sign_in(UserId(person.user), Email(person.email))
    assert (scene.belongs(person), await scene.listed()) == (None, [])
    if ends == "accepted":
        (await scene.client.post("/api/invitations/accept", {"token": made["token"]})).ok()
        assert scene.belongs(person) == "admin"
    elif ends == "cancelled":
        (await scene.request("POST", f"{invitations}/{made['invitation']['id']}")).ok()
    else:
        scene.people.change("update invitations set expires_at = now()")
    await scene.sign_in(person)
    if ends != "accepted":
        assert (scene.belongs(person), len(await scene.listed())) == (("member", 0) if join == "on" else (None, 1))


async def test_whoever_is_invited_as_a_member_joins_at_once(scene: JoinRequestScene) -> None:
    scene.route("on")
    person = await scene.newcomer()
    (await scene.request("POST", "/api/organizations/acme/invitations", {"email": person.email, "role": "member"})).ok()
    await scene.sign_in(person)
    assert scene.belongs(person) == "member"


async def test_a_request_of_somebody_who_is_offered_more_is_not_approved(scene: JoinRequestScene) -> None:
    scene.route("ask")
    person, request = await scene.asked()
    made = (await scene.request("POST", "/api/organizations/acme/invitations", {"email": person.email, "role": "admin"})).ok()
    assert refused(await scene.ask("POST", f"/{request['id']}/approve")) == BAD_REQUEST
    assert scene.belongs(person) is None
    (await scene.client.post("/api/invitations/accept", {"token": made["token"]})).ok()
    assert scene.belongs(person) == "admin"


@pytest.mark.parametrize("join", ["ask", "full"])
async def test_whoever_has_another_address_of_the_domain_by_now_asks_with_that(scene: JoinRequestScene, join: str) -> None:
    scene.route("ask")
    person, request = await scene.asked()
    if join == "full":
        change_route(scene.people, NAME, join_policy="on")
        scene.limit(3)
    other = f"lovelace@{NAME}"
    scene.people.change("update users set email = %s, email_key = %s where id = %s", other, other, person.user)
    person = replace(person, email=other)
    await scene.sign_in(person)
    await scene.sign_in(person)
    (renewed,) = await scene.listed("?status=pending")
    assert (renewed["email"], renewed["id"] != request["id"]) == (other, True)
    assert [action for action, _, _ in scene.recorded()] == ["join_request.created"] * 2
    assert refused(await scene.ask("POST", f"/{request['id']}/approve")) == NOT_FOUND
    scene.limit(10)
    assert (await scene.ask("POST", f"/{renewed['id']}/approve")).status == 200
    assert scene.belongs(person) == "member"


@pytest.mark.parametrize("why", ["unverified", "platform owner", "other domain", "lost", "suspended", "member"])
async def test_who_does_not_join(scene: JoinRequestScene, why: str) -> None:
    scene.route("on")
    person = await scene.newcomer(domain="mail.acme.example" if why == "other domain" else NAME)
    if why == "platform owner":
        scene.people.change("update users set is_platform_owner = true where id = %s", person.user)
    elif why == "lost":
        scene.people.change("update domain_routes set verified_at = null, next_check_at = null")
    elif why == "suspended":
        scene.people.change("update organizations set status = 'suspended'")
    elif why == "member":
        scene.tenants.join(person, scene.acme, "admin")
    if why == "unverified":
        scene.people.change("update users set email_verified_at = null where id = %s", person.user)
        assert (await Browser(scene.client).login(person)).status == 401
    else:
        await scene.sign_in(person)
    assert scene.belongs(person) == ("admin" if why == "member" else None)
    assert scene.people.rows("select from join_requests") == []


async def test_a_sign_in_does_not_wait_for_an_organization_that_is_held(scene: JoinRequestScene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.route("on")
    person = await scene.newcomer()

    async def away(*_arguments: Any) -> None:
        raise Unavailable("busy", retry_after=1)

    with monkeypatch.context() as patch:
        patch.setattr(type(scene.postern.identity.joining), "join_by_domain", away)
        await scene.sign_in(person)
    assert scene.log.events("join_put_off")
    assert scene.belongs(person) is None
    await scene.sign_in(person)
    assert scene.belongs(person) == "member"


@pytest.mark.parametrize("email", [f"work@{NAME}", "ada@example.org", "ada@"])
async def test_nobody_joins_by_an_address_that_is_not_that_of_the_account(scene: JoinRequestScene, email: str) -> None:
    scene.route("on")
    person = await scene.newcomer("ada", "example.org")
    async with scene.postern.foundation.unit_of_work() as uow:
        assert await scene.postern.identity.joining.join_by_domain(uow, UserId(person.user), Email(email)) is None
    assert scene.belongs(person) is None


@pytest.mark.parametrize("why", ["removed", "declined", "asked", "member", "platform owner"])
async def test_what_speaks_against_it_is_looked_at_again_where_the_organization_is_held(scene: JoinRequestScene, why: str) -> None:
    """A sign-in through a provider has not checked this before."""
    scene.route("ask" if why == "asked" else "on")
    person = await scene.newcomer()
    if why in {"removed", "member"}:
        scene.tenants.join(person, scene.acme)
    if why == "removed":
        scene.people.change("delete from memberships where user_id = %s", person.user)
    elif why == "platform owner":
        scene.people.change("update users set is_platform_owner = true where id = %s", person.user)
    elif why in {"asked", "declined"}:
        scene.people.change(
            """
            insert into join_requests (id, org_id, user_id, email, status, created_at, decided_at)
            values (gen_random_uuid(), %s, %s, %s, %s, now(), %s)
            """,
            scene.acme.id,
            person.user,
            person.email,
            "pending" if why == "asked" else "declined",
            None if why == "asked" else scene.postern.foundation.clock.now(),
        )
    await scene.postern.identity.joining.join_at_sign_in(UserId(person.user), Email(person.email))
    assert scene.belongs(person) == ("member" if why == "member" else None)
    assert scene.recorded() == []


async def test_an_account_that_was_deactivated_does_not_join(scene: JoinRequestScene) -> None:
    scene.route("on")
    person = await scene.newcomer()
    scene.people.change("update users set deactivated_at = now() where id = %s", person.user)
    await scene.postern.identity.joining.join_at_sign_in(UserId(person.user), Email(person.email))
    assert scene.belongs(person) is None


async def test_a_request_of_a_deactivated_account_cannot_be_approved(scene: JoinRequestScene) -> None:
    scene.route("ask")
    person, request = await scene.asked()
    scene.people.change("update users set deactivated_at = now() where id = %s", person.user)
    assert refused(await scene.ask("POST", f"/{request['id']}/approve")) == BAD_REQUEST
    assert (await scene.ask("POST", f"/{request['id']}/decline")).status == 200


async def test_a_request_of_somebody_who_owns_the_platform_by_now_cannot_be_approved(scene: JoinRequestScene) -> None:
    """A platform owner would come under a tenant's rules without being asked."""
    scene.route("ask")
    person, request = await scene.asked()
    scene.people.change("update users set is_platform_owner = true where id = %s", person.user)
    assert refused(await scene.ask("POST", f"/{request['id']}/approve")) == BAD_REQUEST
    assert scene.belongs(person) is None
    assert (await scene.ask("POST", f"/{request['id']}/decline")).status == 200


async def test_whoever_approves_gives_nothing_that_they_do_not_hold(scene: JoinRequestScene) -> None:
    scene.route("ask")
    views = BuiltInRole.MEMBER.capabilities
    manages = Capability.MEMBERS_MANAGE
    for slug, held, status in (
        ("seeing", views, 403),
        ("half", list(views)[:1], 403),
        ("managing", [manages], 200),
        ("host", [manages, *views], 200),
    ):
        _, request = await scene.asked(slug)
        by = scene.resident(scene.acme, scene.tenants.role(scene.acme, slug, held), f"{slug}-manager")
        assert (await scene.ask("POST", f"/{request['id']}/approve", by=by)).status == status
        if status == 403:
            assert (await scene.ask("POST", f"/{request['id']}/decline", by=by)).status == 403


async def test_others_neither_see_nor_answer_it(scene: JoinRequestScene) -> None:
    scene.route("ask")
    _, request = await scene.asked()
    for person in (scene.member, scene.stranger):
        assert refused(await scene.ask("GET", by=person)) == FORBIDDEN
        for path in ("approve", "decline"):
            assert refused(await scene.ask("POST", f"/{request['id']}/{path}", by=person)) == FORBIDDEN
    assert await scene.listed(of="globex", by=scene.stranger) == []
    for identity in (request["id"], NOWHERE):
        for path in ("approve", "decline"):
            assert refused(await scene.ask("POST", f"/{identity}/{path}", of="globex", by=scene.stranger)) == NOT_FOUND
    assert [one["status"] for one in await scene.listed()] == ["pending"]


async def test_the_list_has_pages(scene: JoinRequestScene) -> None:
    scene.route("ask")
    for name in ("ada", "grace", "edsger"):
        await scene.sign_in(await scene.newcomer(name))
    assert [one["email"].partition("@")[0] for one in await scene.listed("?limit=2")] == ["edsger", "grace"]
    assert [one["email"].partition("@")[0] for one in await scene.listed("?limit=2&page=2&status=pending")] == ["ada"]
    assert refused(await scene.ask("GET", "?status=none")) == BAD_REQUEST


async def test_whoever_asked_sees_it_among_their_organizations(scene: JoinRequestScene) -> None:
    scene.route("ask")
    person = await scene.newcomer()
    tabs = Tabs(scene.client)
    tab = await tabs.tab().open("/ui/sign-in?to=/ui/organizations")
    await tab.send(email=person.email)
    await tab.send(password=PASSWORD)
    assert "/ui/join-requests" in tab.page.links
    await tab.open("/ui/join-requests")
    assert "asked to become a member" in tab.page.text
    assert "Acme" in tab.page.text
    (request,) = await scene.listed()
    await scene.ask("POST", f"/{request['id']}/decline")
    await tab.open("/ui/join-requests")
    assert "No requests" in tab.page.text
    assert "Acme" not in tab.page.text


async def test_round_trips(scene: JoinRequestScene) -> None:
    scene.route("ask")
    _, first = await scene.asked()
    _, second = await scene.asked("grace")
    for method, path, most in (
        ("GET", "", 2),
        ("POST", f"/{first['id']}/approve", 5),
        ("POST", f"/{second['id']}/decline", 5),
    ):
        assert (await scene.ask(method, path)).status == 200
        trips = scene.log.events("request")[-1]["db_round_trips"]
        assert trips <= most, (method, path, trips)


async def test_what_a_sign_in_costs(scene: JoinRequestScene) -> None:
    scene.route("on")
    person = await scene.newcomer()
    await scene.sign_in(await scene.newcomer("warm"))
    costs = []
    for _ in range(3):
        await scene.sign_in(person)
        costs.append(scene.log.events("request")[-1]["db_round_trips"])
    assert costs[0] <= 8
    assert costs[2] <= 5


@pytest.mark.parametrize("join", ["ask", "on"])
async def test_whoever_left_by_any_other_way_stays_out_too(scene: JoinRequestScene, join: str) -> None:
    """A directory removes members by statements of its own."""
    scene.route(join)
    person = await scene.newcomer()
    scene.tenants.join(person, scene.acme)
    scene.people.change("delete from memberships where user_id = %s", person.user)
    await scene.sign_in(person)
    assert (scene.belongs(person), await scene.listed()) == (None, [])
    # The other organization is not affected.
    scene.people.change("update domain_routes set org_id = %s", scene.globex.id)
    await scene.sign_in(person)
    assert len(scene.people.rows("select from memberships where user_id = %s", person.user)) == (join == "on")


async def test_an_account_or_an_organization_that_goes_leaves_nothing(scene: JoinRequestScene) -> None:
    scene.route("ask")
    person, _ = await scene.asked()
    scene.tenants.join(person, scene.globex)
    scene.people.change("delete from memberships where user_id = %s", person.user)
    scene.people.change("update all_organizations set deleted_at = now() where id = %s", scene.globex.id)
    scene.people.change("delete from users where id = %s", person.user)
    assert scene.people.rows("select from join_requests union all select from former_members") == []
