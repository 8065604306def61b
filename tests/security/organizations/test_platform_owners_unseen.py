"""Nobody learns from an organization's records who is an owner of the platform: neither its owner, nor its keys and directories."""

import re
from typing import Final

import pytest

from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from tests.http import conftest as http
from tests.http.people import People
from tests.http.signing_in import unlimited
from tests.http.tenants import Tenants
from tests.security.organizations.walk import CHANGES, EXPORTS, ORGANIZATION, SHOP, OrganizationWalker, Step, reads
from tests.security.organizations.world import World

database_url, postern, people = http.database_url, http.postern, http.people

_SAYS: Final = re.compile(rb'is_platform_owner[\\"]*,? *:? *(?:[\\"]*value[\\"]*: *)?(true|false)')


@pytest.fixture
def world(postern: Postern, people: People) -> World:
    made = World(postern, people)
    scene = made.asked
    for person in (scene.member, scene.admin, scene.customer):
        people.change("update users set is_platform_owner = true where id = %s", person.user)
    return made


@pytest.fixture
def walker(world: World, postern: Postern, people: People) -> OrganizationWalker:
    return OrganizationWalker(world, people, Tenants(postern, people), unlimited(postern))


async def test_no_answer_about_an_organization_tells_who_owns_the_platform(world: World, walker: OrganizationWalker) -> None:
    scene, said = world.asked, 0
    previews = [
        Step("GET", f"{SHOP}/token-preview", query=f"user_id={person.user}") for person in (scene.member, scene.admin, scene.customer)
    ]
    details = [Step("GET", f"{ORGANIZATION}/members/{{user_id}}", ids={"user_id": str(one.user)}) for one in (scene.member, scene.admin)]
    tells = []
    for step in (*previews, *details, *reads(), *EXPORTS, *CHANGES):
        if step.by == "governor":
            continue
        found = _SAYS.findall((await walker.ask(step)).body)
        said += len(found)
        tells += [str(step)] if b"true" in found else []
    assert tells == []
    # The field stands in many answers, of the same people.
    assert said > 20


async def test_a_platform_owner_reads_it_and_so_does_everybody_of_themselves(world: World, postern: Postern, people: People) -> None:
    client, scene = unlimited(postern), world.asked
    tenants = Tenants(postern, people)

    async def told(token: str) -> dict[str, bool]:
        answer = await client.get(f"/api/organizations/{scene.slug}/members", token=token)
        assert answer.status == 200, answer.body
        return {one["user"]["email"]: one["user"]["is_platform_owner"] for one in answer.json()["members"]}

    both = {scene.member.email, scene.admin.email}
    assert {email for email, governs in (await told(await tenants.token(scene.owner))).items() if governs} == set()
    # Whoever owns the platform reads it of everybody, in their own name.
    seen = await told(await people.token(scene.admin, is_platform_owner=True))
    assert {email for email, governs in seen.items() if governs} == both
    assert (await told(tenants.management_key(scene.tenant, scene.owner, [Capability.MEMBERS_VIEW])))[scene.admin.email] is False
    people.change("update users set is_platform_owner = false where id = %s", scene.member.user)
    assert (await told(await people.token(scene.admin, is_platform_owner=True)))[scene.member.email] is False
