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


def own(scene: UpstreamScene, person: Person, tenant: Tenant) -> bool | None:
    rows = scene.people.rows(
        "select own_since is not null as own from memberships where user_id = %s and org_id = %s", person.user, tenant.id
    )
    return rows[0]["own"] if rows else None


@pytest.fixture
def ada(scene: UpstreamScene) -> Person:
    return scene.verified()


async def entered(scene: UpstreamScene, provider: str, tabs: Tabs | None = None) -> str:
    """Signs in through the provider. Returns the place to which the person is led."""
    scene.sits(word="own" if provider not in scene.fakes else provider)
    answer = await scene.go(tabs or scene.browser(), "?org=acme", word=provider)
    return answer.header("location") or ""


@pytest.mark.parametrize("again", [False, True])
async def test_a_listed_membership_becomes_their_own_in_the_same_round_trips(scene: UpstreamScene, ada: Person, again: bool) -> None:
    provider = await scene.own_provider()
    tabs = scene.browser()
    if again:
        # A signed-in person goes on in that session, by another branch of the code.
        assert await entered(scene, provider, tabs) == "/ui"
    scene.tenants.join(ada, scene.acme, listed=True)
    assert await entered(scene, provider, tabs) == "/ui"
    assert own(scene, ada, scene.acme) is True
    if not again:
        return
    await entered(scene, provider, scene.browser())
    assert trips(scene, CALLBACK) == 4


async def test_nobody_else_s_membership_becomes_their_own_by_it(scene: UpstreamScene, ada: Person) -> None:
    provider = await scene.own_provider()
    globex, bob = scene.tenants.add("globex"), scene.verified("bob@example.org")
    for person, tenant in ((ada, scene.acme), (ada, globex), (bob, scene.acme)):
        scene.tenants.join(person, tenant, listed=True)
    assert (await entered(scene, provider)).startswith(PAGE)
    assert (own(scene, ada, scene.acme), own(scene, ada, globex), own(scene, bob, scene.acme)) == (True, False, False)


@pytest.mark.parametrize("join", ["on", "ask"])
async def test_who_becomes_a_member_by_the_domain_in_the_same_sign_in_is_one_by_their_own_act(
    scene: UpstreamScene, ada: Person, join: str
) -> None:
    provider = await scene.own_provider(domain="")
    route(scene.people, scene.acme, "example.org", provider=None, login="password_allowed", join=join)
    assert await entered(scene, provider) == "/ui"
    assert own(scene, ada, scene.acme) is (True if join == "on" else None)


async def test_by_the_domain_alone_they_are_listed(scene: UpstreamScene, ada: Person) -> None:
    scene.word = "websuite"
    route(scene.people, scene.acme, "example.org", provider=None, login="password_allowed", join="on")
    assert (await entered(scene, "websuite")).startswith(PAGE)
    assert own(scene, ada, scene.acme) is False


async def test_a_shared_provider_makes_nothing_their_own(scene: UpstreamScene, ada: Person) -> None:
    scene.tenants.join(ada, scene.acme, listed=True)
    assert (await entered(scene, "websuite")).startswith(PAGE)
    assert own(scene, ada, scene.acme) is False


async def test_a_provider_whose_domain_is_not_proved_or_of_a_platform_owner_does_not(scene: UpstreamScene, ada: Person) -> None:
    provider = await scene.own_provider()
    assert await entered(scene, provider) == "/ui"
    scene.tenants.join(ada, scene.acme, listed=True)
    scene.people.change("update users set is_platform_owner = true where id = %s", ada.user)
    await entered(scene, provider)
    assert own(scene, ada, scene.acme) is False
    scene.people.change("update users set is_platform_owner = false where id = %s", ada.user)
    scene.people.change("update domains set verified_at = null, next_check_at = null")
    await entered(scene, provider)
    assert own(scene, ada, scene.acme) is False


async def test_it_waits_for_the_second_factor(scene: UpstreamScene) -> None:
    provider = await scene.own_provider()
    ada, totp = await connected(scene, provider)
    scene.tenants.join(ada, scene.acme, listed=True)
    tabs, tab = await awaiting(scene, provider, "?org=acme")
    assert own(scene, ada, scene.acme) is False
    await tab.send(code="000000")
    assert own(scene, ada, scene.acme) is False
    await tab.send(code=totp.now())
    assert await scene.who(tabs) == ada.user
    assert tab.place == "/ui"
    assert own(scene, ada, scene.acme) is True


async def test_a_second_factor_after_a_password_makes_nothing_their_own(scene: UpstreamScene) -> None:
    await scene.own_provider()
    ada, totp = await connected(scene, "websuite")
    scene.tenants.join(ada, scene.acme, listed=True)
    _, tab = await awaiting(scene, "websuite")
    await tab.send(code=totp.now())
    assert tab.place.startswith(PAGE)
    assert own(scene, ada, scene.acme) is False
