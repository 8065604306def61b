"""People whom an organization lists as its members are asked whether they belong there: at the next sign-in, in their account, and when
they choose the first password of an account that a directory made.
"""

from functools import partial
from typing import Any, Final

import psycopg
import pytest
import trio

from core.domain.errors import BadRequest, Forbidden
from core.domain.identifiers import OrganizationId, UserId
from core.domain.secrets import Token
from core.domain.tenancy.members import MOST_ASKED
from core.frozen import replace
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.browsing import Tab, Tabs
from tests.http.cast import all_at_once
from tests.http.federation.arriving import CALLBACK, Arriving, told
from tests.http.federation.arriving import left as left_for
from tests.http.federation.scim.directories import Directory
from tests.http.inviting import Inviting
from tests.http.people import BASE_URL, People, Person
from tests.http.routing import route
from tests.http.signing_in import PASSWORD, enable_mfa, unlimited
from tests.http.tenants import OwnRole, Tenant

PAGE: Final = "/ui/confirm-membership"
LISTS: Final = "/ui/organizations"
ADA: Final = "ada@lovelace.example"


class MembershipPageScene(Inviting):
    async def newcomer(self, email: str = ADA) -> Person:
        return await self.people.with_password(PASSWORD, email)

    def browser(self) -> Tabs:
        return Tabs(unlimited(self.postern))

    async def sign_in(self, person: Person, place: str = "", tabs: Tabs | None = None) -> Tab:
        tab = await (tabs or self.browser()).tab().open(place or "/ui/sign-in")
        await tab.send(email=person.email)
        return await tab.send(password=PASSWORD)

    def list(self, person: Person, slug: str = "globex", role: str | OwnRole = "member") -> Tenant:
        tenant = self.tenants.add(slug)
        self.tenants.join(person, tenant, role, listed=True)
        return tenant

    def ties(self, person: Person) -> dict[str, bool]:
        """The person's ties, by the short names of the organizations."""
        rows = self.people.rows(
            "select slug, own_since is not null as own from memberships join organizations on organizations.id = org_id where user_id = %s",
            person.user,
        )
        return {row["slug"]: row["own"] for row in rows}

    async def caller(self, tabs: Tabs) -> Any:
        return await self.postern.tenancy.callers.resolve_browser(Token(tabs.session or ""))


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> MembershipPageScene:
    return MembershipPageScene(postern, people, unlimited(postern), log)


async def by_directory(scene: MembershipPageScene, person: Person) -> Tenant:
    directory = await Directory(scene.postern, scene.client, scene.people, "initech").connect()
    await directory.create(person.email)
    return directory.tenant


async def on_behalf(scene: MembershipPageScene, person: Person) -> Tenant:
    issued = await scene.invite(person.email)
    assert (await scene.ask("POST", f"/{issued['invitation']['id']}/accept")).status == 200
    return scene.acme


async def by_the_inviters_token(scene: MembershipPageScene, person: Person) -> Tenant:
    issued = await scene.invite(person.email)
    assert (await scene.accept(issued["token"])).status == 200
    return scene.acme


async def by_domain(scene: MembershipPageScene, person: Person) -> Tenant:
    route(scene.people, scene.acme, person.email.partition("@")[2], provider=None, login="password_allowed", join="on")
    return scene.acme


async def by_request(scene: MembershipPageScene, person: Person) -> Tenant:
    route(scene.people, scene.acme, person.email.partition("@")[2], provider=None, login="password_allowed", join="ask")
    assert (await scene.sign_in(person)).place == "/ui"
    (asked,) = (await scene.request("GET", "/api/organizations/acme/join-requests")).json()
    assert (await scene.request("POST", f"/api/organizations/acme/join-requests/{asked['id']}/approve")).status == 200
    return scene.acme


async def before_the_upgrade(scene: MembershipPageScene, person: Person) -> Tenant:
    """Makes the row as the migration leaves a row that others have made."""
    tenant = scene.list(person)
    scene.people.change("update memberships set came_by = 'added', created_at = now() - interval '1 year' where user_id = %s", person.user)
    return tenant


WAYS: Final = {one.__name__: one for one in (by_directory, on_behalf, by_the_inviters_token, by_domain, by_request, before_the_upgrade)}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("answer", ["yes", "leave"])
async def test_whoever_is_listed_is_asked_at_the_next_sign_in_and_once(scene: MembershipPageScene, way: str, answer: str) -> None:
    ada = await scene.newcomer()
    tenant = await WAYS[way](scene, ada)
    tab = await scene.sign_in(ada)
    assert tab.place.startswith(f"{PAGE}?flow=")
    said = tab.page.text
    for words in (
        f"Do you belong to {tenant.slug.capitalize()} ?",
        tenant.slug,
        "Member",
        ADA,
        "If you do not recognize an organization, leave it",
    ):
        assert words in said, words
    how = {
        "by_directory": "By the organization\u2019s directory",
        "by_domain": "Through the organization\u2019s verified email domain",
        "by_request": "Through the organization\u2019s verified email domain",
    }
    assert how.get(way, "By someone in the organization") in said
    assert scene.ties(ada) == {tenant.slug: False}
    # No button has the focus, so no key press confirms anything.
    assert b"autofocus" not in tab.shown.body
    await tab.send(answers=f"{answer}:{tenant.id}")
    assert tab.place == "/ui"
    assert scene.ties(ada) == ({tenant.slug: True} if answer == "yes" else {})
    (event,) = [one for one in scene.told("audit_log") if one["name"] in {"user.membership.confirmed", "user.removed"}]
    assert (event["name"], event["organization_id"]) == ("user.membership.confirmed" if answer == "yes" else "user.removed", tenant.id)
    assert (event["actor_id"], event["target_id"]) == (ada.user, str(ada.user))
    assert event["details"]["role"] == "member"
    # The organization does not learn where they answered.
    (where,) = scene.people.rows("select address, user_agent from audit_log where action = %s", event["name"])
    assert where == {"address": None, "user_agent": None}
    assert (await scene.sign_in(ada)).place == "/ui"


async def test_whoever_does_not_answer_goes_on_and_is_asked_again(scene: MembershipPageScene) -> None:
    ada = await scene.newcomer()
    scene.list(ada)
    for sent in ({"answers": "later"}, {}):
        tab = await scene.sign_in(ada, "/ui/sign-in?to=/ui/sessions")
        assert tab.place.startswith(PAGE)
        # They are signed in already, and stay so.
        assert (await tab.tabs.request("GET", "/ui/profile")).status == 200
        await tab.send(**sent)
        assert tab.place == "/ui/sessions"
    assert scene.ties(ada) == {"globex": False}


async def test_whom_nobody_lists_is_asked_nothing_and_waits_for_nothing(scene: MembershipPageScene) -> None:
    ada, bob = await scene.newcomer(), await scene.newcomer("bob@example.org")
    scene.tenants.join(bob, scene.tenants.add("globex"))

    def trips() -> list[int]:
        return [line["db_round_trips"] for line in scene.log.events("request") if line["method"] == "POST"]

    await scene.sign_in(await scene.newcomer("eve@example.org"))
    taken = []
    for person in (ada, bob):
        before = len(trips())
        tab = await scene.sign_in(person, "/ui/sign-in?to=/ui/sessions")
        assert tab.place == "/ui/sessions"
        taken.append(trips()[before:])
    assert taken == [[2, 4], [2, 4]]


async def test_a_membership_of_somebody_else_is_not_confirmed_nor_left(scene: MembershipPageScene) -> None:
    ada, bob = await scene.newcomer(), await scene.newcomer("bob@example.org")
    theirs, own = scene.list(bob), scene.tenants.add("initech")
    scene.tenants.join(ada, own, listed=True)
    tab = await scene.sign_in(ada)
    await tab.send(answers=[f"yes:{theirs.id}", f"leave:{theirs.id}"])
    assert (scene.ties(ada), scene.ties(bob)) == ({"initech": False}, {"globex": False})
    assert [one["name"] for one in scene.told("audit_log") if one["organization_id"] == theirs.id] == []
    for answers in ("yes", f"yes:{theirs.id}x", "yes:", f"owner:{own.id}", [f"yes:{own.id}"] * (MOST_ASKED + 1)):
        tab = await scene.sign_in(ada)
        assert (await tab.send(answers=answers)).status == 400
    assert scene.ties(ada) == {"initech": False}


async def test_thirty_organizations_are_answered_twenty_at_once(scene: MembershipPageScene) -> None:
    ada = await scene.newcomer()
    tenants = [scene.list(ada, f"tenant{number:02}") for number in range(30)]
    tab = await scene.sign_in(ada)
    body = tab.shown.body
    assert "Do you belong to these organizations?" in tab.page.text
    assert "Not all organizations are shown here" in tab.page.text
    assert LISTS in tab.page.links
    shown = [tenant for tenant in tenants if f"yes:{tenant.id}".encode() in body]
    # The oldest come first, however many follow.
    assert shown == tenants[:MOST_ASKED]
    await tab.send(answers=["later"] * MOST_ASKED)
    assert set(scene.ties(ada).values()) == {False}
    tab = await scene.sign_in(ada)
    await tab.send(answers=[f"{'leave' if place % 2 else 'yes'}:{tenant.id}" for place, tenant in enumerate(shown)])
    assert tab.status == 200, tab.page.text
    # One question for all organizations.
    assert tab.place == "/ui/choose-organization"
    left = scene.ties(ada)
    assert sorted(slug for slug, own in left.items() if own) == [tenant.slug for tenant in shown[::2]]
    assert sorted(slug for slug, own in left.items() if not own) == [tenant.slug for tenant in tenants[MOST_ASKED:]]
    body = (await scene.sign_in(ada)).shown.body
    assert [tenant for tenant in tenants if f"yes:{tenant.id}".encode() in body] == tenants[MOST_ASKED:]


async def test_what_a_tenant_wrote_stands_apart(scene: MembershipPageScene) -> None:
    ada = await scene.newcomer()
    role = scene.tenants.role(scene.acme, "boss", [])
    scene.people.change("update roles set name = '<b>Boss of Postern' where slug = 'boss'")
    scene.people.change("update all_organizations set name = 'Postern</bdi><b>' where slug = 'acme'")
    scene.tenants.join(ada, scene.acme, role, listed=True)
    body = (await scene.sign_in(ada)).shown.body
    assert b"<bdi>Postern&lt;/bdi&gt;&lt;b&gt;</bdi>" in body
    assert b"<bdi>&lt;b&gt;Boss of Postern</bdi>" in body


async def test_two_tabs_at_once_confirm_once(scene: MembershipPageScene) -> None:
    ada = await scene.newcomer()
    tenants = [scene.list(ada, slug) for slug in ("globex", "initech")]
    tabs = scene.browser()
    first = await scene.sign_in(ada, tabs=tabs)
    second = await tabs.tab().open(first.place)
    answers = [f"yes:{tenant.id}" for tenant in tenants]
    await all_at_once(lambda: first.send(answers=answers), lambda: second.send(answers=answers[::-1]))
    assert scene.ties(ada) == {"globex": True, "initech": True}
    assert [one["name"] for one in scene.told("audit_log")].count("user.membership.confirmed") == 2
    # An old form cannot change a tie that is the person's own now.
    refused = await tabs.tab().open(LISTS)
    fields = {**refused.page.forms[0].fields, "organization": str(tenants[0].id), "answer": "leave"}
    answer = await tabs.request("POST", f"{LISTS}/globex/membership", fields)
    assert answer.status == 400
    assert b"You already confirmed this membership" in answer.body
    assert scene.ties(ada) == {"globex": True, "initech": True}


async def test_leaving_and_confirming_at_once_end_in_one_of_both(scene: MembershipPageScene) -> None:
    ada = await scene.newcomer()
    tenant = scene.list(ada)
    tab = await scene.sign_in(ada)
    caller = await scene.caller(tab.tabs)
    members, organization = scene.postern.tenancy.members, OrganizationId(tenant.id)

    async def leave() -> str:
        try:
            await members.leave(caller, organization)
        except BadRequest:
            return "refused"
        return "left"

    async def confirm() -> str:
        await members.confirm(caller, [organization])
        return "confirmed"

    outcome = await all_at_once(leave, confirm)
    assert scene.ties(ada) == ({} if "left" in outcome else {"globex": True})
    names = [one["name"] for one in scene.told("audit_log") if one["organization_id"] == tenant.id]
    assert names == (["user.removed"] if "left" in outcome else ["user.membership.confirmed"])


async def test_leaving_is_what_being_removed_is(scene: MembershipPageScene) -> None:
    ada = await scene.newcomer()
    directory = await Directory(scene.postern, scene.client, scene.people, "initech").connect()
    created = await directory.create(ada.email)
    inner, open_ = scene.tenants.service(directory.tenant, "inner"), scene.tenants.service(directory.tenant, "open")
    used = scene.tenants.service(directory.tenant, "used")
    scene.people.change("update all_services set sign_in_policy = 'members' where slug = 'inner'")
    scene.tenants.uses(ada, used, first=scene.postern.foundation.clock.now())
    sessions = {service.slug: scene.tenants.session(ada, service) for service in (inner, open_, used)}
    tab = await scene.sign_in(ada)
    await tab.send(answers=f"leave:{directory.tenant.id}")
    assert tab.place == "/ui"
    living = {
        slug: bool(scene.people.rows("select from sessions where id = %s and revoked_at is null", one.session))
        for slug, one in sessions.items()
    }
    # The person's consents stay.
    assert living == {"inner": False, "open": False, "used": True}
    assert scene.people.rows("select from relations where user_id = %s", ada.user) == []
    assert str(ada.user) not in await directory.members()
    assert (await directory.shown(created["id"]))["active"] is False
    (former,) = scene.people.rows("select user_id, org_id from former_members")
    assert (former["user_id"], former["org_id"]) == (ada.user, directory.tenant.id)
    # A tie that a directory lists again is asked about again.
    assert (await directory.patch(created["id"], {"op": "replace", "path": "active", "value": True})).status == 200
    assert (await scene.sign_in(ada)).place.startswith(PAGE)


async def test_who_left_does_not_come_back_by_the_domain(scene: MembershipPageScene) -> None:
    ada = await scene.newcomer()
    tenant = await by_domain(scene, ada)
    await (await scene.sign_in(ada)).send(answers=f"leave:{tenant.id}")
    assert (await scene.sign_in(ada)).place == "/ui"
    assert scene.ties(ada) == {}


async def test_nobody_answers_while_impersonating(scene: MembershipPageScene) -> None:
    ada = await scene.newcomer()
    tenant = scene.list(ada)
    tab = await scene.sign_in(ada)
    caller = replace(await scene.caller(tab.tabs), impersonator=UserId(scene.ada.user))
    members = scene.postern.tenancy.members
    for answering in (members.confirm(caller, [OrganizationId(tenant.id)]), members.leave(caller, OrganizationId(tenant.id))):
        with pytest.raises(Forbidden):
            await answering
    assert scene.ties(ada) == {"globex": False}
    assert [one["name"] for one in scene.told("audit_log") if one["organization_id"] == tenant.id] == []


async def test_an_owner_whom_somebody_else_made_one_cannot_leave(scene: MembershipPageScene) -> None:
    ada = await scene.newcomer()
    tenant = scene.list(ada, role="owner")
    tab = await scene.sign_in(ada)
    assert b"leave:" not in tab.shown.body
    answer = await tab.send(answers=f"leave:{tenant.id}")
    assert answer.status == 400
    assert scene.ties(ada) == {"globex": False}


async def test_a_removal_at_this_moment_leaves_nothing_to_confirm(scene: MembershipPageScene, database_url: str) -> None:
    ada = await scene.newcomer()
    tenant = scene.list(ada)
    tab = await scene.sign_in(ada)
    with psycopg.connect(database_url) as other:
        other.execute("delete from memberships where user_id = %s", [ada.user])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(tab.send, answers=f"yes:{tenant.id}"))
            await scene.people.somebody_waits()
            other.commit()
    assert tab.place == "/ui"
    assert scene.ties(ada) == {}
    assert "user.membership.confirmed" not in [one["name"] for one in scene.told("audit_log")]


async def test_the_list_of_organizations_asks_too(scene: MembershipPageScene) -> None:
    ada = await scene.newcomer()
    scene.tenants.join(ada, scene.acme)
    tenants = {slug: scene.list(ada, slug) for slug in ("globex", "initech")}
    tabs = (await scene.sign_in(ada)).tabs
    tab = await tabs.tab().open(LISTS)
    asked = [link for link in tab.page.links if link.endswith("/membership")]
    assert asked == [f"{LISTS}/globex/membership", f"{LISTS}/initech/membership"]
    assert tab.page.text.count("Not confirmed") == 2
    assert f"{LISTS}/globex/membership" in (await tab.open(f"{LISTS}/globex")).page.links
    await tab.open(asked[0])
    assert "Do you belong to Globex" in tab.page.text
    fields = tab.page.forms[-1].fields
    await tab.send(len(tab.page.forms) - 1, answer="accept")
    assert tab.place == f"{LISTS}/globex?done=confirmed"
    assert "Membership confirmed" in tab.page.text
    # A repeated form is no error, and an answered question is not asked again.
    assert (await tabs.request("POST", asked[0], {**fields, "answer": "accept"})).status == 303
    assert (await tab.open(asked[0])).place == LISTS
    await tab.open(asked[1])
    fields = tab.page.forms[-1].fields
    await tab.send(len(tab.page.forms) - 1, answer="leave")
    assert (tab.place, scene.ties(ada)) == (f"{LISTS}?done=left", {"acme": True, "globex": True})
    assert "You left the organization" in tab.page.text
    assert (await tabs.request("POST", asked[1], {**fields, "answer": "leave"})).status == 303
    # The short name alone is not enough, since it may be another organization's by now.
    scene.people.change("update all_organizations set slug = 'umbrella' where slug = 'initech'")
    again = scene.list(ada, "initech")
    assert (await tabs.request("POST", asked[1], {**fields, "answer": "accept"})).status == 303
    assert scene.ties(ada)["initech"] is False
    assert again.id != tenants["initech"].id


async def test_the_page_needs_the_person_and_its_own_form(scene: MembershipPageScene) -> None:
    ada, bob = await scene.newcomer(), await scene.newcomer("bob@example.org")
    tenant = scene.list(ada)
    tab = await scene.sign_in(ada)
    fields = tab.page.forms[0].fields
    other = (await scene.sign_in(bob)).tabs
    # Another person's browser has neither the flow nor the token, and the form says whose account it was made for.
    assert (await other.request("GET", tab.place)).status == 400
    assert (await other.request("POST", tab.place, {**fields, "answers": f"yes:{tenant.id}"})).status == 409
    assert (await tab.tabs.request("POST", tab.place, {**fields, "form_token": "x", "answers": f"yes:{tenant.id}"})).status == 403
    assert scene.ties(ada) == {"globex": False}
    nobody = await scene.browser().request("GET", tab.place)
    assert (nobody.header("location") or "").startswith("/ui/sign-in?to=")


async def test_after_a_second_factor_too(scene: MembershipPageScene) -> None:
    ada = await scene.newcomer()
    app = await enable_mfa(scene.client, scene.people, ada)
    scene.list(ada)
    tab = await scene.sign_in(ada)
    assert tab.place.startswith("/ui/sign-in/second-factor")
    await tab.send(code=app.now())
    assert tab.place.startswith(PAGE)


async def test_ones_own_list_tells_it(scene: MembershipPageScene) -> None:
    ada = await scene.newcomer()
    scene.list(ada)
    scene.tenants.join(ada, scene.acme)
    session = scene.tenants.session(ada)
    listed = (await scene.request("GET", "/api/organizations", by=session)).json()
    assert [(one["organization"]["slug"], one["membership"]["own_since"] is None) for one in listed] == [("acme", False), ("globex", True)]
    # Nobody else's ties change.
    members = (await scene.request("GET", "/api/organizations/acme/members")).ok()["members"]
    assert {name for one in members for name in one["membership"]} == {"id", "role", "created_at"}


# The first password.


async def made_by_directory(scene: MembershipPageScene) -> tuple[Tenant, str]:
    directory = await Directory(scene.postern, scene.client, scene.people, "initech").connect()
    await directory.create(ADA)
    return directory.tenant, await scene.postbox.link()


async def made_on_behalf(scene: MembershipPageScene) -> tuple[Tenant, str]:
    issued = await scene.invite(ADA)
    await scene.postbox.empty()
    assert (await scene.ask("POST", f"/{issued['invitation']['id']}/accept")).status == 200
    return scene.acme, await scene.postbox.link()


def the_person(scene: MembershipPageScene) -> Person:
    (row,) = scene.people.rows("select id from users where email_key = %s", ADA)
    return Person(row["id"], row["id"], ADA)


@pytest.mark.parametrize("made", [made_by_directory, made_on_behalf])
@pytest.mark.parametrize("ticked", [True, False])
async def test_where_the_first_password_is_chosen_they_say_where_they_belong(scene: MembershipPageScene, made: Any, ticked: bool) -> None:
    tenant, link = await made(scene)
    ada = the_person(scene)
    # Another organization lists the account as well, before its owner has seen it.
    other = scene.list(ada, "umbrella")
    tab = await scene.browser().tab().open(link.removeprefix(BASE_URL))
    said = tab.page.text
    assert f"I belong to {tenant.slug.capitalize()} (Member)" in said
    assert "I belong to Umbrella (Member)" in said
    body = tab.shown.body.decode()
    boxes = {str(one.id): one for one in (tenant, other)}
    assert all(f'value="{one}"' in body for one in boxes)
    # Only the organization that made the account is ticked.
    assert f'value="{tenant.id}" checked' in body
    assert f'value="{other.id}" checked' not in body
    sent: dict[str, Any] = {"confirmed": [str(tenant.id)] if ticked else []}
    # After a refused password the choice is still ticked, and nothing is confirmed.
    await tab.send(new_password="short", repeated="short", **sent)
    assert tab.status == 400
    assert (f'value="{tenant.id}" checked' in tab.shown.body.decode()) is ticked
    assert scene.ties(ada) == {tenant.slug: False, "umbrella": False}
    await tab.send(new_password=PASSWORD, repeated=PASSWORD, **sent)
    assert tab.place == "/ui/password-chosen?first=yes"
    assert scene.ties(ada) == {tenant.slug: ticked, "umbrella": False}
    confirmed = [one for one in scene.told("audit_log") if one["name"] == "user.membership.confirmed"]
    assert [(one["organization_id"], one["actor_id"]) for one in confirmed] == ([(tenant.id, ada.user)] if ticked else [])
    # The sign-in asks about the other organizations.
    tab = await scene.sign_in(ada)
    assert tab.place.startswith(PAGE)
    assert (f"yes:{tenant.id}".encode() in tab.shown.body) is not ticked


async def test_a_link_confirms_none_of_another_person_and_nothing_after_the_first_password(scene: MembershipPageScene) -> None:
    tenant, link = await made_by_directory(scene)
    ada, bob = the_person(scene), await scene.newcomer("bob@example.org")
    theirs = scene.list(bob, "umbrella")
    scene.people.change("update users set password_hash = 'not a hash' where id = %s", ada.user)
    tab = await scene.browser().tab().open(link.removeprefix(BASE_URL))
    assert "I belong to" not in tab.page.text
    await tab.send(new_password=PASSWORD, repeated=PASSWORD, confirmed=[str(tenant.id), str(theirs.id)])
    assert tab.place == "/ui/password-chosen"
    assert (scene.ties(ada), scene.ties(bob)) == ({"initech": False}, {"umbrella": False})


async def test_of_two_that_choose_the_first_password_at_once_one_is_recorded(scene: MembershipPageScene) -> None:
    tenant, link = await made_by_directory(scene)
    tabs = scene.browser()
    first, second = [await tabs.tab().open(link.removeprefix(BASE_URL)) for _ in range(2)]
    sent = {"new_password": PASSWORD, "repeated": PASSWORD, "confirmed": str(tenant.id)}
    await all_at_once(lambda: first.send(**sent), lambda: second.send(**sent))
    assert scene.ties(the_person(scene)) == {"initech": True}
    assert [one["name"] for one in scene.told("audit_log")].count("user.membership.confirmed") == 1


# Applications.


@pytest.fixture
def arriving(postern: Postern, people: People, log: CapturedLog) -> Arriving:
    scene = Arriving(postern, people, unlimited(postern), log)
    scene.set(scene.app, trusted=True)
    return scene


async def signing_in(arriving: Arriving, person: Person, **asked: str) -> Tab:
    tab = await arriving.browser().tab().open(arriving.asking(**asked))
    await tab.send(email=person.email)
    return await tab.send(password=PASSWORD)


async def test_an_application_asks_for_its_own_organization_alone(arriving: Arriving) -> None:
    ada = await arriving.people.with_password(PASSWORD, ADA)
    arriving.tenants.join(ada, arriving.acme, listed=True)
    arriving.tenants.join(ada, arriving.tenants.add("globex"), listed=True)
    tab = await signing_in(arriving, ada)
    assert tab.place.startswith(PAGE)
    assert "Do you belong to Acme ?" in tab.page.text
    assert "globex" not in tab.page.text
    await tab.send(answers=f"yes:{arriving.acme.id}")
    # From now on the trusted application needs no consent.
    assert "code" in left_for(tab)
    assert "code" in told(await tab.tabs.request("GET", arriving.asking()))


@pytest.mark.parametrize("mode", ["query", "form_post"])
async def test_who_puts_it_off_is_asked_for_consent(arriving: Arriving, mode: str) -> None:
    ada = await arriving.people.with_password(PASSWORD, ADA)
    arriving.tenants.join(ada, arriving.acme, listed=True)
    tab = await signing_in(arriving, ada, response_mode=mode)
    assert tab.place.startswith(PAGE)
    await tab.send(answers="later")
    assert tab.place.startswith("/ui/consent?flow=")
    await tab.send(answer="allow")
    assert b"code" in tab.shown.body
    # A request that an open session satisfies asks nothing; a new sign-in asks.
    asked = await tab.tabs.request("GET", arriving.asking())
    assert "code" in told(asked)
    assert (await signing_in(arriving, ada)).place.startswith(PAGE)


async def test_who_leaves_an_application_for_members_is_turned_away(arriving: Arriving) -> None:
    arriving.set(arriving.app, sign_in_policy="members")
    ada = await arriving.people.with_password(PASSWORD, ADA)
    arriving.tenants.join(ada, arriving.acme, listed=True)
    tab = await signing_in(arriving, ada)
    await tab.send(answers=f"leave:{arriving.acme.id}")
    assert tab.status == 403
    assert arriving.people.rows("select from memberships where user_id = %s", ada.user) == []


async def test_a_session_is_asked_where_the_answer_spares_the_consent(arriving: Arriving) -> None:
    ada = arriving.people.add(ADA)
    arriving.people.change("update users set email_verified_at = now() where id = %s", ada.user)
    arriving.tenants.join(ada, arriving.acme, listed=True)
    tabs = arriving.signed_in(ada)
    tab = await tabs.tab().open(arriving.asking())
    assert tab.place.startswith(PAGE)
    # If the request forbids questions, the person counts as no member.
    assert told(await tabs.request("GET", arriving.asking(prompt="none")))["error"] == "consent_required"
    arriving.set(arriving.app, trusted=False)
    assert (await tabs.tab().open(arriving.asking())).place.startswith("/ui/consent")
    arriving.set(arriving.app, trusted=True)
    for hint in ("grace@example.org", ADA):
        tab = await tabs.tab().open(arriving.asking(login_hint=hint))
        if tab.place.startswith("/ui/choose-account"):
            await tab.send(answer="current")
        assert tab.place.startswith(PAGE)
        await tab.send(answers="later")
        assert tab.place.startswith("/ui/consent")
    await tab.open(tab.place.replace("/ui/consent", PAGE))
    await tab.send(answers=f"yes:{arriving.acme.id}")
    assert "code" in left_for(tab)


async def test_the_second_factor_that_is_required_comes_after_it(arriving: Arriving) -> None:
    ada = await arriving.people.with_password(PASSWORD, ADA)
    arriving.tenants.join(ada, arriving.acme, listed=True)
    arriving.people.change("update all_organizations set mfa_required_since = now(), mfa_grace_days = 7 where slug = 'acme'")
    tab = await signing_in(arriving, ada)
    await tab.send(answers="later")
    assert tab.place.startswith("/ui/second-factor-required")
    await tab.send(1)
    assert tab.place.startswith("/ui/consent")
    tab = await signing_in(arriving, ada)
    await tab.send(answers=f"leave:{arriving.acme.id}")
    # A person who does not belong to the organization need not follow its rules.
    assert tab.place.startswith("/ui/consent")


async def test_sent_twice_it_leads_on_twice(arriving: Arriving) -> None:
    ada = await arriving.people.with_password(PASSWORD, ADA)
    arriving.tenants.join(ada, arriving.acme, listed=True)
    tab = await signing_in(arriving, ada)
    place, fields = tab.place, tab.page.forms[0].fields
    for _ in range(2):
        answer = await tab.tabs.request("POST", place, {**fields, "answers": f"yes:{arriving.acme.id}"})
        assert answer.status == 200
        assert CALLBACK.encode() in answer.body
    assert len(arriving.codes()) == 2


async def test_a_new_owner_is_asked_at_the_sign_in_and_may_decline(scene: MembershipPageScene) -> None:
    for answer, left in (("disown", {"acme": False}), ("leave", {})):
        ada = await scene.newcomer(f"{answer}@lovelace.example")
        scene.tenants.join(ada, scene.acme, listed=True)
        body = {"new_owner_user_id": str(ada.user)}
        assert (await scene.request("POST", "/api/organizations/acme/transfer-ownership", body)).status == 200
        tab = await scene.sign_in(ada)
        assert "You were made the owner" in tab.page.text
        assert b"autofocus" not in tab.shown.body
        shown = tab.place
        await tab.send(answers=f"{answer}:{scene.acme.id}")
        assert tab.place == "/ui"
        assert scene.ties(ada) == left
        (owner,) = scene.people.rows("select user_id from memberships where role = 'owner'")
        assert owner["user_id"] == scene.ada.user
        # The form again, from another tab, is no error.
        assert (await tab.tabs.tab().open(shown)).status == 200


async def test_a_new_owner_who_confirms_the_membership_confirms_the_ownership(scene: MembershipPageScene) -> None:
    ada = await scene.newcomer()
    scene.tenants.join(ada, scene.acme, listed=True)
    body = {"new_owner_user_id": str(ada.user)}
    assert (await scene.request("POST", "/api/organizations/acme/transfer-ownership", body)).status == 200
    tab = await scene.sign_in(ada)
    await tab.send(answers=f"yes:{scene.acme.id}")
    assert scene.ties(ada) == {"acme": True}
    assert scene.people.rows("select from ownerships where confirmed_at is null") == []
    names = [one["name"] for one in scene.told("audit_log")]
    assert names[-2:] == ["user.membership.confirmed", "organization.owner.confirmed"]


async def test_the_account_asks_a_new_owner_too(scene: MembershipPageScene) -> None:
    for answer, place, owns in (("decline", "declined", False), ("confirm", "owned", True)):
        ada = await scene.newcomer(f"{answer}@lovelace.example")
        scene.tenants.join(ada, scene.acme)
        body = {"new_owner_user_id": str(ada.user)}
        assert (await scene.request("POST", "/api/organizations/acme/transfer-ownership", body)).status == 200
        tab = await scene.sign_in(ada, f"/ui/sign-in?to={LISTS}")
        assert f"{LISTS}/acme/ownership" in tab.page.links
        assert f"{LISTS}/acme/ownership" in (await tab.open(f"{LISTS}/acme")).page.links
        tab = await tab.open(f"{LISTS}/acme/ownership")
        assert "Are you the owner of Acme?" in tab.page.text
        fields = tab.page.forms[-1].fields
        await tab.send(len(tab.page.forms) - 1, answer=answer)
        assert tab.place == f"{LISTS}/acme?done={place}"
        rows = scene.people.rows("select role from memberships where user_id = %s", ada.user)
        assert rows == [{"role": "owner" if owns else "member"}]
        # The same answer again, and the page again.
        assert (await tab.tabs.request("POST", f"{LISTS}/acme/ownership", {**fields, "answer": answer})).status == 303
        assert (await tab.tabs.request("GET", f"{LISTS}/acme/ownership")).status == 303
        other = await tab.tabs.request("POST", f"{LISTS}/acme/ownership", {**fields, "answer": "decline" if owns else "confirm"})
        assert other.status == 400
        assert (await tab.tabs.request("GET", f"{LISTS}/nowhere/ownership")).status == 404


async def test_the_list_asks_a_listed_new_owner_too(scene: MembershipPageScene) -> None:
    ada = await scene.newcomer()
    scene.tenants.join(ada, scene.acme, listed=True)
    body = {"new_owner_user_id": str(ada.user)}
    assert (await scene.request("POST", "/api/organizations/acme/transfer-ownership", body)).status == 200
    tab = await scene.sign_in(ada)
    tab = await tab.open(f"{LISTS}/acme/membership")
    await tab.send(len(tab.page.forms) - 1, answer="disown")
    assert tab.place == f"{LISTS}/acme?done=declined"
    assert scene.ties(ada) == {"acme": False}
