"""What an organization's people ask of one that is deleted at the same moment; and that each change is recorded whole or not at all."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
import trio

from core.domain.errors import Forbidden, NotFound, Unauthorized
from core.domain.identifiers import UserId
from core.domain.record.events import Actor
from core.domain.tenancy.members import Member
from core.domain.tenancy.organizations import OrganizationUpdate
from core.domain.tokens import KeyPurpose
from entrypoints.bootstrap import Postern
from tests.http.conftest import postern_on
from tests.http.people import People, Person
from tests.http.tenants import Tenant, Tenants
from tests.patience import PATIENCE
from tests.signing import current_key


class OwnedOrganization:
    """An organization, its owner as a request found them, and the tables past them."""

    def __init__(self, postern: Postern, people: People, tenants: Tenants) -> None:
        self.postern = postern
        self.people = people
        self.tenants = tenants
        self.tenant: Tenant = tenants.add("house")
        self.owner: Person = tenants.member(self.tenant, "owner")
        self.actor = Actor(UserId(self.owner.user))

    async def member(self) -> Member:
        return await self.postern.tenancy.callers.resolve_member(await self.people.token(self.owner), "house")

    def count(self, table: str) -> int:
        return len(self.people.rows(f"select 1 from {table}"))


@pytest.fixture
async def scene(emptied_database_url: str, tmp_path: Path) -> AsyncIterator[OwnedOrganization]:
    async with postern_on(emptied_database_url, tmp_path) as postern:
        async with postern.foundation.unit_of_work() as uow:
            await uow.signing_keys.lock_for_update()
            for purpose in KeyPurpose:
                await uow.signing_keys.add(current_key(purpose))
            await uow.commit()
        with People(postern, emptied_database_url) as people:
            yield OwnedOrganization(postern, people, Tenants(postern, people))


async def test_of_one_that_is_deleted_meanwhile_there_is_nothing(scene: OwnedOrganization) -> None:
    organizations, member = scene.postern.tenancy.organizations, await scene.member()
    await organizations.delete(member, scene.actor)
    audited = scene.count("audit_entries")
    with pytest.raises(NotFound):
        await organizations.get(member)
    with pytest.raises(NotFound):
        await organizations.change(member, OrganizationUpdate(name="Palace"), scene.actor)
    with pytest.raises(NotFound):
        await organizations.delete(member, scene.actor)
    assert scene.count("audit_entries") == audited
    assert scene.count("jobs") == 1


async def test_a_person_who_has_left_meanwhile_neither_sees_nor_deletes_it(scene: OwnedOrganization) -> None:
    organizations, member = scene.postern.tenancy.organizations, await scene.member()
    scene.people.change("delete from memberships")
    scene.people.change("delete from relations")
    with pytest.raises(NotFound):
        await organizations.get(member)
    with pytest.raises(Forbidden):
        await organizations.delete(member, scene.actor)
    assert scene.count("organizations") == 1


@pytest.mark.parametrize("loss", ["delete from memberships", "delete from relations"])
async def test_a_person_who_may_no_longer_change_it_does_not_rename_it(scene: OwnedOrganization, loss: str) -> None:
    organizations, member = scene.postern.tenancy.organizations, await scene.member()
    before, audited = scene.people.rows("select name from organizations"), scene.count("audit_entries")
    scene.people.change(loss)
    with pytest.raises(Forbidden):
        await organizations.change(member, OrganizationUpdate(name="Palace"), scene.actor)
    assert (scene.people.rows("select name from organizations"), scene.count("audit_entries")) == (before, audited)


@pytest.mark.parametrize(
    "end",
    [
        "update sessions set revoked_at = now() where id = %s",
        "update sessions set expires_at = now() - interval '1 second' where id = %s",
        "update sessions set ends_at = now() - interval '1 second' where id = %s",
        "update users set deactivated_at = now() where id = (select user_id from sessions where id = %s)",
        "delete from sessions where id = %s",
    ],
)
async def test_whose_session_ends_meanwhile_founds_nothing(scene: OwnedOrganization, end: str) -> None:
    caller = await scene.postern.tenancy.callers.resolve(await scene.people.token(scene.owner))
    scene.people.change(end, scene.owner.session)
    with pytest.raises(Unauthorized):
        await scene.postern.tenancy.organizations.found(caller, "palace", "Palace", scene.actor)
    assert (scene.count("all_organizations"), scene.count("audit_entries")) == (1, 0)


async def test_a_session_of_somebody_else_founds_nothing(scene: OwnedOrganization) -> None:
    stranger = scene.people.add()
    async with scene.postern.foundation.unit_of_work() as uow:
        assert await uow.sessions.find_opener_for_update((await scene.member()).caller.session, UserId(stranger.user)) is None


async def test_the_end_of_a_session_waits_for_the_one_that_is_opened_from_it(scene: OwnedOrganization) -> None:
    """So that it can be ended too: a stolen session must not save itself into another at the moment that it is ended."""
    caller = (await scene.member()).caller
    ended = trio.Event()

    async def deactivate() -> None:
        async with scene.postern.foundation.unit_of_work() as uow:
            await uow.accounts.lock_for_update(caller.user)
            await uow.accounts.deactivate(caller.user, scene.postern.foundation.clock.now())
            await uow.sessions.revoke_all(caller.user, but=None)
            await uow.commit()
        ended.set()

    async with trio.open_nursery() as nursery:
        async with scene.postern.foundation.unit_of_work() as uow:
            opener = await uow.sessions.find_opener_for_update(caller.session, caller.user)
            assert opener is not None
            nursery.start_soon(deactivate)
            await scene.people.somebody_waits()
            assert not ended.is_set()
            await scene.postern.identity.sessions.open(uow, opener.account, device=None, authenticated_by=(), parent=opener.session)
            await uow.commit()
        with trio.fail_after(PATIENCE):
            await ended.wait()
    assert [row["living"] for row in scene.people.rows("select revoked_at is null as living from sessions")] == [False, False]


async def test_going_from_session_to_session_keeps_nobody_signed_in(scene: OwnedOrganization) -> None:
    caller = (await scene.member()).caller
    scene.people.change("update users set email_verified_at = now()")
    scene.people.change("update sessions set ends_at = now() + interval '1 hour'")
    founded = await scene.postern.tenancy.organizations.found(caller, "palace", "Palace", scene.actor)
    ends = scene.people.rows("select ends_at - now() as left from sessions")
    assert len(ends) == 2
    assert all(row["left"] <= timedelta(hours=1) for row in ends)
    assert founded.tokens.expires_in <= 3600
