"""A person has allowed an application or a device that has no session yet. Once the person's sessions are ended, it gets none."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import pytest
import trio

from core.domain.identifiers import OrganizationId, ServiceId, SessionId, UserId
from core.domain.mail import Email
from core.domain.record.events import Actor
from entrypoints.bootstrap import Postern
from ports.unit_of_work import UnitOfWork
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.cast import all_at_once
from tests.http.client import Received
from tests.http.federation.devices import Codes, Sets
from tests.http.federation.relying import Application, oauth
from tests.http.people import People
from tests.http.signing_in import PASSWORD, unlimited

database_url, postern, people = http.database_url, http.postern, http.people

GONE: Final = (400, "invalid_grant")
DENIED: Final = (400, "access_denied")
ROUNDS: Final = 5


class CodesUnderWayScene(Sets):
    """Ada has allowed a device and an application of acme, and a device and an application of globex. None has redeemed its code yet."""

    async def prepare(self) -> None:
        self.admin = self.resident(self.acme, "admin")
        # Ada has used these services before.
        for place in (self.shop, self.tv, self.theirs):
            self.tenants.uses(self.ada, place.service)
        self.devices = [await self.approved(self.tv), await self.approved(self.theirs)]
        self.codes = [(one, await self.code(one)) for one in (self.shop, self.theirs)]
        self.lasting = [(one, await self.code(one, scopes="openid offline_access")) for one in (self.shop, self.theirs)]

    async def approved(self, application: Application) -> Codes:
        codes = await self.ask_for_codes(application, org=application.service.tenant.slug)
        await self.approve(codes)
        return codes

    async def outcomes(self) -> dict[str, list[bool]]:
        """Which of them get in: first acme's, then globex's."""
        return {
            "codes": [self.is_in(await self.redeem(*one)) for one in self.codes],
            "lasting": [self.is_in(await self.redeem(*one)) for one in self.lasting],
            "devices": [self.is_in(await self.poll(one)) for one in self.devices],
        }

    def is_in(self, answer: Received) -> bool:
        if answer.status == 200:
            self.kept(answer.json())
            return True
        assert oauth(answer) in (GONE, DENIED), answer.body
        return False

    async def within(self, *steps: Callable[[UnitOfWork], Awaitable[Any]]) -> None:
        async with self.postern.foundation.unit_of_work() as uow:
            await uow.accounts.lock_for_update(self.user)
            for step in steps:
                await step(uow)
            await uow.commit()

    @property
    def user(self) -> UserId:
        return UserId(self.ada.user)

    async def by_organization(self) -> Received:
        return await self.request("DELETE", f"/api/organizations/acme/users/{self.ada.user}/sessions", by=self.admin)

    async def by_directory(self) -> None:
        acme, now = OrganizationId(self.acme.id), self.postern.foundation.clock.now()
        await self.within(lambda uow: uow.provisioned_users.leave(acme, [self.user], now, deactivated=True))

    async def by_key(self) -> None:
        """The services end Ada's sessions by their API keys."""
        for application in (self.shop, self.tv):
            await self.within(
                partial(self._left, ServiceId(application.service.id)),
            )

    async def _left(self, service: ServiceId, uow: UnitOfWork) -> None:
        await uow.service_users.leave(service, OrganizationId(self.acme.id), self.user)

    async def by_saml(self) -> None:
        """A service provider signs Ada out by SAML."""
        for application in (self.shop, self.tv):
            service = ServiceId(application.service.id)
            await self.within(partial(lambda one, uow: uow.saml.end_sessions_in(one, self.user), service))

    async def by_taking_back(self) -> None:
        self.people.change("delete from consents where service_id <> %s", self.theirs.service.id)
        for application in (self.shop, self.tv):
            self.tenants.session(self.ada, application.service)
            await self.postern.federation.consents.revoke(self.user, ServiceId(application.service.id), Actor(self.user))

    async def by_person(self) -> None:
        """Ada ends the other sessions from the browser, whose own session goes on."""
        await self.postern.identity.sessions.sign_out_others(self.user, SessionId(self.ada.session), Actor(self.user))

    async def by_password(self) -> None:
        answer = await self.request(
            "POST", "/api/user/change-password", {"current_password": PASSWORD, "new_password": "the sun over the mountains"}
        )
        assert answer.status == 200, answer.body

    async def by_office(self) -> None:
        await self.postern.platform.platform_owners.promote(Email(self.ada.email))

    async def by_operator(self) -> None:
        await self.postern.platform.account_administration.revoke_sessions(Email(self.ada.email), "grace")

    async def by_deactivation(self) -> None:
        administration = self.postern.platform.account_administration
        await administration.deactivate(Email(self.ada.email), "grace")
        await administration.activate(Email(self.ada.email), "grace")


@pytest.fixture
async def scene(postern: Postern, people: People, log: CapturedLog) -> CodesUnderWayScene:
    scene = CodesUnderWayScene(postern, people, unlimited(postern), log)
    maker = await people.with_password(PASSWORD)
    chosen = "update users set password_hash = (select password_hash from users where id = %s) where id = %s"
    people.change(chosen, maker.user, scene.ada.user)
    await scene.prepare()
    return scene


async def test_nobody_has_ended_anything(scene: CodesUnderWayScene) -> None:
    assert await scene.outcomes() == {"codes": [True, True], "lasting": [True, True], "devices": [True, True]}


@pytest.mark.parametrize(
    "way",
    [
        CodesUnderWayScene.by_organization,
        CodesUnderWayScene.by_directory,
        CodesUnderWayScene.by_key,
        CodesUnderWayScene.by_saml,
        CodesUnderWayScene.by_taking_back,
    ],
)
async def test_it_ends_with_the_sessions_in_an_organization_and_nothing_elsewhere(
    scene: CodesUnderWayScene, way: Callable[[CodesUnderWayScene], Awaitable[object]]
) -> None:
    await way(scene)
    assert await scene.outcomes() == {"codes": [False, True], "lasting": [False, True], "devices": [False, True]}


@pytest.mark.parametrize(
    "way",
    [
        CodesUnderWayScene.by_person,
        CodesUnderWayScene.by_password,
        CodesUnderWayScene.by_office,
        CodesUnderWayScene.by_operator,
        CodesUnderWayScene.by_deactivation,
    ],
)
async def test_it_ends_with_all_sessions(scene: CodesUnderWayScene, way: Callable[[CodesUnderWayScene], Awaitable[object]]) -> None:
    await way(scene)
    assert await scene.outcomes() == {"codes": [False, False], "lasting": [False, False], "devices": [False, False]}


async def test_the_codes_of_others_stay(scene: CodesUnderWayScene) -> None:
    bob = scene.people.add("bob@example.org")
    theirs, codes = await scene.code(scene.shop, bob), await scene.ask_for_codes()
    await scene.approve(codes, bob)
    await scene.by_organization()
    await scene.by_person()
    assert scene.is_in(await scene.redeem(scene.shop, theirs))
    assert scene.is_in(await scene.poll(codes))


async def test_another_organization_ends_nothing(scene: CodesUnderWayScene) -> None:
    stranger = scene.resident(scene.tenants.add("initech"), "admin")
    answer = await scene.request("DELETE", f"/api/organizations/initech/users/{scene.ada.user}/sessions", by=stranger)
    assert answer.status == 404
    assert await scene.outcomes() == {"codes": [True, True], "lasting": [True, True], "devices": [True, True]}


@pytest.mark.parametrize("what", ["code", "lasting", "device"])
@pytest.mark.parametrize("way", ["organization", "consent"])
async def test_whoever_redeems_while_it_is_ended_waits_and_gets_nothing(scene: CodesUnderWayScene, what: str, way: str) -> None:
    """The redeeming request has begun, and has seen the code as still valid."""
    answers: list[Received] = []

    async def redeem() -> None:
        match what:
            case "code":
                answers.append(await scene.redeem(*scene.codes[0]))
            case "lasting":
                answers.append(await scene.redeem(*scene.lasting[0]))
            case _:
                answers.append(await scene.poll(scene.devices[0]))

    async with trio.open_nursery() as nursery, scene.postern.foundation.unit_of_work() as uow:
        await uow.accounts.lock_for_update(scene.user)
        if way == "organization":
            assert await uow.end_users.end_sessions(OrganizationId(scene.acme.id), scene.user) == 0
        else:
            for application in (scene.shop, scene.tv):
                scene.tenants.session(scene.ada, application.service)
                assert await uow.consents.revoke(scene.user, ServiceId(application.service.id)) is not None
        nursery.start_soon(redeem)
        await scene.people.somebody_waits()
        await uow.commit()
    assert not scene.is_in(answers[0])
    assert scene.living() == 0


@pytest.mark.parametrize("policy", ["anyone", "members"])
async def test_whoever_redeems_while_the_membership_ends_that_let_them_in_gets_nothing(scene: CodesUnderWayScene, policy: str) -> None:
    scene.tenants.join(scene.ada, scene.acme)
    scene.people.change("delete from consents")
    scene.people.change("update service_users set own_since = null")
    scene.people.change("update services set trusted = true, sign_in_policy = %s where id = %s", policy, scene.shop.service.id)
    answers: list[Received] = []

    async def redeem() -> None:
        answers.append(await scene.redeem(*scene.lasting[0]))

    async with trio.open_nursery() as nursery, scene.postern.foundation.unit_of_work() as uow:
        acme = OrganizationId(scene.acme.id)
        await uow.members.find_for_update(acme, UserId(scene.admin.user), scene.user)
        assert await uow.members.remove(acme, scene.user)
        nursery.start_soon(redeem)
        await scene.people.somebody_waits()
        await uow.commit()
    assert not scene.is_in(answers[0])
    assert scene.living() == 0


@pytest.mark.parametrize("what", ["code", "device"])
async def test_the_organization_ends_the_session_that_is_opened_meanwhile(scene: CodesUnderWayScene, what: str) -> None:
    """In either order, no session is alive afterwards."""
    for _ in range(ROUNDS):
        code, device = await scene.code(scene.shop, scopes="openid offline_access"), await scene.approved(scene.tv)

        async def redeem(code: str = code, device: Codes = device) -> Received:
            return await scene.redeem(scene.shop, code) if what == "code" else await scene.poll(device)

        answers = await all_at_once(redeem, scene.by_organization)
        assert sorted(answer.status for answer in answers) in ([200, 200], [200, 400])
        assert scene.living() == 0
