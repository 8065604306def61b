"""A sign-in page has a link to the registration where an account that somebody registers leads on."""

import pytest

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.client import Client
from tests.http.federation.arriving import Arriving
from tests.http.people import People, Person
from tests.http.routing import route

ACME = "/api/organizations/acme"


class Doorstep(Arriving):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.owner: Person = self.resident(self.acme, "owner")
        self.speaker = self.owner

    async def policy(self, policy: str) -> None:
        (await self.request("PATCH", f"{ACME}/services/app", {"sign_in_policy": policy})).ok()

    async def registration(self, policy: str) -> None:
        (await self.request("PATCH", f"{ACME}/sign-in-rules", {"registration_policy": policy})).ok()

    async def links(self, **asked: str) -> list[str]:
        """The links to the registration on the page that a stranger meets."""
        tab = await self.browser().tab().open(self.asking(**asked))
        assert (tab.status, tab.place.partition("?")[0]) == (200, "/ui/sign-in")
        return [link for link in tab.page.links if link.startswith("/ui/register")]


@pytest.fixture
def scene(postern: Postern, people: People, client: Client, log: CapturedLog) -> Doorstep:
    return Doorstep(postern, people, client, log)


async def test_where_anybody_gets_in_there_is_a_link(scene: Doorstep) -> None:
    assert len(await scene.links()) == 1
    await scene.registration("except_domains")
    assert len(await scene.links()) == 1


@pytest.mark.parametrize("policy", ["members", "assigned"])
async def test_where_an_account_does_not_get_in_there_is_no_link(scene: Doorstep, policy: str) -> None:
    await scene.policy(policy)
    assert await scene.links() == []
    # It says nothing about an address.
    for person in (scene.owner.email, "nobody@example.net"):
        assert await scene.links(login_hint=person) == []
    await scene.policy("anyone")
    assert len(await scene.links()) == 1


@pytest.mark.parametrize("policy", ["closed", "invitation"])
async def test_where_the_organization_gives_nobody_an_account_there_is_no_link(scene: Doorstep, policy: str) -> None:
    await scene.registration(policy)
    assert await scene.links() == []


@pytest.mark.parametrize(("join_policy", "proved", "links"), [("on", True, 1), ("ask", True, 1), ("off", True, 0), ("on", False, 0)])
async def test_people_of_a_proved_domain_who_may_join_have_a_link(scene: Doorstep, join_policy: str, proved: bool, links: int) -> None:
    await scene.policy("members")
    route(scene.people, scene.acme, "acme.example", provider=None, login="password_allowed", join=join_policy, proved=proved)
    assert len(await scene.links()) == links


async def test_the_domain_of_another_organization_opens_nothing_here(scene: Doorstep) -> None:
    await scene.policy("members")
    route(scene.people, scene.tenants.add("globex"), "globex.example", provider=None, login="password_allowed", join="on")
    assert await scene.links() == []


async def test_the_page_that_fails_has_no_link_either(scene: Doorstep) -> None:
    await scene.policy("members")
    tab = await scene.browser().tab().open(scene.asking())
    await tab.send(email="no address")
    assert tab.status == 400
    assert [link for link in tab.page.links if link.startswith("/ui/register")] == []


async def test_whoever_types_the_address_of_the_registration_gets_what_the_rules_say(scene: Doorstep) -> None:
    await scene.policy("members")
    tab = await scene.browser().tab().open(scene.asking())
    flow = tab.page.forms[0].fields["flow"]
    await tab.open(f"/ui/register?flow={flow}")
    assert (tab.status, [form.action for form in tab.page.forms]) == (200, ["/ui/register"])
    await scene.registration("closed")
    await tab.open(f"/ui/register?flow={flow}")
    assert (tab.status, tab.page.forms) == (200, [])
