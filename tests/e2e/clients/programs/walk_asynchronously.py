"""The asynchronous client, in Trio: several calls at once, each in a task of its own."""

import sys

import trio
from postern_client import AsyncPostern, errors

BASE_URL, EMAIL, PASSWORD = sys.argv[1:]


async def main() -> None:
    async with AsyncPostern(BASE_URL) as nobody:
        person = (await nobody.sign_in(email=EMAIL, password=PASSWORD)).access_token
    async with AsyncPostern(BASE_URL, token=person) as postern:
        made = await postern.create_organization(slug="trio", name="Trio")
        if made.organization.status == "pending":
            await postern.approve_organization(made.organization.id)
    async with AsyncPostern(BASE_URL, token=made.access_token) as owner:
        await work(owner)
    print("walked")


async def work(owner: AsyncPostern) -> None:
    slugs = [f"role{number}" for number in range(5)]

    async def create(slug: str) -> None:
        role = await owner.create_role("trio", slug=slug, name=slug.title(), permissions=["end_users.view"])
        assert role.permissions == ["end_users.view"]

    async with trio.open_nursery() as nursery:
        for slug in slugs:
            nursery.start_soon(create, slug)
    ids = {role.slug: role.id for role in await owner.list_roles("trio")}
    assert ids.keys() >= set(slugs)
    changed = await owner.change_role("trio", ids["role0"], name="The first")
    assert (changed.name, (await owner.get_role("trio", ids["role0"])).name) == ("The first", "The first")
    await owner.delete_role("trio", ids["role4"])
    try:
        await owner.get_role("trio", ids["role4"])
    except errors.NotFound as refused:
        assert refused.status == 404
    else:
        raise AssertionError
    entries = [entry.action async for entry in owner.iterate_audit_log("trio", target_type="role", limit=2)]
    assert len(entries) == 7, entries


trio.run(main)
