"""SECURITY 9, 26, 58: nobody accepts, or reads, terms of an organization that they have nothing to do with. Who has a tie does, and so does
who comes for the first time to an application that lets anybody in.
"""

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

import pytest

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.browsing import Tab, Tabs
from tests.http.client import Received, refused
from tests.http.federation.arriving import Arriving
from tests.http.federation.scim.directories import Directory
from tests.http.people import People, Person
from tests.http.signing_in import PASSWORD, Browser, unlimited

database_url, postern, people = http.database_url, http.postern, http.people

OWN: Final = "/api/user/terms"
ACME: Final = "/api/organizations/acme"
ADDRESS: Final = "https://acme.example/terms"


class TieLessPeople(Arriving):
    """Acme asks for terms, and none of its applications lets anybody in. Eve has an account, and no tie to acme."""

    async def begin(self) -> "TieLessPeople":
        self.owner = self.speaker = self.resident(self.acme, "owner")
        for one in ("app", "desktop"):
            (await self.request("PATCH", f"{ACME}/services/{one}", {"sign_in_policy": "members"})).ok()
        (await self.request("PUT", f"{ACME}/terms", self.terms("1"))).ok()
        self.eve = self.people.session_of(await self.people.with_password(PASSWORD, "eve@example.org"))
        return self

    def terms(self, version: str) -> dict[str, str]:
        return {"version": version, "address": ADDRESS, "due_at": (datetime.now(UTC) + timedelta(days=7)).isoformat()}

    async def opens_app(self) -> None:
        (await self.request("PATCH", f"{ACME}/services/app", {"sign_in_policy": "anyone"})).ok()

    async def runs_out(self) -> None:
        """The owner has accepted; the date is over."""
        (await self.accept(self.owner)).ok()
        self.people.change("update terms set due_at = now() - interval '1 second'")

    async def accept(self, person: Person, version: str = "1", of: str | None = "acme") -> Received:
        return await self.request("POST", OWN, {"version": version, "organization": of}, by=person)

    async def pending(self, person: Person, query: str = "") -> list[str | None]:
        return [one["organization"] for one in (await self.request("GET", f"{OWN}{query}", by=person)).ok()["pending"]]

    async def counted(self) -> int:
        found: int = (await self.request("GET", f"{ACME}/terms")).ok()["in_force"]["accepted"]
        return found

    async def logged(self) -> list[dict[str, Any]]:
        log: list[dict[str, Any]] = (await self.request("GET", f"{ACME}/audit-log?action=terms.accepted")).ok()["logs"]
        return log

    async def shown(self) -> str:
        """The id of the version, as a page shows it to a person whose it is."""
        member = self.signed_in(self.resident(self.acme, "member"))
        tab = await member.tab().open("/ui/terms")
        (form,) = [one for one in tab.page.forms if "terms" in one.fields]
        shown: str = form.fields["terms"][0] if isinstance(form.fields["terms"], list) else form.fields["terms"]
        return shown

    async def sends(self, tabs: Tabs, terms: str) -> Tab:
        """The person's own page of terms, with these versions in its form, besides the one that stands there."""
        tab = await tabs.tab().open("/ui/terms")
        (form,) = [number for number, one in enumerate(tab.page.forms) if "terms" in one.fields]
        return await tab.send(form, terms=terms.format(own=tab.page.forms[form].fields["terms"]))


@pytest.fixture
async def scene(postern: Postern, people: People, log: CapturedLog) -> TieLessPeople:
    return await TieLessPeople(postern, people, unlimited(postern), log).begin()


async def test_a_stranger_accepts_nothing_by_the_api(scene: TieLessPeople) -> None:
    answers = [await scene.accept(scene.eve, version, of) for version in ("1", "2") for of in ("acme", "nobody-here")]
    assert [refused(one) for one in answers] == [(404, "NOT_FOUND")] * 4
    assert len({one.json()["error"] for one in answers}) == 1
    assert (await scene.counted(), await scene.logged()) == (0, [])
    assert await scene.pending(scene.eve, "?organization=acme") == []


async def test_a_stranger_accepts_nothing_by_the_page(scene: TieLessPeople) -> None:
    theirs, root = await scene.shown(), scene.people.add(platform_owner=True)
    (await scene.request("PUT", "/api/platform/terms", scene.terms("7"), by=root)).ok()
    eve = scene.signed_in(scene.eve)
    first, second = await scene.sends(eve, theirs), await scene.sends(eve, str(uuid4()))
    assert (first.status, second.status) == (404, 404)
    assert first.page.text == second.page.text
    # Beside one that is Eve's, nothing is accepted either.
    assert (await scene.sends(eve, f"{{own}} {theirs}")).status == 404
    assert (await scene.counted(), await scene.logged()) == (0, [])
    assert await scene.pending(scene.eve) == [None]
    assert (await scene.sends(eve, "{own}")).status == 200
    assert await scene.pending(scene.eve) == []


async def test_who_is_merely_listed_accepts(scene: TieLessPeople) -> None:
    directory = Directory(scene.postern, scene.client, scene.people, "initech")
    await directory.connect()
    user = UUID((await directory.create(scene.eve.email))["id"])
    assert user == scene.eve.user
    (await scene.request("PUT", "/api/organizations/initech/terms", scene.terms("1"), by=directory.owner)).ok()
    assert await scene.pending(scene.eve) == ["initech"]
    assert (await scene.accept(scene.eve, of="initech")).status == 200
    assert await scene.pending(scene.eve) == []


async def test_an_end_user_accepts_although_the_application_has_closed_since(scene: TieLessPeople) -> None:
    await scene.opens_app()
    (await Browser(scene.client).login(scene.eve, org_slug="acme", service_slug="app")).ok()
    (await scene.request("PATCH", f"{ACME}/services/app", {"sign_in_policy": "members"})).ok()
    assert await scene.pending(scene.eve) == ["acme"]
    assert (await scene.accept(scene.eve)).status == 200
    assert await scene.counted() == 1


async def test_who_comes_for_the_first_time_accepts_at_an_application_that_lets_anybody_in(scene: TieLessPeople) -> None:
    await scene.opens_app()
    await scene.runs_out()
    first = await Browser(scene.client).login(scene.eve, org_slug="acme", service_slug="app")
    assert refused(first) == (403, "TERMS_REQUIRED")
    token = (await Browser(scene.client).tokens(scene.eve))["access_token"]
    # What was named at the application is found by its name, and stands on nobody's list unasked.
    assert (await scene.client.get(OWN, token=token)).ok()["pending"] == []
    (waits,) = (await scene.client.get(f"{OWN}?organization=acme", token=token)).ok()["pending"]
    seen = {"version": waits["version"], "organization": waits["organization"]}
    assert (await scene.client.post(OWN, seen, token=token)).ok()["pending"] == []
    assert (await Browser(scene.client).login(scene.eve, org_slug="acme", service_slug="app")).status == 200
    assert await scene.counted() == 2


async def test_who_has_accepted_a_version_before_accepts_the_next(scene: TieLessPeople) -> None:
    seen = [{"version": "1", "organization": "acme"}]
    body = {"email": "bob@example.org", "password": PASSWORD, "org_slug": "acme", "accept_terms": seen}
    (await scene.client.post("/api/auth/register", body)).ok()
    (bob,) = scene.people.rows("select id from users where email = 'bob@example.org'")
    scene.people.change("update users set email_verified_at = now() where id = %s", bob["id"])
    (await scene.request("PUT", f"{ACME}/terms", scene.terms("2"))).ok()
    person = scene.people.session_of(Person(bob["id"], bob["id"], "bob@example.org"))
    assert await scene.pending(person) == ["acme"]
    assert refused(await scene.accept(person)) == (409, "CONFLICT")
    assert (await scene.accept(person, "2")).status == 200


async def test_a_page_accepts_for_the_organization_to_which_its_flow_leads(scene: TieLessPeople) -> None:
    tab = await scene.signed_in(scene.eve).tab().open("/ui/terms")
    assert "version 1" not in tab.page.text
    await scene.opens_app()
    await scene.runs_out()
    app = await scene.signed_in(scene.people.session_of(scene.eve)).tab().open(scene.asking())
    assert app.place.startswith("/ui/accept-terms"), app.place
    # The application closes while the page is open; the flow still leads there, and accepting is all that it does.
    (await scene.request("PATCH", f"{ACME}/services/app", {"sign_in_policy": "members"})).ok()
    await app.send(0)
    assert "Only members of" in app.page.text
    assert await scene.counted() == 2


async def test_terms_of_an_organization_that_is_suspended_are_nobodys_to_accept(scene: TieLessPeople) -> None:
    member = scene.resident(scene.acme, "member")
    root = scene.people.add(platform_owner=True)
    (await scene.request("POST", f"/api/platform/organizations/{scene.acme.id}/suspend", {"reason": "x"}, by=root)).ok()
    assert refused(await scene.accept(member)) == (404, "NOT_FOUND")
    assert await scene.pending(member, "?organization=acme") == []
