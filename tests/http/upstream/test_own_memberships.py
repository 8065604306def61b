"""A person who signs in through an organization's own provider, with an address in its proved domain, becomes a member by that."""

import pytest

from tests.http.browsing import Tabs
from tests.http.people import Person
from tests.http.routing import route
from tests.http.tenants import Tenant
from tests.http.upstream.scene import UpstreamScene
from tests.http.upstream.test_awaiting_second_factor import awaiting, connected
from tests.http.upstream.test_round_trips import trips

CALLBACK = "/auth/{provider}/callback"
PAGE = "/ui/confirm-membership"


def own(house: UpstreamScene, person: Person, tenant: Tenant) -> bool | None:
    rows = house.people.rows(
        "select own_since is not null as own from memberships where user_id = %s and org_id = %s", person.user, tenant.id
    )
    return rows[0]["own"] if rows else None


@pytest.fixture
def ada(house: UpstreamScene) -> Person:
    return house.verified()


async def entered(house: UpstreamScene, provider: str, tabs: Tabs | None = None) -> str:
    """Signs in through the provider. Returns the place to which the person is led."""
    house.sits(word="own" if provider not in house.fakes else provider)
    answer = await house.go(tabs or house.browser(), "?org=acme", word=provider)
    return answer.header("location") or ""


@pytest.mark.parametrize("again", [False, True])
async def test_a_listed_membership_becomes_their_own_in_the_same_round_trips(house: UpstreamScene, ada: Person, again: bool) -> None:
    provider = await house.own_provider()
    tabs = house.browser()
    if again:
        # A signed-in person goes on in that session, by another branch of the code.
        assert await entered(house, provider, tabs) == "/ui"
    house.tenants.join(ada, house.acme, listed=True)
    assert await entered(house, provider, tabs) == "/ui"
    assert own(house, ada, house.acme) is True
    if not again:
        return
    await entered(house, provider, house.browser())
    assert trips(house, CALLBACK) == 4


async def test_nobody_else_s_membership_becomes_their_own_by_it(house: UpstreamScene, ada: Person) -> None:
    provider = await house.own_provider()
    globex, bob = house.tenants.add("globex"), house.verified("bob@example.org")
    for person, tenant in ((ada, house.acme), (ada, globex), (bob, house.acme)):
        house.tenants.join(person, tenant, listed=True)
    assert (await entered(house, provider)).startswith(PAGE)
    assert (own(house, ada, house.acme), own(house, ada, globex), own(house, bob, house.acme)) == (True, False, False)


@pytest.mark.parametrize("join", ["on", "ask"])
async def test_who_becomes_a_member_by_the_domain_in_the_same_sign_in_is_one_by_their_own_act(
    house: UpstreamScene, ada: Person, join: str
) -> None:
    provider = await house.own_provider(domain="")
    route(house.people, house.acme, "example.org", provider=None, login="password_allowed", join=join)
    assert await entered(house, provider) == "/ui"
    assert own(house, ada, house.acme) is (True if join == "on" else None)


async def test_by_the_domain_alone_they_are_listed(house: UpstreamScene, ada: Person) -> None:
    house.word = "websuite"
    route(house.people, house.acme, "example.org", provider=None, login="password_allowed", join="on")
    assert (await entered(house, "websuite")).startswith(PAGE)
    assert own(house, ada, house.acme) is False


async def test_a_shared_provider_makes_nothing_their_own(house: UpstreamScene, ada: Person) -> None:
    house.tenants.join(ada, house.acme, listed=True)
    assert (await entered(house, "websuite")).startswith(PAGE)
    assert own(house, ada, house.acme) is False


async def test_a_provider_whose_domain_is_not_proved_or_of_a_platform_owner_does_not(house: UpstreamScene, ada: Person) -> None:
    provider = await house.own_provider()
    assert await entered(house, provider) == "/ui"
    house.tenants.join(ada, house.acme, listed=True)
    house.people.change("update users set is_platform_owner = true where id = %s", ada.user)
    await entered(house, provider)
    assert own(house, ada, house.acme) is False
    house.people.change("update users set is_platform_owner = false where id = %s", ada.user)
    house.people.change("update domains set verified_at = null, next_check_at = null")
    await entered(house, provider)
    assert own(house, ada, house.acme) is False


async def test_it_waits_for_the_second_factor(house: UpstreamScene) -> None:
    provider = await house.own_provider()
    ada, totp = await connected(house, provider)
    house.tenants.join(ada, house.acme, listed=True)
    tabs, tab = await awaiting(house, provider, "?org=acme")
    assert own(house, ada, house.acme) is False
    await tab.send(code="000000")
    assert own(house, ada, house.acme) is False
    await tab.send(code=totp.now())
    assert await house.who(tabs) == ada.user
    assert tab.place == "/ui"
    assert own(house, ada, house.acme) is True


async def test_a_second_factor_after_a_password_makes_nothing_their_own(house: UpstreamScene) -> None:
    await house.own_provider()
    ada, totp = await connected(house, "websuite")
    house.tenants.join(ada, house.acme, listed=True)
    _, tab = await awaiting(house, "websuite")
    await tab.send(code=totp.now())
    assert tab.place.startswith(PAGE)
    assert own(house, ada, house.acme) is False
