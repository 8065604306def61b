"""Terms on pages: asked after the sign-in and before whatever it leads to, at the registration, and in the person's account."""

from datetime import UTC, datetime, timedelta
from typing import Final

import pytest

from core.domain.identifiers import SessionId
from core.domain.identity.terms import MOST_VERSIONS
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.browsing import Tab, Tabs
from tests.http.cast import all_at_once
from tests.http.federation.arriving import Arriving, left, told
from tests.http.people import BASE_URL, People, Person
from tests.http.postbox import Postbox
from tests.http.signing_in import PASSWORD, unlimited

ACME: Final = "/api/organizations/acme/terms"
INSTALLATION: Final = "/api/platform/terms"
ASKS: Final = "/ui/accept-terms?flow="
ADDRESS: Final = "https://acme.example/terms"


class TermsPageScene(Arriving):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.owner = self.resident(self.acme, "owner")
        self.speaker = self.owner
        self.root = self.people.add("root@platform.example", platform_owner=True)

    async def ask_for(self, version: str, at: str = ACME) -> None:
        body = {"version": version, "address": ADDRESS, "due_at": (datetime.now(UTC) + timedelta(days=7)).isoformat()}
        answer = await self.request("PUT", at, body, by=self.owner if at == ACME else self.root)
        assert answer.status == 200, answer.body

    def overdue(self) -> None:
        self.people.change("update terms set due_at = now() - interval '1 second' where ended_at is null")

    async def newcomer(self, *, member: bool = True) -> Person:
        person = await self.people.with_password(PASSWORD, "ada@lovelace.example")
        return self.tenants.join(person, self.acme) if member else person

    async def sign_in(self, person: Person, place: str = "/ui/sign-in?to=/ui/profile") -> Tab:
        tab = await Tabs(unlimited(self.postern)).tab().open(place)
        await tab.send(email=person.email)
        return await tab.send(password=PASSWORD)

    def accepted(self) -> list[str]:
        rows = self.people.rows("select version from terms_acceptances join terms on terms.id = terms_id order by version")
        return [row["version"] for row in rows]


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> TermsPageScene:
    return TermsPageScene(postern, people, unlimited(postern), log)


async def test_without_terms_nobody_is_asked(scene: TermsPageScene) -> None:
    assert (await scene.sign_in(await scene.newcomer())).place == "/ui/profile"


async def test_the_next_sign_in_asks_and_goes_on_after_accepting(scene: TermsPageScene) -> None:
    ada = await scene.newcomer()
    await scene.ask_for("7", INSTALLATION)
    await scene.ask_for("1")
    tab = await scene.sign_in(ada)
    assert tab.place.startswith(ASKS)
    assert "Terms of service, version 7" in tab.page.text
    assert ADDRESS in tab.page.links
    await tab.send(0)
    assert tab.place == "/ui/profile"
    assert scene.accepted() == ["1", "7"]
    # The next sign-in asks for nothing.
    assert (await scene.sign_in(ada)).place == "/ui/profile"
    page = await tab.tabs.tab().open("/ui/terms")
    assert "version 7" in page.page.text
    # Another version asks again.
    await scene.ask_for("2")
    again = await scene.sign_in(ada)
    assert again.place.startswith(ASKS)
    assert "version 2" in again.page.text
    assert "version 7" not in again.page.text


async def test_before_the_date_one_may_go_on_and_is_asked_at_the_next_sign_in(scene: TermsPageScene) -> None:
    ada = await scene.newcomer()
    await scene.ask_for("7", INSTALLATION)
    for _ in range(2):
        tab = await scene.sign_in(ada)
        assert tab.place.startswith(ASKS)
        await tab.send(0, answer="later")
        assert tab.place == "/ui/profile"
    assert scene.accepted() == []


async def test_after_the_date_there_is_no_later_and_the_account_stays_open(scene: TermsPageScene) -> None:
    ada = await scene.newcomer()
    await scene.ask_for("7", INSTALLATION)
    scene.overdue()
    tab = await scene.sign_in(ada, "/ui/sign-in?to=/ui/o/acme")
    assert "later" not in {button.get("value") for button in getattr(tab.page, "buttons", [])}
    place = tab.place
    await tab.send(0, answer="later")
    assert (tab.status, tab.place) == (403, place)
    tabs = tab.tabs
    assert (await tabs.tab().open("/ui/profile")).status == 200
    closed = await tabs.tab().open("/ui/o/acme")
    assert closed.place.startswith("/ui/terms?to=/ui/o/acme")
    # The page leads back to what was closed.
    forms = [form for form in closed.page.forms if form.action == "/ui/terms"]
    await closed.send(closed.page.forms.index(forms[0]))
    assert closed.place == "/ui/o/acme"
    assert closed.status == 200


async def test_an_organizations_terms_stop_its_applications_and_not_the_account(scene: TermsPageScene) -> None:
    ada = await scene.newcomer()
    scene.allow(ada)
    await scene.ask_for("1")
    scene.overdue()
    # At the base address, the person may go on without: this is not where the organization's terms count.
    tab = await scene.sign_in(ada)
    await tab.send(0, answer="later")
    assert tab.place == "/ui/profile"
    # A session that runs is stopped at the application, and asked there.
    assert told(await tab.tabs.request("GET", scene.asking(prompt="none")))["error"] == "interaction_required"
    app = await tab.tabs.tab().open(scene.asking())
    assert app.place.startswith(ASKS)
    await app.send(0, answer="later")
    assert app.status == 403
    assert scene.codes() == []
    await app.send(0)
    assert "code" in left(app)
    assert scene.accepted() == ["1"]
    told(await tab.tabs.request("GET", scene.asking(prompt="none")))


async def test_a_sign_in_for_an_application_asks_a_newcomer_for_its_organizations_terms(scene: TermsPageScene) -> None:
    ada = await scene.newcomer(member=False)
    scene.allow(ada)
    await scene.ask_for("1")
    tab = await scene.sign_in(ada, scene.asking())
    assert tab.place.startswith(ASKS)
    await tab.send(0, answer="later")
    assert "code" in left(tab)
    # At the base address, an organization that the person does not belong to asks nothing.
    assert (await scene.sign_in(ada)).place == "/ui/profile"


async def test_a_form_that_is_sent_twice_accepts_once(scene: TermsPageScene) -> None:
    ada = await scene.newcomer()
    scene.allow(ada)
    await scene.ask_for("1")
    tab = await scene.sign_in(ada, scene.asking())
    form = tab.page.forms[0]

    async def send() -> int:
        return (await tab.tabs.request("POST", form.action, form.fields)).status

    assert set(await all_at_once(send, send)) == {200}
    assert scene.accepted() == ["1"]


async def test_a_version_that_follows_meanwhile_is_shown_before_it_is_accepted(scene: TermsPageScene) -> None:
    ada = await scene.newcomer()
    await scene.ask_for("1")
    tab = await scene.sign_in(ada)
    await scene.ask_for("2")
    await tab.send(0)
    assert tab.status == 409
    assert "have changed since you opened them" in tab.page.text
    assert scene.accepted() == []
    await tab.send(0)
    assert scene.accepted() == ["2"]


@pytest.mark.parametrize(("shown", "status"), [("", 409), ("nonsense", 409), ("018f3c5a-7b1e-7c3d-9f4a-2b6c8d0e1f23", 404)])
async def test_a_form_that_shows_nothing_of_ours_accepts_nothing(scene: TermsPageScene, shown: str, status: int) -> None:
    ada = await scene.newcomer()
    await scene.ask_for("1")
    tab = await scene.sign_in(ada)
    await tab.send(0, terms=shown)
    assert tab.status == status
    assert scene.accepted() == []


async def test_a_registration_names_the_terms_and_records_them_with_the_account(scene: TermsPageScene) -> None:
    await scene.ask_for("7", INSTALLATION)
    await scene.ask_for("1")
    tab = await Tabs(unlimited(scene.postern)).tab().open("/ui/register?org_slug=acme")
    assert ADDRESS in tab.page.links
    assert "you accept" in tab.page.text
    await tab.send(email="bob@example.org", password=PASSWORD)
    assert tab.place.startswith("/ui/check-mail")
    assert scene.accepted() == ["1", "7"]


async def test_from_the_registration_to_the_date_of_a_later_version(scene: TermsPageScene) -> None:
    """One person on the pages, without scripts: accepts when they register, is asked for the next version, puts it off, and is stopped."""
    await scene.ask_for("1", INSTALLATION)
    tabs = Tabs(unlimited(scene.postern))
    tab = await tabs.tab().open("/ui/register?org_slug=acme")
    assert "you accept" in tab.page.text
    await tab.send(email="bob@example.org", password=PASSWORD)
    assert scene.accepted() == ["1"]
    proof = await tabs.tab().open((await Postbox(scene.postern).link()).removeprefix(BASE_URL))
    await proof.send()
    (row,) = scene.people.rows("select id from users where email = 'bob@example.org'")
    bob = Person(row["id"], SessionId(row["id"]), "bob@example.org")
    # Nothing is asked for that was accepted with the registration.
    tab = await scene.sign_in(bob, scene.asking())
    assert tab.place.startswith("/ui/consent")
    assert "code" in left(await tab.send(answer="allow"))
    await scene.ask_for("2", INSTALLATION)
    tab = await scene.sign_in(bob, scene.asking())
    assert tab.place.startswith(ASKS)
    assert "version 2" in tab.page.text
    assert "code" in left(await tab.send(0, answer="later"))
    scene.overdue()
    tab = await scene.sign_in(bob, scene.asking())
    assert tab.place.startswith(ASKS)
    codes = len(scene.codes())
    await tab.send(0, answer="later")
    assert (tab.status, len(scene.codes())) == (403, codes)
    assert (await tab.tabs.tab().open("/ui/profile")).place == "/ui/profile"
    assert "code" in left(await tab.send(0))
    assert scene.accepted() == ["1", "2"]


async def test_the_owner_sets_and_withdraws_terms_in_the_console(scene: TermsPageScene) -> None:
    tabs = scene.signed_in(scene.owner)
    tab = await tabs.tab().open("/ui/o/acme/settings/terms")
    assert "No terms of service" in tab.page.text
    due = (datetime.now(UTC) + timedelta(days=7)).strftime("%Y-%m-%dT%H:%M")
    (form,) = [number for number, one in enumerate(tab.page.forms) if one.action.endswith("/settings/terms/change")]
    await tab.send(form, version="1", address="http://acme.example/terms", due_at=due)
    assert tab.status == 400
    assert "must start with https://" in tab.page.text
    (form,) = [number for number, one in enumerate(tab.page.forms) if one.action.endswith("/settings/terms/change")]
    await tab.send(form, version="1", address=ADDRESS, due_at=due)
    assert (await tabs.tab().open("/ui/o/acme/settings/terms")).page.text.count("In effect since") == 1
    end = await tabs.tab().open("/ui/o/acme/settings/terms/end")
    await end.send(len(end.page.forms) - 1)
    assert "No terms of service" in (await tabs.tab().open("/ui/o/acme/settings/terms")).page.text
    assert MOST_VERSIONS > 1


async def test_a_platform_owner_sets_the_installations_in_the_console(scene: TermsPageScene) -> None:
    await scene.ask_for("7", INSTALLATION)
    tab = await scene.signed_in(scene.root).tab().open("/ui/platform/settings/terms")
    assert tab.status == 200
    assert "In effect since" in tab.page.text
