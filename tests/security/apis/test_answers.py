"""Attacks on what a person has answered about an API: an application goes around a refusal by an exchange of its own token, a session of
before goes on with what the newest answer takes away, and an assertion for one API becomes a token for another.
"""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

import pytest

from core.domain.identifiers import ResourceServerId, ServiceId, UserId
from core.domain.record.events import Actor
from entrypoints.bootstrap import Postern
from ops.stand_ins.fake_providers import FakeProvider
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.cast import all_at_once, served
from tests.http.client import Received
from tests.http.connections.asserting import Asserting
from tests.http.federation.arriving import left, told
from tests.http.federation.relying import CALLBACK, Application, claims_of, oauth
from tests.http.federation.resources.asking import BILLS, ORDERS
from tests.http.federation.resources.exchanging import STOCK, Exchanging
from tests.http.people import People
from tests.http.signing_in import unlimited

database_url, postern, people = http.database_url, http.postern, http.people
RACERS: Final = 200
SCOPE: Final = (400, "invalid_scope")
TARGET: Final = (400, "invalid_target")
READ: Final = "bills:read"
PAY: Final = "bills:pay"
_DEVICE: Final = "urn:ietf:params:oauth:grant-type:device_code"


class AnsweringScene(Exchanging):
    """The bills name `shop` in `exchanges` beside `desk`, and the organization's applications may ask for them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.owner = self.resident(self.acme, "owner")
        self.exchangers(self.bills, self.shop, self.desk)
        self.people.change("update resource_servers set admits = 'all' where id = %s", self.bills)

    async def answers(self, *ticked: str, application: Application | None = None) -> str:
        """The code, after the person has ticked these scopes at the bills, and no others."""
        tab = await self.asked(BILLS, application=application, scope=f"openid {READ} {PAY}", prompt="consent")
        return left(await tab.send(answer="allow", scopes=[f"{self.bills} {scope}" for scope in ticked]), CALLBACK)["code"]

    async def own_token(self) -> str:
        """The shop's token for itself, which it gets silently."""
        tab = await self.browser().tab().open(f"{self.address(scope='openid')}".partition("&resource=")[0])
        code = left(await tab.send(answer="allow"), CALLBACK)["code"] if tab.place.startswith("/ui/consent") else _code(tab.shown)
        return str(self.kept((await self.redeem(self.shop, code)).ok())["access_token"])

    async def take_back(self) -> None:
        consents, user = self.postern.federation.consents, UserId(self.ada.user)
        await consents.revoke_resource(user, ServiceId(self.shop.service.id), ResourceServerId(self.bills), Actor(user))

    async def api_says(self, **change: Any) -> None:
        path = f"/api/organizations/acme/resource-servers/{self.bills}"
        (await self.request("PATCH", path, change, by=self.owner)).ok()

    async def trust(self) -> None:
        (await self.request("PATCH", "/api/organizations/acme/services/shop", {"trusted": True}, by=self.owner)).ok()

    async def device_tokens(self, scope: str = f"{READ} {PAY}") -> dict[str, Any]:
        return self.kept((await self.polls(await self.approved_device(scope))).ok())

    async def approved_device(self, scope: str = f"{READ} {PAY}") -> str:
        """The device code, which the person has approved."""
        codes = (await self.ask("/auth/device/code", {**self.shop.posted, "resource": BILLS, "scope": f"openid {scope}"})).ok()
        self.log.remember(codes["device_code"], codes["user_code"])
        tab = await self.browser().tab().open(f"/ui/device?user_code={codes['user_code']}")
        await tab.send()
        await tab.send(answer="approve")
        return str(codes["device_code"])

    async def polls(self, code: str) -> Received:
        return await self.ask(fields={"grant_type": _DEVICE, "device_code": code, **self.shop.posted})

    async def introspected(self, token: str) -> str:
        return str((await self.introspect(self.other, token)).get("scope", ""))


def _code(answer: Received) -> str:
    return told(answer, CALLBACK)["code"]


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> AnsweringScene:
    return AnsweringScene(postern, people, unlimited(postern), log)


async def test_an_application_exchanges_towards_no_api_that_the_person_was_never_asked_about(scene: AnsweringScene) -> None:
    """Neither with its token for itself nor with one for another API."""
    for subject in (await scene.own_token(), await scene.subject()):
        for scope in (None, READ):
            assert oauth(await scene.exchange(scene.shop, subject, scope=scope)) == TARGET
    # A no to all of it is no answer that is kept, and leads nowhere either.
    tab = await scene.asked(BILLS, scope=f"openid {READ}")
    assert left(await tab.send(answer="deny"), CALLBACK)["error"] == "access_denied"
    refusal = await scene.exchange(scene.shop, await scene.own_token(), scope=READ)
    assert oauth(refusal) == TARGET
    assert "the person" in refusal.json()["error_description"]


async def test_an_application_exchanges_for_what_the_person_left_ticked(scene: AnsweringScene) -> None:
    own, at_orders = await scene.own_token(), await scene.subject()
    await scene.answers(READ)
    for subject in (own, at_orders, await scene.own_token()):
        assert oauth(await scene.exchange(scene.shop, subject, scope=PAY)) == SCOPE
        assert oauth(await scene.exchange(scene.shop, subject, scope=f"{READ} {PAY}")) == SCOPE
        assert claims_of(await scene.exchanged(scene.shop, subject, scope=READ))["scope"] == READ


async def test_what_the_person_takes_back_ends_with_what_came_of_it(scene: AnsweringScene) -> None:
    await scene.answers(READ, PAY)
    subject = await scene.own_token()
    token = await scene.exchanged(scene.shop, subject, scope=PAY)
    further = await scene.exchanged(scene.other, token, STOCK)
    assert await scene.is_active(scene.other, token)
    await scene.take_back()
    assert not await scene.is_active(scene.other, token)
    assert not await scene.is_active(scene.store, further)
    for shown in (subject, await scene.own_token()):
        assert oauth(await scene.exchange(scene.shop, shown, scope=READ)) == TARGET


async def test_what_the_person_unticks_leaves_the_exchanged_token(scene: AnsweringScene) -> None:
    await scene.answers(READ, PAY)
    subject = await scene.own_token()
    token = await scene.exchanged(scene.shop, subject, scope=f"{READ} {PAY}")
    assert await scene.introspected(token) == f"{READ} {PAY}"
    await scene.answers(READ)
    assert await scene.introspected(token) == READ
    assert oauth(await scene.exchange(scene.shop, token, scope=PAY)) == SCOPE


async def test_an_application_that_the_api_does_not_admit_exchanges_nothing_towards_it(scene: AnsweringScene) -> None:
    await scene.answers(READ, PAY)
    subject = await scene.own_token()
    token = await scene.exchanged(scene.shop, subject, scope=READ)
    await scene.api_says(admits="named")
    assert oauth(await scene.exchange(scene.shop, subject, scope=READ)) == TARGET
    assert not await scene.is_active(scene.other, token)
    await scene.api_says(admits="named", admitted_services=["shop"])
    await scene.exchanged(scene.shop, subject, scope=READ)


async def test_trust_answers_for_own_members_alone(scene: AnsweringScene) -> None:
    await scene.trust()
    subject = await scene.own_token()
    assert oauth(await scene.exchange(scene.shop, subject, scope=READ)) == TARGET
    # Somebody else lists the person.
    scene.tenants.join(scene.ada, scene.acme, "member")
    token = await scene.exchanged(scene.shop, subject, scope=f"{READ} {PAY}")
    assert await scene.introspected(token) == f"{READ} {PAY}"
    await scene.api_says(admits="named")
    assert oauth(await scene.exchange(scene.shop, subject, scope=READ)) == TARGET
    await scene.api_says(admits="all")
    path = "/api/organizations/acme/services/shop"
    (await scene.request("PATCH", path, {"trusted": False}, by=scene.owner)).ok()
    assert not await scene.is_active(scene.other, token)
    assert oauth(await scene.exchange(scene.shop, subject, scope=READ)) == TARGET


async def test_another_service_gets_nothing_that_the_person_refused_the_application(scene: AnsweringScene) -> None:
    """The shop's token goes to the orders, and their service exchanges it: nobody asks the person about that, but a no counts."""
    await scene.answers(READ, PAY)
    subject = await scene.subject()
    token = await scene.exchanged(scene.desk, subject, scope=f"{READ} {PAY}")
    await scene.answers(READ)
    assert oauth(await scene.exchange(scene.desk, subject, scope=PAY)) == SCOPE
    assert claims_of(await scene.exchanged(scene.desk, subject, scope=READ))["scope"] == READ
    assert await scene.introspected(token) == READ
    # Nor at the second hop.
    scene.exchangers(scene.stock, scene.desk)
    scene.exchangers(scene.bills, scene.store)
    second = await scene.exchanged(scene.desk, subject, STOCK)
    assert oauth(await scene.exchange(scene.store, second, scope=PAY)) == SCOPE
    assert claims_of(await scene.exchanged(scene.store, second, scope=READ))["scope"] == READ


async def test_the_application_behind_another_service_is_bound_as_at_first(scene: AnsweringScene) -> None:
    """The token comes back to the application by an API of its own, and the application exchanges it as its holder."""
    scene.exchangers(scene.stock, scene.desk)
    scene.people.change("update resource_servers set service_id = %s where id = %s", scene.shop.service.id, scene.stock)
    back = await scene.exchanged(scene.desk, await scene.subject(), STOCK)
    assert oauth(await scene.exchange(scene.shop, back, scope=READ)) == TARGET
    await scene.answers(READ)
    assert oauth(await scene.exchange(scene.shop, back, scope=PAY)) == SCOPE
    await scene.exchanged(scene.shop, back, scope=READ)


async def test_an_exchange_of_an_agent_of_meanwhile_does_not_live_again(scene: AnsweringScene) -> None:
    """The service that acts becomes an agent, and stops being one, within the life of its token."""
    token = await scene.exchanged(scene.desk, await scene.subject(), scope=READ)
    path = "/api/organizations/acme/services/desk"
    for is_agent in (True, False):
        (await scene.request("PATCH", path, {"is_agent": is_agent}, by=scene.owner)).ok()
        assert not await scene.is_active(scene.other, token)


async def test_the_newest_answer_counts_for_sessions_of_before(scene: AnsweringScene) -> None:
    code = await scene.answers(READ, PAY)
    tokens = scene.kept((await scene.redeem(scene.shop, code)).ok())
    assert await scene.introspected(tokens["access_token"]) == f"{READ} {PAY}"
    await scene.answers(READ)
    assert await scene.introspected(tokens["access_token"]) == READ
    refreshed = scene.kept((await scene.refresh(scene.shop, tokens["refresh_token"])).ok())
    assert refreshed["scope"] == f"openid {READ}"
    assert oauth(await scene.refresh(scene.shop, refreshed["refresh_token"], scope=PAY)) == SCOPE
    (access,) = await scene.postern.federation.consents.list(UserId(scene.ada.user))
    assert [list(one.scopes) for one in access.resources] == [["See your bills"]]
    # And a wider one again, without a new sign-in.
    await scene.answers(READ, PAY)
    assert (await scene.refresh(scene.shop, refreshed["refresh_token"])).ok()["scope"] == f"openid {READ} {PAY}"


async def test_the_newest_answer_counts_for_devices(scene: AnsweringScene) -> None:
    tokens = await scene.device_tokens()
    waiting = await scene.approved_device()
    await scene.answers(READ)
    assert await scene.introspected(tokens["access_token"]) == READ
    assert (await scene.refresh(scene.shop, tokens["refresh_token"])).ok()["scope"] == f"openid {READ}"
    assert (await scene.polls(waiting)).ok()["scope"] == f"openid {READ}"


async def test_an_approved_device_is_the_newest_answer(scene: AnsweringScene) -> None:
    """The person has refused a scope before, and then reads it on the page about the device."""
    await scene.answers(READ)
    assert (await scene.device_tokens(READ))["scope"] == f"openid {READ}"
    assert oauth(await scene.exchange(scene.shop, await scene.own_token(), scope=PAY)) == SCOPE
    tokens = await scene.device_tokens()
    assert tokens["scope"] == f"openid {READ} {PAY}"
    assert await scene.introspected(tokens["access_token"]) == f"{READ} {PAY}"
    (kept,) = scene.people.rows("select scopes, withheld from resource_consents")
    assert (sorted(kept["scopes"]), kept["withheld"]) == ([PAY, READ], [])


async def test_the_answer_does_not_reach_sessions_that_trust_opened(scene: AnsweringScene) -> None:
    scene.tenants.join(scene.ada, scene.acme, "member")
    await scene.trust()
    tokens = await scene.tokens(BILLS, scope=f"openid {READ} {PAY}")
    await scene.answers(READ)
    assert await scene.introspected(tokens["access_token"]) == f"{READ} {PAY}"
    assert (await scene.refresh(scene.shop, tokens["refresh_token"])).ok()["scope"] == f"openid {READ} {PAY}"


_Act = Callable[[AnsweringScene], Awaitable[Any]]
_ANSWERS: Final[dict[str, tuple[_Act, str]]] = {
    "takes it back": (AnsweringScene.take_back, ""),
    "unticks a scope": (lambda scene: scene.answers(READ), READ),
    "is a member no more": (
        lambda scene: scene.request("POST", f"/api/organizations/acme/members/{scene.ada.user}", None, by=scene.owner),
        "",
    ),
}


@pytest.mark.parametrize("what", _ANSWERS)
async def test_two_hundred_exchanges_race_with_the_answer(scene: AnsweringScene, what: str) -> None:
    """Whoever is quicker: at the next look, no token has more than the newest answer."""
    act, remains = _ANSWERS[what]
    if what == "is a member no more":
        await scene.trust()
        scene.tenants.join(scene.ada, scene.acme, "member")
    else:
        await scene.answers(READ, PAY)
    subject = await scene.own_token()
    answers: list[Received] = []

    async def exchange() -> None:
        answers.append(await scene.exchange(scene.shop, subject, scope=f"{READ} {PAY}"))

    half = RACERS // 2
    await all_at_once(*[exchange] * half, lambda: act(scene), *[exchange] * half)
    assert len(answers) == RACERS
    assert {answer.status for answer in answers} <= {200, 400, 401}
    won = [scene.kept(answer.json())["access_token"] for answer in answers if answer.status == 200]
    assert {await scene.introspected(token) for token in won} <= {remains}
    assert (await scene.exchange(scene.shop, subject, scope=PAY)).status in {400, 401}


async def test_two_hundred_refreshes_race_with_the_answer(scene: AnsweringScene) -> None:
    codes = [await scene.answers(READ, PAY)]
    codes += [_code(await scene.browser().request("GET", scene.address(None, BILLS, scope=f"openid {READ} {PAY}"))) for _ in range(20)]
    sessions = [scene.kept((await scene.redeem(scene.shop, code)).ok()) for code in codes]
    answers: list[Received] = []
    tab = await scene.asked(BILLS, scope=f"openid {READ} {PAY}", prompt="consent")
    form = tab.page.forms[0]

    async def refresh(token: str) -> None:
        answers.append(await scene.refresh(scene.shop, token))

    async def untick() -> None:
        fields = {**form.fields, "answer": "allow", "scopes": [f"{scene.bills} {READ}"]}
        tab.answer = await served(lambda: tab.tabs.request("POST", form.action, fields))
        assert left(tab, CALLBACK)["code"]

    shown = [str(tokens["refresh_token"]) for tokens in sessions] * (RACERS // len(sessions) + 1)
    half = RACERS // 2
    racers = [lambda token=token: refresh(token) for token in shown[:RACERS]]
    await all_at_once(*racers[:half], untick, *racers[half:])
    won = [scene.kept(answer.json()) for answer in answers if answer.status == 200]
    assert {await scene.introspected(tokens["access_token"]) for tokens in won} <= {READ, ""}
    again = [await scene.refresh(scene.shop, tokens["refresh_token"]) for tokens in won]
    assert {answer.json()["scope"] for answer in again if answer.status == 200} <= {f"openid {READ}"}


@pytest.fixture
def directory() -> Iterator[FakeProvider]:
    with FakeProvider() as running:
        yield running


class AssertingCaller(Asserting):
    """Acme's directory asserts Ada to the shop, and more APIs name services that exchange towards them."""

    def called(self, identifier: str, stands: Application, *exchangers: Application) -> None:
        api = self.api(identifier, scopes=[{"name": "read", "description": "Read"}], service_id=stands.service.id)
        for application in exchangers:
            self.people.change(
                "insert into resource_exchanges (id, resource_id, service_id) values (gen_random_uuid(), %s, %s)",
                *(api, application.service.id),
            )

    async def exchange(self, application: Application, token: str, resource: str, **fields: str) -> Received:
        subject = {"subject_token": token, "subject_token_type": "urn:ietf:params:oauth:token-type:access_token"}
        grant = "urn:ietf:params:oauth:grant-type:token-exchange"
        return await self.ask(fields={"grant_type": grant, **subject, "resource": resource, **application.posted, **fields})


@pytest.fixture
def asserted(postern: Postern, people: People, log: CapturedLog, directory: FakeProvider) -> AssertingCaller:
    caller = AssertingCaller(postern, people, unlimited(postern), log)
    caller.begin(directory)
    return caller


async def test_an_assertion_leads_to_no_api_but_its_own(asserted: AssertingCaller) -> None:
    """Not by the application, not even by one that is trusted, nor by a service behind the API, nor one hop later."""
    asserted.called(BILLS, asserted.other, asserted.shop, asserted.desk)
    asserted.people.change(
        "insert into resource_exchanges (id, resource_id, service_id) values (gen_random_uuid(), %s, %s)",
        *(asserted.api_id, asserted.desk.service.id),
    )
    two = await asserted.token(resource=[ORDERS])
    for application in (asserted.shop, asserted.desk):
        for fields in ({}, {"scope": "read"}):
            assert oauth(await asserted.exchange(application, two, BILLS, **fields)) == TARGET
    owner = asserted.boss
    (await asserted.request("PATCH", "/api/organizations/acme/services/shop", {"trusted": True}, by=owner)).ok()
    assert oauth(await asserted.exchange(asserted.shop, await asserted.token(), BILLS, scope="read")) == TARGET
    # At its own API it narrows, and the next hop leads out no more than the first.
    narrowed = (await asserted.exchange(asserted.desk, two, ORDERS, scope="orders:read")).ok()
    asserted.log.remember(narrowed["access_token"])
    assert (await asserted.introspect(asserted.desk, narrowed["access_token"]))["scope"] == "orders:read"
    assert oauth(await asserted.exchange(asserted.desk, narrowed["access_token"], BILLS, scope="read")) == TARGET


async def test_a_refusal_in_a_browser_takes_nothing_from_the_directorys_word(asserted: AssertingCaller) -> None:
    """The directory decides what its people's applications may do by its assertions, as trust does."""
    tab = await asserted.asked(prompt="consent")
    left(await tab.send(answer="allow", scopes=[f"{asserted.api_id} orders:read"]), CALLBACK)
    token = await asserted.token()
    assert (await asserted.introspect(asserted.desk, token))["scope"] == "orders:read orders:write"
