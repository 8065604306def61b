"""What people let Acme's agents do, on the pages of the application and of the person, and its end."""

from typing import Any
from uuid import UUID

import pytest

from core.frozen import Frozen
from tests.http.pages.console.conftest import ConsoleScene
from tests.http.people import Person
from tests.http.tenants import UsedService

ORDERS = "https://api.acme.example/orders"
AGENTS = "/people/agents"


class LetIn(Frozen):
    """Bob lets the agent act."""

    console: ConsoleScene
    bob: Person
    helper: UsedService

    def grant(self, person: Person) -> UUID:
        grant, change = self.console.postern.foundation.ids.new(), self.console.people.change
        change(
            "insert into consents (id, user_id, service_id, scopes, granted_at) values (gen_random_uuid(), %s, %s, '{}', now())",
            *(person.user, self.helper.id),
        )
        change(
            "insert into resource_consents (user_id, service_id, resource_id, identifier, scopes, granted_at, id, expires_at)"
            " values (%s, %s, gen_random_uuid(), %s, '{orders:read}', now(), %s, now() + interval '30 days')",
            *(person.user, self.helper.id, ORDERS, grant),
        )
        return grant


@pytest.fixture
def let_in(console: ConsoleScene) -> LetIn:
    helper = console.tenants.service(console.acme, "helper")
    console.people.change("update all_services set is_agent = true where id = %s", helper.id)
    bob = console.people.add("bob@example.org")
    console.tenants.uses(bob, helper)
    return LetIn(console, bob, helper)


async def test_the_agents_and_the_persons_page_show_it(let_in: LetIn) -> None:
    console, grant = let_in.console, let_in.grant(let_in.bob)
    for page, other in (("/applications/helper", "bob@example.org"), (f"/people/users/{let_in.bob.user}", "Helper")):
        tab = await console.at(page)
        for words in ("Agent grants", other, ORDERS):
            assert words in tab.page.text, (page, words)
        assert f"/ui/o/acme{AGENTS}/{grant}" in tab.page.links
    assert "Helper" in (await console.at(f"{AGENTS}?user_id={let_in.bob.user}")).page.text
    assert "Helper" not in (await console.at(f"{AGENTS}?user_id={console.ada.user}")).page.text


async def test_an_administrator_ends_one(let_in: LetIn) -> None:
    console, grant = let_in.console, let_in.grant(let_in.bob)
    tab = await console.at(f"{AGENTS}/{grant}")
    for words in ("bob@example.org", "Helper", "orders:read", ORDERS):
        assert words in tab.page.text
    await console.at(f"{AGENTS}/{grant}/end")
    await console.submit(f"{AGENTS}/{grant}/end")
    assert console.people.rows("select from resource_consents") == []
    assert (await console.at(f"{AGENTS}/{grant}")).status == 404
    _, theirs = console.stranger()
    assert (await theirs.open(f"/ui/o/acme{AGENTS}")).status == 403


async def test_an_administrator_ends_all_of_an_agent(let_in: LetIn) -> None:
    console = let_in.console
    let_in.grant(let_in.bob)
    assert "Revoke all agent grants" in (await console.at("/applications/helper/sign-in")).page.text
    await console.at("/applications/helper/sign-in/end-agent")
    await console.submit("/applications/helper/sign-in/end-agent")
    (service,) = console.people.rows("select agent_since is not null as ended from all_services where id = %s", let_in.helper.id)
    assert service["ended"]
    assert "No agent grants" in (await console.at(AGENTS)).page.text


async def test_an_ordinary_application_has_none(let_in: LetIn) -> None:
    let_in.console.tenants.service(let_in.console.acme, "shop")
    for page in ("/applications/shop", "/applications/shop/sign-in"):
        text = (await let_in.console.at(page)).page.text
        assert "All agent grants" not in text
        assert "Revoke all agent grants" not in text


async def test_the_rules_forbid_agents(let_in: LetIn) -> None:
    console: Any = let_in.console
    tab = await console.at("/sign-in/change/programs")
    assert "Whether AI agents can act on behalf of people at your APIs" in tab.page.text
    await console.submit("/sign-in/change/programs", agents="forbidden")
    await console.submit("/sign-in/change/programs", sure="yes")
    (organization,) = console.people.rows("select agents from organizations where id = %s", console.acme.id)
    assert organization["agents"] == "forbidden"
    assert "AI agents are blocked from your APIs." in (await console.at("/sign-in")).page.text
