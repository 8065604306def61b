"""Terms over HTTP: who sets them, whom they ask, whom they stop from their date on, and what never asks."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.cast import Shops, all_at_once
from tests.http.client import Received, refused
from tests.http.people import People, Person
from tests.http.signing_in import PASSWORD, Browser, unlimited

TERMS: Final = "/api/organizations/acme/terms"
INSTALLATION: Final = "/api/platform/terms"
OWN: Final = "/api/user/terms"
BAD_REQUEST, FORBIDDEN, NOT_FOUND = (400, "BAD_REQUEST"), (403, "FORBIDDEN"), (404, "NOT_FOUND")
STOPPED, CHANGED = (403, "TERMS_REQUIRED"), (409, "CONFLICT")
ADDRESS: Final = "https://acme.example/terms"


def in_days(days: int) -> str:
    return (datetime.now(UTC) + timedelta(days=days)).isoformat()


class TermsScene(Shops):
    """Acme with an owner, an admin and a member; globex beside it; and a platform owner."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.owner, self.admin, self.member = (self.resident(self.acme, role) for role in ("owner", "admin", "member"))
        self.boss = self.people.add("boss@platform.example", platform_owner=True)
        self.speaker = self.owner

    async def set(self, version: str = "1", at: str = TERMS, *, by: Person | None = None, **other: Any) -> Received:
        body = {"version": version, "address": ADDRESS, "due_at": in_days(7), **other}
        return await self.request("PUT", at, body, by=by or (self.boss if at == INSTALLATION else self.owner))

    async def put(self, version: str = "1", at: str = TERMS) -> None:
        answer = await self.set(version, at)
        assert answer.status == 200, answer.body

    def overdue(self) -> None:
        self.people.change("update terms set due_at = now() - interval '1 second' where ended_at is null")

    async def accept(self, person: Person, version: str = "1", organization: str | None = "acme") -> Received:
        return await self.request("POST", OWN, {"version": version, "organization": organization}, by=person)

    async def own(self, person: Person) -> dict[str, Any]:
        return (await self.request("GET", OWN, by=person)).ok()

    async def enter(self, person: Person, tenant: str = "acme") -> Received:
        return await self.request("GET", f"/api/organizations/{tenant}", by=person)


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> TermsScene:
    return TermsScene(postern, people, unlimited(postern), log)


async def test_the_owner_sets_terms_and_all_versions_are_kept(scene: TermsScene) -> None:
    assert (await scene.request("GET", TERMS)).ok() == {"in_force": None, "versions": []}
    await scene.put("1")
    assert (await scene.accept(scene.member)).status == 200
    answer = (await scene.set("2", address=f"{ADDRESS}/2")).ok()
    assert [(one["version"], one["accepted"], one["ended_at"] is None) for one in answer["versions"]] == [("2", 0, True), ("1", 1, False)]
    assert answer["in_force"] == answer["versions"][0]
    assert answer["in_force"]["set_by"] == str(scene.owner.user)
    told = [one for one in scene.told("audit_log") if one["name"] == "terms.set"]
    assert [one["details"]["version"] for one in told] == ["1", "2"]
    assert told[1]["details"]["old_version"] == "1"


async def test_the_date_of_the_version_in_force_may_move_and_nothing_else(scene: TermsScene) -> None:
    await scene.put("1")
    later = in_days(30)
    assert (await scene.set("1", due_at=later)).ok()["in_force"]["due_at"][:16] == later[:16]
    told = len(scene.told("audit_log"))
    assert (await scene.set("1", due_at=later)).status == 200
    assert len(scene.told("audit_log")) == told
    assert refused(await scene.set("1", address="https://acme.example/other")) == BAD_REQUEST


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"address": "http://acme.example/terms"}, "address"),
        ({"address": "terms"}, "address"),
        ({"address": "https://acme.example/" + "x" * 500}, "address"),
        ({"due_at": "2020-01-01T00:00:00Z"}, "due_at"),
        ({"version": "  "}, "version"),
        ({"version": "x" * 41}, "version"),
    ],
)
async def test_bad_input_is_refused_at_the_field(scene: TermsScene, change: dict[str, str], field: str) -> None:
    body = {"version": "1", "address": ADDRESS, "due_at": in_days(7), **change}
    answer = await scene.request("PUT", TERMS, body)
    assert refused(answer) == BAD_REQUEST
    assert answer.json()["error"].startswith(f"{field}: ")


async def test_a_version_is_used_once(scene: TermsScene) -> None:
    await scene.put("1")
    await scene.put("2")
    answer = await scene.set("1")
    assert refused(answer) == BAD_REQUEST
    assert answer.json()["error"].startswith("version: ")
    # Another organization has versions of its own.
    other = scene.resident(scene.globex, "owner")
    assert (await scene.set("1", "/api/organizations/globex/terms", by=other)).status == 200


async def test_only_the_owner_and_platform_owners_set_them(scene: TermsScene) -> None:
    assert refused(await scene.set(by=scene.admin)) == FORBIDDEN
    assert refused(await scene.set(by=scene.resident(scene.globex, "owner"))) == FORBIDDEN
    assert refused(await scene.set(at=INSTALLATION, by=scene.owner)) == FORBIDDEN
    scene.people.change("update sessions set proved_at = now() - interval '1 day' where id = %s", scene.owner.session)
    assert refused(await scene.set()) == (401, "REAUTHENTICATION_REQUIRED")


async def test_a_member_goes_on_to_the_date_and_then_only_after_accepting(scene: TermsScene) -> None:
    await scene.put()
    assert (await scene.enter(scene.member)).status == 200
    scene.overdue()
    assert refused(await scene.enter(scene.member)) == STOPPED
    assert refused(await scene.request("POST", "/api/organizations/acme/select", by=scene.member)) == STOPPED
    # Their own account, and other organizations, never ask.
    for path in ("/api/user", OWN, "/api/organizations", f"/api/privacy/export/{scene.member.user}"):
        assert (await scene.request("GET", path, by=scene.member)).status == 200, path
    scene.tenants.join(scene.member, scene.globex)
    assert (await scene.enter(scene.member, "globex")).status == 200
    assert (await scene.own(scene.member))["pending"][0]["organization"] == "acme"
    assert (await scene.accept(scene.member)).status == 200
    assert (await scene.enter(scene.member)).status == 200
    assert (await scene.request("POST", "/api/organizations/acme/select", by=scene.member)).status == 200
    # The owner who has set them accepts as everybody does.
    assert refused(await scene.enter(scene.owner)) == STOPPED


async def test_another_version_asks_again(scene: TermsScene) -> None:
    await scene.put("1")
    await scene.accept(scene.member)
    await scene.put("2")
    scene.overdue()
    assert refused(await scene.enter(scene.member)) == STOPPED
    assert refused(await scene.accept(scene.member, "1")) == CHANGED
    own = (await scene.accept(scene.member, "2")).ok()
    assert own["pending"] == []
    assert [(one["version"], one["in_force"]) for one in own["accepted"]] == [("2", True), ("1", False)]


async def test_withdrawn_terms_stop_nobody(scene: TermsScene) -> None:
    await scene.put()
    scene.overdue()
    await scene.accept(scene.owner)
    assert (await scene.request("DELETE", TERMS)).status == 204
    assert (await scene.enter(scene.member)).status == 200
    assert refused(await scene.request("DELETE", TERMS)) == NOT_FOUND
    assert refused(await scene.accept(scene.member)) == NOT_FOUND
    assert scene.people.rows("select from all_organizations where asks_terms") == []
    assert (await scene.request("GET", TERMS)).ok()["versions"][0]["ended_at"] is not None


async def test_terms_of_the_installation_stop_all_but_the_account(scene: TermsScene) -> None:
    await scene.put("1", INSTALLATION)
    assert (await scene.enter(scene.member)).status == 200
    scene.overdue()
    assert refused(await scene.enter(scene.member)) == STOPPED
    founding = {"slug": "initech", "name": "Initech"}
    assert refused(await scene.request("POST", "/api/organizations", founding, by=scene.member)) == STOPPED
    for path in ("/api/user", OWN, "/api/organizations", f"/api/privacy/export/{scene.member.user}"):
        assert (await scene.request("GET", path, by=scene.member)).status == 200, path
    # Platform owners accept as everybody does.
    assert refused(await scene.request("GET", INSTALLATION, by=scene.boss)) == STOPPED
    assert (await scene.accept(scene.boss, organization=None)).status == 200
    assert (await scene.request("GET", INSTALLATION, by=scene.boss)).status == 200
    assert (await scene.accept(scene.member, organization=None)).status == 200
    assert (await scene.enter(scene.member)).status == 200
    assert refused(await scene.request("POST", "/api/organizations", founding, by=scene.member)) == BAD_REQUEST, "unproved address"


async def test_an_organization_that_is_made_later_asks_for_terms_of_the_installation(scene: TermsScene) -> None:
    await scene.put("1", INSTALLATION)
    initech = scene.tenants.add("initech")
    newcomer = scene.resident(initech, "member")
    scene.overdue()
    assert refused(await scene.enter(newcomer, "initech")) == STOPPED
    await scene.accept(scene.boss, organization=None)
    assert (await scene.request("DELETE", INSTALLATION, by=scene.boss)).status == 204
    assert (await scene.enter(newcomer, "initech")).status == 200
    assert scene.people.rows("select from all_organizations where asks_terms") == []


async def test_an_organizations_terms_stand_beside_those_of_the_installation(scene: TermsScene) -> None:
    await scene.put("1", INSTALLATION)
    await scene.put("1")
    await scene.accept(scene.boss, organization=None)
    assert (await scene.request("DELETE", INSTALLATION, by=scene.boss)).status == 204
    assert [row["slug"] for row in scene.people.rows("select slug from all_organizations where asks_terms")] == ["acme"]


async def test_a_sign_in_names_what_is_pending(scene: TermsScene) -> None:
    person = scene.tenants.join(await scene.people.with_password(PASSWORD, "grace@acme.example"), scene.acme)
    before = await Browser(scene.client).tokens(person)
    assert "terms_pending" not in before
    await scene.put()
    await scene.put("7", INSTALLATION)
    answer = await Browser(scene.client).tokens(person)
    pending = [(one["organization"], one["version"], one["address"]) for one in answer["terms_pending"]]
    assert pending == [(None, "7", ADDRESS), ("acme", "1", ADDRESS)]
    # An organization's sign-in tells nothing of the others that the person belongs to.
    scene.tenants.join(person, scene.globex)
    by = scene.resident(scene.globex, "owner")
    assert (await scene.set("1", "/api/organizations/globex/terms", by=by)).status == 200
    tokens = Browser(scene.client).tokens
    told = [await tokens(person), await tokens(person, org_slug="acme", service_slug="shop")]
    assert [[one["organization"] for one in answer["terms_pending"]] for answer in told] == [[None, "acme", "globex"], [None, "acme"]]
    scene.overdue()
    # A sign-in on the platform goes on, so that the person can accept; one to a service does not.
    answer = await Browser(scene.client).tokens(person)
    service = {"org_slug": "acme", "service_slug": "shop"}
    assert refused(await Browser(scene.client).login(person, **service)) == STOPPED
    for seen in ({"version": "7"}, {"version": "1", "organization": "acme"}):
        assert (await scene.client.post(OWN, seen, token=answer["access_token"])).status == 200
    assert "terms_pending" not in await Browser(scene.client).tokens(person, **service)


async def test_who_is_merely_listed_is_stopped_there_and_asked_nowhere_else(scene: TermsScene) -> None:
    person = scene.tenants.join(await scene.people.with_password(PASSWORD, "grace@acme.example"), scene.acme, listed=True)
    await scene.put()
    scene.overdue()
    assert "terms_pending" not in await Browser(scene.client).tokens(person)
    listed = scene.tenants.join(scene.people.proved(), scene.acme, listed=True)
    assert refused(await scene.enter(listed)) == STOPPED
    assert (await scene.accept(listed)).status == 200
    assert (await scene.enter(listed)).status == 200
    assert scene.people.rows("select own_since from memberships where user_id = %s", listed.user) == [{"own_since": None}]


async def test_running_sessions_of_services_go_on_to_the_date(scene: TermsScene) -> None:
    person = await scene.people.with_password(PASSWORD, "grace@acme.example")
    service = {"org_slug": "acme", "service_slug": "shop"}
    browser = Browser(scene.client)
    tokens = await browser.tokens(person, **service)
    await scene.put()
    tokens = (await browser.refresh(tokens["refresh_token"])).ok()
    assert (await scene.client.get("/api/user", token=tokens["access_token"])).status == 200
    scene.overdue()
    assert refused(await scene.client.get("/api/user", token=tokens["access_token"])) == STOPPED
    assert refused(await browser.refresh(tokens["refresh_token"])) == STOPPED
    # Nothing was used up: after the person has accepted, the same token goes on.
    own = await Browser(scene.client).tokens(person)
    assert (await scene.client.post(OWN, {"version": "1", "organization": "acme"}, token=own["access_token"])).status == 200
    assert (await browser.refresh(tokens["refresh_token"])).status == 200
    # An application accepts nothing for its users.
    other = await Browser(scene.client).tokens(person, **service)
    answer = await scene.client.post(OWN, {"version": "1", "organization": "acme"}, token=other["access_token"])
    assert refused(answer) == FORBIDDEN


async def test_two_acceptances_at_once_are_one(scene: TermsScene) -> None:
    await scene.put()
    answers = await all_at_once(*[lambda: scene.accept(scene.member)] * 4)
    assert [answer.status for answer in answers] == [200] * 4
    assert len(scene.people.rows("select from terms_acceptances")) == 1
    (told,) = [one for one in scene.told("audit_log") if one["name"] == "terms.accepted"]
    assert told["organization_id"] == scene.acme.id


async def test_a_version_that_follows_meanwhile_is_never_accepted_unread(scene: TermsScene) -> None:
    await scene.put("1")

    async def change() -> Received:
        return await scene.set("2")

    async def accept() -> Received:
        return await scene.accept(scene.member, "1")

    assert {answer.status for answer in await all_at_once(change, accept)} <= {200, 409}
    accepted = scene.people.rows("select version from terms_acceptances join terms on terms.id = terms_id")
    assert {row["version"] for row in accepted} <= {"1"}
    assert refused(await scene.accept(scene.member, "1")) == CHANGED


async def test_what_was_accepted_is_recorded_exported_and_forgotten(scene: TermsScene) -> None:
    await scene.put()
    await scene.put("3", INSTALLATION)
    await scene.accept(scene.member)
    await scene.accept(scene.member, "3", None)
    rows = scene.people.rows("select session_id, organization_id from terms_acceptances order by accepted_at")
    assert rows == [
        {"session_id": scene.member.session, "organization_id": scene.acme.id},
        {"session_id": scene.member.session, "organization_id": None},
    ]
    export = f"/api/privacy/export/{scene.member.user}"
    whole = (await scene.request("GET", export, by=scene.member)).ok()
    assert [(one["organization_id"], one["version"]) for one in whole["terms"]] == [(str(scene.acme.id), "1"), (None, "3")]
    # The organization sees its own alone.
    await scene.accept(scene.owner)
    await scene.accept(scene.owner, "3", None)
    theirs = (await scene.request("GET", export, by=scene.owner)).ok()
    assert [one["version"] for one in theirs["terms"]] == ["1"]


async def test_a_forgotten_person_has_accepted_nothing(scene: TermsScene) -> None:
    await scene.put("3", INSTALLATION)
    person = scene.people.proved()
    await scene.accept(person, "3", None)
    assert len(scene.people.rows("select from terms_acceptances")) == 1
    assert (await scene.request("DELETE", f"/api/privacy/forget/{person.user}", by=scene.boss)).status == 200
    assert scene.people.rows("select from terms_acceptances") == []


async def test_nobody_accepts_for_another(scene: TermsScene) -> None:
    await scene.put()
    scene.overdue()
    begun = await scene.request("POST", f"/api/platform/impersonate/{scene.member.user}", {"reason": "Ticket 4711"}, by=scene.boss)
    token = begun.ok()["access_token"]
    scene.log.remember(token, begun.ok()["refresh_token"])
    answer = await scene.client.post(OWN, {"version": "1", "organization": "acme"}, token=token)
    assert refused(answer) == FORBIDDEN
    # Whoever acts for the person is not stopped by what the person has not accepted.
    assert (await scene.client.get("/api/organizations/acme", token=token)).status == 200
    assert scene.people.rows("select from terms_acceptances") == []


async def test_keys_of_the_organization_are_no_people_and_go_on(scene: TermsScene) -> None:
    await scene.put()
    key = scene.tenants.management_key(scene.acme, scene.owner, [Capability.SETTINGS_MANAGE])
    scene.overdue()
    assert (await scene.client.get(TERMS, token=key)).status == 200
    assert refused(await scene.client.post(OWN, {"version": "1", "organization": "acme"}, token=key)) == FORBIDDEN


async def test_terms_of_others_name_nothing(scene: TermsScene) -> None:
    await scene.put()
    stranger = scene.resident(scene.globex, "owner")
    assert refused(await scene.request("GET", TERMS, by=stranger)) == FORBIDDEN
    assert refused(await scene.request("DELETE", TERMS, by=stranger)) == FORBIDDEN
    assert (await scene.own(stranger))["pending"] == []
    assert refused(await scene.accept(stranger, organization="nowhere")) == NOT_FOUND
    assert refused(await scene.accept(stranger, organization="globex")) == NOT_FOUND


async def test_registering_accepts_what_was_seen(scene: TermsScene) -> None:
    await scene.put("1")
    await scene.put("7", INSTALLATION)
    body = {"email": "new@example.org", "password": "a fresh and lively password", "org_slug": "acme"}
    assert refused(await scene.client.post("/api/auth/register", {**body, "accept_terms": [{"version": "6"}]})) == CHANGED
    assert scene.people.rows("select from users where email = 'new@example.org'") == []
    seen = [{"version": "7"}, {"version": "1", "organization": "acme"}]
    assert (await scene.client.post("/api/auth/register", {**body, "accept_terms": seen})).status == 200
    rows = scene.people.rows("select version, session_id from terms_acceptances join terms on terms.id = terms_id order by version")
    assert rows == [{"version": "1", "session_id": None}, {"version": "7", "session_id": None}]
